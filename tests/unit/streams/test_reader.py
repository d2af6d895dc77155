# SPDX-License-Identifier: Apache-2.0
"""The lazy reader: how many reads, how much memory, which errors."""

from __future__ import annotations

import math
from typing import Any

import pytest

from airflow_provider_iteration.exceptions import CorruptChunk, MissingChunk
from airflow_provider_iteration.streams import ChunkReader, Head, chunk_key
from airflow_provider_iteration.streams.memory import MemoryStore
from tests.support.streams import RUN_A, pages_of, write_stream

ITEMS = list(range(1000))


@pytest.fixture
async def stream() -> tuple[MemoryStore, Head]:
    store = MemoryStore()
    pages = [ITEMS[start : start + 10] for start in range(0, 1000, 10)]
    head = await write_stream(store, pages_of(pages, many=True), max_uncommitted_pages=4)
    return store, head


class Reads:
    """Counts the reads of a reader."""

    def __init__(self, stream: tuple[MemoryStore, Head]) -> None:
        self.store, head = stream
        self.keys: list[str] = []
        self.reader = ChunkReader(
            self.fetch, key="return_value", run=head.run, extents=head.extents, task="shop.pages"
        )

    def fetch(self, key: str) -> Any:
        self.keys.append(key)
        return self.store.read(key)


async def test_reading_all_reads_each_chunk_once(stream: tuple[MemoryStore, Head]) -> None:
    """X4: reading N items takes N / chunk calls."""
    reads = Reads(stream)
    assert list(reads.reader.items(0, 1000)) == ITEMS
    assert len(reads.keys) == len(set(reads.keys)) == stream[1].chunks


async def test_length_costs_no_read(stream: tuple[MemoryStore, Head]) -> None:
    """The length is known from the reference."""
    reads = Reads(stream)
    assert (len(reads.reader), reads.keys) == (1000, [])


async def test_neighbours_cost_one_read(stream: tuple[MemoryStore, Head]) -> None:
    """Items of one chunk are read together."""
    reads = Reads(stream)
    assert [reads.reader.item(index) for index in range(15)] == ITEMS[:15]
    assert len(reads.keys) <= math.ceil(15 / 10)


async def test_at_most_two_chunks_are_kept(stream: tuple[MemoryStore, Head]) -> None:
    """Going back to a chunk that is two reads old reads it again."""
    reads = Reads(stream)
    for chunk in (0, 1, 2, 0):
        reads.reader.chunk(chunk)
    assert len(reads.keys) == 4


async def test_missing_row_says_which_and_why(stream: tuple[MemoryStore, Head]) -> None:
    """A deleted row is an error that names key, index and likely causes."""
    reads = Reads(stream)
    del stream[0].rows[chunk_key("return_value", RUN_A, 1)]
    with pytest.raises(MissingChunk, match=r"items from index \d+ .*shop\.pages are gone .*cleared"):
        list(reads.reader.items(0, 1000))


async def test_row_of_another_run_is_refused(stream: tuple[MemoryStore, Head]) -> None:
    """A row that belongs elsewhere is never taken for data."""
    store, _ = stream
    store.rows[chunk_key("return_value", RUN_A, 1)] = store.rows[chunk_key("return_value", RUN_A, 0)]
    with pytest.raises(CorruptChunk):
        list(Reads(stream).reader.items(0, 1000))
