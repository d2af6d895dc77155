# SPDX-License-Identifier: Apache-2.0
"""Asset watchers, run by Airflow's own manager of shared streams: what is an event, and when it counts."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from structlog.testing import capture_logs

from airflow_provider_iteration import _compat
from airflow_provider_iteration.exceptions import LimitExceeded, PageFailed, StoreTimeout, StreamError
from airflow_provider_iteration.pagination import Cursor, Offset
from airflow_provider_iteration.streams import Page
from airflow_provider_iteration.testing import AssetState, remade, watch
from airflow_provider_iteration.triggers import events
from airflow_provider_iteration.triggers.events import StreamingEventTrigger, WatcherEvent
from airflow_provider_iteration.triggers.http import HttpStreamingEventTrigger
from harness.api import ApiSettings, PagedApi

SOURCE: list[list[Any]] = []


class Source(StreamingEventTrigger):
    """Watches a list of pages in this process; only the last page tells no cursor."""

    def arguments(self) -> dict[str, Any]:
        return {}

    async def pages(self, cursor: Any) -> AsyncGenerator[Page, None]:
        for number in range(cursor or 0, len(SOURCE)):
            ends = number + 1 == len(SOURCE)
            yield Page(SOURCE[number], cursor=None if ends else number + 1, many=True)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "RESTART_SECONDS", 0.0)
    SOURCE[:] = [[0, 1, 2], [3, 4]]


def payloads(recorded: list[Any]) -> list[Any]:
    return [event["payload"] for event in recorded]


def place_of(state: AssetState) -> Any:
    return state.get(Source().state_key())


async def test_every_element_is_an_event() -> None:
    """Five items on two pages are five events, numbered from 0 within one run."""
    recorded = await watch(Source(), events=5)
    assert [(event["sequence_index"], event["payload"]) for event in recorded] == list(enumerate(range(5)))
    assert len({event["trigger_run_id"] for event in recorded}) == 1


async def test_only_appended_elements_are_new() -> None:
    """The last page is asked for again; what stood there before makes no event."""
    state = AssetState()
    await watch(Source(), events=5, state=state)
    SOURCE[1].append(5)
    SOURCE.append([6])
    assert payloads(await watch(Source(), events=2, state=state)) == [5, 6]


async def test_new_elements_are_found_while_it_runs() -> None:
    """It polls: what is appended later becomes an event of the same run of the trigger."""
    running = asyncio.create_task(watch(Source(poll_interval=0.1), events=6))
    await asyncio.sleep(0.05)
    SOURCE.append([5])
    assert payloads(await running) == [0, 1, 2, 3, 4, 5]


async def test_place_moves_with_what_is_recorded() -> None:
    """The cursor advances when the events are in the database."""
    state = AssetState()
    await watch(Source(), events=4, state=state)
    assert (place_of(state)["index"], place_of(state)["seen"]) == (4, 1)


async def test_unrecorded_events_come_again() -> None:
    """T2: a triggerer killed before Airflow recorded the events: they come again under the same numbers."""
    state = AssetState()
    lost = await watch(Source(), events=5, state=state, confirm=False)
    again = await watch(Source(), events=5, state=state)
    assert again == lost


async def test_place_stays_before_what_is_not_recorded() -> None:
    """Nothing confirmed, nothing moved."""
    state = AssetState()
    await watch(Source(), events=5, state=state, confirm=False)
    assert place_of(state)["index"] == 0


async def test_no_more_than_allowed_is_on_its_way() -> None:
    """max_unrecorded bounds what can come twice: the fourth event waits for the first one's confirmation."""
    with pytest.raises(TimeoutError):
        await watch(Source(max_unrecorded=3), events=4, confirm=False, seconds=0.3)


async def test_existing_elements_can_be_passed_over() -> None:
    """skip_existing: the first start takes what is there as known; numbering begins with what is new."""
    state = AssetState()
    with pytest.raises(TimeoutError):
        await watch(Source(skip_existing=True), events=1, state=state, seconds=0.3)
    SOURCE[1].append(5)
    recorded = await watch(Source(skip_existing=True), events=1, state=state)
    assert [(event["sequence_index"], event["payload"]) for event in recorded] == [(0, 5)]


