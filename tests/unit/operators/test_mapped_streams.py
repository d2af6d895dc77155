# SPDX-License-Identifier: Apache-2.0
"""Streams that mapped tasks expand over."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import DAG, task
from airflow.sdk.exceptions import TaskDeferred

from airflow_provider_iteration import _compat
from airflow_provider_iteration.exceptions import TooLongToMap
from airflow_provider_iteration.operators.streaming import StreamingOperator
from tests.support.streams import RUN_A
from tests.support.triggers import Numbers, give_task
from tests.unit.conftest import XComs


class NumbersOperator(StreamingOperator):
    """Streams 5,000 numbers."""

    def make_trigger(self, context: Any) -> Numbers:
        return Numbers(count=5000)


@task
def one(x: Any) -> Any:
    return x


def operator(
    kind: type[NumbersOperator] = NumbersOperator, *, mapped: bool, **options: Any
) -> NumbersOperator:
    with DAG("shop"):
        made = kind(task_id="pages", **options)
        if mapped:
            one.expand(x=made.output)
        else:
            one(made.output)
    return made


@pytest.mark.parametrize("mapped", [True, False])
def test_trigger_of_a_deferred_task_is_told_the_limit(mapped: bool) -> None:
    """It has no task to look at; without a mapped dependant there is no limit."""
    made = operator(mapped=mapped)
    ti = SimpleNamespace(map_index=-1, id=RUN_A)
    with _compat.allowed_to_execute(made), pytest.raises(TaskDeferred) as deferred:
        made.execute({"ti": ti})  # type: ignore[typeddict-item]
    trigger: Any = deferred.value.trigger
    assert trigger.stream_options.max_map_length == (1024 if mapped else None)


async def test_trigger_that_started_the_task_finds_the_limit(xcoms: XComs) -> None:
    """It looks at the task itself, and stops before all pages are asked for."""
    trigger = Numbers(count=5000)
    give_task(trigger)
    instance: Any = trigger.task_instance
    instance.task = operator(mapped=True)
    with pytest.raises(TooLongToMap, match="max_map_length=1024"):
        await trigger.stream()


async def test_mapped_instances_have_no_limit(xcoms: XComs) -> None:
    """Mapped tasks expand over the instances of a mapped task, not over the items of each."""
    trigger = Numbers(count=1100)
    give_task(trigger)
    instance: Any = trigger.task_instance
    instance.task, instance.map_index = operator(mapped=True), 0
    assert len(await trigger.stream()) == 1100


class Handling(NumbersOperator):
    """Returns three results for each batch of pages."""

    def handle_trigger_events(self, events: Any, context: Any) -> Any:
        yield from (event.sequence_index for event in events for _ in range(3))


def handle(*, mapped: bool) -> Any:
    made = operator(Handling, mapped=mapped, deferrable=False)
    place = {"dag_id": "shop", "task_id": "pages", "run_id": "r1", "map_index": -1}
    ti = SimpleNamespace(**place, id=RUN_A, xcom_push=lambda key, value: None)
    with _compat.allowed_to_execute(made):
        return made.execute({"ti": ti})  # type: ignore[typeddict-item]


def test_results_of_a_handler_are_limited(xcoms: XComs) -> None:
    """Mapped tasks expand over what the handler returns, so that is what counts, not the pages."""
    with pytest.raises(TooLongToMap, match="max_map_length=1024"):
        handle(mapped=True)


def test_results_that_nothing_expands_over_have_no_limit(xcoms: XComs) -> None:
    """15,000 results of 5,000 pages."""
    assert len(handle(mapped=False)) == 15_000
