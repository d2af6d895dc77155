# SPDX-License-Identifier: Apache-2.0
"""
The engine: takes items from a feed, has attempts made at them, and delivers one outcome for each.

It lives in callbacks rather than in worker tasks, because one more task switch an item is what an item
costs. A *slot* is what an item holds from the moment it is read until its outcome is delivered, also while
it waits for a retry or for the rate limit; there are as many slots as ``concurrency``, and no item is read
without a free one. So whatever is slow (an item, a retry, the sink) slows the reading down.
"""

from __future__ import annotations

import asyncio
import functools
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import Context
from typing import Any, Concatenate, ParamSpec, TypeAlias

import msgspec

from airflow_provider_iteration.exceptions import ItemCancelled, ItemLimitExceeded, TooManyStuck
from airflow_provider_iteration.iteration.attempts import Attempts, Item, Shared
from airflow_provider_iteration.iteration.limits import StartGate
from airflow_provider_iteration.iteration.outcomes import FailureLog, Outcome, Status
from airflow_provider_iteration.iteration.policies import FailurePolicy, Verdict
from airflow_provider_iteration.iteration.progress import Counters
from airflow_provider_iteration.iteration.retries import RETRY, Backoff, Classifier
from airflow_provider_iteration.iteration.sources import Feed, wait_closed
from airflow_provider_iteration.iteration.tasks import bare, disown

P = ParamSpec("P")

Sink: TypeAlias = Callable[[Outcome], Awaitable[None] | None]
"""
Takes each outcome, on the event loop, in the order in which items finish, and is never called before the
awaitable that it returned last is done. Should it raise, the run ends with that error.
"""
Recall: TypeAlias = Callable[[int], Outcome | None]
"""Returns the outcome of an item that needs no attempt, because it was done before, or None."""


class EngineSettings(msgspec.Struct, frozen=True, kw_only=True):
    """
    How an engine works.

    :param concurrency: number of slots.
    :param retries: how often a failed item is tried again.
    :param backoff: how long to wait before that.
    :param policy: what failed items mean for the run.
    :param classify: what a failed attempt means for its item; None retries all.
    :param sink: takes the outcomes.
    :param max_items: an input with more items than this is an error.
    :param indexed: whether the input gives pairs of an index and an item.
    :param recall: asked about each item before an attempt is made at it.
    :param grace: seconds that what was cancelled has to end.
    """

    concurrency: int
    retries: int
    backoff: Backoff
    policy: FailurePolicy
    classify: Classifier | None = None
    sink: Sink | None = None
    max_items: int | None = None
    indexed: bool = False
    recall: Recall | None = None
    grace: float


def _guarded(method: Callable[Concatenate[Engine, P], None]) -> Callable[Concatenate[Engine, P], None]:
    """Have whatever a callback raises end the run: the event loop would only log it."""

    def guarded(engine: Engine, /, *args: P.args, **kwargs: P.kwargs) -> None:
        try:
            method(engine, *args, **kwargs)
        except BaseException as error:
            engine.abort(error)

    functools.update_wrapper(guarded, method)
    return guarded


