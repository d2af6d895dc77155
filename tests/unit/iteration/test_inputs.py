# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from typing import Any

import pytest

from airflow_provider_iteration.iteration.inputs import (
    checked_kwargs,
    combinations,
    elements_of,
    known_total,
)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ([1, 2], [1, 2]),
        ({"a": 1, "b": 2}, [("a", 1), ("b", 2)]),
        ("text", ["text"]),
        (b"bytes", [b"bytes"]),
        (5, [5]),
        (False, [False]),
        (date(2026, 1, 1), [date(2026, 1, 1)]),
        (range(2), [0, 1]),
    ],
)
def test_elements(value: Any, expected: list[Any]) -> None:
    """M4: mappings give pairs, a text or number is one item."""
    assert list(elements_of("x", value)) == expected


@pytest.mark.parametrize(("value", "kind"), [(None, "None"), (object(), "object")])
def test_what_cannot_be_iterated_over(value: Any, kind: str) -> None:
    """The argument and the type are named."""
    with pytest.raises(TypeError, match=f"x: cannot iterate over a value of type {kind}"):
        elements_of("x", value)


def test_order_is_that_of_expand() -> None:
    """M4: the cross product, the last argument fastest."""
    made = list(combinations({"x": [1, 2], "y": {"a": 3, "b": 4}}))
    assert made == [
        {"x": 1, "y": ("a", 3)},
        {"x": 1, "y": ("b", 4)},
        {"x": 2, "y": ("a", 3)},
        {"x": 2, "y": ("b", 4)},
    ]


def test_first_input_is_read_as_it_is_asked_for() -> None:
    """Only the inputs whose elements are needed again are held."""
    read = []

    def numbers() -> Iterator[int]:
        for number in range(100):
            read.append(number)
            yield number

    made = combinations({"x": numbers(), "y": "ab"})
    assert (next(made), read) == ({"x": 0, "y": "ab"}, [0])


def test_empty_input_makes_no_item() -> None:
    """One empty input makes the product empty, and the first is not read."""
    assert list(combinations({"x": iter([1]), "y": []})) == []


def test_mappings_of_arguments() -> None:
    """Each item has its own arguments."""
    assert list(checked_kwargs([{"a": 1}, {"b": 2}])) == [{"a": 1}, {"b": 2}]


@pytest.mark.parametrize(
    ("items", "message"),
    [
        ([{"a": 1}, 5], "item 1: expected a mapping of arguments, got int"),
        ([None], "item 0: expected a mapping of arguments, got None"),
        ([{1: 2}], r"item 0: expected names of arguments \(str\) as keys, got int"),
    ],
)
def test_what_has_no_arguments(items: list[Any], message: str) -> None:
    """The index of the item is named."""
    with pytest.raises(TypeError, match=message):
        list(checked_kwargs(items))


@pytest.mark.parametrize(
    ("inputs", "expected"),
    [([[1, 2], {"a": 1, "b": 2, "c": 3}], 6), (["text"], 1), ([iter([1])], None), ([[], iter([1])], None)],
)
def test_total(inputs: list[Any], expected: int | None) -> None:
    """The number of items is known where each input has a length."""
    assert known_total(inputs) == expected
