# SPDX-License-Identifier: Apache-2.0
"""Pipelines in a Dag file: edges, what is refused, and what a task gets."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG, task, task_group
from airflow.sdk.definitions.xcom_arg import XComArg
from airflow.sdk.execution_time.lazy_sequence import LazyXComSequence

from airflow_provider_iteration import _compat, stream
from airflow_provider_iteration.decorators.iterate import iterate
from airflow_provider_iteration.exceptions import MissingChunk
from airflow_provider_iteration.iteration.input_field import IterateInput
from airflow_provider_iteration.streams import chunk_key
from airflow_provider_iteration.streams.lazy import LazyIterable, LazySequence
from airflow_provider_iteration.xcom.iterable import XComIterable
from tests.support.streams import RUN_A
from tests.support.triggers import Numbers, give_task
from tests.unit.conftest import XComs


@task
def plain(x: Any = None, y: Any = None) -> Any:
    return x


def is_odd(number: int) -> bool:
    return number % 2 == 1


def double(number: int) -> int:
    return 2 * number


class Output(_compat.ResolveMixin):
    """Stands for a task's output, resolved to what it is given."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def iter_references(self) -> Any:
        return iter(())

    def resolve(self, context: Any) -> Any:
        return self.value


class MappedOutput(LazyXComSequence):  # type: ignore[type-arg]
    """The outputs of a mapped task, which counts how it is read."""

    def __init__(self, items: Sequence[Any]) -> None:
        self.items = items
        self.reads: list[Any] = []

    def __getitem__(self, key: Any) -> Any:
        self.reads.append(key)
        return self.items[key]

    def __len__(self) -> int:
        return len(self.items)


def resolved(value: Any, steps: Callable[[Any], Any] = lambda items: items) -> Any:
    return steps(stream(Output(value))).resolve({})


# In the Dag file.


def test_edges_of_all_inputs_are_kept() -> None:
    """A task is downstream of all that a pipeline reads, wherever in its arguments the pipeline is."""
    with DAG("shop") as dag:
        first, second, third = (plain.override(task_id=name)() for name in ("first", "second", "third"))
        pipeline = stream(first).zip(stream(second).map(str)).concat(third)
        plain.override(task_id="reader")(pipeline)
        plain.override(task_id="nested")([{"rows": pipeline}])
        iterate(double).override(task_id="iterated").iterate(number=pipeline)
        plain.override(task_id="mapped").partial(y=pipeline).expand(x=[1, 2])
    for reader in ("reader", "nested", "iterated", "mapped"):
        assert dag.task_dict[reader].upstream_task_ids == {"first", "second", "third"}


def test_a_step_leaves_the_pipeline_before_it_alone() -> None:
    """Two pipelines can begin alike."""
    odd = stream(Output([1, 2, 3])).filter(is_odd)
    doubled = odd.map(double)
    assert (list(odd.resolve({})), list(doubled.resolve({}))) == ([1, 3], [2, 6])


def test_summary_is_short() -> None:
    """X1: what the stored Dag and the UI show."""
    with DAG("shop"):
        pipeline = stream(plain()).flatten().filter(is_odd).batched(500).zip(plain())
    text = "output of plain | flatten() | filter(is_odd) | batched(500) | zip(output of plain__1)"
    assert (pipeline.serialize(), repr(pipeline)) == (text, f"stream({text})")
    assert IterateInput({"x": pipeline}).serialize() == {"x": text}


def expand_plain(pipeline: Any) -> None:
    plain.expand(x=pipeline)


def expand_operator(pipeline: Any) -> None:
    BashOperator.partial(task_id="bash").expand(bash_command=pipeline)


def expand_kwargs(pipeline: Any) -> None:
    plain.expand_kwargs(pipeline)


def expand_group(pipeline: Any) -> None:
    @task_group
    def group(x: Any) -> None:
        plain(x)

    group.expand(x=pipeline)


