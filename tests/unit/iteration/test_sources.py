# SPDX-License-Identifier: Apache-2.0
"""Inputs: read once, no further than asked, and never on the loop if that may block."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextvars import copy_context
from typing import Any

import pytest

from airflow_provider_iteration.iteration.sources import (
    AsyncFeed,
    DirectFeed,
    Feed,
    Items,
    ThreadFeed,
    check_items,
    known_length,
    may_block,
    open_feed,
    wait_closed,
)
from airflow_provider_iteration.iteration.threads import Mailbox
from tests.support.iteration import Counted

END = object()


class Reading:
    """A feed and what it handed over."""

    def __init__(self, items: Items, *, direct: bool | None = None) -> None:
        self.got: asyncio.Queue[Any] = asyncio.Queue()
        context = copy_context()
        mailbox = Mailbox(asyncio.get_running_loop(), context)
        self.feed: Feed = open_feed(
            items, self.got.put_nowait, self.end, mailbox, context=context, direct=direct
        )

    def end(self, error: BaseException | None) -> None:
        self.got.put_nowait(error or END)

    async def ask(self, count: int, expect: int | None = None) -> list[Any]:
        self.feed.request(count)
        return [await self.got.get() for _ in range(count if expect is None else expect)]


async def counted_async(source: Counted) -> AsyncIterator[int]:
    for item in source:
        yield item


@pytest.mark.parametrize(
    "items", [[1], (1,), range(1), {1}, {1: 2}, {1: 2}.items(), iter([1]), iter({1: 2}.values()), deque([1])]
)
def test_what_lies_in_memory_never_blocks(items: Any) -> None:
    """It may be read on the loop."""
    assert may_block(items) is False


@pytest.mark.parametrize(
    "items", [(n for n in [1]), map(str, [1]), zip([1]), Counted(1), type("L", (list,), {})()]
)
def test_everything_else_may_block(items: Any) -> None:
    """A generator may do anything, and so may what is put around one, or a subclass."""
    assert may_block(items) is True


@pytest.mark.parametrize(
    ("items", "length"), [([1, 2], 2), (range(9), 9), (iter([1]), None), (Counted(3), None)]
)
def test_length_is_known_only_without_work(items: Any, length: int | None) -> None:
    """Asking a stranger for its length may block too."""
    assert known_length(items) == length


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (lambda source: list(source), DirectFeed),
        (lambda source: source, ThreadFeed),
        (lambda source: counted_async(source), AsyncFeed),
    ],
)
async def test_each_kind_of_input_is_read_to_its_end(make: Any, kind: type) -> None:
    """All items come in order, then the end."""
    reading = Reading(make(Counted(3)))
    assert isinstance(reading.feed, kind)
    assert await reading.ask(4) == [0, 1, 2, END]


@pytest.mark.parametrize("make", [lambda source: source, counted_async])
async def test_no_item_is_read_ahead(make: Any) -> None:
    """What was not asked for is not read."""
    source = Counted(100)
    reading = Reading(make(source))
    await reading.ask(3)
    await reading.ask(4)
    assert source.read == 7


async def test_item_is_handed_over_before_the_next_is_there() -> None:
    """A slow generator does not hold back the items that it has given, though more were asked for."""
    may_go_on = threading.Event()

    def slow() -> Iterator[int]:
        yield 1
        may_go_on.wait(30)
        yield 2

    reading = Reading(slow())
    assert await reading.ask(2, expect=1) == [1]
    may_go_on.set()
    assert await reading.got.get() == 2


async def test_generator_runs_off_the_loops_thread() -> None:
    """It may block as it likes."""
    reading = Reading(threading.current_thread().name for _ in range(1))
    assert await reading.ask(1) == ["iteration-input"]


async def test_caller_may_vouch_for_an_input() -> None:
    """With ``direct`` a generator is read on the loop's thread."""
    reading = Reading((threading.current_thread() for _ in range(1)), direct=True)
    assert await reading.ask(1) == [threading.current_thread()]


async def raising_async() -> AsyncIterator[int]:
    yield 1
    raise OSError


def raising() -> Iterator[int]:
    yield 1
    raise OSError


@pytest.mark.parametrize(("items", "direct"), [(raising, None), (raising, True), (raising_async, None)])
async def test_error_of_the_input_comes_after_its_items(items: Any, direct: bool | None) -> None:
    """What was read before it is handed over."""
    reading = Reading(items(), direct=direct)
    first, error = await reading.ask(2)
    assert (first, type(error)) == (1, OSError)


async def closing_async(closed: list[str]) -> AsyncIterator[int]:
    try:
        yield 1
        yield 2
    finally:
        closed.append(threading.current_thread().name)


def closing(closed: list[str]) -> Iterator[int]:
    try:
        yield 1
        yield 2
    finally:
        closed.append(threading.current_thread().name)


@pytest.mark.parametrize(
    ("make", "direct", "thread"),
    [(closing, None, "iteration-input"), (closing, True, "MainThread"), (closing_async, None, "MainThread")],
)
async def test_generator_is_closed_where_it_ran(make: Any, direct: bool | None, thread: str) -> None:
    """Its clean-up runs when the iteration ends early."""
    closed: list[str] = []
    reading = Reading(make(closed), direct=direct)
    await reading.ask(1)
    reading.feed.close()
    await wait_closed(reading.feed, 10)
    assert closed == [thread]


async def test_input_that_hangs_is_left_alone() -> None:
    """Closing does not wait longer than it may."""
    forever = threading.Event()
    reading = Reading(item for item in [1] if forever.wait(30))
    reading.feed.request(1)
    reading.feed.close()
    await wait_closed(reading.feed, 0.01)
    forever.set()
    await wait_closed(reading.feed, 10)


async def test_unread_input_is_closed_at_once() -> None:
    """An input that nothing was asked of has no thread and no task to wait for."""
    for items in ([1], Counted(1), counted_async(Counted(1))):
        reading = Reading(items)
        reading.feed.close()
        await wait_closed(reading.feed, 10)
        assert reading.got.empty()


def test_what_is_no_iterable_is_refused() -> None:
    """The message names the type, not the value."""
    with pytest.raises(TypeError, match="items: expected an iterable or an asynchronous one, got int"):
        check_items(5)
