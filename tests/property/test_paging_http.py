# SPDX-License-Identifier: Apache-2.0
"""Every paginator with every stop condition against a real server of any size, which fails now and then."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import aiohttp
import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from airflow_provider_iteration.pagination import (
    Cursor,
    EmptyPage,
    HasMore,
    LinkHeader,
    MaxItems,
    MaxPages,
    NextLink,
    Offset,
    PageNumber,
    PageRequest,
    PageState,
    PageView,
    Paginator,
    Progress,
    TotalPages,
    TotalReached,
    dump_paginator,
    load_paginator,
)
from harness.api import ApiSettings, PagedApi

PAGINATORS: list[tuple[str, Paginator]] = [
    ("next-link", NextLink()),
    ("link-header", LinkHeader()),
    ("cursor", Cursor("meta.next", "after")),
    ("cursor", Cursor("meta.next", "X-After", "header")),
    ("cursor", Cursor("meta.next", "variables.after", "body")),
    ("offset", Offset(2)),
    ("offset", Offset(100)),
    ("offset", Offset(3, "X-Offset", "X-Limit", location="header")),
    ("offset", Offset(3, "variables.offset", "variables.limit", location="body")),
    ("page", PageNumber()),
    ("page", PageNumber("X-Page", location="header")),
    ("page", PageNumber("variables.page", location="body")),
]
STOPS: list[Any] = [
    None,
    EmptyPage(),
    TotalReached("meta.total"),
    TotalPages("meta.pages"),
    MaxPages(3),
    MaxItems(5),
    TotalReached("meta.total") | MaxPages(4),
    EmptyPage() & TotalPages("meta.pages"),
    HasMore("meta.has_more"),
]


@pytest.fixture(scope="module")
def api() -> Iterator[PagedApi]:
    with PagedApi() as api:
        yield api


async def fetch(session: aiohttp.ClientSession, api: PagedApi, path: str, request: PageRequest) -> PageView:
    url, params = request.address(f"{api.url}/{path}", {"size": 1})
    sent: dict[str, Any] = {"params": params, "headers": request.headers}
    if request.body:
        sent["json"] = request.body
    while True:
        async with session.post(url, **sent) as response:
            if response.status >= 500:
                continue
            assert str(response.url).count("size=") == 1
            body = await response.json()
            headers = {name.lower(): value for name, value in response.headers.items()}
            return PageView(str(response.url), body, headers, len(body["items"]), response.status)


async def walk(api: PagedApi, path: str, paginator: Paginator, cut: int) -> list[list[int]]:
    """Walk over an API, through JSON after so many pages, and return the numbers in each page."""
    pages: list[list[int]] = []
    state = PageState(paginator)
    async with aiohttp.ClientSession() as session:
        while state.request is not None:
            if len(pages) == cut:
                request = msgspec.json.decode(msgspec.json.encode(state.request), type=PageRequest)
                progress = Progress(state.progress.pages, state.progress.items)
                state = PageState(load_paginator(dump_paginator(paginator)), request, progress)
            assert state.request is not None
            page = await fetch(session, api, path, state.request)
            pages.append([item["id"] for item in page.body["items"]])
            state.advance(page)
    return pages


def where_it_ends(stop: Any, pages: list[list[int]], settings: ApiSettings) -> int:
    """Say after how many pages a condition ends a walk over them."""
    for number in range(1, len(pages) + 1):
        items = sum(map(len, pages[:number]))
        progress = Progress(number, items)
        has_more = number < settings.pages
        body = {"meta": {"total": settings.total, "pages": settings.pages, "has_more": has_more}}
        if stop is not None and stop.met(PageView("", body, {}, len(pages[number - 1])), progress):
            return number
    return len(pages)


@pytest.mark.timeout(180)
@pytest.mark.parametrize("stop", STOPS, ids=repr)
@pytest.mark.parametrize(("path", "paginator"), PAGINATORS, ids=lambda value: repr(value)[:60])
@settings(max_examples=4, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    pages=st.integers(1, 7),
    items=st.integers(1, 4),
    short=st.integers(0, 3),
    broken=st.sets(st.integers(0, 7)),
    cut=st.integers(1, 8),
)
def test_all_items_come_once_and_in_order(
    api: PagedApi,
    path: str,
    paginator: Paginator,
    stop: Any,
    pages: int,
    items: int,
    short: int,
    broken: set[int],
    cut: int,
) -> None:
    """Whatever the sizes, the failures and the place of a restart: all items once, in order, and it ends."""
    has_more_body = path in ("cursor",)
    if isinstance(stop, HasMore) and not has_more_body:
        stop = None
    api.reset(
        ApiSettings(
            pages=pages, items=items, short=min(short, items - 1), fail={page: [500] for page in broken}
        )
    )
    spec = msgspec.structs.replace(paginator, stop=stop)
    came = asyncio.run(walk(api, path, spec, cut))
    everything = [number for page in came for number in page]
    assert everything == list(range(len(everything)))
    complete = asyncio.run(walk(api, path, paginator, 0)) if stop is not None else came
    assert [number for page in complete for number in page] == list(range(api.settings.total))
    expected = where_it_ends(stop, complete, api.settings)
    if path not in ("offset",):
        assert len(came) == expected
    else:
        assert len(came) <= len(complete)
