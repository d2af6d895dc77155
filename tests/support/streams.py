# SPDX-License-Identifier: Apache-2.0
"""Short ways to write and read streams in memory."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Any

from airflow_provider_iteration.streams import (
    ChunkReader,
    Head,
    Pace,
    Page,
    StreamOptions,
    StreamWriter,
    produce,
)
from airflow_provider_iteration.streams.memory import MemoryStore

RUN_A = "0190f000-0000-7000-8000-0000aaaaaaaa"
RUN_B = "0190f000-0001-7000-8000-0000bbbbbbbb"
Source = Callable[[Any], AsyncGenerator[Page, None]]


def pages_of(payloads: Sequence[Any], *, many: bool = False, asked: list[int] | None = None) -> Source:
    """Return a source of one page for each payload, whose cursors are the numbers of the next pages."""

    async def pages(cursor: Any) -> AsyncGenerator[Page, None]:
        for number in range(cursor or 0, len(payloads)):
            if asked is not None:
                asked.append(number)
            yield Page(payloads[number], cursor=number + 1, many=many)

    return pages


def make_writer(store: MemoryStore, run: str = RUN_A, **options: Any) -> StreamWriter:
    """Return a writer that never rests."""
    return StreamWriter(store, run=run, pace=Pace(rest=0.0), options=StreamOptions(**options))


async def write_stream(store: MemoryStore, source: Source, run: str = RUN_A, **options: Any) -> Head:
    """Write a whole stream and return its head."""
    writer = make_writer(store, run, **options)
    async with writer:
        return await produce(source, writer, StreamOptions(**options))


def read_stream(store: MemoryStore, head: Head) -> list[Any]:
    """Return all items of a stream."""
    reader = ChunkReader(store.read, key="return_value", run=head.run, extents=head.extents, task="a task")
    return list(reader.items(0, len(reader)))
