# SPDX-License-Identifier: Apache-2.0
"""Ends of a run: stopped, cancelled, interrupted; nothing is delivered twice, and nothing hangs."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import signal
import threading
import weakref
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from airflow_provider_iteration.exceptions import IterationError, IterationStopped
from airflow_provider_iteration.iteration import IterateOptions, Iteration, Outcome
from airflow_provider_iteration.iteration.runner import is_coroutine_function
from tests.support.iteration import Counted, Held, identity, run, settled

BOUND = 10.0
"""Seconds within which what must not hang has to end: generous, for a busy machine."""


class Interrupt(BaseException):
    """What a signal handler raises; Airflow's timeout is one of this kind."""


@pytest.fixture
def interrupting() -> Iterator[None]:
    """Have SIGUSR1 raise in the main thread."""

    def handler(number: int, frame: Any) -> None:
        raise Interrupt

    before = signal.signal(signal.SIGUSR1, handler)
    yield
    signal.signal(signal.SIGUSR1, before)


async def test_stop_cancels_and_raises() -> None:
    """Nothing new starts; what had finished has its outcome; the rest is counted."""
    held, outcomes = Held(), list[Outcome]()

    async def work(value: int) -> None:
        if value > 1:
            await held(value)

    iteration = Iteration(work, range(100), IterateOptions(task_concurrency=3), sink=outcomes.append)
    running = asyncio.ensure_future(iteration.run())
    await held.reached()
    iteration.stop()
    with pytest.raises(IterationStopped) as raised:
        await asyncio.wait_for(running, BOUND)
    assert (raised.value.done, raised.value.unfinished) == (2, 3)
    assert ([outcome.index for outcome in outcomes], held.cancelled) == ([0, 1], [2, 3, 4])


async def test_stop_from_another_thread() -> None:
    """It is thread-safe, and may be called again."""
    held = Held()
    iteration = Iteration(held, range(100))
    running = asyncio.ensure_future(iteration.run())
    await held.reached()
    for _ in range(2):
        await asyncio.to_thread(iteration.stop)
    with pytest.raises(IterationStopped):
        await asyncio.wait_for(running, BOUND)


async def test_stop_from_a_signal_handler() -> None:
    """The loop wakes from its sleep for it."""
    held = Held()
    iteration = Iteration(held, range(100))
    before = signal.signal(signal.SIGUSR1, lambda *_: iteration.stop())
    try:
        running = asyncio.ensure_future(iteration.run())
        await held.reached()
        os.kill(os.getpid(), signal.SIGUSR1)
        with pytest.raises(IterationStopped):
            await asyncio.wait_for(running, BOUND)
    finally:
        signal.signal(signal.SIGUSR1, before)


async def test_stop_from_inside_an_item() -> None:
    """The item that stops the run is cancelled like the others."""
    iteration: Iteration

    async def work(_: int) -> None:
        iteration.stop()
        await asyncio.Event().wait()

    iteration = Iteration(work, range(100))
    with pytest.raises(IterationStopped):
        await asyncio.wait_for(iteration.run(), BOUND)


async def test_stop_before_the_run() -> None:
    """A run that was stopped beforehand reads nothing."""
    source = Counted(3)
    iteration = Iteration(identity, source)
    iteration.stop()
    with pytest.raises(IterationStopped):
        await iteration.run()
    assert source.read == 0


async def test_stop_while_resources_are_entered() -> None:
    """They are left again, and no item is read."""
    source, left = Counted(3), []
    iteration: Iteration

    @contextlib.asynccontextmanager
    async def stopping() -> AsyncIterator[None]:
        iteration.stop()
        await settled()
        yield
        left.append(True)

    @contextlib.asynccontextmanager
    async def noting() -> AsyncIterator[None]:
        try:
            yield
        finally:
            left.append(True)

    iteration = Iteration(identity, source, resources={"a": noting, "b": stopping})
    with pytest.raises(IterationStopped):
        await iteration.run()
    assert (source.read, left) == (0, [True])


