# SPDX-License-Identifier: Apache-2.0
"""The duty cycle that all streams of one process share."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from weakref import WeakKeyDictionary

REST_FACTOR = 2.0
LONGEST_REST = 5.0


class Pace:
    """
    Lets one stream write at a time, in the order in which they asked, and rests after each write.

    A triggerer serves the messages of all its triggers one after the other. After a turn that took
    *t*, the next one begins *rest* x *t* later at the earliest, so that streams together use no more
    than a third of it, whatever their number. One very slow write does not silence the others: no
    rest is longer than five seconds.

    :param rest: length of the rest as a multiple of the turn.
    :param clock: seconds, monotonic.
    """

    def __init__(self, rest: float = REST_FACTOR, clock: Callable[[], float] = time.monotonic) -> None:
        self._rest = rest
        self._clock = clock
        self._lock = asyncio.Lock()
        self._resting_until = float("-inf")

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait for the turn; whoever holds it may write."""
        async with self._lock:
            await self._sleep_until(self._resting_until)
            began = self._clock()
            try:
                yield
            finally:
                ended = self._clock()
                self._resting_until = ended + min(self._rest * (ended - began), LONGEST_REST)

    async def _sleep_until(self, moment: float) -> None:
        if (wait := moment - self._clock()) > 0:
            await asyncio.sleep(wait)


_paces: WeakKeyDictionary[asyncio.AbstractEventLoop, Pace] = WeakKeyDictionary()


def shared_pace() -> Pace:
    """Return the one pace of all streams that run in the current event loop."""
    loop = asyncio.get_running_loop()
    if (pace := _paces.get(loop)) is None:
        pace = _paces[loop] = Pace()
    return pace
