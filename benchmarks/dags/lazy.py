# SPDX-License-Identifier: Apache-2.0
"""Dags of the benchmark of lazy XComs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Any

from airflow.sdk import dag, task
from bench_probes import SlowPagesOperator, TimerOperator, counted_reads, resident_mb

from airflow_provider_iteration import iterate, stream

PAGES = 40
PAGE_SECONDS = 1.0
WAITERS = 200
PRODUCERS = 20


@dag(schedule=None, params={"rows": 1_000_000})
def bench_generator() -> None:
    @task.stream
    def rows(count: str) -> Iterator[dict[str, Any]]:
        last = int(count) - 1
        early = 0.0
        for number in range(last + 1):
            if number == last // 20:
                early = resident_mb()
            growth = resident_mb() - early if number == last else 0.0
            yield {"id": number, "name": "n" * 30, "price": number / 4, "growth": growth}

    @task
    def growth(rows: Any) -> float:
        assert rows[-1]["id"] == len(rows) - 1
        return float(rows[-1]["growth"])

    growth(rows("{{ params.rows }}"))


@dag(schedule=None)
def bench_read() -> None:
    """17,000 results of 200 bytes, as of as many files."""

    @iterate
    async def result(number: int) -> str:
        return f"{number:0200}"

    @task
    def read(results: Any) -> list[float]:
        with counted_reads() as reads:
            began = time.monotonic()
            assert sum(len(text) for text in results) == 17_000 * 200
            return [len(reads), time.monotonic() - began]

    read(result.iterate(number=range(17_000)))


@dag(schedule=None)
def bench_read_mapped() -> None:
    """The outputs of 100 mapped instances, each read once, by a pipeline and as Airflow gives them."""

    @task
    def one(number: int) -> int:
        return number

    @task
    def read(items: Any) -> float:
        began = time.monotonic()
        assert sum(items) == sum(range(100))
        return (time.monotonic() - began) / 100

    mapped = one.expand(number=list(range(100)))
    read.override(task_id="piped")(stream(mapped).map(int))
    read.override(task_id="plain")(mapped)


@iterate(task_concurrency=1)
async def moment(page: int) -> float:
    began = time.time()
    await asyncio.sleep(PAGE_SECONDS)
    return began


def slow_pages(count: int = PAGES) -> Any:
    arguments = {"count": count, "seconds": PAGE_SECONDS}
    return SlowPagesOperator(task_id="pages", trigger_arguments=arguments).output


@task
def first(moments: Any) -> float:
    return float(moments[0])


@dag(schedule=None)
def bench_warm_up() -> None:
    """Pays for the first request of the triggerer."""
    moment.iterate(page=stream(slow_pages(1)).live())


@dag(schedule=None)
def bench_live() -> None:
    first(moment.iterate(page=stream(slow_pages()).live()))


@dag(schedule=None)
def bench_sequential() -> None:
    first(moment.iterate(page=stream(slow_pages())))


@dag(schedule=None, max_active_tasks=300)
def bench_waiters() -> None:
    """200 consumers that wait for producers which run and have nothing yet."""
    for number in range(PRODUCERS):
        arguments = {"count": 0, "seconds": 0.0, "ends": False}
        pages = SlowPagesOperator(task_id=f"pages_{number}", trigger_arguments=arguments).output
        for consumer in range(WAITERS // PRODUCERS):
            moment.override(task_id=f"waits_{number}_{consumer}").iterate(page=stream(pages).live())


@dag(schedule=None)
def bench_timer() -> None:
    TimerOperator(task_id="timer", timer_seconds=20.0)


for make in (
    bench_generator,
    bench_read,
    bench_read_mapped,
    bench_warm_up,
    bench_live,
    bench_sequential,
    bench_waiters,
    bench_timer,
):
    make()
