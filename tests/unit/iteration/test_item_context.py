# SPDX-License-Identifier: Apache-2.0
"""The task instance and the state store as an item sees them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from airflow_provider_iteration.iteration.item_context import ItemStateStore, ItemTaskInstance, item_context


class Calls:
    """Takes any call, and notes it."""

    def __init__(self, **attributes: Any) -> None:
        self.made: list[tuple[Any, ...]] = []
        self.__dict__.update(attributes)

    def __getattr__(self, name: str) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            self.made.append((name, *args, *kwargs.values()))
            return returned() if name.startswith("a") else None

        async def returned() -> None: ...

        return call


def ti() -> Calls:
    return Calls(task_id="t", dag_id="d", run_id="r", map_index=-1)


def test_keys_in_the_state_store_carry_the_index() -> None:
    """A cursor that an item keeps is not that of its siblings."""
    shared = Calls()
    store = ItemStateStore(shared, 7)
    store.get("cursor", 1)
    store.set("cursor", 2, retention=timedelta(1))
    store.delete("cursor")
    assert shared.made == [
        ("get", "cursor_7", 1),
        ("set", "cursor_7", 2, timedelta(1)),
        ("delete", "cursor_7"),
    ]


def test_clear_of_the_state_store_is_refused() -> None:
    """It would wipe the siblings' keys and the checkpoint."""
    shared = Calls()
    with pytest.raises(RuntimeError, match="would clear the state of all items: delete your own keys"):
        ItemStateStore(shared, 7).clear()
    assert shared.made == []


@pytest.mark.parametrize("method", ["aget", "aset", "adelete", "aclear"])
def test_no_call_reaches_the_shared_store_unseen(method: str) -> None:
    """A method that a later Airflow adds is an error, and never a key without an index."""
    with pytest.raises(AttributeError):
        getattr(ItemStateStore(Calls(), 7), method)


async def test_pushed_keys_carry_the_index() -> None:
    """So do those of a coroutine; the same keys are noted for a later try."""
    shared = ti()
    own = ItemTaskInstance(shared, 7)
    own.xcom_push("seen", 1)
    await own.axcom_push("later", 2)
    assert shared.made == [("xcom_push", "seen_7", 1), ("axcom_push", "later_7", 2)]
    assert own.pushed == {"seen_7": 1, "later_7": 2}


@pytest.mark.parametrize(
    ("asked", "key"),
    [
        ({"key": "seen"}, "seen_7"),
        ({"task_ids": "t", "key": "seen"}, "seen_7"),
        ({"task_ids": "t", "dag_id": "d", "key": "seen"}, "seen_7"),
        ({"task_ids": "upstream"}, "return_value"),
        ({"task_ids": "upstream", "key": "seen"}, "seen"),
        ({"task_ids": "t", "dag_id": "another", "key": "seen"}, "seen"),
    ],
)
async def test_only_own_keys_are_pulled_with_the_index(asked: dict[str, str], key: str) -> None:
    """What other tasks have pushed is found as it is."""
    shared = ti()
    own = ItemTaskInstance(shared, 7)
    own.xcom_pull(**asked)
    await own.axcom_pull(**asked)
    assert [call[3] for call in shared.made] == [key, key]


def test_everything_else_is_that_of_the_task_instance() -> None:
    """An item has no task instance of its own."""
    own = ItemTaskInstance(ti(), 7)
    assert (own.task_id, own.run_id, own.map_index, own.index) == ("t", "r", -1, 7)


def test_context_of_an_item_leaves_the_one_of_the_task_alone() -> None:
    """What an item changes in it is its own affair."""
    shared = {"ti": ti(), "task_state_store": Calls(), "outlet_events": object(), "run_id": "r"}
    before = dict(shared)
    context = item_context(shared, 7)
    context["run_id"] = "another"
    assert shared == before
    assert context["ti"] is context["task_instance"]
    assert context["outlet_events"] is not shared["outlet_events"]
