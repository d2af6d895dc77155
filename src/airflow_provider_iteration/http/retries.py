# SPDX-License-Identifier: Apache-2.0
"""Which failures of a page are tried again, and when."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Self, TypeAlias

import msgspec

DEFAULT_PAGE_RETRIES = 3
IDEMPOTENT_METHODS = frozenset({"GET", "HEAD", "OPTIONS", "PUT", "DELETE", "TRACE"})
"""Methods that may be sent twice (RFC 9110, 9.2.2)."""

CONNECTION = "connection"
_CLASSES = ("1xx", "2xx", "3xx", "4xx", "5xx")
_FORM = f"a status such as 429, a class such as '5xx', or {CONNECTION!r}"


class PageRetries(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """
    How often, upon what, and after which wait one page is asked for again.

    A wait is what ``Retry-After`` says, in seconds or as a date (RFC 9110, 10.2.3). Where it says nothing,
    waits double from one try to the next, with jitter, so that many tasks do not come back at one moment
    (M. Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog, 2015).

    :param attempts: how often a page is asked for again at most.
    :param on: what is tried again: statuses (``429``), classes of statuses (``"5xx"``), ``"connection"``
        for connections that break and time-outs.
    :param delay: the first wait, in seconds.
    :param max_delay: longest wait, in seconds.
    :param jitter: share of a wait, 0 to 1, that is left to chance.
    :param max_retry_after: a longer ``Retry-After`` is cut to this, in seconds.
    """

    attempts: int = 3
    on: tuple[int | str, ...] = (429, "5xx", CONNECTION)
    delay: float = 1.0
    max_delay: float = 60.0
    jitter: float = 0.5
    max_retry_after: float = 300.0

    def __post_init__(self) -> None:
        _check_number("attempts", self.attempts, whole=True)
        for name in ("delay", "max_delay", "jitter", "max_retry_after"):
            _check_number(name, getattr(self, name))
        if self.jitter > 1:
            raise ValueError(f"page_retries.jitter: expected at most 1, got {self.jitter}")
        if isinstance(self.on, (str, int)):
            raise TypeError(f"page_retries.on: expected a list of {_FORM}, got {type(self.on).__name__}")
        for index, kind in enumerate(self.on):
            _check_kind(f"page_retries.on[{index}]", kind)
        # A list does as well, and is equal to the tuple that comes back from JSON.
        msgspec.structs.force_setattr(self, "on", tuple(self.on))

    @classmethod
    def load(cls, value: Any) -> Self:
        """
        Make the settings of what a user gave.

        :param value: the settings, their dict, or only the number of attempts.
        :raises TypeError: if it is anything else, or a field has another type.
        :raises ValueError: if a field is unknown, or out of its range.
        """
        if isinstance(value, cls):
            return value
        if isinstance(value, Mapping):
            unknown = sorted(set(map(str, value)) - set(cls.__struct_fields__))
            if unknown:
                known = ", ".join(cls.__struct_fields__)
                raise ValueError(f"page_retries: unknown field {unknown[0]!r}; the fields are {known}")
            return cls(**value)
        if isinstance(value, bool) or not isinstance(value, int):
            raise TypeError(
                f"page_retries: expected a whole number, PageRetries, or its dict, got {type(value).__name__}"
            )
        return cls(attempts=value)

    def dump(self) -> dict[str, Any]:
        """Return the settings as plain JSON, without what has its default."""
        dumped: dict[str, Any] = msgspec.to_builtins(self)
        return {name: list(field) if isinstance(field, tuple) else field for name, field in dumped.items()}

    def covers(self, status: int | None) -> bool:
        """
        Tell whether a failure is one to try again.

        :param status: HTTP status; None is a connection that failed.
        """
        if status is None:
            return CONNECTION in self.on
        return status in self.on or f"{status // 100}xx" in self.on

    def wait(self, attempt: int, retry_after: str | None) -> float:
        """
        Give the wait before the next try, in seconds.

        :param attempt: number of the try that failed, from 1.
        :param retry_after: the header ``Retry-After`` of its response, if there was any.
        """
        asked = seconds_of_retry_after(retry_after)
        if asked is not None:
            return min(asked, self.max_retry_after)
        longest = min(self.delay * 2.0 ** min(attempt - 1, 60), self.max_delay)
        return longest * random.uniform(1 - self.jitter, 1)


PageRetriesLike: TypeAlias = int | PageRetries | Mapping[str, Any]


def seconds_of_retry_after(value: str | None) -> float | None:
    """
    Read a ``Retry-After`` header, which has seconds or a date.

    :param value: the header.
    :return: seconds from now, at least 0; None if the header says nothing.
    """
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            moment = parsedate_to_datetime(value)
        except (ValueError, OverflowError):
            return None
        aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        seconds = (aware - datetime.now(UTC)).total_seconds()
    return None if math.isnan(seconds) else max(seconds, 0.0)


def _check_number(name: str, value: Any, *, whole: bool = False) -> None:
    if isinstance(value, bool) or not isinstance(value, int if whole else (int, float)):
        wanted = "a whole number" if whole else "a number"
        raise TypeError(f"page_retries.{name}: expected {wanted}, got {type(value).__name__}")
    if not value >= 0:
        raise ValueError(f"page_retries.{name}: expected 0 or more, got {value}")


def _check_kind(place: str, kind: Any) -> None:
    if isinstance(kind, str):
        known = kind == CONNECTION or kind in _CLASSES
    else:
        known = type(kind) is int and 100 <= kind <= 599
    if not known:
        raise ValueError(f"{place}: expected {_FORM}, got {kind!r}")
