# SPDX-License-Identifier: Apache-2.0
"""Reading a watcher's events from where the reader was."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_iteration.streams import Watermark, unread
from airflow_provider_iteration.streams.codec import dump_text

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)


def event(index: int, payload: Any = None, run: str = "a", second: int = 0, **more: Any) -> Any:
    envelope = {"trigger_run_id": run, "sequence_index": index, "payload": payload, **more}
    return SimpleNamespace(
        extra={"from_trigger": True, "payload": envelope}, timestamp=BEGAN + timedelta(seconds=second)
    )


def indexes(events: list[Any]) -> list[int]:
    return [event.sequence_index for event in events]


def test_first_reader_gets_everything() -> None:
    """A new watermark is before all events, and asks for all of them."""
    events, mark = unread([event(0, "x"), event(1, "y")], Watermark())
    assert [found.payload for found in events] == ["x", "y"]
    assert Watermark().after is None
    assert mark.indexes == {"a": 1}


def test_events_before_the_watermark_are_left_out() -> None:
    """What was read is not read again."""
    _, mark = unread([event(0), event(1)], Watermark())
    assert indexes(unread([event(0), event(1), event(2)], mark)[0]) == [2]


def test_event_that_came_twice_is_read_once() -> None:
    """T2: the same run id and number is the same event, also when a restarted triggerer sent it again."""
    assert indexes(unread([event(0), event(1), event(0), event(1), event(2)], Watermark())[0]) == [0, 1, 2]


def test_watcher_that_began_anew_is_read_from_its_beginning() -> None:
    """Another run id is another numbering."""
    _, mark = unread([event(0), event(1)], Watermark())
    assert indexes(unread([event(0, run="b")], mark)[0]) == [0]


def test_events_of_others_are_left_out() -> None:
    """An asset may have events of tasks and of other triggers too."""
    others = [
        SimpleNamespace(extra=extra, timestamp=BEGAN)
        for extra in ({}, None, {"from_trigger": True, "payload": "text"}, {"payload": {"id": 1}})
    ]
    assert unread(others, Watermark()) == ([], Watermark())


def test_a_little_is_asked_for_again() -> None:
    """Events are not committed in the exact order of their times, so the question reaches back."""
    _, mark = unread([event(0, second=600)], Watermark())
    assert mark.after == (BEGAN + timedelta(seconds=540)).isoformat()


def test_encoded_payload_comes_back() -> None:
    """What JSON in a database cannot hold travels as a text."""
    (found,), _ = unread([event(0, dump_text(["a\0b"]), enc="text")], Watermark())
    assert found.payload == "a\0b"


def test_event_shows_no_payload() -> None:
    """Its repr may be logged."""
    (found,), _ = unread([event(0, "s3cret")], Watermark())
    assert repr(found) == "RecordedEvent(a#0)"


def test_kept_watermark_comes_back() -> None:
    """It is plain JSON in between."""
    _, mark = unread([event(0), event(3, run="b", second=5)], Watermark())
    assert Watermark.from_json(mark.to_json()) == mark
    assert Watermark.from_json(None) == Watermark()


@pytest.mark.parametrize("kept", ["2026-01-01", {"when": 1}, {"indexes": {"a": "x"}}])
def test_wrong_watermark_is_refused(kept: Any) -> None:
    """Bad input: something else under the reader's key."""
    with pytest.raises(ValueError, match="watermark: "):
        Watermark.from_json(kept)


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 5)), max_size=8))
def test_any_coalescing_reads_each_event_once(reads: list[tuple[int, int]]) -> None:
    """However runs fall between the events, and however far a triggerer goes back, all are read once."""
    recorded: list[Any] = []
    seen: list[int] = []
    mark, following = Watermark(), 0
    for more, back in reads:
        start = max(following - back, 0)
        recorded += [event(index) for index in range(start, start + more)]
        following = max(following, start + more)
        found, mark = unread(recorded, mark)
        seen += indexes(found)
    assert seen == list(range(following))
