# SPDX-License-Identifier: Apache-2.0
"""What a failed attempt means for its item, and how long to wait before the next one."""

from __future__ import annotations

import contextlib
import math
import random
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any, Literal, NamedTuple, TypeAlias

LONGEST_BACKOFF = 300.0
LONGEST_RETRY_AFTER = 3600.0
SPREAD = 0.1


class Decision(NamedTuple):
    """
    What is to be done about a failed attempt.

    :param action: ``"retry"``, if there are retries left; ``"fail"`` or ``"skip"`` the item.
    :param delay: seconds before the retry, instead of what would be waited otherwise.
    """

    action: Literal["retry", "fail", "skip"]
    delay: float | None = None


RETRY = Decision("retry")
FAIL = Decision("fail")
SKIP = Decision("skip")

Classifier: TypeAlias = Callable[[Exception, int], Decision | None]
"""
Called on the event loop with an error and the number of the attempt (from 1) that raised it; must not block.
None leaves the decision to the next classifier. What it raises ends the run.
"""


def by_type(*, final: tuple[type[Exception], ...] = (), skip: tuple[type[Exception], ...] = ()) -> Classifier:
    """
    Make a classifier that goes by an error's class.

    :param final: errors after which there is no point in a retry.
    :param skip: errors that say that the item is to be skipped.
    """

    def classify(error: Exception, attempt: int) -> Decision | None:
        if isinstance(error, skip):
            return SKIP
        return FAIL if isinstance(error, final) else None

    return classify


def first_of(*classifiers: Classifier) -> Classifier:
    """
    Make a classifier of several: the first that decides counts; an error that none decides on is retried.

    :param classifiers: asked in this order.
    """

    def classify(error: Exception, attempt: int) -> Decision:
        for classifier in classifiers:
            if (decision := classifier(error, attempt)) is not None:
                return decision
        return RETRY

    return classify


class Backoff(NamedTuple):
    """
    Waits that double, up to five minutes, each shortened by chance so that items do not retry in step.

    A Retry-After that the error carries is kept to instead, and lengthened by chance.

    :param base: seconds before the first retry; above five minutes it never grows.
    """

    base: float

    def delay(self, attempt: int, error: Exception) -> float:
        """
        Return the seconds to wait.

        :param attempt: number of the attempt that failed, from 1.
        :param error: what it raised.
        """
        asked = retry_after(error)
        if asked is not None:
            return asked * random.uniform(1, 1 + SPREAD)
        # The exponent is bounded because a float is.
        grown = self.base * 2.0 ** min(attempt - 1, 60)
        return min(grown, max(self.base, LONGEST_BACKOFF)) * random.uniform(0.5, 1)


def retry_after(error: BaseException) -> float | None:
    """
    Read how many seconds an error asks to wait, at most an hour.

    Looked at are its ``retry_after`` (a number, text or timedelta), then the Retry-After header in its
    ``response.headers`` or ``headers``: what aiohttp's, httpx's and requests' errors have.

    :param error: what an attempt raised.
    """
    # Attributes of a stranger's class: a property among them may raise.
    with contextlib.suppress(Exception):
        for value in _answers(error):
            if (seconds := _seconds(value)) is not None:
                return seconds
    return None


def _answers(error: BaseException) -> Iterator[Any]:
    yield getattr(error, "retry_after", None)
    for owner in (getattr(error, "response", None), error):
        if (get := getattr(getattr(owner, "headers", None), "get", None)) is not None:
            yield get("Retry-After")
            yield get("retry-after")


def _seconds(value: Any) -> float | None:
    if isinstance(value, timedelta):
        seconds = value.total_seconds()
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        seconds = float(value)
    elif isinstance(value, str):
        return _parsed(value)
    else:
        return None
    return None if math.isnan(seconds) else min(max(seconds, 0.0), LONGEST_RETRY_AFTER)


def _parsed(text: str) -> float | None:
    try:
        return _seconds(float(text))
    except ValueError:
        pass
    try:
        moment = parsedate_to_datetime(text)
    except ValueError:
        return None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return _seconds((moment - datetime.now(UTC)).total_seconds())
