# SPDX-License-Identifier: Apache-2.0
"""Callables, inputs and sinks whose order is told by events and counters."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

from airflow_provider_iteration.iteration import IterateOptions, Iteration, Outcome, Summary


async def run(
    function: Any, items: Any, *, options: dict[str, Any] | None = None, **settings: Any
) -> Summary:
    """Run an iteration with options given as a dict."""
    return await Iteration(function, items, IterateOptions(**(options or {})), **settings).run()


async def outcomes_of(
    function: Any, items: Any, *, options: dict[str, Any] | None = None, **settings: Any
) -> list[Outcome]:
    """Run an iteration that puts up with failed items, and return its outcomes as they came."""
    outcomes: list[Outcome] = []
    lenient = {"max_failed_items": 10_000, **(options or {})}
    await run(function, items, options=lenient, sink=outcomes.append, **settings)
    return outcomes


async def identity(value: Any) -> Any:
    """Return what was given, without ever waiting."""
    return value


async def settled(passes: int = 20) -> None:
    """Let the loop do all that it can do without time going by."""
    for _ in range(passes):
        await asyncio.sleep(0)


class Gauge:
    """Counts how many are inside, and the most that ever were."""

    def __init__(self) -> None:
        self.now = 0
        self.most = 0

    def __enter__(self) -> None:
        self.now += 1
        self.most = max(self.most, self.now)

    def __exit__(self, *_: object) -> None:
        self.now -= 1


class Held:
    """A callable whose items wait until they are released."""

    def __init__(self) -> None:
        self.started: list[Any] = []
        self.cancelled: list[Any] = []
        self._release = asyncio.Event()
        self._change = asyncio.Event()

    async def __call__(self, value: Any) -> Any:
        self.started.append(value)
        self._change.set()
        try:
            await self._release.wait()
        except asyncio.CancelledError:
            self.cancelled.append(value)
            raise
        return value

    async def reached(self, count: int = 1) -> None:
        """Wait until so many have started, and all that can happen then has happened."""
        while len(self.started) < count:
            self._change.clear()
            await self._change.wait()
        await settled()

    def release(self) -> None:
        """Let all items end."""
        self._release.set()


class Counted:
    """An iterator that knows how far it was read; it is of no type that is known not to block."""

    def __init__(self, length: int) -> None:
        self.length = length
        self.read = 0

    def __iter__(self) -> Iterator[int]:
        return self

    def __next__(self) -> int:
        if self.read == self.length:
            raise StopIteration
        self.read += 1
        return self.read - 1
