# SPDX-License-Identifier: Apache-2.0
"""Operators that handle the events of their stream: order, results, ends, failures, arguments."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import DAG, Context
from airflow.sdk.exceptions import AirflowTaskTimeout, TaskDeferred

from airflow_provider_iteration import StopStream, _compat
from airflow_provider_iteration.exceptions import StreamError
from airflow_provider_iteration.operators.handling import handling as open_handling
from airflow_provider_iteration.operators.http import HttpStreamingOperator
from airflow_provider_iteration.operators.streaming import StreamingOperator
from airflow_provider_iteration.streams import Page, StreamEvent, StreamOptions
from airflow_provider_iteration.triggers.streaming import StreamingTrigger
from tests.support.hops import Task
from tests.support.streams import RUN_A, RUN_B
from tests.support.triggers import Numbers, SeveralEvents, run_trigger
from tests.unit.conftest import XComs

Handle = Callable[[Sequence[StreamEvent], Context], Any]
EVERY_WAY: list[dict[str, Any]] = [{}, {"resume_every_pages": 4}, {"deferrable": False}]


@pytest.fixture(autouse=True)
def no_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_compat, "config_float", lambda name, fallback: 0.0 if "defer" in name else fallback)


class Handling(StreamingOperator):
    """Streams numbers, and gives the batches to a function."""

    def __init__(self, *, handle: Handle, trigger: StreamingTrigger, **kwargs: Any) -> None:
        super().__init__(task_id="pages", **kwargs)
        self.handle = handle
        self.trigger = trigger

    def make_trigger(self, context: Mapping[str, Any]) -> StreamingTrigger:
        return self.trigger

    def handle_trigger_events(self, events: Sequence[StreamEvent], context: Context) -> Any:
        return self.handle(events, context)


class Migrated(StreamingOperator):
    """An operator with the method of before."""

    next_method = "execute_complete"

    def __init__(self, trigger: StreamingTrigger | None = None, **kwargs: Any) -> None:
        super().__init__(task_id="pages", **kwargs)
        self.trigger = trigger or Numbers(count=7)

    def make_trigger(self, context: Mapping[str, Any]) -> StreamingTrigger:
        return self.trigger

    def execute_complete(self, context: Context, event: Any) -> Any:
        return ("one", event)


class MigratedWithList(Migrated):
    next_method_takes_list = True


class Pages(StreamingTrigger):
    """Streams the pages that it is given, without cursors."""

    def __init__(self, *, given: Any, stream: Any = None) -> None:
        super().__init__(stream=stream)
        self.given = given

    def arguments(self) -> dict[str, Any]:
        return {"given": self.given}

    async def pages(self, cursor: Any) -> AsyncGenerator[Page, None]:
        for page in self.given:
            yield page


def numbers(count: int) -> Numbers:
    return Numbers(count=count)


def take(seen: list[StreamEvent]) -> Handle:
    return lambda events, context: seen.extend(events)


async def handle(handler: Handle, count: int = 10, **arguments: Any) -> Task:
    """Run a task with a handler to its end."""
    task = Task(Handling(handle=handler, trigger=numbers(count), **arguments))
    task.pushed["return_value"] = await task.end()
    return task


def results(task: Task) -> list[Any]:
    return list(task.pushed["return_value"])


@pytest.mark.parametrize("arguments", EVERY_WAY)
@pytest.mark.parametrize("count", [1, 4, 8, 10])
async def test_each_event_is_handled_once_and_in_order(
    xcoms: XComs, arguments: dict[str, Any], count: int
) -> None:
    """H5, T1: in every way all events come, in order, with their payloads, and the last one says so."""
    seen: list[StreamEvent] = []
    await handle(take(seen), count, **arguments)
    assert seen == [StreamEvent(RUN_A, n, n, n == count - 1) for n in range(count)]


@pytest.mark.parametrize("arguments", EVERY_WAY)
async def test_empty_stream_calls_no_handler(xcoms: XComs, arguments: dict[str, Any]) -> None:
    """Where there is no event there is nothing to handle, and the result is empty."""
    seen: list[StreamEvent] = []
    task = await handle(take(seen), 0, **arguments)
    assert (seen, results(task)) == ([], [])


async def test_each_hop_hands_one_batch_over(xcoms: XComs) -> None:
    """resume_every_pages: four pages a deferral, and no deferral for nothing at the end."""
    task = await handle(lambda events, context: len(events), 12, resume_every_pages=4)
    assert (results(task), len(task.deferrals)) == ([4, 4, 4], 3)


async def test_progress_travels_as_a_number(xcoms: XComs) -> None:
    """What a hop must know of the earlier ones is one small argument."""
    task = await handle(lambda events, context: None, 12, resume_every_pages=4)
    assert [deferral.kwargs for deferral in task.deferrals] == [None, {"handled": 4}, {"handled": 8}]


async def test_no_page_is_asked_for_twice_over_hops(xcoms: XComs) -> None:
    """Each trigger goes on from the cursor of the head."""
    asked: list[Any] = []

    class Asked(Numbers):
        async def pages(self, cursor: Any) -> AsyncGenerator[Page, None]:
            async for page in super().pages(cursor):
                asked.append(page.payload)
                yield page

    operator = Handling(handle=lambda events, context: None, trigger=Asked(count=9), resume_every_pages=2)
    await Task(operator).end()
    assert asked == list(range(9))


async def test_seconds_bound_how_long_a_page_waits_for_its_handler(xcoms: XComs) -> None:
    """resume_every_seconds: a source that waits does not keep the pages before from being handled."""
    handled = threading.Event()

    class Slow(Numbers):
        async def pages(self, cursor: Any) -> AsyncGenerator[Page, None]:
            async for page in super().pages(cursor):
                if page.payload == 3:
                    await asyncio.to_thread(handled.wait, 10)
                yield page

    def see(events: Sequence[StreamEvent], context: Context) -> list[int]:
        handled.set()
        return [event.sequence_index for event in events]

    operator = Handling(handle=see, trigger=Slow(count=6), resume_every_seconds=0.2)
    assert list(await Task(operator).end()) == [[0, 1], [2, 3, 4, 5]]


async def test_timeout_of_the_source_is_no_pause(xcoms: XComs) -> None:
    """A source that times out by itself fails the stream, whatever resume_every_seconds is."""

    class Late(Numbers):
        async def pages(self, cursor: Any) -> AsyncGenerator[Page, None]:
            async for page in super().pages(cursor):
                yield page
            raise TimeoutError("the API")

    operator = Handling(handle=lambda events, context: None, trigger=Late(count=3), resume_every_seconds=30.0)
    with pytest.raises(TimeoutError, match="the API"):
        await Task(operator).end()


async def test_batches_at_the_end_are_bounded(xcoms: XComs) -> None:
    """Without a bound on the trigger a handler still gets a long stream piece by piece."""
    task = await handle(lambda events, context: len(events), 70)
    assert results(task) == [32, 32, 6]


async def test_large_pages_make_small_batches(xcoms: XComs) -> None:
    """A batch ends at 8 MiB of pages."""
    trigger = Pages(given=[Page("x" * 3 * 2**20) for _ in range(4)])
    operator = Handling(handle=lambda events, context: len(events), trigger=trigger)
    assert list(await Task(operator).end()) == [3, 1]


@pytest.mark.parametrize("arguments", EVERY_WAY)
async def test_payload_of_a_page_of_items_is_their_list(xcoms: XComs, arguments: dict[str, Any]) -> None:
    """With items_path a page is the list of its items, an empty one too: pages keep their places."""
    given = [Page([1, 2], many=True), Page([], many=True), Page([3], many=True)]
    seen: list[StreamEvent] = []
    await Task(Handling(handle=take(seen), trigger=Pages(given=given), **arguments)).end()
    assert [event.payload for event in seen] == [[1, 2], [], [3]]


def returned(events: Sequence[StreamEvent], context: Context) -> Any:
    return [event.payload for event in events]


def yielded(events: Sequence[StreamEvent], context: Context) -> Iterator[Any]:
    for event in events:
        yield event.payload
        yield None


async def awaited(events: Sequence[StreamEvent], context: Context) -> Any:
    await asyncio.sleep(0)
    return [event.payload for event in events]


async def yielded_on_the_loop(events: Sequence[StreamEvent], context: Context) -> AsyncIterator[Any]:
    for event in events:
        yield event.payload


@pytest.mark.parametrize("arguments", [{}, {"deferrable": False}])
@pytest.mark.parametrize(
    ("handler", "expected"),
    [
        (lambda events, context: None, []),
        (lambda events, context: "word", ["word"]),
        (lambda events, context: {"n": len(events)}, [{"n": 3}]),
        (returned, [[0, 1, 2]]),
        (awaited, [[0, 1, 2]]),
        (yielded, [0, 1, 2]),
        (yielded_on_the_loop, [0, 1, 2]),
    ],
)
async def test_result_is_what_the_handler_returns(
    xcoms: XComs, handler: Handle, expected: list[Any], arguments: dict[str, Any]
) -> None:
    """A returned value is one item, also a list; each yielded value is an item; None is none."""
    trigger = Pages(given=[Page(n) for n in range(3)])
    operator = Handling(handle=_all_at_once(handler, 3), trigger=trigger, **arguments)
    assert list(await Task(operator).end()) == expected


def _all_at_once(handler: Handle, count: int) -> Handle:
    """Call a handler once, with all events: how many come at a time on a worker depends."""
    waiting: list[StreamEvent] = []

    def wait(events: Sequence[StreamEvent], context: Context) -> Any:
        waiting.extend(events)
        return handler(waiting, context) if len(waiting) == count else None

    return wait


async def test_pages_are_kept_beside_the_results(xcoms: XComs) -> None:
    """The stream of the pages has a key of its own."""
    task = await handle(lambda events, context: "done", 5)
    assert list(task.pushed["pages"]) == [0, 1, 2, 3, 4]


async def test_results_go_on_over_hops(xcoms: XComs) -> None:
    """The results of all hops are one stream."""
    task = await handle(yielded, 10, resume_every_pages=3)
    assert results(task) == list(range(10))


async def test_large_results_are_written_in_several_rows(xcoms: XComs) -> None:
    """A row ends at about 1 MiB of results too, however few they are."""
    task = await handle(lambda events, context: ("x" * 300_000 for event in events), 9)
    rows = [len(text) for (key, *_), text in xcoms.rows.items() if key.startswith("return_value.")]
    assert max(rows) < 1.1 * 2**20
    assert results(task) == ["x" * 300_000] * 9


async def test_new_run_leaves_no_row_of_the_old_one(xcoms: XComs) -> None:
    """After a clear both streams are written anew, before the first new result already."""
    operator = Handling(handle=yielded, trigger=numbers(5))
    await Task(operator, RUN_A).end()
    await Task(operator, RUN_B).end()
    assert not [key for key, *_ in xcoms.rows if RUN_A[-8:] in key]


async def test_trigger_drops_the_old_results_first(xcoms: XComs) -> None:
    """A reader does not take the results of the old run for those of the new one."""
    operator = Handling(handle=yielded, trigger=numbers(5))
    await Task(operator, RUN_A).end()
    operator.handle = lambda events, context: 1 / 0
    with pytest.raises(ZeroDivisionError):
        await Task(operator, RUN_B).end()
    assert not [key for key, *_ in xcoms.rows if RUN_A[-8:] in key]


async def test_results_are_not_kept_unasked(xcoms: XComs) -> None:
    """do_xcom_push=False: the handler is called, and nothing is returned."""
    seen: list[StreamEvent] = []
    task = await handle(take(seen), 3, do_xcom_push=False)
    assert (len(seen), task.pushed) == (3, {"return_value": None})


def stop_at_five(events: Sequence[StreamEvent], context: Context) -> Iterator[int]:
    for event in events:
        if event.sequence_index == 5:
            raise StopStream
        yield event.payload


@pytest.mark.parametrize("arguments", EVERY_WAY)
async def test_stop_ends_the_stream_successfully(xcoms: XComs, arguments: dict[str, Any]) -> None:
    """StopStream: what was handled stays, and no batch follows."""
    assert results(await handle(stop_at_five, 40, **arguments)) == [0, 1, 2, 3, 4]


async def test_stop_closes_a_source_that_waits(xcoms: XComs) -> None:
    """On a worker StopStream ends a source that waits for its next page."""
    closed = threading.Event()

    class Endless(Numbers):
        async def pages(self, cursor: Any) -> AsyncGenerator[Page, None]:
            try:
                yield Page(0)
                yield Page(1)
                await asyncio.Event().wait()
            finally:
                closed.set()

    def stop(events: Sequence[StreamEvent], context: Context) -> None:
        raise StopStream

    await Task(Handling(handle=stop, trigger=Endless(count=0), deferrable=False)).end()
    assert closed.is_set()


async def test_slow_handler_stops_the_source(xcoms: XComs) -> None:
    """Backpressure: while a handler works, no more pages are fetched than may be held."""
    fetched: list[int] = []
    enough = threading.Event()

    class Eager(Numbers):
        async def pages(self, cursor: Any) -> AsyncGenerator[Page, None]:
            async for page in super().pages(cursor):
                fetched.append(page.payload)
                if len(fetched) == 5:
                    enough.set()
                yield page

    most: list[int] = []

    def dawdle(events: Sequence[StreamEvent], context: Context) -> None:
        assert enough.wait(10)
        time.sleep(0.05)
        most.append(len(fetched) - events[-1].sequence_index)

    operator = Handling(handle=dawdle, trigger=Eager(count=30), deferrable=False, max_uncommitted_pages=4)
    await Task(operator).end()
    assert max(most) <= 4 + 2


async def test_blocking_handler_does_not_block_the_source(xcoms: XComs) -> None:
    """A handler that blocks its thread leaves the event loop of the source alone."""
    third = threading.Event()

    class Watched(Numbers):
        async def pages(self, cursor: Any) -> AsyncGenerator[Page, None]:
            async for page in super().pages(cursor):
                if page.payload == 2:
                    third.set()
                yield page

    waited: list[bool] = []

    def block(events: Sequence[StreamEvent], context: Context) -> None:
        waited.append(third.wait(10))

    await Task(Handling(handle=block, trigger=Watched(count=5), deferrable=False)).end()
    assert all(waited)


async def test_coroutines_of_all_batches_have_one_loop(xcoms: XComs) -> None:
    """What one batch opens, a session for one, the next one can use."""
    loops = set()

    async def see(events: Sequence[StreamEvent], context: Context) -> None:
        loops.add(asyncio.get_running_loop())

    await handle(see, 70)
    assert len(loops) == 1


def fail_at_seven(events: Sequence[StreamEvent], context: Context) -> Iterator[int]:
    for event in events:
        if event.sequence_index == 7:
            raise OSError("no room")
        yield event.payload


@pytest.mark.parametrize("arguments", EVERY_WAY)
async def test_failing_handler_names_the_event(xcoms: XComs, arguments: dict[str, Any]) -> None:
    """A handler that raises on event 7 fails the try with its own error and a note of the event."""
    with pytest.raises(OSError, match="no room") as caught:
        await handle(fail_at_seven, 12, **arguments)
    assert "event 7" in caught.value.__notes__[0]


def test_gap_is_found_before_the_handler_sees_it() -> None:
    """Events that are missing fail the try with the index; the handler sees none after them."""
    seen: list[StreamEvent] = []
    context = {"ti": SimpleNamespace(id=RUN_A)}
    with open_handling(take(seen), context, StreamOptions(), keep=False) as handling:
        handling.handle([StreamEvent(RUN_A, 0, "a")])
        with pytest.raises(StreamError, match="event 3 came where 1 was due"):
            handling.handle([StreamEvent(RUN_A, 3, "d")])
    assert [event.sequence_index for event in seen] == [0]


def test_duplicates_are_dropped_before_the_handler_sees_them() -> None:
    """T2: an event that comes again is not handled again."""
    seen: list[StreamEvent] = []
    context = {"ti": SimpleNamespace(id=RUN_A)}
    events = [StreamEvent(RUN_A, 0, "a"), StreamEvent(RUN_A, 1, "b")]
    with open_handling(take(seen), context, StreamOptions(), keep=False) as handling:
        handling.handle(events)
        handling.handle([*events, StreamEvent(RUN_A, 2, "c")])
    assert [event.payload for event in seen] == ["a", "b", "c"]


async def test_results_before_a_failure_stay(xcoms: XComs) -> None:
    """What the handler returned before it failed is committed."""
    with pytest.raises(OSError, match="no room"):
        await handle(fail_at_seven, 12, resume_every_pages=4)
    place = {"dag_id": "shop", "task_id": "pages", "run_id": "r1", "map_index": -1}
    assert xcoms.read(key="return_value.head", **place)["items"] == 7


async def test_failing_source_hands_over_what_came_before(xcoms: XComs) -> None:
    """On a worker the pages before a failure are handled, then the task fails."""

    class Failing(Numbers):
        async def pages(self, cursor: Any) -> AsyncGenerator[Page, None]:
            async for page in super().pages(cursor):
                yield page
            raise OSError("the API is down")

    seen: list[StreamEvent] = []
    with pytest.raises(OSError, match="down"):
        await Task(Handling(handle=take(seen), trigger=Failing(count=5), deferrable=False)).end()
    # Whether the newest one was the last is not known.
    assert [event.sequence_index for event in seen] == [0, 1, 2, 3]


async def test_handler_that_defers_is_told_what_to_do(xcoms: XComs) -> None:
    """An old method that defers for its next page must not: the trigger goes on by itself."""

    def defer(events: Sequence[StreamEvent], context: Context) -> None:
        raise TaskDeferred(trigger=numbers(1), method_name="again")

    with pytest.raises(StreamError, match=r"deferred the task at events 0 to 9.*return instead"):
        await handle(defer, 10)


@pytest.mark.parametrize("arguments", EVERY_WAY)
@pytest.mark.parametrize("existing", [False, True])
async def test_old_method_gets_each_event(xcoms: XComs, arguments: dict[str, Any], existing: bool) -> None:
    """next_method is called once for each event, also of a trigger of before."""
    trigger = StreamingTrigger.from_trigger(SeveralEvents(7)) if existing else None
    reference = await Task(Migrated(trigger=trigger, **arguments)).end()
    assert list(reference) == [("one", number) for number in range(7)]


async def test_old_method_can_take_lists(xcoms: XComs) -> None:
    """next_method_takes_list gives it the payloads of a batch."""
    reference = await Task(MigratedWithList(resume_every_pages=3)).end()
    assert list(reference) == [("one", [0, 1, 2]), ("one", [3, 4, 5]), ("one", [6])]


async def test_old_coroutine_method_is_awaited(xcoms: XComs) -> None:
    """next_method may be a coroutine function."""

    class Coroutine(Migrated):
        next_method = "process"

        async def process(self, context: Context, event: Any) -> Any:
            return event + 1

    assert list(await Task(Coroutine()).end()) == [1, 2, 3, 4, 5, 6, 7]


async def test_deferral_gets_what_is_left_of_the_time(xcoms: XComs) -> None:
    """execution_timeout counts from the first start of the try, over all hops."""
    task = Task(
        Handling(
            handle=lambda events, context: None,
            trigger=numbers(4),
            resume_every_pages=2,
            execution_timeout=timedelta(seconds=100),
        )
    )
    task.context["ti"].start_date = datetime.now(UTC) - timedelta(seconds=90)
    await task.end()
    assert [5 < deferral.timeout.total_seconds() <= 10 for deferral in task.deferrals] == [True, True]


def test_resume_gets_what_is_left_of_the_time(xcoms: XComs) -> None:
    """A handler that blocks is cut off when the time of the whole task is over."""
    task = Task(
        Handling(
            handle=lambda events, context: time.sleep(30),
            trigger=numbers(4),
            execution_timeout=timedelta(seconds=100),
        )
    )
    event = asyncio.run(_first_event(task))
    task.context["ti"].start_date = datetime.now(UTC) - timedelta(seconds=200)
    began = time.monotonic()
    with pytest.raises(AirflowTaskTimeout):
        task.operator.resume_handling(task.context, event)  # type: ignore[attr-defined]
    assert time.monotonic() - began < 10


async def _first_event(task: Task) -> dict[str, Any]:
    with pytest.raises(TaskDeferred) as caught:
        await asyncio.to_thread(task.operator.execute, task.context)
    (event,) = await run_trigger(caught.value.trigger)
    payload: dict[str, Any] = event.payload
    return payload


@pytest.mark.parametrize(
    ("name", "value", "error"),
    [
        ("resume_every_pages", 0, ValueError),
        ("resume_every_pages", -1, ValueError),
        ("resume_every_pages", True, TypeError),
        ("resume_every_pages", "4", TypeError),
        ("resume_every_seconds", 0, ValueError),
        ("resume_every_seconds", -0.5, ValueError),
        ("resume_every_seconds", float("nan"), ValueError),
        ("resume_every_seconds", float("inf"), ValueError),
        ("resume_every_seconds", True, TypeError),
        ("resume_every_seconds", "4", TypeError),
    ],
)
def test_wrong_bound_is_refused_at_parse_time(name: str, value: Any, error: type[Exception]) -> None:
    """A wrong number of pages or seconds is an error that names the argument."""
    with pytest.raises(error, match=name):
        Migrated(**{name: value})


@pytest.mark.parametrize("name", ["resume_every_pages", "resume_every_seconds"])
def test_bound_without_a_handler_is_refused(name: str) -> None:
    """Without a handler there is nothing to resume for."""
    bound: dict[str, Any] = {name: 4}
    with pytest.raises(ValueError, match=f"{name} in task 'pages': there is no handler"):
        HttpStreamingOperator(task_id="pages", endpoint="x", method="GET", **bound)


def test_missing_method_is_refused() -> None:
    """next_method must name a method that there is."""

    class Misspelt(Migrated):
        next_method = "execute_compleet"

    with pytest.raises(ValueError, match="no method 'execute_compleet'"):
        Misspelt()


def test_handler_does_not_run_in_the_triggerer() -> None:
    """finish_on='triggerer' with a handler is an error of the Dag."""
    with pytest.raises(ValueError, match=r"finish_on='triggerer'.*its handler of events is not called"):
        Migrated(finish_on="triggerer")


def test_task_with_a_handler_starts_in_the_triggerer() -> None:
    """A handler is a reason for a worker at the end, not at the start."""
    with DAG("d", schedule=None):
        operator = HttpHandling(task_id="pages", endpoint="x", method="GET", resume_every_pages=4)
    assert operator.start_trigger_args is not None
    assert operator.start_trigger_args.next_method == "resume_handling"
    stream = (operator.start_trigger_args.trigger_kwargs or {})["stream"]
    assert stream == {
        "key": "pages",
        "results_key": "return_value",
        "finish_on": "worker",
        "resume_every_pages": 4,
    }


class HttpHandling(HttpStreamingOperator):
    def handle_trigger_events(self, events: Sequence[StreamEvent], context: Context) -> None:
        pass


def test_subclass_says_whether_a_handler_is_wanted() -> None:
    """has_handler() can be overridden where an overridden handler is optional."""

    class Optional(HttpHandling):
        def has_handler(self) -> bool:
            return False

    with DAG("d", schedule=None):
        operator = Optional(task_id="pages", endpoint="x", method="GET")
    assert operator.start_trigger_args is not None
    assert operator.start_trigger_args.next_method == "execute_complete"
