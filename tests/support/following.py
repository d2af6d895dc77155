# SPDX-License-Identifier: Apache-2.0
"""A producer with a script, and a follower whose clock is the script's."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from airflow_provider_iteration.exceptions import MissingChunk
from airflow_provider_iteration.streams.following import Committed, Follower, Place
from airflow_provider_iteration.streams.recency import RunJudge
from tests.support.streams import RUN_A


class Scripted:
    """A producer that goes through moments: state, run, number of committed items, generation."""

    def __init__(self, *moments: tuple[str | None, str | None, int]) -> None:
        self.moments = list(moments)
        self.generation = 1
        self.gone = False
        self.other: Iterable[Any] | None = None

    def state(self) -> str | None:
        return self.moments[0][0]

    def committed(self) -> Committed | None:
        _, run, items = self.moments[0]
        return None if run is None else Committed(run, self.generation if items else None, items, self._read)

    def result(self) -> Committed | Iterable[Any]:
        if self.other is not None:
            return self.other
        found = self.committed()
        assert found is not None
        return found

    def go_on(self) -> None:
        """Come to the next moment; the last one stays."""
        if len(self.moments) > 1:
            self.moments.pop(0)

    def _read(self, start: int, stop: int) -> Iterator[Any]:
        if self.gone:
            raise MissingChunk("key", start, "a task")
        run = self.moments[0][1]
        return iter([(run, index) for index in range(start, stop)])


class Clock:
    """Time goes by, and the producer goes on, while the follower waits."""

    def __init__(self, producer: Scripted) -> None:
        self.now = 0.0
        self._producer = producer

    def __call__(self) -> float:
        return self.now

    def wait(self, seconds: float) -> bool:
        self.now += seconds
        self._producer.go_on()
        return False


def follow(
    producer: Scripted,
    *,
    own: str = RUN_A,
    starve: float | None = None,
    run: str | None = None,
    expected: Place | None = None,
    is_busy: Callable[[], bool] = lambda: False,
) -> Follower:
    """Return a follower whose waits take no time."""
    clock = Clock(producer)
    follower = Follower(producer, task="a task", judge=RunJudge(own, clock), clock=clock)
    follower.follow(run=run, expected=expected, starve_seconds=starve, is_busy=is_busy)
    follower._stopped.wait = clock.wait  # type: ignore[method-assign, assignment]
    return follower
