# SPDX-License-Identifier: Apache-2.0
"""Whatever a producer does while it is followed, a follower that comes to its end has read what counts."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_iteration.exceptions import InputPaused, ProducerFailed
from airflow_provider_iteration.streams.following import Place
from tests.support.following import Scripted, follow
from tests.support.streams import RUN_A, RUN_B

RUNS = (RUN_A, RUN_B)
Moment = tuple[str | None, str | None, int]


@st.composite
def histories(draw: st.DrawFn) -> list[Moment]:
    """Return what a producer goes through: tries that grow, are cleared at any time, and end somehow."""
    moments: list[Moment] = []
    run: str | None = None
    items = 0
    for following in RUNS[: draw(st.integers(1, 2))]:
        moments += [(draw(st.sampled_from([None, "queued", "deferred"])), run, items)]
        run, items = following, 0
        for grown in draw(st.lists(st.integers(0, 3), max_size=5)):
            items += grown
            moments.append((draw(st.sampled_from(["running", "deferred"])), run, items))
    end = draw(st.sampled_from(["success", "success", "failed", "skipped"]))
    return [*moments, (end, run, items)]


@given(histories(), st.none() | st.integers(0, 4))
def test_end_of_a_follower_is_the_end_of_the_producer(history: list[Moment], read_before: int | None) -> None:
    """All items of its last run, each once and in order; or an error that says what became of it."""
    state, run, items = history[-1]
    expected = None if read_before is None else Place(RUN_A, 1, read_before)
    follower = follow(Scripted(*history), starve=60, expected=expected)
    try:
        found = list(follower)
    except ProducerFailed:
        assert state != "success"
    except InputPaused:
        assert len(history) > 1 or expected is not None
    else:
        assert state == "success"
        assert found == [(run, index) for index in range(items)]
        follower.confirm()


@given(histories(), st.integers(0, 4))
def test_reader_that_stops_early_has_read_the_beginning_of_the_end(
    history: list[Moment], needed: int
) -> None:
    """As zip() with a shorter input does: it is confirmed only once the producer has succeeded with it."""
    state, run, items = history[-1]
    follower = follow(Scripted(*history), starve=60)
    try:
        found = list(itertools.islice(follower, needed))
        follower.confirm()
    except ProducerFailed:
        assert state != "success"
    except InputPaused:
        assert len(history) > 1
    else:
        assert state == "success"
        assert found == [(run, index) for index in range(min(items, needed))]
