# SPDX-License-Identifier: Apache-2.0
"""
The group-commit writer of a stream.

While one row is being written, arriving pages gather in a bounded buffer; when the write returns they go
out together as the next row. A slow database makes rows larger, not the stream slower, and a full buffer
stops the producer. The idea is the group commit of databases [1]_.

.. [1] D. J. DeWitt et al., "Implementation techniques for main memory database systems", SIGMOD 1984.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from types import TracebackType
from typing import Any, NamedTuple, Self

from airflow_provider_iteration.exceptions import Fenced, StreamError
from airflow_provider_iteration.streams.codec import Foreign, encode_items, estimate_size
from airflow_provider_iteration.streams.events import StreamEvent
from airflow_provider_iteration.streams.head import FORMAT_VERSION, Head, chunk_key, head_key
from airflow_provider_iteration.streams.opening import open_head, owns
from airflow_provider_iteration.streams.options import StreamOptions
from airflow_provider_iteration.streams.ordering import EventOrder
from airflow_provider_iteration.streams.pacing import Pace
from airflow_provider_iteration.streams.store import RowStore

LINGER_ROWS = 200
LONGEST_LINGER = 60.0

OWNERSHIP_SECONDS = 5.0
"""How long a producer takes for granted that the stream is still its own."""


class WriterStatistics(NamedTuple):
    """What a writer did so far."""

    committed_pages: int
    committed_items: int
    committed_chunks: int
    uncommitted_pages: int
    duplicates: int


class _Pending(NamedTuple):
    event: StreamEvent
    size: int
    arrived: float


class StreamWriter:
    """
    Writes one run of a stream. Use it as an asynchronous context manager.

    :param store: where the rows go.
    :param run: id of the run.
    :param pace: the duty cycle shared with other streams.
    :param options: the stream's key, sizes and times.
    :param log: host whose log tells about this run.
    :param foreign: makes JSON of values of types that the codec does not know.
    :param anew: drop what the same run has written before, instead of going on after it.
    """

    def __init__(
        self,
        store: RowStore,
        *,
        run: str,
        pace: Pace,
        options: StreamOptions | None = None,
        log: str | None = None,
        foreign: Foreign | None = None,
        anew: bool = False,
    ) -> None:
        self._foreign = foreign
        self._anew = anew
        self._store = store
        self._options = options or StreamOptions()
        self._key = self._options.key
        self._pace = pace
        self._head = Head(run=run, log=log)
        self._order = EventOrder(run)
        self._pending: deque[_Pending] = deque()
        self._pending_bytes = 0
        self._changed = asyncio.Condition()
        self._flushing = False
        self._error: BaseException | None = None
        self._committer: asyncio.Task[None] | None = None
        self._owned_at = 0.0

    @property
    def head(self) -> Head:
        """The head as last committed."""
        return self._head

    def statistics(self) -> WriterStatistics:
        """Return what was done so far."""
        return WriterStatistics(
            self._head.pages, self._head.items, self._head.chunks, len(self._pending), self._order.duplicates
        )

    async def __aenter__(self) -> Self:
        """
        Open the head: drop the rows of older runs, or go on with this run's own.

        :raises Fenced: if a newer run has this stream already.
        """
        async with self._pace.turn():
            self._head = await open_head(self._store, self._key, self._head, anew=self._anew)
        self._owned_at = asyncio.get_running_loop().time()
        self._order = EventOrder(self._head.run, self._head.pages)
        self._committer = asyncio.create_task(self._commit_all(), name=f"stream-writer-{self._head.run}")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._committer is not None:
            self._committer.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._committer

    async def ready(self) -> None:
        """
        Wait until one more page may be fetched.

        A producer that was held up, by a stopped process for one, asks first whether the stream is still
        its own: it must not fetch what its successor fetches.

        :raises Fenced: if it is not.
        :raises StreamError: what stopped the commits, if anything did.
        """
        async with self._changed:
            await self._changed.wait_for(lambda: self._error is not None or self._has_room())
        self._raise_if_stopped()
        if asyncio.get_running_loop().time() - self._owned_at > OWNERSHIP_SECONDS:
            await self._check_ownership()

    async def write(self, event: StreamEvent) -> bool:
        """
        Take one event; it is committed soon.

        :param event: the next one, or one that was taken before.
        :return: False for a duplicate, which is dropped and counted.
        :raises StreamError: if events are missing before this one, or what stopped the commits.
        """
        self._raise_if_stopped()
        if not self._order.passes(event):
            return False
        await self._enqueue(event)
        return True

    async def flush(self) -> Head:
        """Commit everything that was taken, and return the head."""
        async with self._changed:
            self._flushing = True
            self._changed.notify_all()
            await self._changed.wait_for(lambda: self._error is not None or not self._pending)
            self._flushing = False
        self._raise_if_stopped()
        return self._head

    async def close(self) -> Head:
        """Commit everything, mark the end of the stream, and return the head."""
        await self.flush()
        if not self._head.last:
            async with self._pace.turn():
                await self._check_ownership()
                await self._publish(self._head.ended())
        return self._head

    async def _enqueue(self, event: StreamEvent) -> None:
        page = event.payload
        size = page.size if page.size is not None else estimate_size(page.payload)
        async with self._changed:
            self._pending.append(_Pending(event, size, asyncio.get_running_loop().time()))
            self._pending_bytes += size
            self._flushing = self._flushing or event.is_last
            self._changed.notify_all()

    def _has_room(self) -> bool:
        options = self._options
        return not self._pending or (
            len(self._pending) < options.max_uncommitted_pages
            and self._pending_bytes < options.max_uncommitted_bytes
        )

    def _raise_if_stopped(self) -> None:
        if self._committer is None:
            raise StreamError("the writer is not open: use it with `async with`")
        if self._error is not None:
            raise self._error

    # The committer: one task, one row at a time.

    async def _commit_all(self) -> None:
        try:
            while True:
                await self._wait_until_due()
                await self._commit_next()
        except BaseException as error:
            async with self._changed:
                self._error = error
                self._changed.notify_all()
            if not isinstance(error, Exception):
                raise

    async def _wait_until_due(self) -> None:
        async with self._changed:
            await self._changed.wait_for(lambda: bool(self._pending))
            linger = linger_after(self._head.chunks, self._options.linger)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(self._pending[0].arrived + linger):
                    await self._changed.wait_for(self._is_full)

    def _is_full(self) -> bool:
        return self._flushing or self._pending_bytes >= self._options.chunk_bytes or not self._has_room()

    async def _commit_next(self) -> None:
        async with self._pace.turn():
            batch = self._next_batch()
            head = await self._write_chunk(batch)
            # Only now: a chunk that is written late harms nothing, a head would.
            await self._check_ownership()
            await self._publish(head.ended() if batch[-1].event.is_last else head)
        async with self._changed:
            for taken in batch:
                self._pending.popleft()
                self._pending_bytes -= taken.size
            self._changed.notify_all()

    def _next_batch(self) -> list[_Pending]:
        batch: list[_Pending] = []
        total = 0
        for pending in self._pending:
            total += pending.size
            if batch and total > self._options.max_chunk_bytes:
                break
            batch.append(pending)
        return batch

    async def _check_ownership(self) -> None:
        row = await self._store.get(head_key(self._key))
        if row is not None and not owns(self._head, Head.from_row(row)):
            raise Fenced(f"the stream of run {self._head.run} was taken over")
        self._owned_at = asyncio.get_running_loop().time()

    async def _write_chunk(self, batch: list[_Pending]) -> Head:
        pages = [pending.event.payload for pending in batch]
        items = [element for page in pages for element in page.elements()]
        head = self._head.extended(
            items=len(items),
            pages=len(pages),
            size=sum(pending.size for pending in batch),
            cursor=pages[-1].cursor,
        )
        if items:
            key = chunk_key(self._key, head.run, self._head.chunks, head.incarnation)
            await self._store.set(
                key, await asyncio.to_thread(chunk_row, self._head, head, items, self._foreign)
            )
        return head

    async def _publish(self, head: Head) -> None:
        await self._store.set(head_key(self._key), head.to_row())
        self._head = head


def linger_after(rows: int, linger: float) -> float:
    """
    Return how many seconds a page may wait for others.

    It grows with the stream, so that the rows of one that trickles for days grow with the root of the time.

    :param rows: how many rows the stream has.
    :param linger: the seconds at its beginning.
    """
    return max(linger, min(linger * rows / LINGER_ROWS, LONGEST_LINGER))


def chunk_row(before: Head, after: Head, items: list[Any], foreign: Foreign | None) -> dict[str, Any]:
    """
    Return the row of one chunk, as plain JSON.

    :param before: the head before it.
    :param after: the head after it.
    :param items: its items.
    :param foreign: makes JSON of values of types that the codec does not know.
    :raises TypeError: if an item cannot be stored; it names its index.
    """
    encoded = encode_items(items, foreign, before.items)
    row = {
        "v": FORMAT_VERSION,
        "run": after.run,
        "start": before.items,
        "enc": encoded.enc,
        "items": encoded.items,
        "cursor": after.cursor,
    }
    return row | ({"shapes": encoded.shapes} if encoded.shapes else {})
