# SPDX-License-Identifier: Apache-2.0
"""Dags of the iteration benchmark: each measure has an iteration and what one would write by hand."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
from airflow.providers.http.operators.http import HttpOperator
from airflow.sdk import dag, task
from bench_probes import resident_mb

from airflow_provider_iteration import iterate
from airflow_provider_iteration.operators.http import HttpStreamingOperator
from airflow_provider_iteration.pagination import Cursor

CONCURRENCY = 16


@asynccontextmanager
async def open_session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        yield session


async def fetch(session: aiohttp.ClientSession, url: str, x: int) -> int:
    async with session.get(f"{url}/single", params={"page": x}) as response:
        return int((await response.json())["items"][0]["id"])


async def gather(work: Any, count: int, concurrency: int) -> list[int]:
    gate = asyncio.Semaphore(concurrency)

    async def one(x: int) -> int:
        async with gate:
            return int(await work(x))

    return list(await asyncio.gather(*(one(x) for x in range(count))))


@dag(schedule=None, params={"count": 10_000})
def bench_noop() -> None:
    @task
    def numbers(params: dict[str, Any] | None = None) -> list[int]:
        assert params is not None
        return list(range(params["count"]))

    @iterate
    async def iterated(x: int) -> int:
        return x

    @task
    def gathered(params: dict[str, Any] | None = None) -> list[int]:
        assert params is not None

        async def noop(x: int) -> int:
            return x

        return asyncio.run(gather(noop, params["count"], CONCURRENCY))

    # One after the other: they would compete for the machine.
    iterated.iterate(x=numbers()) >> gathered()


@dag(schedule=None, max_active_tasks=16)
def bench_expand() -> None:
    @task
    def expanded(x: int) -> int:
        return x

    @iterate
    def iterated(x: int) -> int:
        return x

    iterated.iterate(x=list(range(100))) >> expanded.expand(x=list(range(100)))


@dag(schedule=None, params={"url": "", "concurrency": 16})
def bench_http() -> None:
    def make(concurrency: int) -> None:
        @iterate(task_concurrency=concurrency, resources={"session": open_session})
        async def iterated(x: int, url: str, session: aiohttp.ClientSession) -> int:
            return await fetch(session, url, x)

        @task
        def by_hand(url: str) -> list[int]:
            async def run() -> list[int]:
                async with open_session() as session:
                    return await gather(lambda x: fetch(session, url, x), 500, concurrency)

            return asyncio.run(run())

        url = "{{ params.url }}"
        one = (
            iterated.override(task_id=f"iterated_{concurrency}").partial(url=url).iterate(x=list(range(500)))
        )
        one >> by_hand.override(task_id=f"by_hand_{concurrency}")(url)

    make(16)
    make(64)


@dag(schedule=None)
def bench_stream_in() -> None:
    pages = HttpStreamingOperator(
        task_id="pages",
        http_conn_id="bench",
        endpoint="cursor",
        method="GET",
        paginator=Cursor("meta.next", "after"),
        items_path="items",
    )
    marks: dict[int, float] = {}

    @iterate
    async def items(item: dict[str, Any], ti: Any) -> float | None:
        if ti.index in (10_000, 99_000):
            marks[ti.index] = resident_mb()
        return marks[99_000] - marks[10_000] if ti.index == 99_999 else None

    @task
    def growth(results: Any) -> float:
        return float(results[-1])

    growth(items.override(task_concurrency=1).iterate(item=pages.output))


class Silent(HttpOperator):
    """An HTTP operator without a network."""

    def execute(self, context: Any) -> None:
        return None


@dag(schedule=None)
def bench_operators() -> None:
    iterate(
        Silent.partial(task_id="operators", http_conn_id="bench", method="GET", headers={"a": "b"}),
        task_concurrency=16,
    ).iterate(endpoint=[f"orders/{number}" for number in range(5000)])

    @task
    def floor(ti: Any = None, task_state_store: Any = None) -> None:
        for number in range(200):
            ti.xcom_push(f"return_value_{number}", number)
            task_state_store.set(f"_iterable_{number}", {"state": "success"})

    floor()


bench_noop()
bench_stream_in()
bench_operators()
bench_expand()
bench_http()
