# SPDX-License-Identifier: Apache-2.0
"""Generator tasks: what is refused when a Dag is parsed, and what becomes of yields."""

from __future__ import annotations

import asyncio
import functools
import os
import signal
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import DAG, Asset, get_current_context, task
from airflow.sdk.exceptions import AirflowTaskTimeout
from airflow.sdk.execution_time.timeout import timeout

from airflow_provider_iteration import _compat
from airflow_provider_iteration.decorators.stream import stream_task
from airflow_provider_iteration.exceptions import StreamStopped, TooLongToMap
from airflow_provider_iteration.streams import blocking, chunk_key
from airflow_provider_iteration.xcom.iterable import XComIterable
from tests.support.streams import RUN_A
from tests.unit.conftest import XComs


def context(**others: Any) -> Any:
    ti = SimpleNamespace(dag_id="shop", task_id="rows", run_id="run", map_index=-1, id=RUN_A)
    return {"ti": ti, "ds": "2026-01-01", **others}


def operator_of(function: Callable[..., Any], *args: Any, **options: Any) -> Any:
    with DAG("shop"):
        output: Any = stream_task(**options)(function)(*args)
    return output.operator


def execute(function: Callable[..., Any], *args: Any, **options: Any) -> XComIterable:
    operator = operator_of(function, *args, **options)
    with _compat.allowed_to_execute(operator):
        result: XComIterable = operator.execute(context())
    return result


def numbers(count: int) -> Iterator[int]:
    yield from range(count)


async def numbers_async(count: int) -> AsyncIterator[int]:
    for number in range(count):
        yield number


def plain(x: int) -> int:
    return x


# Parsing.


@pytest.mark.parametrize("function", [plain, functools.partial(plain, 1), 3])
def test_what_is_no_generator_is_refused(function: Any) -> None:
    """A function that returns is an error of the Dag, which says what to do."""
    with pytest.raises(TypeError, match="no generator function: yield each item, or use @task"):
        stream_task(function)


def test_multiple_outputs_are_refused() -> None:
    """A stream is not unrolled; to say so is no error."""
    with pytest.raises(TypeError, match="multiple_outputs"):
        stream_task(multiple_outputs=True)
    assert stream_task(multiple_outputs=False)(numbers).function is numbers


def test_a_stream_without_xcoms_is_refused() -> None:
    """do_xcom_push=False would leave nothing."""
    with pytest.raises(ValueError, match="do_xcom_push=False"):
        operator_of(numbers, 3, do_xcom_push=False)


def test_it_is_registered_with_airflow() -> None:
    """`@task.stream` is the same decorator."""
    made: Any = task.stream(numbers)
    assert type(made) is type(stream_task(numbers))
    assert made.operator_class is stream_task(numbers).operator_class


def test_it_is_mapped_as_other_decorated_tasks() -> None:
    """`.partial()` and `.expand()` make a mapped task."""
    with DAG("shop") as dag:
        stream_task(numbers).override(task_id="mapped").expand(count=[1, 2])
    assert dag.task_dict["mapped"].is_mapped


# Running.


@pytest.mark.parametrize("function", [numbers, numbers_async])
@pytest.mark.parametrize("count", [0, 1, 10_000])
def test_yields_become_a_stream(xcoms: XComs, function: Any, count: int) -> None:
    """Every item, in order; a generator that yields nothing makes an empty stream."""
    stream = execute(function, count)
    assert isinstance(stream, XComIterable)
    assert list(stream) == list(range(count))


def test_a_wrapped_generator_function_is_one(xcoms: XComs) -> None:
    """A decorator in between changes nothing."""

    @functools.wraps(numbers)
    def wrapped(count: int) -> Iterator[int]:
        return numbers(count)

    assert list(execute(wrapped, 3)) == [0, 1, 2]


def test_a_wrapper_that_returns_no_generator_is_an_error(xcoms: XComs) -> None:
    """What is found out only at run time has an error that says what is wrong."""

    @functools.wraps(numbers)
    def wrapped(count: int) -> list[int]:
        return [count]

    with pytest.raises(TypeError, match="numbers\\(\\) returned list where a generator was due"):
        execute(wrapped, 3)


