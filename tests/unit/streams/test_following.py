# SPDX-License-Identifier: Apache-2.0
"""Reading a stream while it is written: what a follower yields, and when it ends."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from airflow_provider_iteration.exceptions import (
    MissingChunk,
    ProducerFailed,
    ProducerRestarted,
    Starved,
    StreamError,
)
from airflow_provider_iteration.streams import following
from airflow_provider_iteration.streams.following import Follower, Place
from airflow_provider_iteration.streams.recency import SETTLE_SECONDS, RunJudge
from tests.support.following import Scripted, follow
from tests.support.streams import RUN_A, RUN_B


def numbers(items: Iterable[Any]) -> list[int]:
    return [index for _, index in items]


def test_items_come_as_they_are_committed() -> None:
    """Each once, in order, to the end that is the producer's success."""
    producer = Scripted(
        (None, None, 0),
        ("running", None, 0),
        ("running", RUN_A, 2),
        ("running", RUN_A, 5),
        ("success", RUN_A, 6),
    )
    assert numbers(follow(producer)) == [0, 1, 2, 3, 4, 5]


def test_end_waits_for_the_success_of_the_producer() -> None:
    """Although all items were read before."""
    producer = Scripted(("running", RUN_A, 3), ("running", RUN_A, 3), ("failed", RUN_A, 3))
    items = iter(follow(producer))
    assert [next(items)[1] for _ in range(3)] == [0, 1, 2]
    with pytest.raises(ProducerFailed, match="failed"):
        next(items)


@pytest.mark.parametrize("state", ["failed", "upstream_failed", "removed", "skipped"])
def test_producer_that_ended_otherwise_is_an_error(state: str) -> None:
    """Its state is in the message."""
    with pytest.raises(ProducerFailed, match=state):
        list(follow(Scripted((state, None, 0))))


def test_new_run_is_told() -> None:
    """What was read of the earlier one does not count."""
    producer = Scripted(("running", RUN_A, 2), ("running", RUN_B, 1))
    with pytest.raises(ProducerRestarted, match="2 items"):
        list(follow(producer))


def test_run_that_begins_anew_is_told() -> None:
    """Its first chunk is of another incarnation, though the run is the same."""
    producer = Scripted(("running", RUN_A, 2), ("running", RUN_A, 5))
    follower = follow(producer)
    items = iter(follower)
    next(items), next(items)
    producer.generation = 2
    with pytest.raises(ProducerRestarted):
        list(items)


def test_head_that_an_older_run_writes_late_is_ignored() -> None:
    """It says nothing of the present one."""
    producer = Scripted(
        ("running", RUN_B, 1), ("running", RUN_A, 9), ("running", RUN_B, 2), ("success", RUN_B, 2)
    )
    assert numbers(follow(producer)) == [0, 1]


def test_starved_follower_says_so() -> None:
    """The time counts from the last new item."""
    producer = Scripted(("running", RUN_A, 2), ("running", RUN_A, 3), ("running", RUN_A, 3))
    follower = follow(producer, starve=30)
    with pytest.raises(Starved, match="30 s; 3 items"):
        list(follower)
    assert follower.place == Place(RUN_A, 1, 3)


def test_expected_beginning_is_read_again() -> None:
    """A pass goes over everything; who wants less leaves it out."""
    producer = Scripted(("success", RUN_A, 4))
    assert numbers(follow(producer, run=RUN_A, expected=Place(RUN_A, 1, 2))) == [0, 1, 2, 3]


@pytest.mark.parametrize("expected", [Place(RUN_B, 1, 2), Place(RUN_A, 2, 2), Place(RUN_A, 1, 9)])
def test_other_beginning_is_told(expected: Place) -> None:
    """Before an item is read."""
    with pytest.raises(ProducerRestarted, match="0 items"):
        list(follow(Scripted(("success", RUN_A, 4)), expected=expected))


def test_plain_result_is_read_when_it_is_there() -> None:
    """What is no stream has no head."""
    producer = Scripted(("running", None, 0), ("success", None, 0))
    producer.other = ["a", "b"]
    follower = follow(producer)
    assert list(follower) == ["a", "b"]
    follower.confirm()


