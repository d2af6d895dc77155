# SPDX-License-Identifier: Apache-2.0
"""The value that a consumer of a stream gets: a lazy, read-only sequence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, ClassVar

import msgspec

from airflow_provider_iteration import _compat
from airflow_provider_iteration.streams.head import ChunkMap, Extent, Head, chunk_key, plain_extents
from airflow_provider_iteration.streams.lazy import LazySequence
from airflow_provider_iteration.streams.nodes import Node
from airflow_provider_iteration.streams.reader import ChunkReader
from airflow_provider_iteration.streams.xcom_store import XComPlace


class XComIterable(LazySequence):
    """
    The items of a stream, read in chunks when they are asked for.

    It is a :class:`~airflow_provider_iteration.streams.lazy.LazySequence`: its length costs no read, and
    ``map``, ``filter``, ``flatten``, ``batched``, ``zip`` and ``concat`` give further lazy ones. At most two
    chunks are held in memory; ``list()`` of it is the explicit way to hold everything.

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

    def chunk_keys(self) -> list[str]:
        """Return the keys of the XComs that the chunks are in."""
        chunks = ChunkMap(self.extents)
        numbers = range(chunks.chunks)
        return [chunk_key(self.key, self.run, number, chunks.incarnation(number)) for number in numbers]

    @cached_property
    def _node(self) -> Node:
        reader = ChunkReader(
            self._fetch,
            key=self.key,
            run=self.run,
            extents=self.extents,
            task=str(self.place),
            foreign=_compat.from_serde,
        )
        return _Chunks(reader, self)

    def _fetch(self, key: str) -> Any:
        return _compat.read_xcom(key=key, **self.place._asdict())

    def description(self) -> str:
        """Return a short text that costs no read."""
        items = sum(extent.items * extent.chunks for extent in self.extents)
        return f"{items} items of {self.place.dag_id}.{self.place.task_id}"

    def __eq__(self, other: object) -> bool:
        return self.serialize() == other.serialize() if isinstance(other, XComIterable) else NotImplemented

    def __hash__(self) -> int:
        return hash((self.place, self.key, self.run, self.extents))

    def __repr__(self) -> str:
        return f"XComIterable({self.description()}, not read)"

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


class _Chunks(Node):
    def __init__(self, reader: ChunkReader, stream: XComIterable) -> None:
        self._reader = reader
        self._stream = stream

    def __iter__(self) -> Iterator[Any]:
        return self._reader.items(0, len(self._reader))

    def length(self) -> int:
        return len(self._reader)

    def span(self, start: int, stop: int) -> Iterator[Any]:
        return self._reader.items(start, stop)

    def identity(self) -> Any:
        return self._stream.serialize()

    def describe(self) -> str:
        return self._stream.description()
