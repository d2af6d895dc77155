# SPDX-License-Identifier: Apache-2.0
"""From a source to a stream: resuming, limits, failures."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import pytest

from airflow_provider_iteration.exceptions import LimitExceeded, TooLongToMap
from airflow_provider_iteration.streams import Head, Page, head_key
from airflow_provider_iteration.streams.memory import MemoryStore
from tests.support.streams import RUN_A, make_writer, pages_of, read_stream, write_stream


def failing_at(number: int) -> Any:
    async def pages(cursor: Any) -> AsyncGenerator[Page, None]:
        for index in range(cursor or 0, number):
            yield Page([index], cursor=index + 1, many=True)
        raise ValueError("the API is down")

    return pages


async def test_every_page_arrives_once_and_in_order() -> None:
    """T1: N pages in, N out."""
    store = MemoryStore()
    head = await write_stream(store, pages_of(list(range(100))))
    assert read_stream(store, head) == list(range(100))


async def test_restart_goes_on_after_the_last_committed_page() -> None:
    """No committed page is asked for again."""
    store = MemoryStore()
    with pytest.raises(ValueError, match="down"):
        await write_stream(store, failing_at(7))
    asked: list[int] = []
    await write_stream(store, pages_of([[n] for n in range(10)], many=True, asked=asked))
    assert asked == [7, 8, 9]


async def test_restarted_stream_is_whole() -> None:
    """What two incarnations wrote reads as one sequence."""
    store = MemoryStore()
    with pytest.raises(ValueError, match="down"):
        await write_stream(store, failing_at(7))
    head = await write_stream(store, pages_of([[n] for n in range(10)], many=True))
    assert read_stream(store, head) == list(range(10))


async def test_source_without_cursors_is_replayed_without_doubles() -> None:
    """Without a cursor the source begins anew, and what was committed is dropped by its index."""

    async def source(cursor: Any) -> AsyncGenerator[Page, None]:
        for number in range(5):
            yield Page(number)
            if number == 2 and not restarted:
                raise ValueError("the API is down")

    store = MemoryStore()
    restarted = False
    with pytest.raises(ValueError, match="down"):
        await write_stream(store, source)
    restarted = True
    head = await write_stream(store, source)
    assert read_stream(store, head) == [0, 1, 2, 3, 4]


async def test_finished_stream_is_not_produced_again() -> None:
    """A trigger that restarts after the last page asks for nothing."""
    store = MemoryStore()
    await write_stream(store, pages_of(["a"]))
    asked: list[int] = []
    head = await write_stream(store, pages_of(["a"], asked=asked))
    assert (asked, head.last) == ([], True)


async def test_failure_keeps_and_tells_what_came_before() -> None:
    """Pages before a failure are committed, and the error says how many."""
    store = MemoryStore()
    with pytest.raises(ValueError, match="down") as caught:
        await write_stream(store, failing_at(7))
    assert caught.value.__notes__ == ["committed before that: 7 pages, 7 items"]


async def test_too_many_pages_are_an_error_that_names_the_limit() -> None:
    """max_pages stops the stream with an error; what came before is committed."""
    store = MemoryStore()
    with pytest.raises(LimitExceeded, match="max_pages=3"):
        await write_stream(store, pages_of(list(range(9))), max_pages=3)
    assert Head.from_row(store.read(head_key("return_value"))).pages == 3


async def test_stream_of_exactly_max_pages_ends_well() -> None:
    """The limit itself is allowed."""
    head = await write_stream(MemoryStore(), pages_of([1, 2, 3]), max_pages=3)
    assert head.last


async def test_too_many_bytes_are_an_error_that_names_the_limit() -> None:
    """max_bytes counts over the whole stream."""

    async def source(cursor: Any) -> AsyncGenerator[Page, None]:
        for number in range(9):
            yield Page("x", cursor=number + 1, size=400)

    with pytest.raises(LimitExceeded, match="max_bytes=1000"):
        await write_stream(MemoryStore(), source, max_bytes=1000)


async def test_source_is_closed_when_it_fails() -> None:
    """What a source has opened is closed, however the stream ends."""
    closed = []

    async def source(cursor: Any) -> AsyncGenerator[Page, None]:
        try:
            yield Page(1, cursor=1)
            yield Page(2, cursor=2)
        finally:
            closed.append(True)

    with pytest.raises(LimitExceeded):
        await write_stream(MemoryStore(), source, max_pages=1)
    assert closed == [True]


async def test_last_page_ends_the_stream_in_its_own_commit() -> None:
    """A source that knows its last page saves a write."""

    async def source(cursor: Any) -> AsyncGenerator[Page, None]:
        yield Page(1, last=True)
        raise AssertionError("asked again after the last page")

    store = MemoryStore()
    await write_stream(store, source)
    assert len(store.written()) == 3


async def test_empty_stream() -> None:
    """A source without pages makes a finished stream without chunks."""
    head = await write_stream(MemoryStore(), pages_of([]))
    assert (head.last, head.chunks, head.items) == (True, 0, 0)


async def test_page_without_items_moves_the_cursor() -> None:
    """An empty page writes no chunk, but is not asked for again."""
    store = MemoryStore()
    head = await write_stream(store, pages_of([[], [1], []], many=True))
    assert (head.pages, head.items, head.resume_cursor) == (3, 1, 3)


async def test_uncommitted_pages_never_exceed_the_limit() -> None:
    """Backpressure: the source is asked only while there is room."""
    store = MemoryStore()
    writer = make_writer(store, RUN_A, max_uncommitted_pages=3)
    most = 0

    async def source(cursor: Any) -> AsyncGenerator[Page, None]:
        nonlocal most
        for number in range(40):
            most = max(most, writer.statistics().uncommitted_pages + 1)
            yield Page(number, cursor=number + 1)

    from airflow_provider_iteration.streams import StreamOptions, produce

    async with writer:
        await produce(source, writer, StreamOptions())
    assert most == 3


async def test_too_many_items_to_map_are_an_error_that_says_so() -> None:
    """max_map_length stops the stream; it counts items, also those that an earlier producer committed."""
    store = MemoryStore()
    with pytest.raises(ValueError, match="down"):
        await write_stream(store, failing_at(3), max_map_length=4)
    asked: list[int] = []
    with pytest.raises(TooLongToMap, match=r"\[core\] max_map_length=4 allows: use .iterate\(\)"):
        await write_stream(store, pages_of([[n] for n in range(9)], many=True, asked=asked), max_map_length=4)
    assert asked == [3, 4]


async def test_as_many_items_as_can_be_mapped_end_well() -> None:
    """The limit itself is allowed."""
    head = await write_stream(MemoryStore(), pages_of([[1, 2], [3, 4]], many=True), max_map_length=4)
    assert (head.items, head.last) == (4, True)
