# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_iteration.exceptions import PaginationError
from airflow_provider_iteration.pagination import (
    Cursor,
    EmptyPage,
    HasMore,
    MaxItems,
    MaxPages,
    NextLink,
    Offset,
    PageNumber,
    PageRequest,
    PageView,
    Paginator,
    SinglePage,
    TotalPages,
    check_items_known,
    merge_body,
)


def page(items: int) -> PageView:
    return PageView(url="https://api.example/orders", body={}, headers={}, items=items)


def test_offset_begins_with_both_parameters() -> None:
    """The first request says already where to begin and how much to give."""
    assert Offset(50, start=10).first().params == {"offset": 10, "limit": 50}


def test_offset_without_a_limit_parameter() -> None:
    """Where the API has no limit, none is sent."""
    assert Offset(limit_param=None).first().params == {"offset": 0}


def test_offset_grows_by_what_came() -> None:
    """An API that gives fewer items than asked for loses none."""
    paginator = Offset(100)
    following = paginator.following(page(30), paginator.first())
    assert following is not None
    assert following.params == {"offset": 30, "limit": 100}


def test_offset_grows_by_the_limit() -> None:
    """An API that filters after it has counted is walked by its limit."""
    paginator = Offset(100, step="limit")
    following = paginator.following(page(30), paginator.first())
    assert following is not None
    assert following.params["offset"] == 100


@pytest.mark.parametrize("paginator", [Offset(), PageNumber()])
def test_page_without_items_is_the_end(paginator: Paginator) -> None:
    """What lies beyond the last page has no items."""
    assert paginator.following(page(0), paginator.first()) is None


@pytest.mark.parametrize(
    "paginator",
    [
        Offset(step="limit", end_on_empty=False, stop=HasMore("more")),
        PageNumber(end_on_empty=False, stop=HasMore("more")),
    ],
)
def test_page_without_items_in_the_middle(paginator: Paginator) -> None:
    """An API that filters after it has counted is walked to what it says is the end."""
    assert paginator.following(page(0), paginator.first()) is not None


def test_request_without_the_parameter_is_an_error() -> None:
    """A walk that was begun by another paginator cannot be gone on with."""
    with pytest.raises(PaginationError, match="no number as parameter 'page'"):
        PageNumber().following(page(5), PageRequest())


@pytest.mark.parametrize("location", ["query", "body", "header"])
def test_page_number_counts_up(location: Any) -> None:
    """The number is read from the request that was asked, so that a resumed walk goes on rightly."""
    paginator = PageNumber("p", start=0, size=20, size_param="n", location=location)
    second = paginator.following(page(20), paginator.first())
    assert second is not None
    third = paginator.following(page(20), second)
    assert third is not None
    sent = {"query": third.params, "body": third.body, "header": third.headers}[location]
    assert {name: int(value) for name, value in sent.items()} == {"p": 2, "n": 20}


def test_parameter_goes_deep_into_a_body() -> None:
    """GraphQL's variables: a path with dots is a place in the body."""
    paginator = PageNumber("variables.page", size=5, size_param="variables.first", location="body")
    assert paginator.first().body == {"variables": {"page": 1, "first": 5}}


def test_token_goes_deep_into_a_body() -> None:
    """A cursor too goes where GraphQL wants it."""
    answer = PageView(url="https://api.example", body={"next": "t"}, headers={}, items=1)
    following = Cursor("next", "variables.after", location="body").following(answer, PageRequest())
    assert following == PageRequest(body={"variables": {"after": "t"}})


def test_fields_are_merged_at_every_depth() -> None:
    """The operator's own fields stay beside those of the page."""
    merged = merge_body({"query": "q", "variables": {"shop": 1}}, {"variables": {"after": "t"}})
    assert merged == {"query": "q", "variables": {"shop": 1, "after": "t"}}


def test_field_below_a_number_is_refused() -> None:
    """A place that cannot take a field is named, without its value."""
    with pytest.raises(PaginationError, match=r"below body\['variables'\], which is no mapping"):
        merge_body({"variables": 5}, {"variables": {"after": "t"}})


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: Offset(0), ValueError, "limit: expected at least 1, got 0"),
        (lambda: Offset(True), TypeError, "limit: expected a whole number, got bool"),
        (lambda: Offset(start=-1), ValueError, "start: expected at least 0"),
        (lambda: Offset(step="pages"), ValueError, "step: expected one of 'items', 'limit'"),  # type: ignore[arg-type]
        (lambda: Offset(param=""), ValueError, "param: expected a name"),
        (lambda: Offset(param="a", limit_param="a"), ValueError, "limit_param: 'a' is where param is sent"),
        (
            lambda: PageNumber(size=5, size_param="page.size", location="body"),
            ValueError,
            "size_param: 'page.size' is where param is sent",
        ),
        (lambda: Offset(param="a..b", location="body"), ValueError, "param: expected names between the dots"),
        (lambda: PageNumber(end_on_empty=False), ValueError, "end_on_empty=False: needs a stop"),
        (lambda: Offset(end_on_empty=False, stop=HasMore("m")), ValueError, 'needs step="limit"'),
        (lambda: PageNumber(location="path"), ValueError, "location: expected one of"),  # type: ignore[arg-type]
        (lambda: PageNumber(size=5), ValueError, "size_param: size and size_param go together"),
        (lambda: PageNumber(size_param="n"), ValueError, "size: size and size_param go together"),
        (lambda: PageNumber(size=0, size_param="n"), ValueError, "size: expected at least 1"),
    ],
)
def test_wrong_arguments(make: Any, error: type[Exception], message: str) -> None:
    """A spec that cannot work is refused when it is made, and the argument is named."""
    with pytest.raises(error, match=message):
        make()


@pytest.mark.parametrize(
    "paginator",
    [
        Offset(),
        Offset(stop=HasMore("more")),
        Offset(step="limit"),
        Offset(step="limit", stop=EmptyPage()),
        PageNumber(),
        PageNumber(stop=MaxPages(3) | MaxItems(5)),
        NextLink(stop=MaxItems(5)),
        SinglePage(stop=EmptyPage()),
    ],
)
def test_items_must_be_known(paginator: Paginator) -> None:
    """A walk that counts items cannot do without them, or it would never end."""
    with pytest.raises(ValueError, match="items_path: "):
        check_items_known(paginator, None)
    check_items_known(paginator, "items")


@pytest.mark.parametrize(
    "paginator",
    [NextLink(), PageNumber(stop=HasMore("more")), Offset(step="limit", stop=TotalPages("n") | MaxPages(5))],
)
def test_items_need_not_be_known(paginator: Paginator) -> None:
    """A walk that ends otherwise may stream whole pages."""
    check_items_known(paginator, None)
