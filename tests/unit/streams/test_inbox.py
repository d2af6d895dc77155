# SPDX-License-Identifier: Apache-2.0
"""The bounded buffer between a producer and a handler."""

from __future__ import annotations

import asyncio

import pytest

from airflow_provider_iteration.streams import Page, StreamEvent, StreamOptions
from airflow_provider_iteration.streams.inbox import Inbox
from tests.support.iteration import settled
from tests.support.streams import RUN_A


def event(index: int, size: int = 1) -> StreamEvent:
    return StreamEvent(RUN_A, index, Page(index, size=size))


def make_inbox(batch: int = 32, **options: int) -> Inbox:
    return Inbox(StreamOptions(**options), batch)  # type: ignore[arg-type]


async def put_all(inbox: Inbox, count: int, size: int = 1) -> list[int]:
    """Put events until the inbox is full, and return which ones were let in."""
    put: list[int] = []

    async def produce() -> None:
        for index in range(count):
            await inbox.put(event(index, size))
            put.append(index)

    running = asyncio.create_task(produce())
    await settled()
    running.cancel()
    return put


async def test_newest_event_waits_until_another_follows() -> None:
    """Whether an event is the last is known only then."""
    inbox = make_inbox()
    for index in range(3):
        await inbox.put(event(index))
    assert [(taken.sequence_index, taken.is_last) for taken in await inbox.take()] == [(0, False), (1, False)]


async def test_last_event_says_so() -> None:
    """At the end the newest event is the last one."""
    inbox = make_inbox()
    await inbox.put(event(0))
    await inbox.close()
    assert await inbox.take() == [StreamEvent(RUN_A, 0, 0, is_last=True)]
    assert await inbox.take() == []


async def test_producer_waits_while_the_pages_are_too_many() -> None:
    """No more pages are let in than may be held."""
    assert len(await put_all(make_inbox(max_uncommitted_pages=4), 20)) == 3


async def test_producer_waits_while_the_pages_are_too_large() -> None:
    """Bytes are a bound too; one page is always let in, and the one that tells of its end."""
    assert len(await put_all(make_inbox(max_uncommitted_bytes=10), 20, size=100)) == 1


async def test_taking_makes_room() -> None:
    """A producer that waits goes on when events were taken."""
    inbox = make_inbox(max_uncommitted_pages=2)
    await inbox.put(event(0))
    waiting = asyncio.create_task(inbox.put(event(1)))
    await settled()
    assert not waiting.done()
    await inbox.take()
    await waiting


async def test_batch_is_bounded() -> None:
    """No more events are given out at a time than a handler takes."""
    inbox = make_inbox(batch=2)
    for index in range(6):
        await inbox.put(event(index))
    assert [len(await inbox.take()) for _ in range(3)] == [2, 2, 1]


async def test_error_of_the_producer_comes_after_its_events() -> None:
    """What came before a failure is handled first."""
    inbox = make_inbox()
    await inbox.put(event(0))
    await inbox.put(event(1))
    await inbox.close(OSError("down"))
    assert [taken.sequence_index for taken in await inbox.take()] == [0]
    with pytest.raises(OSError, match="down"):
        await inbox.take()


async def test_stop_lets_the_producer_go() -> None:
    """After a stop a producer that waited goes on, and nothing is given out."""
    inbox = make_inbox(max_uncommitted_pages=2)
    await inbox.put(event(0))
    waiting = asyncio.create_task(inbox.put(event(1)))
    await settled()
    await inbox.stop()
    await waiting
    await inbox.put(event(2))
    assert await inbox.take() == []
