# SPDX-License-Identifier: Apache-2.0
"""
Streaming against fetching by hand and against deferring for each page, on PostgreSQL.

The workload is 30 pages of 1,000 items of about 100 bytes. The first run of a deployment also pays for
imports in each of its processes; it is made beforehand and is not measured.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

import aiohttp

from benchmarks import HERE, publish
from harness.api import ApiSettings, PagedApi
from harness.deployment import Deployment
from harness.inspection import WORKER_START

PAGES, ITEMS = 30, 1000
LONG_PAGES, LONG_ITEMS = 1001, 100
SHORT = ApiSettings(pages=PAGES, items=ITEMS)


def main() -> None:
    with (
        PagedApi(SHORT) as api,
        Deployment([HERE / "dags"], database="postgresql", python_path=[HERE / "lib"]) as airflow,
    ):
        airflow.connect("bench", api.url)
        airflow.run("bench_stream")
        fetched = fetch_by_hand(api)
        figures: dict[str, Any] = {
            "pages": PAGES,
            "items": PAGES * ITEMS,
            **measure_stream(airflow),
            **fetched,
            **measure_lag(airflow),
            **measure_memory(airflow),
            **measure_hops(airflow),
        }
    publish("streaming", figures)


def fetch_by_hand(api: PagedApi) -> dict[str, float]:
    """Fetch the same pages in a bare loop."""
    began = time.monotonic()
    size = asyncio.run(_fetch(api.url))
    return {"fetch_loop_s": round(time.monotonic() - began, 3), "payload_bytes": size}


async def _fetch(url: str) -> int:
    size = 0
    token: str | None = ""
    async with aiohttp.ClientSession() as session:
        while token is not None:
            async with session.get(f"{url}/cursor", params={"after": token}) as response:
                size += len(await response.read())
                token = (await response.json())["meta"]["next"]
    return size


def measure_stream(airflow: Deployment) -> dict[str, Any]:
    """Measure the streaming task from its start to its end."""
    run = airflow.run("bench_stream")
    assert airflow.inspect.xcom("bench_stream", run, "read") == PAGES * ITEMS
    counts = airflow.counts("bench_stream", run, "pages")
    return {
        "wall_s": airflow.task("bench_stream", run, "pages").seconds,
        "worker_starts": counts.worker_starts,
        "xcom_rows": counts.xcom_rows,
        "xcom_bytes": counts.xcom_bytes,
    }


def measure_lag(airflow: Deployment) -> dict[str, float]:
    """Measure how late a short timer is in the triggerer while it streams."""
    run = airflow.run("bench_lag")
    lag = airflow.inspect.xcom("bench_lag", run, "lag")
    return {"loop_lag_p99_ms": round(lag["p99_ms"], 1), "loop_lag_max_ms": round(lag["max_ms"], 1)}


def measure_memory(airflow: Deployment) -> dict[str, float]:
    """Measure how much a reader grows between its 100th and its 1,000th page."""
    with PagedApi(ApiSettings(pages=LONG_PAGES, items=LONG_ITEMS)) as api:
        airflow.connect("bench", api.url)
        run = airflow.run("bench_memory", seconds=300)
    early, late = airflow.inspect.xcom("bench_memory", run, "read")
    return {"rss_growth_mb": round(late - early, 2)}


def measure_hops(airflow: Deployment) -> dict[str, Any]:
    """Measure an operator that defers for each page; the scheduler may lose it on the way."""
    with PagedApi(SHORT) as api:
        airflow.connect("bench", api.url)
        run = airflow.trigger("bench_hops")
        state = airflow.wait("bench_hops", run, 900)
        done = len(api.requests)
    task = airflow.task("bench_hops", run, "hops")
    starts = airflow.inspect.task_log("bench_hops", run, "hops").count(WORKER_START)
    return {
        "hop_page_s": round((task.seconds or 0.0) / max(done, 1), 3),
        "hop_pages_done": done,
        "hop_state": state,
        "hop_worker_starts": starts,
    }


if __name__ == "__main__":
    main()
