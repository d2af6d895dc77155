# SPDX-License-Identifier: Apache-2.0
"""
An event loop of one's own that always ends.

``asyncio.run`` waits without a limit for every task that it has cancelled. One that ignores that, or one
whose next step the loop lost because a signal handler raised between two callbacks, keeps it for ever.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from airflow_provider_iteration.iteration.tasks import disown

T = TypeVar("T")


def run_bounded(
    main: Coroutine[Any, Any, T], interrupt: Callable[[BaseException], bool], seconds: Callable[[], float]
) -> T:
    """
    Run a coroutine to its end in a new event loop.

    :param main: the coroutine.
    :param interrupt: has it end soon; called with what was raised past it, by a signal handler for one,
        which is raised again when it has ended. If it returns False, the coroutine is cancelled.
    :param seconds: how long it may take to end then, and other tasks after it.
    """
    loop = asyncio.new_event_loop()
    try:
        task = loop.create_task(main)
        try:
            with _not_swallowed(lambda error: interrupt(error) or task.cancel()):
                return loop.run_until_complete(task)
        except BaseException as error:
            if not task.done():
                if not interrupt(error):
                    task.cancel()
                _wait(loop, {task}, seconds())
                if task.done() and not task.cancelled():
                    task.exception()  # raised here already, in one way or another
            raise
    finally:
        try:
            _end_tasks(loop, seconds())
        finally:
            loop.close()


@contextmanager
def _not_swallowed(interrupt: Callable[[BaseException], object]) -> Iterator[None]:
    """
    Hear of what a signal handler raises where Python only reports it: in callbacks of weak references.

    asyncio keeps its tasks in a set of these: with many short ones that is no rare moment.
    """
    previous = sys.unraisablehook

    def hook(unraisable: Any) -> None:
        error = unraisable.exc_value
        if error is None or isinstance(error, Exception):
            previous(unraisable)
        else:
            interrupt(error)

    sys.unraisablehook = hook
    try:
        yield
    finally:
        sys.unraisablehook = previous


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """
    End the current task with what a signal handler raises in a callback of its loop.

    asyncio only logs it there, and goes on.
    """
    loop = asyncio.get_running_loop()
    task = asyncio.current_task()
    raised: list[BaseException] = []

    def on_error(loop: asyncio.AbstractEventLoop, details: dict[str, Any]) -> None:
        error = details.get("exception")
        if task is None or error is None or isinstance(error, (Exception, asyncio.CancelledError)):
            loop.default_exception_handler(details)
            return
        raised.append(error)
        task.cancel()

    loop.set_exception_handler(on_error)
    try:
        yield
    except asyncio.CancelledError:
        if raised:
            raise raised[0] from None
        raise
    finally:
        loop.set_exception_handler(None)


def check_no_loop(instead: str) -> None:
    """
    Refuse to block an event loop.

    :param instead: what to do.
    :raises RuntimeError: if one runs in this thread.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise RuntimeError(f"an event loop is running in this thread: {instead}")


def _end_tasks(loop: asyncio.AbstractEventLoop, seconds: float) -> None:
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()
    _wait(loop, tasks, seconds)
    closing = loop.create_task(loop.shutdown_asyncgens())
    _wait(loop, {closing}, seconds)


def _wait(loop: asyncio.AbstractEventLoop, tasks: set[asyncio.Task[Any]], seconds: float) -> None:
    if not tasks:
        return
    _, unending = loop.run_until_complete(asyncio.wait(tasks, timeout=seconds))
    for task in unending:
        disown(task)
