# SPDX-License-Identifier: Apache-2.0
"""Every new order of a shop, read once, by a Dag that runs when there are any."""

from __future__ import annotations

from typing import Any

from airflow.sdk import Asset, AssetWatcher, dag, task

from airflow_provider_iteration.pagination import Cursor
from airflow_provider_iteration.streams import Watermark, unread
from airflow_provider_iteration.triggers.http import HttpStreamingEventTrigger

orders = Asset(
    "orders",
    watchers=[
        AssetWatcher(
            name="shop",
            trigger=HttpStreamingEventTrigger(
                http_conn_id="shop_events",
                endpoint="cursor",
                paginator=Cursor("meta.next", param="after"),
                items_path="items",
                poll_interval=5,
            ),
        )
    ],
)


@task(inlets=[orders])
def read(inlet_events: Any = None, asset_state_store: Any = None) -> list[int]:
    state = asset_state_store[orders]
    mark = Watermark.from_json(state.get("read_orders"))
    recorded = inlet_events[orders]
    if mark.after is not None:
        recorded = recorded.after(mark.after)
    events, mark = unread(recorded, mark)
    ids = [event.payload["id"] for event in events]
    # The work on the orders stands here: what fails before the watermark is kept is read again.
    state.set("read_orders", mark.to_json())
    return ids


# Runs that overlap would read the same events. A watcher runs as long as its Dag is not paused.
@dag(schedule=[orders], max_active_runs=1, is_paused_upon_creation=True)
def read_orders() -> None:
    read()


read_orders()
