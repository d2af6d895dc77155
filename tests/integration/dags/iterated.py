# SPDX-License-Identifier: Apache-2.0
"""Dags that iterate."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
from airflow.providers.http.operators.http import HttpOperator
from airflow.sdk import Asset, dag, get_current_context, task, task_group
from airflow.sdk.exceptions import AirflowSkipException
from stream_probes import leave_evidence

from airflow_provider_iteration.decorators.iterate import iterate
from airflow_provider_iteration.operators.http import HttpStreamingOperator
from airflow_provider_iteration.pagination import Cursor


@asynccontextmanager
async def open_session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


def called_back(context: Any) -> None:
    leave_evidence(f"item-{context['ti'].index}")


@task
def numbers(count: int = 20_000) -> list[int]:
    return list(range(count))


@task
def total(results: Any) -> list[int]:
    return [len(results), sum(results)]


@iterate
async def double(x: int) -> int:
    return 2 * x


@iterate
def push(x: int) -> int:
    ti: Any = get_current_context()["ti"]
    ti.xcom_push("mine", x)
    assert ti.xcom_pull(key="mine") == x
    return int(x)


@dag(schedule=None)
def iterated() -> None:
    doubled = double.iterate(x=numbers())
    total(doubled)
    total.override(task_id="total_chained")(double.override(task_id="chained").iterate(x=doubled))
    total.override(task_id="total_pushed")(push.iterate(x=[7, 8, 9]))

    @task
    def one(x: int) -> int:
        return x

    mapped = one.expand(x=list(range(3)))
    total.override(task_id="total_mapped")(double.override(task_id="double_mapped").iterate(x=mapped))
    one.override(task_id="expanded").expand(x=double.override(task_id="two").iterate(x=[1, 2]))

    @task
    def shown(text: str) -> str:
        return text

    shown("{{ ti.xcom_pull('double') }}").set_upstream(doubled)

    @iterate
    def odd(x: int) -> int:
        if x % 2 == 0:
            raise AirflowSkipException
        return x

    @iterate(
        on_success_callback=called_back,
        xcom_layout="indexed",
        item_label="number {{ x }}",
        outlets=[Asset("iterated_asset")],
    )
    async def on_the_loop(x: int, outlet_events: Any = None) -> int:
        # A sync call of Airflow's on the event loop.
        ti: Any = get_current_context()["ti"]
        ti.xcom_push("loop", x)
        outlet_events[Asset("iterated_asset")].extra = {"last": x}
        return x

    on_the_loop.iterate(x=list(range(8)))

    @task_group
    def group(n: list[int]) -> None:
        double.override(task_id="in_group").iterate(x=n)

    group.expand(n=[[1, 2], [10]])

    some = odd.iterate(x=list(range(6)))
    total.override(task_id="total_skipped")(some)
    total.override(task_id="total_anyway", trigger_rule="none_failed")(some)


@dag(schedule=None)
def iterated_http() -> None:
    pages = HttpStreamingOperator(
        task_id="pages",
        http_conn_id="iterated_http",
        endpoint="cursor",
        method="GET",
        paginator=Cursor("meta.next", "after"),
        items_path="items",
    )

    @iterate(task_concurrency=8, resources={"session": open_session})
    async def fetch(item: dict[str, Any], url: str, session: aiohttp.ClientSession) -> int:
        async with session.get(f"{url}/single", params={"page": item["id"]}) as response:
            return int((await response.json())["items"][0]["id"])

    total(
        fetch.partial(url="http://{{ conn.iterated_http.host }}:{{ conn.iterated_http.port }}").iterate(
            item=pages.output
        )
    )
    stock = iterate(
        HttpOperator.partial(
            task_id="stock",
            http_conn_id="iterated_http",
            method="GET",
            response_filter=lambda r: r.json()["items"][0]["id"],
        )
    ).iterate(endpoint=[f"single?page={page}" for page in range(5)])
    total.override(task_id="total_stock")(stock.output)
    deferred = iterate(
        HttpOperator.partial(
            task_id="deferred",
            http_conn_id="iterated_http",
            method="GET",
            deferrable=True,
            response_filter=lambda r: r.json()["items"][0]["id"],
        )
    ).iterate(endpoint=[f"single?page={page}" for page in range(5)])
    total.override(task_id="total_deferred")(deferred.output)


iterated()
iterated_http()
