# SPDX-License-Identifier: Apache-2.0
"""One task instance for all orders of a shop."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
from airflow.sdk import dag, task

from airflow_provider_iteration import iterate
from airflow_provider_iteration.operators.http import HttpStreamingOperator
from airflow_provider_iteration.pagination import Cursor


@asynccontextmanager
async def open_session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


@iterate(task_concurrency=16, item_retries=3, rate_limit="200/s", resources={"session": open_session})
async def enrich(order: dict[str, Any], url: str, session: aiohttp.ClientSession) -> dict[str, Any]:
    async with session.get(f"{url}/single", params={"page": order["id"]}) as response:
        response.raise_for_status()
        return {**order, "items": (await response.json())["items"]}


@task
def count(orders: Any) -> int:
    return sum(len(order["items"]) for order in orders)


@dag(schedule=None)
def iterating() -> None:
    orders = HttpStreamingOperator(
        task_id="orders",
        http_conn_id="shop",
        endpoint="cursor",
        method="GET",
        paginator=Cursor("meta.next", param="after"),
        items_path="items",
    )
    enriched = enrich.partial(url="http://{{ conn.shop.host }}:{{ conn.shop.port }}").iterate(
        order=orders.output
    )
    count(enriched)


iterating()
