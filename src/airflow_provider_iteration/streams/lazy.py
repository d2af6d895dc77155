# SPDX-License-Identifier: Apache-2.0
"""
Lazy views of items: what consumers of streams and pipelines get.

A :class:`LazySequence` knows its length without reading an item; a :class:`LazyIterable` does not, because
a step before it (``filter``, ``flatten``) decides it item by item. Both are read-only, read what they are
asked for when they are asked, and can be iterated over again, which reads, and calls functions, again.
"""

from __future__ import annotations

import asyncio
import operator
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, SupportsIndex, TypeVar, overload

from airflow_provider_iteration.streams.nodes import (
    Again,
    Batched,
    Concatenated,
    Filtered,
    Flattened,
    Held,
    Mapped,
    Node,
    Unread,
    Zipped,
)
from airflow_provider_iteration.streams.step_arguments import (
    MISSING,
    check_batch_size,
    check_function,
    check_others,
    check_zip,
)

ASYNC_ITEMS = 256
ASYNC_SECONDS = 0.02

T = TypeVar("T")


class LazyIterable(Unread, Iterable[Any]):
    """
    Items whose number is not known before they are read.

    It can be iterated over, also with ``async for``, any number of times. ``bool()`` of it reads up to its
    first item. It has no length and no index: ``list()`` of it is the explicit way to hold everything.

    :param node: the last step of the pipeline.
    """

    def __init__(self, node: Node) -> None:
        self._given = node

    @property
    def _node(self) -> Node:
        return self._given

    def known_length(self) -> int | None:
        """Return the number of items, or None if it is not known without reading them."""
        return None

    def identity(self) -> Any:
        """Return what tells these items from others, for a fingerprint; it costs no read."""
        return self._node.identity()

    def __len__(self) -> int:
        raise TypeError(
            f"the length of {self!r} is not known before all items are read: count them, as in "
            "sum(1 for item in items), or hold them with list()"
        )

    def __bool__(self) -> bool:
        return next(iter(self), MISSING) is not MISSING

    def __iter__(self) -> Iterator[Any]:
        return iter(self._node)

    async def __aiter__(self) -> AsyncIterator[Any]:
        items = iter(self)
        try:
            while True:
                some, error, ended = await asyncio.to_thread(_some, items)
                for item in some:
                    yield item
                if error is not None:
                    raise error
                if ended:
                    return
        finally:
            if (close := getattr(items, "close", None)) is not None:
                close()

    async def alen(self) -> int:
        """
        Return the length without blocking the event loop.

        :raises TypeError: if it is not known before all items are read.
        """
        return await asyncio.to_thread(self.__len__)

    def map(self, f: Callable[[Any], Any]) -> LazyIterable:
        """
        Return what a function makes of each item. It is called when the item is asked for, each time anew.

        :param f: a function of one item.
        :raises TypeError: if it is no plain function.
        """
        check_function("map", f)
        return view(Mapped(self._node, f))

    def filter(self, f: Callable[[Any], Any]) -> LazyIterable:
        """
        Return the items that a function says yes to.

        :param f: a function of one item.
        :raises TypeError: if it is no plain function.
        """
        check_function("filter", f)
        return view(Filtered(self._node, f))

    def flatten(self) -> LazyIterable:
        """Return the items of lists, tuples and generators, one page at a time; other items whole."""
        node = self._node
        return view(node.source if isinstance(node, Batched) else Flattened(node))

    def batched(self, n: int) -> LazyIterable:
        """
        Return lists of so many items, the last one of what remains.

        :param n: number of items in each.
        :raises TypeError: if it is no whole number.
        :raises ValueError: if it is less than 1.
        """
        check_batch_size(n)
        return view(Batched(self._node, n))

    def zip(self, *others: Any, fillvalue: Any = MISSING, strict: bool = False) -> LazyIterable:
        """
        Return tuples of the items that have the same place; as many as the shortest input has.

        :param others: other streams, pipelines or sequences.
        :param fillvalue: stands for the items of inputs that have ended; the longest decides then.
        :param strict: inputs of unequal length are a ValueError.
        :raises TypeError: without another input, or with options that exclude each other.
        """
        check_others("zip", others)
        check_zip(fillvalue, strict)
        return view(Zipped(self._node, [node_of(other) for other in others], fillvalue, strict))

    def concat(self, *others: Any) -> LazyIterable:
        """
        Return the items of several inputs, one after the other.

        :param others: other streams, pipelines or sequences.
        :raises TypeError: without another input.
        """
        check_others("concat", others)
        return view(Concatenated(self._node, [node_of(other) for other in others]))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._node.describe()}, not read)"

    def __deepcopy__(self: T, memo: dict[int, Any]) -> T:
        # Nothing of it changes but what is kept of the rows.
        return self


