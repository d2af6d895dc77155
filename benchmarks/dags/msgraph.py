# SPDX-License-Identifier: Apache-2.0
"""Dags of the Microsoft Graph benchmark."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from airflow.providers.microsoft.azure.operators.msgraph import MSGraphAsyncOperator
from airflow.sdk import dag, task

from airflow_provider_iteration.operators.msgraph import MSGraphStreamingOperator


@task
def digest(pages: Any) -> str:
    """Return a digest of all pages."""
    return hashlib.sha256(json.dumps(list(pages), sort_keys=True).encode()).hexdigest()


@dag(schedule=None)
def bench_graph_ours() -> None:
    digest(MSGraphStreamingOperator(task_id="pages", conn_id="bench_graph", url="users").output)


@dag(schedule=None)
def bench_graph_stock() -> None:
    digest(MSGraphAsyncOperator(task_id="pages", conn_id="bench_graph", url="users").output)


for make in (bench_graph_ours, bench_graph_stock):
    make()
