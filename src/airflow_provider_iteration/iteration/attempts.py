# SPDX-License-Identifier: Apache-2.0
"""
Starts attempts at items, and ends those that take too long.

An attempt is a task of its own, or a job in a thread; either has a context of its own. Cancelling a
coroutine is a request: one that does not end within the grace is given up, as a thread is at once.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextvars import Context, copy_context
from types import CoroutineType
from typing import Any, ParamSpec, TypeAlias, TypeVar

from airflow_provider_iteration.exceptions import ItemCancelled, ItemTimeout
from airflow_provider_iteration.iteration.tasks import disown
from airflow_provider_iteration.iteration.threads import Job, JobState, ThreadPool

log = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")


class Shared:
    """
    What all items of a run share.

    :param resources: entered resources by name.
    :param threads: the run's pool.
    """

    __slots__ = ("resources", "threads")

    def __init__(self, resources: Mapping[str, Any], threads: ThreadPool) -> None:
        self.resources = resources
        self.threads = threads


class Item:
    """
    One item while it is worked on. A callable that asks for it may read it, and must not keep it.

    :ivar index: its place in the input.
    :ivar value: what the input gave.
    :ivar attempt: number of the attempt, from 1.
    """

    __slots__ = ("_cancelled", "_deadline", "_shared", "_started", "_stuck", "attempt", "index", "value")

    # When the attempt started, and when it is out of time, on the loop's clock.
    _started: float
    _deadline: float

    def __init__(self, index: int, value: Any, shared: Shared) -> None:
        self.index = index
        self.value = value
        self.attempt = 0
        self._shared = shared
        self._cancelled = False
        self._stuck = False

    @property
    def resources(self) -> Mapping[str, Any]:
        """The entered resources by name."""
        return self._shared.resources

    async def in_thread(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """
        Call in one of the run's threads, with a copy of the current context.

        If the item is cancelled meanwhile, the thread is given up, and the item is not tried again.

        :param function: what to call, with the other arguments.
        """
        return await self._shared.threads.run_in(
            copy_context(), lambda: function(*args, **kwargs), self._mark_stuck
        )

    def _mark_stuck(self) -> None:
        self._stuck = True

    def __repr__(self) -> str:
        return f"Item(#{self.index}, attempt={self.attempt})"


Call: TypeAlias = Callable[[Item], Any]
OnSettled: TypeAlias = Callable[[Item, Exception | None, Any], None]
OnFatal: TypeAlias = Callable[[BaseException], None]
OnCancel: TypeAlias = Callable[[Item], None]


class Attempts:
    """
    The attempts that are running.

    :param call: called with an item.
    :param timeout: seconds that an attempt may take, or None.
    :param grace: seconds in which a cancelled coroutine must end.
    :param context: of which each attempt gets a copy.
    :param on_settled: called with an item and the error or the result of its attempt, at most once each.
    :param on_fatal: called with what is no failure of an item but must end the run.
    :param on_cancel: called with an item whose attempt is about to be cancelled or given up.
    """

    def __init__(
        self,
        call: Call,
        *,
        timeout: float | None,
        grace: float,
        context: Context,
        on_settled: OnSettled,
        on_fatal: OnFatal,
        on_cancel: OnCancel | None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._call = call
        self._timeout = timeout
        self._grace = grace
        self._context = context
        self._on_settled = on_settled
        self._on_fatal = on_fatal
        self._on_cancel = on_cancel
        # In the order of their starts, so that the first has the first deadline.
        self._live: dict[Any, Item] = {}
        self._expired: dict[Any, Item] = {}
        self._timer: asyncio.TimerHandle | None = None

    def start(self, item: Item) -> None:
        """
        Start the next attempt at an item.

        :param item: one that is not being worked on.
        """
        raise NotImplementedError

    @property
    def running(self) -> int:
        """How many attempts have not ended and were not given up."""
        return len(self._live) + len(self._expired)

    def cancel_all(self) -> None:
        """Cancel what can be cancelled; nothing is settled by that alone."""
        for handle, item in list(self._live.items()):
            item._cancelled = self._cancel(handle, item)

    def give_up_all(self) -> int:
        """
        Give up what is still running.

        :return: how many attempts that were.
        """
        given_up = self.running
        for handle in (*self._live, *self._expired):
            self._give_up(handle)
        self._live.clear()
        self._expired.clear()
        self._stop_timer()
        return given_up

    @property
    def stuck(self) -> int:
        """How many attempts were given up and have not ended."""
        raise NotImplementedError

    def _cancel(self, handle: Any, item: Item) -> bool:
        """Ask an attempt to end; False if it cannot be asked, or has ended."""
        raise NotImplementedError

    def _give_up(self, handle: Any) -> None:
        raise NotImplementedError

    def _expire(self, handle: Any, item: Item) -> None:
        """End an attempt that is out of time; it is in neither table then."""
        raise NotImplementedError

    def _began(self, handle: Any, item: Item) -> None:
        item._started = now = self._loop.time()
        self._live[handle] = item
        if self._timeout is not None:
            item._deadline = now + self._timeout
            if self._timer is None:
                self._timer = self._loop.call_at(item._deadline, self._on_timer, context=self._context)

    def _on_timer(self) -> None:
        self._timer = None
        try:
            self._expire_due()
        except BaseException as error:
            self._on_fatal(error)

    def _expire_due(self) -> None:
        now = self._loop.time()
        for handle, item in list(self._live.items()):
            if item._deadline > now:
                break
            del self._live[handle]
            self._expire(handle, item)
        if self._live and self._timer is None:
            first = next(iter(self._live.values()))
            self._timer = self._loop.call_at(first._deadline, self._on_timer, context=self._context)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _tell(self, item: Item) -> None:
        if self._on_cancel is None:
            return
        try:
            self._on_cancel(item)
        except Exception:
            log.warning("what is called when an item is cancelled failed", exc_info=True)

    def _timeout_error(self) -> ItemTimeout:
        assert self._timeout is not None
        return ItemTimeout(self._timeout)


class CoroutineAttempts(Attempts):
    """Attempts that are tasks on the event loop."""

    def __init__(self, call: Call, *, threads: ThreadPool, **settings: Any) -> None:
        super().__init__(call, **settings)
        self._create_task = self._loop.create_task
        self._done_callback = self._on_done
        self._threads = threads
        self._given_up: set[asyncio.Task[Any]] = set()

    def start(self, item: Item) -> None:
        item.attempt += 1
        try:
            coroutine = self._call(item)
            if type(coroutine) is not CoroutineType:
                coroutine = _as_coroutine(coroutine)
        except Exception as error:
            coroutine = _raising(error)
        task = self._create_task(coroutine, context=self._context.copy())
        task.add_done_callback(self._done_callback, context=self._context)
        self._began(task, item)

    @property
    def stuck(self) -> int:
        return len(self._given_up) + self._threads.stuck

    def _on_done(self, task: asyncio.Task[Any]) -> None:
        try:
            item = self._live.pop(task, None)
            if item is None:
                self._on_late(task)
            elif task.cancelled():
                self._on_settled(item, ItemCancelled(), None)
            elif (error := task.exception()) is None:
                self._on_settled(item, None, task.result())
            elif isinstance(error, Exception):
                self._on_settled(item, error, None)
            else:
                self._on_fatal(error)
        except BaseException as error:
            self._on_fatal(error)

    def _on_late(self, task: asyncio.Task[Any]) -> None:
        self._given_up.discard(task)
        item = self._expired.pop(task, None)
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, Exception):
            self._on_fatal(error)
        elif item is not None:
            timeout = self._timeout_error()
            timeout.__cause__ = error
            self._on_settled(item, timeout, None)

    def _cancel(self, task: asyncio.Task[Any], item: Item) -> bool:
        if task.done():
            # The loop is about to say so, unless a signal has come in between.
            return False
        self._tell(item)
        return task.cancel()

    def cancel_all(self) -> None:
        super().cancel_all()
        for task in [task for task in self._live if task.done()]:
            self._on_done(task)

    def _expire(self, task: asyncio.Task[Any], item: Item) -> None:
        if self._cancel(task, item):
            self._expired[task] = item
            self._loop.call_later(self._grace, self._on_grace_over, task, context=self._context)
        else:
            # It has ended by itself, and the loop is about to say so.
            self._live[task] = item

    def _on_grace_over(self, task: asyncio.Task[Any]) -> None:
        if (item := self._expired.pop(task, None)) is None:
            return
        try:
            self._give_up(task)
            item._stuck = True
            self._on_settled(item, self._timeout_error(), None)
        except BaseException as error:
            self._on_fatal(error)

    def _give_up(self, task: asyncio.Task[Any]) -> None:
        self._given_up.add(task)
        disown(task)


class ThreadAttempts(Attempts):
    """Attempts that are jobs in threads."""

    def __init__(self, call: Call, *, threads: ThreadPool, **settings: Any) -> None:
        super().__init__(call, **settings)
        self._threads = threads

    def start(self, item: Item) -> None:
        item.attempt += 1
        job = self._threads.submit(self._call, item, self._context.copy(), self._on_end)
        self._began(job, item)

    @property
    def stuck(self) -> int:
        return self._threads.stuck

    def _on_end(self, job: Job) -> None:
        try:
            if (item := self._live.pop(job, None)) is None:
                return
            error = job.error
            if error is None and inspect.isawaitable(job.result):
                error = _unawaited(job.result)
            if error is None:
                self._on_settled(item, None, job.result)
            elif isinstance(error, Exception):
                self._on_settled(item, error, None)
            else:
                self._on_fatal(error)
        except BaseException as error:
            self._on_fatal(error)

    def _cancel(self, job: Job, item: Item) -> bool:
        self._tell(item)
        return False

    def _expire(self, job: Job, item: Item) -> None:
        if self._threads.abandon(job) is JobState.ENDED:
            # The loop is about to be told.
            self._live[job] = item
            return
        self._tell(item)
        item._stuck = True
        self._on_settled(item, self._timeout_error(), None)

    def _give_up(self, job: Job) -> None:
        self._threads.abandon(job)


async def _raising(error: Exception) -> None:
    raise error


async def _awaiting(awaitable: Awaitable[T]) -> T:
    return await awaitable


def _as_coroutine(value: Any) -> Any:
    if inspect.isawaitable(value):
        return _awaiting(value)
    raise TypeError(f"the callable must return an awaitable, it returned {type(value).__name__}")


def _unawaited(value: Any) -> TypeError:
    if inspect.iscoroutine(value):
        value.close()
    return TypeError(
        f"the callable returned an awaitable ({type(value).__name__}) in a thread: "
        "define it with `async def`, or say that it is asynchronous"
    )
