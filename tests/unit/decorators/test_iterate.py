# SPDX-License-Identifier: Apache-2.0
"""Functions over many items: what is refused when a Dag is parsed, and what runs."""

from __future__ import annotations

import asyncio
import json
import math
import os
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from contextvars import copy_context
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pytest
import structlog
from airflow.providers.standard.operators.python import ShortCircuitOperator
from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.providers.standard.sensors.python import PythonSensor
from airflow.sdk import (
    DAG,
    BaseHook,
    BaseOperator,
    BaseSensorOperator,
    Connection,
    get_current_context,
    task,
    task_group,
    teardown,
)
from airflow.sdk.definitions._internal.expandinput import DictOfListsExpandInput
from airflow.sdk.definitions.retry_policy import RetryDecision, RetryPolicy
from airflow.sdk.exceptions import (
    AirflowException,
    AirflowFailException,
    AirflowSensorTimeout,
    AirflowSkipException,
    DownstreamTasksSkipped,
    TaskDeferralError,
)
from airflow.sdk.execution_time.lazy_sequence import LazyXComSequence
from airflow.triggers.base import (
    BaseTrigger,
    TaskFailedEvent,
    TaskSkippedEvent,
    TaskSuccessEvent,
    TriggerEvent,
)

from airflow_provider_iteration import _compat
from airflow_provider_iteration._compat import ResolveMixin
from airflow_provider_iteration.decorators.iterate import IterateTask, iterate
from airflow_provider_iteration.exceptions import ItemsFailed
from airflow_provider_iteration.iteration.input_field import Data, ResolvedInput
from tests.support.state_store import MemoryStateStore
from tests.support.streams import RUN_A
from tests.support.triggers import SeveralEvents
from tests.unit.conftest import XComs


def current_index() -> Any:
    ti: Any = get_current_context()["ti"]
    return ti.index


class TaskInstance(SimpleNamespace):
    """What an iteration needs of a task instance."""

    def __init__(self) -> None:
        super().__init__(id=RUN_A, dag_id="shop", task_id="t", run_id="r1", map_index=-1, pushed={})

    def xcom_push(self, key: str, value: Any) -> None:
        self.pushed[key] = value


def execute(made: Any, ti: TaskInstance | None = None, **context: Any) -> Any:
    """Render and execute the operator behind a task's output, as a worker does."""
    operator = getattr(made, "operator", made)
    instance = ti or TaskInstance()
    full: Any = {"ti": instance, "task_instance": instance, "run_id": "r1", "params": {"a": 1}, **context}
    operator.render_template_fields(full)
    return operator.execute(full)


def run(function: Callable[..., Any], options: dict[str, Any] | None = None, /, **inputs: Any) -> list[Any]:
    """Iterate over inputs and return the results."""
    with DAG("d", schedule=None):
        made: Any = iterate(**(options or {}))(function).override(task_id="t").iterate(**inputs)
    return list(execute(made))


async def double(x: int) -> int:
    return 2 * x


def triple(x: int) -> int:
    return 3 * x


def test_coroutine_function_over_a_list(xcoms: XComs) -> None:
    """All items run in one task instance; the results are in the order of the input."""
    assert run(double, x=list(range(1000))) == [2 * x for x in range(1000)]


def test_function_in_threads(xcoms: XComs) -> None:
    """A plain function runs in threads, with the same result."""
    assert run(triple, x=range(100)) == [3 * x for x in range(100)]


def test_cross_product_and_pairs(xcoms: XComs) -> None:
    """M4: several inputs are iterated over as by expand(), mappings as pairs."""
    assert run(lambda x, y: [x, *y], x=[1, 2], y={"a": 3, "b": 4}) == [
        [1, "a", 3],
        [1, "b", 4],
        [2, "a", 3],
        [2, "b", 4],
    ]


def test_one_value_is_one_item(xcoms: XComs) -> None:
    """A text is one item, not its letters."""
    assert run(lambda x: x, x="text") == ["text"]


def test_constants_are_rendered_once_and_literals_for_each_item(xcoms: XComs) -> None:
    """What is written in the Dag may be a template."""
    with DAG("d", schedule=None):
        made = (
            iterate(lambda x, run: f"{run}-{x}")
            .override(task_id="t")
            .partial(run="{{ run_id }}")
            .iterate(x=["{{ params.a }}", "plain"])
        )
    assert list(execute(made)) == ["r1-1", "r1-plain"]


def test_iterate_kwargs(xcoms: XComs) -> None:
    """Each item has its own arguments."""
    with DAG("d", schedule=None):
        made: Any = (
            iterate(lambda x, y=0: [x, y]).override(task_id="t").iterate_kwargs([{"x": 1}, {"x": 2, "y": 3}])
        )
    assert list(execute(made)) == [[1, 0], [2, 3]]


async def test_none_keeps_its_place_and_skipped_items_have_none(xcoms: XComs) -> None:
    """An item that returns None counts, one that is skipped does not."""

    def work(x: int) -> int | None:
        if x == 1:
            raise AirflowSkipException
        return None if x == 2 else x

    with DAG("d", schedule=None):
        made: Any = iterate(work).iterate(x=range(4))
    assert await asyncio.to_thread(lambda: list(execute(made))) == [0, None, 3]


