# SPDX-License-Identifier: Apache-2.0
"""Where a streaming task starts and ends, decided when its operator is constructed."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import pytest
from airflow.sdk import DAG, Asset, BaseOperator, task_group

from airflow_provider_iteration.operators.http import HttpStreamingOperator
from airflow_provider_iteration.operators.streaming import StreamingOperator
from airflow_provider_iteration.pagination import Cursor
from airflow_provider_iteration.triggers.streaming import StreamingTrigger
from tests.support.triggers import Numbers


def make(dag: DAG | None = None, **arguments: Any) -> HttpStreamingOperator:
    with dag or DAG("d", schedule=None):
        return HttpStreamingOperator(task_id="pages", **{"endpoint": "orders", "method": "GET", **arguments})


def trigger_arguments(operator: StreamingOperator) -> dict[str, Any]:
    assert operator.start_trigger_args is not None
    return operator.start_trigger_args.trigger_kwargs or {}


def why_not(operator: StreamingOperator) -> str:
    return "; ".join(operator._start_obstacles)


def test_plain_operator_starts_in_the_triggerer() -> None:
    """Plain JSON arguments need no worker."""
    assert make(data={"a": [1, None, {"b": "c"}]}).start_from_trigger is True


@pytest.mark.parametrize(
    "endpoint",
    [
        "orders/{{ ds }}/{{ run_id }}",
        "{{ params.path }}/{{ dag_run.conf['x'] | default('y') }}",
        "{{ var.value.path }}/{{ conn.shop.host }}/{{ ti.try_number }}-{{ task_instance.map_index }}",
        "{% if ti.try_number > 1 %}again{% else %}first{% endif %}",
        "{% for n in [1, 2] %}{{ n }}{% endfor %}",
    ],
)
def test_templates_that_the_triggerer_can_render(endpoint: str) -> None:
    """Names that the triggerer has do not need a worker."""
    assert make(endpoint=endpoint).start_from_trigger is True


@pytest.mark.parametrize(
    ("endpoint", "reason"),
    [
        ("{{ ti.xcom_pull('a') }}", "ti.xcom_pull"),
        ("{{ ti['xcom_pull']('a') }}", "'ti' as a whole"),
        ("{{ task_instance.start_date }}", "task_instance.start_date"),
        ("{{ prev_start_date_success }}", "prev_start_date_success"),
        ("{{ my_macro() }}", "my_macro"),
        ("{{ ds | my_filter }}", "my_filter"),
        ("{% include 'x.html' %}", "includes another template"),
        ("{{ broken", "syntax error"),
    ],
)
def test_templates_that_need_a_worker(endpoint: str, reason: str) -> None:
    """Names that get no answer, or a wrong one, in the triggerer are found on the syntax tree."""
    operator = make(endpoint=endpoint)
    assert operator.start_from_trigger is False
    assert reason in why_not(operator)


def test_template_at_any_depth_is_found() -> None:
    """The place of a template deep in an argument is named."""
    operator = make(data={"filter": [{"since": "{{ ti.xcom_pull('a') }}"}]})
    assert "data['filter'][0]['since']" in why_not(operator)


def test_output_of_a_task_needs_a_worker() -> None:
    """An XComArg at any depth is named with its place."""
    with DAG("d", schedule=None) as dag:
        first = BaseOperator(task_id="first")
    operator = make(dag, data={"ids": [first.output]})
    assert "data['ids'][0] is the output of another task" in why_not(operator)


def test_pool_needs_a_worker() -> None:
    """A start in the triggerer would bypass the pool."""
    assert "pool" in why_not(make(pool="small"))


@pytest.mark.parametrize("name", ["max_active_tis_per_dag", "max_active_tis_per_dagrun"])
def test_concurrency_limit_needs_a_worker(name: str) -> None:
    """A start in the triggerer would bypass max_active_tis_*."""
    assert name in why_not(make(None, **{name: 1}))


def test_native_rendering_needs_a_worker() -> None:
    """A Dag that renders templates to objects does so on workers only."""
    dag = DAG("d", schedule=None, render_template_as_native_obj=True)
    assert "a way of its own" in why_not(make(dag, endpoint="{{ ds }}"))


def test_macro_that_hides_a_name_needs_a_worker() -> None:
    """A user's macro named as one of Airflow's names is not taken for it."""
    dag = DAG("d", schedule=None, user_defined_macros={"ds": "mine"})
    assert "'ds'" in why_not(make(dag, endpoint="{{ ds }}"))


def test_mapped_operator_starts_on_workers() -> None:
    """T3: a mapped task starts on workers."""
    with DAG("d", schedule=None):
        mapped = HttpStreamingOperator.partial(task_id="m", method="GET").expand(endpoint=["a", "b"])
    assert mapped.start_from_trigger is False


def test_mapped_task_group_needs_a_worker() -> None:
    """A task in a mapped group has arguments that the triggerer does not know."""
    made = []

    @task_group
    def group(path: str) -> None:
        made.append(HttpStreamingOperator(task_id="pages", endpoint="orders", method="GET"))

    with DAG("d", schedule=None):
        group.expand(path=["a", "b"])
    assert "mapped task group" in why_not(made[0])


def test_explicit_start_that_cannot_be_names_the_argument() -> None:
    """Asking for what cannot be is an error at parse time, with the place."""
    with pytest.raises(ValueError, match=r"start_from_trigger=True .*data\['x'\] uses 'ti.xcom_pull'"):
        make(start_from_trigger=True, data={"x": "{{ ti.xcom_pull('a') }}"})


def test_start_on_a_worker_can_be_asked_for() -> None:
    """start_from_trigger=False is honoured."""
    assert make(start_from_trigger=False).start_from_trigger is False


def test_lambda_is_refused_at_parse_time() -> None:
    """H6: a lambda cannot travel; the message names its place."""
    with pytest.raises(TypeError, match=r"data\['when'\] is a callable \(.*<lambda>\)"):
        make(data={"when": lambda: 1})


@pytest.mark.parametrize("name", ["pagination_function", "response_check", "response_filter"])
def test_function_makes_the_task_start_on_a_worker(name: str) -> None:
    """H6: a function cannot travel, so the worker has it."""
    assert f"{name} is a callable" in why_not(make(None, **{name: lambda response: None}))


@pytest.mark.parametrize("name", ["pagination_function", "response_check", "response_filter"])
def test_function_with_an_explicit_start_is_refused(name: str) -> None:
    """H6: asking for the start in the triggerer with a function is an error of the Dag."""
    with pytest.raises(ValueError, match=f"start_from_trigger=True .*{name} is a callable"):
        make(None, start_from_trigger=True, **{name: lambda response: None})


@pytest.mark.parametrize("name", ["pagination_function", "response_check", "response_filter"])
def test_import_path_starts_in_the_triggerer(name: str) -> None:
    """H6: an import path travels."""
    operator = make(None, **{name: "shop.pages.function"})
    assert operator.start_from_trigger is True
    assert trigger_arguments(operator)[name] == "shop.pages.function"


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"response_check": "no path"}, ValueError, "response_check: expected an import path"),
        ({"response_filter": 5}, TypeError, "response_filter: expected an import path .*got int"),
        (
            {"pagination_function": "a.b", "paginator": Cursor("a", "b")},
            ValueError,
            "pagination_function: give either it or paginator",
        ),
        ({"rate_limit": "20"}, ValueError, 'rate_limit: expected a text such as "20/s"'),
        ({"rate_limit": "20", "deferrable": False}, ValueError, "rate_limit: expected a text"),
        ({"rate_limit": "20", "start_from_trigger": False}, ValueError, "rate_limit: expected a text"),
        ({"allowed_hosts": "files.example"}, TypeError, "allowed_hosts"),
        ({"allowed_hosts": ["https://files.example/"]}, ValueError, "allowed_hosts"),
        ({"rate_limit": 20}, TypeError, "rate_limit: expected a text"),
        ({"page_retries": -1}, ValueError, "page_retries.attempts: expected 0 or more, got -1"),
        ({"page_retries": "3"}, TypeError, "page_retries: expected a whole number"),
        ({"page_retries": {"tries": 3}}, ValueError, "page_retries: unknown field 'tries'"),
        (
            {"retry_args": {"a": 1}, "page_retries": 5},
            ValueError,
            "retry_args: give either it or page_retries",
        ),
        ({"paginator": {"type": "offset"}}, ValueError, "items_path: Offset goes on by the number of items"),
    ],
)
def test_wrong_argument_is_refused_at_parse_time(
    arguments: dict[str, Any], error: type[Exception], message: str
) -> None:
    """What cannot work is an error of the Dag, and the argument is named."""
    with pytest.raises(error, match=message):
        make(None, **arguments)


def test_credentials_of_a_dag_file_make_the_worker_page() -> None:
    """A class that a triggerer cannot import stays on the worker."""

    class OfADagFile:
        pass

    assert "auth_type is a callable" in why_not(make(None, auth_type=OfADagFile))


def test_unknown_paginator_is_refused_at_parse_time() -> None:
    """An unknown paginator lists the known ones."""
    with pytest.raises(ValueError, match=r"unknown type 'curser' \(did you mean 'cursor'\?\)"):
        make(paginator={"type": "curser"})


@pytest.mark.parametrize(
    "arguments",
    [
        {"outlets": [Asset("a")]},
        {"on_success_callback": print},
        {"on_execute_callback": print},
        {"pre_execute": print},
        {"post_execute": print},
        {"do_xcom_push": False},
    ],
)
def test_what_would_be_lost_ends_the_task_on_a_worker(arguments: dict[str, Any]) -> None:
    """Outlets, callbacks and hooks are reasons for one resume."""
    operator = make(**arguments)
    assert trigger_arguments(operator)["stream"] == {"finish_on": "worker"}


def test_ending_in_the_triggerer_with_a_loss_is_refused() -> None:
    """finish_on='triggerer' says what would be lost."""
    with pytest.raises(ValueError, match="outlets emit no asset event"):
        make(outlets=[Asset("a")], finish_on="triggerer")


@pytest.mark.parametrize(("name", "value"), [("max_pages", 0), ("max_bytes", -1), ("finish_on", "here")])
def test_wrong_limits_are_refused(name: str, value: Any) -> None:
    """A wrong option is an error with its name."""
    with pytest.raises(ValueError, match=name):
        make(**{name: value})


def test_subclass_is_judged_after_its_own_init() -> None:
    """Attributes that a subclass sets after super().__init__() take part in the decision."""

    class Counting(StreamingOperator):
        def __init__(self, *, count: int, **kwargs: Any) -> None:
            super().__init__(**kwargs)
            self.count = count

        def make_trigger(self, context: Mapping[str, Any]) -> StreamingTrigger:
            return Numbers(count=self.count)

    with DAG("d", schedule=None):
        operator = Counting(task_id="x", count=4)
    assert trigger_arguments(operator)["count"] == 4


def test_trigger_that_needs_the_context_starts_on_a_worker() -> None:
    """make_trigger that reads its context is not called in the scheduler."""

    class Dated(StreamingOperator):
        def make_trigger(self, context: Mapping[str, Any]) -> StreamingTrigger:
            return Numbers(count=context["ti"].try_number)

    with DAG("d", schedule=None):
        operator = Dated(task_id="x")
    assert why_not(operator) == "make_trigger needs 'ti' of the context"


SERIALIZE = """
import json
from airflow.sdk import DAG
from airflow.serialization.serialized_objects import DagSerialization
from airflow_provider_iteration.operators.http import HttpStreamingOperator
from airflow_provider_iteration.pagination import Cursor, MaxPages
with DAG("d", schedule=None) as dag:
    HttpStreamingOperator(task_id="a", endpoint="orders/{{ ds }}", method="GET", items_path="x",
                          paginator=Cursor("n", "p", stop=MaxPages(3)), data={"k": [1, {"m": None}]})
print(json.dumps(DagSerialization.to_dict(dag), sort_keys=True, default=str))
"""


def test_serialized_dag_is_equal_in_two_processes() -> None:
    """Nothing of a process gets into the serialized Dag."""

    def serialized() -> str:
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", SERIALIZE], capture_output=True, text=True, check=True
        )
        return done.stdout.splitlines()[-1]

    first = serialized()
    assert json.loads(first)["dag"]["tasks"]
    assert first == serialized()


def test_paginator_is_accepted_as_an_object_and_as_a_dict() -> None:
    """A paginator is an object or its dict."""
    as_object = make(paginator=Cursor("meta.next", "after"))
    as_dict = make(paginator={"type": "cursor", "path": "meta.next", "param": "after"})
    assert as_object.start_trigger_args == as_dict.start_trigger_args
