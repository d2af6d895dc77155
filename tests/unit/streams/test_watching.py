# SPDX-License-Identifier: Apache-2.0
"""The place of a watcher: what is kept of it, and where a restarted one goes on."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import pytest

from airflow_provider_iteration.exceptions import StreamError
from airflow_provider_iteration.streams import Page
from airflow_provider_iteration.streams.asset_store import AssetPlaces
from airflow_provider_iteration.streams.watching import Walk, WatchState, resume
from airflow_provider_iteration.testing import AssetState

FRESH = WatchState(run="new")


def no_warning(message: str) -> None:
    raise AssertionError(message)


async def walked(pages: list[Page], state: WatchState) -> tuple[list[Any], WatchState]:
    """Walk once over all pages, whatever the cursor, and return what is new and the place behind it."""

    async def source(cursor: Any) -> AsyncGenerator[Page, None]:
        for page in pages:
            yield page

    walk = Walk(source, state, warn=no_warning)
    return [element.payload async for element in walk.news()], walk.state


def test_kept_place_comes_back() -> None:
    """It is plain JSON in between."""
    state = WatchState("r", 3).recorded(1, "d").passed({"after": [1, "ü\0"]}).recorded(2, "e")
    assert WatchState.from_row(state.to_row()) == state
    assert state.resume_cursor == {"after": [1, "ü\0"]}


@pytest.mark.parametrize(
    ("row", "text"),
    [({"index": 1}, "not the place"), ("x", "not the place"), ({"run": "r", "v": 9}, "format 9")],
)
def test_foreign_row_is_refused(row: Any, text: str) -> None:
    """Bad input: something else under the watcher's key, or a row of a newer version."""
    with pytest.raises(ValueError, match=text):
        WatchState.from_row(row)


def test_first_start_begins_at_the_beginning() -> None:
    """Nothing was kept."""
    assert resume([], FRESH) == FRESH


def test_farthest_place_counts() -> None:
    """An asset that was added later, or whose write was cut off by a kill, is behind the others."""
    behind, ahead = WatchState("r", 1, 3), WatchState("r", 1, 5)
    assert resume([behind, ahead], FRESH) == WatchState("r", 2, 5)


async def test_place_is_kept_with_every_asset() -> None:
    """One trigger may watch for several assets."""
    assets = [AssetState(), AssetState()]
    await AssetPlaces(assets, "k").write(FRESH)
    assert [asset.get("k") for asset in assets] == [FRESH.to_row()] * 2
    assert await AssetPlaces([assets[1], AssetState()], "k").read() == [FRESH]


async def test_pages_without_cursors_are_counted_through() -> None:
    """Of a source that knows no cursor at all, the elements are counted over all pages."""
    pages = [Page([1, 2], many=True), Page([3], many=True)]
    _, state = await walked(pages, FRESH)
    news, _ = await walked([*pages, Page([4], many=True)], state)
    assert news == [4]


async def test_cursor_of_the_last_page_is_gone_on_from() -> None:
    """A source whose last page tells where its news will come is not asked for that page again."""
    _, state = await walked([Page([1, 2], cursor="delta", many=True, last=True)], FRESH)
    assert (state.resume_cursor, state.seen) == ("delta", 0)


async def test_page_that_lost_elements_is_an_error_before_the_next_one() -> None:
    """Elements of the next page must not be taken for the missing ones."""
    state = WatchState("r", 1, 3, None, 3, "d")
    with pytest.raises(StreamError, match="1 elements where 3 were recorded"):
        await walked([Page([1], cursor="c", many=True), Page([2, 3, 4], many=True)], state)
