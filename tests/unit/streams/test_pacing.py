# SPDX-License-Identifier: Apache-2.0
"""The duty cycle that all streams of a process share."""

from __future__ import annotations

import asyncio

import pytest

from airflow_provider_iteration.streams import Pace, shared_pace
from airflow_provider_iteration.streams.pacing import LONGEST_REST


class FakeTime:
    """A clock that only sleeping and working move."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        self.slept: list[float] = []
        monkeypatch.setattr(asyncio, "sleep", self.sleep)

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(round(seconds, 6))
        self.now += seconds


async def take_turn(pace: Pace, clock: FakeTime, seconds: float) -> None:
    async with pace.turn():
        clock.now += seconds


async def test_first_turn_does_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lone stream begins at once."""
    clock = FakeTime(monkeypatch)
    await take_turn(Pace(clock=clock), clock, 0.1)
    assert clock.slept == []


async def test_rest_is_twice_the_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a write that took t, none for 2 t."""
    clock = FakeTime(monkeypatch)
    pace = Pace(clock=clock)
    await take_turn(pace, clock, 0.3)
    await take_turn(pace, clock, 0.3)
    assert clock.slept == [0.6]


async def test_very_slow_write_does_not_silence_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """No rest is longer than a few seconds."""
    clock = FakeTime(monkeypatch)
    pace = Pace(clock=clock)
    await take_turn(pace, clock, 60.0)
    await take_turn(pace, clock, 0.1)
    assert clock.slept == [LONGEST_REST]


async def test_failed_turn_rests_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error in a turn neither blocks the others nor saves the rest."""
    clock = FakeTime(monkeypatch)
    pace = Pace(clock=clock)
    with pytest.raises(OSError, match="x"):
        async with pace.turn():
            clock.now += 1.0
            raise OSError("x")
    await take_turn(pace, clock, 0.1)
    assert clock.slept == [2.0]


async def test_turns_are_taken_in_the_order_of_asking() -> None:
    """Streams are served first come, first served."""
    pace = Pace(rest=0.0)
    order: list[int] = []

    async def ask(number: int) -> None:
        async with pace.turn():
            order.append(number)

    await asyncio.gather(*(ask(number) for number in range(20)))
    assert order == list(range(20))


async def test_streams_of_one_loop_share_one_pace() -> None:
    """Everything in a triggerer's loop gets the same pace."""
    assert shared_pace() is shared_pace()
