# SPDX-License-Identifier: Apache-2.0
"""Dags of pipelines and generator tasks."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from typing import Any

import psutil
from airflow.sdk import dag, get_current_context, task
from stream_probes import CountingTrigger, leave_evidence

from airflow_provider_iteration import iterate, stream
from airflow_provider_iteration.operators.streaming import StreamingOperator

FULL = bool(os.environ.get("FULL"))
ROWS = 1_000_000 if FULL else 100_000
LISTS = 100 if FULL else 10


class CountOperator(StreamingOperator):
    """Streams numbers from its trigger."""

    def __init__(self, *, count: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.count = count

    def make_trigger(self, context: Any) -> CountingTrigger:
        return CountingTrigger(count=self.count)


def is_odd(number: int) -> bool:
    return number % 2 == 1


def double(number: int) -> int:
    return 2 * number


@task
def summed(rows: Any) -> list[Any]:
    """Return what kind of value came, and what is in it."""
    items = list(rows)
    return [type(rows).__name__, len(items), sum(items)]


@dag(schedule=None)
def pipelines() -> None:
    numbers = CountOperator(task_id="numbers", count=1000).output
    odd = stream(numbers).filter(is_odd).map(double)
    summed.override(task_id="plain")(odd)

    @task
    def nested(rows: dict[str, Any]) -> list[Any]:
        return [sum(rows["inner"][0]), len(rows["inner"][0])]

    nested({"inner": [stream(numbers).map(double)]})

    @iterate
    async def total(batch: list[int]) -> int:
        return sum(batch)

    totals = total.iterate(batch=odd.batched(100))
    summed.override(task_id="iterated")(totals)
    summed.override(task_id="joined")(stream(totals).concat(stream(numbers).batched(500).map(sum)))

    @task
    def fails_in_a_step(rows: Any) -> None:
        list(rows)

    fails_in_a_step(stream(numbers).map(lambda number: 1 // (number - 7)))


@dag(schedule=None)
def mapped_lists() -> None:
    """X6: each of many mapped instances leaves a list of 1,000 numbers."""

    @task
    def numbers(start: int) -> list[int]:
        return list(range(start, start + 1000))

    lists = numbers.expand(start=list(range(0, 1000 * LISTS, 1000)))
    summed.override(task_id="flattened")(stream(lists).flatten())
    summed.override(task_id="lengths")(stream(lists).map(len))


@dag(schedule=None)
def generated() -> None:
    @task.stream
    def rows(count: int = ROWS) -> Iterator[dict[str, Any]]:
        assert get_current_context()["ti"].task_id == "rows"
        process = psutil.Process()
        early = 0
        for number in range(count):
            if number == count // 20:
                early = process.memory_info().rss
            grown = process.memory_info().rss - early if number == count - 1 else 0
            yield {"id": number, "name": "x" * 20, "grown": grown}

    @task
    def read(rows: Any) -> list[Any]:
        numbers = sum(row["id"] for row in rows)
        return [len(rows), numbers, rows[-1]["grown"] / 1e6]

    read(rows())

    @task.stream
    async def few(count: int) -> AsyncIterator[int]:
        for number in range(count):
            yield number

    @task
    def one(number: int) -> int:
        return number

    one.expand(number=few.override(task_id="three")(3))
    one.override(task_id="none").expand(number=few.override(task_id="empty")(0))
    summed(stream(few.override(task_id="mapped_few").expand(count=[1, 2, 3])).flatten())


@dag(schedule=None)
def generated_badly() -> None:
    @task
    def one(number: int) -> int:
        return number

    @task.stream
    def too_many() -> Iterator[int]:
        for number in range(100_000):
            yield number
            time.sleep(0 if number < 1100 else 1)

    one.override(task_id="over_too_many").expand(number=too_many())
    too_long = CountOperator(task_id="too_long", count=20_000, max_uncommitted_pages=5000)
    one.override(task_id="over_too_long").expand(number=too_long.output)

    @iterate
    def same(number: int) -> int:
        return number

    one.override(task_id="over_results").expand(
        number=same.override(task_id="too_many_results").iterate(number=list(range(5000)))
    )

    @task.stream(execution_timeout=timedelta(seconds=3))
    def late() -> Iterator[int]:
        try:
            yield 1
            time.sleep(60)
        finally:
            leave_evidence("late-closed")

    late()

    @task.stream(retries=1, retry_delay=timedelta(seconds=1))
    def half_way() -> Iterator[str]:
        ti: Any = get_current_context()["ti"]
        yield from ("x" * 100 for _ in range(20_000))
        if ti.try_number == 1:
            raise ValueError("half-way")

    @task(trigger_rule="all_done")
    def count(rows: Any) -> int:
        return len(rows)

    count(half_way())


@dag(schedule=None)
def killed_generator() -> None:
    @task.stream
    def endless() -> Iterator[int]:
        try:
            for number in range(10_000):
                yield number
                leave_evidence("endless-began")
                time.sleep(0.1)
        finally:
            leave_evidence("endless-closed")

    endless()


for make in (pipelines, mapped_lists, generated, generated_badly, killed_generator):
    make()
