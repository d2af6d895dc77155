# SPDX-License-Identifier: Apache-2.0
"""Progress: what a snapshot says, and who is told."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest

from airflow_provider_iteration.iteration import IterateOptions, Iteration, Progress
from airflow_provider_iteration.iteration.progress import report_progress
from tests.support.iteration import Held, settled


def progress(done: int, total: int | None, elapsed: float) -> Progress:
    return Progress(done, done, 0, 0, 0, 0, total, None, elapsed)


def test_rate_is_items_a_second() -> None:
    """The rate is that of the whole run so far."""
    assert progress(50, None, 10.0).rate == 5.0


def test_eta_follows_from_the_rate() -> None:
    """What is left takes as long as its like took."""
    assert progress(50, 80, 10.0).eta == 6.0


@pytest.mark.parametrize("snapshot", [progress(50, None, 10.0), progress(0, 80, 10.0)])
def test_eta_is_unknown_without_a_total_or_a_rate(snapshot: Progress) -> None:
    """Nothing is guessed."""
    assert snapshot.eta is None


async def test_snapshot_in_the_middle() -> None:
    """While three items are held, three are in flight and two are still to be read."""
    held = Held()
    iteration = Iteration(held, range(5), IterateOptions(task_concurrency=3))
    running = asyncio.ensure_future(iteration.run())
    await settled()
    snapshot = iteration.progress()
    held.release()
    await running
    assert (snapshot.in_flight, snapshot.done, snapshot.total) == (3, 0, 5)


async def test_snapshot_before_and_after() -> None:
    """Progress can be taken at any time; it stands still after the end."""
    iteration = Iteration(Held(), [])
    before = iteration.progress()
    await iteration.run()
    assert (before.done, iteration.progress().elapsed) == (0, iteration.progress().elapsed)


async def test_callback_is_told_again_and_again() -> None:
    """An iteration reports while it runs, to an ordinary function or a coroutine function."""
    told: list[Progress] = []
    enough = asyncio.Event()
    held = Held()

    async def tell(snapshot: Progress) -> None:
        told.append(snapshot)
        if len(told) == 2:
            held.release()
            enough.set()

    await Iteration(held, [1], on_progress=tell, progress_every=0.001).run()
    assert enough.is_set()
    assert {snapshot.in_flight for snapshot in told} == {1}


async def test_failing_callback_is_called_again() -> None:
    """A report that fails is logged, and fails nothing."""
    calls = asyncio.Queue[None]()

    def tell(snapshot: Progress) -> Any:
        calls.put_nowait(None)
        raise OSError

    reporter = asyncio.ensure_future(report_progress(lambda: progress(1, 2, 1.0), tell, 0.001))
    await calls.get()
    await calls.get()
    reporter.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await reporter
