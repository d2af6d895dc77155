# SPDX-License-Identifier: Apache-2.0
"""Fingerprints of inputs: equal for equal values in any process, different for others."""

from __future__ import annotations

import subprocess
import sys
from datetime import date
from decimal import Decimal
from typing import Any

import pytest

from airflow_provider_iteration.iteration.fingerprints import Fingerprinter
from airflow_provider_iteration.streams.lazy import LazyIterable, node_of, view
from airflow_provider_iteration.streams.xcom_store import XComPlace
from airflow_provider_iteration.xcom.iterable import XComIterable

IN_ANOTHER_PROCESS = """
from airflow_provider_iteration.iteration.fingerprints import Fingerprinter
print(Fingerprinter()({"b": {"x", "y", "z"}, "a": [1, 2.5, None, b"x"], "c": object()}))
"""


class Plain:
    """Looks the same in every process but for its address."""


class Failing:
    """Has a serialiser that does not take it."""


def test_same_in_another_process() -> None:
    """Neither the order of a set nor an address is part of it."""
    command = [sys.executable, "-c", IN_ANOTHER_PROCESS]
    there = subprocess.run(command, capture_output=True, text=True, check=True)
    here = Fingerprinter()({"a": [1, 2.5, None, b"x"], "b": {"z", "y", "x"}, "c": object()})
    assert there.stdout.strip() == here


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"x": 1}, {"x": 2}),
        ({"x": 1}, {"y": 1}),
        ({"x": 1}, {"x": "1"}),
        ([1, [2, 3]], [[1, 2], 3]),
        ({"x": date(2026, 1, 1)}, {"x": date(2026, 1, 2)}),
        ({"x": Decimal("1.0")}, {"x": Decimal("1.1")}),
        ({"x": 2**80}, {"x": 2**80 + 1}),
    ],
)
def test_different_for_different_values(one: Any, other: Any) -> None:
    """An item whose input has changed is recognised."""
    assert Fingerprinter()(one) != Fingerprinter()(other)


def test_order_of_keys_does_not_matter() -> None:
    """JSONB forgets it, so a value may come back with another one."""
    assert Fingerprinter()({"a": 1, "b": 2}) == Fingerprinter()({"b": 2, "a": 1})


def test_other_types_are_serialised() -> None:
    """What is no JSON is taken as what the serialiser makes of it."""
    fingerprint = Fingerprinter(lambda value: {"of": type(value).__name__})
    assert fingerprint({"x": Plain()}) == fingerprint({"x": {"of": "Plain"}})


def test_other_types_without_a_serialiser_are_taken_as_they_look() -> None:
    """Two objects that differ in their addresses alone count as equal."""

    def refuse(value: Any) -> Any:
        raise TypeError("no")

    fingerprint = Fingerprinter(refuse)
    assert fingerprint(Plain()) == fingerprint(Plain())
    assert fingerprint(Plain()) != fingerprint(Failing())


def test_cyclic_value() -> None:
    """Whatever an item may be, its fingerprint raises nothing."""
    value: list[Any] = []
    value.append(value)
    assert len(Fingerprinter()(value)) == 12


def piped(run: str, method: str = "batched") -> LazyIterable:
    """A pipeline over a stream and a list, of which no item can be read."""
    stream = XComIterable(XComPlace("d", "t", "r"), key="k", run=run, extents=[], pages=0)
    made: LazyIterable = getattr(stream.concat([1, 2]), method)(2 if method == "batched" else str)
    return made


def test_pipelines_are_told_apart_by_what_they_read_from() -> None:
    """A stream that was written anew, another step, other items of a list: without reading an item."""
    fingerprint = Fingerprinter()
    assert fingerprint({"x": piped("a")}) == fingerprint({"x": piped("a")})
    assert fingerprint(piped("a")) != fingerprint(piped("b"))
    assert fingerprint(piped("a")) != fingerprint(piped("a", "map"))
    assert fingerprint(view(node_of([1, 2]))) != fingerprint(view(node_of([1, 3])))
