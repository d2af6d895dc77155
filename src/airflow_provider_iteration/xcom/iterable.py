# SPDX-License-Identifier: Apache-2.0
"""The value that a consumer of a stream gets: a lazy, read-only sequence."""

from __future__ import annotations

import asyncio
import operator
from collections.abc import AsyncIterator, Iterator, Sequence
from functools import cached_property
from typing import Any, ClassVar, SupportsIndex, overload

import msgspec

from airflow_provider_iteration import _compat
from airflow_provider_iteration.streams.head import Extent, Head, plain_extents
from airflow_provider_iteration.streams.reader import ChunkReader
from airflow_provider_iteration.streams.xcom_store import XComPlace


class XComIterable(Sequence[Any]):
    """
    The items of a stream, read in chunks when they are asked for.

    It is a :class:`collections.abc.Sequence`: it has a length that costs no read, an index (negative ones
    and anything with ``__index__`` too), slices, which are lists, and iteration in both directions. In
    coroutines use ``async for``, :meth:`aget` and :meth:`alen`, which do not block the event loop. At most
    two chunks are held in memory; ``list()`` of it is the explicit way to hold everything.

    Its XCom is a small reference. Whoever pulls it needs this package installed, nothing else.

    :param place: the task instance whose stream it is.
    :param key: XCom key of the stream.
    :param run: id of the run of the task instance (its UUID) that wrote it.
    :param extents: the chunks, in order.
    :param pages: number of pages that the items came in.
    """

    __version__: ClassVar[int] = 1

    def __init__(
        self, place: XComPlace, *, key: str, run: str, extents: Sequence[Extent], pages: int
    ) -> None:
        self.place = place
        self.key = key
        self.run = run
        self.extents = tuple(extents)
        self.pages = pages

    @classmethod
    def of_head(cls, place: XComPlace, key: str, head: Head) -> XComIterable:
        """Return the reference to what a head says is committed."""
        return cls(place, key=key, run=head.run, extents=head.extents, pages=head.pages)

    @cached_property
    def _reader(self) -> ChunkReader:
        return ChunkReader(
            self._fetch,
            key=self.key,
            run=self.run,
            extents=self.extents,
            task=str(self.place),
            foreign=_compat.from_serde,
        )

    def _fetch(self, key: str) -> Any:
        return _compat.read_xcom(key=key, **self.place._asdict())

    def __len__(self) -> int:
        return len(self._reader)

    @overload
    def __getitem__(self, index: SupportsIndex) -> Any: ...

    @overload
    def __getitem__(self, index: slice) -> list[Any]: ...

    def __getitem__(self, index: SupportsIndex | slice) -> Any:
        """
        Return an item, or a list of items.

        :raises IndexError: if there is no such item.
        :raises MissingChunk: if its row is gone.
        """
        if isinstance(index, slice):
            return self._slice(range(len(self))[index])
        position = operator.index(index)
        length = len(self)
        if not -length <= position < length:
            raise IndexError(f"index {position} is out of range: {self!r}")
        return self._reader.item(position % length)

    def __iter__(self) -> Iterator[Any]:
        return self._reader.items(0, len(self))

    def __reversed__(self) -> Iterator[Any]:
        for number in reversed(range(self._reader.chunks)):
            yield from reversed(self._reader.chunk(number))

    async def __aiter__(self) -> AsyncIterator[Any]:
        for number in range(self._reader.chunks):
            for item in await asyncio.to_thread(self._reader.chunk, number):
                yield item

    async def alen(self) -> int:
        """Return the length."""
        return len(self)

    async def aget(self, index: SupportsIndex) -> Any:
        """
        Return the item at ``index`` without blocking the event loop.

        :raises IndexError: if there is no such item.
        :raises MissingChunk: if its row is gone.
        """
        return await asyncio.to_thread(self.__getitem__, index)

    def __eq__(self, other: object) -> bool:
        return self.serialize() == other.serialize() if isinstance(other, XComIterable) else NotImplemented

    def __hash__(self) -> int:
        return hash((self.place, self.key, self.run, self.extents))

    def __repr__(self) -> str:
        items = sum(extent.items * extent.chunks for extent in self.extents)
        return f"XComIterable({items} items of {self.place.dag_id}.{self.place.task_id}, not read)"

    def __deepcopy__(self, memo: dict[int, Any]) -> XComIterable:
        return self.deserialize(self.serialize(), self.__version__)

    def serialize(self) -> dict[str, Any]:
        """Return the reference as plain JSON, for Airflow's serialisation."""
        return {
            **self.place._asdict(),
            "key": self.key,
            "run": self.run,
            "pages": self.pages,
            "extents": plain_extents(self.extents),
        }

    @staticmethod
    def deserialize(data: dict[str, Any], version: int) -> XComIterable:
        """
        Give back what was serialised.

        :raises TypeError: if a newer version of this package wrote it.
        """
        if version > XComIterable.__version__:
            raise TypeError(f"XComIterable: format {version} was written by a newer version of this package")
        fields = dict(data)
        place = XComPlace(*(fields.pop(name) for name in XComPlace._fields))
        return XComIterable(place, **{**fields, "extents": msgspec.convert(fields["extents"], list[Extent])})

    def _slice(self, wanted: range) -> list[Any]:
        if not wanted:
            return []
        low, high = min(wanted[0], wanted[-1]), max(wanted[0], wanted[-1])
        step = abs(wanted.step)
        picked = [
            item
            for index, item in enumerate(self._reader.items(low, high + 1), start=low)
            if (index - low) % step == 0
        ]
        return picked if wanted.step > 0 else picked[::-1]
