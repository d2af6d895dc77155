# SPDX-License-Identifier: Apache-2.0
"""Dags for a deployment that has the XCom backend configured. They know nothing of it."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any

from airflow.sdk import dag, task
from evidence import is_there, write_down
from stream_probes import TextsTrigger

from airflow_provider_iteration import stream
from airflow_provider_iteration.decorators.iterate import iterate
from airflow_provider_iteration.operators.streaming import StreamingOperator
from airflow_provider_iteration.triggers.streaming import StreamingTrigger


class TextsOperator(StreamingOperator):
    """Streams texts, from a trigger."""

    def make_trigger(self, context: Mapping[str, Any]) -> StreamingTrigger:
        return TextsTrigger(count=100)


@task
def numbers(count: int) -> list[int]:
    return list(range(count))


@task
def describe(value: Any) -> list[Any]:
    """Tell of which type a value is, and what is in it."""
    return [type(value).__name__, len(value), sum(map(int, value))]


@task
def text(letters: int) -> dict[str, str]:
    return {"text": "x" * letters}


@task
def describe_text(value: Any) -> list[Any]:
    return [type(value).__name__, len(value["text"]), value == {"text": "x" * len(value["text"])}]


@task
def identity(x: int) -> int:
    return x


@task.stream
def generated(count: int) -> Iterator[int]:
    yield from range(count)


@iterate(task_concurrency=4)
def double(x: int) -> int:
    return 2 * x


@dag(schedule=None)
def values() -> None:
    describe.override(task_id="plain")(numbers.override(task_id="short")(3))
    describe.override(task_id="lazy")(numbers.override(task_id="long")(5))
    describe.override(task_id="streamed")(generated(1000))
    describe.override(task_id="iterated")(double.iterate(x=numbers.override(task_id="input")(1000)))
    describe.override(task_id="triggered")(TextsOperator(task_id="pages").output)
    describe_text.override(task_id="inside")(text.override(task_id="small")(980))
    describe_text.override(task_id="outside")(text.override(task_id="large")(100_000))
    identity.expand(x=numbers.override(task_id="mapped")(4))


values()


@task.stream
def awaited(count: int) -> Iterator[str]:
    """Ends when an item has been handled: it is to be read while it is written."""
    yield from ("x" * 100 + str(number) for number in range(count))
    deadline = time.monotonic() + 90
    while not is_there("handled-live"):
        if time.monotonic() > deadline:
            raise TimeoutError("no item was handled in 90 s")
        time.sleep(0.1)
    yield "last"


@iterate
def length(item: str) -> int:
    write_down("handled-live", item)
    return len(item)


@task
def summed(items: Any) -> list[int]:
    return [len(items), sum(items)]


@dag(schedule=None)
def followed_files() -> None:
    """A live stream whose rows are in files."""
    summed(length.iterate(item=stream(awaited(20)).live()))


followed_files()


def counted(count: int) -> Iterator[int]:
    yield from range(count)


@dag(schedule=None)
def generators() -> None:
    @task
    def ordinary() -> Iterator[int]:
        return counted(1)

    @task
    def dropped() -> Iterator[int]:
        yield from counted(1)

    @task
    async def asynchronous() -> AsyncIterator[int]:
        yield 1

    ordinary()
    dropped()
    asynchronous()


generators()


@iterate(task_concurrency=1, checkpoint_every=1)
def grow(x: int) -> str:
    return "x" * 60_000


@dag(schedule=None)
def kept_files() -> None:
    text(100_000)
    grow.iterate(x=[1, 2])


kept_files()