async def test_stop_after_the_run() -> None:
    """There is nothing to stop then, and nothing happens."""
    iteration = Iteration(identity, [1])
    summary = await iteration.run()
    iteration.stop()
    await settled()
    assert summary.progress.done == 1


async def test_stop_does_not_wait_for_threads_that_hang() -> None:
    """A thread cannot be interrupted: it is left alone after the grace."""
    forever, running_in_thread = threading.Event(), threading.Event()

    def hang(_: int) -> None:
        running_in_thread.set()
        forever.wait(30)

    iteration = Iteration(hang, range(100), IterateOptions(task_concurrency=2))
    running = asyncio.ensure_future(iteration.run())
    await asyncio.to_thread(running_in_thread.wait, BOUND)
    iteration.stop(grace=0.01)
    with pytest.raises(IterationStopped):
        await asyncio.wait_for(running, BOUND)
    forever.set()


async def test_stop_does_not_wait_for_an_input_that_hangs() -> None:
    """Its thread is left alone too."""
    forever = threading.Event()
    iteration = Iteration(identity, (n for n in range(3) if forever.wait(30)))
    running = asyncio.ensure_future(iteration.run())
    await settled()
    iteration.stop(grace=0.01)
    with pytest.raises(IterationStopped):
        await asyncio.wait_for(running, BOUND)
    forever.set()


async def test_stop_does_not_wait_for_a_sink_that_hangs() -> None:
    """Its delivery is given up after the grace."""
    delivering = asyncio.Event()

    async def hang(outcome: Outcome) -> None:
        delivering.set()
        await asyncio.Event().wait()

    iteration = Iteration(identity, range(9), sink=hang)
    running = asyncio.ensure_future(iteration.run())
    await delivering.wait()
    iteration.stop(grace=0.01)
    with pytest.raises(IterationStopped):
        await asyncio.wait_for(running, BOUND)


async def test_stop_lets_a_delivery_end() -> None:
    """An item that had finished keeps its outcome, also with a slow sink."""
    delivering, may_go_on, got = asyncio.Event(), asyncio.Event(), list[int]()

    async def sink(outcome: Outcome) -> None:
        delivering.set()
        await may_go_on.wait()
        got.append(outcome.index)

    iteration = Iteration(identity, range(9), IterateOptions(task_concurrency=3), sink=sink)
    running = asyncio.ensure_future(iteration.run())
    await delivering.wait()
    await settled()
    iteration.stop()
    await settled()
    may_go_on.set()
    with pytest.raises(IterationStopped):
        await asyncio.wait_for(running, BOUND)
    assert got == [0, 1, 2]


async def test_thread_that_ends_within_the_grace_has_its_outcome() -> None:
    """It was not cut off, so what it did counts."""
    in_thread, may_end, outcomes = threading.Event(), threading.Event(), list[Outcome]()

    def work(_: int) -> str:
        in_thread.set()
        may_end.wait(30)
        return "done"

    options = IterateOptions(task_concurrency=1)
    iteration = Iteration(
        work, range(9), options, sink=outcomes.append, grace=BOUND, on_cancel=lambda item: may_end.set()
    )
    running = asyncio.ensure_future(iteration.run())
    await asyncio.to_thread(in_thread.wait, BOUND)
    iteration.stop()
    with pytest.raises(IterationStopped):
        await running
    assert [(outcome.index, outcome.result) for outcome in outcomes] == [(0, "done")]


async def test_cancelled_run_is_cancelled() -> None:
    """Items are cancelled and have ended before the run has."""
    held = Held()
    running = asyncio.ensure_future(run(held, range(100), options={"task_concurrency": 2}))
    await held.reached()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert held.cancelled == [0, 1]


