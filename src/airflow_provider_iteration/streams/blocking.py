# SPDX-License-Identifier: Apache-2.0
"""Writes a stream for a producer that blocks: items go in one by one, pages are committed behind its back."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future
from contextlib import ExitStack, suppress
from types import TracebackType
from typing import Any, Self

from anyio.from_thread import start_blocking_portal

from airflow_provider_iteration.streams.codec import estimate_size
from airflow_provider_iteration.streams.events import Page, StreamEvent
from airflow_provider_iteration.streams.head import Head
from airflow_provider_iteration.streams.options import StreamOptions
from airflow_provider_iteration.streams.writer import StreamWriter

PAGE_ITEMS = 4096
PAGE_BYTES = 64 * 1024
PAGE_SECONDS = 0.5


class BlockingWriter:
    """
    A :class:`~.writer.StreamWriter` in a thread with an event loop of its own. Use it as a context manager.

    Leaving it without :meth:`close` leaves the stream unfinished.

    :param writer: the writer; not open yet.
    :param options: what the stream may not exceed.
    """

    def __init__(self, writer: StreamWriter, options: StreamOptions) -> None:
        self._writer = writer
        self._options = options
        self._count = 0
        self._pages = 0
        self._items: list[Any] = []
        self._size = 0
        self._lock = threading.Lock()
        self._order = asyncio.Lock()
        self._exits = ExitStack()

    @property
    def count(self) -> int:
        """Number of items taken so far."""
        return self._count

    def __enter__(self) -> Self:
        """
        Open the stream.

        :raises Fenced: if a newer run has it already.
        """
        with ExitStack() as exits:
            self._portal = exits.enter_context(start_blocking_portal())
            exits.enter_context(self._portal.wrap_async_context_manager(self._writer))
            exits.callback(self._portal.start_task_soon(self._tick).cancel)
            self._exits = exits.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._exits.__exit__(kind, error, trace)

    def put(self, item: Any) -> Future[None] | None:
        """
        Take an item. From one thread only.

        :param item: a value as in :class:`~.events.Page`.
        :return: None, or what to wait for before the next item, because there is no room for more.
        :raises TooLongToMap: if this is an item more than mapped tasks can expand over.
        """
        self._options.check_map_length(self._count + 1)
        self._count += 1
        size = estimate_size(item)
        with self._lock:
            self._items.append(item)
            self._size += size
            if len(self._items) < PAGE_ITEMS and self._size < PAGE_BYTES:
                return None
        return self._portal.start_task_soon(self._hand_over)

    def close(self) -> Head:
        """
        Commit everything, mark the end of the stream, and return its head.

        :raises TypeError: if an item cannot be stored; it names its index.
        """
        return self._portal.call(self._close)

    async def _tick(self) -> None:
        # What stops the commits is raised by the next put() or close().
        with suppress(Exception):
            while True:
                await asyncio.sleep(PAGE_SECONDS)
                await self._hand_over()

    async def _hand_over(self) -> None:
        async with self._order:
            with self._lock:
                items, self._items = self._items, []
                size, self._size = self._size, 0
            if items:
                page = Page(items, many=True, size=size)
                await self._writer.write(StreamEvent(self._writer.head.run, self._pages, page))
                self._pages += 1
            await self._writer.ready()

    async def _close(self) -> Head:
        await self._hand_over()
        return await self._writer.close()
