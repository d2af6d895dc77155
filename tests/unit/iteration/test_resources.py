# SPDX-License-Identifier: Apache-2.0
"""Resources: entered once, left in reverse order, whatever happens in between."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import pytest

from airflow_provider_iteration.exceptions import ResourceFailed, Starved
from airflow_provider_iteration.iteration import Item, Iteration
from tests.support.iteration import identity, run

VARIABLE: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="unset")


class Journal:
    """Makes resources that write down what happens to them."""

    def __init__(self) -> None:
        self.entries: list[str] = []
        self.seen: list[BaseException | None] = []
        self.threads: list[str] = []

    @contextmanager
    def sync(self, name: str) -> Iterator[str]:
        self.entries.append(f"+{name}")
        self.threads.append(threading.current_thread().name)
        try:
            yield name
        except BaseException as error:
            self.seen.append(error)
            raise
        finally:
            self.entries.append(f"-{name}")
            self.threads.append(threading.current_thread().name)

    @asynccontextmanager
    async def asynchronous(self, name: str) -> AsyncIterator[str]:
        with self.sync(name):
            yield name


async def resources_of(item: Item) -> dict[str, Any]:
    return dict(item.resources)


async def test_items_get_entered_resources() -> None:
    """Every item sees, by name, what entering gave."""
    journal, got = Journal(), []
    resources = {"a": lambda: journal.sync("A"), "b": lambda: journal.asynchronous("B")}
    await run(resources_of, [1, 2], resources=resources, pass_item=True, sink=lambda o: got.append(o.result))
    assert got == [{"a": "A", "b": "B"}] * 2


async def test_order_is_reversed_on_the_way_out() -> None:
    """Each is entered once, before the first item, and left after the last."""
    journal = Journal()

    async def work(value: int) -> None:
        journal.entries.append(str(value))

    names = ("a", "b", "c")
    resources = {name: (lambda name=name: journal.sync(name)) for name in names}
    await run(work, [1, 2], resources=resources)
    assert journal.entries == ["+a", "+b", "+c", "1", "2", "-c", "-b", "-a"]


async def test_sync_managers_keep_to_one_thread() -> None:
    """Some may only be used by the thread that entered them; it is not the loop's."""
    journal = Journal()
    await run(identity, [1], resources={"a": lambda: journal.sync("a"), "b": lambda: journal.sync("b")})
    assert set(journal.threads) == {"iteration-resources-1"}


async def test_failure_of_the_run_is_passed_on_and_stays() -> None:
    """A manager that swallows errors does not make a failed run a success."""

    class Swallowing:
        def __enter__(self) -> None: ...

        def __exit__(self, *details: object) -> bool:
            seen.append(details[1])
            return True

    async def fail(_: int) -> None:
        raise KeyError

    seen: list[object] = []
    with pytest.raises(KeyError) as raised:
        await run(fail, [1], resources={"a": Swallowing})
    assert seen == [raised.value]


async def test_those_entered_are_left_when_a_later_one_fails() -> None:
    """The error names the resource; its cause is the error itself."""
    journal = Journal()

    def broken() -> Any:
        raise OSError("refused")

    with pytest.raises(ResourceFailed, match="resource 'b' could not be entered: OSError") as raised:
        await run(identity, [1], resources={"a": lambda: journal.sync("a"), "b": broken})
    assert journal.entries == ["+a", "-a"]
    assert isinstance(raised.value.__cause__, OSError)


@contextmanager
def broken_exit() -> Iterator[None]:
    try:
        yield
    finally:
        raise OSError("lost")


async def test_failing_exit_fails_a_good_run_and_stops_no_other_exit() -> None:
    """All are left, then the failure is raised."""
    journal = Journal()
    with pytest.raises(ResourceFailed, match="resource 'b' could not be left: OSError"):
        await run(identity, [1], resources={"a": lambda: journal.sync("a"), "b": broken_exit})
    assert journal.entries == ["+a", "-a"]