async def test_second_cancellation_waits_for_nothing() -> None:
    """Whoever cancels twice is in a hurry."""
    released, started = asyncio.Event(), asyncio.Event()

    async def ignore(_: int) -> None:
        started.set()
        while not released.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await released.wait()

    running = asyncio.ensure_future(run(ignore, [1], grace=3600))
    await started.wait()
    running.cancel()
    await settled()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(running, BOUND)
    released.set()


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, Interrupt])
@pytest.mark.parametrize("threads", [False, True], ids=["coroutine", "thread"])
def test_what_is_no_ordinary_error_comes_out_bare(kind: type[BaseException], threads: bool) -> None:
    """Neither wrapped, nor kept back until all items have run."""
    outcomes: list[Outcome] = []

    async def work(value: int) -> None:
        if value == 3:
            raise kind

    def work_in_thread(value: int) -> None:
        if value == 3:
            raise kind

    function: Any = work_in_thread if threads else work
    iteration = Iteration(
        function, range(1000), IterateOptions(task_concurrency=1, item_retries=3), sink=outcomes.append
    )
    with pytest.raises(kind):
        asyncio.run(iteration.run())
    assert [outcome.index for outcome in outcomes] == [0, 1, 2]


async def test_group_around_it_is_taken_off() -> None:
    """A task group inside an item wraps what a signal handler raised."""

    async def work(_: int) -> None:
        raise BaseExceptionGroup("tasks", [ValueError(), BaseExceptionGroup("more", [Interrupt()])])

    with pytest.raises(Interrupt):
        await run(work, range(5))


@contextlib.contextmanager
def interrupted_after(seconds: float) -> Iterator[threading.Event]:
    """Send a signal to the main thread so long after the event that is given."""

    def interrupt() -> None:
        begun.wait(BOUND)
        begun_for.wait(seconds)
        signal.pthread_kill(main, signal.SIGUSR1)

    main = threading.get_ident()
    begun, begun_for = threading.Event(), threading.Event()
    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        yield begun
    finally:
        thread.join()


@pytest.mark.parametrize("delay", [0.0, 0.003, 0.01, 0.03])
# The signal may hit between the call that makes a coroutine and the task that would run it.
@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")
@pytest.mark.usefixtures("interrupting")
def test_signal_at_any_moment_comes_out_bare(delay: float) -> None:
    """Whether it hits an item, the engine between two items, or the loop: nothing is swallowed."""

    def endless() -> Iterator[int]:
        begun.set()
        while True:
            yield 1

    with interrupted_after(delay) as begun, pytest.raises(Interrupt):
        Iteration(identity, endless(), IterateOptions(task_concurrency=3), direct=True).run_blocking()


@pytest.mark.usefixtures("interrupting")
def test_signal_in_a_callback_that_may_raise_nothing() -> None:
    """Python only reports what is raised in a callback of a weak reference; the run ends all the same."""

    class Thing: ...

    def gone(_: object) -> None:
        raise Interrupt

    async def work(_: int) -> None:
        thing = Thing()
        kept.append(weakref.ref(thing, gone))
        del thing
        await asyncio.Event().wait()

    kept: list[Any] = []
    with pytest.raises(Interrupt):
        Iteration(work, range(5)).run_blocking()


@pytest.mark.usefixtures("interrupting")
def test_signal_while_all_wait_comes_out_bare() -> None:
    """The loop sleeps then."""

    async def work(_: int) -> None:
        begun.set()
        await asyncio.Event().wait()

    with interrupted_after(0.01) as begun, pytest.raises(Interrupt):
        Iteration(work, range(5)).run_blocking()


@pytest.mark.usefixtures("interrupting")
def test_signal_keeps_finished_items_and_leaves_resources() -> None:
    """The end is as orderly as that of a stopped run."""
    outcomes, left, held = list[Outcome](), list[object](), list[int]()

    class Resource:
        def __enter__(self) -> None: ...

        def __exit__(self, *details: object) -> None:
            left.append(type(details[1]))

    async def work(value: int) -> None:
        if value > 1:
            if value == 3:
                begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                held.append(value)

    options = IterateOptions(task_concurrency=2)
    with interrupted_after(0.01) as begun, pytest.raises(Interrupt):
        Iteration(work, range(9), options, sink=outcomes.append, resources={"r": Resource}).run_blocking()
    assert [outcome.index for outcome in outcomes] == [0, 1]
    assert (held, left) == ([2, 3], [Interrupt])


