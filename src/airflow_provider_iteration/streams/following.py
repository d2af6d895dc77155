# SPDX-License-Identifier: Apache-2.0
"""
Reads a stream while it is being written.

A follower reads what is committed, waits for more, and comes to its end only when the producer has succeeded
and its result is what was read. So whoever reads to the end has read what counts.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, Protocol, Self

import msgspec

from airflow_provider_iteration.exceptions import (
    MissingChunk,
    ProducerFailed,
    ProducerRestarted,
    Starved,
    StreamError,
)
from airflow_provider_iteration.streams.head import Extent
from airflow_provider_iteration.streams.recency import RunJudge

FIRST_PAUSE = 1.0
LONGEST_PAUSE = 10.0
PAUSE_GROWTH = 1.5

WRITES = frozenset({"running", "deferred"})
"""States of a task in which it may have a stream that grows."""
FAILED: frozenset[str | None] = frozenset({"failed", "upstream_failed", "removed"})
SKIPPED = "skipped"
SUCCESS = "success"
ENDED = FAILED | {SKIPPED, SUCCESS}


class Place(msgspec.Struct, frozen=True):
    """
    How far a stream was read.

    :param run: id of the run.
    :param generation: incarnation of the first chunk: one run may begin anew, and this one tells.
    :param items: number of items.
    """

    run: str
    generation: int | None = None
    items: int = 0

    def goes_on_in(self, found: Committed) -> bool:
        """Tell whether what was read so far is the beginning of something."""
        if self.run != found.run or self.items > found.items:
            return False
        return self.generation is None or self.generation == found.generation

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        plain: dict[str, Any] = msgspec.to_builtins(self)
        return plain

    @classmethod
    def from_json(cls, plain: Any) -> Self | None:
        """Give back what :meth:`to_json` returned; None stays None."""
        return None if plain is None else msgspec.convert(plain, cls)


class Committed(NamedTuple):
    """
    What a run has committed.

    :param run: id of the run.
    :param generation: incarnation of the first chunk, None without any.
    :param items: number of items.
    :param read: yields the items from one index to before another. Blocks.
    """

    run: str
    generation: int | None
    items: int
    read: Callable[[int, int], Iterator[Any]]

    def place(self) -> Place:
        """Return the place behind its last item."""
        return Place(self.run, self.generation, self.items)


def generation_of(extents: tuple[Extent, ...]) -> int | None:
    """Return the incarnation of the first chunk, None without any."""
    return extents[0].incarnation if extents else None


class Producer(Protocol):
    """The task whose stream is followed. Calls block."""

    def state(self) -> str | None:
        """Return the state of the task."""

    def committed(self) -> Committed | None:
        """Return what the head of the stream says, None without one."""

    def result(self) -> Committed | Iterable[Any]:
        """Return what the task, which has succeeded, has returned."""


class Follower:
    """
    The items of a stream, also those that are still to be written. Iterate over it in a thread.

    :param producer: whose stream it is.
    :param task: the producing task in words, for messages.
    :param judge: tells whether a head is of the producer's present run.
    :param starve_seconds: raise :class:`~..exceptions.Starved` after so many seconds without a new item; None
        waits for ever.
    :param clock: seconds, monotonic.
    """

    def __init__(
        self,
        producer: Producer,
        *,
        task: str,
        judge: RunJudge,
        starve_seconds: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._producer = producer
        self._task = task
        self._judge = judge
        self._starve_seconds = starve_seconds
        self._clock = clock
        self._stopped = threading.Event()
        self._is_busy: Callable[[], bool] = lambda: False
        self._expected: Place | None = None
        self._place: Place | None = None
        self._at_end = False

    @property
    def place(self) -> Place | None:
        """How far the last pass has read; None before its first item, and for what is no stream."""
        return self._place

    def follow(
        self,
        *,
        run: str | None,
        expected: Place | None,
        starve_seconds: float | None,
        is_busy: Callable[[], bool] = lambda: False,
    ) -> None:
        """
        Go on from what was found out before.

        :param run: the producer's present run, if it is known.
        :param expected: how far the stream was read before: a pass raises
            :class:`~..exceptions.ProducerRestarted` where it does not begin with that.
        :param starve_seconds: as for the constructor.
        :param is_busy: tells whether items are still worked on: nobody starves in the meantime.
        """
        self._judge.know(run)
        self._is_busy = is_busy
        self._expected = expected
        self._starve_seconds = starve_seconds

    def stop(self) -> None:
        """Have whoever waits for an item give up. Callable from any thread and from a signal handler."""
        self._stopped.set()

    def __iter__(self) -> Iterator[Any]:
        """
        Yield the items in order.

        :raises Starved: if nothing new comes for too long.
        :raises ProducerRestarted: if the producer began anew.
        :raises ProducerFailed: if it has ended otherwise than by a success.
        :raises MissingChunk: if rows of a finished stream are gone.
        """
        self._place, self._at_end = None, False
        pause, since = FIRST_PAUSE, self._clock()
        while True:
            found, ended = self._look()
            before = self._taken
            yield from self._read(found) if isinstance(found, Committed) else found
            if ended:
                self._at_end = True
                return
            if self._taken > before:
                pause, since = FIRST_PAUSE, self._clock()
                continue
            if self._is_busy():
                since = self._clock()
            self._check_starved(since)
            if self._stopped.wait(pause):
                raise StreamError(f"the reading of {self._task} was stopped after {self._taken} items")
            pause = min(pause * PAUSE_GROWTH, LONGEST_PAUSE)

    def confirm(self) -> None:
        """
        Wait for the end of the producer, and check that what was read is its result, or the beginning of it.

        :raises Starved: if it does not end for too long.
        :raises ProducerRestarted: if it is not, or not any more.
        :raises ProducerFailed: if it will not be.
        """
        # A pipeline may end before its source does: zip() with a shorter input.
        pause, since = FIRST_PAUSE, self._clock()
        while (state := self._state()) in WRITES and not self._at_end:
            self._check_starved(since, needs_end=True)
            if self._stopped.wait(pause):
                raise StreamError(f"the wait for the end of {self._task} was stopped")
            pause = min(pause * PAUSE_GROWTH, LONGEST_PAUSE)
        result = self._producer.result() if state == SUCCESS else None
        if self._place is None and state == SUCCESS:
            return
        if not isinstance(result, Committed) or not self._is_beginning_of(result):
            raise self._restarted()

    def _is_beginning_of(self, result: Committed) -> bool:
        if self._place is None or self._at_end:
            return self._place == result.place()
        return self._place.goes_on_in(result)

    @property
    def _taken(self) -> int:
        return 0 if self._place is None else self._place.items

    def _look(self) -> tuple[Committed | Iterable[Any], bool]:
        """Return what there is to read, and whether it is all there will be."""
        if self._place is not None:
            found = self._producer.committed()
            if found is not None and found.run >= self._place.run:
                self._check_goes_on(found)
                if found.items > self._place.items:
                    return found, False
        state = self._state()
        if state == SUCCESS:
            return self._result(), True
        if state not in WRITES or self._place is not None:
            return (), False
        found = self._producer.committed()
        if found is None:
            self._judge.saw_none()
            return (), False
        if not self._judge.is_current(found.run, found.items):
            return (), False
        self._check_goes_on(found)
        return found, False

    def _result(self) -> Committed | Iterable[Any]:
        result = self._producer.result()
        if isinstance(result, Committed):
            self._check_goes_on(result)
        elif self._place is not None or self._expected is not None:
            raise self._restarted()
        return result

    def _check_goes_on(self, found: Committed) -> None:
        for before in (self._place, self._expected):
            if before is not None and not before.goes_on_in(found):
                raise self._restarted()

    def _read(self, found: Committed) -> Iterator[Any]:
        start = self._taken
        self._place = Place(found.run, found.generation, start)
        try:
            for item in found.read(start, found.items):
                # Before the item is handed over: whoever has it has read it.
                start += 1
                self._place = Place(found.run, found.generation, start)
                yield item
                del item
        except MissingChunk as error:
            # A producer that begins anew drops the rows of its earlier run.
            if self._state() == SUCCESS:
                raise
            raise self._restarted() from error

    def _state(self) -> str | None:
        state = self._producer.state()
        if state in FAILED or state == SKIPPED:
            raise ProducerFailed(self._task, str(state))
        return state

    def _restarted(self) -> ProducerRestarted:
        return ProducerRestarted(self._task, self._taken)

    def _check_starved(self, since: float, *, needs_end: bool = False) -> None:
        if self._starve_seconds is not None and self._clock() - since >= self._starve_seconds:
            raise Starved(self._starve_seconds, self._taken, needs_end)
