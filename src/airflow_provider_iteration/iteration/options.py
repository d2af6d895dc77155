# SPDX-License-Identifier: Apache-2.0
"""What a user may set about an iteration: frozen, and checked when it is made."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from datetime import timedelta
from difflib import get_close_matches
from typing import Any, Self

import msgspec

from airflow_provider_iteration.rates import Rate

COROUTINE_CONCURRENCY = 16
MOST_THREADS = 32
CHECKPOINT_ITEMS = 256
MOST_CHECKPOINT_ITEMS = 4096
CHECKPOINT_SECONDS = 2.0


class IterateOptions(msgspec.Struct, frozen=True, kw_only=True):
    """
    :param task_concurrency: how many items may be worked on at a time; None is 16 for coroutines and
        ``min(32, cpus + 4)`` for threads.
    :param item_retries: how often a failed item is tried again.
    :param item_retry_delay: seconds, or a timedelta, before the first retry at most; doubles with each
        further one. None is one second.
    :param item_timeout: seconds, or a timedelta, that one attempt at an item may take; None is no limit.
    :param rate_limit: how many attempts may start in a period: ``"20/s"``, ``"100/m"`` or ``"1000/h"``.
    :param max_failed_items: the run succeeds although so many items failed.
    :param max_failed_share: the run succeeds although this share of the items failed, above 0 and below 1.
    :param fail_fast: whether the first failed item ends the run.
    :param max_items: an input with more items than this is an error.
    :param checkpoint_every: what is done is committed after so many items, and every two seconds; or every so
        often, if this is a timedelta. A retry does only the rest. None: nothing is kept for a retry.
    """

    task_concurrency: int | None = None
    item_retries: int = 0
    item_retry_delay: float | timedelta | None = None
    item_timeout: float | timedelta | None = None
    rate_limit: str | None = None
    max_failed_items: int | None = None
    max_failed_share: float | None = None
    fail_fast: bool = False
    max_items: int | None = None
    checkpoint_every: int | timedelta | None = CHECKPOINT_ITEMS

    def __post_init__(self) -> None:
        _check_int("item_retries", self.item_retries, least=0)
        for name, least in (("task_concurrency", 1), ("max_failed_items", 0), ("max_items", 1)):
            if getattr(self, name) is not None:
                _check_int(name, getattr(self, name), least=least)
        if self.item_retry_delay is not None:
            _check_seconds("item_retry_delay", self.item_retry_delay, zero=True)
        if self.item_timeout is not None:
            _check_seconds("item_timeout", self.item_timeout, zero=False)
        if self.rate_limit is not None:
            Rate.parse("rate_limit", self.rate_limit)
        if self.max_failed_share is not None:
            _check_share("max_failed_share", self.max_failed_share)
        if self.checkpoint_every is not None:
            _check_every("checkpoint_every", self.checkpoint_every)
        self._check_fail_fast()

    @classmethod
    def known(cls) -> tuple[str, ...]:
        """Return the names of all options."""
        return cls.__struct_fields__

    @classmethod
    def parse(cls, **options: Any) -> Self:
        """
        Make options of keyword arguments, and help with misspelt names.

        :raises TypeError: for an unknown name, or a value of a wrong type.
        :raises ValueError: for a wrong value.
        """
        check_names(options, cls.known())
        return cls(**options)

    @property
    def timeout_seconds(self) -> float | None:
        """``item_timeout`` in seconds."""
        return None if self.item_timeout is None else _seconds(self.item_timeout)

    @property
    def retry_delay_seconds(self) -> float:
        """``item_retry_delay`` in seconds."""
        return 1.0 if self.item_retry_delay is None else _seconds(self.item_retry_delay)

    @property
    def checkpoint_items(self) -> int:
        """Number of items after which a checkpoint is due."""
        return self.checkpoint_every if isinstance(self.checkpoint_every, int) else MOST_CHECKPOINT_ITEMS

    @property
    def checkpoint_seconds(self) -> float:
        """Time after which a checkpoint is due."""
        every = self.checkpoint_every
        return every.total_seconds() if isinstance(every, timedelta) else CHECKPOINT_SECONDS

    @property
    def rate(self) -> Rate | None:
        """``rate_limit``, read."""
        return None if self.rate_limit is None else Rate.parse("rate_limit", self.rate_limit)

    def concurrency(self, *, threads: bool) -> int:
        """
        Return how many items may be worked on at a time.

        :param threads: whether items run in threads, which are dearer than coroutines.
        """
        if self.task_concurrency is not None:
            return self.task_concurrency
        return min(MOST_THREADS, (os.cpu_count() or 1) + 4) if threads else COROUTINE_CONCURRENCY

    def _check_fail_fast(self) -> None:
        if not isinstance(self.fail_fast, bool):
            raise TypeError(f"fail_fast: expected True or False, got {type(self.fail_fast).__name__}")
        for name in ("max_failed_items", "max_failed_share"):
            if self.fail_fast and getattr(self, name) is not None:
                raise ValueError(
                    f"fail_fast: expected False together with {name}: "
                    f"one ends the run at the first failed item, the other puts up with failed items"
                )


def check_names(given: Iterable[str], known: Iterable[str]) -> None:
    """
    Refuse names of options that do not exist.

    :param given: names that a user wrote.
    :param known: names that there are.
    :raises TypeError: for the first unknown one, with the nearest known one.
    """
    names = sorted(known)
    for name in given:
        if name not in names:
            close = get_close_matches(name, names, n=1)
            guess = f" (did you mean {close[0]!r}?)" if close else ""
            raise TypeError(f"unknown option {name!r}{guess}; the options are {', '.join(names)}")


def _check_int(name: str, value: Any, *, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name}: expected an int of at least {least}, got {type(value).__name__}")
    if value < least:
        raise ValueError(f"{name}: expected an int of at least {least}, got {value}")


def _check_seconds(name: str, value: Any, *, zero: bool) -> None:
    form = f"{name}: expected seconds or a timedelta, {'0 or more' if zero else 'above 0'}"
    if isinstance(value, bool) or not isinstance(value, (int, float, timedelta)):
        raise TypeError(f"{form}, got {type(value).__name__}")
    seconds = _seconds(value)
    if not math.isfinite(seconds) or seconds < 0 or (seconds == 0 and not zero):
        raise ValueError(f"{form}, got {value}")


def _check_every(name: str, value: Any) -> None:
    form = f"{name}: expected a number of items of at least 1, a timedelta above 0, or None"
    if isinstance(value, bool) or not isinstance(value, (int, timedelta)):
        raise TypeError(f"{form}, got {type(value).__name__}")
    if value < timedelta(microseconds=1) if isinstance(value, timedelta) else value < 1:
        raise ValueError(f"{form}, got {value}")


def _check_share(name: str, value: Any) -> None:
    form = f"{name}: expected a number above 0 and below 1, such as 0.05 for one in twenty"
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{form}, got {type(value).__name__}")
    if not 0 < value < 1:
        raise ValueError(f"{form}, got {value}")


def _seconds(value: float | timedelta) -> float:
    return value.total_seconds() if isinstance(value, timedelta) else float(value)
