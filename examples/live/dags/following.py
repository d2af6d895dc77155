# SPDX-License-Identifier: Apache-2.0
"""Orders that are enriched and loaded while their later pages are still being fetched."""

from __future__ import annotations

from typing import Any

from airflow.sdk import dag, task

from airflow_provider_iteration import stream
from airflow_provider_iteration.operators.http import HttpStreamingOperator
from airflow_provider_iteration.pagination import Cursor


def is_open(order: dict[str, Any]) -> bool:
    return order["id"] % 2 == 0


@task
def total(lengths: Any) -> int:
    return sum(lengths)


# [pipeline]
@task.iterate(task_concurrency=8)
def enrich(order: dict[str, Any]) -> dict[str, Any]:
    return {**order, "label": f"order {order['id']}"}


@task.iterate(task_concurrency=8)
def load(row: dict[str, Any]) -> int:
    return len(row["label"])


@dag(schedule=None)
def following() -> None:
    orders = HttpStreamingOperator(
        task_id="orders",
        http_conn_id="shop",
        endpoint="cursor",
        method="GET",
        paginator=Cursor("meta.next", param="after"),
        items_path="items",
    )
    enriched = enrich.iterate(order=stream(orders.output).filter(is_open).live())
    lengths = load.iterate(row=stream(enriched).live())
    # [count]
    total(lengths)
    count(stream(orders.output).live())


# [plain]
@task(trigger_rule="always")
def count(orders: Any) -> int:
    return sum(1 for _ in orders)


# [end]
following()
