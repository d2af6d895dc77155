# SPDX-License-Identifier: Apache-2.0
"""The private pool: who runs what, and what happens to a thread that hangs."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import AsyncIterator

import pytest

from airflow_provider_iteration.iteration.threads import Job, JobState, Mailbox, ThreadPool
from tests.support.iteration import settled


@pytest.fixture
async def pool() -> AsyncIterator[ThreadPool]:
    made = ThreadPool(2, Mailbox(asyncio.get_running_loop(), contextvars.copy_context()))
    yield made
    made.close()


async def test_result_comes_back(pool: ThreadPool) -> None:
    """A call in a thread is like a call."""
    assert await pool.run(divmod, 7, 2) == (3, 1)


async def test_error_comes_back_without_the_pool_in_its_traceback(pool: ThreadPool) -> None:
    """What the function raised is raised where it is awaited."""
    with pytest.raises(ZeroDivisionError):
        await pool.run(divmod, 7, 0)


async def test_stop_iteration_does_not_hang(pool: ThreadPool) -> None:
    """A future cannot carry it; it comes as a RuntimeError, as from a generator."""
    with pytest.raises(RuntimeError, match="StopIteration"):
        await pool.run(next, iter(()))


async def test_context_is_propagated(pool: ThreadPool) -> None:
    """A context variable of the caller is seen in the thread, and changes there stay there."""
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="unset")
    variable.set("outer")

    def change() -> str:
        seen = variable.get()
        variable.set("inner")
        return seen

    assert (await pool.run(change), variable.get()) == ("outer", "outer")


async def test_threads_are_daemons_and_not_asyncios(pool: ThreadPool) -> None:
    """A hanging thread keeps no process from ending."""
    thread = await pool.run(threading.current_thread)
    assert (thread.daemon, thread.name.startswith("iteration-")) == (True, True)


async def test_no_more_threads_than_the_width(pool: ThreadPool) -> None:
    """Jobs beyond the width wait."""
    together = threading.Barrier(2, timeout=10)

    def meet() -> int:
        together.wait()
        return threading.get_ident()

    threads = await asyncio.gather(*(pool.run(meet) for _ in range(6)))
    assert len(set(threads)) == 2


async def test_abandoned_thread_is_replaced(pool: ThreadPool) -> None:
    """Although both threads hang, the next call is made."""
    forever = threading.Event()
    ended: list[Job] = []
    running = threading.Semaphore(0)

    threads: list[threading.Thread] = []

    def hang(_: object) -> None:
        threads.append(threading.current_thread())
        running.release()
        forever.wait(30)

    jobs = [pool.submit(hang, None, contextvars.copy_context(), ended.append) for _ in range(2)]
    for _ in jobs:
        assert await asyncio.to_thread(running.acquire, timeout=10)
    states = [pool.abandon(job) for job in jobs]
    assert await pool.run(int, "7") == 7
    assert (states, pool.stuck) == ([JobState.RUNNING] * 2, 2)
    forever.set()
    for thread in threads:
        await asyncio.to_thread(thread.join, 10)
    await settled()
    assert (ended, pool.stuck) == ([], 0)


async def test_job_that_has_not_begun_is_revoked(pool: ThreadPool) -> None:
    """It never runs, and takes no thread with it."""
    forever, ran = threading.Event(), list[int]()
    context = contextvars.copy_context
    for _ in range(2):
        pool.submit(lambda _: forever.wait(30), None, context(), lambda _: None)
    queued = pool.submit(ran.append, 1, context(), lambda _: None)
    assert pool.abandon(queued) is JobState.QUEUED
    forever.set()
    await pool.run(int)
    assert (ran, pool.stuck) == ([], 0)


async def test_cancelled_wait_gives_its_thread_up(pool: ThreadPool) -> None:
    """The caller is told that a thread was left behind."""
    forever, running = threading.Event(), threading.Event()
    abandoned: list[bool] = []

    def hang() -> None:
        running.set()
        forever.wait(30)

    waiting = asyncio.ensure_future(
        pool.run_in(contextvars.copy_context(), hang, lambda: abandoned.append(True))
    )
    await asyncio.to_thread(running.wait, 10)
    waiting.cancel()
    await asyncio.wait([waiting])
    forever.set()
    assert (waiting.cancelled(), abandoned) == (True, [True])


async def test_posts_share_a_wake_up() -> None:
    """Many posts at once are delivered together and in order."""
    got: list[int] = []
    mailbox = Mailbox(asyncio.get_running_loop(), contextvars.copy_context())

    def post_all() -> None:
        for number in range(1000):
            mailbox.post(got.append, number)

    thread = threading.Thread(target=post_all)
    thread.start()
    thread.join()
    await settled()
    assert got == list(range(1000))


def test_post_to_a_closed_loop_is_dropped() -> None:
    """A thread that was given up may outlive the loop."""
    loop = asyncio.new_event_loop()
    mailbox = Mailbox(loop, contextvars.copy_context())
    loop.close()
    mailbox.post(print, "never")
