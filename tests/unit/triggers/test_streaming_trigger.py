# SPDX-License-Identifier: Apache-2.0
"""The base class of streaming triggers: how a run ends, and what it leaves."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from airflow.triggers.base import TaskFailedEvent, TaskSuccessEvent, TriggerEvent

from airflow_provider_iteration import _compat
from airflow_provider_iteration.exceptions import StoreTimeout, StreamError
from airflow_provider_iteration.streams import Page
from airflow_provider_iteration.streams.xcom_store import XComPlace, XComStore
from airflow_provider_iteration.triggers.streaming import StreamingTrigger, TriggerStream
from airflow_provider_iteration.xcom.iterable import XComIterable
from tests.support.streams import RUN_A, RUN_B
from tests.support.triggers import Numbers, SeveralEvents, give_task, run_trigger
from tests.unit.conftest import XComs


@pytest.fixture(autouse=True)
def no_listeners(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_compat, "has_task_listeners", lambda: False)


async def test_run_ends_the_task_in_the_triggerer(xcoms: XComs) -> None:
    """Where nothing is lost by it, one event ends the task without a worker."""
    events = await run_trigger(Numbers(count=3))
    assert [type(event) for event in events] == [TaskSuccessEvent]


async def test_reference_is_written_before_the_task_ends(xcoms: XComs) -> None:
    """A task that has ended in the triggerer has its result."""
    _compat.allow_class(XComIterable)
    await run_trigger(Numbers(count=3))
    place = {"dag_id": "shop", "task_id": "pages", "run_id": "r1", "map_index": -1}
    assert list(xcoms.read(key="return_value", **place)) == [0, 1, 2]


async def test_task_does_not_resume_too_soon(xcoms: XComs) -> None:
    """A task that was on a worker is back on one after min_seconds at the earliest."""
    began = time.monotonic()
    await run_trigger(Numbers(count=3, stream={"finish_on": "worker", "min_seconds": 0.3}))
    assert time.monotonic() - began >= 0.3


async def test_failed_task_does_not_resume_too_soon(xcoms: XComs) -> None:
    """A failure goes through a worker too."""
    began = time.monotonic()
    with pytest.raises(StreamError):
        await run_trigger(Numbers(count=3, stream={"max_pages": 1, "min_seconds": 0.3}))
    assert time.monotonic() - began >= 0.3


async def test_worker_gets_the_reference(xcoms: XComs) -> None:
    """With finish_on='worker' the reference travels in the event, and is not written yet."""
    (event,) = await run_trigger(Numbers(count=3, stream={"finish_on": "worker"}))
    reference = XComIterable.deserialize(event.payload["reference"], 1)
    assert list(reference) == [0, 1, 2]
    assert not any(key[0] == "return_value" for key in xcoms.rows)


async def test_task_listener_is_a_reason_for_a_worker(xcoms: XComs, monkeypatch: pytest.MonkeyPatch) -> None:
    """A listener of the deployment, OpenLineage's for one, hears of the task's end."""
    monkeypatch.setattr(_compat, "has_task_listeners", lambda: True)
    (event,) = await run_trigger(Numbers(count=3))
    assert type(event) is TriggerEvent


async def test_pause_is_one_event_that_says_that_more_follows(xcoms: XComs) -> None:
    """A batch that is over is told from the end of the stream; both are one event."""
    options = {"finish_on": "worker", "results_key": "results", "resume_every_pages": 4}
    (event,) = await run_trigger(Numbers(count=12, stream=options))
    assert (event.payload["more"], event.payload["reference"]["pages"]) == (True, 5)


async def test_end_is_one_event_that_says_that_nothing_follows(xcoms: XComs) -> None:
    """The batch that the stream ends with needs no hop of its own to say so."""
    options = {"finish_on": "worker", "results_key": "results", "resume_every_pages": 4, "handled": 8}
    (event,) = await run_trigger(Numbers(count=12, stream=options))
    assert event.payload["more"] is False


async def test_failed_reference_fails_the_run(xcoms: XComs) -> None:
    """T6: a result that could not be pushed is no success."""

    def refuse(key: str) -> None:
        if key == "return_value":
            raise OSError("no space")

    xcoms.before_write = refuse
    with pytest.raises(OSError, match="no space"):
        await run_trigger(Numbers(count=3))


async def test_twin_ends_without_failing_the_task(xcoms: XComs) -> None:
    """A trigger that was overtaken is cancelled: an error would fail the task that lives on elsewhere."""
    await run_trigger(Numbers(count=3), RUN_B)
    with pytest.raises(asyncio.CancelledError):
        await run_trigger(Numbers(count=3), RUN_A)


async def test_trigger_without_a_task_says_so() -> None:
    """A streaming trigger needs the XComs of a task."""
    with pytest.raises(StreamError, match="there is no task"):
        await Numbers(count=1).stream()


async def test_cancelling_closes_the_source(xcoms: XComs) -> None:
    """T4: cancelling the trigger closes what its pages have opened."""
    opened, closed = asyncio.Event(), asyncio.Event()

    class Endless(Numbers):
        async def pages(self, cursor: Any) -> AsyncGenerator[Page, None]:
            try:
                opened.set()
                await asyncio.Event().wait()
                yield Page(0)
            finally:
                closed.set()

    trigger = Endless(count=1)
    give_task(trigger)
    running = asyncio.ensure_future(trigger.stream())
    await opened.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert closed.is_set()


def test_trigger_survives_serialisation() -> None:
    """H4: what serialize() returns makes an equal trigger."""
    trigger = Numbers(count=7, stream={"max_pages": 3, "finish_on": "worker"})
    _, arguments = trigger.serialize()
    assert Numbers(**arguments).serialize() == trigger.serialize()


def test_unknown_stream_option_is_refused() -> None:
    """A wrong option is an error with its name."""
    with pytest.raises(ValueError, match="colour"):
        Numbers(count=1, stream={"colour": "red"})


async def test_events_of_any_trigger_become_a_stream(xcoms: XComs) -> None:
    """T1: all events of a trigger arrive, although Airflow honours one."""
    trigger = StreamingTrigger.from_trigger(SeveralEvents(5))
    give_task(trigger)
    assert list(await trigger.stream()) == [0, 1, 2, 3, 4]


async def test_wrapped_trigger_that_fails_its_task_fails_the_stream(
    xcoms: XComs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An event that ends the task as failed is not taken for a page."""
    trigger = TriggerStream(classpath="x", trigger_arguments={})
    monkeypatch.setattr(_compat, "import_string", lambda path: lambda: SeveralEvents(2, TaskFailedEvent))
    give_task(trigger)
    with pytest.raises(StreamError, match="failed"):
        await trigger.stream()


