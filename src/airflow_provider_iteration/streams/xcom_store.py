# SPDX-License-Identifier: Apache-2.0
"""Keeps the rows of a stream in the XComs of one task instance."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, Self

from airflow_provider_iteration import _compat
from airflow_provider_iteration.exceptions import StoreTimeout

THREADS = 4


class XComPlace(NamedTuple):
    """The task instance whose XComs are meant."""

    dag_id: str
    task_id: str
    run_id: str
    map_index: int = -1

    @classmethod
    def of(cls, ti: Any) -> XComPlace:
        """
        Return the place of a task instance.

        :param ti: the task instance, as it is in a context.
        """
        return cls(ti.dag_id, ti.task_id, ti.run_id, -1 if ti.map_index is None else ti.map_index)

    def __str__(self) -> str:
        index = "" if self.map_index < 0 else f"[{self.map_index}]"
        return f"{self.dag_id}.{self.task_id}{index} in run {self.run_id}"


class XComStore:
    """
    A :class:`~.store.RowStore` over XComs.

    Messages go through the configured XCom backend, whose code may block, hence in threads. They have
    threads of their own: those of the event loop belong to everyone's triggers.

    :param place: the task instance.
    :param timeout: seconds to wait for the answer to one message. Airflow does not answer some messages
        at all; without a bound the task would stay deferred for ever.
    """

    def __init__(self, place: XComPlace, timeout: float) -> None:
        self._place = place
        self._timeout = timeout

    @classmethod
    def of(cls, place: XComPlace) -> Self:
        """Return the store at a place, with the configured timeout."""
        return cls(place, _compat.message_timeout())

    async def get(self, key: str) -> Any:
        """Return the row, or None."""
        return await self._call("read", key, _compat.read_xcom)

    async def set(self, key: str, row: Any) -> None:
        """Write the row."""
        await self._call("write", key, _compat.write_xcom, row)

    async def delete(self, key: str) -> None:
        """Delete the row."""
        await self._call("deletion", key, _compat.delete_xcom)

    async def _call(self, action: str, key: str, function: Callable[..., Any], *args: Any) -> Any:
        place = self._place._asdict()
        return await ask(action, key, self._timeout, lambda: function(*args, key=key, **place))


async def ask(action: str, key: str, seconds: float, message: Callable[[], Any]) -> Any:
    """
    Send a message to the supervisor from a thread, and wait for its answer for so long.

    :param action: what is asked for, for the error.
    :param key: key of the row that it is about, for the error.
    :param seconds: how long to wait.
    :param message: sends it, and returns the answer; may block.
    :raises StoreTimeout: if no answer came in time.
    """
    call = asyncio.get_running_loop().run_in_executor(_pool(), message)
    try:
        async with asyncio.timeout(seconds):
            return await call
    except TimeoutError:
        _abandon_pool()
        raise StoreTimeout(action, key, seconds) from None


_executor: ThreadPoolExecutor | None = None


def _pool() -> ThreadPoolExecutor:
    global _executor
    if _executor is None:
        _executor = ThreadPoolExecutor(THREADS, thread_name_prefix="stream-xcom")
    return _executor


def _abandon_pool() -> None:
    """Leave the threads that wait for an answer to themselves, lest others queue behind them."""
    global _executor
    if _executor is not None:
        _executor.shutdown(wait=False)
        _executor = None
