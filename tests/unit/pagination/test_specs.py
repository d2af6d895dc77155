# SPDX-License-Identifier: Apache-2.0
"""How the next page is asked for."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_iteration.exceptions import PathError
from airflow_provider_iteration.pagination import (
    Cursor,
    MaxPages,
    NextLink,
    PageRequest,
    PageView,
    Paginator,
    SinglePage,
)

URL = "https://api.example/v1/orders?limit=5"
ENDS: list[Any] = [{"next": None}, {"next": ""}, {"next": False}, {}, None]


def page(body: Any) -> PageView:
    return PageView(url=URL, body=body, headers={}, items=1)


def test_next_link() -> None:
    """The link is resolved against the page's URL."""
    following = NextLink().following(page({"next": "?page=2"}), PageRequest())
    assert following == PageRequest(url="https://api.example/v1/orders?page=2")


def test_next_link_keeps_the_rest_of_the_request() -> None:
    """H10: parameters that the link does not have, headers and body stay; the link's parameters win."""
    asked = PageRequest(params={"page": 1, "sort": "id"}, headers={"x": "1"}, body={"q": 2})
    following = NextLink("links.next").following(page({"links": {"next": "?page=2"}}), asked)
    assert following == PageRequest(
        url="https://api.example/v1/orders?page=2", params={"sort": "id"}, headers={"x": "1"}, body={"q": 2}
    )


def test_next_link_with_a_quoted_key() -> None:
    """OData's key has characters that JMESPath wants quoted."""
    body = {"@odata.nextLink": "https://api.example/b"}
    following = NextLink('"@odata.nextLink"').following(page(body), PageRequest())
    assert following == PageRequest(url="https://api.example/b")


@pytest.mark.parametrize("body", ENDS)
@pytest.mark.parametrize("paginator", [NextLink("next"), Cursor("next", "after")])
def test_end(paginator: Paginator, body: Any) -> None:
    """Null, an empty text, false, a missing key and an empty body are the end."""
    assert paginator.following(page(body), PageRequest()) is None


@pytest.mark.parametrize(
    ("location", "expected"),
    [
        ("query", PageRequest(params={"limit": 5, "after": "t"}, headers={"x": "1"}, body={"q": 1})),
        ("body", PageRequest(params={"limit": 5}, headers={"x": "1"}, body={"q": 1, "after": "t"})),
        ("header", PageRequest(params={"limit": 5}, headers={"x": "1", "after": "t"}, body={"q": 1})),
    ],
)
def test_cursor(location: Any, expected: PageRequest) -> None:
    """The token goes where it belongs, and everything else of the request stays."""
    asked = PageRequest(params={"limit": 5}, headers={"x": "1"}, body={"q": 1})
    assert Cursor("meta.t", "after", location).following(page({"meta": {"t": "t"}}), asked) == expected


def test_cursor_replaces_the_one_before() -> None:
    """The next token takes the place of the last one, which is left as it was."""
    asked = PageRequest(params={"after": "a"})
    assert Cursor("t", "after").following(page({"t": "b"}), asked) == PageRequest(params={"after": "b"})
    assert asked == PageRequest(params={"after": "a"})


def test_cursor_in_a_header_of_another_case() -> None:
    """Header names have no case, so none is sent twice."""
    asked = PageRequest(headers={"x-after": "a"})
    following = Cursor("t", "X-After", "header").following(page({"t": 7}), asked)
    assert following == PageRequest(headers={"X-After": "7"})


@pytest.mark.parametrize("token", [0, 7, 1.5, "0"])
def test_cursor_keeps_the_type_of_its_token(token: Any) -> None:
    """A number stays a number, and 0 is a token like others."""
    assert Cursor("t", "after").following(page({"t": token}), PageRequest()) == PageRequest(
        params={"after": token}
    )


@pytest.mark.parametrize("value", [True, ["s3cret"], {"s3cret": 1}])
def test_cursor_that_is_no_token(value: Any) -> None:
    """The error names path and type, and no value."""
    with pytest.raises(PathError, match=r"path 't' leads to a\w* \w+, not to a token") as caught:
        Cursor("t", "after").following(page({"t": value}), PageRequest())
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize("value", [True, 4711, {"href": "s3cret"}])
def test_next_link_that_is_no_link(value: Any) -> None:
    """The error names path and type, and no value."""
    with pytest.raises(PathError, match=r"path 'next' leads to a\w* \w+, not to a link") as caught:
        NextLink().following(page({"next": value}), PageRequest())
    assert "s3cret" not in str(caught.value)
    assert "4711" not in str(caught.value)


@pytest.mark.parametrize("paginator", [NextLink("meta.next"), Cursor("meta.next", "after")])
def test_first_page_without_a_place_for_the_path(paginator: Paginator) -> None:
    """A wrong path must not pass for a single page; the error shows what keys there are."""
    with pytest.raises(PathError) as caught:
        paginator.check_first(page({"data": ["s3cret"], "paging": {}}))
    assert str(caught.value) == (
        "page 1 has no place for path 'meta.next': the body has the keys 'data', 'paging'. Correct the path, "
        "or set optional=True if the API leaves it out when there is only one page"
    )


@pytest.mark.parametrize(
    "paginator",
    [NextLink("meta.next", optional=True), Cursor("meta.next", "after", optional=True), SinglePage()],
)
def test_first_page_may_lack_what_is_optional(paginator: Paginator) -> None:
    """An API may leave the whole object out when everything fits on one page."""
    paginator.check_first(page({"data": []}))


def test_single_page() -> None:
    """There is never a next page."""
    assert SinglePage().following(page({"next": "?page=2"}), PageRequest()) is None


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: NextLink("a..b"), ValueError, "path: 'a..b' is not a valid JMESPath"),
        (lambda: NextLink(3), TypeError, "path: expected a JMESPath expression"),  # type: ignore[arg-type]
        (lambda: Cursor("a", ""), ValueError, "param: expected a name, got an empty text"),
        (lambda: Cursor("a", 3), TypeError, r"param: expected a name \(str\), got int"),  # type: ignore[arg-type]
        (
            lambda: Cursor("a", "b", "path"),  # type: ignore[arg-type]
            ValueError,
            "location: expected one of 'query', 'body', 'header', got 'path'",
        ),
        (
            lambda: NextLink(optional="no"),  # type: ignore[arg-type]
            TypeError,
            "optional: expected True or False, got str",
        ),
        (
            lambda: SinglePage(stop={"type": "max_pages"}),  # type: ignore[arg-type]
            TypeError,
            r"stop: expected a stop condition \(EmptyPage, .*\), got dict",
        ),
        (lambda: Cursor("a", "b", stop=3), TypeError, "stop: expected"),  # type: ignore[arg-type]
    ],
)
def test_wrong_arguments(make: Any, error: type[Exception], message: str) -> None:
    """A spec that cannot work is refused when it is made, and the argument is named."""
    with pytest.raises(error, match=message):
        make()


def test_spec_is_a_frozen_value() -> None:
    """Specs can be compared, hashed and shared."""
    assert len({Cursor("a", "b", stop=MaxPages(3)), Cursor("a", "b", stop=MaxPages(3))}) == 1


def test_spec_cannot_change() -> None:
    """The state of a walk is elsewhere."""
    with pytest.raises(AttributeError):
        NextLink().path = "other"  # type: ignore[misc]
