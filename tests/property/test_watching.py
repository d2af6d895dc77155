# SPDX-License-Identifier: Apache-2.0
"""Whatever grows and whenever a triggerer dies, a reader gets every element once, in order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_iteration.streams import Page
from airflow_provider_iteration.streams.watching import Walk, WatchState


class Growing:
    """A list that is paged; a page that is not full, or the last one, may tell no cursor."""

    def __init__(self, size: int, tells_last: bool) -> None:
        self.items: list[int] = []
        self._size = size
        self._tells_last = tells_last

    async def pages(self, cursor: Any) -> AsyncGenerator[Page, None]:
        start = cursor or 0
        while True:
            page = self.items[start : start + self._size]
            following = start + len(page)
            more = following < len(self.items)
            yield Page(page, cursor=following if more or self._tells_last else None, many=True, last=not more)
            if not more:
                return
            start = following


def no_warning(message: str) -> None:
    raise AssertionError(message)


async def poll(
    source: Growing, kept: WatchState, recorded: list[Any], dies_after: int | None, lag: int
) -> Any:
    """Walk once; a triggerer that dies has recorded ``lag`` events more than the place says."""
    walk = Walk(source.pages, kept, warn=no_warning)
    places = [kept]
    async for element in walk.news():
        if len(places) - 1 == dies_after:
            break
        recorded.append((element.index, element.payload))
        places.append(element.after)
    if dies_after is None:
        return walk.state
    return places[max(len(places) - 1 - lag, 0)]


STEP = st.tuples(st.integers(0, 7), st.none() | st.integers(0, 6), st.integers(0, 4))


@given(size=st.integers(1, 4), tells_last=st.booleans(), steps=st.lists(STEP, max_size=8))
def test_every_element_is_read_once(
    size: int, tells_last: bool, steps: Sequence[tuple[int, Any, int]]
) -> None:
    """T2: growth, kills and repetitions in any order: by their numbers the events are the source."""

    async def live() -> list[tuple[int, int]]:
        source, place = Growing(size, tells_last), WatchState("r")
        recorded: list[tuple[int, int]] = []
        for grown, dies_after, lag in [*steps, (0, None, 0)]:
            source.items += range(len(source.items), len(source.items) + grown)
            place = await poll(source, place, recorded, dies_after, lag)
        return recorded

    recorded = asyncio.run(live())
    total = sum(grown for grown, _, _ in steps)
    assert list(dict.fromkeys(recorded)) == [(number, number) for number in range(total)]
