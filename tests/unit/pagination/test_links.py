# SPDX-License-Identifier: Apache-2.0
"""The ``Link`` header."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_iteration.pagination import LinkHeader, PageRequest, PageView
from airflow_provider_iteration.pagination.links import Link, parse_links

URL = "https://api.example/v1/orders?limit=5"
NEXT = PageRequest(url="https://api.example/v1/orders?page=2")


def following(header: str | None, rel: str = "next", asked: PageRequest | None = None) -> PageRequest | None:
    headers = {} if header is None else {"link": header}
    page = PageView(url=URL, body=None, headers=headers, items=1)
    return LinkHeader(rel).following(page, asked or PageRequest())


@pytest.mark.parametrize(
    "header",
    [
        '<https://api.example/v1/orders?page=2>; rel="next"',
        "<?page=2>; rel=next",
        "<orders?page=2>;rel=next",
        '</v1/orders?page=2> ; rel = "next"',
        '<?page=1>; rel="first", <?page=2>; rel="next", <?page=9>; rel="last"',
        '<?page=1>; rel="first",<?page=2>; rel="next"',
        '<?page=2>; rel="next last"',
        '<?page=2>; rel="last  NEXT"',
        '<?page=2>; REL="Next"',
        '<?page=2>; title="a, b; rel=prev"; rel="next"',
        '<?page=2>; title="a \\", <?page=7>; rel=next"; rel="next"',
        '<?page=2>; rel="next"; rel="prev"',
        '<?page=2>; rel="next"; anchor=""',
        '<?page=7>; rel="next"; anchor="#part", <?page=2>; rel="next"',
        '<?page=2>; rel="next", <?page=7>; rel="next"',
        '<?page=7>; rel="nextish", <?page=7>; rel="x-next", <?page=2>; rel="next"',
        '<>; rel="next", <?page=2>; rel="next"',
        '<?page=2>; hreflang=de; rel="next"; type="text/html"; flag',
        '<?page=2>; flag; rel="next"',
        '<?page=2>;; rel="next";',
        ', ,<?page=2>; rel="next",',
        'garbage, <?page=2>; rel="next"',
        '<?page=2#part>; rel="next"',
        "<?page=2>; rel='next', <?page=2>; rel=next",
        "<?page=2>; title*=UTF-8''%e2%82%ac; rel=next",
    ],
)
def test_next(header: str) -> None:
    """However it is written, the first link with the relation is followed, relative to the page's URL."""
    assert following(header) == NEXT


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        '<?page=1>; rel="prev"',
        "<?page=2>",
        '<>; rel="next"',
        '<?page=2>; rel="next"; anchor="/other"',
        '<?page=2>; rel="prev"; rel="next"',
        '<?page=2>; title="rel=next"',
        '<?page=2>; title="unclosed; rel=next',
        "?page=2; rel=next",
        "<?page=2; rel=next",
    ],
)
def test_end(header: str | None) -> None:
    """Without a link of the relation, this page is the last."""
    assert following(header) is None


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("/o?a=1,2;3", "https://api.example/o?a=1,2;3"),
        ("/o?q=%22a%22", "https://api.example/o?q=%22a%22"),
        (" /o ", "https://api.example/o"),
        ("//files.example/o", "https://files.example/o"),
    ],
)
def test_target(target: str, expected: str) -> None:
    """Commas and semicolons of a target are its own, and its escapes stay as they are."""
    assert following(f'<{target}>; rel="next"') == PageRequest(url=expected)


def test_keeps_the_rest_of_the_request() -> None:
    """H10: parameters that the link does not have, headers and body stay; the link's parameters win."""
    asked = PageRequest(params={"page": 1, "sort": "id"}, headers={"x": "1"}, body={"q": 2})
    assert following('<?page=2>; rel="next"', asked=asked) == PageRequest(
        url="https://api.example/v1/orders?page=2", params={"sort": "id"}, headers={"x": "1"}, body={"q": 2}
    )


def test_other_relation() -> None:
    """Any relation may be followed, upper and lower case being the same."""
    header = '<?page=1>; rel="next", <?page=2>; rel="prev-archive"'
    assert following(header, rel="Prev-Archive") == NEXT


def test_any_body_will_do() -> None:
    """The first page is not checked: a single page has no link."""
    LinkHeader().check_first(PageView(url=URL, body=b"a;b", headers={}, items=1))


def test_parse_links() -> None:
    """Relations are in lower case; of several parameters with one name the first counts."""
    header = '<a>; Rel="Next last"; rel=prev; anchor="#x\\"y", <b>'
    assert list(parse_links(header)) == [Link("a", ("next", "last"), '#x"y'), Link("b", (), "")]


@pytest.mark.parametrize(
    "header", ["<" * 100_000, '"\\' * 100_000, "<a>" + "; " * 100_000, '<a>;b="\\"' * 50_000]
)
def test_hostile_header(header: str) -> None:
    """A header that is made to be slow is read in linear time."""
    assert len(list(parse_links(header))) <= 1


@pytest.mark.parametrize(
    ("rel", "error", "message"),
    [
        (3, TypeError, r"rel: expected a name \(str\), got int"),
        ("", ValueError, "rel: expected a name, got an empty text"),
        ("next last", ValueError, "rel: expected one relation, such as 'next', without white space"),
        (" next", ValueError, "rel: expected one relation"),
    ],
)
def test_wrong_relation(rel: Any, error: type[Exception], message: str) -> None:
    """A relation that no link can have is refused."""
    with pytest.raises(error, match=message):
        LinkHeader(rel)