class Engine:
    """
    One run. Made on the event loop; all methods belong to its thread.

    :param settings: how it works.
    :param context: the context in which its callbacks, the sink for one, are called.
    """

    def __init__(self, settings: EngineSettings, context: Context) -> None:
        self.counters = Counters()
        self.failures = FailureLog()
        self._settings = settings
        self._context = context
        self._loop = asyncio.get_running_loop()
        self._sink = settings.sink
        self._grace = settings.grace
        self._open = True
        self._aborted = False
        self._stopping = False
        self._slots_taken = 0
        self._error: BaseException | None = None
        self._waiting: dict[Item, asyncio.TimerHandle] = {}
        self._deliveries: deque[Awaitable[None]] = deque()
        self._deliverer: asyncio.Task[None] | None = None
        self._idle = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._gate: StartGate | None = None

    def connect(self, feed: Feed, attempts: Attempts, shared: Shared, gate: StartGate | None) -> None:
        """
        Give the engine its parts, which need its callbacks.

        :param feed: what items come from.
        :param attempts: what makes the attempts.
        :param shared: what all items share.
        :param gate: what spaces the starts, if anything.
        """
        self._feed = feed
        self._attempts = attempts
        self._shared = shared
        self._gate = gate
        self._begin = attempts.start if gate is None else gate.admit

    async def run(self) -> None:
        """
        Work off the input.

        :raises BaseException: what ended the run before its end, if anything; never for a failed item.
        """
        previous = self._loop.get_exception_handler()
        self._loop.set_exception_handler(functools.partial(self._on_loop_error, previous))
        try:
            self._start()
            try:
                await self._idle.wait()
            except BaseException as error:
                self.abort(error)
                await self._idle.wait()
                raise
        finally:
            self._give_up()
            try:
                await wait_closed(self._feed, self._seconds_left())
            finally:
                self._loop.set_exception_handler(previous)
        if self._error is not None:
            raise self._error

    def abort(self, error: BaseException | None, grace: float | None = None) -> None:
        """
        Start nothing new, cancel what runs, and end within the grace.

        :param error: what the run is to raise; None if the failed items say it all.
        :param grace: seconds, instead of those in the settings.
        """
        self._note_error(error)
        if self._aborted:
            # It may have been the last one that was waited for.
            self._free(0)
            return
        self._aborted = True
        self._grace = self._grace if grace is None else grace
        self._timer = self._loop.call_later(self._grace, self._give_up, context=self._context)
        self._close_input()
        for timer in self._waiting.values():
            timer.cancel()
        dropped = len(self._waiting) + (self._gate.clear() if self._gate else 0)
        self._waiting.clear()
        self._attempts.cancel_all()
        self._free(dropped)

    def start_nothing_new(self) -> None:
        """Begin no further attempt from now on. Callable from any thread and any signal handler."""
        self._stopping = True

    # The input.

    @_guarded
    def _start(self) -> None:
        if self._open:
            self._feed.request(self._settings.concurrency)

    @_guarded
    def on_item(self, value: Any) -> None:
        """Take an item from the feed."""
        if not self._open or self._stopping:
            return
        counters, settings = self.counters, self._settings
        index = counters.taken
        if index == settings.max_items:
            self._end_input(ItemLimitExceeded(settings.max_items))
            return
        if settings.indexed:
            index, value = value
        counters.taken += 1
        self._slots_taken += 1
        if settings.recall is not None and (outcome := settings.recall(index)) is not None:
            self._on_recalled(outcome)
        else:
            self._begin(Item(index, value, self._shared))

    def _on_recalled(self, outcome: Outcome) -> None:
        if outcome.status == "success":
            self.counters.succeeded += 1
        else:
            self.counters.skipped += 1
        self._deliver(outcome)

    @_guarded
    def on_input_end(self, error: BaseException | None) -> None:
        """Take the end of the input from the feed, or what reading it raised."""
        if not self._open:
            return
        if error is not None and not isinstance(error, Exception):
            raise error
        self._end_input(error)

    def _end_input(self, error: Exception | None) -> None:
        self._note_error(error)
        self._close_input()
        self._free(0)

    def _close_input(self) -> None:
        if self._open:
            self._open = False
            self._feed.close()

    # Attempts.

    def on_settled(self, item: Item, error: Exception | None, result: Any) -> None:
        """Take the end of an attempt; what this raises must come back by way of :meth:`abort`."""
        if error is None:
            self.counters.succeeded += 1
            self._deliver(self._outcome(item, "success", result, None))
        elif self._aborted and (item._cancelled or isinstance(error, ItemCancelled)):
            self._free(1)
        else:
            self._on_failure(item, error)

    def _on_failure(self, item: Item, error: Exception) -> None:
        settings = self._settings
        decision = (settings.classify and settings.classify(error, item.attempt)) or RETRY
        if decision.action == "skip":
            self.counters.skipped += 1
            self._deliver(self._outcome(item, "skipped", None, error))
        elif decision.action == "retry" and item.attempt <= settings.retries and not item._stuck:
            delay = decision.delay
            self._retry_later(item, settings.backoff.delay(item.attempt, error) if delay is None else delay)
        else:
            self._fail(item, error)
        if item._stuck and self._attempts.stuck > settings.concurrency:
            self.abort(TooManyStuck(settings.concurrency))

    def _fail(self, item: Item, error: Exception) -> None:
        self.counters.failed += 1
        outcome = self._outcome(item, "failed", None, error)
        self.failures.add(outcome)
        # Before the outcome is delivered, which makes room for another item.
        verdict = self._settings.policy.verdict(self.counters)
        if verdict is not Verdict.GO_ON:
            self._close_input()
        self._deliver(outcome)
        if verdict is Verdict.ABORT:
            self.abort(None)

    def _outcome(self, item: Item, status: Status, result: Any, error: Exception | None) -> Outcome:
        return Outcome(item.index, status, item.attempt, result, error, self._loop.time() - item._started)

    def _retry_later(self, item: Item, delay: float) -> None:
        if self._aborted:
            self._free(1)
            return
        self._waiting[item] = self._loop.call_later(delay, self._retry, item, context=self._context)

    @_guarded
    def _retry(self, item: Item) -> None:
        if self._stopping:
            return
        del self._waiting[item]
        self.counters.retried += 1
        self._begin(item)

    # Outcomes.

    def _deliver(self, outcome: Outcome) -> None:
        if self._sink is not None:
            pending = self._sink(outcome)
            if pending is not None:
                self._deliveries.append(pending)
                if self._deliverer is None:
                    self._deliverer = self._loop.create_task(
                        self._await_deliveries(), context=self._context.copy()
                    )
                return
        self._free(1)

    async def _await_deliveries(self) -> None:
        try:
            while self._deliveries:
                await self._deliveries[0]
                self._deliveries.popleft()
                self._free(1)
        except BaseException as error:
            if self._deliverer is None:  # given up
                return
            self._drop_deliveries()
            self.abort(error)
            self._free(0)
        self._deliverer = None

    def _drop_deliveries(self) -> None:
        while self._deliveries:
            delivery = self._deliveries.pop()
            if isinstance(delivery, Coroutine):
                delivery.close()

    def _free(self, slots: int) -> None:
        self._slots_taken -= slots
        if self._open:
            self._feed.request(slots)
        elif self._slots_taken <= 0 or (self._aborted and not self._is_busy()):
            self._idle.set()

    def _is_busy(self) -> bool:
        return bool(self._attempts.running or self._deliveries)

    # The end.

    def _note_error(self, error: BaseException | None) -> None:
        if error is None:
            return
        error = bare(error)
        # The first counts, but nothing ordinary may hide an interrupt.
        if self._error is None or (isinstance(self._error, Exception) and not isinstance(error, Exception)):
            self._error = error

    def _give_up(self) -> None:
        """Wait for nothing any more; after a run that came to its end there is nothing to give up."""
        self._open, self._aborted = False, True
        if self._timer is not None:
            self._timer.cancel()
        self._attempts.give_up_all()
        if self._deliverer is not None and self._deliveries:
            deliverer, self._deliverer = self._deliverer, None
            deliverer.cancel()
            disown(deliverer)
            # The first one belongs to the deliverer, which is at it.
            self._deliveries.popleft()
            self._drop_deliveries()
        self._idle.set()

    def _seconds_left(self) -> float:
        if self._timer is None:
            return self._grace
        return max(self._timer.when() - self._loop.time(), 0.0)

    def _on_loop_error(
        self,
        previous: Callable[[asyncio.AbstractEventLoop, dict[str, Any]], Any] | None,
        loop: asyncio.AbstractEventLoop,
        details: dict[str, Any],
    ) -> None:
        # A signal handler may raise while the loop is between two callbacks, where it only logs.
        error = details.get("exception")
        if error is not None and not isinstance(error, Exception):
            self.abort(error)
        elif previous is not None:
            previous(loop, details)
        else:
            loop.default_exception_handler(details)
