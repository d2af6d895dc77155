# SPDX-License-Identifier: Apache-2.0
"""What an iteration iterates over, in the index order of a mapped task, read lazily."""

from __future__ import annotations

import itertools
import math
from collections.abc import AsyncIterable, Iterable, Iterator, Mapping, Sized
from datetime import date, time, timedelta
from numbers import Number
from typing import Any

from airflow_provider_iteration.streams.lazy import LazyIterable

_ONE_ITEM: tuple[type, ...] = (str, bytes, bytearray, Number, date, time, timedelta)


def elements_of(name: str, value: Any) -> Iterable[Any]:
    """
    Give the elements of one argument's input.

    :param name: the argument, for the error.
    :param value: a mapping gives pairs of key and value, a text or a number is one element, anything else
        must be iterable.
    :raises TypeError: if it is None, or of a type that cannot be iterated over.
    """
    if isinstance(value, Mapping):
        return list(value.items())
    if isinstance(value, _ONE_ITEM):
        return [value]
    if isinstance(value, Iterable):
        return value
    hint = ": an asynchronous iterable can be the only argument" if isinstance(value, AsyncIterable) else ""
    raise TypeError(f"{name}: cannot iterate over a value of type {_kind(value)}{hint}")


def combinations(inputs: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """
    Yield the arguments of each item: the cross product, the last argument fastest, as ``.expand()`` does.

    The first input is read as it is asked for; the others are held, because each of their elements is
    needed again and again.

    :param inputs: argument → what it is iterated over.
    :raises TypeError: for an input that cannot be iterated over.
    """
    first, *others = inputs
    kept = [list(elements_of(name, inputs[name])) for name in others]
    if not all(kept):
        return
    for element in elements_of(first, inputs[first]):
        for rest in itertools.product(*kept):
            yield {first: element, **dict(zip(others, rest, strict=True))}


def checked_kwargs(items: Iterable[Any]) -> Iterator[dict[str, Any]]:
    """
    Yield the arguments of each item of an input that has them as mappings.

    :param items: mappings from argument to value.
    :raises TypeError: if an item is no mapping, or a key no text; it names the item's index.
    """
    for index, item in enumerate(items):
        if not isinstance(item, Mapping):
            raise TypeError(f"item {index}: expected a mapping of arguments, got {_kind(item)}")
        for key in item:
            if not isinstance(key, str):
                raise TypeError(f"item {index}: expected names of arguments (str) as keys, got {_kind(key)}")
        yield item if isinstance(item, dict) else dict(item)


def known_total(inputs: Iterable[Any]) -> int | None:
    """
    Return how many items there will be, if that is known without reading.

    :param inputs: the inputs whose cross product is iterated over.
    """
    lengths = [_length(value) for value in inputs]
    known = [length for length in lengths if length is not None]
    return math.prod(known) if len(known) == len(lengths) else None


def _length(value: Any) -> int | None:
    if isinstance(value, _ONE_ITEM):
        return 1
    if isinstance(value, LazyIterable):
        return value.known_length()
    return len(value) if isinstance(value, Sized) else None


def _kind(value: Any) -> str:
    return "None" if value is None else type(value).__name__
