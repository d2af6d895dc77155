# SPDX-License-Identifier: Apache-2.0
"""Tells the head of a producer's present run from one that an earlier run has left."""

from __future__ import annotations

import time
from collections.abc import Callable
from uuid import UUID

TOGETHER_MS = 500
"""Ids that were made so close to each other were made at one go: of one Dag run, or by one clear."""
SETTLE_SECONDS = 15.0
"""How long the trigger of an earlier run may go on writing after its task was cleared."""


class RunJudge:
    """
    Judges the heads that a consumer finds while it waits.

    Airflow tells the state of a task and not the id of its try, so a head that an earlier run has left, in a
    task that runs again, looks like a new one. Ids of tries are UUIDv7, which begin with a time:

    * a run that is about as old as the consumer's own, or newer, is the present one: a clear of both tasks
      gives both a new id;
    * so is one whose head came while the consumer waited;
    * an older one that was there before is the present one if it still grows after a while: then the consumer
      alone was run again.

    :param consumer: id of the consumer's own try.
    :param clock: seconds, monotonic.
    """

    def __init__(self, consumer: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._born = _milliseconds(consumer)
        self._clock = clock
        self._began: float | None = None
        self._first: tuple[str, int] | None = None
        self._settled: int | None = None
        self._known: str | None = None

    def know(self, run: str | None) -> None:
        """Say which run is the present one."""
        self._known = run

    def saw_none(self) -> None:
        """Take note that there was no head."""
        if self._began is None:
            self._began = self._clock()

    def is_current(self, run: str, items: int) -> bool:
        """
        Tell whether a head is of the producer's present run.

        :param run: id of the head's run.
        :param items: number of items that it has.
        """
        if self._known is not None:
            return run >= self._known
        if _milliseconds(run) >= self._born - TOGETHER_MS:
            return True
        now = self._clock()
        if self._began is None:
            self._began, self._first = now, (run, items)
            return False
        if self._first is None or self._first[0] != run:
            return True
        if now - self._began < SETTLE_SECONDS:
            return False
        if self._settled is None:
            self._settled = items
        return items != self._settled


def _milliseconds(run: str) -> int:
    """Return the time in a UUIDv7."""
    return UUID(run).int >> 80
