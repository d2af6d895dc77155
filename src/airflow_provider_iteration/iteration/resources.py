# SPDX-License-Identifier: Apache-2.0
"""Context managers that are entered once and shared by all items."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from contextvars import copy_context
from types import TracebackType
from typing import Any, TypeAlias

from airflow_provider_iteration.exceptions import ResourceFailed
from airflow_provider_iteration.iteration.threads import ThreadPool

ResourceFactory: TypeAlias = Callable[[], AbstractContextManager[Any] | AbstractAsyncContextManager[Any]]
_Exit: TypeAlias = Callable[
    [type[BaseException] | None, BaseException | None, TracebackType | None], Awaitable[Any]
]


def check_factories(factories: Mapping[str, ResourceFactory]) -> None:
    """
    Refuse what makes no context manager.

    :param factories: name → what should be callable.
    :raises TypeError: naming the first that is not.
    """
    for name, factory in factories.items():
        if not callable(factory):
            raise TypeError(
                f"resources[{name!r}]: expected a callable that makes a context manager, "
                f"got {type(factory).__name__}"
            )


class Resources:
    """
    Enters resources in order and leaves them in reverse order, whatever happens in between.

    Asynchronous context managers run in the caller's task, others in one thread and one context, both for
    entering and for leaving: some may only be used by the thread that made them. An error of the run is
    passed to all of them; none can make it disappear.

    :param factories: name → what makes the context manager; called on the event loop's thread.
    :param thread: a pool of one thread.
    """

    def __init__(self, factories: Mapping[str, ResourceFactory], thread: ThreadPool) -> None:
        self._factories = dict(factories)
        self._thread = thread
        self._context = copy_context()
        self._exits: list[tuple[str, _Exit]] = []

    async def enter(self) -> dict[str, Any]:
        """
        Enter all of them.

        :return: name → what entering gave.
        :raises ResourceFailed: if one cannot be entered; those before it have to be left all the same.
        """
        values: dict[str, Any] = {}
        for name, factory in self._factories.items():
            try:
                values[name] = await self._enter(name, factory)
            except Exception as error:
                raise ResourceFailed(name, "entered", type(error).__name__) from error
        return values

    async def exit(self, error: BaseException | None, seconds: float | None = None) -> None:
        """
        Leave those that were entered.

        :param error: what the run raises, if anything.
        :param seconds: how long each may take; None is no limit.
        :raises ResourceFailed: for the first that fails, if the run raises nothing.
        """
        details = (type(error), error, error.__traceback__) if error is not None else (None, None, None)
        failure: ResourceFailed | None = None
        while self._exits:
            name, leave = self._exits.pop()
            try:
                async with asyncio.timeout(seconds):
                    await leave(*details)
            except Exception as raised:
                failed = ResourceFailed(name, "left", type(raised).__name__)
                failed.__cause__ = raised
                failure = failure or failed
        if failure is None:
            return
        if error is None:
            raise failure
        error.add_note(str(failure))

    async def _enter(self, name: str, factory: ResourceFactory) -> Any:
        # On the loop's thread, because many asynchronous clients can only be made there.
        manager = factory()
        if isinstance(manager, AbstractAsyncContextManager):
            value = await manager.__aenter__()
            self._exits.append((name, manager.__aexit__))
            return value
        if not isinstance(manager, AbstractContextManager):
            raise TypeError(
                f"expected the factory to make a context manager, it made {type(manager).__name__}"
            )
        return await self._enter_in_thread(name, manager)

    async def _enter_in_thread(self, name: str, manager: AbstractContextManager[Any]) -> Any:
        given_up = False

        def enter() -> Any:
            value = manager.__enter__()
            if given_up:
                manager.__exit__(None, None, None)
            return value

        async def leave(*details: Any) -> None:
            await self._in_thread(lambda: manager.__exit__(*details))

        try:
            value = await self._in_thread(enter)
        except asyncio.CancelledError:
            given_up = True
            raise
        self._exits.append((name, leave))
        return value

    async def _in_thread(self, function: Callable[[], Any]) -> Any:
        try:
            return await self._thread.run_in(self._context, function)
        except asyncio.CancelledError:
            # The thread that was given up still holds the context.
            self._context = self._context.copy()
            raise
