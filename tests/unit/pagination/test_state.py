# SPDX-License-Identifier: Apache-2.0
"""The state of one walk over pages."""

from __future__ import annotations

import re
from typing import Any

import pytest

from airflow_provider_iteration.exceptions import CursorCycleError, PaginationError, PathError
from airflow_provider_iteration.pagination import (
    Cursor,
    EmptyPage,
    HasMore,
    MaxPages,
    NextLink,
    Offset,
    PageNumber,
    PageRequest,
    PageState,
    PageView,
    Paginator,
    Progress,
    SinglePage,
    TotalReached,
)

ENDPOINT = "https://api.example/orders"


def page(body: Any = None, items: int = 2, url: str = ENDPOINT) -> PageView:
    return PageView(url=url, body=body, headers={}, items=items)


def test_begins_with_the_operators_own_request() -> None:
    """Without a start, the first request changes nothing."""
    assert PageState(NextLink()).request == PageRequest()


def test_advance_returns_the_next_request() -> None:
    """The next request is returned, and is the state's own from then on."""
    state = PageState(Cursor("t", "after"))
    following = state.advance(page({"t": "a"}))
    assert following == state.request == PageRequest(params={"after": "a"})


def test_advance_counts() -> None:
    """Pages and items are counted, the last page included."""
    state = PageState(NextLink())
    state.advance(page({"next": "?p=2"}))
    state.advance(page({}))
    assert state.progress == Progress(2, 4)


def test_a_resumed_walk_counts_on() -> None:
    """A stop condition sees what came before the resume."""
    state = PageState(NextLink(stop=MaxPages(3)), PageRequest(url=f"{ENDPOINT}?p=3"), Progress(2, 4))
    assert state.advance(page({"next": "?p=4"})) is None
    assert state.progress == Progress(3, 6)


def test_a_resumed_walk_does_not_take_its_page_for_the_first() -> None:
    """The last page may lack the object around the link."""
    state = PageState(NextLink("meta.next"), PageRequest(url=f"{ENDPOINT}?p=3"), Progress(2, 4))
    assert state.advance(page({"orders": []})) is None


def test_a_first_page_without_a_place_for_the_path() -> None:
    """A wrong path is an error on the first page."""
    with pytest.raises(PathError, match="page 1 has no place for path"):
        PageState(NextLink("meta.next")).advance(page({"orders": []}))


def test_a_later_page_without_a_place_for_the_path() -> None:
    """After the first page, it is the end."""
    state = PageState(NextLink("meta.next"))
    state.advance(page({"meta": {"next": "?p=2"}}))
    assert state.advance(page({"orders": []})) is None


def test_stop_comes_before_the_paginator() -> None:
    """H11: a stop condition ends the walk whatever the next link says."""
    state = PageState(NextLink(stop=TotalReached("total") | HasMore("more")))
    assert state.advance(page({"next": "?p=2", "more": True, "total": 2})) is None
    assert state.request is None


def test_an_empty_first_page_need_not_have_the_path() -> None:
    """Where the stop condition ends the walk, nothing else is looked at."""
    assert PageState(NextLink("meta.next", stop=EmptyPage())).advance(page({}, items=0)) is None


def test_advance_after_the_end() -> None:
    """There is no page to come once the walk has ended."""
    state = PageState(SinglePage())
    state.advance(page())
    with pytest.raises(RuntimeError, match="has ended"):
        state.advance(page())


def test_the_same_cursor_again() -> None:
    """A token that does not change is noticed at once, and is not in the error."""
    state = PageState(Cursor("t", "after"))
    state.advance(page({"t": "s3cret"}))
    with pytest.raises(CursorCycleError) as caught:
        state.advance(page({"t": "s3cret"}))
    assert (caught.value.first, caught.value.again) == (2, 3)
    assert "s3cret" not in str(caught.value)


