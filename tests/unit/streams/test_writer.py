# SPDX-License-Identifier: Apache-2.0
"""The group-commit writer: when it commits, how much, and what stops it."""

from __future__ import annotations

import asyncio

import pytest

from airflow_provider_iteration.exceptions import Fenced, StreamError
from airflow_provider_iteration.streams import Head, Page, StreamEvent, chunk_key, head_key
from airflow_provider_iteration.streams.memory import MemoryStore
from airflow_provider_iteration.streams.writer import linger_after
from tests.support.streams import RUN_A, RUN_B, make_writer, pages_of, read_stream, write_stream

KEY = "return_value"


def event(index: int, payload: object = "x", *, size: int = 1) -> StreamEvent:
    return StreamEvent(RUN_A, index, Page(payload, cursor=index + 1, size=size))


class Gate:
    """Holds every write of a chunk until it is opened."""

    def __init__(self) -> None:
        self.opened = asyncio.Event()
        self.reached = asyncio.Event()

    async def __call__(self, action: str, key: str) -> None:
        if action == "set" and not key.endswith(".head"):
            self.reached.set()
            await self.opened.wait()


class HoldingStore(MemoryStore):
    """A store whose chunk writes wait for a gate."""

    def __init__(self) -> None:
        self.gate = Gate()
        super().__init__(self.gate)


async def test_head_is_opened_before_any_page() -> None:
    """The head row is the first thing that a run writes."""
    store = MemoryStore()
    await write_stream(store, pages_of(["a"]))
    assert store.written()[0] == head_key(KEY)


async def test_chunk_is_written_before_the_head_that_counts_it() -> None:
    """A reader of the head never misses a row."""
    store = MemoryStore()
    await write_stream(store, pages_of(["a"]))
    assert store.written()[1:3] == [chunk_key(KEY, RUN_A, 0), head_key(KEY)]


async def test_pages_that_arrive_during_a_write_share_the_next_row() -> None:
    """While one row is being written, pages gather and go out as one row."""
    store = HoldingStore()
    writer = make_writer(store, chunk_bytes=1)
    async with writer:
        await writer.write(event(0))
        await store.gate.reached.wait()
        for index in range(1, 6):
            await writer.write(event(index))
        store.gate.opened.set()
        head = await writer.flush()
    assert [extent.items for extent in head.extents] == [1, 5]


async def test_full_buffer_stops_the_producer() -> None:
    """No page may be fetched while as many as allowed are uncommitted."""
    store = HoldingStore()
    writer = make_writer(store, max_uncommitted_pages=2)
    async with writer:
        await writer.write(event(0))
        await writer.write(event(1))
        waiting = asyncio.ensure_future(writer.ready())
        await store.gate.reached.wait()
        assert not waiting.done()
        store.gate.opened.set()
        await waiting


async def test_buffer_is_bounded_in_bytes_too() -> None:
    """Large pages stop the producer although they are few."""
    store = HoldingStore()
    writer = make_writer(store, max_uncommitted_bytes=1000, chunk_bytes=1)
    async with writer:
        await writer.write(event(0, size=1000))
        waiting = asyncio.ensure_future(writer.ready())
        await store.gate.reached.wait()
        assert not waiting.done()
        store.gate.opened.set()
        await waiting


async def test_row_is_capped() -> None:
    """A row takes no page that would bring it beyond the largest size."""
    store = MemoryStore()
    sizes = [Page("x", cursor=n, size=400) for n in range(1, 6)]
    writer = make_writer(store, chunk_bytes=10_000, max_chunk_bytes=1000)
    async with writer:
        for index, page in enumerate(sizes):
            await writer.write(StreamEvent(RUN_A, index, page))
        head = await writer.flush()
    assert [(extent.items, extent.chunks) for extent in head.extents] == [(2, 2), (1, 1)]


async def test_page_larger_than_a_row_is_not_split() -> None:
    """One page is never split, however large it is."""
    store = MemoryStore()
    writer = make_writer(store, max_chunk_bytes=10)
    async with writer:
        await writer.write(event(0, payload="y" * 5000, size=5000))
        head = await writer.flush()
    assert read_stream(store, head) == ["y" * 5000]


