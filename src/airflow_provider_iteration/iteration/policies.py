# SPDX-License-Identifier: Apache-2.0
"""
When failed items end a run early, and when a run with failed items succeeds all the same.

Policies compose: ``MaxFailedItems(10) & MaxFailedShare(0.05)`` puts up with what both put up with.
"""

from __future__ import annotations

from enum import IntEnum

import msgspec

from airflow_provider_iteration.iteration.options import IterateOptions
from airflow_provider_iteration.iteration.progress import Counters


class Verdict(IntEnum):
    """What a failed item means for the run, the gravest last."""

    GO_ON = 0
    """Go on with the other items."""
    DRAIN = 1
    """Read no more items; finish those that are in flight."""
    ABORT = 2
    """Read no more items, and cancel those that are in flight."""


class FailurePolicy(msgspec.Struct, frozen=True):
    """Base of the policies; ``&`` composes them."""

    def verdict(self, counters: Counters) -> Verdict:
        """
        Decide how to go on after an item has failed.

        :param counters: the items so far, the failed one counted.
        """
        raise NotImplementedError

    def accepts(self, counters: Counters) -> bool:
        """
        Tell whether a run that has ended is a success.

        :param counters: all items.
        """
        raise NotImplementedError

    def __and__(self, other: FailurePolicy) -> AllOf:
        return AllOf((self, other)) if isinstance(other, FailurePolicy) else NotImplemented


class RunAll(FailurePolicy, frozen=True):
    """Runs all items, then fails if one failed: the default."""

    def verdict(self, counters: Counters) -> Verdict:
        return Verdict.GO_ON

    def accepts(self, counters: Counters) -> bool:
        return counters.failed == 0


class FailFast(FailurePolicy, frozen=True):
    """Ends the run at the first failed item."""

    def verdict(self, counters: Counters) -> Verdict:
        return Verdict.ABORT if counters.failed else Verdict.GO_ON

    def accepts(self, counters: Counters) -> bool:
        return counters.failed == 0


class MaxFailedItems(FailurePolicy, frozen=True):
    """
    Puts up with so many failed items; one more, and nothing new is begun.

    What is in flight then is finished: it may have effects elsewhere that are better not cut in half.

    :param n: number of items, from 0.
    """

    n: int

    def verdict(self, counters: Counters) -> Verdict:
        return Verdict.DRAIN if counters.failed > self.n else Verdict.GO_ON

    def accepts(self, counters: Counters) -> bool:
        return counters.failed <= self.n


class MaxFailedShare(FailurePolicy, frozen=True):
    """
    Puts up with this share of failed items, looked at when all have run.

    :param share: above 0 and below 1.
    """

    share: float

    def verdict(self, counters: Counters) -> Verdict:
        return Verdict.GO_ON

    def accepts(self, counters: Counters) -> bool:
        return counters.failed <= self.share * counters.done


class AllOf(FailurePolicy, frozen=True):
    """
    Puts up with what all of its policies put up with; what ``a & b`` makes.

    :param policies: at least one.
    """

    policies: tuple[FailurePolicy, ...]

    def verdict(self, counters: Counters) -> Verdict:
        return max(policy.verdict(counters) for policy in self.policies)

    def accepts(self, counters: Counters) -> bool:
        return all(policy.accepts(counters) for policy in self.policies)


def policy_of(options: IterateOptions) -> FailurePolicy:
    """
    Make the policy that options ask for.

    :param options: checked options.
    """
    if options.fail_fast:
        return FailFast()
    chosen: list[FailurePolicy] = []
    if options.max_failed_items is not None:
        chosen.append(MaxFailedItems(options.max_failed_items))
    if options.max_failed_share is not None:
        chosen.append(MaxFailedShare(options.max_failed_share))
    if not chosen:
        return RunAll()
    return chosen[0] if len(chosen) == 1 else AllOf(tuple(chosen))
