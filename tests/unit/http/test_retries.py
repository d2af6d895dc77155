# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_iteration.http.retries import PageRetries, seconds_of_retry_after


def test_retry_after_in_seconds() -> None:
    """Retry-After as a number."""
    assert seconds_of_retry_after("7") == 7.0


@pytest.mark.parametrize("usegmt", [True, False])
def test_retry_after_as_a_date(usegmt: bool) -> None:
    """Retry-After as a date."""
    wait = seconds_of_retry_after(format_datetime(datetime.now(UTC) + timedelta(seconds=30), usegmt=usegmt))
    assert wait is not None
    assert 25 < wait <= 30


def test_retry_after_in_the_past_is_now() -> None:
    """A date that is over means no wait."""
    assert seconds_of_retry_after("Wed, 21 Oct 2015 07:28:00 GMT") == 0


@pytest.mark.parametrize("value", [None, "soon", "nan", ""])
def test_retry_after_that_says_nothing(value: str | None) -> None:
    """A header that cannot be read leaves the wait to us."""
    assert seconds_of_retry_after(value) is None


@pytest.mark.parametrize("value", ["86400", "inf"])
def test_retry_after_is_capped(value: str) -> None:
    """No API makes a trigger wait for hours."""
    assert PageRetries(max_retry_after=120).wait(1, value) == 120


@given(st.integers(1, 10**6), st.floats(0, 100), st.floats(0, 1000), st.floats(0, 1))
def test_wait_doubles_within_its_bounds(attempt: int, delay: float, most: float, jitter: float) -> None:
    """A wait is never longer than the cap, and never shorter than its share without chance."""
    wait = PageRetries(delay=delay, max_delay=most, jitter=jitter).wait(attempt, None)
    longest = min(delay * 2.0 ** min(attempt - 1, 60), most)
    assert longest * (1 - jitter) * 0.999 <= wait <= longest * 1.001


def test_wait_has_jitter() -> None:
    """Many tasks do not come back at one moment."""
    assert len({PageRetries(delay=10).wait(1, None) for _ in range(20)}) > 1


@pytest.mark.parametrize(
    ("on", "status", "expected"),
    [
        ((429, "5xx", "connection"), 429, True),
        ((429, "5xx", "connection"), 503, True),
        ((429, "5xx", "connection"), 404, False),
        ((429, "5xx", "connection"), None, True),
        ((404,), 404, True),
        ((404,), 500, False),
        ((404,), None, False),
        (("4xx",), 418, True),
    ],
)
def test_what_is_tried_again(on: tuple[int | str, ...], status: int | None, expected: bool) -> None:
    """Statuses, classes of them, and connections."""
    assert PageRetries(on=on).covers(status) is expected


@pytest.mark.parametrize(
    "value",
    [3, {"attempts": 3}, PageRetries(3), {"attempts": 3, "on": [429, "5xx", "connection"]}],
)
def test_settings_come_in_three_forms(value: Any) -> None:
    """A number, a dict and the object say the same."""
    assert PageRetries.load(value) == PageRetries(3)


@given(
    st.builds(
        PageRetries,
        st.integers(0, 100),
        st.lists(st.sampled_from([429, 404, "5xx", "connection"])),
        st.floats(0, 100),
        st.integers(0, 100),
        st.floats(0, 1),
        st.floats(0, 100),
    )
)
def test_settings_survive_json(retries: PageRetries) -> None:
    """H4: what travels comes back equal."""
    assert PageRetries.load(json.loads(json.dumps(retries.dump()))) == retries


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        (True, TypeError, "page_retries: expected a whole number.*got bool"),
        ({"attempts": 1.5}, TypeError, "page_retries.attempts: expected a whole number, got float"),
        ({"attempts": -1}, ValueError, "page_retries.attempts: expected 0 or more"),
        ({"delay": "1"}, TypeError, "page_retries.delay: expected a number, got str"),
        ({"jitter": 2}, ValueError, "page_retries.jitter: expected at most 1"),
        ({"on": 429}, TypeError, "page_retries.on: expected a list"),
        ({"on": [429, "6xx"]}, ValueError, r"page_retries.on\[1\]: expected a status.*got '6xx'"),
        ({"on": [99]}, ValueError, r"page_retries.on\[0\]"),
        ({"max_delay": float("nan")}, ValueError, "page_retries.max_delay"),
    ],
)
def test_wrong_settings(value: Any, error: type[Exception], message: str) -> None:
    """The field is named."""
    with pytest.raises(error, match=message):
        PageRetries.load(value)
