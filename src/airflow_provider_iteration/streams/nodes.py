# SPDX-License-Identifier: Apache-2.0
"""
The steps of a pipeline over items that are read when they are asked for.

A *node* gives items of the nodes before it, anew each time it is iterated over. One whose length is known
is *sized*, and also gives any stretch of its items without those before it. Users see nodes only through
the sequences of :mod:`.lazy`.

An item can be a page of many, so none is held while the next one is read: hence the ``del`` statements, and
no ``enumerate``, which holds on to what it gave last.
"""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from airflow_provider_iteration.streams.codec import estimate_size
from airflow_provider_iteration.streams.step_arguments import MISSING, function_name

FIRST_SLICE = 16
LARGEST_SLICE = 256
SLICE_BYTES = 1024 * 1024


class Unread:
    """Base of all values whose items are read when they are asked for."""


class Node(ABC):
    """
    One step.

    :param depth: its number in the pipeline; what items come from has 0.
    """

    depth = 0
    sized = True

    @abstractmethod
    def __iter__(self) -> Iterator[Any]: ...

    @abstractmethod
    def describe(self) -> str:
        """Return a short text that costs no read."""

    def identity(self) -> Any:
        """Return what tells these items from others, for a fingerprint; it costs no read."""
        return self.describe()

    def length(self) -> int:
        """Return the number of items, of a sized node."""
        raise NotImplementedError

    def span(self, start: int, stop: int) -> Iterator[Any]:
        """Yield the items from ``start`` to before ``stop``, of a sized node (0 <= start, stop <= length)."""
        raise NotImplementedError


class Held(Node):
    """
    Items of any sequence.

    :param items: the sequence; iterating over it and asking for single items is cheap.
    """

    def __init__(self, items: Sequence[Any]) -> None:
        self._items = items

    def __iter__(self) -> Iterator[Any]:
        return iter(self._items)

    def length(self) -> int:
        return len(self._items)

    def span(self, start: int, stop: int) -> Iterator[Any]:
        return (self._items[index] for index in range(start, stop))

    def identity(self) -> Any:
        return list(self._items)

    def describe(self) -> str:
        return f"{len(self._items)} items"


class Again(Node):
    """
    Items of an iterable of unknown length, which can be iterated over again.

    :param items: the iterable.
    """

    sized = False

    def __init__(self, items: Iterable[Any]) -> None:
        self._items = items

    def __iter__(self) -> Iterator[Any]:
        return iter(self._items)

    def describe(self) -> str:
        return f"items of a {type(self._items).__name__}"


class Sliced(Node):
    """
    Items of a sequence in which one item costs as much as a slice.

    Slices are as long as brings about a megabyte, at most 256 items. The last one read is kept.

    :param items: the sequence.
    :param name: what it is, in words.
    """

    def __init__(self, items: Sequence[Any], name: str) -> None:
        self._items = items
        self._name = name
        self._kept: tuple[int, list[Any]] = (0, [])
        self._count = FIRST_SLICE
        self._end = math.inf

    def __iter__(self) -> Iterator[Any]:
        return self._from(0, math.inf)

    def length(self) -> int:
        return len(self._items)

    def span(self, start: int, stop: int) -> Iterator[Any]:
        return self._from(start, stop)

    def describe(self) -> str:
        return self._name

    def _from(self, start: int, stop: float) -> Iterator[Any]:
        while start < min(stop, self._end):
            first, items = self._slice_with(start, backwards=stop == start + 1)
            part = items[start - first : int(min(stop - first, len(items)))]
            del items
            start += len(part)
            yield from part
            # Not held while the next slice is read.
            del part

    def _slice_with(self, index: int, *, backwards: bool) -> tuple[int, list[Any]]:
        first, items = self._kept
        if first <= index < first + len(items):
            return first, items
        low, high = index, index + self._count
        # Who goes backwards asks for the item before those that were read last.
        if backwards and items and index == first - 1:
            low, high = max(index + 1 - self._count, 0), index + 1
        del items
        self._kept = (0, [])
        read = list(self._items[low:high])
        if len(read) < high - low:
            self._end = low + len(read)
        self._count = _next_count(self._count, read)
        self._kept = (low, read)
        return low, read


def _next_count(count: int, items: Sequence[Any]) -> int:
    if not items:
        return count
    fitting = SLICE_BYTES * len(items) // max(estimate_size(items), 1)
    return max(1, min(fitting, 4 * count, LARGEST_SLICE))


class Step(Node):
    """
    Base of the steps that have one node before them.

    :param source: the node before it.
    """

    def __init__(self, source: Node) -> None:
        self._source = source
        self.depth = source.depth + 1

    def identity(self) -> Any:
        return [self._source.identity(), self.label()]

    def describe(self) -> str:
        return f"{self._source.describe()} | {self.label()}"

    @abstractmethod
    def label(self) -> str:
        """Return what was written, shortly."""

    def _name(self, error: Exception, index: int) -> None:
        error.add_note(f"raised in {self.label()}, step {self.depth} of the pipeline, for its item {index}")


class Mapped(Step):
    """What a function makes of each item."""

    def __init__(self, source: Node, function: Callable[[Any], Any]) -> None:
        super().__init__(source)
        self._function = function
        self.sized = source.sized

    def __iter__(self) -> Iterator[Any]:
        return self._made(self._source, 0)

    def length(self) -> int:
        return self._source.length()

    def span(self, start: int, stop: int) -> Iterator[Any]:
        return self._made(self._source.span(start, stop), start)

    def label(self) -> str:
        return f"map({function_name(self._function)})"

    def _made(self, items: Iterable[Any], index: int) -> Iterator[Any]:
        for item in items:
            try:
                made = self._function(item)
            except Exception as error:
                self._name(error, index)
                raise
            del item
            yield made
            del made
            index += 1