def test_a_link_to_the_first_page() -> None:
    """The operator's own request is known by the URL that answered it."""
    state = PageState(NextLink())
    state.advance(page({"next": "?p=2"}))
    with pytest.raises(CursorCycleError) as caught:
        state.advance(page({"next": ENDPOINT}, url=f"{ENDPOINT}?p=2"))
    assert (caught.value.first, caught.value.again) == (1, 3)


def test_a_page_that_links_to_itself() -> None:
    """The shortest circle is the first page naming itself as the next."""
    with pytest.raises(CursorCycleError) as caught:
        PageState(NextLink()).advance(page({"next": "/orders?"}))
    assert (caught.value.first, caught.value.again) == (1, 2)


def test_the_same_url_with_another_body() -> None:
    """A token in the body is not a circle, though the URL stays."""
    state = PageState(Cursor("t", "after", "body"), PageRequest(url=ENDPOINT))
    state.advance(page({"t": "a"}))
    assert state.advance(page({"t": "b"})) == PageRequest(url=ENDPOINT, body={"after": "b"})


def test_nothing_goes_on_after_a_circle() -> None:
    """A walk that failed has no next request."""
    state = PageState(NextLink())
    with pytest.raises(CursorCycleError):
        state.advance(page({"next": ENDPOINT}))
    assert state.request is None


def test_repr_is_redacted() -> None:
    """The repr has no token."""
    state = PageState(Cursor("t", "after"), PageRequest(url=f"{ENDPOINT}?after=s3cret"), Progress(3, 9))
    assert "s3cret" not in repr(state)
    assert "Progress(pages=3, items=9)" in repr(state)


def same_page(items: int = 2) -> PageView:
    return PageView("https://api.example/orders", {}, {}, items, content=b"the same")


@pytest.mark.parametrize("paginator", [PageNumber(), Offset()])
def test_api_that_takes_no_notice_of_a_counted_parameter(paginator: Paginator) -> None:
    """The same page again and again is no walk, and would never end."""
    state = PageState(paginator)
    state.advance(same_page())
    with pytest.raises(PaginationError, match="page 2 is the same as page 1: does the API know"):
        state.advance(same_page())


def test_equal_pages_are_right_where_there_is_another_end() -> None:
    """With a stop condition the walk ends anyway."""
    state = PageState(PageNumber(stop=MaxPages(3)))
    for _ in range(3):
        state.advance(same_page())
    assert state.request is None


@pytest.mark.parametrize(
    ("paginator", "body", "doubt"),
    [
        (NextLink("nxt"), {"next": "x", "items": []}, "nothing at 'nxt'.*'next', 'items'"),
        (
            Cursor("meta.nxt", "after"),
            {"meta": {"next": "x"}},
            "nothing at 'meta.nxt'.*'meta' has the keys 'next'",
        ),
        (PageNumber(stop=HasMore("more")), {"has_more": True}, "nothing at 'more'.*'has_more'"),
        (PageNumber(stop=HasMore("more") | MaxPages(9)), {"a": 1}, "nothing at 'more'"),
    ],
)
def test_walk_that_ends_where_nothing_is_found_is_doubted(
    paginator: Paginator, body: Any, doubt: str
) -> None:
    """A misspelt path must not pass silently for the last page."""
    state = PageState(paginator)
    page = PageView("https://api.example/orders", body, {}, 2)
    state.advance(page)
    assert re.search(doubt, state.doubt(page) or "")


@pytest.mark.parametrize("body", [{"next": None}, {"next": ""}, {"next": False}])
def test_walk_that_ends_because_the_api_says_so_is_not_doubted(body: Any) -> None:
    """Null is an answer."""
    state = PageState(NextLink("next"))
    page = PageView("https://api.example/orders", body, {}, 2)
    state.advance(page)
    assert state.doubt(page) is None


def test_link_is_followed_as_it_is() -> None:
    """With keep_params=False no parameter of the operator goes with a link."""
    state = PageState(NextLink(keep_params=False))
    request = state.advance(PageView("https://api.example/orders?a=1", {"next": "?b=2"}, {}, 2))
    assert request is not None
    assert request.address("https://api.example/orders", {"a": 1}) == ("https://api.example/orders?b=2", {})
