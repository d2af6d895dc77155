# SPDX-License-Identifier: Apache-2.0
"""Producers that pause before the end, and go on later."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import pytest

from airflow_provider_iteration.streams import Head, Page, Pause, StreamOptions, produce
from airflow_provider_iteration.streams.memory import MemoryStore
from tests.support.streams import make_writer, pages_of, read_stream


async def write_until(store: MemoryStore, source: Any, pause: Pause) -> Head:
    """Write a stream until it pauses or ends."""
    async with make_writer(store) as writer:
        return await produce(source, writer, StreamOptions(), pause=pause)


async def test_pause_lets_one_page_more_through() -> None:
    """The page after those that are wanted tells that they are not the end."""
    asked: list[int] = []
    pause = Pause(pages=4)
    head = await write_until(MemoryStore(), pages_of(list(range(9)), asked=asked), pause)
    assert (head.pages, head.last, pause.paused, asked) == (5, False, True, [0, 1, 2, 3, 4])


@pytest.mark.parametrize("pages", [1, 3, 4])
async def test_source_that_ends_in_time_does_not_pause(pages: int) -> None:
    """A stream of no more pages than are wanted is at its end."""
    pause = Pause(pages=4)
    head = await write_until(MemoryStore(), pages_of(list(range(pages))), pause)
    assert (head.pages, head.last, pause.paused) == (pages, True, False)


async def test_stream_goes_on_after_a_pause() -> None:
    """Paused and resumed, a stream is whole, and no page is asked for twice."""
    store, asked = MemoryStore(), list[int]()
    for handled in range(0, 9, 3):
        source = pages_of(list(range(9)), asked=asked)
        head = await write_until(store, source, Pause(handled=handled, pages=3))
    assert (read_stream(store, head), head.last, asked) == (list(range(9)), True, list(range(9)))


async def test_source_without_cursors_goes_on_too() -> None:
    """A source that begins anew at each pause brings each page once."""

    async def source(cursor: Any) -> AsyncGenerator[Page, None]:
        for number in range(7):
            yield Page(number)

    store = MemoryStore()
    for handled in (0, 3, 6):
        head = await write_until(store, source, Pause(handled=handled, pages=3))
    assert (read_stream(store, head), head.last) == (list(range(7)), True)


async def test_restart_in_the_middle_pauses_where_it_would_have() -> None:
    """A triggerer that restarts does not fetch a whole batch more."""
    store, asked = MemoryStore(), list[int]()
    await write_until(store, pages_of(list(range(20))), Pause(pages=3))
    await write_until(store, pages_of(list(range(20)), asked=asked), Pause(pages=5))
    assert asked == [4, 5]


async def test_restart_after_the_last_page_asks_for_none() -> None:
    """Where all pages of a batch are committed already, the pause comes at once."""
    store, asked = MemoryStore(), list[int]()
    await write_until(store, pages_of(list(range(20))), Pause(pages=3))
    pause = Pause(pages=3)
    await write_until(store, pages_of(list(range(20)), asked=asked), pause)
    assert (asked, pause.paused) == ([], True)
