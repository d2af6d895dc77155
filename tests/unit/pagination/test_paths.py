# SPDX-License-Identifier: Apache-2.0
"""JMESPath access to the body of a page."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_iteration.exceptions import PathError
from airflow_provider_iteration.pagination import compile_path, find, items_at
from airflow_provider_iteration.pagination.paths import json_type, parent_is_missing, whereabouts


@pytest.mark.parametrize("expression", ["", "a..b", "@odata.nextLink", "next-page", "a[", "a.b |"])
def test_compile_refuses_a_bad_expression(expression: str) -> None:
    """The error names the argument and the expression, and how a special key is written."""
    with pytest.raises(ValueError, match="JMESPath") as caught:
        compile_path("items_path", expression)
    assert str(caught.value).startswith(f"items_path: {expression!r} is not a valid JMESPath expression")
    assert "double quotes" in str(caught.value)


def test_compile_refuses_an_unknown_function() -> None:
    """A misspelt function is found before the first page, also deep in an expression."""
    with pytest.raises(ValueError, match=r"path: .* calls lenght\(\), which JMESPath does not have"):
        compile_path("path", "items[?lenght(name) > `3`].id")


@pytest.mark.parametrize("expression", [None, 3, ["a"]])
def test_compile_refuses_what_is_no_string(expression: Any) -> None:
    """The error names the argument and the type."""
    with pytest.raises(TypeError, match="path: expected a JMESPath expression"):
        compile_path("path", expression)


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("meta.next", "n"),
        ('"@odata.nextLink"', "link"),
        ("rows[-1].id", 2),
        ("rows[?id==`1`].id | [0]", 1),
        ("nothing", None),
        ("meta.next.further", None),
        ("@.meta", {"next": "n"}),
    ],
)
def test_find(path: str, found: Any) -> None:
    """A value at a path, or None."""
    body = {"meta": {"next": "n"}, "@odata.nextLink": "link", "rows": [{"id": 1}, {"id": 2}]}
    assert find(path, body) == found


@pytest.mark.parametrize("path", ["length(total)", "rows[::0]", "sort(total)", "abs(secret)"])
def test_find_does_not_quote_what_a_function_refused(path: str) -> None:
    """JMESPath's own message has the value in it; ours has the path."""
    with pytest.raises(PathError) as caught:
        find(path, {"total": 4711, "secret": "4711", "rows": [1]})
    assert repr(path) in str(caught.value)
    assert "4711" not in str(caught.value)
    assert caught.value.__suppress_context__


@pytest.mark.parametrize(
    ("path", "items"),
    [("orders", [1, 2]), ("data.orders", [3]), ("@.data.orders", [3]), ("data.empty", []), ("a || `[]`", [])],
)
def test_items(path: str, items: list[int]) -> None:
    """The list at the path, empty lists included."""
    assert items_at(path, {"orders": [1, 2], "data": {"orders": [3], "empty": []}}, 1) == items


def test_items_of_a_bare_list() -> None:
    """``@`` is the body itself."""
    assert items_at("@", [1, 2], 1) == [1, 2]


def test_items_missing() -> None:
    """The error names the page, the path and the keys at the deepest level that exists, and no value."""
    with pytest.raises(PathError) as caught:
        items_at("data.orders.rows", {"data": {"order": "s3cret", "count": 2}, "meta": 1}, 4)
    assert str(caught.value).startswith(
        "page 4: items_path 'data.orders.rows' matches nothing; 'data' has the keys 'order', 'count'. "
    )
    assert "s3cret" not in str(caught.value)


def test_items_null() -> None:
    """Null is no list; the error says how to accept it, since GraphQL has null where it failed."""
    with pytest.raises(PathError, match=r"'orders' is null.*use 'orders \|\| `\[\]`'"):
        items_at("orders", {"orders": None}, 1)


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ({"s3cret": 1}, "an object"),
        ("s3cret", "a string"),
        (3, "a number"),
        (1.5, "a number"),
        (True, "a boolean"),
    ],
)
def test_items_no_list(value: Any, name: str) -> None:
    """The error names the page and the type, and no value."""
    with pytest.raises(PathError) as caught:
        items_at("orders", {"orders": value}, 2)
    assert str(caught.value) == f"page 2: items_path 'orders' leads to {name}, not to a list"


@pytest.mark.parametrize(
    ("path", "body", "said"),
    [
        ("next", {"a": 1}, "the body has the keys 'a'"),
        ("next", {}, "the body is an empty object"),
        ("next", [1, 2], "the body is a list of 2"),
        ("next", "text", "the body is a string"),
        ("next", None, "the body is null"),
        ("a.b.c", {"a": {"b": {"x": 1}}}, "'a.b' has the keys 'x'"),
        ("a.b.c.d.e", {"a": {"b": {"c": {"x": 1}}}}, "'a.b.c' has the keys 'x'"),
        ("a.b[*].c.d", {"a": {"b": {"x": 1}}}, "'a.b' has the keys 'x'"),
        ("a[1].c", {"a": [{"c": 1}]}, "'a' is a list of 1"),
        ("a[0].c", {"a": [{"x": 1}]}, "'a.0' has the keys 'x'"),
        ("a.b[?x].c | [0]", {"a": {"z": 1}}, "'a' has the keys 'z'"),
        ("length(a)", {"z": 1}, "the body has the keys 'z'"),
    ],
)
def test_whereabouts(path: str, body: Any, said: str) -> None:
    """Keys, or a type, at the deepest level that exists."""
    assert whereabouts(path, body) == said


def test_whereabouts_is_bounded() -> None:
    """Of many or long keys, the first twenty are shown, each cut."""
    said = whereabouts("next", {f"{number:02}{'k' * 100}": 0 for number in range(50)})
    assert said.endswith(f"'19{'k' * 38}' and 30 more")


@pytest.mark.parametrize(
    ("path", "body", "missing"),
    [
        ("next", {}, False),
        ("next", None, False),
        ("next", [], True),
        ("next", "text", True),
        ("meta.next", {"meta": {}}, False),
        ("meta.next", {"meta": {"next": None}}, False),
        ("meta.next", {"meta": None}, False),
        ("meta.next", {"data": []}, True),
        ("meta.next", {"meta": []}, True),
        ("a.b.next", {"a": {}}, True),
        ("rows[-1].id", {"rows": [{}]}, False),
        ("rows[-1].id", {"rows": []}, True),
        ("rows[-1]", {"rows": []}, False),
        ("link[?rel=='next'].url | [0]", {"link": []}, False),
        ("link[?rel=='next'].url | [0]", {"other": []}, True),
        ("not_null(meta.next)", {}, False),
    ],
)
def test_parent_is_missing(path: str, body: Any, missing: bool) -> None:
    """A missing key has a place where its object is there; the object missing too is another matter."""
    assert parent_is_missing(path, body) is missing


def test_json_type_of_something_else() -> None:
    """A value that no JSON decoder makes is named by its class."""
    assert json_type({1}) == "set"