def test_context_is_that_of_the_item(xcoms: XComs) -> None:
    """Two coroutines that read their context in turns see each their own index."""
    both = 2
    seen: list[tuple[int, int]] = []
    barrier: list[Any] = []

    async def work(x: int) -> None:
        if not barrier:
            barrier.append(asyncio.Barrier(both))
        for _ in range(3):
            await barrier[0].wait()
            before = current_index()
            await asyncio.sleep(0)
            seen.append((before, current_index()))
            assert before == x

    run(work, {"task_concurrency": both}, x=[0, 1])
    assert sorted(seen) == [(0, 0)] * 3 + [(1, 1)] * 3


def test_context_goes_with_to_thread(xcoms: XComs) -> None:
    """Keys that are pushed from asyncio.to_thread carry the item's index."""
    ti = TaskInstance()

    async def work(x: int) -> None:
        await asyncio.to_thread(lambda: get_current_context()["ti"].xcom_push("key", x))

    with DAG("d", schedule=None):
        made: Any = iterate(work).iterate(x=[5, 6, 7])
    execute(made, ti)
    assert ti.pushed == {"key_0": 5, "key_1": 6, "key_2": 7}


def test_bare_thread_gets_an_error(xcoms: XComs) -> None:
    """A thread that carries no item must not see the context of another one."""
    errors: list[BaseException] = []

    def read() -> None:
        try:
            get_current_context()["ti"]
        except RuntimeError as error:
            errors.append(error)

    def work(x: int) -> None:
        thread = threading.Thread(target=read)
        thread.start()
        thread.join()

    run(work, x=[1])
    assert "no item is worked on in this thread" in str(errors[0])


def test_function_may_ask_for_its_context(xcoms: XComs) -> None:
    """Names of the context are given to parameters, the task instance as the item sees it."""
    assert run(lambda x, ti, run_id: [x, ti.index, run_id], x=["a", "b"]) == [["a", 0, "r1"], ["b", 1, "r1"]]


def test_resources_are_entered_once(xcoms: XComs) -> None:
    """A resource is opened once for the task instance and given by its name."""
    opened: list[str] = []

    @contextmanager
    def session() -> Iterator[str]:
        opened.append("in")
        yield "session"
        opened.append("out")

    def work(x: int, session: str) -> str:
        return f"{session}{x}"

    assert run(work, {"resources": {"session": session}}, x=[1, 2]) == ["session1", "session2"]
    assert opened == ["in", "out"]


def test_failed_items_are_summed_up(xcoms: XComs) -> None:
    """All items run; then the task fails with the indexes."""

    def work(x: int) -> int:
        if x % 2:
            raise ValueError(f"odd {x}")
        return x

    with pytest.raises(ItemsFailed, match=r"2 of 5 items failed \(2 ValueError\), at index 1, 3"):
        run(work, x=range(5))


def test_one_failure_is_its_own_error(xcoms: XComs) -> None:
    """One failed item raises what it raised."""

    def work(x: int) -> int:
        return 1 // x

    with pytest.raises(ZeroDivisionError):
        run(work, x=[1, 0, 2])


def test_retries_and_what_ends_them(xcoms: XComs) -> None:
    """An item is tried again; AirflowFailException ends its retries."""
    tried: list[int] = []

    def work(x: int) -> int:
        tried.append(x)
        if x == 1:
            raise AirflowFailException("no use")
        if tried.count(x) < 3:
            raise ValueError("again")
        return x

    options = {"item_retries": 5, "item_retry_delay": 0, "task_concurrency": 1}
    with pytest.raises(AirflowFailException):
        run(work, options, x=[0, 1])
    assert tried == [0, 0, 0, 1]


def test_result_that_cannot_be_stored_fails_its_item(xcoms: XComs) -> None:
    """A result that is no JSON fails that item alone, with its type."""

    def work(x: int) -> Any:
        return object() if x == 1 else x

    assert run(work, {"max_failed_items": 1}, x=range(3)) == [0, 2]


@pytest.mark.parametrize("inputs", [[], {}])
def test_empty_input_is_skipped(xcoms: XComs, inputs: Any) -> None:
    """No item: the task is skipped."""
    with pytest.raises(AirflowSkipException, match="there were no items"):
        run(double, x=inputs)


def test_direct_downstream_is_skipped_with_items(xcoms: XComs, monkeypatch: pytest.MonkeyPatch) -> None:
    """M6: if some items were skipped, downstream tasks that want all to succeed are skipped too."""
    monkeypatch.setattr(_compat, "push_result", lambda ti, value, log: ti.xcom_push("return_value", value))

    def work(x: int) -> int:
        if x:
            raise AirflowSkipException
        return x

    ti = TaskInstance()
    with DAG("d", schedule=None):
        made: Any = iterate(work).iterate(x=[0, 1])

        @task
        def after(x: Any) -> None: ...

        @task(trigger_rule="none_failed")
        def anyway(x: Any) -> None: ...

        after(made)
        anyway(made)
    with pytest.raises(DownstreamTasksSkipped) as caught:
        execute(made, ti)
    assert caught.value.tasks == ["after"]
    assert list(ti.pushed["return_value"]) == [0]


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"task_concurrency": 0}, ValueError, "task_concurrency"),
        ({"task_concurrency": True}, TypeError, "task_concurrency"),
        ({"task_concurrency": "4"}, TypeError, "task_concurrency"),
        ({"item_retries": -1}, ValueError, "item_retries"),
        ({"rate_limit": "20"}, ValueError, "rate_limit"),
        ({"resources": {"s": 5}}, TypeError, "s"),
    ],
)
def test_wrong_option_is_refused_at_parse_time(
    options: dict[str, Any], error: type[Exception], message: str
) -> None:
    """The option is named."""
    with pytest.raises(error, match=message):
        iterate(**options)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda t: t.iterate(), TypeError, "no arguments to iterate over"),
        (lambda t: t.iterate(y=[1]), TypeError, r"double\(\) has no parameter 'y'"),
        (lambda t: t.iterate(x=None), TypeError, "x: cannot iterate over a value of type None"),
        (lambda t: t.iterate(ti=[1]), ValueError, "'ti' is a name of the task's context"),
        (lambda t: t.partial(x=1).iterate(x=[1]), TypeError, r"'x' is given in partial\(\) already"),
        (lambda t: t.iterate_kwargs("text"), TypeError, "expected a list of mappings or a task's output"),
        (lambda t: t.iterate_kwargs([{"x": 1}, 5]), TypeError, "item 1 is int, not a mapping"),
    ],
)
def test_wrong_input_is_refused_at_parse_time(
    make: Callable[[IterateTask], Any], error: type[Exception], message: str
) -> None:
    """What can be known from the Dag is said there."""
    with pytest.raises(error, match=message), DAG("d", schedule=None):
        make(iterate(double))