@pytest.mark.parametrize("expand", [expand_plain, expand_operator, expand_kwargs, expand_group, list])
def test_expand_is_refused(expand: Callable[[Any], Any]) -> None:
    """The error says what to do instead; so does iterating in the Dag file."""
    with (
        DAG("shop"),
        pytest.raises(TypeError, match=r"nor be given to \.expand\(\).*Give it to \.iterate\(\)"),
    ):
        expand(stream(plain()).filter(is_odd))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: stream([1]), r"task's output or a pipeline, got list: have a @task return it"),
        (lambda: stream(BashOperator(task_id="t", bash_command="x")), r"is the task 't': give its \.output"),
        (lambda: stream(plain()).zip(plain(), [1]), r"zip\(\): argument 1 must be a task's output"),
        (lambda: stream(plain()).concat(), r"concat\(\): give at least one other"),
        (lambda: stream(plain()).map(plain), r"map\(\): f must be a plain function, not a task"),
        (lambda: stream(plain()).filter(None), r"filter\(\): f must be a function of one item"),  # type: ignore[arg-type]
        (lambda: stream(plain()).batched(0), r"batched\(\): n must be at least 1"),
        (lambda: stream(plain()).zip(plain(), strict=1), r"zip\(\): strict must be"),  # type: ignore[arg-type]
    ],
)
def test_wrong_arguments_are_errors_of_the_dag(make: Callable[[], Any], message: str) -> None:
    """They name the argument and what to do."""
    with DAG("shop"), pytest.raises((TypeError, ValueError), match=message):
        make()


SERIALIZE = """
import json
from airflow.sdk import DAG, task
from airflow.serialization.serialized_objects import DagSerialization
from airflow_provider_iteration import iterate, stream
@task
def plain(x, y=None): return x
def double(x): return x
with DAG("d", schedule=None) as dag:
    rows = stream(plain(1)).map(double).batched(3)
    plain({"rows": [rows]})
    iterate(double).iterate(x=rows)
    plain.partial(y=rows).expand(x=[1])
print("DAG:" + json.dumps(DagSerialization.to_dict(dag)["dag"]["tasks"], sort_keys=True))
"""


def test_serialized_dag_is_equal_in_two_processes() -> None:
    """No address of a function or an object is in it."""
    texts = {
        subprocess.run(
            [sys.executable, "-c", SERIALIZE], capture_output=True, text=True, check=True
        ).stdout.rpartition("DAG:")[2]
        for _ in range(2)
    }
    assert len(texts) == 1
    text = texts.pop()
    assert json.loads(text)
    assert text.count("output of plain | map(double) | batched(3)") == 3
    assert "0x" not in text


# In a task.


def test_a_plain_task_gets_the_lazy_value() -> None:
    """Also within lists and mappings, and it is not read when the arguments are rendered."""
    called: list[int] = []

    def watched(number: int) -> int:
        called.append(number)
        return number

    with DAG("shop"):
        pipeline = stream(Output([1, 2])).map(watched)
        made: Any = plain(pipeline, [{"rows": pipeline}])
    operator = copy.deepcopy(made.operator)
    operator.render_template_fields({"ti": SimpleNamespace(task_id="plain")})
    x, y = operator.op_args
    assert isinstance(x, LazySequence)
    assert isinstance(y[0]["rows"], LazySequence)
    assert called == []


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ([1, 2], [1, 2]),
        ((1, 2), [1, 2]),
        ({"a": 1}, [("a", 1)]),
        ("text", ["text"]),
        (5, [5]),
        (MappedOutput([1, 2]), [1, 2]),
        (LazyIterable(stream(Output([1])).filter(is_odd).resolve({})._node), [1]),
    ],
)
def test_an_output_is_taken_as_an_iteration_takes_it(value: Any, expected: list[Any]) -> None:
    """Lists, mappings as pairs, one text or number, outputs of mapped tasks, other lazy values."""
    assert list(resolved(value)) == expected


def test_no_output_is_an_error() -> None:
    """None cannot be iterated over, as with a mapped task."""
    with pytest.raises(TypeError, match=r"stream\(\): cannot iterate over a value of type None"):
        resolved(None)


def test_pipelines_go_into_pipelines() -> None:
    """A pipeline is a source, and an argument of zip and concat."""
    odd = stream(Output([1, 2, 3])).filter(is_odd)
    made = stream(odd).map(double).zip(odd).concat(stream(Output(["end"])))
    assert list(made.resolve({})) == [(2, 1), (6, 3), "end"]