class LazySequence(LazyIterable, Sequence[Any]):
    """
    Items whose number is known without reading one.

    It is a :class:`collections.abc.Sequence`: it has an index (negative ones and anything with
    ``__index__`` too), slices, which are lists, and iteration in both directions. In coroutines use
    ``async for``, :meth:`aget` and :meth:`alen`, which do not block the event loop.
    """

    def known_length(self) -> int | None:
        return len(self)

    def __len__(self) -> int:
        return self._node.length()

    def __bool__(self) -> bool:
        return len(self) > 0

    @overload
    def __getitem__(self, index: SupportsIndex) -> Any: ...

    @overload
    def __getitem__(self, index: slice) -> list[Any]: ...

    def __getitem__(self, index: SupportsIndex | slice) -> Any:
        """
        Return an item, or a list of items.

        :raises IndexError: if there is no such item.
        :raises MissingChunk: if the row of a stream that it is in is gone.
        """
        length = len(self)
        if isinstance(index, slice):
            return self._slice(range(length)[index])
        position = operator.index(index)
        if not -length <= position < length:
            raise IndexError(f"index {position} is out of range: {self!r}")
        return self._item(position % length)

    def __reversed__(self) -> Iterator[Any]:
        return (self._item(index) for index in reversed(range(len(self))))

    async def aget(self, index: SupportsIndex) -> Any:
        """
        Return the item at ``index`` without blocking the event loop.

        :raises IndexError: if there is no such item.
        :raises MissingChunk: if the row of a stream that it is in is gone.
        """
        return await asyncio.to_thread(self.__getitem__, index)

    def _item(self, index: int) -> Any:
        item = next(self._node.span(index, index + 1), MISSING)
        if item is MISSING:
            raise IndexError(f"item {index} is not there any more: {self!r}")
        return item

    def _slice(self, wanted: range) -> list[Any]:
        if wanted.step == 1:
            return list(self._node.span(wanted.start, wanted.stop)) if wanted else []
        return [self._item(index) for index in wanted]


def view(node: Node) -> LazyIterable:
    """
    Give what users see of a node: a sequence if its length is known.

    :param node: the last step of a pipeline.
    """
    return LazySequence(node) if node.sized else LazyIterable(node)


def node_of(value: Any) -> Node:
    """
    Give the node of a value that items are taken from.

    :param value: a view, a mapping (as pairs), a sequence, or an iterable that can be read again.
    :raises TypeError: for anything else.
    """
    if isinstance(value, LazyIterable):
        return value._node
    if isinstance(value, Mapping):
        return Held(list(value.items()))
    if isinstance(value, Sequence) and not isinstance(value, (str, bytes, bytearray)):
        return Held(value)
    if isinstance(value, Iterable) and not isinstance(value, (str, bytes, bytearray, Iterator)):
        return Again(value)
    raise TypeError(f"expected a stream or a sequence of items, got {type(value).__name__}")


def _some(items: Iterator[Any]) -> tuple[list[Any], BaseException | None, bool]:
    """Take what comes within a moment, so that a change of threads is not paid for each item."""
    taken: list[Any] = []
    until = time.monotonic() + ASYNC_SECONDS
    try:
        for item in items:
            taken.append(item)
            if len(taken) >= ASYNC_ITEMS or time.monotonic() >= until:
                return taken, None, False
    except Exception as error:
        return taken, error, False
    return taken, None, True