def test_missing_parameter_is_refused_at_parse_time() -> None:
    """A parameter without any value is named."""
    with pytest.raises(TypeError, match=r"has no value for its parameter 'y'"), DAG("d", schedule=None):
        iterate(lambda x, y: x).iterate(x=[1])


def test_plain_call_is_an_ordinary_task() -> None:
    """Without iterate() the function is a task like any other."""
    with DAG("d", schedule=None):
        made: Any = iterate(task_concurrency=3)(double)(5)
    assert made.operator.task_type == "_PythonDecoratedOperator"


def test_override_takes_options_of_both() -> None:
    """override() changes options of the iteration and arguments of the task."""
    with DAG("d", schedule=None):
        made: Any = iterate(double).override(task_id="other", task_concurrency=3).iterate(x=[1])
    assert (made.operator.task_id, made.operator.options.task_concurrency) == ("other", 3)


def test_upstream_edges_are_kept() -> None:
    """An input that is a task's output makes the task wait for it, in lists too."""
    with DAG("d", schedule=None):

        @task
        def numbers() -> list[int]:
            return [1]

        made: Any = iterate(double).iterate(x=[numbers(), numbers.override(task_id="more")()])
    assert made.operator.upstream_task_ids == {"numbers", "more"}


def test_dict_annotation_does_no_harm(xcoms: XComs) -> None:
    """A function that says that it returns a dict still has one result."""

    def work(x: int) -> dict[str, int]:
        return {"x": x}

    with DAG("d", schedule=None):
        made: Any = iterate(work).iterate(x=[1])
    assert list(execute(made)) == [{"x": 1}]


SERIALIZE = """
import json
from airflow.sdk import DAG
from airflow.serialization.serialized_objects import DagSerialization
from airflow_provider_iteration.decorators.iterate import iterate
def work(x): return x
with DAG("d", schedule=None) as dag:
    iterate(work).iterate(x=[{"n": n} for n in range(10_000)])
print("DAG:" + json.dumps(DagSerialization.to_dict(dag)["dag"]["tasks"], sort_keys=True))
"""


def test_serialized_dag_is_small_and_equal_in_two_processes() -> None:
    """A literal of 10,000 items is not in the stored Dag."""
    texts = {
        subprocess.run(
            [sys.executable, "-c", SERIALIZE], capture_output=True, text=True, check=True
        ).stdout.rpartition("DAG:")[2]
        for _ in range(2)
    }
    assert len(texts) == 1
    text = texts.pop()
    assert len(text) < 5_000
    assert "10000 items" in json.dumps(json.loads(text))


