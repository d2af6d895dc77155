# SPDX-License-Identifier: Apache-2.0
"""How far an iteration has come."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import NamedTuple, TypeAlias

DEFAULT_EVERY = 10.0

log = logging.getLogger(__name__)


class Progress(NamedTuple):
    """
    A snapshot of a run.

    :param done: items that are finished, one way or another.
    :param succeeded: of these, the successful ones.
    :param skipped: of these, the skipped ones.
    :param failed: of these, the failed ones.
    :param in_flight: items that were taken from the input and are not finished.
    :param retried: retries so far, of all items together.
    :param total: number of items in the input, where it is known.
    :param started: when the run began.
    :param elapsed: seconds since then.
    """

    done: int
    succeeded: int
    skipped: int
    failed: int
    in_flight: int
    retried: int
    total: int | None
    started: datetime | None
    elapsed: float

    @property
    def rate(self) -> float:
        """Finished items a second."""
        return self.done / self.elapsed if self.elapsed > 0 else 0.0

    @property
    def eta(self) -> float | None:
        """Seconds that the rest takes at this rate, where that can be told."""
        if self.total is None or not self.done:
            return None
        return max(self.total - self.done, 0) * self.elapsed / self.done


class Counters:
    """The numbers that a run counts up."""

    __slots__ = ("failed", "retried", "skipped", "succeeded", "taken")

    def __init__(self) -> None:
        self.taken = 0
        self.succeeded = 0
        self.skipped = 0
        self.failed = 0
        self.retried = 0

    @property
    def done(self) -> int:
        """How many items are finished."""
        return self.succeeded + self.skipped + self.failed

    def snapshot(self, total: int | None, started: datetime | None, elapsed: float) -> Progress:
        """
        Return the numbers as they are now.

        :param total: number of items in the input, where it is known.
        :param started: when the run began.
        :param elapsed: seconds since then.
        """
        done = self.done
        return Progress(
            done=done,
            succeeded=self.succeeded,
            skipped=self.skipped,
            failed=self.failed,
            in_flight=max(self.taken - done, 0),
            retried=self.retried,
            total=total,
            started=started,
            elapsed=elapsed,
        )


ProgressCallback: TypeAlias = Callable[[Progress], Awaitable[None] | None]


async def report_progress(
    take: Callable[[], Progress], callback: ProgressCallback, every: float = DEFAULT_EVERY
) -> None:
    """
    Report again and again, until cancelled.

    A callback that fails is logged and called again the next time: no item fails for it.

    :param take: takes a snapshot.
    :param callback: what is told.
    :param every: seconds between two reports.
    """
    while True:
        await asyncio.sleep(every)
        try:
            pending = callback(take())
            if inspect.isawaitable(pending):
                await pending
        except Exception:
            log.warning("the progress callback failed", exc_info=True)
