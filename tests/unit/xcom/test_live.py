# SPDX-License-Identifier: Apache-2.0
"""``.live()`` in a Dag file: what it makes of a task, and what is refused."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any, cast

import pytest
from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG, TriggerRule, setup, task, task_group, teardown
from airflow.serialization.serialized_objects import DagSerialization

from airflow_provider_iteration import iterate, stream
from airflow_provider_iteration.operators.live import LiveIterableOperator
from airflow_provider_iteration.streams.following import Follower
from airflow_provider_iteration.streams.recency import RunJudge
from airflow_provider_iteration.streams.xcom_store import XComPlace
from airflow_provider_iteration.xcom.live import LiveItems
from airflow_provider_iteration.xcom.pipeline import LivePipeline
from tests.support.following import Scripted
from tests.support.streams import RUN_A


@iterate
def handled(item: Any, other: Any = None) -> Any:
    return item


@task
def numbers() -> list[int]:
    return [1, 2]


@task
def plain(x: Any = None) -> Any:
    return x


def operator_of(output: Any) -> LiveIterableOperator:
    """Return the task behind an output."""
    operator: LiveIterableOperator = output.operator
    return operator


def live(**options: Any) -> LivePipeline:
    return stream(numbers()).map(str).live(**options)


def test_consumer_starts_in_the_triggerer() -> None:
    """With the rule that lets it begin before its upstream has ended."""
    with DAG("d"):
        consumer = operator_of(handled.iterate(item=live()))
    assert isinstance(consumer, LiveIterableOperator)
    assert (consumer.trigger_rule, consumer.start_from_trigger) == (TriggerRule.ALWAYS, True)
    assert consumer.upstream_task_ids == {"numbers"}


def test_upstreams_that_come_later_are_known_to_the_trigger() -> None:
    """Edges may be drawn after the task was made; setups further up count too."""

    @setup
    def opened() -> None: ...

    @teardown
    def closed() -> None: ...

    with DAG("d") as dag:
        consumer = handled.iterate(item=live())
        first = opened()
        first >> numbers.override(task_id="between")() >> consumer >> closed().as_teardown(setups=first)
    stored = DagSerialization.to_dict(dag)["dag"]["tasks"]
    (arguments,) = [
        each["__var"]["start_trigger_args"] for each in stored if each["__var"]["task_id"] == "handled"
    ]
    assert arguments["trigger_kwargs"]["__var"]["others"] == ["between", "opened"]


def test_stored_dag_is_read_again() -> None:
    """The scheduler makes the trigger of it."""
    with DAG("d") as dag:
        handled.iterate(item=live())
    again = DagSerialization.from_dict(json.loads(json.dumps(DagSerialization.to_dict(dag))))
    arguments = again.get_task("handled").start_trigger_args
    assert arguments is not None
    assert arguments.next_method == "execute_live"


def test_operator_is_iterated_live() -> None:
    """As a function is."""
    with DAG("d"):
        consumer = iterate(BashOperator.partial(task_id="b")).iterate(bash_command=live())
    assert isinstance(consumer, LiveIterableOperator)


def test_execution_timeout_does_not_count_the_wait() -> None:
    """A start in the triggerer would have it."""
    with DAG("d"):
        limited = handled.override(execution_timeout=timedelta(seconds=9))
        consumer = operator_of(limited.iterate(item=live()))
    assert (consumer.start_from_trigger, consumer.start_trigger_args) == (False, None)


def test_pipeline_says_that_it_is_live() -> None:
    """In the UI too."""
    with DAG("d"):
        assert live().serialize() == "output of numbers | map(str) | live()"


def test_results_that_are_followed_are_written_soon() -> None:
    """Their task knows that somebody reads along."""
    with DAG("d"):
        first = handled.override(task_id="first").iterate(item=[1])
        second = handled.override(task_id="second").iterate(item=stream(first).live())
    assert (operator_of(first).is_read_live, operator_of(second).is_read_live) == (True, False)


def in_a_dag(make: Callable[[], Any], **options: Any) -> None:
    with DAG("d", **options):
        make()


def other_use(where: str) -> Any:
    """Use the output of a producer whose items are followed once more."""
    output = numbers()
    items = stream(output).live()
    if where == "partial":
        return handled.partial(other=output).iterate(item=items)
    if where == "nested":
        return handled.partial(other={"of": [output.map(str)]}).iterate(item=items)
    if where == "input":
        return handled.iterate(item=items, other=stream(output).map(str))
    return stream(output).zip(stream(output).map(str)).live()


def test_another_task_may_hand_the_output_on() -> None:
    """The consumer waits for that one."""
    with DAG("d"):
        output = numbers()
        later = plain.override(task_id="later")(output)
        consumer = operator_of(handled.partial(other=later).iterate(item=stream(output).live()))
    assert consumer.upstream_task_ids == {"numbers", "later"}


def mapped_group() -> None:
    items = live()

    @task_group
    def group(x: Any) -> None:
        handled.iterate(item=items)

    group.expand(x=[1, 2])


@pytest.mark.parametrize(("make", "message"), [
    (lambda: live().map(str), r"map\(\): live\(\) comes last"),
    (lambda: live().live(), "is live already"),
    (lambda: stream(live()), "live.. comes last"),
    (lambda: stream(numbers()).concat(live()), "live.. comes last"),
    (lambda: stream(numbers().map(str)).live(), "write the steps of XComArg.map"),
    (lambda: stream(plain.expand(x=[1])).live(), "'plain' is mapped"),
    (lambda: plain.expand(x=cast(Any, live())), "expand"),
    (lambda: handled.iterate(item=[live()]), "item: a live input is given as it is, not within a list"),
    (lambda: handled.iterate(item=live(), other=live()), "one input can be live"),
    (lambda: handled.iterate(other=[1], item=live()), "comes first"),
    (lambda: handled.partial(other=live()).iterate(item=[1]), "live.. is for what is iterated over"),
    (lambda: live(starve_seconds="1"), "starve_seconds: expected a number"),
    (lambda: teardown(iterate(plain.function)).iterate(x=live()), "teardown"),
    (lambda: handled.iterate(item=live()).as_teardown(), "'handled' is to be a teardown"),
    (lambda: other_use("partial"), "other: the output of 'numbers', whose items are followed"),
    (lambda: other_use("nested"), "other: the output of 'numbers', whose items are followed"),
    (lambda: other_use("input"), "other: the output of 'numbers', whose items are followed"),
    (lambda: other_use("step"), r"zip\(\): the output of 'numbers', whose items are followed"),
])  # fmt: skip
def test_wrong_use_is_a_type_error(make: Callable[[], Any], message: str) -> None:
    """When the Dag is parsed."""
    with pytest.raises(TypeError, match=message):
        in_a_dag(make)


@pytest.mark.parametrize(("make", "options", "message"), [
    (lambda: handled.iterate(item=live()), {"fail_fast": True}, "'d' has fail_fast=True"),
    (mapped_group, {}, "'group' is mapped"),
    (lambda: handled.override(trigger_rule="all_done").iterate(item=live()), {}, "trigger_rule='all_done'"),
    (lambda: handled.override(checkpoint_every=None).iterate(item=live()), {}, "checkpoint_every"),
    (lambda: live(starve_seconds=0), {}, "more than 0"),
    (lambda: stream(numbers.override(do_xcom_push=False)()).live(), {}, "'numbers' has do_xcom_push=False"),
    (lambda: handled.iterate(item=live()), {"default_args": {"trigger_rule": "all_done"}}, "default_args"),
])  # fmt: skip
def test_impossible_place_is_a_value_error(make: Callable[[], Any], options: Any, message: str) -> None:
    """With what to do instead."""
    with pytest.raises(ValueError, match=message):
        in_a_dag(make, **options)


async def test_live_items_are_awaited_one_by_one() -> None:
    """An item is handed over although the next one is not there."""
    follower = Follower(Scripted(("running", RUN_A, 1)), task="t", judge=RunJudge(RUN_A), starve_seconds=None)
    items = LiveItems(follower, XComPlace("d", "t", "r"), lambda items: items)
    async for item in items:
        assert item == (RUN_A, 0)
        break


async def test_waiting_in_a_coroutine_can_be_cancelled() -> None:
    """The thread that waits ends too."""
    follower = Follower(Scripted(("running", None, 0)), task="t", judge=RunJudge(RUN_A))
    items = LiveItems(follower, XComPlace("d", "t", "r"), lambda items: items)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            async for _ in items:
                pass
    assert follower._stopped.is_set()