class Greeter(BaseOperator):
    """An operator with a template field."""

    template_fields = ("greeting",)

    def __init__(self, *, greeting: str, name: Any = "nobody", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.greeting = greeting
        self.name = name

    def execute(self, context: Any) -> str:
        return f"{self.greeting} {self.name}"


class Waiter(BaseOperator):
    """An operator that defers twice."""

    def __init__(self, *, number: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.number = number

    def execute(self, context: Any) -> None:
        self.defer(trigger=Numbers(count=self.number), method_name="second")

    def second(self, context: Any, event: Any) -> None:
        self.defer(trigger=SeveralEvents(5), method_name="third", kwargs={"first": event})

    def third(self, context: Any, event: Any, first: Any) -> list[Any]:
        return [self.number, first, event, current_index()]


class Numbers(BaseTrigger):
    """A trigger whose event is its number."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.count = count

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return f"{__name__}.Numbers", {"count": self.count}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        await asyncio.sleep(0)
        yield TriggerEvent(self.count)


def test_operator_for_each_item(xcoms: XComs) -> None:
    """Templates of an operator are rendered for each item, in its context; data is not."""
    with DAG("d", schedule=None):
        made = iterate(Greeter.partial(task_id="t", greeting="{{ run_id }}-{{ ti.index }}")).iterate(
            name=["{{ not a template }}", "b"]
        )
    assert list(execute(made)) == ["r1-0 {{ not a template }}", "r1-1 b"]
    assert made.operator_name == "Greeter"


def test_operator_that_defers_is_run_to_its_end(xcoms: XComs) -> None:
    """A deferral is worked off in the process, each further one too."""
    with DAG("d", schedule=None):
        made = iterate(Waiter.partial(task_id="t")).iterate(number=[7, 8])
    assert list(execute(made)) == [[7, 7, 0, 0], [8, 8, 0, 1]]


def test_output_of_another_task_among_the_constants() -> None:
    """An output in partial() makes the task wait for it."""
    with DAG("d", schedule=None):

        @task
        def name() -> str:
            return "x"

        made = iterate(Greeter.partial(task_id="t", greeting=name())).iterate(name=["a"])
    assert made.upstream_task_ids == {"name"}


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (
            lambda: iterate(Greeter.partial(task_id="t")).iterate(nme=["a"]),
            TypeError,
            "unexpected keyword argument 'nme'",
        ),
        (
            lambda: iterate(Greeter.partial(task_id="t", name="a")).iterate(name=["b"]),
            TypeError,
            r"'name' is given in partial\(\) already",
        ),
        (
            lambda: iterate(ShortCircuitOperator.partial(task_id="t")),
            TypeError,
            "ShortCircuitOperator skips downstream tasks",
        ),
        (
            lambda: iterate(TriggerDagRunOperator.partial(task_id="t")),
            TypeError,
            "TriggerDagRunOperator triggers Dag runs",
        ),
        (
            lambda: iterate(PythonSensor.partial(task_id="t", mode="reschedule")),
            TypeError,
            "PythonSensor with mode='reschedule'",
        ),
        (
            lambda: iterate(Greeter.partial(task_id="t"), task_concurency=3),
            TypeError,
            r"unknown option 'task_concurency'",
        ),
    ],
)
def test_operator_that_cannot_be_iterated(make: Any, error: type[Exception], message: str) -> None:
    """What cannot work is refused when the Dag is parsed, with what to do."""
    with pytest.raises(error, match=message), DAG("d", schedule=None):
        make()


class NeverAgain(RetryPolicy):
    """Ends the retries of one kind of error."""

    def evaluate(self, exception: Any, try_number: int, max_tries: int, context: Any = None) -> RetryDecision:
        return RetryDecision.fail() if isinstance(exception, KeyError) else RetryDecision.default()


def test_retry_policy_is_asked_for_each_item(xcoms: XComs) -> None:
    """C4: a task's retry_policy decides about its items."""
    tried: list[int] = []

    def work(x: int) -> int:
        tried.append(x)
        raise KeyError(x) if x == 0 else ValueError(x)

    options = {
        "retry_policy": NeverAgain(),
        "item_retries": 2,
        "item_retry_delay": 0,
        "task_concurrency": 1,
    }
    with pytest.raises(ItemsFailed):
        run(work, options, x=[0, 1])
    assert tried == [0, 1, 1, 1]


def test_log_lines_carry_the_index(xcoms: XComs) -> None:
    """What an item logs says which item it was."""
    bound: list[Any] = []

    async def work(x: int) -> None:
        await asyncio.sleep(0)
        bound.append(structlog.contextvars.get_contextvars()["item"])

    run(work, x=["a", "b"])
    assert sorted(bound) == [0, 1]


def test_decorator_is_registered() -> None:
    """`@task.iterate` is the same decorator."""
    with DAG("d", schedule=None):
        decorated: Any = task.iterate(task_concurrency=3)(double)
        made = decorated.iterate(x=[1])
    assert made.operator.options.task_concurrency == 3


def test_iteration_in_a_task_group_and_as_a_teardown() -> None:
    """Groups give their prefix; setups and teardowns are what they were marked as."""
    with DAG("d", schedule=None):

        @task_group
        def group() -> Any:
            return iterate(Greeter.partial(task_id="t", greeting="a")).iterate(name=["b"])

        @teardown
        @iterate
        def clean(x: int) -> None: ...

        made: Any = group()
        assert made.task_id == "group.t"
        assert clean.iterate(x=[1]).operator.is_teardown is True


class StateStore(dict[str, Any]):
    """A state store that is a dict."""

    def set(self, key: str, value: Any) -> None:
        self[key] = value


def test_callbacks_are_called_for_each_item(xcoms: XComs) -> None:
    """on_success_callback and on_skipped_callback are those of items, in their contexts, not of the task."""
    called: list[tuple[str, int]] = []

    def work(x: int) -> int:
        if x == 1:
            raise AirflowSkipException
        return x

    with DAG("d", schedule=None):
        made = iterate(
            on_success_callback=lambda context: called.append(("success", context["ti"].index)),
            on_skipped_callback=lambda context: called.append(("skipped", context["ti"].index)),
        )(work).iterate(x=range(3))
    execute(made)
    assert sorted(called) == [("skipped", 1), ("success", 0), ("success", 2)]
    assert not getattr(made, "operator").on_success_callback  # noqa: B009


def test_callback_that_fails_does_no_harm(xcoms: XComs) -> None:
    """No item fails for its callback."""

    def fail(context: Any) -> None:
        raise RuntimeError("callback")

    assert run(double, {"on_success_callback": fail}, x=[1]) == [2]


def test_failed_item_is_told_of_once(xcoms: XComs) -> None:
    """on_item_failed has the item's context and its error, after the last retry."""
    told: list[tuple[int, str]] = []

    def work(x: int) -> int:
        return 1 // x

    options = {
        "on_item_failed": lambda context: told.append((context["ti"].index, repr(context["exception"]))),
        "item_retries": 2,
        "item_retry_delay": 0,
        "max_failed_items": 1,
    }
    assert run(work, options, x=[1, 0]) == [1]
    assert told == [(1, "ZeroDivisionError('integer division or modulo by zero')")]


@pytest.mark.parametrize("label", ["order {{ x.id }} of {{ run_id }}", lambda arguments: "order 7 of r1"])
def test_label_is_in_the_error(xcoms: XComs, label: Any) -> None:
    """An item's label names it where its index says little."""

    def work(x: Any) -> None:
        raise ValueError("wrong")

    with pytest.raises(ValueError, match="wrong") as caught:
        run(work, {"item_label": label}, x=[{"id": 7}])
    assert "item_label: order 7 of r1" in caught.value.__notes__


def test_indexed_results(xcoms: XComs) -> None:
    """xcom_layout='indexed' also pushes each result under its own key."""
    ti = TaskInstance()
    with DAG("d", schedule=None):
        made = iterate(xcom_layout="indexed")(double).iterate(x=[1, 2])
    assert list(execute(made, ti)) == [2, 4]
    assert ti.pushed == {"return_value_0": 2, "return_value_1": 4}


def test_no_results(xcoms: XComs) -> None:
    """do_xcom_push=False keeps nothing, and anything may be returned."""
    with DAG("d", schedule=None):
        made = iterate(do_xcom_push=False)(lambda x: object()).override(task_id="t").iterate(x=[1])
    assert execute(made) is None
    assert xcoms.rows == {}


def test_results_are_logged_if_asked_for(xcoms: XComs, capsys: pytest.CaptureFixture[str]) -> None:
    """show_return_value_in_logs logs a line for each item."""
    run(double, {"show_return_value_in_logs": True}, x=[21])
    assert "Item returned" in capsys.readouterr().out


def test_progress_is_left_where_a_page_can_read_it(xcoms: XComs) -> None:
    """The last snapshot stays in the task's state store."""
    store = StateStore()
    with DAG("d", schedule=None):
        made = iterate(double).iterate(x=[1, 2, 3])
    execute(made, task_state_store=store)
    kept = store["iteration_progress"]
    assert (kept["done"], kept["succeeded"], kept["total"]) == (3, 3, 3)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"item_label": 5}, TypeError),
        ({"on_item_failed": "f"}, TypeError),
        ({"xcom_layout": "rows"}, ValueError),
        ({"show_return_value_in_logs": 1}, TypeError),
    ],
)
def test_wrong_item_option(options: dict[str, Any], error: type[Exception]) -> None:
    """The option is named."""
    with pytest.raises(error, match=next(iter(options))):
        iterate(**options)


