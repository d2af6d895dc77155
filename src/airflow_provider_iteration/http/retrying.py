# SPDX-License-Identifier: Apache-2.0
"""Asks for one page again, as :class:`~.retries.PageRetries` say."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

import tenacity

from airflow_provider_iteration.exceptions import PageFailed
from airflow_provider_iteration.http.retries import PageRetries

log = logging.getLogger(__name__)

Answer = TypeVar("Answer")


class Transient(Exception):
    """
    A failure that is one to try again.

    :param failure: what to raise if the tries are used up.
    :param retry_after: the header ``Retry-After`` of the response, if there was any.
    """

    def __init__(self, failure: PageFailed, retry_after: str | None = None) -> None:
        super().__init__(failure)
        self.failure = failure
        self.retry_after = retry_after


async def with_retries(retries: PageRetries, attempt: Callable[[], Awaitable[Answer]]) -> Answer:
    """
    Call until it succeeds, fails for good, or the tries are used up.

    :param retries: how often, and after which waits.
    :param attempt: makes one request; raises :class:`Transient` for what is to be tried again.
    :raises PageFailed: the last failure.
    """

    def wait(state: tenacity.RetryCallState) -> float:
        error = state.outcome.exception() if state.outcome else None
        asked = error.retry_after if isinstance(error, Transient) else None
        return retries.wait(state.attempt_number, asked)

    async def one() -> Answer:
        # A lambda would not be awaited.
        return await attempt()

    retrying = tenacity.AsyncRetrying(
        stop=tenacity.stop_after_attempt(retries.attempts + 1),
        wait=wait,
        retry=tenacity.retry_if_exception_type(Transient),
        sleep=asyncio.sleep,
        before_sleep=_log_retry,
        reraise=True,
    )
    try:
        return await retrying(one)
    except Transient as signal:
        raise signal.failure from None


def _log_retry(state: tenacity.RetryCallState) -> None:
    error = state.outcome.exception() if state.outcome else None
    if isinstance(error, Transient) and state.next_action is not None:
        failure = error.failure
        what = failure.reason if failure.status is None else f"HTTP {failure.status}"
        log.info("Page %d: %s; asked again in %.1f s", failure.page_number, what, state.next_action.sleep)
