# SPDX-License-Identifier: Apache-2.0
"""The context of the item that is being worked on, wherever in the process it is asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from typing import Any

import structlog

from airflow_provider_iteration import _compat

_current: ContextVar[Mapping[str, Any]] = ContextVar("iteration_context")

RETURN_VALUE = "return_value"


class RoutedContext(Mapping[str, Any]):
    """
    What ``get_current_context()`` gives while items run: the context of the item that asks.

    Airflow keeps its current context in one place for the whole process. A coroutine, a thread of the
    iteration and ``asyncio.to_thread`` carry their item's context with them; a bare thread does not, and
    gets an error rather than another item's context.
    """

    def __getitem__(self, name: str) -> Any:
        return _here()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(_here())

    def __len__(self) -> int:
        return len(_here())

    def __eq__(self, other: object) -> bool:
        return self is other

    __hash__ = object.__hash__


def set_current(context: Mapping[str, Any]) -> None:
    """Make a context the one of the running coroutine or thread, and of what it starts."""
    _current.set(context)
    if (index := getattr(context["ti"], "index", None)) is not None:
        structlog.contextvars.bind_contextvars(item=index)


def item_context(parent: Mapping[str, Any], index: int) -> dict[str, Any]:
    """
    Make the context of one item.

    :param parent: context of the task.
    :param index: place of the item in the input.
    """
    context = dict(parent)
    context["ti"] = context["task_instance"] = ItemTaskInstance(parent["ti"], index)
    if "task_state_store" in parent:
        context["task_state_store"] = ItemStateStore(parent["task_state_store"], index)
    if "outlet_events" in parent:
        context["outlet_events"] = _compat.new_outlet_events()
    return context


class ItemTaskInstance:
    """
    The task instance as one item sees it: what it pushes carries its index.

    :param ti: the task instance that all items share.
    :param index: place of the item in the input.
    :ivar pushed: what the item has pushed, by its whole key.
    """

    def __init__(self, ti: Any, index: int) -> None:
        self._ti = ti
        self.index = index
        self.pushed: dict[str, Any] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ti, name)

    def __repr__(self) -> str:
        return f"{self._ti!r} item {self.index}"

    def xcom_push(self, key: str, value: Any) -> None:
        """Push under the key with the item's index: ``<key>_<index>``."""
        self._ti.xcom_push(self._own(key), value)
        self.pushed[self._own(key)] = value

    async def axcom_push(self, key: str, value: Any) -> None:
        """Push under the key with the item's index, without blocking the event loop."""
        await self._ti.axcom_push(self._own(key), value)
        self.pushed[self._own(key)] = value

    def push_result(self, value: Any) -> None:
        """Push the item's result, which is kept elsewhere too, under its own key."""
        self._ti.xcom_push(self._own(RETURN_VALUE), value)

    def xcom_pull(
        self, task_ids: Any = None, dag_id: Any = None, key: str = RETURN_VALUE, **more: Any
    ) -> Any:
        """Pull; a key of the task itself is the item's own one."""
        return self._ti.xcom_pull(task_ids, dag_id, self._pulled(task_ids, dag_id, key), **more)

    async def axcom_pull(
        self, task_ids: Any = None, dag_id: Any = None, key: str = RETURN_VALUE, **more: Any
    ) -> Any:
        """Pull without blocking the event loop; a key of the task itself is the item's own one."""
        return await self._ti.axcom_pull(task_ids, dag_id, self._pulled(task_ids, dag_id, key), **more)

    def _own(self, key: str) -> str:
        return f"{key}_{self.index}"

    def _pulled(self, task_ids: Any, dag_id: Any, key: str) -> str:
        is_own = task_ids in (None, self._ti.task_id) and dag_id in (None, self._ti.dag_id)
        return self._own(key) if is_own else key


class ItemStateStore:
    """
    The task's state store as one item sees it: its keys carry the index.

    :param store: the store that all items share.
    :param index: place of the item in the input.
    """

    def __init__(self, store: Any, index: int) -> None:
        self._store = store
        self._index = index

    def get(self, key: str, default: Any = None) -> Any:
        """Return the item's own value of a key."""
        return self._store.get(self._own(key), default)

    def set(self, key: str, value: Any, **more: Any) -> None:
        """Set the item's own value of a key."""
        self._store.set(self._own(key), value, **more)

    def delete(self, key: str) -> None:
        """Delete the item's own value of a key."""
        self._store.delete(self._own(key))

    def clear(self) -> None:
        """Refuse: the keys of the other items and of the iteration are in the same store."""
        raise RuntimeError(
            "task_state_store.clear() inside an item would clear the state of all items: delete your own keys"
        )

    def _own(self, key: str) -> str:
        return f"{key}_{self._index}"


def _here() -> Mapping[str, Any]:
    try:
        return _current.get()
    except LookupError:
        raise RuntimeError(
            "no item is worked on in this thread: start it with asyncio.to_thread, or run its function with "
            "contextvars.copy_context().run"
        ) from None
