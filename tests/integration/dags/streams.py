# SPDX-License-Identifier: Apache-2.0
"""Dags of streams. Each of them reads from the HTTP connection that has its own name."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from airflow.providers.standard.sensors.date_time import DateTimeSensorAsync
from airflow.sdk import Asset, dag, task
from stream_probes import CountingTrigger, SeveralEventsTrigger, leave_evidence

from airflow_provider_iteration.operators.http import HttpStreamingOperator
from airflow_provider_iteration.operators.streaming import StreamingOperator
from airflow_provider_iteration.pagination import Cursor, NextLink
from airflow_provider_iteration.triggers.streaming import StreamingTrigger

CURSOR = Cursor("meta.next", "after")


def pages(conn: str, task_id: str = "pages", **arguments: Any) -> HttpStreamingOperator:
    defaults: dict[str, Any] = {
        "endpoint": "cursor",
        "method": "GET",
        "paginator": CURSOR,
        "items_path": "items",
        "page_retries": 2,
    }
    return HttpStreamingOperator(task_id=task_id, http_conn_id=conn, **{**defaults, **arguments})


@task
def check_numbers(items: Any) -> int:
    """Read lazily; fail unless the ids count up from 0."""
    count = 0
    for number, item in enumerate(items):
        assert item["id"] == number, f"item {number} has id {item['id']}"
        count += 1
    assert count == len(items)
    return count


@task
def digest(items: Any) -> str:
    """Return a digest over everything that a reader can tell of the items."""
    text = "\n".join(f"{type(item).__name__} {item!r}" for item in items)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


@dag(schedule=None)
def stream() -> None:
    check_numbers(pages("stream").output)


@dag(schedule=None)
def interrupted() -> None:
    check_numbers(pages("interrupted", max_uncommitted_pages=4).output)


@dag(schedule=None)
def failing() -> None:
    check_numbers(pages("failing", retries=1, retry_delay=timedelta(seconds=1)).output)


@dag(schedule=None)
def killed() -> None:
    pages("killed")


@dag(schedule=None)
def broken() -> None:
    pages("broken", "limited", max_bytes=20_000)
    pages("broken", "wrong_path", items_path="orders")
    pages("broken", "foreign", endpoint="next-link", paginator=NextLink())


@dag(schedule=None)
def whole_pages() -> None:
    digest(pages("whole_pages", endpoint="single", paginator=None, items_path="@").output)
    digest.override(task_id="digest_raw")(
        pages(
            "whole_pages", "raw", endpoint="single", data={"page": 1}, paginator=None, items_path=None
        ).output
    )
    check_numbers.override(task_id="check_large")(
        pages(
            "whole_pages", "large", endpoint="single", data={"page": 2}, paginator=None, items_path="items"
        ).output
    )


@dag(schedule=None)
def on_worker() -> None:
    check_numbers(pages("on_worker", deferrable=False).output)


def called_back(context: Mapping[str, Any]) -> None:
    leave_evidence(f"callback-{context['ti'].task_id}")


@dag(schedule=None, params={"answer": 42})
def placed() -> None:
    @task
    def where() -> str:
        return "cursor"

    found = where()
    pages("placed", "plain")
    pages("placed", "outlet", outlets=[Asset("placed_asset")])
    pages("placed", "callback", on_success_callback=called_back)
    pages("placed", "argument", endpoint=found)
    pages("placed", "pull", endpoint="{{ ti.xcom_pull('where') }}").set_upstream(found)
    pages("placed", "pooled", pool="small")
    pages(
        "placed",
        "templated",
        data={"seen": "{{ run_id }} {{ params.answer }} {{ ti.try_number }} {{ var.value.word }}"},
    )
    mapped = HttpStreamingOperator.partial(
        task_id="mapped",
        http_conn_id="placed",
        method="GET",
        paginator=CURSOR,
        items_path="items",
    ).expand(endpoint=["cursor", "cursor"])
    check_numbers.expand(items=mapped.output)

    @task
    def count(page: dict[str, Any]) -> int:
        return len(page["items"])

    count.expand(page=pages("placed", "expanded", items_path=None).output)


class CountingOperator(StreamingOperator):
    def __init__(self, *, count: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.count = count

    def make_trigger(self, context: Mapping[str, Any]) -> StreamingTrigger:
        return CountingTrigger(count=self.count)


class WrappingOperator(StreamingOperator):
    def make_trigger(self, context: Mapping[str, Any]) -> StreamingTrigger:
        return StreamingTrigger.from_trigger(SeveralEventsTrigger(count=12))


@dag(schedule=None)
def own_triggers() -> None:
    @task
    def total(numbers: Any) -> str:
        return json.dumps(list(numbers))

    total(CountingOperator(task_id="counting", count=100).output)
    total.override(task_id="total_wrapped")(WrappingOperator(task_id="wrapping").output)


@dag(schedule=None, max_active_tasks=100)
def many() -> None:
    for number in range(50):
        pages("many", f"pages_{number}")
    DateTimeSensorAsync(
        task_id="timer",
        target_time="{{ dag_run.start_date + macros.timedelta(seconds=10) }}",
        start_from_trigger=True,
    )


for make in (
    stream,
    interrupted,
    failing,
    killed,
    broken,
    whole_pages,
    on_worker,
    placed,
    own_triggers,
    many,
):
    make()