def test_rows_are_few(xcoms: XComs) -> None:
    """10,000 small items are one chunk, not a row each."""
    stream = execute(numbers, 10_000)
    assert sum(extent.chunks for extent in stream.extents) <= 2


@pytest.mark.parametrize("is_async", [False, True])
def test_it_runs_with_the_context(xcoms: XComs, is_async: bool) -> None:
    """Parameters named as in the context are filled, and get_current_context() works in the generator."""

    def rows(ds: Any = None) -> Iterator[Any]:
        yield ds, get_current_context()["ds"]

    async def rows_async(ds: Any = None) -> AsyncIterator[Any]:
        yield ds, get_current_context()["ds"]

    operator = operator_of(rows_async if is_async else rows)
    with _compat.allowed_to_execute(operator), _compat.current_context(context()):
        assert list(operator.execute(context())) == [("2026-01-01", "2026-01-01")]


def test_an_ordinary_generator_runs_in_the_main_thread(xcoms: XComs) -> None:
    """Signals, and so timeouts, reach it."""

    def names() -> Iterator[str]:
        yield threading.current_thread().name

    assert list(execute(names)) == ["MainThread"]


def test_assets_among_the_arguments_are_inlets(xcoms: XComs) -> None:
    """As with other decorated tasks."""

    def rows(source: Asset) -> Iterator[str]:
        yield source.name

    operator = operator_of(rows, Asset("orders"))
    with _compat.allowed_to_execute(operator):
        operator.execute(context())
    assert operator.inlets == [Asset("orders")]


@pytest.mark.parametrize("is_async", [False, True])
def test_an_error_half_way_fails_and_leaves_no_reference(xcoms: XComs, is_async: bool) -> None:
    """The error is the generator's own, and nothing is under the task's key."""

    def rows() -> Iterator[int]:
        yield from range(10_000)
        raise ZeroDivisionError("half-way")

    async def rows_async() -> AsyncIterator[int]:
        for number in range(10_000):
            yield number
        raise ZeroDivisionError("half-way")

    with pytest.raises(ZeroDivisionError, match="half-way"):
        execute(rows_async if is_async else rows)
    assert not any(key == "return_value" for key, *_ in xcoms.rows)


@pytest.mark.parametrize("value", [object(), {"a": object()}, threading.Lock()])
def test_what_cannot_be_stored_is_named_by_its_index(xcoms: XComs, value: Any) -> None:
    """The error has the index in the stream, also behind chunks that are written."""

    def rows() -> Iterator[Any]:
        yield from ("x" * 1000 for _ in range(3000))
        yield value

    with pytest.raises(TypeError, match=r"item\[3000\].* is of type"):
        execute(rows)


def test_items_are_written_while_the_generator_runs(xcoms: XComs, monkeypatch: pytest.MonkeyPatch) -> None:
    """A few items do not wait for the end: live readers see them."""
    monkeypatch.setattr(blocking, "PAGE_SECONDS", 0.01)
    written = threading.Event()
    xcoms.before_write = lambda key: written.set() if key == chunk_key("return_value", RUN_A, 0, 1) else None
    seen: list[bool] = []

    def rows() -> Iterator[int]:
        yield 1
        seen.append(written.wait(10))
        yield 2

    assert list(execute(rows)) == [1, 2]
    assert seen == [True]


def test_a_slow_database_holds_the_generator_up(xcoms: XComs) -> None:
    """Backpressure: while a row is being written, only a bounded number of items is taken."""
    may_write = threading.Event()
    taken = 0
    at_rest: list[int] = []

    def hold(key: str) -> None:
        if key == chunk_key("return_value", RUN_A, 0, 1):
            while taken not in at_rest:
                at_rest.append(taken)
                time.sleep(0.1)
            may_write.set()

    xcoms.before_write = hold

    def rows() -> Iterator[str]:
        nonlocal taken
        for _ in range(20_000):
            taken += 1
            yield "x" * 1000

    assert len(execute(rows)) == 20_000
    assert may_write.is_set()
    assert at_rest[-1] < 10_000


