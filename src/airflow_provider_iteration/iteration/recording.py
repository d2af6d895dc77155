# SPDX-License-Identifier: Apache-2.0
"""What is done with the outcome of each item: kept, committed, told."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from airflow_provider_iteration.iteration.checkpoints import Done
from airflow_provider_iteration.iteration.engine import Sink
from airflow_provider_iteration.iteration.hooks import ItemHooks
from airflow_provider_iteration.iteration.item_context import item_context, set_current
from airflow_provider_iteration.iteration.outcomes import Outcome
from airflow_provider_iteration.iteration.task_checkpoints import Recalled, TaskCheckpoints
from airflow_provider_iteration.iteration.tasks import until
from airflow_provider_iteration.iteration.traces import OutletEvents, extras_of, is_complete, push_again

CALLBACK_THREADS = 8
CALLBACKS_BEHIND = 1000


class Recorder:
    """
    The sink of an iterated task.

    :param context: context of the task.
    :param hooks: what a user wants to be called.
    :param results: takes outcomes whose results are kept, or None.
    :param checkpoints: where what is done is committed, or None.
    :param push_results: whether each result is an XCom of its own, which a new try has to push again.
    """

    def __init__(
        self,
        context: Mapping[str, Any],
        hooks: ItemHooks,
        results: Sink | None,
        checkpoints: TaskCheckpoints | None,
        *,
        push_results: bool,
    ) -> None:
        self._context = context
        self._hooks = hooks
        self._results = results
        self._push_results = push_results
        self._events = OutletEvents(context.get("outlet_events"))
        self._callbacks = Callbacks(hooks)
        self._checkpoints = checkpoints
        if checkpoints is not None:
            checkpoints.tell(self._committed)

    def __call__(self, outcome: Outcome) -> Awaitable[None] | None:
        """Take an outcome; what is returned is to be awaited before the next one."""
        if type(outcome.result) is Recalled:
            return self._recalled(outcome, outcome.result)
        context = self._hooks.ended(outcome.index) or item_context(self._context, outcome.index)
        if outcome.status == "failed":
            return self._failed(outcome, context)
        extras = extras_of(context)
        self._events.add(outcome.index, extras)
        if self._hooks.awaits(outcome.status):
            self._callbacks.wait_for(outcome, context)
        pending = [self._results(outcome) if self._results is not None else None]
        if self._checkpoints is not None and is_complete(extras):
            pending.append(self._checkpoints.add(outcome, extras))
        else:
            self._leave_out(outcome.index)
            self._callbacks.start(outcome.index)
        pending.append(self._callbacks.caught_up())
        return _together(pending)

    def settle(self) -> None:
        """Set what the task as a whole emits, when all items have ended."""
        self._events.settle()

    def close(self, *, wait: bool) -> None:
        """End the threads of callbacks, after what they have to do or at once."""
        self._callbacks.close(wait=wait)

    def _committed(self, items: Sequence[Done]) -> None:
        for item in items:
            self._callbacks.start(item.index)

    def _leave_out(self, index: int) -> None:
        if self._checkpoints is not None:
            self._checkpoints.leave_out(index)

    def _failed(self, outcome: Outcome, context: Mapping[str, Any]) -> Awaitable[None] | None:
        self._leave_out(outcome.index)
        pending = [self._results(outcome) if self._results is not None else None]
        if self._hooks.awaits_failures:
            of_item = {**context, "exception": outcome.error}
            pending.append(asyncio.to_thread(_in_context, of_item, self._hooks.failed))
        return _together(pending)

    def _recalled(self, outcome: Outcome, recalled: Recalled) -> Awaitable[None] | None:
        pending = self._results(outcome) if self._results is not None else None
        pushes = self._push_results and outcome.status == "success"
        if not recalled.has_extras and not pushes:
            return pending
        return _together([self._done_again(recalled.index, pushes), pending])

    async def _done_again(self, index: int, pushes: bool) -> None:
        assert self._checkpoints is not None
        done = await asyncio.to_thread(self._checkpoints.item, index)
        self._events.add(index, done.extras)
        await asyncio.to_thread(push_again, self._context["ti"], done.extras)
        if pushes:
            ti = item_context(self._context, index)["ti"]
            await asyncio.to_thread(ti.push_result, done.result)


class Callbacks:
    """
    Calls the callbacks of items, in threads, each in its item's context.

    :param hooks: knows the callbacks.
    """

    def __init__(self, hooks: ItemHooks) -> None:
        self._hooks = hooks
        self._waiting: dict[int, tuple[str, Mapping[str, Any]]] = {}
        self._pool: ThreadPoolExecutor | None = None
        # Changed in several threads, by single calls only.
        self._pending: set[Future[None]] = set()

    def wait_for(self, outcome: Outcome, context: Mapping[str, Any]) -> None:
        """Note that callbacks are due for an item, once it is committed."""
        self._waiting[outcome.index] = (outcome.status, context)

    def start(self, index: int) -> None:
        """Call what is due for an item, soon."""
        if (waiting := self._waiting.pop(index, None)) is None:
            return
        if self._pool is None:
            self._pool = ThreadPoolExecutor(CALLBACK_THREADS, "iteration-callbacks")
        future = self._pool.submit(self._call, *waiting)
        self._pending.add(future)
        future.add_done_callback(self._pending.discard)

    def caught_up(self) -> Awaitable[None] | None:
        """Return what is to be awaited where too many callbacks wait for a thread."""
        return until(lambda: not self._is_behind()) if self._is_behind() else None

    def close(self, *, wait: bool) -> None:
        """End the threads, after what they have to do or at once."""
        if self._pool is not None:
            self._pool.shutdown(wait=wait, cancel_futures=not wait)

    def _call(self, status: str, context: Mapping[str, Any]) -> None:
        _in_context(context, lambda current: self._hooks.settled(status, current))

    def _is_behind(self) -> bool:
        return len(self._pending) > CALLBACKS_BEHIND


def _in_context(context: Mapping[str, Any], function: Callable[[Mapping[str, Any]], None]) -> None:
    set_current(context)
    function(context)


def _together(pending: Sequence[Awaitable[None] | None]) -> Awaitable[None] | None:
    due = [each for each in pending if each is not None]
    if len(due) <= 1:
        return due[0] if due else None
    return _one_by_one(due)


async def _one_by_one(pending: Sequence[Awaitable[None]]) -> None:
    for each in pending:
        await each
