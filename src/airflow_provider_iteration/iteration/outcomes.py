# SPDX-License-Identifier: Apache-2.0
"""What became of an item, and an account of the failed ones that stays small whatever their number."""

from __future__ import annotations

import traceback
from bisect import bisect_right
from collections import Counter
from typing import Any, Literal, TypeAlias

import msgspec

Status: TypeAlias = Literal["success", "skipped", "failed"]

TRACEBACKS_KEPT = 3
TRACEBACK_CHARACTERS = 4000
RANGES_KEPT = 1000
RANGES_SHOWN = 20
KINDS_KEPT = 100
OTHER_KINDS = "other kinds"


class Outcome(msgspec.Struct, frozen=True):
    """
    What became of one item. Its repr shows neither the result nor the error.

    :param index: place of the item in the input.
    :param status: ``"success"``, ``"skipped"`` or ``"failed"``.
    :param attempts: how often the item was tried, from 1.
    :param result: what the callable returned, for a success.
    :param error: what it raised last, otherwise.
    :param seconds: how long the last attempt took.
    """

    index: int
    status: Status
    attempts: int
    result: Any = None
    error: Exception | None = None
    seconds: float = 0.0

    @property
    def error_kind(self) -> str | None:
        """Name of the error's class."""
        return None if self.error is None else type(self.error).__name__

    def __repr__(self) -> str:
        return f"Outcome(#{self.index}, {self.status}, attempts={self.attempts})"


class IndexRanges:
    """
    A set of indexes, kept as ranges.

    :param most: number of ranges that are kept; indexes beyond them are only counted.
    """

    def __init__(self, most: int = RANGES_KEPT) -> None:
        self._most = most
        self._starts: list[int] = []
        self._ends: list[int] = []
        self._others = 0

    def add(self, index: int) -> None:
        """
        Add an index that was not added before.

        :param index: from 0.
        """
        place = bisect_right(self._starts, index)
        after_previous = place > 0 and self._ends[place - 1] + 1 == index
        before_next = place < len(self._starts) and self._starts[place] == index + 1
        if after_previous and before_next:
            self._ends[place - 1] = self._ends.pop(place)
            del self._starts[place]
        elif after_previous:
            self._ends[place - 1] = index
        elif before_next:
            self._starts[place] = index
        elif len(self._starts) < self._most:
            self._starts.insert(place, index)
            self._ends.insert(place, index)
        else:
            self._others += 1

    def ranges(self) -> tuple[tuple[int, int], ...]:
        """Return the ranges, each with its first and last index."""
        return tuple(zip(self._starts, self._ends, strict=True))

    @property
    def others(self) -> int:
        """How many indexes are in none of the ranges."""
        return self._others


class FailedItems(msgspec.Struct, frozen=True):
    """
    The failed items of a run.

    :param count: how many failed.
    :param kinds: name of an exception class → how many items failed with it.
    :param ranges: first and last index of each stretch of failed items, as far as they are kept.
    :param others: how many failed items are in none of the ranges.
    :param tracebacks: tracebacks of the first three, as text.
    """

    count: int = 0
    kinds: dict[str, int] = {}
    ranges: tuple[tuple[int, int], ...] = ()
    others: int = 0
    tracebacks: tuple[str, ...] = ()

    def indexes_text(self, most: int = RANGES_SHOWN) -> str:
        """
        Return the indexes as a short text: ``"3, 7-9 and 12 more"``.

        :param most: how many ranges are written out.
        """
        shown = ", ".join(
            f"{first}" if first == last else f"{first}-{last}" for first, last in self.ranges[:most]
        )
        hidden = self.others + sum(last - first + 1 for first, last in self.ranges[most:])
        return f"{shown} and {hidden} more" if hidden else shown


class FailureLog:
    """Gathers failures: the first error as it is, the first three as text, the rest as numbers."""

    def __init__(self) -> None:
        self._count = 0
        self._kinds: Counter[str] = Counter()
        self._indexes = IndexRanges()
        self._tracebacks: list[str] = []
        self._only: Outcome | None = None

    def add(self, outcome: Outcome) -> None:
        """
        Take one failed item.

        :param outcome: a failed outcome, with its error.
        """
        self._count += 1
        # Holding an error holds the frames it went through: one is enough.
        self._only = outcome if self._count == 1 else None
        kind = outcome.error_kind or OTHER_KINDS
        known = kind in self._kinds or len(self._kinds) < KINDS_KEPT
        self._kinds[kind if known else OTHER_KINDS] += 1
        self._indexes.add(outcome.index)
        if outcome.error is not None and len(self._tracebacks) < TRACEBACKS_KEPT:
            self._tracebacks.append(f"item {outcome.index}:\n{traceback_text(outcome.error)}")

    @property
    def only(self) -> Outcome | None:
        """The failed item, if exactly one failed."""
        return self._only

    def report(self) -> FailedItems:
        """Return an account of what was added so far."""
        return FailedItems(
            count=self._count,
            kinds=dict(self._kinds.most_common()),
            ranges=self._indexes.ranges(),
            others=self._indexes.others,
            tracebacks=tuple(self._tracebacks),
        )


def traceback_text(error: BaseException) -> str:
    """
    Return a traceback as text; of a long one the end, where the error is.

    :param error: what was raised.
    """
    text = "".join(traceback.format_exception(error)).rstrip()
    return text if len(text) <= TRACEBACK_CHARACTERS else f"…{text[1 - TRACEBACK_CHARACTERS :]}"
