# SPDX-License-Identifier: Apache-2.0
"""Dags that page through Microsoft Graph. All of them use the connection ``graph``."""

from __future__ import annotations

from typing import Any

from airflow.sdk import dag, task

from airflow_provider_iteration.operators.msgraph import MSGraphStreamingOperator


@task
def ids(items: Any) -> list[str]:
    """Return the ids of what was streamed, what was removed with a minus."""
    return [f"-{item['id']}" if "@removed" in item else item["id"] for item in items]


@task
def lengths(pages: Any) -> list[int]:
    return [len(str(page)) for page in pages]


@task
def may_fail(dag_run: Any = None) -> None:
    assert not dag_run.conf.get("fail"), "failed, as asked for"


def users(task_id: str, **arguments: Any) -> MSGraphStreamingOperator:
    defaults = {"conn_id": "graph", "url": "users", "items_path": "value"}
    return MSGraphStreamingOperator(task_id=task_id, **{**defaults, **arguments})


@dag(schedule=None)
def graph_pages() -> None:
    ids(users("pages", headers={"X-Run": "{{ run_id }}"}).output)


@dag(schedule=None)
def graph_worker() -> None:
    ids(users("pages", result_processor=lambda page, **context: page).output)


@dag(schedule=None)
def graph_delta() -> None:
    users("changes", url="users/delta", delta=True) >> may_fail()


@dag(schedule=None)
def graph_mapped() -> None:
    members = MSGraphStreamingOperator.partial(task_id="members", conn_id="graph", items_path="value")
    ids.expand(items=members.expand(url=[f"groups/g{number}/members" for number in range(3)]).output)


@dag(schedule=None)
def graph_large() -> None:
    lengths(users("pages", items_path=None).output)


for make in (graph_pages, graph_worker, graph_delta, graph_mapped, graph_large):
    make()
