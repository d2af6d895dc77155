# SPDX-License-Identifier: Apache-2.0
"""Spaces the starts of attempts."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextvars import Context

from airflow_provider_iteration.iteration.attempts import Item
from airflow_provider_iteration.rates import Rate

TIMER_SLACK = 0.002
"""A timer this late does not shift the starts after it, or no high rate would be reached."""


class StartGate:
    """
    Starts attempts evenly, in the order in which they came, and never faster than the rate.

    :param rate: how many may start in a period.
    :param start: starts an attempt.
    :param on_fatal: called with what ``start`` raises.
    :param context: the context in which ``start`` is called.
    """

    def __init__(
        self,
        rate: Rate,
        start: Callable[[Item], None],
        on_fatal: Callable[[BaseException], None],
        context: Context,
    ) -> None:
        self._interval = rate.seconds / rate.starts
        self._start = start
        self._on_fatal = on_fatal
        self._context = context
        self._loop = asyncio.get_running_loop()
        self._queue: deque[Item] = deque()
        self._next = float("-inf")
        self._timer: asyncio.TimerHandle | None = None

    def admit(self, item: Item) -> None:
        """
        Have an item started as soon as it may.

        :param item: one that is not being worked on.
        """
        self._queue.append(item)
        if self._timer is None:
            self._start_due()

    def clear(self) -> int:
        """
        Start nothing more.

        :return: how many items were waiting.
        """
        waiting = len(self._queue)
        self._queue.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        return waiting

    def _start_due(self) -> None:
        now = self._loop.time()
        while self._queue and self._next <= now:
            due = self._next if now - self._next <= TIMER_SLACK else now
            self._next = due + self._interval
            self._start(self._queue.popleft())
        if self._queue:
            self._timer = self._loop.call_at(self._next, self._on_timer, context=self._context)

    def _on_timer(self) -> None:
        self._timer = None
        try:
            self._start_due()
        except BaseException as error:
            self._on_fatal(error)
