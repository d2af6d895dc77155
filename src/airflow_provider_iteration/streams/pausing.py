# SPDX-License-Identifier: Apache-2.0
"""Where a producer pauses before the end of its source, to go on later from its cursor."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from airflow_provider_iteration.streams.events import Page

NEVER = float("inf")


class Pause:
    """
    Stops a producer between two pages, without ending its stream.

    Whether a page is the last one is often known only when the next one was asked for. A pause that is
    about to come therefore lets one page more than is wanted through: the last one of what was
    committed is then left for later, and what is handled now is known not to be the end.

    :param handled: how many pages of the stream were handled before.
    :param pages: after how many pages beyond these to pause, and one more; None is no limit.
    :param seconds: after how many seconds to pause, if there are at least two pages beyond these.
    """

    def __init__(self, *, handled: int = 0, pages: int | None = None, seconds: float | None = None) -> None:
        self._enough = NEVER if pages is None else handled + pages + 1
        self._some = handled + 2
        self._due = None if seconds is None else asyncio.get_running_loop().time() + seconds
        self._stopped = False
        self._waiting: asyncio.Timeout | None = None
        self.paused = False

    def stop(self) -> None:
        """Pause at once, also while a page is waited for. Call it in the event loop of the producer."""
        self._stopped = True
        if self._waiting is not None:
            self._waiting.reschedule(asyncio.get_running_loop().time())

    async def following(self, pages: AsyncGenerator[Page, None], taken: int) -> Page | None:
        """
        Return the next page, or None at the end or where the producer is to pause.

        :param pages: the source.
        :param taken: how many pages of the stream were taken so far.
        """
        if self._stopped or taken >= self._enough:
            self.paused = True
            return None
        waiting = asyncio.timeout_at(self._due if taken >= self._some else None)
        try:
            async with waiting as self._waiting:
                return await anext(pages, None)
        except TimeoutError:
            # A source may time out for reasons of its own.
            if not waiting.expired():
                raise
            self.paused = True
            return None
        finally:
            self._waiting = None
