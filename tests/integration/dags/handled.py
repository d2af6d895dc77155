# SPDX-License-Identifier: Apache-2.0
"""Dags whose operators handle the events of their streams."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any

from airflow.sdk import Context, dag, task
from orders_trigger import OrdersOperator
from stream_probes import CountingTrigger, SeveralEventsTrigger

from airflow_provider_iteration.exceptions import StopStream
from airflow_provider_iteration.operators.http import HttpStreamingOperator
from airflow_provider_iteration.operators.streaming import StreamingOperator
from airflow_provider_iteration.pagination import Cursor
from airflow_provider_iteration.streams import StreamEvent
from airflow_provider_iteration.triggers.streaming import StreamingTrigger


class HandlingOperator(StreamingOperator):
    """Returns of each batch what its events were."""

    def __init__(self, *, pages: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.pages = pages

    def make_trigger(self, context: Mapping[str, Any]) -> StreamingTrigger:
        return CountingTrigger(count=self.pages)

    def handle_trigger_events(self, events: Sequence[StreamEvent], context: Context) -> Any:
        return [[event.sequence_index, event.payload, event.is_last] for event in events]


class StoppingOperator(HandlingOperator):
    def handle_trigger_events(self, events: Sequence[StreamEvent], context: Context) -> Iterator[int]:
        for event in events:
            if event.sequence_index == 5:
                raise StopStream
            yield event.payload


class FailingOperator(HandlingOperator):
    async def handle_trigger_events(
        self, events: Sequence[StreamEvent], context: Context
    ) -> AsyncIterator[str]:
        for event in events:
            if event.sequence_index == 7 and context["ti"].try_number == 1:
                raise OSError("no room")
            yield f"try {context['ti'].try_number} event {event.sequence_index}"


class MigratedOperator(StreamingOperator):
    """An operator of before, with the method that its trigger's event went to."""

    next_method = "execute_complete"

    def make_trigger(self, context: Mapping[str, Any]) -> StreamingTrigger:
        return StreamingTrigger.from_trigger(SeveralEventsTrigger(count=6))

    def execute_complete(self, context: Context, event: Any) -> Any:
        context["ti"].xcom_push(key=f"event_{event}", value=event)
        return event * 10


@task
def read(results: Any) -> str:
    return json.dumps(list(results))


@task
def read_pages(ti: Any = None) -> str:
    return json.dumps(list(ti.xcom_pull(task_ids="batches", key="pages")))


def read_of(operator: StreamingOperator) -> None:
    read.override(task_id=f"read_{operator.task_id}")(operator.output)


@dag(schedule=None)
def handled() -> None:
    batches = HandlingOperator(task_id="batches", pages=12, resume_every_pages=4)
    read_of(batches)
    batches >> read_pages()
    read_of(HandlingOperator(task_id="once", pages=40))
    read_of(HandlingOperator(task_id="here", pages=12, deferrable=False))
    read_of(StoppingOperator(task_id="stopped", pages=12, resume_every_pages=4))
    read_of(StoppingOperator(task_id="stopped_here", pages=12, deferrable=False))
    read_of(
        FailingOperator(
            task_id="failing", pages=9, resume_every_pages=4, retries=1, retry_delay=timedelta(seconds=1)
        )
    )
    read_of(MigratedOperator(task_id="migrated", resume_every_pages=3))


@dag(schedule=None)
def handled_often() -> None:
    read_of(HandlingOperator(task_id="batches", pages=40, resume_every_pages=4))


class PagesOperator(HttpStreamingOperator):
    def handle_trigger_events(self, events: Sequence[StreamEvent], context: Context) -> Iterator[int]:
        for event in events:
            yield from (item["id"] for item in event.payload)


@dag(schedule=None)
def handled_http() -> None:
    def pages(task_id: str, **arguments: Any) -> None:
        read_of(
            PagesOperator(
                task_id=task_id,
                http_conn_id="handled_http",
                endpoint="cursor",
                method="GET",
                paginator=Cursor("meta.next", "after"),
                items_path="items",
                **arguments,
            )
        )

    pages("deferred")
    pages("here", deferrable=False)


@dag(schedule=None)
def own_orders() -> None:
    read_of(OrdersOperator(task_id="orders", url="{{ dag_run.conf['url'] }}"))


handled()
handled_often()
handled_http()
own_orders()