@pytest.mark.parametrize("known", [True, False])
def test_an_iteration_knows_its_total(known: bool) -> None:
    """The progress has a total where that is known without reading."""
    pipeline = stream(Output([1, 2, 3])).map(double) if known else stream(Output([1, 2, 3])).filter(is_odd)
    field = IterateInput({"x": pipeline}).resolve({})
    assert field.total() == (3 if known else None)
    assert field.serialize() == {"x": repr(pipeline.resolve({}))}


def test_items_of_an_iteration_are_data() -> None:
    """What a pipeline gives is never rendered as a template."""
    field = IterateInput({"x": stream(Output(["{{ ds }}"])).map(str)}).resolve({})
    assert [each["x"].value for each in field.items()] == ["{{ ds }}"]


def test_lists_of_a_mapped_upstream_are_read_in_slices() -> None:
    """X6: 100 lists of 1,000 items each."""
    mapped = MappedOutput([[number] * 1000 for number in range(100)])
    items = resolved(mapped, lambda pipeline: pipeline.flatten())
    assert sum(1 for _ in items) == 100_000
    assert len(mapped.reads) <= 3
    assert all(isinstance(key, slice) for key in mapped.reads)


@pytest.mark.parametrize(
    ("derive", "expected"),
    [
        (lambda mapped: mapped.map(double).map(str), ["0", "2", "4"]),
        (lambda mapped: mapped.zip(mapped), [(0, 0), (1, 1), (2, 2)]),
        (lambda mapped: mapped.zip(mapped.map(str), fillvalue=0), [(0, "0"), (1, "1"), (2, "2")]),
        (lambda mapped: mapped.concat(mapped), [0, 1, 2, 0, 1, 2]),
    ],
)
def test_steps_of_airflow_itself_read_in_slices_too(
    derive: Callable[[Any], Any], expected: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """X4: `.map()`, `.zip()` and `.concat()` of a mapped task's output do not read item by item."""
    mapped = MappedOutput(range(3))
    with DAG("shop"):
        output: Any = plain.expand(x=[1, 2, 3])
    monkeypatch.setattr(type(output), "resolve", lambda self, context: mapped)
    derived: XComArg = derive(output)
    assert list(stream(derived).resolve({})) == expected
    assert [each["x"].value for each in IterateInput({"x": derived}).resolve({}).items()] == expected
    assert all(isinstance(key, slice) for key in mapped.reads)


# Over a stream.


@pytest.fixture
async def numbers(xcoms: XComs) -> XComIterable:
    """A stream of 0 to 99 in several chunks."""
    trigger = Numbers(count=100, stream={"max_uncommitted_pages": 8})
    give_task(trigger)
    return await trigger.stream()


async def test_a_stream_has_the_same_steps(numbers: XComIterable) -> None:
    """Without `stream()`, in a task."""
    items = numbers.filter(is_odd).map(double).batched(2)
    assert next(iter(items)) == [2, 6]
    assert (len(numbers.map(double)), numbers.map(double)[-1]) == (100, 198)  # type: ignore[index]


async def test_reading_through_a_pipeline_costs_a_read_for_each_chunk(
    numbers: XComIterable, xcoms: XComs
) -> None:
    """X4: no more reads than the stream has chunks."""
    xcoms.reads.clear()
    assert len(list(resolved(numbers, lambda items: items.map(double).filter(is_odd)))) == 0
    assert len(xcoms.reads) == sum(extent.chunks for extent in numbers.extents)


async def test_a_missing_chunk_is_named_through_a_pipeline(numbers: XComIterable, xcoms: XComs) -> None:
    """It says which items are gone, of which task, and why that may be."""
    first = numbers.extents[0].items
    gone = chunk_key(numbers.key, RUN_A, 1, 1)
    xcoms.rows = {place: row for place, row in xcoms.rows.items() if place[0] != gone}
    items = resolved(numbers, lambda pipeline: pipeline.map(double).batched(10))
    with pytest.raises(
        MissingChunk, match=f"items from index {first} of the stream of shop.pages.*was the task cleared"
    ):
        list(items)


async def test_repr_of_a_pipeline_over_a_stream_reads_nothing(numbers: XComIterable, xcoms: XComs) -> None:
    """X1: it names the task and the steps."""
    xcoms.reads.clear()
    items = resolved(numbers, lambda pipeline: pipeline.filter(is_odd))
    assert repr(items) == "LazyIterable(100 items of shop.pages | filter(is_odd), not read)"
    assert xcoms.reads == []
