# SPDX-License-Identifier: Apache-2.0
"""Moves pages from a source to a writer, within limits, from where an earlier producer stopped."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

from airflow_provider_iteration.exceptions import Fenced, LimitExceeded
from airflow_provider_iteration.streams.events import Page, StreamEvent
from airflow_provider_iteration.streams.head import Head
from airflow_provider_iteration.streams.options import StreamOptions
from airflow_provider_iteration.streams.pausing import Pause
from airflow_provider_iteration.streams.writer import StreamWriter

Source = Callable[[Any], AsyncGenerator[Page, None]]
Listener = Callable[[StreamEvent], Awaitable[None]]


async def produce(
    source: Source,
    writer: StreamWriter,
    options: StreamOptions,
    *,
    pause: Pause | None = None,
    tell: Listener | None = None,
) -> Head:
    """
    Run a source to its end, or to a pause, and commit its pages.

    A source that fails loses nothing: what came before is committed first, then the error goes on its
    way with a note that says how far the stream got.

    :param source: called with the cursor to go on from, or None.
    :param writer: an open writer.
    :param options: what the stream may not exceed.
    :param pause: says when to stop before the end; the stream stays open then.
    :param tell: is told of each new event, and awaited before the next page is asked for.
    :return: the head of the stream.
    """
    if writer.head.last:
        return writer.head
    pause = pause or Pause()
    try:
        await _pump(source, writer, options, pause, tell)
    except Fenced:
        raise
    except Exception as error:
        with contextlib.suppress(Exception):
            await writer.flush()
        error.add_note(_progress_note(writer.head))
        raise
    return await (writer.flush() if pause.paused else writer.close())


async def _pump(
    source: Source, writer: StreamWriter, options: StreamOptions, pause: Pause, tell: Listener | None
) -> None:
    opened = writer.head
    cursor = opened.resume_cursor
    # Without a cursor the source begins anew: the writer drops what it knows already.
    index = opened.pages if cursor is not None else 0
    taken, size = opened.pages, opened.size
    items = opened.items if cursor is not None else 0
    async with contextlib.aclosing(source(cursor)) as pages:
        await writer.ready()
        while (page := await pause.following(pages, taken)) is not None:
            _check_limits(options, index + 1, size + (page.size or 0))
            items += len(page.elements())
            if not options.whole_pages:
                options.check_map_length(items)
            event = StreamEvent(opened.run, index, page.whole() if options.whole_pages else page, page.last)
            if await writer.write(event):
                taken += 1
                size += page.size or 0
                if tell is not None:
                    await tell(event)
            if page.last:
                return
            index += 1
            await writer.ready()


def _check_limits(options: StreamOptions, pages: int, size: int) -> None:
    if options.max_pages is not None and pages > options.max_pages:
        raise LimitExceeded("max_pages", options.max_pages)
    if options.max_bytes is not None and size > options.max_bytes:
        raise LimitExceeded("max_bytes", options.max_bytes)


def _progress_note(head: Head) -> str:
    return f"committed before that: {head.pages} pages, {head.items} items"
