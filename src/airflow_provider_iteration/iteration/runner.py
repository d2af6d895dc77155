# SPDX-License-Identifier: Apache-2.0
"""One callable over many items: what the modules beside this one are put together for."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from collections.abc import Callable, Mapping
from contextvars import copy_context
from datetime import UTC, datetime
from typing import Any

import msgspec

from airflow_provider_iteration.exceptions import (
    InputPaused,
    ItemLimitExceeded,
    ItemsFailed,
    IterationStopped,
)
from airflow_provider_iteration.iteration.attempts import (
    Call,
    CoroutineAttempts,
    OnCancel,
    Shared,
    ThreadAttempts,
)
from airflow_provider_iteration.iteration.engine import Engine, EngineSettings, Recall, Sink
from airflow_provider_iteration.iteration.limits import StartGate
from airflow_provider_iteration.iteration.loops import check_no_loop, run_bounded
from airflow_provider_iteration.iteration.options import IterateOptions
from airflow_provider_iteration.iteration.outcomes import FailedItems
from airflow_provider_iteration.iteration.policies import FailurePolicy, policy_of
from airflow_provider_iteration.iteration.progress import (
    DEFAULT_EVERY,
    Progress,
    ProgressCallback,
    report_progress,
)
from airflow_provider_iteration.iteration.resources import ResourceFactory, Resources, check_factories
from airflow_provider_iteration.iteration.retries import Backoff, Classifier
from airflow_provider_iteration.iteration.sources import Items, check_items, known_length, open_feed
from airflow_provider_iteration.iteration.threads import Mailbox, ThreadPool

DEFAULT_GRACE = 2.0
MARGIN = 0.5


class Summary(msgspec.Struct, frozen=True):
    """
    What a run that succeeded has to say.

    :param progress: the numbers at its end.
    :param failed: the failed items that the policy puts up with.
    """

    progress: Progress
    failed: FailedItems


class Iteration:
    """
    Runs one callable over all items of an input, so many at a time.

    :param function: called with each item's value, or with an
        :class:`~airflow_provider_iteration.iteration.Item` if ``pass_item``.
    :param items: any iterable, or an asynchronous one. It is read once, and only as fast as it is worked
        off: never are more items read and unfinished than may be in flight.
    :param options: limits, retries and what to do about failed items.
    :param sink: takes each outcome in the order in which items finish; see
        :data:`~airflow_provider_iteration.iteration.Sink`. Without it results are dropped.
    :param resources: name → factory of a context manager that is entered once, before the first item.
    :param classify: what a failed attempt means for its item; by default each failed attempt is retried as
        long as there are retries.
    :param policy: what failed items mean for the run; by default what the options say.
    :param on_progress: called with a :class:`~airflow_provider_iteration.iteration.Progress` now and then.
    :param progress_every: seconds between two calls of ``on_progress``.
    :param on_cancel: called on the loop with an item whose attempt is about to be cancelled, or left alone
        in its thread: the moment to tell what it works on to stop.
    :param pass_item: whether ``function`` wants the item with its index, attempt and resources.
    :param indexed: whether the input gives pairs of an index and a value, for an input with gaps.
    :param recall: returns the outcome of an item that was done before, by its index, or None.
    :param is_async: whether ``function`` returns an awaitable; None looks at it.
    :param direct: whether the input may be read on the loop's thread, because it never blocks; None reads
        lists and their kin there, everything else in a thread.
    :param total: number of items, where the caller knows it; that of a list is known.
    :param grace: seconds that items have to end once they are cancelled, because of their timeout or of the
        end of the run, and each resource after that if the run was stopped, cancelled or interrupted.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        items: Items,
        options: IterateOptions | None = None,
        *,
        sink: Sink | None = None,
        resources: Mapping[str, ResourceFactory] | None = None,
        classify: Classifier | None = None,
        policy: FailurePolicy | None = None,
        on_progress: ProgressCallback | None = None,
        progress_every: float = DEFAULT_EVERY,
        on_cancel: OnCancel | None = None,
        pass_item: bool = False,
        indexed: bool = False,
        recall: Recall | None = None,
        is_async: bool | None = None,
        direct: bool | None = None,
        total: int | None = None,
        grace: float = DEFAULT_GRACE,
    ) -> None:
        self._options = options if options is not None else IterateOptions()
        self._is_async = is_coroutine_function(function) if is_async is None else is_async
        self._call: Call = function if pass_item else lambda item: function(item.value)
        self._items = items
        self._sink = sink
        self._resources = dict(resources or {})
        check_factories(self._resources)
        check_items(items)
        self._classify = classify
        self._policy = policy if policy is not None else policy_of(self._options)
        self._on_progress = on_progress
        self._progress_every = progress_every
        self._on_cancel = on_cancel
        self._indexed = indexed
        self._recall = recall
        self._direct = direct
        self._total = known_length(items) if total is None else total
        self._grace = grace
        self._concurrency = self._options.concurrency(threads=not self._is_async)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._engine: Engine | None = None
        self._stop_requested = False
        self._stop_grace: float | None = None
        self._started: datetime | None = None
        self._began = 0.0
        self._ended: float | None = None

    @property
    def concurrency(self) -> int:
        """How many items are in flight at most."""
        return self._concurrency

    async def run(self) -> Summary:
        """
        Work off the input. An iteration runs once.

        :return: the numbers, and which items failed if that was put up with.
        :raises ItemsFailed: if more than one item failed, unless the policy puts up with it; if only one
            did, its own exception is raised.
        :raises ItemLimitExceeded: if there are more items than ``max_items``; if that is known beforehand,
            none is run.
        :raises IterationStopped: if :meth:`stop` was called.
        :raises TooManyStuck: if more items than may be in flight are beyond their timeout and do not end.
        :raises ResourceFailed: if a resource cannot be entered or left.
        :raises InputPaused: if the input says that there are no more items for now. It is no failure:
            resources are left as after a success.
        """
        if self._loop is not None:
            raise RuntimeError("an iteration runs once: make another one")
        self._loop = asyncio.get_running_loop()
        self._started = datetime.now(UTC)
        self._began = self._loop.time()
        self._check_total()
        if self._stop_requested:
            raise IterationStopped(0, 0)
        mailbox = Mailbox(self._loop, copy_context())
        thread = ThreadPool(1, mailbox, "iteration-resources")
        resources = Resources(self._resources, thread)
        try:
            await self._run(resources, mailbox)
            self._raise_if_failed()
        except InputPaused:
            # What is done counts, so a transaction of the items is not to be rolled back.
            await resources.exit(None)
            raise
        except BaseException as error:
            await resources.exit(error, self._exit_seconds(error))
            raise
        else:
            await resources.exit(None)
        finally:
            thread.close()
            self._ended = self._loop.time()
        return self._summary()

    def run_blocking(self) -> Summary:
        """
        Work off the input in an event loop of its own, and wait for it; otherwise like :meth:`run`.

        To be preferred to ``asyncio.run``: what a signal handler raises comes out soon, wherever it hits,
        and nothing that hangs holds the end back.
        """
        check_no_loop("await run() instead")
        return run_bounded(self.run(), self._interrupt, lambda: 2 * self._cut_off_seconds + MARGIN)

    def start_nothing_new(self) -> None:
        """Begin no further attempt from now on; what runs goes on. Callable as :meth:`stop` is."""
        if self._engine is not None:
            self._engine.start_nothing_new()

    def stop(self, grace: float | None = None) -> None:
        """
        End the run soon: nothing new starts, what runs is cancelled, :meth:`run` raises `IterationStopped`.

        Callable from any thread and from a signal handler, at any time, again too.

        :param grace: seconds that items, and then each resource, have to end, instead of the iteration's.
        """
        self._stop_requested = True
        self._stop_grace = grace
        if self._engine is not None and self._loop is not None:
            self._engine.start_nothing_new()
            with contextlib.suppress(RuntimeError):  # the loop is closed: it is all over
                self._loop.call_soon_threadsafe(self._abort_stopped)

    def progress(self) -> Progress:
        """Return how far the run is. Callable from any thread."""
        if self._engine is None or self._loop is None:
            return Progress(0, 0, 0, 0, 0, 0, self._total, self._started, 0.0)
        now = self._ended if self._ended is not None else self._loop.time()
        return self._engine.counters.snapshot(self._total, self._started, now - self._began)

    def _exit_seconds(self, error: BaseException) -> float | None:
        """Leaving resources takes its time, also after failed items, unless the run was cut short."""
        if isinstance(error, Exception) and not isinstance(error, IterationStopped):
            return None
        return self._cut_off_seconds

    @property
    def _cut_off_seconds(self) -> float:
        return self._grace if self._stop_grace is None else self._stop_grace

    def _interrupt(self, error: BaseException) -> bool:
        if self._engine is None:
            return False
        self._engine.abort(error)
        return True

    def _check_total(self) -> None:
        limit = self._options.max_items
        if limit is not None and self._total is not None and self._total > limit:
            raise ItemLimitExceeded(limit)

    async def _run(self, resources: Resources, mailbox: Mailbox) -> None:
        values = await resources.enter()
        # A copy of the context as it is now: what asynchronous resources set is seen by the items.
        engine = self._engine = Engine(self._engine_settings(), copy_context())
        threads = ThreadPool(self._concurrency, mailbox)
        self._connect(engine, Shared(values, threads), mailbox)
        reporter = self._start_reporter()
        try:
            if self._stop_requested:  # while the resources were entered
                self._abort_stopped()
            await engine.run()
        except IterationStopped:
            raise
        except Exception as error:
            counters = engine.counters
            error.add_note(f"items done before that: {counters.done}, of which failed: {counters.failed}")
            raise
        finally:
            threads.close()
            if reporter is not None:
                reporter.cancel()

    def _engine_settings(self) -> EngineSettings:
        options = self._options
        return EngineSettings(
            concurrency=self._concurrency,
            retries=options.item_retries,
            backoff=Backoff(options.retry_delay_seconds),
            policy=self._policy,
            classify=self._classify,
            sink=self._sink,
            max_items=options.max_items,
            indexed=self._indexed,
            recall=self._recall,
            grace=self._grace,
        )

    def _connect(self, engine: Engine, shared: Shared, mailbox: Mailbox) -> None:
        context = copy_context()
        attempts_class = CoroutineAttempts if self._is_async else ThreadAttempts
        attempts = attempts_class(
            self._call,
            threads=shared.threads,
            timeout=self._options.timeout_seconds,
            grace=self._grace,
            context=context,
            on_settled=engine.on_settled,
            on_fatal=engine.abort,
            on_cancel=self._on_cancel,
        )
        feed = open_feed(
            self._items, engine.on_item, engine.on_input_end, mailbox, context=context, direct=self._direct
        )
        rate = self._options.rate
        gate = None if rate is None else StartGate(rate, attempts.start, engine.abort, context)
        engine.connect(feed, attempts, shared, gate)

    def _start_reporter(self) -> asyncio.Task[None] | None:
        if self._on_progress is None:
            return None
        return asyncio.create_task(report_progress(self.progress, self._on_progress, self._progress_every))

    def _abort_stopped(self) -> None:
        if self._engine is not None:
            progress = self.progress()
            self._engine.abort(IterationStopped(progress.done, progress.in_flight), self._stop_grace)

    def _raise_if_failed(self) -> None:
        assert self._engine is not None
        failures, counters = self._engine.failures, self._engine.counters
        if not counters.failed or self._policy.accepts(counters):
            return
        if (only := failures.only) is not None and only.error is not None:
            only.error.add_note(
                f"item {only.index} failed after {only.attempts} attempts; it is the only one of "
                f"{counters.done} that did"
            )
            raise only.error
        report = failures.report()
        raise ItemsFailed(report.count, counters.done, report.kinds, report.indexes_text(), report.tracebacks)

    def _summary(self) -> Summary:
        assert self._engine is not None
        return Summary(self.progress(), self._engine.failures.report())


def is_coroutine_function(function: Callable[..., Any]) -> bool:
    """
    Tell whether calling something gives a coroutine.

    :param function: a function, a partial, a method or an object with ``__call__``.
    """
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(type(function), "__call__", None)  # noqa: B004
    )