async def test_elements_that_went_away_are_an_error() -> None:
    """Bad input: a queue that loses its entries cannot be watched by number; the error says what to do."""
    state = AssetState()
    await watch(Source(), events=5, state=state)
    SOURCE[1].clear()
    with pytest.raises(StreamError, match=r"has 0 elements where 2 were recorded.*Cursor\(path="):
        await watch(Source(), events=1, state=state)


async def test_list_in_the_wrong_order_is_warned_of() -> None:
    """Bad input: an API that lists the newest first."""
    state = AssetState()
    await watch(Source(), events=5, state=state)
    SOURCE[1][:] = ["newest", 3, 4]
    with capture_logs() as logged:
        await watch(Source(), events=1, state=state)
    assert any("must list the oldest items first" in line["event"] for line in logged)


async def test_events_before_a_failure_are_kept() -> None:
    """A failing page loses nothing: what came before is confirmed first, and not sent again."""

    state = AssetState()
    with pytest.raises(PageFailed):
        await watch(Failing(), events=6, state=state)
    assert state.get(Failing().state_key())["index"] == 5


class Failing(Source):
    """Its third page fails."""

    async def pages(self, cursor: Any) -> AsyncGenerator[Page, None]:
        async for page in super().pages(cursor):
            yield page
        raise PageFailed(3, 500)


async def test_large_event_is_refused() -> None:
    """G4: a large page does not travel in an event; the error names the limit."""
    SOURCE[:] = [["x" * 1000]]
    with pytest.raises(LimitExceeded, match="max_event_bytes=500"):
        await watch(Source(max_event_bytes=500), events=1)


async def test_values_that_a_database_refuses_arrive() -> None:
    """NUL and lone surrogates stop no triggerer: the event carries them as ASCII text, marked as such."""
    SOURCE[:] = [["a\0b\ud800"]]
    (event,) = await watch(Source(), events=1)
    assert event["enc"] == "text"
    assert "\0" not in event["payload"]


async def test_overtaken_watcher_stops() -> None:
    """A stalled twin does not move the place of the one that took over."""
    state = AssetState()
    key = Source().state_key()
    await watch(Source(), events=5, state=state)
    running = asyncio.create_task(watch(Source(poll_interval=0.2), events=1, state=state))
    while state.get(key)["incarnation"] < 2:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    state.set(key, state.get(key) | {"incarnation": 3})
    SOURCE.append([5])
    with pytest.raises(StreamError, match="another triggerer has taken this watcher over"):
        await running
    assert state.get(key)["index"] == 5


async def test_unanswered_state_store_fails_the_watcher(monkeypatch: pytest.MonkeyPatch) -> None:
    """A message that gets no answer is an error that says so."""

    answered = threading.Event()

    class Silent(AssetState):
        def get(self, key: str, default: Any = None) -> Any:
            answered.wait(10)

    monkeypatch.setattr(_compat, "message_timeout", lambda: 0.05)
    with pytest.raises(StoreTimeout, match="read of 'stream"):
        await watch(Source(), events=1, state=Silent())
    answered.set()


def test_event_shows_no_payload() -> None:
    """The triggerer logs each event's repr."""
    event = WatcherEvent(payload={"trigger_run_id": "r", "sequence_index": 7, "payload": "s3cret"})
    assert f"{event!r} {event}" == "WatcherEvent(r#7) WatcherEvent(r#7)"


async def test_watcher_without_an_asset_says_so() -> None:
    """Bad input: a task that defers to a watcher."""
    with pytest.raises(StreamError, match="Source watches no asset"):
        Source()._places()


async def test_watcher_does_not_run_by_itself() -> None:
    """Outside of a shared stream nobody confirms events."""
    with pytest.raises(StreamError, match="give it to an AssetWatcher"):
        await anext(aiter(Source().run()))


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"poll_interval": 0}, ValueError, "poll_interval: expected at least 0.1, got 0"),
        ({"poll_interval": "1"}, TypeError, "poll_interval: expected a number, got str"),
        ({"max_unrecorded": 0}, ValueError, "max_unrecorded: expected 1 to 1000, got 0"),
        ({"max_unrecorded": True}, TypeError, "max_unrecorded: expected a whole number, got bool"),
        ({"max_event_bytes": 1.5}, TypeError, "max_event_bytes: expected a whole number, got float"),
    ],
)
def test_wrong_argument_is_named(arguments: dict[str, Any], error: type[Exception], text: str) -> None:
    """Bad input: refused where the Dag is parsed."""
    with pytest.raises(error, match=text):
        Source(**arguments)


