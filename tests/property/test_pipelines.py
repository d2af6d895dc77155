# SPDX-License-Identifier: Apache-2.0
"""Any composition of steps gives what the same steps give on lists."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_iteration.streams.lazy import LazyIterable, LazySequence, node_of, view
from airflow_provider_iteration.streams.nodes import Sliced

Eager = Callable[[list[Any]], list[Any]]
Lazy = Callable[[LazyIterable], LazyIterable]


def weight(item: Any) -> int:
    """A number for any item."""
    return sum(map(weight, item)) if isinstance(item, (list, tuple)) else int(item)


def twice(item: Any) -> list[Any]:
    return [item, weight(item)]


def is_odd(item: Any) -> bool:
    return weight(item) % 2 == 1


def flat(items: list[Any]) -> list[Any]:
    return [inner for item in items for inner in (item if isinstance(item, (list, tuple)) else [item])]


def in_batches(items: list[Any], n: int) -> list[Any]:
    return [items[start : start + n] for start in range(0, len(items), n)]


def mapped(function: Callable[[Any], Any]) -> tuple[Eager, Lazy]:
    return lambda items: [function(item) for item in items], lambda items: items.map(function)


def batched(n: int) -> tuple[Eager, Lazy]:
    return lambda items: in_batches(items, n), lambda items: items.batched(n)


def zipped(other: list[int], fill: bool) -> tuple[Eager, Lazy]:
    if fill:
        return (
            lambda items: list(itertools.zip_longest(items, other, fillvalue=-1)),
            lambda items: items.zip(other, fillvalue=-1),
        )
    return lambda items: list(zip(items, other, strict=False)), lambda items: items.zip(other)


def joined(other: list[int]) -> tuple[Eager, Lazy]:
    return lambda items: items + other, lambda items: items.concat(other)


def with_itself() -> tuple[Eager, Lazy]:
    return lambda items: items + items, lambda items: items.concat(items)


FILTER: tuple[Eager, Lazy] = (
    lambda items: [item for item in items if is_odd(item)],
    lambda items: items.filter(is_odd),
)
FLATTEN: tuple[Eager, Lazy] = (flat, lambda items: items.flatten())

numbers = st.lists(st.integers(0, 9), max_size=12)
sized_steps = st.one_of(
    st.sampled_from([mapped(weight), mapped(twice), with_itself()]),
    st.integers(1, 4).map(batched),
    st.builds(zipped, numbers, st.booleans()),
    numbers.map(joined),
)
steps = st.lists(st.one_of(sized_steps, st.sampled_from([FILTER, FLATTEN])), max_size=6)
sources = st.sampled_from([lambda items: view(node_of(items)), lambda items: view(Sliced(items, "items"))])


def both(source: Any, items: list[Any], chosen: list[tuple[Eager, Lazy]]) -> tuple[list[Any], LazyIterable]:
    expected, lazy = items, source(items)
    for eager_step, lazy_step in chosen:
        expected, lazy = eager_step(expected), lazy_step(lazy)
    return expected, lazy


@given(sources, numbers, steps)
def test_pipelines_equal_their_eager_equivalents(
    source: Any, items: list[int], chosen: list[tuple[Eager, Lazy]]
) -> None:
    """Items and their order, the first time and again."""
    expected, lazy = both(source, items, chosen)
    assert list(lazy) == expected
    assert list(lazy) == expected


@given(sources, numbers, steps)
def test_a_known_length_is_right(source: Any, items: list[int], chosen: list[tuple[Eager, Lazy]]) -> None:
    """Where a length is given, it is that of the list; truth is right in any case."""
    expected, lazy = both(source, items, chosen)
    assert lazy.known_length() in (None, len(expected))
    assert bool(lazy) == bool(expected)


@given(sources, numbers, st.lists(sized_steps, max_size=5), st.data())
def test_sequences_have_indexes_and_slices_as_lists(
    source: Any, items: list[int], chosen: list[tuple[Eager, Lazy]], data: st.DataObject
) -> None:
    """Without filter and flatten every composition is a sequence."""
    expected, lazy = both(source, items, chosen)
    assert isinstance(lazy, LazySequence)
    assert len(lazy) == len(expected)
    part = data.draw(st.slices(len(expected)))
    assert lazy[part] == expected[part]
    assert list(reversed(lazy)) == expected[::-1]
    if expected:
        index = data.draw(st.integers(-len(expected), len(expected) - 1))
        assert lazy[index] == expected[index]
