# SPDX-License-Identifier: Apache-2.0
"""A bounded buffer of events between a producer and whoever handles them."""

from __future__ import annotations

import asyncio
from collections import deque

import msgspec

from airflow_provider_iteration.streams.codec import estimate_size
from airflow_provider_iteration.streams.events import StreamEvent
from airflow_provider_iteration.streams.options import StreamOptions


class Inbox:
    """
    Passes events on, and has the producer wait while too many are held.

    The newest event is kept back until it is known whether another one follows, so that ``is_last`` is
    right. Everything here is to be called in one event loop.

    :param options: how many pages and bytes may be held; one page is always let in.
    :param batch: how many events are given out at a time at most.
    """

    def __init__(self, options: StreamOptions, batch: int) -> None:
        self._options = options
        self._batch = batch
        self._ready: deque[StreamEvent] = deque()
        self._sizes: deque[int] = deque()
        self._newest: StreamEvent | None = None
        self._closed = False
        self._error: BaseException | None = None
        self._changed = asyncio.Condition()

    async def put(self, event: StreamEvent) -> None:
        """Take an event whose payload is a page; wait for room first. After :meth:`stop` it is dropped."""
        page = event.payload
        async with self._changed:
            if self._closed:
                return
            if self._newest is not None:
                self._ready.append(self._newest)
            self._newest = msgspec.structs.replace(event, payload=page.payload)
            self._sizes.append(page.size if page.size is not None else estimate_size(page.payload))
            self._changed.notify_all()
            await self._changed.wait_for(lambda: self._closed or self._has_room())

    async def close(self, error: BaseException | None = None) -> None:
        """
        Say that no event follows.

        :param error: what ended the producer; raised where the next event is asked for.
        """
        async with self._changed:
            if self._newest is not None and error is None:
                self._ready.append(msgspec.structs.replace(self._newest, is_last=True))
            self._closed, self._error, self._newest = True, error, None
            self._changed.notify_all()

    async def stop(self) -> None:
        """Drop everything, and let the producer go on without waiting."""
        async with self._changed:
            self._closed, self._newest = True, None
            self._ready.clear()
            self._changed.notify_all()

    async def take(self) -> list[StreamEvent]:
        """Wait for events, and return those that are there; none at the end."""
        async with self._changed:
            await self._changed.wait_for(lambda: self._ready or self._closed)
            if not self._ready and self._error is not None:
                raise self._error
            taken = [self._ready.popleft() for _ in range(min(len(self._ready), self._batch))]
            for _ in taken:
                self._sizes.popleft()
            self._changed.notify_all()
            return taken

    def _has_room(self) -> bool:
        options = self._options
        return (
            len(self._sizes) < options.max_uncommitted_pages
            and sum(self._sizes) < options.max_uncommitted_bytes
        ) or not self._ready
