# SPDX-License-Identifier: Apache-2.0
"""The start gate: evenly, in order, retries included."""

from __future__ import annotations

import asyncio
from contextvars import copy_context
from itertools import pairwise
from typing import Any

import pytest

from airflow_provider_iteration.iteration.limits import TIMER_SLACK, StartGate
from airflow_provider_iteration.rates import Rate
from tests.support.iteration import run


async def test_starts_are_spaced_evenly() -> None:
    """H9: no window has more starts than the rate allows, the first one included."""
    loop = asyncio.get_running_loop()
    starts: list[float] = []
    all_started = asyncio.Event()

    def start(item: Any) -> None:
        starts.append(loop.time())
        if item == 11:
            all_started.set()

    gate = StartGate(Rate(100, 1), start, lambda error: None, copy_context())
    for item in range(12):
        gate.admit(item)  # type: ignore[arg-type]
    await all_started.wait()
    gaps = [after - before for before, after in pairwise(starts)]
    assert min(gaps) > 0.01 - TIMER_SLACK - 0.0005
    assert starts[-1] - starts[0] > 11 * 0.01 - TIMER_SLACK - 0.0005


async def test_retries_count_as_starts() -> None:
    """A retry waits for its turn too."""
    loop = asyncio.get_running_loop()
    starts: list[float] = []

    async def fail_twice(_: int) -> None:
        starts.append(loop.time())
        if len(starts) < 3:
            raise OSError

    await run(fail_twice, [1], options={"rate_limit": "50/s", "item_retries": 2, "item_retry_delay": 0})
    assert starts[2] - starts[0] > 0.02


async def test_order_is_kept() -> None:
    """Items start in the order of the input although they queue."""
    started: list[int] = []

    async def note(value: int) -> None:
        started.append(value)

    await run(note, range(50), options={"rate_limit": "2000/s", "task_concurrency": 7})
    assert started == list(range(50))


async def test_cleared_gate_starts_nothing_more() -> None:
    """What waits is dropped and counted."""
    started: list[Any] = []
    gate = StartGate(Rate(1, 3600), started.append, lambda error: None, copy_context())
    for item in ("a", "b", "c"):
        gate.admit(item)  # type: ignore[arg-type]
    assert (gate.clear(), started) == (2, ["a"])


async def test_what_a_start_raises_is_fatal() -> None:
    """In a timer's callback the loop would only log it."""
    fatal: asyncio.Queue[BaseException] = asyncio.Queue()

    def start(item: Any) -> None:
        if item == "b":
            raise MemoryError

    gate = StartGate(Rate(1000, 1), start, fatal.put_nowait, copy_context())
    gate.admit("a")  # type: ignore[arg-type]
    gate.admit("b")  # type: ignore[arg-type]
    with pytest.raises(MemoryError):
        raise await fatal.get()
