# SPDX-License-Identifier: Apache-2.0
"""A live pipeline that is tried out in one process."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from airflow.sdk import dag, task

from airflow_provider_iteration import stream
from airflow_provider_iteration.decorators.iterate import iterate
from airflow_provider_iteration.testing import in_order


@task.stream
def numbers(count: int) -> Iterator[int]:
    yield from range(count)


@iterate
def square(x: int) -> int:
    return x * x


@iterate
def negative(x: int) -> int:
    return -x


@task
def total(items: Any) -> int:
    return sum(items)


@task(trigger_rule="always")
def last(items: Any) -> int:
    return int(list(items)[-1])


# [dag]
@dag(schedule=None)
def in_one_process() -> None:
    rows = numbers(100)
    squares = square.iterate(x=stream(rows).filter(bool).live())
    total(negative.iterate(x=stream(squares).live()))
    last(stream(squares).live())


made = in_one_process()

if __name__ == "__main__":
    in_order(made).test()
