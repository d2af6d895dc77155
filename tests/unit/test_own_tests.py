# SPDX-License-Identifier: Apache-2.0
"""The tests that the documentation shows for a user's own triggers and functions."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from typing import Any

import pytest
from orders_trigger import OrdersTrigger

from airflow_provider_iteration import _compat, iterate
from airflow_provider_iteration.streams import Page
from airflow_provider_iteration.testing import AssetState, run_interrupted, run_trigger, run_twice, watch
from airflow_provider_iteration.triggers.events import StreamingEventTrigger
from harness.api import ApiSettings, PagedApi


class OrdersWatcher(StreamingEventTrigger):
    """Makes an event of each order."""

    def arguments(self) -> dict[str, Any]:
        return {}

    async def pages(self, cursor: Any) -> AsyncGenerator[Page, None]:
        for number in range(cursor or 0, 3):
            yield Page([f"order {number}-{item}" for item in range(5)], cursor=number + 1, many=True)


@iterate
def enrich(order: dict[str, Any]) -> dict[str, Any]:
    return {**order, "total": 0}


@pytest.fixture
def url(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A shop with 120 orders on 12 pages."""
    monkeypatch.setattr(_compat, "has_task_listeners", lambda: False)
    with PagedApi(ApiSettings(pages=12, items=10)) as api:
        yield f"{api.url}/cursor"


# [triggers]
async def test_all_pages_are_there_at_the_first_event(url: str) -> None:
    run = await run_trigger(OrdersTrigger(url=url))
    assert len(run.elements) == 120


async def test_second_delivery_is_recognised(url: str) -> None:
    run = await run_twice(OrdersTrigger(url=url))
    assert run.duplicates == run.pages


async def test_killed_trigger_goes_on(url: str) -> None:
    left = await run_interrupted(OrdersTrigger(url=url), after_pages=7)
    assert left.committed + left.repeated == 7


# [watchers]
async def test_watcher_goes_on_where_it_was() -> None:
    state = AssetState()
    lost = await watch(OrdersWatcher(), events=5, state=state, confirm=False)
    assert await watch(OrdersWatcher(), events=5, state=state) == lost


# [functions]
def test_enrich() -> None:
    assert enrich.function({"id": 1}) == {"id": 1, "total": 0}
