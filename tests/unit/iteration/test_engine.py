# SPDX-License-Identifier: Apache-2.0
"""The engine: how many at a time, in which order, with which outcomes, and what failures do."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest

from airflow_provider_iteration.exceptions import ItemLimitExceeded, ItemsFailed
from airflow_provider_iteration.iteration import (
    RETRY,
    SKIP,
    Decision,
    Item,
    IterateOptions,
    Iteration,
    Outcome,
    by_type,
)
from tests.support.iteration import Counted, Gauge, Held, identity, outcomes_of, run, settled

AT_ONCE = {"item_retry_delay": 0}


async def fail_odd(value: int) -> int:
    if value % 2:
        raise ValueError(f"odd: {value}")
    return value


async def test_outcomes_carry_index_and_result() -> None:
    """One for each item."""
    outcomes = await outcomes_of(identity, ["a", "b", None])
    assert [(o.index, o.status, o.result, o.attempts) for o in outcomes] == [
        (0, "success", "a", 1),
        (1, "success", "b", 1),
        (2, "success", None, 1),
    ]


async def test_empty_input_is_a_run_of_nothing() -> None:
    """It is for the caller to say what that means."""
    assert (await run(identity, [])).progress.done == 0


async def test_input_may_carry_its_own_indexes() -> None:
    """An input with gaps, as after a restart, keeps the places of its items."""
    outcomes = await outcomes_of(identity, [(7, "a"), (3, "b")], indexed=True)
    assert [(o.index, o.result) for o in outcomes] == [(7, "a"), (3, "b")]


async def test_no_more_in_flight_than_allowed() -> None:
    """C1: as many as allowed, and never more."""
    gauge = Gauge()

    async def work(_: int) -> None:
        with gauge:
            await settled(3)

    await run(work, range(50), options={"task_concurrency": 5})
    assert gauge.most == 5


async def test_no_more_threads_than_allowed() -> None:
    """The same for functions that run in threads."""
    together = threading.Barrier(3, timeout=10)
    gauge, lock = Gauge(), threading.Lock()

    def work(_: int) -> None:
        with lock:
            gauge.__enter__()
        together.wait()
        with lock:
            gauge.__exit__()

    await run(work, range(30), options={"task_concurrency": 3})
    assert gauge.most == 3


async def test_starts_are_in_input_order() -> None:
    """Whatever finishes first."""
    held = Held()
    running = asyncio.ensure_future(run(held, range(4), options={"task_concurrency": 4}))
    await settled()
    started = list(held.started)
    held.release()
    await running
    assert started == [0, 1, 2, 3]


async def test_outcomes_are_in_order_of_completion() -> None:
    """A slow item holds no other back."""
    turns = [asyncio.Event() for _ in range(3)]
    outcomes: list[int] = []

    async def work(value: int) -> None:
        await turns[value].wait()

    def sink(outcome: Outcome) -> None:
        outcomes.append(outcome.index)
        if outcome.index:
            turns[outcome.index - 1].set()

    turns[2].set()
    await run(work, range(3), sink=sink)
    assert outcomes == [2, 1, 0]


@pytest.mark.parametrize("function", [identity, lambda value: value], ids=["coroutine", "thread"])
async def test_concurrency_of_one_is_serial(function: Any) -> None:
    """Each item is done, and delivered, before the next begins."""
    outcomes = await outcomes_of(function, range(20), options={"task_concurrency": 1})
    assert [outcome.index for outcome in outcomes] == list(range(20))


async def counted_async(source: Counted) -> AsyncIterator[int]:
    for item in source:
        yield item


@pytest.mark.parametrize("make", [lambda source: source, counted_async], ids=["thread", "async"])
async def test_input_is_read_as_it_is_worked_off(make: Any) -> None:
    """M1: no item is read without a free slot."""
    source, held = Counted(100), Held()
    running = asyncio.ensure_future(run(held, make(source), options={"task_concurrency": 4}))
    await held.reached(4)
    read = source.read
    held.release()
    await running
    assert (read, source.read) == (4, 100)


async def test_slow_sink_slows_the_reading() -> None:
    """An item keeps its slot until its outcome is delivered; one delivery is made at a time."""
    source, gauge, may_go_on = Counted(50), Gauge(), asyncio.Event()

    async def sink(outcome: Outcome) -> None:
        with gauge:
            await may_go_on.wait()

    items = counted_async(source)
    running = asyncio.ensure_future(run(identity, items, options={"task_concurrency": 4}, sink=sink))
    await settled()
    read = source.read
    may_go_on.set()
    await running
    assert (read, gauge.most) == (4, 1)


async def test_async_sink_gets_outcomes_in_order_of_completion() -> None:
    """As an ordinary one does."""
    got: list[int] = []

    async def sink(outcome: Outcome) -> None:
        await settled(outcome.index % 3)
        got.append(outcome.index)

    await run(identity, range(20), options={"task_concurrency": 5}, sink=sink)
    assert got == list(range(20))


async def failing_async_sink(outcome: Outcome) -> None:
    raise MemoryError


def failing_sink(outcome: Outcome) -> None:
    raise MemoryError


@pytest.mark.parametrize("sink", [failing_sink, failing_async_sink])
async def test_failing_sink_ends_the_run(sink: Any) -> None:
    """An outcome that is lost is no small matter; nothing new is begun, nothing is waited for in vain."""
    source = Counted(1000)
    with pytest.raises(MemoryError):
        await run(identity, source, options={"task_concurrency": 4}, sink=sink, grace=30)
    assert source.read < 20


async def test_sink_sees_the_context_of_the_run() -> None:
    """So that what it logs is tagged; also when the item ran in a thread."""
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="unset")
    variable.set("run")
    seen: list[str] = []
    for function in (identity, lambda value: value):
        await run(function, [1], sink=lambda _: seen.append(variable.get()))
    assert seen == ["run", "run"]


async def test_failed_item_is_tried_again() -> None:
    """As often as allowed, with its number; the outcome tells how often."""
    attempts: list[int] = []

    async def fail_twice(item: Item) -> str:
        attempts.append(item.attempt)
        if item.attempt < 3:
            raise OSError
        return "ok"

    outcomes = await outcomes_of(fail_twice, [1], options={"item_retries": 2, **AT_ONCE}, pass_item=True)
    assert (attempts, outcomes[0].result, outcomes[0].attempts) == ([1, 2, 3], "ok", 3)


async def test_retries_are_used_up() -> None:
    """The last error counts."""

    async def fail(item: Item) -> None:
        raise OSError(item.attempt)

    outcomes = await outcomes_of(fail, [1], options={"item_retries": 2, **AT_ONCE}, pass_item=True)
    assert [(o.status, o.attempts, str(o.error)) for o in outcomes] == [("failed", 3, "3")]


async def test_waiting_for_a_retry_keeps_the_slot() -> None:
    """Memory stays bounded, however many items fail; the other slots work on."""
    source, failed = Counted(40), set[int]()
    reads: list[int] = []

    async def fail_first_three_once(value: int) -> None:
        if value < 3 and value not in failed:
            failed.add(value)
            raise OSError
        reads.append(source.read - len(reads))

    options = {"task_concurrency": 4, "item_retries": 1, "item_retry_delay": 0.02}
    summary = await run(fail_first_three_once, source, options=options)
    assert (summary.progress.succeeded, summary.progress.retried) == (40, 3)
    assert max(reads) <= 4


async def test_retry_after_is_kept_to() -> None:
    """H7: what the server asks for counts more than the delay."""
    times: list[float] = []

    async def busy_once(_: int) -> None:
        times.append(asyncio.get_running_loop().time())
        if len(times) == 1:
            error = OSError("busy")
            error.retry_after = 0.05  # type: ignore[attr-defined]
            raise error

    await run(busy_once, [1], options={"item_retries": 1, **AT_ONCE})
    assert times[1] - times[0] >= 0.045


async def test_classifier_decides() -> None:
    """C4: skip, fail for good, or try again after a delay of its own."""
    starts: list[int] = []

    async def work(value: int) -> None:
        starts.append(value)
        raise (KeyError, LookupError, OSError)[value]

    def classify(error: Exception, attempt: int) -> Decision | None:
        return by_type(final=(KeyError,))(error, attempt) or (
            SKIP if type(error) is LookupError else RETRY._replace(delay=0)
        )

    options = {"item_retries": 1, "item_retry_delay": 3600}
    outcomes = await outcomes_of(work, range(3), options=options, classify=classify)
    assert sorted((o.index, o.status, o.attempts) for o in outcomes) == [
        (0, "failed", 1),
        (1, "skipped", 1),
        (2, "failed", 2),
    ]


async def test_failing_classifier_ends_the_run() -> None:
    """Its author has to know."""

    def classify(error: Exception, attempt: int) -> Decision | None:
        raise MemoryError

    with pytest.raises(MemoryError):
        await run(fail_odd, range(10), classify=classify, grace=30)


async def test_default_runs_all_then_fails_with_a_summary() -> None:
    """How many, of which kinds, where, and the first tracebacks."""
    outcomes: list[Outcome] = []
    with pytest.raises(ItemsFailed) as raised:
        await run(fail_odd, range(10), sink=outcomes.append)
    error = raised.value
    assert len(outcomes) == 10
    assert (error.failed, error.done, error.kinds, error.indexes) == (
        5,
        10,
        {"ValueError": 5},
        "1, 3, 5, 7, 9",
    )
    assert str(error).startswith("5 of 10 items failed (5 ValueError), at index 1, 3, 5, 7, 9\n\nitem 1:\n")
    assert str(error).count("Traceback") == 3


async def test_only_failure_is_raised_as_itself() -> None:
    """A caller may catch what the item raised; a note says which item it was."""
    with pytest.raises(ValueError, match="odd: 1") as raised:
        await run(fail_odd, range(3))
    assert raised.value.__notes__ == ["item 1 failed after 1 attempts; it is the only one of 3 that did"]


async def test_fail_fast_cancels_the_rest() -> None:
    """Those that are cancelled have no outcome; they are counted as unfinished."""
    held, outcomes = Held(), list[Outcome]()

    async def work(value: int) -> None:
        if value == 2:
            raise KeyError
        await held(value)

    options = IterateOptions(fail_fast=True, task_concurrency=3)
    iteration = Iteration(work, range(100), options, sink=outcomes.append)
    with pytest.raises(KeyError):
        await iteration.run()
    assert (held.started, held.cancelled) == ([0, 1], [0, 1])
    assert [(outcome.index, outcome.status) for outcome in outcomes] == [(2, "failed")]
    assert (iteration.progress().in_flight, iteration.progress().done) == (2, 1)


async def test_fail_fast_drops_what_waits_for_a_retry() -> None:
    """A long delay does not hold the end back."""

    async def work(value: int) -> None:
        raise (OSError if value == 0 else KeyError)

    options = {"fail_fast": True, "item_retries": 3, "item_retry_delay": 3600}
    with pytest.raises(KeyError):
        await run(work, range(2), options=options, classify=by_type(final=(KeyError,)))


async def test_fail_fast_delivers_the_failure_to_an_async_sink() -> None:
    """Also when nothing else is in flight."""
    got: list[Outcome] = []

    async def sink(outcome: Outcome) -> None:
        await settled()
        got.append(outcome)

    with pytest.raises(ValueError, match="odd: 1"):
        await run(fail_odd, [1], options={"fail_fast": True}, sink=sink)
    assert [outcome.index for outcome in got] == [0]


async def test_failures_below_the_limit_are_put_up_with() -> None:
    """The run succeeds, and says which items failed."""
    summary = await run(fail_odd, range(10), options={"max_failed_items": 5})
    assert (summary.failed.count, summary.failed.indexes_text()) == (5, "1, 3, 5, 7, 9")


async def test_failures_beyond_the_limit_end_the_reading() -> None:
    """What is in flight then is finished."""
    held, source = Held(), Counted(100)

    async def work(value: int) -> None:
        if value < 3:
            raise KeyError
        await held(value)

    running = asyncio.ensure_future(run(work, source, options={"max_failed_items": 2, "task_concurrency": 4}))
    await held.reached()
    held.release()
    with pytest.raises(ItemsFailed):
        await running
    assert (source.read <= 6, held.cancelled) == (True, [])


@pytest.mark.parametrize(("share", "succeeds"), [(0.5, True), (0.49, False)])
async def test_share_is_that_of_all_items(share: float, succeeds: bool) -> None:
    """It is looked at in the end, so a bad beginning is no reason to stop."""
    outcomes: list[Outcome] = []
    running = run(fail_odd, [1, 1, 2, 2], options={"max_failed_share": share}, sink=outcomes.append)
    if succeeds:
        await running
    else:
        with pytest.raises(ItemsFailed):
            await running
    assert len(outcomes) == 4


async def test_known_surplus_is_refused_before_anything_runs() -> None:
    """No work is wasted on an input that is too long."""
    outcomes: list[Outcome] = []
    with pytest.raises(ItemLimitExceeded, match="the input has more items than max_items=2 allows"):
        await run(identity, [1, 2, 3], options={"max_items": 2}, sink=outcomes.append)
    assert outcomes == []


async def test_surplus_item_is_not_run() -> None:
    """Of an input of unknown length, the items before it keep their outcomes."""
    outcomes: list[Outcome] = []
    with pytest.raises(ItemLimitExceeded) as raised:
        await run(identity, Counted(5), options={"max_items": 2}, sink=outcomes.append)
    assert [outcome.index for outcome in outcomes] == [0, 1]
    assert raised.value.__notes__ == ["items done before that: 2, of which failed: 0"]


async def test_input_of_exactly_the_limit_is_fine() -> None:
    """The limit is the last that is allowed."""
    assert (await run(identity, Counted(2), options={"max_items": 2})).progress.done == 2


async def broken_input() -> AsyncIterator[int]:
    yield 0
    yield 1
    raise OSError("lost")


async def test_broken_input_fails_the_run_after_what_it_gave() -> None:
    """Items in flight are finished first."""
    outcomes: list[Outcome] = []
    with pytest.raises(OSError, match="lost"):
        await run(fail_odd, broken_input(), sink=outcomes.append)
    assert [outcome.status for outcome in outcomes] == ["success", "failed"]


async def test_input_that_cancels_itself_fails_the_run() -> None:
    """That is no cancellation of the run."""

    async def cancelled() -> AsyncIterator[int]:
        yield 0
        raise asyncio.CancelledError

    with pytest.raises(RuntimeError, match="the input was cancelled by its own code"):
        await run(identity, cancelled())


async def test_nothing_is_kept_of_finished_items() -> None:
    """M2: memory is flat, however long the input is."""

    class Token:
        pass

    alive: list[int] = []

    async def work(token: Token) -> Token:
        return token

    def sink(outcome: Outcome) -> None:
        if outcome.index % 500 == 499:
            gc.collect()
            alive.append(sum(type(thing) is Token for thing in gc.get_objects()))

    await run(work, (Token() for _ in range(2000)), options={"task_concurrency": 8}, sink=sink)
    assert len(alive) == 4
    assert max(alive) <= 8 + 2