async def test_lone_page_is_committed_after_the_linger() -> None:
    """A page does not wait for others longer than the linger, so that live readers see it."""
    committed = asyncio.Event()

    def note_chunk(action: str, key: str) -> None:
        if action == "set" and key == chunk_key(KEY, RUN_A, 0):
            committed.set()

    writer = make_writer(MemoryStore(note_chunk), linger=0.01)
    async with writer:
        await writer.write(event(0))
        await asyncio.wait_for(committed.wait(), 10)
    assert committed.is_set()


@pytest.mark.parametrize(("rows", "seconds"), [(0, 0.25), (400, 0.5)])
async def test_lone_page_waits_for_others_as_long_as_the_rows_say(rows: int, seconds: float) -> None:
    """Not less, and nowhere near as long as the longest linger."""
    loop, committed = asyncio.get_running_loop(), asyncio.Event()

    def note_chunk(action: str, key: str) -> None:
        if action == "set" and key == chunk_key(KEY, RUN_A, rows):
            committed.set()

    writer = make_writer(MemoryStore(note_chunk), linger=0.25)
    async with writer:
        for index in range(rows):
            await writer.write(event(index))
            await writer.flush()
        before = loop.time()
        await writer.write(event(rows))
        await asyncio.wait_for(committed.wait(), 10)
    assert loop.time() - before >= seconds


def test_stream_that_trickles_for_days_has_few_rows() -> None:
    """The linger grows with the rows: by the root of the time, and to a minute at most."""
    seconds, rows = 0.0, 0
    while seconds < 7 * 86400:
        seconds += linger_after(rows, 1.0)
        rows += 1
    assert linger_after(200, 1.0) == 1.0
    assert linger_after(400, 1.0) == 2.0
    assert linger_after(rows, 1.0) == 60.0
    assert rows < 20_000


@pytest.mark.parametrize("linger", [0.0, 1.0, 120.0])
def test_linger_is_never_shorter_than_asked_for(linger: float) -> None:
    """Of zero, it stays zero: everything is committed at once."""
    longest = max(linger, 60.0) if linger else 0.0
    assert (linger_after(0, linger), linger_after(10**9, linger)) == (linger, longest)


async def test_duplicate_is_dropped_and_counted() -> None:
    """T2: the same (run, index) delivered twice is stored once."""
    store = MemoryStore()
    writer = make_writer(store)
    async with writer:
        await writer.write(event(0))
        taken = await writer.write(event(0))
        head = await writer.flush()
    assert (taken, head.items, writer.statistics().duplicates) == (False, 1, 1)


async def test_gap_is_an_error() -> None:
    """An index that skips events is refused with both numbers."""
    writer = make_writer(MemoryStore())
    async with writer:
        with pytest.raises(StreamError, match="event 3 came where 0 was due"):
            await writer.write(event(3))


async def test_event_of_another_run_is_refused() -> None:
    """An event of an older try has no place in this stream."""
    writer = make_writer(MemoryStore(), RUN_B)
    async with writer:
        with pytest.raises(StreamError, match=RUN_A):
            await writer.write(event(0))


async def test_failed_write_reaches_the_producer() -> None:
    """T6: a page counts as stored only when it was; a failed write fails the stream."""

    def fail(action: str, key: str) -> None:
        if action == "set" and not key.endswith(".head"):
            raise OSError("disk full")

    store = MemoryStore(fail)
    with pytest.raises(OSError, match="disk full"):
        await write_stream(store, pages_of(["a", "b"]))
    assert Head.from_row(store.read(head_key(KEY))).pages == 0


async def test_producer_is_woken_when_the_committer_fails() -> None:
    """A producer that waits for room learns of a failed write instead of waiting for ever."""

    def fail(action: str, key: str) -> None:
        if action == "set" and not key.endswith(".head"):
            raise OSError("disk full")

    writer = make_writer(MemoryStore(fail), max_uncommitted_pages=1)
    async with writer:
        await writer.write(event(0))
        with pytest.raises(OSError, match="disk full"):
            await writer.ready()


