# SPDX-License-Identifier: Apache-2.0
"""The head of a stream: the one small row that says what has been committed, and by whom."""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate
from typing import Any

import msgspec

from airflow_provider_iteration.streams.codec import dump_text, load_text

FORMAT_VERSION = 1
FIRST_INCARNATION = 1


class Extent(msgspec.Struct, frozen=True, array_like=True):
    """
    A stretch of equally long chunks: streams are described by runs of these, so the head stays small.

    :param incarnation: which incarnation of the producer wrote them.
    :param items: items in each chunk.
    :param chunks: number of chunks.
    """

    incarnation: int
    items: int
    chunks: int


class Head(msgspec.Struct, frozen=True):
    """
    What counts as committed in one run of a stream.

    :param run: the task instance's id.
    :param incarnation: raised by every producer that opens the same run anew; the highest one owns it.
    :param pages: pages committed.
    :param items: items committed.
    :param size: bytes received for them.
    :param extents: the chunks, in order.
    :param cursor: cursor of the last committed page, as a text of :func:`.codec.dump_text`.
    :param last: whether the stream has ended.
    :param log: host whose log tells about this run.
    """

    run: str
    incarnation: int = FIRST_INCARNATION
    pages: int = 0
    items: int = 0
    size: int = 0
    extents: tuple[Extent, ...] = ()
    cursor: str | None = None
    last: bool = False
    log: str | None = None
    v: int = FORMAT_VERSION

    @property
    def chunks(self) -> int:
        """Number of committed chunks."""
        return sum(extent.chunks for extent in self.extents)

    @property
    def resume_cursor(self) -> Any:
        """The cursor to go on from, or None."""
        return None if self.cursor is None else load_text(self.cursor)

    def reopened(self, log: str | None) -> Head:
        """Return the head as the next incarnation of the producer opens it."""
        return msgspec.structs.replace(self, incarnation=self.incarnation + 1, log=log)

    def succeeding(self, earlier: Head) -> Head:
        """Return the head as the next incarnation of the producer of another one opens it, with nothing."""
        return msgspec.structs.replace(self, incarnation=earlier.incarnation + 1)

    def extended(self, *, items: int, pages: int, size: int, cursor: Any) -> Head:
        """Return the head after one more chunk (none if ``items`` is 0)."""
        return msgspec.structs.replace(
            self,
            pages=self.pages + pages,
            items=self.items + items,
            size=self.size + size,
            extents=_appended(self.extents, self.incarnation, items) if items else self.extents,
            cursor=None if cursor is None else dump_text(cursor),
        )

    def ended(self) -> Head:
        """Return the head of the finished stream."""
        return msgspec.structs.replace(self, last=True)

    def to_row(self) -> dict[str, Any]:
        """Return plain JSON."""
        row: dict[str, Any] = msgspec.to_builtins(self)
        return {**row, "extents": plain_extents(self.extents)}

    @classmethod
    def from_row(cls, row: object) -> Head:
        """
        Read a head.

        :raises ValueError: if the row is none of this package's, or of a newer version of it.
        """
        try:
            head = msgspec.convert(row, cls)
        except msgspec.ValidationError as error:
            raise ValueError(f"not the head of a stream: {error}") from None
        if head.v > FORMAT_VERSION:
            raise ValueError(f"the stream has format {head.v}, this version reads up to {FORMAT_VERSION}")
        return head


class ChunkMap:
    """
    Finds the chunk of an item.

    :param extents: the chunks of a stream, in order.
    """

    def __init__(self, extents: tuple[Extent, ...]) -> None:
        self._extents = extents
        self._first_items = [0, *accumulate(extent.items * extent.chunks for extent in extents)]
        self._first_chunks = [0, *accumulate(extent.chunks for extent in extents)]

    @property
    def items(self) -> int:
        """Number of items in all chunks."""
        return self._first_items[-1]

    @property
    def chunks(self) -> int:
        """Number of chunks."""
        return self._first_chunks[-1]

    def chunk_of(self, index: int) -> int:
        """Return the number of the chunk that holds item ``index`` (0 <= index < items)."""
        place = bisect_right(self._first_items, index) - 1
        return self._first_chunks[place] + (index - self._first_items[place]) // self._extents[place].items

    def span(self, chunk: int) -> range:
        """Return the indexes of the items in chunk ``chunk``."""
        place = self._place(chunk)
        items = self._extents[place].items
        start = self._first_items[place] + (chunk - self._first_chunks[place]) * items
        return range(start, start + items)

    def incarnation(self, chunk: int) -> int:
        """Return which incarnation wrote chunk ``chunk``."""
        return self._extents[self._place(chunk)].incarnation

    def _place(self, chunk: int) -> int:
        return bisect_right(self._first_chunks, chunk) - 1


def plain_extents(extents: tuple[Extent, ...]) -> list[list[int]]:
    """Return extents as plain JSON."""
    return [[extent.incarnation, extent.items, extent.chunks] for extent in extents]


def head_key(key: str) -> str:
    """Return the key of the head row of the stream ``key``."""
    return f"{key}.head"


def chunk_key(key: str, run: str, chunk: int, incarnation: int = FIRST_INCARNATION) -> str:
    """
    Return the key of a chunk row.

    The run is part of it, so that a late writer of an older try never touches a newer try's rows; of
    the id its *last* eight digits, because the first ones of a UUIDv7 are a clock that two tries within
    a minute share. So is a later incarnation: a stalled twin writes beside its successor, not over it.
    """
    suffix = "" if incarnation == FIRST_INCARNATION else f".{incarnation}"
    return f"{key}.{run[-8:]}.{chunk}{suffix}"


def _appended(extents: tuple[Extent, ...], incarnation: int, items: int) -> tuple[Extent, ...]:
    if extents and (extents[-1].incarnation, extents[-1].items) == (incarnation, items):
        return (*extents[:-1], Extent(incarnation, items, extents[-1].chunks + 1))
    return (*extents, Extent(incarnation, items, 1))
