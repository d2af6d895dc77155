# SPDX-License-Identifier: Apache-2.0
"""Retries: what is decided about an error, and how long the wait is."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.message import Message
from email.utils import format_datetime
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_iteration.iteration import FAIL, RETRY, SKIP, Decision, by_type, first_of, retry_after
from airflow_provider_iteration.iteration.retries import Backoff


class Skip(ValueError): ...


def error_with(**attributes: Any) -> Exception:
    error = OSError("busy")
    for name, value in attributes.items():
        setattr(error, name, value)
    return error


@pytest.mark.parametrize(("attempt", "longest"), [(1, 2), (2, 4), (3, 8), (20, 300), (5000, 300)])
def test_wait_doubles_up_to_five_minutes(attempt: int, longest: float) -> None:
    """The wait is between half of the grown delay and all of it."""
    waits = [Backoff(2).delay(attempt, OSError()) for _ in range(200)]
    assert longest / 2 <= min(waits)
    assert max(waits) <= longest
    assert len(set(waits)) > 1


def test_long_base_does_not_grow() -> None:
    """A delay beyond five minutes is what the user wants, but no more than that."""
    assert 300 <= Backoff(600).delay(7, OSError()) <= 600


@pytest.mark.parametrize(
    "error",
    [
        error_with(retry_after=30),
        error_with(retry_after=timedelta(seconds=30)),
        error_with(retry_after="30"),
        error_with(headers={"Retry-After": "30"}),
        error_with(response=SimpleNamespace(headers={"retry-after": "30"})),
        error_with(response=None, headers={"Retry-After": "30"}),
        error_with(retry_after="soon", headers={"Retry-After": "30"}),
    ],
)
def test_retry_after_is_found(error: Exception) -> None:
    """H7: wherever a client library keeps it."""
    assert retry_after(error) == 30.0


def test_retry_after_in_a_message() -> None:
    """urllib's errors carry their headers in a message."""
    headers = Message()
    headers["Retry-After"] = "30"
    assert retry_after(error_with(headers=headers)) == 30.0


def test_retry_after_as_a_date() -> None:
    """A server may say when rather than how long."""
    text = format_datetime(datetime.now(UTC) + timedelta(seconds=60), usegmt=True)
    found = retry_after(error_with(headers={"Retry-After": text}))
    assert found is not None
    assert 55 < found <= 60


@pytest.mark.parametrize(("value", "expected"), [(-5, 0.0), (86_400, 3600.0), ("inf", 3600.0)])
def test_retry_after_is_bounded(value: Any, expected: float) -> None:
    """A slot is not held for a day."""
    assert retry_after(error_with(retry_after=value)) == expected


@pytest.mark.parametrize("value", [None, True, "soon", float("nan"), b"30", object()])
def test_nonsense_is_no_retry_after(value: Any) -> None:
    """What cannot be read is ignored."""
    assert retry_after(error_with(retry_after=value, response=object(), headers=17)) is None


def test_property_that_raises_is_no_retry_after() -> None:
    """An error of a stranger's class may do anything when it is looked at."""

    class Odd(Exception):
        @property
        def retry_after(self) -> float:
            raise RuntimeError

    assert retry_after(Odd()) is None


def test_retry_after_counts_more_than_the_backoff() -> None:
    """It is kept to, and lengthened a little so that items do not come back in step."""
    assert 30 <= Backoff(1).delay(1, error_with(retry_after=30)) <= 33


@pytest.mark.parametrize(
    ("error", "decision"), [(KeyError(), FAIL), (Skip(), SKIP), (ValueError(), None), (OSError(), None)]
)
def test_type_decides(error: Exception, decision: Decision | None) -> None:
    """Final errors fail an item, skip errors skip it, others are left to the next classifier."""
    assert by_type(final=(KeyError,), skip=(Skip,))(error, 1) == decision


@pytest.mark.parametrize(("error", "decision"), [(KeyError(), FAIL), (Skip(), SKIP), (OSError(), RETRY)])
def test_first_classifier_that_decides_counts(error: Exception, decision: Decision) -> None:
    """Classifiers compose; without a decision there is a retry."""
    assert first_of(by_type(final=(KeyError,)), by_type(skip=(Skip,)))(error, 1) == decision