async def test_failing_exit_does_not_hide_why_a_run_failed() -> None:
    """It becomes a note."""

    async def fail(_: int) -> None:
        raise KeyError

    with pytest.raises(KeyError) as raised:
        await run(fail, [1], resources={"b": broken_exit})
    assert "resource 'b' could not be left: OSError" in raised.value.__notes__


async def test_cancelled_run_leaves_its_resources() -> None:
    """Also then in reverse order, and they see why."""
    journal, started = Journal(), asyncio.Event()

    async def hang(_: int) -> None:
        started.set()
        await asyncio.Event().wait()

    resources = {"a": lambda: journal.sync("a"), "b": lambda: journal.asynchronous("b")}
    running = asyncio.ensure_future(run(hang, [1], resources=resources))
    await started.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert journal.entries == ["+a", "+b", "-b", "-a"]
    assert {type(error) for error in journal.seen} == {asyncio.CancelledError}


async def test_manager_that_is_entered_after_the_run_was_cancelled_is_left_again() -> None:
    """A connection that is made too late is closed all the same."""
    entering, go_on, left = threading.Event(), threading.Event(), threading.Event()

    class Slow:
        def __enter__(self) -> None:
            entering.set()
            go_on.wait(30)

        def __exit__(self, *_: object) -> None:
            left.set()

    running = asyncio.ensure_future(run(identity, [1], resources={"slow": Slow}))
    await asyncio.to_thread(entering.wait, 10)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    go_on.set()
    assert await asyncio.to_thread(left.wait, 10)


async def test_items_see_the_context_of_async_resources() -> None:
    """A resource may set a context variable for all items."""

    @asynccontextmanager
    async def setting() -> AsyncIterator[None]:
        token = VARIABLE.set("set")
        yield
        VARIABLE.reset(token)

    async def look(_: int) -> str:
        return VARIABLE.get()

    got: list[str] = []
    await run(look, [1], resources={"a": setting}, sink=lambda outcome: got.append(outcome.result))
    assert got == ["set"]


async def test_hanging_exit_of_a_cancelled_run_is_bounded() -> None:
    """Each resource has the grace, no more; the next one still gets its turn."""
    journal, forever, started = Journal(), threading.Event(), asyncio.Event()

    @contextmanager
    def hanging() -> Iterator[None]:
        try:
            yield
        finally:
            forever.wait(30)

    async def work(_: int) -> None:
        started.set()
        await asyncio.Event().wait()

    resources = {"a": lambda: journal.sync("a"), "b": hanging}
    running = asyncio.ensure_future(run(work, [1], resources=resources, grace=0.01))
    await started.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    forever.set()
    assert journal.entries == ["+a", "-a"]


def test_what_is_no_factory_is_refused() -> None:
    """A context manager in place of its factory is a common slip."""
    with pytest.raises(
        TypeError, match=r"resources\['a'\]: expected a callable that makes a context manager"
    ):
        Iteration(identity, [], resources={"a": object()})  # type: ignore[dict-item]


async def test_factory_of_something_else_is_refused() -> None:
    """The name of the resource and the type are told."""
    with pytest.raises(ResourceFailed, match="resource 'a' could not be entered: TypeError") as raised:
        await run(identity, [1], resources={"a": dict})
    assert "it made dict" in str(raised.value.__cause__)


async def test_pause_of_the_input_is_no_error_of_the_resources() -> None:
    """What is done counts, so a transaction of it must not be rolled back."""
    journal = Journal()

    def items() -> Iterator[int]:
        yield 1
        raise Starved(30, 1)

    with pytest.raises(Starved):
        await run(identity, items(), resources={"a": lambda: journal.sync("A")})
    assert (journal.entries, journal.seen) == (["+A", "-A"], [])


async def test_resource_that_fails_at_a_pause_fails_the_run() -> None:
    """What it was to commit would be lost otherwise."""

    @contextmanager
    def uncommitted() -> Iterator[None]:
        yield
        raise RuntimeError("the commit failed")

    def items() -> Iterator[int]:
        yield 1
        raise Starved(30, 1)

    with pytest.raises(ResourceFailed, match="'a' could not be left"):
        await run(identity, items(), resources={"a": uncommitted})
