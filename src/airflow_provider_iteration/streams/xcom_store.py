# SPDX-License-Identifier: Apache-2.0
"""Keeps the rows of a stream in the XComs of one task instance."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Self

from airflow_provider_iteration import _compat
from airflow_provider_iteration.streams.messages import ask


class XComPlace(NamedTuple):
    """The task instance whose XComs are meant."""

    dag_id: str
    task_id: str
    run_id: str
    map_index: int = -1

    @classmethod
    def of(cls, instance: Any) -> Self:
        """Return the place of a task instance, as workers and triggers know it."""
        index = -1 if instance.map_index is None else instance.map_index
        return cls(instance.dag_id, instance.task_id, instance.run_id, index)

    def __str__(self) -> str:
        index = "" if self.map_index < 0 else f"[{self.map_index}]"
        return f"{self.dag_id}.{self.task_id}{index} in run {self.run_id}"


class XComStore:
    """
    A :class:`~.store.RowStore` over XComs.

    Messages go through the configured XCom backend, whose code may block, hence in threads.

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
        return cls(place, _compat.config_float("message_timeout", 60.0))

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
        return await ask(
            lambda: function(*args, key=key, **self._place._asdict()),
            action=action,
            what=f"XCom {key!r}",
            timeout=self._timeout,
        )
