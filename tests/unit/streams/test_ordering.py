# SPDX-License-Identifier: Apache-2.0
"""Events pass once and in order; batches know where they stand."""

from __future__ import annotations

import pytest

from airflow_provider_iteration.exceptions import StreamError
from airflow_provider_iteration.streams import EventBatch, EventOrder, StreamEvent
from tests.support.streams import RUN_A, RUN_B


def event(index: int, run: str = RUN_A) -> StreamEvent:
    return StreamEvent(run, index, index)


def test_duplicates_are_dropped_and_counted() -> None:
    """T2: the same stream delivered twice is recognised by (run id, index)."""
    order = EventOrder(RUN_A)
    passed = [index for _ in range(2) for index in range(5) if order.passes(event(index))]
    assert (passed, order.duplicates) == ([0, 1, 2, 3, 4], 5)


def test_gap_names_the_index_that_was_due() -> None:
    """An event that is missing is an error, whatever follows."""
    order = EventOrder(RUN_A, due=4)
    with pytest.raises(StreamError, match="event 6 came where 4 was due"):
        order.passes(event(6))


def test_event_of_another_run_is_refused() -> None:
    """An event of an older try is no event of this one."""
    with pytest.raises(StreamError, match=f"event of run {RUN_B}"):
        EventOrder(RUN_A).passes(event(0, RUN_B))


def test_order_goes_on_where_an_earlier_one_stopped() -> None:
    """What was handled in an earlier resume does not pass again."""
    order = EventOrder(RUN_A, due=3)
    assert [order.passes(event(index)) for index in (2, 3)] == [False, True]


def test_batch_is_a_sequence() -> None:
    """A handler can index, slice, iterate and count a batch."""
    events = [event(index) for index in range(4, 8)]
    batch = EventBatch(events)
    assert (len(batch), batch[-1], batch[1:3], list(batch)) == (4, events[3], events[1:3], events)


def test_batch_says_which_event_was_taken_last() -> None:
    """The message of a failing handler can name the event that it was at."""
    batch = EventBatch([event(index) for index in range(4, 8)])
    next(iter(batch))
    assert batch.place() == "events 4 to 7, event 4 was taken last"


def test_batch_of_one_event_names_it() -> None:
    """There is one event that it can be."""
    assert EventBatch([event(7)]).place() == "event 7"


def test_batch_shows_no_payload() -> None:
    """The repr of a batch carries nothing of what its pages hold."""
    assert repr(EventBatch([StreamEvent(RUN_A, 0, "s3cret")])) == "EventBatch(event 0)"
