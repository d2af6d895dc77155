# SPDX-License-Identifier: Apache-2.0
"""The demo's Dag: stream all pages of an API, then read the items lazily in a plain task."""

from __future__ import annotations

from airflow.sdk import dag, task

from airflow_provider_iteration.operators.http import HttpStreamingOperator
from airflow_provider_iteration.pagination import Cursor


@dag(schedule=None)
def orders():
    pages = HttpStreamingOperator(
        task_id="pages",
        http_conn_id="shop",
        endpoint="cursor",
        method="GET",
        paginator=Cursor("meta.next", param="after"),
        items_path="items",
    )

    @task
    def count(items):
        return sum(1 for _ in items)

    count(pages.output)


orders()
