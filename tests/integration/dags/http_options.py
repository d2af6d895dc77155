# SPDX-License-Identifier: Apache-2.0
"""Callables, rates and retries of the HTTP operator."""

from __future__ import annotations

import json
from typing import Any

import requests
from airflow.sdk import dag, task

from airflow_provider_iteration.operators.http import HttpStreamingOperator
from airflow_provider_iteration.pagination import Cursor


@task
def everything(items: Any) -> str:
    return json.dumps(list(items))


def next_page(response: requests.Response) -> dict[str, Any] | None:
    token = response.json()["meta"]["next"]
    return {"data": {"after": token}} if token else None


def orders(task_id: str, **arguments: Any) -> None:
    pages = HttpStreamingOperator(
        task_id=task_id, http_conn_id="http_options", endpoint="cursor", method="GET", **arguments
    )
    everything.override(task_id=f"{task_id}_read")(pages.output)


@dag(schedule=None)
def http_options() -> None:
    cursor = Cursor("meta.next", "after")
    orders("imported", paginator=cursor, response_filter="stream_probes.ids")
    orders(
        "imported_paging", pagination_function="stream_probes.next_page", response_filter="stream_probes.ids"
    )
    orders(
        "function",
        paginator=cursor,
        response_filter=lambda response: [i["id"] for i in response.json()["items"]],
    )
    orders("function_paging", pagination_function=next_page, response_filter="stream_probes.ids")
    orders(
        "own_paginator", paginator={"type": "stream_probes.TokenInBody"}, response_filter="stream_probes.ids"
    )
    orders("limited", paginator=cursor, response_filter="stream_probes.ids", rate_limit="10/s")
    HttpStreamingOperator(
        task_id="refused",
        http_conn_id="http_options",
        endpoint="cursor",
        method="GET",
        response_check="stream_probes.is_never_good",
    )


http_options()
