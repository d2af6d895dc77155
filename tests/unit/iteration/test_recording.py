# SPDX-License-Identifier: Apache-2.0
"""Callbacks of items, beside the iteration."""

from __future__ import annotations

import asyncio
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_iteration.iteration import recording
from airflow_provider_iteration.iteration.hooks import ItemHooks, ItemOptions
from airflow_provider_iteration.iteration.outcomes import Outcome
from airflow_provider_iteration.iteration.recording import Callbacks


async def test_iteration_waits_for_callbacks_that_are_far_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory is flat, however slow they are; those of all items are called in the end."""
    monkeypatch.setattr(recording, "CALLBACKS_BEHIND", 3)
    go_on = threading.Event()
    called: list[int] = []

    def slow(context: Any) -> None:
        assert go_on.wait(10)
        called.append(context["ti"].index)

    callbacks = Callbacks(ItemHooks(ItemOptions(), None, success=[slow]))
    for index in range(3):
        callbacks.wait_for(Outcome(index, "success", 1), {"ti": SimpleNamespace(index=index)})
        callbacks.start(index)
        assert callbacks.caught_up() is None
    callbacks.wait_for(Outcome(3, "success", 1), {"ti": SimpleNamespace(index=3)})
    callbacks.start(3)
    waiting = callbacks.caught_up()
    assert waiting is not None
    go_on.set()
    await asyncio.wait_for(waiting, 10)
    assert callbacks.caught_up() is None
    callbacks.close(wait=True)
    assert sorted(called) == [0, 1, 2, 3]


async def test_callbacks_of_an_item_are_called_once() -> None:
    """Whoever says that it is committed again is not heard."""
    called: list[int] = []
    callbacks = Callbacks(
        ItemHooks(ItemOptions(), None, success=[lambda context: called.append(context["ti"].index)])
    )
    callbacks.wait_for(Outcome(0, "success", 1), {"ti": SimpleNamespace(index=0)})
    callbacks.start(0)
    callbacks.start(0)
    callbacks.close(wait=True)
    assert called == [0]
