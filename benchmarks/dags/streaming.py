# SPDX-License-Identifier: Apache-2.0
"""Dags of the streaming benchmark."""

from __future__ import annotations

from typing import Any

from airflow.sdk import dag, task
from bench_probes import HopOperator, LagOperator, resident_mb

from airflow_provider_iteration.operators.http import HttpStreamingOperator
from airflow_provider_iteration.pagination import Cursor


def pages(task_id: str = "pages") -> HttpStreamingOperator:
    return HttpStreamingOperator(
        task_id=task_id,
        http_conn_id="bench",
        endpoint="cursor",
        method="GET",
        paginator=Cursor("meta.next", "after"),
        items_path="items",
    )


@dag(schedule=None)
def bench_stream() -> None:
    @task
    def read(items: Any) -> int:
        return sum(1 for _ in items)

    read(pages().output)


@dag(schedule=None)
def bench_lag() -> None:
    """The loop's lag is measured while the stream runs."""
    LagOperator(task_id="lag", seconds=15.0)
    pages()


@dag(schedule=None)
def bench_memory() -> None:
    """How much a reader grows over a long stream."""

    @task
    def read(items: Any) -> list[float]:
        at: list[float] = []
        for number, _ in enumerate(items):
            if number in (100 * 100, 1000 * 100 - 1):
                at.append(resident_mb())
        return at

    read(pages().output)


@dag(schedule=None)
def bench_hops() -> None:
    HopOperator(task_id="hops", pages=30)


for make in (bench_stream, bench_lag, bench_memory, bench_hops):
    make()
