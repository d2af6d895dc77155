# SPDX-License-Identifier: Apache-2.0
"""Dags of the iteration benchmark: each measure has an iteration and what one would write by hand."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
from airflow.sdk import dag, task

from airflow_provider_iteration.decorators.iterate import iterate

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


bench_noop()
bench_expand()
bench_http()
