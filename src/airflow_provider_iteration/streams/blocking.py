# SPDX-License-Identifier: Apache-2.0
"""Writes a stream for a producer that blocks: items go in one by one, pages are committed behind its back."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

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

    :param make_writer: returns the writer; called in that thread.
    :param run: id of the run.
    :param options: what the stream may not exceed.
    """

    def __init__(self, make_writer: Callable[[], StreamWriter], run: str, options: StreamOptions) -> None:
        self._make_writer = make_writer
        self._run = run
        self._options = options
        self._count = 0
        self._pages = 0
        self._items: list[Any] = []
        self._size = 0
        self._lock = threading.Lock()
        self._opened: Future[None] = Future()
        self._thread = threading.Thread(target=self._work, name="stream-writer", daemon=True)

    @property
    def count(self) -> int:
        """Number of items taken so far."""
        return self._count

    def __enter__(self) -> Self:
        """
        Open the stream.

        :raises Fenced: if a newer run has it already.
        """
        self._thread.start()
        self._opened.result()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(RuntimeError):  # the loop has ended already
            self._loop.call_soon_threadsafe(self._stopped.set)
        self._thread.join()

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
        return asyncio.run_coroutine_threadsafe(self._hand_over(), self._loop)

    def close(self) -> Head:
        """
        Commit everything, mark the end of the stream, and return its head.

        :raises TypeError: if an item cannot be stored; it names its index.
        """
        return asyncio.run_coroutine_threadsafe(self._close(), self._loop).result()

    def _work(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:
            if not self._opened.done():
                self._opened.set_exception(error)

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopped = asyncio.Event()
        self._order = asyncio.Lock()
        self._writer = self._make_writer()
        async with self._writer:
            self._opened.set_result(None)
            ticking = asyncio.create_task(self._tick())
            await self._stopped.wait()
            ticking.cancel()

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
                await self._writer.write(StreamEvent(self._run, self._pages, page))
                self._pages += 1
            await self._writer.ready()

    async def _close(self) -> Head:
        await self._hand_over()
        return await self._writer.close()
