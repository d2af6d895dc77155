# SPDX-License-Identifier: Apache-2.0
"""What asyncio has no public word for: leaving a task to itself, and finding the one error that matters."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

POLL_SECONDS = 0.01


def disown(task: asyncio.Task[Any]) -> None:
    """
    Have nobody wait for a task that does not end although it was cancelled.

    ``asyncio.run`` cancels and awaits every registered task when it ends, and would wait forever.

    :param task: a task that may never end.
    """
    # Documented for other implementations of tasks ("Extending" in asyncio's documentation).
    asyncio.tasks._unregister_task(task)
    task._log_destroy_pending = False  # type: ignore[attr-defined]


def bare(error: BaseException) -> BaseException:
    """
    Take an error that is no ordinary one out of exception groups around it.

    A task group wraps what a signal handler raised in one of its tasks; the code that set the handler
    knows only the error itself.

    :param error: what was raised.
    :return: the error to raise.
    """
    while isinstance(error, BaseExceptionGroup) and not isinstance(error, Exception):
        error = next(inner for inner in error.exceptions if not isinstance(inner, Exception))
    return error


async def until(condition: Callable[[], bool]) -> None:
    """
    Wait for something that happens in another thread.

    :param condition: tells whether it has happened.
    """
    while not condition():  # noqa: ASYNC110
        await asyncio.sleep(POLL_SECONDS)
