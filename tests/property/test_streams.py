# SPDX-License-Identifier: Apache-2.0
"""Streams under random data, sizes, failures and restarts."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_iteration.streams import Head, Page, chunk_key
from airflow_provider_iteration.streams.codec import EncodedItems, decode_items, encode_items
from airflow_provider_iteration.streams.head import ChunkMap, Extent
from airflow_provider_iteration.streams.memory import MemoryStore
from tests.support.streams import RUN_A, pages_of, read_stream, write_stream
from tests.support.values import VALUES, with_types_and_orders


def through_a_database(encoded: EncodedItems) -> EncodedItems:
    """Do to a row what a JSON column that sorts keys does."""
    text = json.dumps([encoded.items, encoded.shapes], sort_keys=True, allow_nan=False)
    items, shapes = json.loads(text.encode().decode())
    return EncodedItems(encoded.enc, items, shapes)


@given(st.lists(VALUES, max_size=6))
def test_any_row_comes_back_equal_in_type_value_and_order(items: list[Any]) -> None:
    """X3: a row is lossless."""
    assert with_types_and_orders(
        decode_items(through_a_database(encode_items(items)))
    ) == with_types_and_orders(items)


@given(
    pages=st.lists(st.lists(st.integers(0, 9), max_size=5), max_size=30),
    max_uncommitted=st.integers(1, 8),
    chunk_bytes=st.integers(1, 40),
    crashes=st.lists(st.integers(0, 29), max_size=4),
)
def test_all_items_once_and_in_order_whatever_fails(
    pages: list[list[int]], max_uncommitted: int, chunk_bytes: int, crashes: list[int]
) -> None:
    """A stream that is interrupted at any pages ends complete, in order, without doubles."""

    async def run() -> list[Any]:
        store = MemoryStore()
        options: dict[str, Any] = {
            "max_uncommitted_pages": max_uncommitted,
            "chunk_bytes": chunk_bytes,
            "max_chunk_bytes": 4 * chunk_bytes,
        }
        for crash in crashes:
            try:
                await write_stream(store, crashing(pages, crash), **options)
            except OSError:
                continue
        head = await write_stream(store, pages_of(pages, many=True), **options)
        return read_stream(store, head)

    assert asyncio.run(run()) == [item for page in pages for item in page]


def crashing(pages: list[list[int]], crash: int) -> Any:
    async def source(cursor: Any) -> AsyncGenerator[Page, None]:
        for number in range(cursor or 0, len(pages)):
            if number == crash:
                raise OSError("crash")
            yield Page(pages[number], cursor=number + 1, many=True)

    return source


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(1, 9), st.integers(1, 9)), min_size=1, max_size=8))
def test_chunk_map_agrees_with_counting(stretches: list[tuple[int, int, int]]) -> None:
    """Every index is found in the chunk in which it lies."""
    extents = tuple(Extent(*stretch) for stretch in stretches)
    lengths = [extent.items for extent in extents for _ in range(extent.chunks)]
    expected = [chunk for chunk, length in enumerate(lengths) for _ in range(length)]
    chunks = ChunkMap(extents)
    assert [chunks.chunk_of(index) for index in range(chunks.items)] == expected
    assert [index for chunk in range(chunks.chunks) for index in chunks.span(chunk)] == list(
        range(chunks.items)
    )


@given(st.lists(st.integers(0, 5), max_size=40))
def test_head_survives_json(counts: list[int]) -> None:
    """A head is plain JSON, and short for equally long chunks."""
    head = Head(run=RUN_A)
    for count in counts:
        head = head.extended(items=count, pages=1, size=1, cursor={"n": count, "odd": "\0\ud800"})
    assert Head.from_row(json.loads(json.dumps(head.to_row()))) == head
    assert head.items == sum(counts)


def test_keys_tell_runs_within_a_minute_apart() -> None:
    """The first digits of a UUIDv7 are a clock: two tries of one minute still get different keys."""
    first, second = "01900000-0000-7000-8000-000000000001", "01900000-0000-7000-8000-000000000002"
    assert chunk_key("k", first, 0) != chunk_key("k", second, 0)
