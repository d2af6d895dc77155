# SPDX-License-Identifier: Apache-2.0
"""Attempts: their contexts, and what happens when they take too long."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from airflow_provider_iteration.exceptions import ItemCancelled, ItemTimeout, TooManyStuck
from airflow_provider_iteration.iteration import FAIL, Item, IterateOptions, Iteration, Outcome
from tests.support.iteration import Gauge, outcomes_of, run

VARIABLE: contextvars.ContextVar[int] = contextvars.ContextVar("variable", default=-1)
SHORT = 0.02


@pytest.fixture
def forever() -> Iterator[threading.Event]:
    """What a hanging thread waits for, until the test is over."""
    event = threading.Event()
    yield event
    event.set()


async def test_coroutines_have_contexts_of_their_own() -> None:
    """What an item sets, no other item sees, though they share one loop."""

    async def look_and_set(value: int) -> int:
        seen = VARIABLE.get()
        VARIABLE.set(value)
        await asyncio.sleep(0)
        assert VARIABLE.get() == value
        return seen

    assert {outcome.result for outcome in await outcomes_of(look_and_set, range(50))} == {-1}


async def test_threads_have_contexts_of_their_own() -> None:
    """The same for items that share threads; they see what was set before the run."""

    def look_and_set(value: int) -> int:
        seen = VARIABLE.get()
        VARIABLE.set(value)
        return seen

    VARIABLE.set(77)
    assert {outcome.result for outcome in await outcomes_of(look_and_set, range(50))} == {77}


async def test_attempts_of_one_item_have_contexts_of_their_own() -> None:
    """A retry does not see what the failed attempt left behind."""
    seen: list[int] = []

    async def fail_once(value: int) -> None:
        seen.append(VARIABLE.get())
        VARIABLE.set(value)
        if len(seen) == 1:
            raise OSError

    await run(fail_once, [5], options={"item_retries": 1, "item_retry_delay": 0})
    assert seen == [-1, -1]


async def test_slow_coroutine_is_cancelled_and_fails() -> None:
    """Its outcome is a timeout, which is an ordinary TimeoutError too."""
    cancelled: list[int] = []

    async def hang(value: int) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(value)
            raise

    outcomes = await outcomes_of(hang, [1], options={"item_timeout": SHORT})
    assert [(outcome.status, outcome.attempts) for outcome in outcomes] == [("failed", 1)]
    assert isinstance(outcomes[0].error, ItemTimeout)
    assert isinstance(outcomes[0].error, TimeoutError)
    assert cancelled == [1]


async def test_timeout_is_that_of_an_attempt() -> None:
    """An attempt that was cut off is followed by another."""
    attempts: list[int] = []

    async def hang_once(item: Item) -> str:
        attempts.append(item.attempt)
        if item.attempt == 1:
            await asyncio.Event().wait()
        return "ok"

    options = {"item_timeout": SHORT, "item_retries": 1, "item_retry_delay": 0}
    outcomes = await outcomes_of(hang_once, [1], options=options, pass_item=True)
    assert (attempts, outcomes[0].result, outcomes[0].attempts) == ([1, 2], "ok", 2)


async def test_each_item_has_the_whole_timeout() -> None:
    """The clock of an item starts with the item, so a long run is no problem."""

    async def pause(_: int) -> None:
        await asyncio.sleep(SHORT / 4)

    outcomes = await outcomes_of(
        pause, range(20), options={"item_timeout": SHORT * 10, "task_concurrency": 1}
    )
    assert {outcome.status for outcome in outcomes} == {"success"}


async def test_coroutine_that_ignores_its_cancellation_is_reported() -> None:
    """It is given up after the grace, and not tried again while it may still run."""
    released = asyncio.Event()
    starts: list[int] = []

    async def ignore(value: int) -> None:
        starts.append(value)
        while not released.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await released.wait()

    options = {"item_timeout": SHORT, "item_retries": 3, "item_retry_delay": 0}
    outcomes = await outcomes_of(ignore, [1], options=options, grace=0.01)
    released.set()
    assert ([outcome.error_kind for outcome in outcomes], starts) == (["ItemTimeout"], [1])


async def test_what_a_cancelled_coroutine_returns_comes_too_late() -> None:
    """It was beyond its time, whatever it says in the end."""

    async def answer_late(_: int) -> str:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        return "late"

    outcomes = await outcomes_of(answer_late, [1], options={"item_timeout": SHORT})
    assert [(outcome.error_kind, outcome.result) for outcome in outcomes] == [("ItemTimeout", None)]


async def test_what_a_cancelled_coroutine_raises_is_the_cause() -> None:
    """The error of its clean-up is not lost."""

    async def clean_up_badly(_: int) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            raise KeyError

    outcomes = await outcomes_of(clean_up_badly, [1], options={"item_timeout": SHORT})
    assert outcomes[0].error is not None
    assert isinstance(outcomes[0].error.__cause__, KeyError)


def test_coroutine_that_never_ends_does_not_keep_asyncio_run() -> None:
    """The loop's own end does not wait for what was given up."""

    async def main() -> list[str | None]:
        async def ignore(_: int) -> None:
            while True:
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.Event().wait()

        outcomes = await outcomes_of(ignore, [1], options={"item_timeout": SHORT}, grace=0.01)
        return [outcome.error_kind for outcome in outcomes]

    assert asyncio.run(main()) == ["ItemTimeout"]


