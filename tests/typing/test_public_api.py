# SPDX-License-Identifier: Apache-2.0
"""The public API as a type checker sees it; mypy checks this file in `make lint`."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from typing import Any, assert_type

from airflow.providers.standard.triggers.temporal import DateTimeTrigger
from airflow.sdk import DAG, Context
from airflow.triggers.base import TaskSuccessEvent, TriggerEvent

import airflow_provider_iteration
from airflow_provider_iteration.decorators.iterate import IteratePartial, IterateTask
from airflow_provider_iteration.decorators.stream import StreamTask, stream_task
from airflow_provider_iteration.operators.http import HttpStreamingOperator
from airflow_provider_iteration.pagination import Cursor, MaxPages, NextLink, Paginator, load_paginator
from airflow_provider_iteration.streams import Page, RecordedEvent, StreamEvent, Watermark, unread
from airflow_provider_iteration.streams.lazy import LazyIterable, LazySequence
from airflow_provider_iteration.testing import remade, run_trigger
from airflow_provider_iteration.triggers.events import StreamingEventTrigger
from airflow_provider_iteration.triggers.streaming import StreamingTrigger
from airflow_provider_iteration.xcom.iterable import XComIterable
from airflow_provider_iteration.xcom.pipeline import Pipeline


class Typed(StreamingTrigger):
    """A subclass as a user writes it."""

    def arguments(self) -> dict[str, Any]:
        return {}

    async def pages(self, cursor: Any) -> AsyncGenerator[Page, None]:
        yield Page({"id": 1}, cursor=1)


class TypedHandler(HttpStreamingOperator):
    """A handler as a user writes it."""

    async def handle_trigger_events(
        self, events: Sequence[StreamEvent], context: Context
    ) -> AsyncIterator[int]:
        for event in events:
            assert_type(event.sequence_index, int)
            if event.is_last:
                raise airflow_provider_iteration.StopStream
            yield len(event.payload)


class TypedWatcher(StreamingEventTrigger):
    """A watcher as a user writes it."""

    def arguments(self) -> dict[str, Any]:
        return {}

    async def pages(self, cursor: Any) -> AsyncGenerator[Page, None]:
        yield Page({"id": 1}, cursor=1)


class TypedPusher(DateTimeTrigger):
    """A trigger of someone else that pushes XComs."""

    async def run(self) -> AsyncIterator[TriggerEvent]:
        await airflow_provider_iteration.push_xcom(self, "a", 1)
        await airflow_provider_iteration.push_xcoms(self, {"b": [2]})
        yield TaskSuccessEvent()


async def helpers_are_typed() -> None:
    """The helpers for users' tests take the user's own triggers."""
    assert_type((await run_trigger(Typed())).elements, list[Any])
    assert_type(remade(TypedWatcher()), TypedWatcher)
    assert_type(unread([], Watermark()), tuple[list[RecordedEvent], Watermark])


def read(items: XComIterable) -> None:
    """Use a stream as a reader does."""
    assert_type(len(items), int)
    assert_type(iter(items), Iterator[Any])
    assert_type(items[1:2], list[Any])
    as_sequence: Sequence[Any] = items
    assert_type(as_sequence, Sequence[Any])
    as_lazy: LazySequence = items
    assert_type(as_lazy.map(str).filter(bool).flatten().batched(5), LazyIterable)


def test_iterate_is_typed() -> None:
    """The decorator, bare and with options, and the form for operators, keep their types."""

    def work(x: int) -> int:
        return x

    assert_type(airflow_provider_iteration.iterate(work), IterateTask)
    assert_type(airflow_provider_iteration.iterate(task_concurrency=3)(work), IterateTask)
    assert_type(airflow_provider_iteration.iterate(work).override(task_id="x").partial(x=1), IterateTask)
    partial = airflow_provider_iteration.iterate(HttpStreamingOperator.partial(task_id="x"))
    assert_type(partial, IteratePartial)


def test_stream_is_typed() -> None:
    """Steps keep the type of a pipeline; the generator decorator has one, bare and with options."""

    def rows(count: int) -> Iterator[int]:
        yield count

    with DAG("typed"):
        made = stream_task(rows)(1)
    pipeline = airflow_provider_iteration.stream(made).flatten().map(str).filter(bool).batched(5)
    assert_type(pipeline, Pipeline)
    assert_type(pipeline.zip(made, fillvalue=0).concat(made), Pipeline)
    assert_type(stream_task(rows), StreamTask)
    assert_type(stream_task(retries=3)(rows), StreamTask)


def test_public_names_are_typed() -> None:
    """Specs, triggers and operators check as they are documented."""
    paginator: Paginator = Cursor("meta.next", param="after", stop=MaxPages(3))
    assert_type(load_paginator({"type": "next_link"}), Paginator)
    operator = HttpStreamingOperator(task_id="x", endpoint="orders", method="GET", paginator=paginator)
    assert_type(operator, HttpStreamingOperator)
    assert NextLink() == load_paginator({"type": "next_link"})
    assert airflow_provider_iteration.XComIterable is XComIterable
    assert TypedHandler(task_id="x", endpoint="orders", method="GET", resume_every_pages=4).has_handler()
