# SPDX-License-Identifier: Apache-2.0
"""Failure policies: when a run ends early, and when it succeeds."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_iteration.iteration import (
    FailFast,
    FailurePolicy,
    IterateOptions,
    MaxFailedItems,
    MaxFailedShare,
    RunAll,
    Verdict,
)
from airflow_provider_iteration.iteration.policies import AllOf, policy_of
from airflow_provider_iteration.iteration.progress import Counters


def counters(failed: int, succeeded: int = 0) -> Counters:
    made = Counters()
    made.failed, made.succeeded = failed, succeeded
    return made


@pytest.mark.parametrize(
    ("policy", "failed", "verdict"),
    [
        (RunAll(), 1, Verdict.GO_ON),
        (FailFast(), 1, Verdict.ABORT),
        (MaxFailedItems(2), 2, Verdict.GO_ON),
        (MaxFailedItems(2), 3, Verdict.DRAIN),
        (MaxFailedShare(0.1), 9, Verdict.GO_ON),
        (MaxFailedShare(0.1) & MaxFailedItems(2), 3, Verdict.DRAIN),
    ],
)
def test_verdict_after_a_failure(policy: FailurePolicy, failed: int, verdict: Verdict) -> None:
    """Of several policies the gravest verdict counts."""
    assert policy.verdict(counters(failed)) is verdict


@pytest.mark.parametrize(
    ("policy", "failed", "succeeded", "accepted"),
    [
        (RunAll(), 0, 5, True),
        (RunAll(), 1, 5, False),
        (FailFast(), 1, 5, False),
        (MaxFailedItems(2), 2, 0, True),
        (MaxFailedItems(2), 3, 97, False),
        (MaxFailedShare(0.1), 10, 90, True),
        (MaxFailedShare(0.1), 11, 89, False),
        (MaxFailedItems(2) & MaxFailedShare(0.1), 2, 3, False),
        (MaxFailedItems(2) & MaxFailedShare(0.1), 2, 18, True),
    ],
)
def test_acceptance_at_the_end(policy: FailurePolicy, failed: int, succeeded: int, accepted: bool) -> None:
    """Several policies put up with what each of them puts up with."""
    assert policy.accepts(counters(failed, succeeded)) is accepted


@pytest.mark.parametrize(
    ("options", "policy"),
    [
        ({}, RunAll()),
        ({"fail_fast": True}, FailFast()),
        ({"max_failed_items": 0}, MaxFailedItems(0)),
        ({"max_failed_share": 0.1}, MaxFailedShare(0.1)),
        (
            {"max_failed_items": 3, "max_failed_share": 0.1},
            AllOf((MaxFailedItems(3), MaxFailedShare(0.1))),
        ),
    ],
)
def test_options_name_the_policy(options: dict[str, Any], policy: FailurePolicy) -> None:
    """Each option has its policy."""
    assert policy_of(IterateOptions(**options)) == policy