async def test_hanging_thread_is_reported_and_replaced(forever: threading.Event) -> None:
    """The item fails once, however many retries it has; the others run although the only thread hangs."""
    starts: list[int] = []

    def hang_first(value: int) -> int:
        starts.append(value)
        if value == 0:
            forever.wait(30)
        return value

    options = {"item_timeout": 5 * SHORT, "task_concurrency": 1, "item_retries": 5, "item_retry_delay": 0}
    outcomes = await outcomes_of(hang_first, range(3), options=options)
    assert starts == [0, 1, 2]
    assert [(outcome.index, outcome.error_kind) for outcome in outcomes] == [
        (0, "ItemTimeout"),
        (1, None),
        (2, None),
    ]


async def test_too_many_hanging_threads_end_the_run(forever: threading.Event) -> None:
    """As many as may be in flight may hang; with one more the run fails, and says why."""
    outcomes: list[Outcome] = []
    options = IterateOptions(item_timeout=SHORT, task_concurrency=2)
    iteration = Iteration(lambda _: forever.wait(30), range(100), options, sink=outcomes.append, grace=0.01)
    with pytest.raises(TooManyStuck, match="more than 2 items went beyond item_timeout"):
        await iteration.run()
    assert 3 <= len(outcomes) <= 4
    assert {outcome.error_kind for outcome in outcomes} == {"ItemTimeout"}


async def test_thread_that_ends_at_last_counts_no_more() -> None:
    """Only threads that hang at the same time are counted."""

    def hang_a_little(_: int) -> None:
        hung.append(threading.Event())
        hung[-1].wait(30)

    hung: list[threading.Event] = []
    options = IterateOptions(item_timeout=SHORT, task_concurrency=1, max_failed_items=9)
    iteration = Iteration(hang_a_little, range(4), options, sink=lambda _: hung[-1].set())
    summary = await iteration.run()
    assert summary.failed.kinds == {"ItemTimeout": 4}


async def test_late_result_of_a_thread_is_dropped() -> None:
    """An item has one outcome, though its thread returns after all."""
    first_may_end, second_may_end = threading.Event(), threading.Event()

    def work(value: int) -> int:
        (first_may_end if value == 0 else second_may_end).wait(30)
        return value

    outcomes: list[Outcome] = []

    def sink(outcome: Outcome) -> None:
        outcomes.append(outcome)
        first_may_end.set()

    options = IterateOptions(item_timeout=0.2, task_concurrency=1, max_failed_items=9)
    running = asyncio.ensure_future(Iteration(work, range(2), options, sink=sink).run())
    await asyncio.to_thread(first_may_end.wait, 10)
    await asyncio.sleep(SHORT)
    second_may_end.set()
    await running
    assert [(outcome.index, outcome.status) for outcome in outcomes] == [(0, "failed"), (1, "success")]


