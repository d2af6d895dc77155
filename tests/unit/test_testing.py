# SPDX-License-Identifier: Apache-2.0
"""The helpers for users' own tests: they pass what is right, and find what is wrong."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from datetime import timedelta
from typing import Any

import pytest
from airflow.providers.standard.triggers.temporal import TimeDeltaTrigger
from airflow.triggers.base import TaskSuccessEvent

from airflow_provider_iteration import _compat, iterate
from airflow_provider_iteration.exceptions import StreamError
from airflow_provider_iteration.streams import Page
from airflow_provider_iteration.streams.memory import MemoryStore
from airflow_provider_iteration.testing import remade, run_interrupted, run_trigger, run_twice, watch
from airflow_provider_iteration.triggers.http import HttpStreamingTrigger
from airflow_provider_iteration.triggers.streaming import StreamingTrigger
from harness.api import ApiSettings, PagedApi
from tests.support.triggers import Numbers

FEW = {"max_uncommitted_pages": 4}


class WithoutCursors(Numbers):
    """Begins anew after every restart."""

    async def pages(self, cursor: Any) -> AsyncGenerator[Page, None]:
        for number in range(self.count):
            yield Page(number)


class DeafToItsCursor(Numbers):
    """Yields cursors, and begins anew nevertheless."""

    async def pages(self, cursor: Any) -> AsyncGenerator[Page, None]:
        for number in range(self.count):
            yield Page(number, cursor=number + 1)


class OffByOne(Numbers):
    """Repeats the last committed page."""

    async def pages(self, cursor: Any) -> AsyncGenerator[Page, None]:
        for number in range(cursor or 0, self.count):
            yield Page(number, cursor=number)


class Changing(Numbers):
    """Yields fewer pages the second time."""

    runs = 0

    async def pages(self, cursor: Any) -> AsyncGenerator[Page, None]:
        Changing.runs += 1
        for number in range(self.count - Changing.runs + 1):
            yield Page(number)


class OtherPages(Numbers):
    """Yields as many pages the second time, with something else in one of them."""

    runs = 0

    async def pages(self, cursor: Any) -> AsyncGenerator[Page, None]:
        OtherPages.runs += 1
        for number in range(self.count):
            yield Page(float("nan") if number < 7 else (number, OtherPages.runs))


class Forgetful(Numbers):
    """Does not serialise what it was given."""

    def arguments(self) -> dict[str, Any]:
        return {"count": 1}


class Unserialisable(Numbers):
    """Serialises something that is no JSON."""

    def arguments(self) -> dict[str, Any]:
        return {"count": object()}


class WithoutStream(Numbers):
    """Does not take what its base class takes."""

    def __init__(self, *, count: int) -> None:
        super().__init__(count=count)


class Misnamed(Numbers):
    """Inherits the class path of another."""

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return f"{__name__}.Numbers", super().serialize()[1]


@pytest.fixture(autouse=True)
def no_listeners(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_compat, "has_task_listeners", lambda: False)


async def test_first_event_comes_after_all_pages() -> None:
    """T1: Airflow takes the first event only; everything is in the stream by then."""
    run = await run_trigger(Numbers(count=50))
    assert run.elements == list(range(50))
    assert (type(run.event), run.pages, run.duplicates) == (TaskSuccessEvent, 50, 0)


async def test_end_on_a_worker_is_one_event_too() -> None:
    """finish_on='worker': the event carries the reference."""
    run = await run_trigger(Numbers(count=3, stream={"finish_on": "worker"}))
    assert "reference" in run.event.payload


async def test_trigger_is_made_anew_as_in_a_triggerer() -> None:
    """An argument that is not serialised is missing, as it would be in the triggerer."""
    assert (await run_trigger(Forgetful(count=5))).elements == [0]


@pytest.mark.parametrize(
    ("trigger", "text"),
    [
        (Unserialisable(count=1), "arguments that are not JSON"),
        (Misnamed(count=1), "names the class .*Numbers"),
    ],
)
def test_what_cannot_travel_is_found(trigger: StreamingTrigger, text: str) -> None:
    """Bad input: the triggerer could not make this trigger."""
    with pytest.raises(AssertionError, match=text):
        remade(trigger)


async def test_failing_store_fails_the_run() -> None:
    """A store that breaks can be given: what the database refuses fails the try."""

    def refuse(action: str, key: str) -> None:
        if action == "set" and not key.endswith(".head"):
            raise OSError("no space")

    with pytest.raises(OSError, match="no space"):
        await run_trigger(Numbers(count=3), store=MemoryStore(before=refuse))


@pytest.mark.parametrize("kind", [Numbers, WithoutCursors])
async def test_second_delivery_changes_nothing(kind: type[Numbers]) -> None:
    """T2: every page comes twice; (run id, index) tells so, and the stream has each of them once."""
    run = await run_twice(kind(count=20))
    assert (run.elements, run.duplicates) == (list(range(20)), 20)


async def test_second_delivery_that_differs_is_found() -> None:
    """A source that does not yield the same pages again cannot be told from another."""
    Changing.runs = 0
    with pytest.raises(AssertionError, match="19 pages where the first had 20"):
        await run_twice(Changing(count=20))


async def test_second_delivery_of_other_pages_is_found() -> None:
    """As many pages, of which one is another: it would be dropped as the same; NaN is the same."""
    OtherPages.runs = 0
    with pytest.raises(AssertionError, match="page 7 of the second delivery differs"):
        await run_twice(OtherPages(count=20))


def test_constructor_that_cannot_take_its_arguments_is_found() -> None:
    """The error says what __init__ has to take."""
    with pytest.raises(AssertionError, match="WithoutStream cannot be made .* 'stream'.*stream=None"):
        remade(WithoutStream(count=3))


@pytest.mark.parametrize("helper", [run_trigger, lambda trigger: watch(trigger, events=1)])
async def test_helper_says_which_triggers_it_is_for(helper: Any) -> None:
    """Bad input: a trigger of another kind."""
    with pytest.raises(TypeError, match="trigger: expected a Streaming"):
        await helper(TimeDeltaTrigger(timedelta(seconds=1)))


@pytest.mark.parametrize("after_pages", [1, 7, 19])
async def test_killed_trigger_goes_on(after_pages: int) -> None:
    """H3: killed anywhere, nothing is lost or doubled, and few pages are asked for again."""
    left = await run_interrupted(Numbers(count=20, stream=FEW), after_pages=after_pages)
    assert left.elements == list(range(20))
    assert left.committed + left.repeated == after_pages


async def test_source_without_cursors_is_found() -> None:
    """Committed pages are asked for again: right, but not what a resumable source does."""
    with pytest.raises(AssertionError, match="19 pages were asked for again, at most max_.*=4"):
        await run_interrupted(WithoutCursors(count=20, stream=FEW), after_pages=19)


@pytest.mark.parametrize("kind", [DeafToItsCursor, OffByOne])
async def test_wrong_cursor_is_found(kind: type[Numbers]) -> None:
    """A source that begins at another place than its cursor says repeats elements."""
    with pytest.raises(AssertionError, match="killed and started again has .* elements"):
        await run_interrupted(kind(count=20, stream=FEW), after_pages=19)


@pytest.mark.parametrize("after_pages", [0, 20])
async def test_there_must_be_a_page_after_the_kill(after_pages: int) -> None:
    """Bad input: nothing would be interrupted."""
    with pytest.raises(ValueError, match="after_pages: expected 1 to 19"):
        await run_interrupted(Numbers(count=20), after_pages=after_pages)


async def test_stock_trigger_keeps_its_promises(monkeypatch: pytest.MonkeyPatch) -> None:
    """The package's own HTTP trigger, against a real server."""
    with PagedApi(ApiSettings(pages=20)) as api:
        monkeypatch.setenv("AIRFLOW_CONN_SHOP", api.url)
        trigger = HttpStreamingTrigger(
            http_conn_id="shop",
            method="GET",
            endpoint="cursor",
            paginator={"type": "cursor", "path": "meta.next", "param": "after"},
            items_path="items",
            stream=FEW,
        )
        left = await run_interrupted(trigger, after_pages=15)
    assert len(left.elements) == 200


async def test_error_of_the_source_comes_out() -> None:
    """A failing source fails the helper with its own error."""
    with pytest.raises(StreamError, match="max_pages=3"):
        await run_trigger(Numbers(count=5, stream={"max_pages": 3}))


def test_iterated_function_is_called_as_it_is() -> None:
    """An iterated function needs no helper: ``function`` is what was decorated."""

    @iterate(task_concurrency=4)
    def double(number: int) -> int:
        return 2 * number

    assert double.function(21) == 42
