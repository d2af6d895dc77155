# SPDX-License-Identifier: Apache-2.0
"""Options of an iteration: what is right, and what is refused with which words."""

from __future__ import annotations

import os
from datetime import timedelta
from typing import Any

import pytest

from airflow_provider_iteration.iteration import IterateOptions


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("task_concurrency", True, "task_concurrency: expected an int of at least 1, got bool"),
        ("task_concurrency", "4", "task_concurrency: expected an int of at least 1, got str"),
        ("task_concurrency", 4.0, "task_concurrency: expected an int of at least 1, got float"),
        ("item_retries", None, "item_retries: expected an int of at least 0, got NoneType"),
        ("item_retries", False, "item_retries: expected an int of at least 0, got bool"),
        ("item_retry_delay", "5", "item_retry_delay: expected seconds or a timedelta, 0 or more, got str"),
        ("item_timeout", True, "item_timeout: expected seconds or a timedelta, above 0, got bool"),
        ("rate_limit", 20, "rate_limit: expected a text such as .*, got int"),
        ("max_failed_items", 0.5, "max_failed_items: expected an int of at least 0, got float"),
        ("max_failed_share", "5%", "max_failed_share: expected a number above 0 and below 1.*, got str"),
        ("fail_fast", 1, "fail_fast: expected True or False, got int"),
        ("max_items", "9", "max_items: expected an int of at least 1, got str"),
    ],
)
def test_wrong_type_is_refused_by_name(name: str, value: Any, message: str) -> None:
    """A TypeError names the argument, what is right, and the type that was given."""
    with pytest.raises(TypeError, match=message):
        IterateOptions(**{name: value})


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("task_concurrency", 0, "task_concurrency: expected an int of at least 1, got 0"),
        ("item_retries", -1, "item_retries: expected an int of at least 0, got -1"),
        ("item_retry_delay", -0.5, "item_retry_delay: .*0 or more, got -0.5"),
        ("item_timeout", 0, "item_timeout: .*above 0, got 0"),
        ("item_timeout", float("nan"), "item_timeout: .*above 0, got nan"),
        ("item_timeout", float("inf"), "item_timeout: .*above 0, got inf"),
        ("item_timeout", timedelta(seconds=-1), "item_timeout: .*above 0, got -1 day"),
        ("rate_limit", "20", 'rate_limit: expected a text such as "20/s"'),
        ("max_failed_items", -1, "max_failed_items: expected an int of at least 0, got -1"),
        ("max_failed_share", 0, "max_failed_share: .*got 0"),
        ("max_failed_share", 1.0, "max_failed_share: .*got 1.0"),
        ("max_failed_share", float("nan"), "max_failed_share: .*got nan"),
        ("max_items", 0, "max_items: expected an int of at least 1, got 0"),
    ],
)
def test_wrong_value_is_refused_by_name(name: str, value: Any, message: str) -> None:
    """A ValueError names the argument and what is right."""
    with pytest.raises(ValueError, match=message):
        IterateOptions(**{name: value})


@pytest.mark.parametrize("other", [{"max_failed_items": 3}, {"max_failed_share": 0.5}])
def test_contradiction_is_refused(other: dict[str, Any]) -> None:
    """One cannot end at the first failure and put up with some."""
    with pytest.raises(ValueError, match=f"fail_fast: expected False together with {next(iter(other))}"):
        IterateOptions(fail_fast=True, **other)


def test_misspelt_option_gets_a_guess() -> None:
    """An unknown name is refused with the nearest known one."""
    with pytest.raises(
        TypeError, match=r"unknown option 'task_concurency' \(did you mean 'task_concurrency'\?\)"
    ):
        IterateOptions.parse(task_concurency=4)


def test_strange_option_gets_the_list() -> None:
    """A name that is like no other is refused with all names."""
    with pytest.raises(
        TypeError, match=r"unknown option 'zzz'; the options are checkpoint_every, fail_fast, "
    ):
        IterateOptions.parse(zzz=4)


def test_known_options_are_taken() -> None:
    """What parse takes is what the constructor takes."""
    assert IterateOptions.parse(task_concurrency=4) == IterateOptions(task_concurrency=4)


@pytest.mark.parametrize("value", [90, 90.0, timedelta(minutes=1.5)])
def test_seconds_and_timedeltas_are_the_same(value: float | timedelta) -> None:
    """A time may be given either way."""
    options = IterateOptions(item_timeout=value, item_retry_delay=value)
    assert (options.timeout_seconds, options.retry_delay_seconds) == (90.0, 90.0)


def test_default_concurrency_depends_on_what_runs() -> None:
    """Coroutines are cheap; threads are bounded by the machine."""
    options = IterateOptions()
    expected = (16, min(32, (os.cpu_count() or 1) + 4))
    assert (options.concurrency(threads=False), options.concurrency(threads=True)) == expected


def test_options_are_frozen() -> None:
    """What was checked stays what it was."""
    with pytest.raises(AttributeError):
        IterateOptions().item_retries = 3  # type: ignore[misc]