@pytest.mark.usefixtures("interrupting")
def test_signal_while_a_resource_is_entered_comes_out_bare() -> None:
    """The run has not begun then, and is cancelled."""
    source = Counted(3)

    @contextlib.asynccontextmanager
    async def slow() -> AsyncIterator[None]:
        begun.set()
        await asyncio.Event().wait()
        yield

    with interrupted_after(0.01) as begun, pytest.raises(Interrupt):
        Iteration(identity, source, resources={"slow": slow}).run_blocking()
    assert source.read == 0


def test_blocking_run_gives_the_summary() -> None:
    """For callers that have no loop."""
    assert Iteration(identity, range(9)).run_blocking().progress.done == 9


def test_blocking_run_raises_what_the_run_raises() -> None:
    """Its own exception for a single failed item."""

    async def fail(_: int) -> None:
        raise KeyError

    with pytest.raises(KeyError):
        Iteration(fail, [1]).run_blocking()


async def test_blocking_run_is_refused_on_a_loop() -> None:
    """It would stand still."""
    with pytest.raises(RuntimeError, match=r"an event loop is running in this thread: await run\(\) instead"):
        Iteration(identity, [1]).run_blocking()


def test_blocking_run_ends_tasks_and_generators_of_items() -> None:
    """What items have left behind on the loop is cancelled and closed."""
    ended: list[str] = []

    async def linger() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("task")

    async def generate() -> AsyncIterator[int]:
        try:
            yield 1
        finally:
            ended.append("generator")

    async def work(_: int) -> None:
        kept.append(asyncio.ensure_future(linger()))
        generator = generate()
        kept.append(generator)
        await anext(generator)

    kept: list[object] = []
    Iteration(work, [1]).run_blocking()
    assert ended == ["task", "generator"]


async def test_handler_of_the_loop_is_restored() -> None:
    """And while it is replaced, it is still told of ordinary errors."""
    loop = asyncio.get_running_loop()
    told: list[str] = []

    def handler(_: object, details: dict[str, Any]) -> None:
        told.append(details["message"])

    async def work(_: int) -> None:
        loop.call_exception_handler({"message": "odd"})

    loop.set_exception_handler(handler)
    await run(work, [1])
    after = loop.get_exception_handler()
    loop.set_exception_handler(None)
    assert (told, after) == (["odd"], handler)


async def test_interrupt_of_the_loop_ends_the_run() -> None:
    """What the loop would only log, because it came between two callbacks, counts."""
    loop = asyncio.get_running_loop()

    async def work(_: int) -> None:
        loop.call_soon(lambda: loop.call_exception_handler({"message": "odd", "exception": Interrupt()}))
        await asyncio.Event().wait()

    with pytest.raises(Interrupt):
        await asyncio.wait_for(run(work, range(100)), BOUND)


async def test_iteration_runs_once() -> None:
    """Its input has been read."""
    iteration = Iteration(identity, [1])
    await iteration.run()
    with pytest.raises(RuntimeError, match="an iteration runs once"):
        await iteration.run()


async def test_no_thread_is_left() -> None:
    """The pools end with the run."""
    before = set(threading.enumerate())
    await run(lambda value: value, (n for n in range(20)), options={"task_concurrency": 4})
    left = set(threading.enumerate()) - before
    for thread in left:
        await asyncio.to_thread(thread.join, BOUND)
    assert not any(thread.is_alive() for thread in left)


def test_stop_is_an_error_of_this_package() -> None:
    """A stopped run is never mistaken for a success."""
    assert issubclass(IterationStopped, IterationError)


class AsyncCallable:
    async def __call__(self, value: int) -> int:
        return value


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (identity, True),
        (functools.partial(identity, 1), True),
        (AsyncCallable(), True),
        (AsyncCallable().__call__, True),
        (len, False),
        (lambda value: value, False),
    ],
)
def test_coroutine_functions_are_recognised(function: Any, expected: bool) -> None:
    """Partials, methods and callable objects too."""
    assert is_coroutine_function(function) is expected