# Ending early.


@pytest.mark.parametrize("is_async", [False, True])
def test_a_timeout_ends_the_generator(xcoms: XComs, is_async: bool) -> None:
    """execution_timeout reaches it, and its `finally` runs."""
    ended: list[bool] = []

    def rows() -> Iterator[int]:
        try:
            yield 1
            time.sleep(30)
        finally:
            ended.append(True)

    async def rows_async() -> AsyncIterator[int]:
        try:
            yield 1
            await asyncio.sleep(30)
        finally:
            ended.append(True)

    operator = operator_of(rows_async if is_async else rows, execution_timeout=timedelta(seconds=1))
    with _compat.allowed_to_execute(operator), pytest.raises(AirflowTaskTimeout), timeout(1):
        operator.execute(context())
    assert ended == [True]


@pytest.mark.parametrize("is_async", [False, True])
def test_a_kill_ends_the_generator(xcoms: XComs, is_async: bool) -> None:
    """on_kill() is called by a handler of SIGTERM: past `except Exception`, with `finally`."""
    ended: list[bool] = []

    def rows() -> Iterator[int]:
        try:
            yield 1
            signal.raise_signal(signal.SIGTERM)
            time.sleep(30)
        except Exception:
            ended.append(False)
        finally:
            ended.append(True)

    async def rows_async() -> AsyncIterator[int]:
        try:
            yield 1
            asyncio.get_running_loop().call_later(0.05, signal.raise_signal, signal.SIGTERM)
            await asyncio.sleep(30)
        except Exception:
            ended.append(False)
        finally:
            ended.append(True)

    operator = operator_of(rows_async if is_async else rows)
    before = signal.signal(signal.SIGTERM, lambda *_: operator.on_kill())
    try:
        with _compat.allowed_to_execute(operator), pytest.raises(StreamStopped, match="after 1 items"):
            operator.execute(context())
    finally:
        signal.signal(signal.SIGTERM, before)
    assert ended == [True]


def test_a_kill_while_writing_ends_the_generator(xcoms: XComs) -> None:
    """Also a generator that waits for the database is closed."""
    ended: list[bool] = []
    release = threading.Event()

    def hold(key: str) -> None:
        if key == chunk_key("return_value", RUN_A, 0, 1):
            os.kill(os.getpid(), signal.SIGTERM)
            release.wait(10)

    xcoms.before_write = hold

    def rows() -> Iterator[str]:
        try:
            while True:
                yield "x" * 1000
        finally:
            ended.append(True)
            release.set()

    operator = operator_of(rows)
    before = signal.signal(signal.SIGTERM, lambda *_: operator.on_kill())
    try:
        with _compat.allowed_to_execute(operator), pytest.raises(StreamStopped):
            operator.execute(context())
    finally:
        signal.signal(signal.SIGTERM, before)
    assert ended == [True]


def test_a_kill_at_another_time_does_nothing() -> None:
    """on_kill() is also called after a timeout, when nothing runs any more."""
    operator_of(numbers, 3).on_kill()


# Mapped tasks that expand over it.


def test_too_many_items_to_map_stop_it_early(xcoms: XComs) -> None:
    """With a mapped dependant the stream ends at max_map_length, with an error that says so."""
    taken: list[int] = []

    def rows() -> Iterator[int]:
        for number in range(100_000):
            taken.append(number)
            yield number

    with DAG("shop"):
        output: Any = stream_task(rows)()
        task(plain).expand(x=output)
    with (
        _compat.allowed_to_execute(output.operator),
        pytest.raises(TooLongToMap, match="max_map_length=1024 allows: use .iterate"),
    ):
        output.operator.execute(context())
    assert len(taken) == 1025


def test_as_many_items_as_can_be_mapped_pass(xcoms: XComs) -> None:
    """The limit itself is allowed."""
    with DAG("shop"):
        output: Any = stream_task(numbers)(1024)
        task(plain).expand(x=output)
    with _compat.allowed_to_execute(output.operator):
        assert len(output.operator.execute(context())) == 1024
