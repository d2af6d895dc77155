# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from airflow_provider_iteration.pagination import LinkHeader, PageRequest, PageView
from airflow_provider_iteration.pagination.links import links_of


def view(link: str | None, url: str = "https://api.example/v1/orders?size=5") -> PageView:
    return PageView(url=url, body=[], headers={} if link is None else {"link": link}, items=0)


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ('<a?page=2>; rel="next"', [("a?page=2", ["next"])]),
        ("<a>; rel=next", [("a", ["next"])]),
        ('<a>; rel="next last"', [("a", ["next", "last"])]),
        ('<a>; REL="Next"', [("a", ["next"])]),
        ('<a,b;c>; rel="next"', [("a,b;c", ["next"])]),
        ('<a>; title="x, <y>; rel=z"; rel="next"', [("a", ["next"])]),
        (r'<a>; title="a \" b"; rel="next"', [("a", ["next"])]),
        ('<a>; rel="prev", <b>; rel="next"', [("a", ["prev"]), ("b", ["next"])]),
        ('<a>; rel="next"; rel="prev"', [("a", ["next"])]),
        ('<a>; rel="next"; anchor="#x", <b>; rel="next"', [("b", ["next"])]),
        ("<a>", [("a", [])]),
        ("", []),
        ("not a link", []),
        ('<a>; rel="next" , <b>;rel=last', [("a", ["next"]), ("b", ["last"])]),
    ],
)
def test_links_are_read(header: str, expected: list[tuple[str, list[str]]]) -> None:
    """RFC 8288: quoted and plain parameters, several links, several relations, in any case of letters."""
    assert list(links_of(header)) == expected


def test_next_link_is_resolved_against_the_page() -> None:
    """A relative link is one from where the page is."""
    following = LinkHeader().following(view("</v1/orders?page=2>; rel=next"), PageRequest())
    assert following == PageRequest(url="https://api.example/v1/orders?page=2")


def test_parameters_of_the_link_are_not_doubled() -> None:
    """H10: what the link has already is not sent with it once more."""
    asked = PageRequest(params={"page": 1, "size": 5})
    following = LinkHeader().following(view("<orders?page=2>; rel=next"), asked)
    assert following == PageRequest(url="https://api.example/v1/orders?page=2", params={"size": 5})


@pytest.mark.parametrize("header", [None, "", '<a>; rel="prev"', "garbage"])
def test_no_such_link_is_the_end(header: str | None) -> None:
    """No header, or none with the relation, ends the walk."""
    assert LinkHeader().following(view(header), PageRequest()) is None


def test_another_relation_can_be_followed() -> None:
    """Some APIs have a relation of their own."""
    following = LinkHeader("More").following(view("<orders?page=2>; rel=more"), PageRequest())
    assert following is not None
