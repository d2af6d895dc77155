# SPDX-License-Identifier: Apache-2.0
"""
The input of an iteration, read once and never further than it is asked for.

A feed is told how many items it may read; it hands each over as it comes, on the event loop. Lists and
their kin are read directly, asynchronous iterables by a task, and everything else in a thread of its own,
because its ``__next__`` may block.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Callable,
    Generator,
    Iterable,
    Iterator,
    Sized,
)
from contextvars import Context
from queue import SimpleQueue
from typing import Any, Protocol, TypeAlias

from airflow_provider_iteration.iteration.tasks import disown
from airflow_provider_iteration.iteration.threads import Mailbox

Items: TypeAlias = Iterable[Any] | AsyncIterable[Any]
OnItem: TypeAlias = Callable[[Any], None]
OnEnd: TypeAlias = Callable[[BaseException | None], None]

_IN_MEMORY: tuple[Any, ...] = (list, tuple, range, set, frozenset, dict, deque, str, bytes, type({}.keys()))
_IN_MEMORY_TYPES = frozenset(
    {
        *_IN_MEMORY,
        *(type(iter(kind(0) if kind is range else kind())) for kind in _IN_MEMORY[:-1]),
        type({}.values()),
        type({}.items()),
        type(iter({}.values())),
        type(iter({}.items())),
    }
)


def may_block(items: Items) -> bool:
    """
    Tell whether reading the next item could block.

    :param items: an iterable; only those that are known to lie in memory never block.
    """
    return type(items) not in _IN_MEMORY_TYPES


def check_items(items: Any) -> None:
    """
    Refuse what cannot be iterated over.

    :param items: what should be an input.
    :raises TypeError: naming its type.
    """
    if not isinstance(items, (Iterable, AsyncIterable)):
        raise TypeError(f"items: expected an iterable or an asynchronous one, got {type(items).__name__}")


def known_length(items: Items) -> int | None:
    """
    Return the number of items, if it is known without any work.

    :param items: an iterable.
    """
    return len(items) if isinstance(items, Sized) and not may_block(items) else None


class Feed(Protocol):
    """What the engine reads from."""

    def request(self, count: int) -> None:
        """
        Allow more items to be read.

        :param count: how many more.
        """

    def close(self) -> None:
        """Read no more, and close a generator. Does not wait for it."""

    async def wait_closed(self) -> None:
        """Wait until nothing of the input runs any more."""

    def give_up(self) -> None:
        """Leave alone what does not end."""


class DirectFeed:
    """
    Reads at once what it is asked for.

    :param items: an iterable that does not block.
    :param on_item: called with each item.
    :param on_end: called once, after the last item or with what reading raised.
    """

    def __init__(self, items: Iterable[Any], on_item: OnItem, on_end: OnEnd) -> None:
        self._items = items
        self._on_item = on_item
        self._on_end = on_end
        self._iterator: Iterator[Any] | None = None
        self._closed = False
        self._permits = 0
        self._is_reading = False

    def request(self, count: int) -> None:
        self._permits += count
        # An item that takes no time asks for the next one while it is being handed over.
        if self._is_reading:
            return
        self._is_reading = True
        try:
            while self._permits > 0 and not self._closed:
                self._permits -= 1
                self._read_one()
        finally:
            self._is_reading = False

    def _read_one(self) -> None:
        if self._iterator is None:
            self._iterator = iter(self._items)
        try:
            item = next(self._iterator)
        except StopIteration:
            self._closed = True
            self._on_end(None)
        except Exception as error:
            self._closed = True
            self._on_end(error)
        else:
            self._on_item(item)

    def close(self) -> None:
        self._closed = True
        if isinstance(self._iterator, Generator):
            self._iterator.close()

    async def wait_closed(self) -> None:
        return

    def give_up(self) -> None:
        return


class ThreadFeed:
    """
    Reads in a thread of its own.

    Each item costs no switch of threads as long as several may be read.

    :param items: any iterable.
    :param on_item: called with each item, on the loop.
    :param on_end: called once, on the loop, after the last item or with what reading raised.
    :param mailbox: brings the items to the loop.
    :param context: the context in which the iterator runs; not in use elsewhere.
    """

    def __init__(
        self, items: Iterable[Any], on_item: OnItem, on_end: OnEnd, mailbox: Mailbox, context: Context
    ) -> None:
        self._items = items
        self._on_item = on_item
        self._on_end = on_end
        self._mailbox = mailbox
        self._context = context
        self._permits: SimpleQueue[None] = SimpleQueue()
        self._closed = False
        self._thread: threading.Thread | None = None
        self._ended = asyncio.Event()

    def request(self, count: int) -> None:
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._context.run, args=(self._read,), name="iteration-input", daemon=True
            )
            self._thread.start()
        for _ in range(count):
            self._permits.put(None)

    def close(self) -> None:
        self._closed = True
        self._permits.put(None)

    async def wait_closed(self) -> None:
        if self._thread is not None:
            await self._ended.wait()

    def give_up(self) -> None:
        return

    def _read(self) -> None:
        error: BaseException | None = None
        try:
            iterator = iter(self._items)
            try:
                self._hand_over(iterator)
            finally:
                if isinstance(iterator, Generator):
                    iterator.close()
        except BaseException as raised:
            error = raised
        self._mailbox.post(self._on_end, error)
        self._mailbox.post(lambda _: self._ended.set(), None)

    def _hand_over(self, iterator: Any) -> None:
        while True:
            self._permits.get()
            if self._closed:
                return
            try:
                item = next(iterator)
            except StopIteration:
                return
            self._mailbox.post(self._on_item, item)
            # Waiting for the next permit holds no item.
            del item


class AsyncFeed:
    """
    Reads in one task.

    :param items: an asynchronous iterable.
    :param on_item: called with each item.
    :param on_end: called once, after the last item or with what reading raised.
    :param context: the context in which the iterator runs; not in use elsewhere.
    """

    def __init__(self, items: AsyncIterable[Any], on_item: OnItem, on_end: OnEnd, context: Context) -> None:
        self._items = items
        self._on_item = on_item
        self._on_end = on_end
        self._context = context
        self._permits = 0
        self._permitted: asyncio.Future[None] | None = None
        self._reader: asyncio.Task[None] | None = None
        self._closed = False

    def request(self, count: int) -> None:
        self._permits += count
        if self._reader is None:
            self._reader = asyncio.get_running_loop().create_task(self._read(), context=self._context)
        if self._permitted is not None and not self._permitted.done():
            self._permitted.set_result(None)

    def close(self) -> None:
        self._closed = True
        # The reader itself may be the caller, by way of on_item: it looks at the flag.
        if self._reader is not None and self._reader is not asyncio.current_task():
            self._reader.cancel()

    async def wait_closed(self) -> None:
        if self._reader is not None and not self._reader.done():
            await asyncio.wait([self._reader])

    def give_up(self) -> None:
        if self._reader is not None:
            disown(self._reader)

    async def _read(self) -> None:
        error: BaseException | None = None
        try:
            iterator = aiter(self._items)
            try:
                await self._hand_over(iterator)
            finally:
                if isinstance(iterator, AsyncGenerator):
                    await iterator.aclose()
        except asyncio.CancelledError:
            if not self._closed:
                error = RuntimeError("the input was cancelled by its own code")
        except BaseException as raised:
            error = raised
        self._on_end(error)

    async def _hand_over(self, iterator: AsyncIterator[Any]) -> None:
        while not self._closed:
            if not self._permits:
                self._permitted = asyncio.get_running_loop().create_future()
                await self._permitted
                self._permitted = None
            self._permits -= 1
            try:
                item = await anext(iterator)
            except StopAsyncIteration:
                return
            self._on_item(item)
            del item


def open_feed(
    items: Items, on_item: OnItem, on_end: OnEnd, mailbox: Mailbox, *, context: Context, direct: bool | None
) -> Feed:
    """
    Choose how to read an input.

    :param items: what to read.
    :param on_item: called with each item, on the loop.
    :param on_end: called once, on the loop, after the last item or with what reading raised.
    :param mailbox: brings items from a thread to the loop.
    :param context: of which the reader gets a copy.
    :param direct: whether to read on the loop's thread; None decides by :func:`may_block`.
    """
    if isinstance(items, AsyncIterable) and not direct:
        return AsyncFeed(items, on_item, on_end, context.copy())
    check_items(items)
    assert isinstance(items, Iterable)
    if direct if direct is not None else not may_block(items):
        return DirectFeed(items, on_item, on_end)
    return ThreadFeed(items, on_item, on_end, mailbox, context.copy())


async def wait_closed(feed: Feed, seconds: float) -> None:
    """
    Wait until nothing of an input runs any more, but not longer than that.

    :param feed: a closed feed.
    :param seconds: how long to wait at most.
    """
    try:
        async with asyncio.timeout(seconds):
            await feed.wait_closed()
    except TimeoutError:
        feed.give_up()
