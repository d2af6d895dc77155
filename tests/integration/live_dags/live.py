# SPDX-License-Identifier: Apache-2.0
"""Dags whose consumers begin before their producers have ended."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from airflow.sdk import dag, task
from airflow.sdk.exceptions import AirflowSkipException
from evidence import write_down
from live_probes import GatedOperator

from airflow_provider_iteration import iterate, stream
from airflow_provider_iteration.operators.http import HttpStreamingOperator
from airflow_provider_iteration.pagination import Cursor


@iterate(task_concurrency=2)
def handled(item: str, into: str) -> str:
    write_down(into, item)
    return item.upper()


@task
def collected(items: Any) -> list[Any]:
    return list(items)


@dag(schedule=None)
def followed() -> None:
    pages = GatedOperator(task_id="pages", name="followed").output
    done = handled.partial(into="followed.seen").iterate(item=stream(pages).live(starve_seconds=1))
    collected(done)


@dag(schedule=None)
def limited() -> None:
    """Starts on a worker, so that the wait does not count towards its time."""
    pages = GatedOperator(task_id="pages", name="limited").output
    within = handled.override(execution_timeout=timedelta(seconds=60))
    collected(within.partial(into="limited.seen").iterate(item=stream(pages).live()))


@dag(schedule=None)
def tried_again() -> None:
    pages = GatedOperator(
        task_id="pages", name="tried_again", retries=1, retry_delay=timedelta(seconds=0)
    ).output
    collected(handled.partial(into="tried_again.seen").iterate(item=stream(pages).live()))


@dag(schedule=None)
def skipped_producer() -> None:
    @task
    def skipped() -> None:
        raise AirflowSkipException("nothing today")

    handled.partial(into="never").iterate(item=stream(skipped()).live())


@dag(schedule=None)
def failed_beside() -> None:
    @task
    def fails() -> None:
        raise RuntimeError("as planned")

    @task.stream
    def rows() -> Iterator[str]:
        yield from "abc"

    done = handled.partial(into="never").iterate(item=stream(rows()).live())
    fails() >> done


@dag(schedule=None)
def in_a_row() -> None:
    """A generator, an iteration over it, and one over that one's results, all at the same time."""

    @task.stream
    def rows() -> Iterator[str]:
        for number in range(20):
            yield f"row-{number}"

    first = handled.override(task_id="first").partial(into="first.seen").iterate(item=stream(rows()).live())
    second = handled.override(task_id="second").partial(into="second.seen").iterate(item=stream(first).live())
    collected(second)


@dag(schedule=None)
def plain_consumer() -> None:
    pages = GatedOperator(task_id="pages", name="plain_consumer").output

    @task(trigger_rule="always")
    def reads(items: Any) -> list[Any]:
        seen = []
        for item in items:
            write_down("plain.seen", item)
            seen.append(item)
        return seen

    reads(stream(pages).map(str.upper).live())


@dag(schedule=None)
def http_followed() -> None:
    pages = HttpStreamingOperator(
        task_id="pages",
        http_conn_id="live_shop",
        endpoint="cursor",
        method="GET",
        paginator=Cursor("meta.next", "after"),
        items_path="items",
    ).output

    @iterate
    def number(order: dict[str, Any]) -> int:
        write_down("http.seen", time.time())
        return int(order["id"])

    collected(number.iterate(order=stream(pages).live()))


@dag(schedule=None)
def lists_too() -> None:
    """What is no stream is read when it is there."""

    @task
    def numbers() -> list[str]:
        return ["a", "b"]

    collected(handled.partial(into="lists.seen").iterate(item=stream(numbers()).live()))


for make in (
    followed,
    limited,
    tried_again,
    skipped_producer,
    failed_beside,
    in_a_row,
    plain_consumer,
    http_followed,
    lists_too,
):
    make()