async def test_unopened_writer_says_how_to_open_it() -> None:
    """A writer outside of `async with` refuses with a hint."""
    with pytest.raises(StreamError, match="async with"):
        await make_writer(MemoryStore()).write(event(0))


async def test_twin_that_was_overtaken_stops_itself() -> None:
    """A stalled producer that wakes up after a take-over commits nothing more."""
    store = HoldingStore()
    stalled = make_writer(store, chunk_bytes=1)
    async with stalled:
        await stalled.write(event(0))
        await store.gate.reached.wait()
        store.gate.opened.set()
        await stalled.flush()
        successor = make_writer(store, chunk_bytes=1)
        async with successor:
            await stalled.write(event(1))
            with pytest.raises(Fenced):
                await stalled.flush()


async def test_twin_asks_before_it_fetches_after_a_stall(monkeypatch: pytest.MonkeyPatch) -> None:
    """A producer that was held up fetches nothing that its successor fetches."""
    monkeypatch.setattr("airflow_provider_iteration.streams.writer.OWNERSHIP_SECONDS", -1.0)
    store = MemoryStore()
    stalled = make_writer(store)
    async with stalled, make_writer(store):
        with pytest.raises(Fenced):
            await stalled.ready()


async def test_late_chunk_of_a_twin_lands_beside_its_successors() -> None:
    """A twin that stalls between its check and its write does not touch what its successor wrote."""
    store = HoldingStore()
    stalled = make_writer(store, chunk_bytes=1)
    async with stalled:
        await stalled.write(event(0, "stale"))
        await store.gate.reached.wait()
        blocked, store.gate.opened = store.gate.opened, asyncio.Event()
        store.gate.opened.set()
        head = await write_stream(store, pages_of(["fresh"]))
        blocked.set()
        with pytest.raises(Fenced):
            await stalled.flush()
    assert read_stream(store, head) == ["fresh"]
    assert Head.from_row(store.read(head_key(KEY))) == head


async def test_late_head_of_a_twin_is_replaced() -> None:
    """The owner's next commit repairs a head that a stalled twin wrote late."""
    store = MemoryStore()
    first = make_writer(store)
    async with first:
        await first.write(event(0))
        await first.flush()
    late = store.rows[head_key(KEY)]
    owner = make_writer(store)
    async with owner:
        await owner.write(event(1))
        await owner.flush()
        store.rows[head_key(KEY)] = late
        await owner.write(event(2))
        head = await owner.close()
    assert Head.from_row(store.read(head_key(KEY))) == head


async def test_late_writer_of_an_old_try_is_fenced() -> None:
    """Once a newer run has the head, an older one commits nothing more."""
    store = MemoryStore()
    old = make_writer(store, RUN_A)
    async with old:
        await old.write(event(0))
        await old.flush()
        head = await write_stream(store, pages_of(["new"]), RUN_B)
        await old.write(event(1))
        with pytest.raises(Fenced):
            await old.flush()
    assert read_stream(store, head) == ["new"]


async def test_old_try_cannot_open_the_stream_again() -> None:
    """A run that is older than the head's is refused when it opens."""
    store = MemoryStore()
    await write_stream(store, pages_of(["new"]), RUN_B)
    with pytest.raises(Fenced):
        await write_stream(store, pages_of(["old"]), RUN_A)


async def test_rows_of_the_previous_run_are_dropped_reference_first() -> None:
    """A re-run removes what its previous run left, beginning with the reference."""
    store = MemoryStore()
    await write_stream(store, pages_of(["a", "b"]), RUN_A, max_chunk_bytes=1)
    store.rows[KEY] = '"reference"'
    await write_stream(store, pages_of(["c"]), RUN_B)
    deleted = [key for action, key in store.messages if action == "delete"]
    assert deleted == [KEY, chunk_key(KEY, RUN_A, 0), chunk_key(KEY, RUN_A, 1)]
