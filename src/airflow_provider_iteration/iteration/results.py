# SPDX-License-Identifier: Apache-2.0
"""Writes the results of an iteration to a stream: in input order, many to a row."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from airflow_provider_iteration.iteration.outcomes import Outcome
from airflow_provider_iteration.streams.events import Page, StreamEvent
from airflow_provider_iteration.streams.head import Head
from airflow_provider_iteration.streams.options import StreamOptions
from airflow_provider_iteration.streams.writer import StreamWriter

BATCH_RESULTS = 256


class InputOrder:
    """
    Puts outcomes that come in any order back into the order of the input.

    It holds those that came before their turn: while one item takes long, all that end in the meantime.
    """

    def __init__(self) -> None:
        self._next = 0
        self._early: dict[int, Outcome] = {}

    @property
    def held(self) -> int:
        """How many wait for their turn."""
        return len(self._early)

    def add(self, outcome: Outcome) -> list[Outcome]:
        """
        Take an outcome and return those whose turn has come.

        :param outcome: the outcome of an index that was not added before.
        """
        if outcome.index != self._next:
            self._early[outcome.index] = outcome
            return []
        ready = [outcome]
        self._next += 1
        while (following := self._early.pop(self._next, None)) is not None:
            ready.append(following)
            self._next += 1
        return ready


class ResultWriter:
    """
    The sink of an iteration whose results become a stream. Skipped and failed items have no place in it.

    What the stream holds already, when it is opened, are the first results: they are not written again.

    :param writer: an open writer of the stream.
    :param run: id of the run.
    :param options: what the stream may not exceed.
    :param complete: makes results of what stands for them, once their turn has come; called in a thread.
    """

    def __init__(
        self,
        writer: StreamWriter,
        run: str,
        *,
        options: StreamOptions | None = None,
        complete: Callable[[list[Any]], list[Any]] | None = None,
    ) -> None:
        self._options = options or StreamOptions()
        self._count = 0
        self._writer = writer
        self._run = run
        self._complete = complete
        self._order = InputOrder()
        self._ready: list[Any] = []
        self._pages = writer.head.pages
        self._known = writer.head.items
        self._turn = asyncio.Lock()

    def __call__(self, outcome: Outcome) -> Awaitable[None] | None:
        """Take an outcome; what is returned is to be awaited before the next one."""
        for next_one in self._order.add(outcome):
            if next_one.status == "success":
                self._count += 1
                self._options.check_map_length(self._count)
                if self._count > self._known:
                    self._ready.append(next_one.result)
        return self.flush() if len(self._ready) >= BATCH_RESULTS else None

    async def flush(self) -> None:
        """Hand over the results that are in their places."""
        async with self._turn:
            results = list(self._ready)
            if not results:
                return
            complete = results
            if self._complete is not None:
                complete = await asyncio.to_thread(self._complete, results)
            event = StreamEvent(self._run, self._pages, Page(complete, many=True), False)
            await self._writer.write(event)
            self._pages += 1
            # Only now: what fails here is found, and raised, by the next one again.
            del self._ready[: len(results)]
            await self._writer.ready()

    async def flush_every(self, seconds: float, ended: asyncio.Event) -> None:
        """
        Hand over what is there again and again, for those who read along.

        :param seconds: how long to wait in between.
        :param ended: set when it is to end.
        """
        # Whatever it is, the next flush raises it.
        with suppress(Exception):
            while not ended.is_set():
                with suppress(TimeoutError):
                    async with asyncio.timeout(seconds):
                        await ended.wait()
                await self.flush()

    async def pause(self) -> None:
        """Write what is there, and leave the stream open."""
        await self.flush()
        await self._writer.flush()

    async def close(self) -> Head:
        """Write the rest, end the stream, and return its head."""
        await self.flush()
        return await self._writer.close()