class Filtered(Step):
    """The items that a function says yes to."""

    sized = False

    def __init__(self, source: Node, function: Callable[[Any], Any]) -> None:
        super().__init__(source)
        self._function = function

    def __iter__(self) -> Iterator[Any]:
        index = 0
        for item in self._source:
            try:
                wanted = self._function(item)
            except Exception as error:
                self._name(error, index)
                raise
            if wanted:
                yield item
            del item
            index += 1  # noqa: SIM113

    def label(self) -> str:
        return f"filter({function_name(self._function)})"


class Flattened(Step):
    """The items of lists, tuples and generators; texts, mappings and whatever else are left whole."""

    sized = False

    def __iter__(self) -> Iterator[Any]:
        index = 0
        for page in self._source:
            items = self._items_of(page, index) if _is_page(page) else (page,)
            del page
            yield from items
            del items
            index += 1  # noqa: SIM113

    def label(self) -> str:
        return "flatten()"

    def _items_of(self, page: Iterable[Any], index: int) -> Iterator[Any]:
        try:
            yield from page
        except Exception as error:
            self._name(error, index)
            raise


def _is_page(value: Any) -> bool:
    return isinstance(value, (Sequence, Iterator, Unread)) and not isinstance(value, (str, bytes, bytearray))


class Batched(Step):
    """Lists of so many items, the last one of what remains."""

    def __init__(self, source: Node, size: int) -> None:
        super().__init__(source)
        self.size = size
        self.sized = source.sized

    @property
    def source(self) -> Node:
        """The node before it."""
        return self._source

    def __iter__(self) -> Iterator[Any]:
        items = iter(self._source)
        while batch := list(itertools.islice(items, self.size)):
            yield batch
            del batch

    def length(self) -> int:
        return -(-self._source.length() // self.size)

    def span(self, start: int, stop: int) -> Iterator[Any]:
        length = self._source.length()
        for index in range(start, stop):
            yield list(self._source.span(index * self.size, min((index + 1) * self.size, length)))

    def label(self) -> str:
        return f"batched({self.size})"


class Zipped(Step):
    """
    Tuples of the items of several nodes that have the same place.

    :param source: the node before it.
    :param others: the other nodes.
    :param fillvalue: what stands for items of nodes that have ended; without it the shortest decides.
    :param strict: whether a node that ends before the others is an error.
    """

    def __init__(self, source: Node, others: Sequence[Node], fillvalue: Any, strict: bool) -> None:
        super().__init__(source)
        self._nodes = [source, *others]
        self._fillvalue = fillvalue
        self._strict = strict
        self.depth = max(node.depth for node in self._nodes) + 1
        self.sized = all(node.sized for node in self._nodes)

    def identity(self) -> Any:
        return [[node.identity() for node in self._nodes], self.label()]

    def __iter__(self) -> Iterator[Any]:
        return self._zipped(self._nodes)

    def length(self) -> int:
        lengths = [node.length() for node in self._nodes]
        if self._strict and len(set(lengths)) > 1:
            raise ValueError(f"zip(strict=True): the inputs have {_listed(lengths)} items")
        return min(lengths) if self._fillvalue is MISSING else max(lengths)

    def span(self, start: int, stop: int) -> Iterator[Any]:
        lengths = [node.length() for node in self._nodes]
        spans = [
            node.span(min(start, length), min(stop, length))
            for node, length in zip(self._nodes, lengths, strict=True)
        ]
        return self._zipped(spans)

    def label(self) -> str:
        others = ", ".join(node.describe() for node in self._nodes[1:])
        return f"zip({others})"

    def _zipped(self, inputs: Sequence[Iterable[Any]]) -> Iterator[Any]:
        if self._fillvalue is not MISSING:
            return itertools.zip_longest(*inputs, fillvalue=self._fillvalue)
        return self._strictly(inputs) if self._strict else zip(*inputs, strict=False)

    def _strictly(self, inputs: Sequence[Iterable[Any]]) -> Iterator[Any]:
        for index, items in enumerate(itertools.zip_longest(*inputs, fillvalue=MISSING)):
            if ended := [number for number, item in enumerate(items) if item is MISSING]:
                raise ValueError(
                    f"zip(strict=True): input {ended[0]} (from 0) has only {index} items, others have more"
                )
            yield items


def _listed(lengths: Sequence[int]) -> str:
    return " and ".join((", ".join(map(str, lengths[:-1])), str(lengths[-1])))


class Concatenated(Step):
    """
    The items of several nodes, one after the other.

    :param source: the node before it.
    :param others: the other nodes.
    """

    def __init__(self, source: Node, others: Sequence[Node]) -> None:
        super().__init__(source)
        self._nodes = [source, *others]
        self.depth = max(node.depth for node in self._nodes) + 1
        self.sized = all(node.sized for node in self._nodes)

    def identity(self) -> Any:
        return [[node.identity() for node in self._nodes], self.label()]

    def __iter__(self) -> Iterator[Any]:
        return itertools.chain.from_iterable(self._nodes)

    def length(self) -> int:
        return sum(node.length() for node in self._nodes)

    def span(self, start: int, stop: int) -> Iterator[Any]:
        for node in self._nodes:
            if stop <= 0:
                return
            length = node.length()
            if start < length:
                yield from node.span(start, min(stop, length))
            start, stop = max(start - length, 0), stop - length

    def label(self) -> str:
        others = ", ".join(node.describe() for node in self._nodes[1:])
        return f"concat({others})"