# The watcher of HTTP APIs.

CURSOR = Cursor("meta.next", "after")


def shop(**arguments: Any) -> HttpStreamingEventTrigger:
    defaults: dict[str, Any] = {"endpoint": "cursor", "paginator": CURSOR, "items_path": "items"}
    return HttpStreamingEventTrigger(http_conn_id="shop", **{**defaults, **arguments})


async def test_every_item_of_an_api_is_an_event(monkeypatch: pytest.MonkeyPatch) -> None:
    """All pages of a real server, one event an item."""
    with PagedApi(ApiSettings(pages=3, items=4)) as api:
        monkeypatch.setenv("AIRFLOW_CONN_SHOP", api.url)
        recorded = await watch(shop(), events=12)
    assert [item["id"] for item in payloads(recorded)] == list(range(12))


@pytest.mark.parametrize(
    "source", [{}, {"endpoint": "offset", "paginator": Offset(limit=4)}], ids=["cursor", "offset"]
)
async def test_api_that_grows_is_followed(monkeypatch: pytest.MonkeyPatch, source: dict[str, Any]) -> None:
    """The last page is asked for again, full or not; pages before it are not."""
    state = AssetState()
    with PagedApi(ApiSettings(pages=3, items=4, short=2)) as api:
        monkeypatch.setenv("AIRFLOW_CONN_SHOP", api.url)
        await watch(shop(**source), events=10, state=state)
        api.reset(ApiSettings(pages=4, items=4, short=1))
        recorded = await watch(shop(**source), events=5, state=state)
        assert min(api.asked()) == 2
    assert [item["id"] for item in payloads(recorded)] == [10, 11, 12, 13, 14]


async def test_changed_resource_is_an_event_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without items_path a page is an event, and a page that has changed is one again."""
    state = AssetState()
    resource = {"endpoint": "single", "paginator": None, "items_path": None, "poll_interval": 0.1}
    with PagedApi(ApiSettings(bodies={0: {"status": "new"}})) as api:
        monkeypatch.setenv("AIRFLOW_CONN_SHOP", api.url)
        await watch(shop(**resource), events=1, state=state)
        with pytest.raises(TimeoutError):
            await watch(shop(**resource), events=1, state=state, seconds=0.4)
        api.reset(ApiSettings(bodies={0: {"status": "paid"}}))
        recorded = await watch(shop(**resource), events=1, state=state)
    assert [(event["sequence_index"], event["payload"]) for event in recorded] == [(1, {"status": "paid"})]


async def test_failing_page_fails_the_watcher(monkeypatch: pytest.MonkeyPatch) -> None:
    """After page_retries the watcher fails, which Airflow logs; it is started anew and goes on."""
    state = AssetState()
    with PagedApi(ApiSettings(pages=3, items=4, fail_for_good={2: 500})) as api:
        monkeypatch.setenv("AIRFLOW_CONN_SHOP", api.url)
        with pytest.raises(PageFailed, match="page 3 failed: HTTP 500"):
            await watch(shop(page_retries=0), events=12, state=state)
        api.reset(ApiSettings(pages=3, items=4))
        recorded = await watch(shop(page_retries=0), events=4, state=state)
    assert [item["id"] for item in payloads(recorded)] == [8, 9, 10, 11]


def test_arguments_survive_the_way_to_the_triggerer() -> None:
    """H4: what it serialises to makes the same trigger."""
    trigger = shop(data={"size": 5}, rate_limit="5/s", page_retries=1, poll_interval=5, skip_existing=True)
    assert remade(trigger).serialize() == trigger.serialize()


def test_place_outlives_a_change_of_pace() -> None:
    """What does not name the source may be changed without beginning anew."""
    assert shop(rate_limit="5/s", poll_interval=5).state_key() == shop().state_key()
    assert shop(endpoint="offset").state_key() != shop().state_key()


@pytest.mark.parametrize("name", ["response_check", "response_filter", "auth_type"])
def test_function_is_refused(name: str) -> None:
    """Bad input: a function cannot travel to the triggerer."""
    with pytest.raises(TypeError, match=f"{name}: a watcher runs in the triggerer"):
        shop(**{name: lambda response: True})


def test_unknown_paginator_is_refused() -> None:
    """Bad input: the error names the argument and the kinds that there are."""
    with pytest.raises(ValueError, match="paginator.*next_link"):
        shop(paginator={"type": "next"})
