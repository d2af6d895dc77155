# SPDX-License-Identifier: Apache-2.0
"""Specs from plain dicts, and back."""

from __future__ import annotations

import json
from types import MappingProxyType
from typing import Any

import pytest

from airflow_provider_iteration.pagination import (
    Cursor,
    EmptyPage,
    HasMore,
    MaxItems,
    MaxPages,
    NextLink,
    PageRequest,
    PageView,
    Paginator,
    SinglePage,
    TotalReached,
    dump_paginator,
    load_paginator,
)
from tests.support.shop import Anything, NextInHeader

STOP = (TotalReached("total") & HasMore("more")) | MaxPages(3) | MaxItems(7) | EmptyPage()
TAGS = "the types are cursor, link_header, next_link, offset, page_number, single_page"

PAIRS: list[tuple[Paginator, dict[str, Any]]] = [
    (SinglePage(), {"type": "single_page"}),
    (NextLink(), {"type": "next_link"}),
    (NextLink("links.next"), {"type": "next_link", "path": "links.next"}),
    (
        Cursor("t", "after", "body", optional=True),
        {"type": "cursor", "path": "t", "param": "after", "location": "body", "optional": True},
    ),
    (
        Cursor("t", "after", stop=MaxPages(3)),
        {"type": "cursor", "path": "t", "param": "after", "stop": {"type": "max_pages", "n": 3}},
    ),
    (
        SinglePage(stop=STOP),
        {
            "type": "single_page",
            "stop": {
                "type": "any_of",
                "conditions": [
                    {
                        "type": "all_of",
                        "conditions": [
                            {"type": "total_reached", "path": "total"},
                            {"type": "has_more", "path": "more"},
                        ],
                    },
                    {"type": "max_pages", "n": 3},
                    {"type": "max_items", "n": 7},
                    {"type": "empty_page"},
                ],
            },
        },
    ),
]


@pytest.mark.parametrize(("paginator", "dumped"), PAIRS)
def test_dump(paginator: Paginator, dumped: dict[str, Any]) -> None:
    """A spec's dict is plain JSON without its defaults."""
    assert dump_paginator(paginator) == dumped
    assert json.loads(json.dumps(dump_paginator(paginator))) == dumped


@pytest.mark.parametrize(("paginator", "dumped"), PAIRS)
def test_load(paginator: Paginator, dumped: dict[str, Any]) -> None:
    """A dict makes the spec that a user would have written."""
    assert load_paginator(dumped) == paginator


def test_load_a_spec() -> None:
    """A spec is returned as it is."""
    paginator = NextLink()
    assert load_paginator(paginator) is paginator


def test_load_any_mapping() -> None:
    """Any mapping will do."""
    assert load_paginator(MappingProxyType({"type": "next_link"})) == NextLink()


def test_load_a_dict_with_a_condition_in_it() -> None:
    """A dict may hold a condition as an object."""
    assert load_paginator({"type": "next_link", "stop": MaxPages(2)}) == NextLink(stop=MaxPages(2))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({}, f"paginator: 'type' is missing; {TAGS}"),
        ({"type": "cursr"}, f"paginator: unknown type 'cursr' (did you mean 'cursor'?); {TAGS}"),
        ({"type": "next-link"}, f"paginator: unknown type 'next-link' (did you mean 'next_link'?); {TAGS}"),
        ({"type": "xyz"}, f"paginator: unknown type 'xyz'; {TAGS}"),
        ({"type": ["cursor"]}, f"paginator: unknown type ['cursor'] (did you mean 'cursor'?); {TAGS}"),
        (
            {"type": "next_link", "pth": "a"},
            "paginator 'next_link': unknown field 'pth' (did you mean 'path'?); "
            "the fields are keep_params, optional, path, stop",
        ),
        (
            {"type": "cursor", "path": "a", "param": "b", 3: 4},
            "paginator 'cursor': unknown field 3; the fields are location, optional, param, path, stop",
        ),
        ({"type": "cursor", "path": "a"}, "paginator 'cursor': field 'param' is missing"),
        (
            {"type": "cursor", "path": "a", "param": "b", "location": "qery"},
            "paginator 'cursor': location is 'qery' (did you mean 'query'?); "
            "the choices are body, header, query",
        ),
        (
            {"type": "cursor", "path": "a", "param": 4},
            "paginator 'cursor': Expected `str`, got `int` - at `$.param`",
        ),
        (
            {"type": "next_link", "stop": {"type": "max_page", "n": 3}},
            "paginator.stop: unknown type 'max_page' (did you mean 'max_pages'?); the types are all_of, "
            "any_of, empty_page, has_more, max_items, max_pages, total_pages, total_reached",
        ),
        (
            {"type": "next_link", "stop": {"type": "any_of", "conditions": [{"type": "max_pages"}]}},
            "paginator.stop.conditions[0] 'max_pages': field 'n' is missing",
        ),
        (
            {"type": "next_link", "stop": {"type": "max_pages", "n": 0}},
            "paginator 'next_link': n: expected an int of at least 1, got 0 - at `$.stop`",
        ),
        (
            {"type": "next_link", "stop": {"type": "max_pages", "n": "4"}},
            "paginator 'next_link': Expected `int`, got `str` - at `$.stop.n`",
        ),
        (
            {"type": "next_link", "stop": {"type": "max_pages", "n": True}},
            "paginator 'next_link': Expected `int`, got `bool` - at `$.stop.n`",
        ),
        (
            {"type": "next_link", "stop": 5},
            "paginator 'next_link': Expected `object | null`, got `int` - at `$.stop`",
        ),
    ],
)
def test_load_refuses(value: Any, message: str) -> None:
    """What is wrong is named, together with what would be right."""
    with pytest.raises(ValueError, match="paginator") as caught:
        load_paginator(value)
    assert str(caught.value) == message


