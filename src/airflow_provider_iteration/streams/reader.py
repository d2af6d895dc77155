# SPDX-License-Identifier: Apache-2.0
"""Reads the chunks of a stream lazily, and keeps at most two of them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from threading import Lock
from typing import Any

from airflow_provider_iteration.exceptions import CorruptChunk, MissingChunk
from airflow_provider_iteration.streams.codec import EncodedItems, Foreign, decode_items
from airflow_provider_iteration.streams.head import ChunkMap, Extent, chunk_key

CHUNKS_KEPT = 2


class ChunkReader:
    """
    Random and sequential access to the items of one finished run of a stream.

    Reading *n* neighbouring items takes at most ``n / (items in a chunk)``, rounded up, plus one reads.

    :param fetch: reads one row; returns None if it is missing.
    :param key: key of the stream.
    :param run: id of the run.
    :param extents: the chunks of the run.
    :param task: the producing task in words, for messages.
    :param foreign: gives back values of types that the codec does not know.
    """

    def __init__(
        self,
        fetch: Callable[[str], Any],
        *,
        key: str,
        run: str,
        extents: tuple[Extent, ...],
        task: str,
        foreign: Foreign | None = None,
    ) -> None:
        self._foreign = foreign
        self._fetch = fetch
        self._key = key
        self._run = run
        self._map = ChunkMap(extents)
        self._task = task
        self._kept: OrderedDict[int, list[Any]] = OrderedDict()
        self._lock = Lock()

    @property
    def chunks(self) -> int:
        """Number of chunks."""
        return self._map.chunks

    def __len__(self) -> int:
        return self._map.items

    def item(self, index: int) -> Any:
        """
        Return the item at ``index`` (0 <= index < len).

        :raises MissingChunk: if its row is gone.
        """
        number = self._map.chunk_of(index)
        return self.chunk(number)[index - self._map.span(number).start]

    def items(self, start: int, stop: int) -> Iterator[Any]:
        """Yield the items from ``start`` to before ``stop``, reading each chunk once."""
        while start < stop:
            number = self._map.chunk_of(start)
            span = self._map.span(number)
            yield from self.chunk(number)[start - span.start : stop - span.start]
            start = span.stop

    def chunk(self, number: int) -> list[Any]:
        """
        Return the items of one chunk. The list is shared: do not change it.

        :raises MissingChunk: if its row is gone.
        :raises CorruptChunk: if the row belongs elsewhere.
        """
        with self._lock:
            if (kept := self._kept.get(number)) is not None:
                self._kept.move_to_end(number)
                return kept
            # Make room first, so that never more than two chunks are alive here.
            while len(self._kept) >= CHUNKS_KEPT:
                self._kept.popitem(last=False)
            items = self._kept[number] = self._read(number)
            return items

    def _read(self, number: int) -> list[Any]:
        key = chunk_key(self._key, self._run, number, self._map.incarnation(number))
        span = self._map.span(number)
        row = self._fetch(key)
        if row is None:
            raise MissingChunk(key, span.start, self._task)
        if row.get("run") != self._run or row.get("start") != span.start:
            raise CorruptChunk(f"XCom {key!r} of {self._task} does not hold the items from {span.start}")
        items = decode_items(EncodedItems(row["enc"], row["items"], row.get("shapes", [])), self._foreign)
        if len(items) != len(span):
            raise CorruptChunk(
                f"XCom {key!r} of {self._task} holds {len(items)} items where {len(span)} belong"
            )
        return items