def test_rows_that_a_new_run_drops_are_no_loss() -> None:
    """The producer is at it again."""
    producer = Scripted(("running", RUN_A, 2))
    producer.gone = True
    with pytest.raises(ProducerRestarted):
        list(follow(producer))


def test_rows_of_a_finished_stream_that_are_gone_are_an_error() -> None:
    """Nobody will write them again."""
    producer = Scripted(("success", RUN_A, 2))
    producer.gone = True
    with pytest.raises(MissingChunk):
        list(follow(producer))


@pytest.mark.parametrize("after", [("running", RUN_A, 2), ("success", RUN_B, 2), ("success", RUN_A, 3)])
def test_result_is_checked_again_in_the_end(after: tuple[str, str, int]) -> None:
    """The producer may have been cleared while the last items were worked on."""
    producer = Scripted(("success", RUN_A, 2), after)
    follower = follow(producer)
    list(follower)
    follower.confirm()
    producer.go_on()
    with pytest.raises(ProducerRestarted):
        follower.confirm()


def test_waiting_follower_can_be_stopped() -> None:
    """From another thread, at once, also after minutes of waiting."""
    follower = Follower(Scripted(("running", None, 0)), task="a task", judge=RunJudge(RUN_A))
    threading.Timer(0.05, follower.stop).start()
    with pytest.raises(StreamError, match="stopped after 0 items"):
        list(follower)


# Which run is the present one.


def judged(*, own: str, clock: Callable[[], float]) -> RunJudge:
    return RunJudge(own, clock)


NEWER = "0190f100-0000-7000-8000-0000cccccccc"


def test_run_of_the_same_time_is_the_present_one() -> None:
    """Both tasks got their ids together."""
    assert judged(own=RUN_A, clock=lambda: 0.0).is_current(RUN_B, 1)


def test_older_run_is_not_taken_for_the_present_one() -> None:
    """It was there when the consumer came, and does not change."""
    judge = judged(own=NEWER, clock=iter(range(100)).__next__)
    assert not any(judge.is_current(RUN_A, 5) for _ in range(60))


def test_older_run_that_came_in_the_meantime_is_the_present_one() -> None:
    """There was none when the consumer came."""
    judge = judged(own=NEWER, clock=lambda: 0.0)
    judge.saw_none()
    assert judge.is_current(RUN_A, 1)


def test_older_run_that_goes_on_growing_is_the_present_one() -> None:
    """After the time that a trigger which was cleared may still write."""
    now = 0.0
    judge = judged(own=NEWER, clock=lambda: now)
    judge.is_current(RUN_A, 1)
    now = SETTLE_SECONDS - 1
    early = judge.is_current(RUN_A, 2)
    now = SETTLE_SECONDS + 1
    assert (early, judge.is_current(RUN_A, 3), judge.is_current(RUN_A, 4)) == (False, False, True)


def test_pauses_grow_to_a_bound() -> None:
    """A slow producer is not asked every second."""
    assert following.FIRST_PAUSE < following.LONGEST_PAUSE <= 15


def test_reader_that_needs_no_more_items_waits_for_the_end_of_the_producer() -> None:
    """What zip() with a shorter input leaves unread does not count as another run."""
    producer = Scripted(("running", RUN_A, 4), ("running", RUN_A, 6), ("success", RUN_A, 9))
    follower = follow(producer)
    assert numbers(itertools.islice(follower, 3)) == [0, 1, 2]
    follower.confirm()
    assert producer.state() == "success"


def test_wait_for_the_end_of_the_producer_starves_too() -> None:
    """Nothing of it need be read, so its end is what to wait for."""
    producer = Scripted(*[("running", RUN_A, items) for items in range(4, 30)])
    follower = follow(producer, starve=30)
    next(iter(follower))
    with pytest.raises(Starved, match="no more than 1 items of the live stream are needed") as caught:
        follower.confirm()
    assert caught.value.needs_end


def test_follower_whose_items_are_worked_on_does_not_starve() -> None:
    """It would keep its worker all the same."""
    producer = Scripted(*[("running", RUN_A, 1)] * 9, ("success", RUN_A, 2))
    busy = iter([True] * 6)
    follower = follow(producer, starve=30, is_busy=lambda: next(busy, False))
    assert numbers(follower) == [0, 1]
    assert next(busy, None) is None