async def test_xcoms_are_written_in_threads(xcoms: XComs) -> None:
    """T5: a backend that blocks does not block the event loop."""
    reached, go_on = threading.Event(), threading.Event()

    def block(key: str) -> None:
        reached.set()
        assert go_on.wait(30)

    xcoms.before_write = block
    trigger = Numbers(count=1)
    give_task(trigger)
    running = asyncio.ensure_future(trigger.stream())
    assert await asyncio.to_thread(reached.wait, 30)
    assert not running.done()
    go_on.set()
    assert len(await running) == 1


async def test_message_without_an_answer_is_an_error(xcoms: XComs, monkeypatch: pytest.MonkeyPatch) -> None:
    """A message that Airflow never answers ends in an error that names it, not in a wait for ever."""
    never = threading.Event()
    monkeypatch.setattr(_compat, "read_xcom", lambda **place: never.wait(30))
    store = XComStore(XComPlace("d", "t", "r"), timeout=0.05)
    with pytest.raises(StoreTimeout, match=r"0\.05 s to the read of 'k'"):
        await store.get("k")
    never.set()


def test_stream_is_not_wrapped_again() -> None:
    """Bad input: from_trigger of a trigger that streams already would write its stream twice."""
    with pytest.raises(TypeError, match="Numbers is a StreamingTrigger: use it as it is"):
        StreamingTrigger.from_trigger(Numbers(count=1))