class FakeMapped(LazyXComSequence):  # type: ignore[type-arg]
    """The outputs of 10,000 mapped instances, which counts how it is read."""

    def __init__(self) -> None:
        self.reads: list[Any] = []

    def __getitem__(self, key: Any) -> Any:
        self.reads.append(key)
        return list(range(10_000))[key]

    def __len__(self) -> int:
        raise AssertionError("a length costs a request, and is not needed")


def test_mapped_upstream_is_read_in_slices() -> None:
    """M1: ten thousand outputs of a mapped task are read in slices, not one by one."""
    mapped = FakeMapped()
    resolved = ResolvedInput({"x": Data(mapped)}, whole=False)
    assert [each["x"].value for each in resolved.items()] == list(range(10_000))
    assert len(mapped.reads) <= 10_000 // 256 + 2
    assert all(isinstance(key, slice) for key in mapped.reads)


def test_rendered_field_reads_no_row() -> None:
    """What the UI shows of an input is a summary."""
    mapped = FakeMapped()
    resolved = ResolvedInput({"x": Data(mapped), "y": [1, 2]}, whole=False)
    assert resolved.serialize() == {"x": "outputs of a mapped task", "y": "2 items"}
    assert mapped.reads == []


class CountingBackend:
    """A secrets backend that counts its lookups."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def get_connection(self, conn_id: str) -> Connection:
        self.asked.append(conn_id)
        return Connection(conn_id=conn_id, conn_type="http", host="shop")


@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch) -> CountingBackend:
    made = CountingBackend()
    monkeypatch.setattr("airflow.sdk.execution_time.supervisor.ensure_secrets_backend_loaded", lambda: [made])
    monkeypatch.setattr("airflow.sdk.execution_time.context._mask_connection_secrets", lambda conn: None)
    return made


def test_connection_is_looked_up_once(xcoms: XComs, backend: CountingBackend) -> None:
    """A lookup is a request to the api-server: a thousand items make one."""
    assert run(lambda x: BaseHook.get_connection("shop").host, x=range(1000)) == ["shop"] * 1000
    assert backend.asked == ["shop"]


def test_connection_of_an_operator_is_looked_up_beforehand(xcoms: XComs, backend: CountingBackend) -> None:
    """An operator names its connection, so that coroutines find it as well."""

    class Asking(BaseOperator):
        def __init__(self, *, shop_conn_id: str, n: int, **kwargs: Any) -> None:
            super().__init__(**kwargs)
            self.shop_conn_id = shop_conn_id

        def execute(self, context: Any) -> Any:
            return BaseHook.get_connection(self.shop_conn_id).host

    with DAG("d", schedule=None):
        made = iterate(Asking.partial(task_id="t", shop_conn_id="shop")).iterate(n=list(range(50)))
    assert list(execute(made)) == ["shop"] * 50
    assert backend.asked == ["shop"]


async def test_deferred_items_count_as_in_flight(xcoms: XComs) -> None:
    """C1: never more items than the limit are worked on, those that wait for a trigger counted."""
    live: list[int] = []
    most: list[int] = []

    class Counted(BaseOperator):
        def __init__(self, *, number: int, **kwargs: Any) -> None:
            super().__init__(**kwargs)
            self.number = number

        def execute(self, context: Any) -> None:
            live.append(self.number)
            most.append(len(live))
            self.defer(trigger=Numbers(count=self.number), method_name="done")

        def done(self, context: Any, event: Any) -> Any:
            live.remove(self.number)
            return event

    with DAG("d", schedule=None):
        made = iterate(Counted.partial(task_id="t"), task_concurrency=3).iterate(number=list(range(40)))
    assert await asyncio.to_thread(lambda: list(execute(made))) == list(range(40))
    assert max(most) <= 3


def test_results_of_airflows_own_types(xcoms: XComs) -> None:
    """What Airflow's XComs take is taken here too: dates, decimals, and what holds them."""
    moment = datetime(2026, 11, 30, 12, tzinfo=UTC)
    values = [{"at": moment, "price": Decimal("1.50")}, [moment], {1, 2}]
    results = run(lambda n: values[n], n=range(3))
    assert results == values
    assert results[0]["at"].utcoffset() == timedelta(0)