async def test_thread_of_a_coroutine_is_given_up_with_it(forever: threading.Event) -> None:
    """An item that waits for a thread of the run is not tried again once that hangs."""
    starts: list[int] = []

    async def hang_in_thread(item: Item) -> None:
        starts.append(item.attempt)
        await item.in_thread(forever.wait, 30)

    options = {"item_timeout": SHORT, "item_retries": 2, "item_retry_delay": 0}
    outcomes = await outcomes_of(hang_in_thread, [1], options=options, pass_item=True)
    assert (starts, outcomes[0].error_kind) == ([1], "ItemTimeout")


async def test_threads_of_coroutines_are_bounded() -> None:
    """C1: there are no more threads than items in flight, and arguments get through."""
    gauge = Gauge()
    lock = threading.Lock()

    def work(value: int, *, factor: int) -> int:
        with lock:
            gauge.__enter__()
        with lock:
            gauge.__exit__()
        return value * factor

    async def in_thread(item: Item) -> int:
        return await item.in_thread(work, item.value, factor=2)

    outcomes = await outcomes_of(in_thread, range(50), options={"task_concurrency": 3}, pass_item=True)
    assert sorted(outcome.result for outcome in outcomes) == [2 * n for n in range(50)]
    assert gauge.most <= 3


async def test_item_that_cancels_itself_fails() -> None:
    """Only the run's own cancellation is one; anything else is a failure like others."""

    async def cancel_itself(_: int) -> None:
        raise asyncio.CancelledError

    outcomes = await outcomes_of(cancel_itself, [1])
    assert [type(outcome.error) for outcome in outcomes] == [ItemCancelled]


async def test_function_that_returns_an_awaitable_from_a_thread_is_told_so() -> None:
    """Otherwise the coroutine would be the result, and would never run."""

    async def work(value: int) -> int:
        return value

    outcomes = await outcomes_of(lambda value: work(value), [1])
    assert "returned an awaitable (coroutine) in a thread" in str(outcomes[0].error)


async def test_caller_may_say_that_a_function_is_asynchronous() -> None:
    """Any awaitable will do then."""

    def work(value: int) -> asyncio.Future[int]:
        future = asyncio.get_running_loop().create_future()
        future.set_result(value)
        return future

    outcomes = await outcomes_of(work, [1], is_async=True)
    assert outcomes[0].result == 1


async def test_asynchronous_function_that_returns_no_awaitable_fails() -> None:
    """The message has the type, not the value."""
    outcomes = await outcomes_of(lambda value: "secret", [1], is_async=True)
    assert str(outcomes[0].error) == "the callable must return an awaitable, it returned str"


async def test_call_that_raises_at_once_fails_its_item() -> None:
    """As when the arguments do not fit."""

    async def work() -> None: ...

    outcomes = await outcomes_of(work, [1])
    assert [outcome.error_kind for outcome in outcomes] == ["TypeError"]


async def test_on_cancel_is_told_once_before_an_item_is_cut_off(forever: threading.Event) -> None:
    """What works on the item can be told to stop; here it lets the thread end in good time."""
    told: list[int] = []

    async def hang(_: int) -> None:
        await asyncio.Event().wait()

    for function in (hang, lambda _: forever.wait(30)):
        await outcomes_of(
            function, [1], options={"item_timeout": SHORT}, on_cancel=lambda item: told.append(item.index)
        )
    assert told == [0, 0]


async def test_failing_on_cancel_changes_nothing() -> None:
    """It is logged."""

    async def hang(_: int) -> None:
        await asyncio.Event().wait()

    def fail(item: Item) -> None:
        raise OSError

    outcomes = await outcomes_of(hang, [1], options={"item_timeout": SHORT}, on_cancel=fail)
    assert [outcome.error_kind for outcome in outcomes] == ["ItemTimeout"]


async def test_timeout_is_classified_like_any_error() -> None:
    """A classifier may end the retries of an item that is too slow."""
    seen: list[type] = []

    async def hang(_: int) -> None:
        await asyncio.Event().wait()

    def classify(error: Exception, attempt: int) -> Any:
        seen.append(type(error))
        return FAIL

    options = {"item_timeout": SHORT, "item_retries": 5}
    await outcomes_of(hang, [1], options=options, classify=classify)
    assert seen == [ItemTimeout]