def test_load_checks_paths() -> None:
    """A dict is checked as thoroughly as an object."""
    with pytest.raises(ValueError, match=r"paginator 'next_link': path: 'a\.\.b' is not a valid JMESPath"):
        load_paginator({"type": "next_link", "path": "a..b"})


class Mine(Paginator, frozen=True, tag="mine"):
    def following(self, page: PageView, asked: PageRequest) -> PageRequest | None:
        return None


@pytest.mark.parametrize("function", [load_paginator, dump_paginator])
@pytest.mark.parametrize("value", ["next_link", None, 5, NextLink])
def test_refuses_what_is_no_paginator(function: Any, value: Any) -> None:
    """Anything else is refused with what there is."""
    with pytest.raises(
        TypeError, match=r"paginator: expected one of NextLink, LinkHeader, .*, a subclass, or its dict, got"
    ):
        function(value)


def test_own_class_travels_by_its_import_path() -> None:
    """A paginator of the user's own is a dict with its import path, and comes back equal."""
    dumped = dump_paginator(NextInHeader(name="x-next", stop=MaxPages(3)))
    assert dumped == {
        "type": "tests.support.shop.NextInHeader",
        "name": "x-next",
        "stop": {"type": "max_pages", "n": 3},
    }
    assert load_paginator(dumped) == NextInHeader(name="x-next", stop=MaxPages(3))


@pytest.mark.parametrize("module", ["__main__", "unusual_prefix_1a2b_shop"])
def test_own_class_that_cannot_be_imported_is_refused(module: str) -> None:
    """A class of a Dag file cannot travel, and the message says where to put it."""
    kind = type("Mine", (Mine,), {"__module__": module, "__qualname__": "Mine"}, frozen=True, tag="mine2")
    with pytest.raises(TypeError, match=r"Mine cannot be imported in a triggerer.*plugins folder"):
        load_paginator(kind())


def test_own_class_in_a_function_is_refused() -> None:
    """A class that is defined in a function cannot travel."""

    class Local(Mine, frozen=True, tag="local"):
        pass

    with pytest.raises(TypeError, match=r"Local cannot be imported.*defined in a function or a Dag file"):
        dump_paginator(Local())


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("no_such_shop.Paging", "type 'no_such_shop.Paging' cannot be imported"),
        ("tests.support.shop.Missing", "type 'tests.support.shop.Missing' cannot be imported"),
        ("tests.support.shop.is_good", "type 'tests.support.shop.is_good' is no subclass of Paginator"),
    ],
)
def test_wrong_import_path_is_refused(path: str, message: str) -> None:
    """The error names the path."""
    with pytest.raises(ValueError, match=message):
        load_paginator({"type": path})


def test_unknown_field_of_an_own_class_is_refused() -> None:
    """The fields of a class of the user's own are checked as those of this package."""
    with pytest.raises(ValueError, match=r"unknown field 'nme' \(did you mean 'name'\?\)"):
        load_paginator({"type": "tests.support.shop.NextInHeader", "nme": "x"})


def test_field_that_comes_back_otherwise_is_refused() -> None:
    """A field that JSON turns into something else is refused before it travels."""
    with pytest.raises(TypeError, match="a field does not come back equal from JSON"):
        dump_paginator(Anything(value=(1, 2)))


def test_class_that_is_not_in_its_module_is_refused() -> None:
    """A class that its import path does not lead to would not be found."""
    kind = type("Missing", (Mine,), {"__qualname__": "Missing"}, frozen=True, tag="missing")
    with pytest.raises(TypeError, match="Missing is not what .* leads to"):
        load_paginator(kind())


def test_field_that_is_no_json_is_refused() -> None:
    """A field that cannot travel is refused when it is dumped."""
    with pytest.raises(TypeError, match="a field is not plain JSON"):
        dump_paginator(NextInHeader(name=float("nan")))  # type: ignore[arg-type]