def test_one_pool_slot_for_all_items() -> None:
    """C3: a task instance takes one slot of its pool, however many items run at a time."""
    with DAG("d", schedule=None):
        made = iterate(Greeter.partial(task_id="t", greeting="a", pool="small"), task_concurrency=50).iterate(
            name=["b"]
        )
    assert (made.pool, made.pool_slots) == ("small", 1)


def test_input_that_turns_out_to_be_none(xcoms: XComs) -> None:
    """An upstream task that returned nothing is an error that names the argument."""
    with DAG("d", schedule=None):
        made = iterate(double).iterate(x=[1])
    operator: Any = getattr(made, "operator")  # noqa: B009
    instance = TaskInstance()
    operator.input = ResolvedInput({"x": Data(None)}, whole=False)
    with pytest.raises(TypeError, match="x: cannot iterate over a value of type None"):
        operator.execute({"ti": instance, "task_instance": instance})


def test_misspelt_option_is_refused_at_parse_time() -> None:
    """An option that there is not is named when the Dag is parsed."""
    with pytest.raises(TypeError, match="task_concurency"), DAG("d", schedule=None):
        iterate(task_concurency=3)(double).iterate(x=[1])


class Given(ResolveMixin):
    """The output of another task, already there."""

    def __init__(self, source: Any, value: Any) -> None:
        self.source = source
        self.value = value

    def iter_references(self) -> Any:
        return self.source.iter_references()

    def resolve(self, context: Any) -> Any:
        return self.value


EVIL = "{{ run_id }}"


@pytest.mark.parametrize(
    "make",
    [
        lambda t, given: t.iterate(x=given([EVIL])),
        lambda t, given: t.iterate(x=[given(EVIL)]),
        lambda t, given: t.iterate(x=[{"deep": [given(EVIL)]}]),
        lambda t, given: t.iterate_kwargs(given([{"x": EVIL}])),
        lambda t, given: t.iterate_kwargs([given({"x": EVIL})]),
        lambda t, given: t.iterate_kwargs([{"x": given(EVIL)}]),
    ],
)
def test_data_never_runs_as_a_template(xcoms: XComs, make: Any) -> None:
    """What another task returned is data, wherever it stands among what was written in the Dag."""
    with DAG("d", schedule=None):

        @task
        def source() -> str:
            return "x"

        output = source()
        made = make(iterate(lambda x: str(x)).override(task_id="t"), lambda value: Given(output, value))
    assert made.operator.upstream_task_ids == {"source"}
    (result,) = execute(made)
    assert EVIL in result


def test_constant_from_another_task_is_data(xcoms: XComs) -> None:
    """An output in partial() is not rendered again for each item."""
    with DAG("d", schedule=None):

        @task
        def greeting() -> str:
            return EVIL

        made = iterate(Greeter.partial(task_id="t", greeting=greeting())).iterate_kwargs([{"name": "n"}])
    instance = TaskInstance()
    made.constants = {"greeting": EVIL}
    made.input = ResolvedInput([{"name": "n"}], whole=True)
    context: Any = {"ti": instance, "task_instance": instance, "run_id": "r1"}
    assert list(made.execute(context) or []) == [f"{EVIL} n"]


@pytest.mark.parametrize(
    "make",
    [
        lambda s: iterate(Greeter.partial(task_id="t", greeting={"k": s})).iterate(name=["a"]),
        lambda s: iterate(Greeter.partial(task_id="t", greeting="a")).iterate_kwargs([{"name": s}]),
        lambda s: iterate(Greeter.partial(task_id="t", greeting="a")).iterate(name=[{"k": [s]}]),
        lambda s: iterate(Greeter.partial(task_id="t", greeting="a")).iterate(name={"k": s}),
    ],
)
def test_edges_of_nested_outputs(make: Any) -> None:
    """Another task's output is waited for at every depth."""
    with DAG("d", schedule=None):

        @task
        def source() -> str:
            return "x"

        made = make(source())
    assert made.upstream_task_ids == {"source"}


