# SPDX-License-Identifier: Apache-2.0
"""Requests, pages and their URLs."""

from __future__ import annotations

import io
import json
from typing import Any

import msgspec
import pytest

from airflow_provider_iteration.exceptions import PaginationError
from airflow_provider_iteration.pagination import PageRequest, PageView, merge_query, resolve_next
from airflow_provider_iteration.pagination.request import drop_query

SECRET = "s3cret"
URL = f"https://me:{SECRET}@api.example/orders?token={SECRET}#{SECRET}"
REQUEST = PageRequest(url=URL, params={"after": SECRET}, headers={"x": SECRET}, body={"b": SECRET})


def test_request_is_plain_json() -> None:
    """A request survives JSON, as a stream's resume cursor must."""
    text = json.dumps(msgspec.to_builtins(REQUEST))
    assert msgspec.convert(json.loads(text), PageRequest) == REQUEST


def test_requests_do_not_share_their_defaults() -> None:
    """Each request has dicts of its own."""
    assert PageRequest().params is not PageRequest().params


def test_request_is_frozen() -> None:
    """A request cannot change after it was remembered."""
    with pytest.raises(AttributeError):
        REQUEST.url = None  # type: ignore[misc]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (REQUEST, "PageRequest(url='api.example/orders')"),
        (PageRequest(params={"after": SECRET}), "PageRequest(url=None)"),
        (
            PageView(url=URL, body={"b": SECRET}, headers={"x": SECRET}, items=5),
            "PageView(url='api.example/orders', items=5, status=200)",
        ),
        (PageRequest(url=f"https://[{SECRET}"), "PageRequest(url='<not a URL>')"),
    ],
)
def test_repr_is_redacted(value: Any, expected: str) -> None:
    """Host and path are shown; parameters, headers, body, user and query are not."""
    assert repr(value) == expected


def test_rich_repr_is_redacted() -> None:
    """Tracebacks with locals are printed by rich, which asks for a repr of its own."""
    console = pytest.importorskip("rich.console").Console(file=io.StringIO(), width=500)
    console.print(REQUEST)
    assert SECRET not in console.file.getvalue()


@pytest.mark.parametrize(
    ("link", "expected"),
    [
        ("https://api.example/orders?page=2", "https://api.example/orders?page=2"),
        ("/orders?page=2", "https://api.example/orders?page=2"),
        ("?page=2", "https://api.example/v1/orders?page=2"),
        ("next/2", "https://api.example/v1/next/2"),
        ("../v2/orders", "https://api.example/v2/orders"),
        ("//files.example/a", "https://files.example/a"),
        ("?page=2#top", "https://api.example/v1/orders?page=2"),
        (" ?page=2\n", "https://api.example/v1/orders?page=2"),
        ("https://api.example/o?sig=a%2Bb%3D&x", "https://api.example/o?sig=a%2Bb%3D&x"),
    ],
)
def test_resolve_next(link: str, expected: str) -> None:
    """A link is resolved against the page it is in, its fragment dropped, its escapes untouched."""
    assert resolve_next("https://api.example/v1/orders?page=1", link) == expected


def test_resolve_next_refuses_what_is_no_url() -> None:
    """The error shows the page, not the link."""
    with pytest.raises(PaginationError, match=r"the page at api\.example/orders has a next link") as caught:
        resolve_next(URL, f"https://[{SECRET}/")
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "params", "left"),
    [
        ("https://a.example/o?page=2&limit=5", {"limit": 10, "sort": "id"}, {"sort": "id"}),
        ("https://a.example/o?limit=", {"limit": 10}, {}),
        ("https://a.example/o?filter%5Bid%5D=1", {"filter[id]": 2}, {}),
        ("https://a.example/o?a+b=1", {"a b": 2}, {}),
        ("https://a.example/o", {"limit": 10}, {"limit": 10}),
    ],
)
def test_merge_query(url: str, params: dict[str, Any], left: dict[str, Any]) -> None:
    """H10: a parameter that the link has is not sent again, however it is escaped; the link's wins."""
    assert merge_query(url, params) == (url, left)


@pytest.mark.parametrize(
    ("url", "names", "expected"),
    [
        ("https://a.example/o?after=0&sig=a%2Bb", ["after"], "https://a.example/o?sig=a%2Bb"),
        ("https://a.example/o?f%5Ba%5D=0", ["f[a]"], "https://a.example/o"),
        ("https://a.example/o?after=0&after=1&x", ["after"], "https://a.example/o?x"),
        ("https://a.example/o?after=0", [], "https://a.example/o?after=0"),
    ],
)
def test_drop_query(url: str, names: list[str], expected: str) -> None:
    """The named parameters go, the others stay as they are written."""
    assert drop_query(url, names) == expected


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (PageRequest(), ("https://a.example/o?after=0&x=1", {"limit": 5})),
        (PageRequest(params={"after": "t"}), ("https://a.example/o?x=1", {"limit": 5, "after": "t"})),
        (PageRequest(url="https://a.example/p?limit=9"), ("https://a.example/p?limit=9", {})),
        (PageRequest(params={"limit": 7}), ("https://a.example/o?after=0&x=1", {"limit": 7})),
    ],
)
def test_address(asked: PageRequest, expected: tuple[str, dict[str, Any]]) -> None:
    """H10: the request's parameters win over the URL's, and these over the operator's; none comes twice."""
    assert asked.address("https://a.example/o?after=0&x=1", {"limit": 5}) == expected


@pytest.mark.parametrize(
    "other",
    [
        PageRequest(url="https://a.example/o?limit=5&after=t"),
        PageRequest(url="https://A.example/o?after=%74", params={"limit": 5}),
        PageRequest(url="https://a.example/o?after=old", params={"after": "t", "limit": "5"}),
        PageRequest(url="https://a.example/o", params={"limit": 5, "after": ["t"]}),
    ],
)
def test_digest_is_of_what_is_asked(other: PageRequest) -> None:
    """Two ways of writing the same request have the same digest."""
    assert other.digest() == PageRequest(url="https://a.example/o?after=t&limit=5").digest()


@pytest.mark.parametrize(
    "other",
    [
        PageRequest(),
        PageRequest(url="https://a.example/o?after=u"),
        PageRequest(url="https://a.example/p?after=t"),
        PageRequest(url="http://a.example/o?after=t"),
        PageRequest(url="https://a.example/o?after=t", headers={"x": "1"}),
        PageRequest(url="https://a.example/o?after=t", body={"x": 1}),
        PageRequest(url="https://a.example/o?after=t&after=t"),
    ],
)
def test_digest_tells_requests_apart(other: PageRequest) -> None:
    """URL, query, headers and body all count."""
    assert other.digest() != PageRequest(url="https://a.example/o?after=t").digest()


def test_digest_of_any_json() -> None:
    """A token that is no valid Unicode, and a body of any depth, have a digest of 16 bytes."""
    assert len(PageRequest(params={"t": "\ud800"}, body={"a": [{"b": None}]}).digest()) == 16