class Ending(BaseTrigger):
    """A trigger that ends in the way that it is told."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how = how

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return f"{__name__}.Ending", {"how": self.how}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        kinds: dict[str, Any] = {
            "failed": TaskFailedEvent,
            "skipped": TaskSkippedEvent,
            "success": TaskSuccessEvent,
        }
        if self.how in kinds:
            yield kinds[self.how]()
        elif self.how == "error":
            raise TimeoutError("db said so")
        elif self.how == "slow":
            await asyncio.sleep(60)


class Ender(BaseSensorOperator):
    """A deferrable sensor whose trigger ends in a way of its own."""

    def __init__(self, *, how: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.how = how

    def execute(self, context: Any) -> None:
        self.defer(trigger=Ending(self.how), method_name="done", timeout=timedelta(seconds=0.2))

    def done(self, context: Any, event: Any = None) -> str:
        return "resumed"


def ended(how: str, **arguments: Any) -> list[Any]:
    with DAG("d", schedule=None):
        made = iterate(Ender.partial(task_id="t", **arguments), item_retries=0).iterate(how=[how, "success"])
    return list(execute(made))


@pytest.mark.parametrize(("how", "results"), [("success", [None, None]), ("skipped", [None])])
def test_trigger_that_ends_its_task(xcoms: XComs, how: str, results: list[None]) -> None:
    """Events that end a task end the item, without a resume."""
    assert ended(how) == results


def test_trigger_that_fails_its_task(xcoms: XComs) -> None:
    """An event that fails a task fails the item."""
    with pytest.raises(AirflowException, match="the trigger ended the task as failed"):
        ended("failed")


def test_trigger_without_an_event(xcoms: XComs) -> None:
    """A trigger that exits without an event fails its item."""
    with pytest.raises(TaskDeferralError):
        ended("nothing")


def test_own_timeout_of_a_trigger_is_a_failure_of_it(xcoms: XComs) -> None:
    """A TimeoutError of the trigger's own is not the deferral's."""
    with pytest.raises(TaskDeferralError):
        ended("error")


def test_deferral_that_takes_too_long_is_told_to_the_sensor(xcoms: XComs) -> None:
    """A sensor makes of it what it makes of it in Airflow: an error that ends retries, or a skip."""
    with pytest.raises(AirflowSensorTimeout):
        ended("slow")


def test_deferral_that_takes_too_long_may_be_a_skip(xcoms: XComs) -> None:
    """With soft_fail the sensor skips its item."""
    assert ended("slow", soft_fail=True) == [None]


def test_operator_is_told_when_it_is_cut_off(xcoms: XComs) -> None:
    """on_kill of the operator of each live item is called once."""
    told: list[int] = []
    release = threading.Event()

    class Blocked(BaseOperator):
        def __init__(self, *, number: int, **kwargs: Any) -> None:
            super().__init__(**kwargs)
            self.number = number

        def execute(self, context: Any) -> None:
            release.wait(30)

        def on_kill(self) -> None:
            told.append(self.number)
            if len(told) == 2:
                release.set()

    with DAG("d", schedule=None):
        made = iterate(Blocked.partial(task_id="t"), item_timeout=0.3).iterate(number=[1, 2])
    with pytest.raises(ItemsFailed, match="ItemTimeout"):
        execute(made)
    assert release.wait(30)
    assert sorted(told) == [1, 2]


def test_teardown_keeps_its_rules() -> None:
    """A teardown runs whatever became of the work, and may fail the run."""
    with DAG("d", schedule=None):
        down: Any = teardown(on_failure_fail_dagrun=True)(iterate(double))
        operator = down.iterate(x=[1]).operator
    assert str(operator.trigger_rule.value) == "all_done_setup_success"
    assert operator.on_failure_fail_dagrun is True


def test_default_args_reach_the_operators(xcoms: XComs) -> None:
    """What the Dag gives to all its tasks is given to the operators of items."""
    with DAG("d", schedule=None, default_args={"greeting": "hi"}):
        made = iterate(Greeter.partial(task_id="load.orders")).iterate(name=["a"])
    assert made.task_id == "load.orders"
    assert list(execute(made)) == ["hi a"]


def test_progress_is_kept_when_the_task_fails(xcoms: XComs) -> None:
    """How far it came is known of a failed task too."""
    store = StateStore()

    def work(x: int) -> int:
        return 1 // x

    with DAG("d", schedule=None):
        made = iterate(work).iterate(x=[1, 0])
    with pytest.raises(ZeroDivisionError):
        execute(made, task_state_store=store)
    assert store["iteration_progress"]["failed"] == 1


def test_state_store_that_fails_does_no_harm(xcoms: XComs) -> None:
    """No task fails for what is only shown."""

    class Broken(StateStore):
        def set(self, key: str, value: Any) -> None:
            raise RuntimeError("api down")

    with DAG("d", schedule=None):
        made = iterate(double).iterate(x=[1])
    assert list(execute(made, task_state_store=Broken())) == [2]


def test_empty_input_is_told_to_on_skipped_callback(xcoms: XComs) -> None:
    """A task that is skipped for want of items calls its callback."""
    called: list[str] = []
    with DAG("d", schedule=None):
        made = iterate(on_skipped_callback=lambda context: called.append("skipped"))(double).iterate(x=[])
    with pytest.raises(AirflowSkipException):
        execute(made)
    assert called == ["skipped"]


def generator(x: int) -> Iterator[int]:
    yield x


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: iterate(double).iterate_kwargs([{"y": 1}]), TypeError, r"double\(\) has no parameter 'y'"),
        (
            lambda: iterate(Greeter.partial(task_id="t", greeting="a")).iterate_kwargs([{"nme": 1}]),
            TypeError,
            "unexpected keyword argument 'nme'",
        ),
        (
            lambda: iterate(PythonSensor.partial(task_id="t")).iterate(mode=["reschedule"]),
            TypeError,
            "mode='reschedule'",
        ),
        (lambda: iterate(generator).iterate(x=[1]), TypeError, r"generator\(\) is a generator"),
        (lambda: iterate(multiple_outputs=True), TypeError, "multiple_outputs: an iterated task"),
        (
            lambda: iterate(do_xcom_push=False, xcom_layout="indexed")(double).iterate(x=[1]),
            ValueError,
            "xcom_layout='indexed': do_xcom_push=False",
        ),
    ],
)
def test_more_that_is_refused_at_parse_time(make: Any, error: type[Exception], message: str) -> None:
    """What can be known from the Dag is said there."""
    with pytest.raises(error, match=message), DAG("d", schedule=None):
        make()


class Watermark(BaseOperator):
    """Keeps a cursor in the task's state store, in its own thread or after a deferral."""

    def __init__(self, *, number: int, defers: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.number = number
        self.defers = defers

    def execute(self, context: Any) -> int:
        if self.defers:
            self.defer(trigger=Numbers(count=self.number), method_name="keep")
        return self.keep(context)

    def keep(self, context: Any, event: Any = None) -> int:
        store: Any = context["task_state_store"]
        store.set("cursor", self.number)
        kept: Any = get_current_context()
        return int(kept["task_state_store"].get("cursor"))


@pytest.mark.parametrize("defers", [False, True])
def test_state_of_items_is_kept_apart(xcoms: XComs, defers: bool) -> None:
    """Items of one task instance share no key, also those that defer."""
    store = MemoryStateStore()
    with DAG("d", schedule=None):
        made = iterate(Watermark.partial(task_id="t", defers=defers)).iterate(number=[5, 6, 7])
    assert list(execute(made, task_state_store=store)) == [5, 6, 7]
    assert [store.get(f"cursor_{index}") for index in range(3)] == [5, 6, 7]
    assert store.get("cursor") is None


async def test_environment_is_never_changed_for_an_item(xcoms: XComs) -> None:
    """It belongs to the process: items at the same time would see each other's."""
    before = dict(os.environ)

    def seen(x: int) -> bool:
        return dict(os.environ) == before

    assert await asyncio.to_thread(run, seen, {}, x=list(range(20))) == [True] * 20
    assert dict(os.environ) == before


def test_executor_of_the_loop_gets_an_error(xcoms: XComs) -> None:
    """`run_in_executor` carries no context, as a bare thread does not; copy_context().run helps."""
    told: list[str] = []

    async def work(x: int) -> Any:
        loop = asyncio.get_running_loop()
        with pytest.raises(RuntimeError, match="copy_context"):
            await loop.run_in_executor(None, current_index)
        told.append("refused")
        return await loop.run_in_executor(None, copy_context().run, current_index)

    assert run(work, x=["a", "b", "c"]) == [0, 1, 2]
    assert told == ["refused"] * 3


def test_labels_and_types_in_the_ui() -> None:
    """operator_name is that of what is iterated; task_type stays the class that Airflow loads."""

    class Named(Greeter):
        custom_operator_name = "@task.named"

    with DAG("d", schedule=None):
        operator = iterate(Greeter.partial(task_id="t", greeting="a")).iterate(name=["b"])
        named = iterate(Named.partial(task_id="n", greeting="a")).iterate(name=["b"])
        function: Any = iterate(double).override(task_id="f").iterate(x=[1])
    made = (operator, named, function.operator)
    assert [each.operator_name for each in made] == ["Greeter", "@task.named", "@task.iterate"]
    assert {each.task_type for each in made} == {"IterableOperator"}


@pytest.mark.parametrize(
    "inputs",
    [
        {"a": [1, 2], "b": ["x", "y", "z"]},
        {"a": {"k": 1, "l": 2}, "b": [1, 2]},
        {"a": [1], "b": {"k": {"n": 1}}, "c": (7, 8)},
        {"a": [], "b": [1]},
    ],
    ids=["lists", "mapping first", "mapping in the middle", "empty"],
)
def test_items_are_those_of_expand(inputs: dict[str, Any]) -> None:
    """M4: the same arguments at the same place as Airflow gives to a mapped task."""
    expanded = DictOfListsExpandInput(inputs)
    count = math.prod(len(value) for value in inputs.values())
    of_expand = [
        dict(expanded.resolve({"ti": SimpleNamespace(map_index=index)})[0]) for index in range(count)
    ]
    assert list(ResolvedInput(inputs, whole=False).items()) == of_expand


def test_each_output_in_a_list_is_one_mapping_of_arguments(xcoms: XComs) -> None:
    """M4: iterate_kwargs() takes one mapping from each task in a list, as expand_kwargs() does."""
    with DAG("d", schedule=None):

        @task
        def source() -> dict[str, int]:
            return {}

        first, second = (Given(source(), {"x": x}) for x in (1, 2))
        made: Any = iterate(double).override(task_id="t").iterate_kwargs([first, second, {"x": 3}])
    assert list(execute(made)) == [2, 4, 6]
