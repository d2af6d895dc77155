# SPDX-License-Identifier: Apache-2.0
"""
A private pool of threads, each of which can be given up and replaced.

Not asyncio's own pool: that is shared with everything else in the process, and is joined when the process
exits. These threads are daemons: one that hangs keeps nothing from ending.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import threading
from collections import deque
from collections.abc import Callable
from contextvars import Context, copy_context
from enum import Enum
from queue import SimpleQueue
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class Mailbox:
    """
    Carries calls from threads to the event loop. Calls that arrive together share one wake-up.

    :param loop: the loop on which the calls are made.
    :param context: the context in which they are made.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, context: Context) -> None:
        self._loop = loop
        self._context = context
        self._posts: deque[tuple[Callable[[Any], object], Any]] = deque()
        self._woken = False

    def post(self, callback: Callable[[Any], object], argument: Any) -> None:
        """
        Have the loop call ``callback(argument)``. Callable from any thread.

        :param callback: what to call; it must not raise.
        :param argument: its argument.
        """
        self._posts.append((callback, argument))
        if not self._woken:
            self._woken = True
            # A thread that was given up may outlive the loop.
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._deliver, context=self._context)

    def _deliver(self) -> None:
        # What is posted from here on wakes the loop again.
        self._woken = False
        for _ in range(len(self._posts)):
            callback, argument = self._posts.popleft()
            callback(argument)


class JobState(Enum):
    """How far a job is."""

    QUEUED = "queued"
    RUNNING = "running"
    ENDED = "ended"
    ABANDONED = "abandoned"


class Job:
    """
    One call in a thread.

    :param function: what to call.
    :param argument: its argument.
    :param context: the context in which to call it; not in use elsewhere at that time.
    :param on_end: called with this job, on the loop, unless the job is abandoned.
    """

    __slots__ = ("argument", "context", "error", "function", "on_end", "result", "state")

    def __init__(
        self,
        function: Callable[[Any], Any],
        argument: Any,
        context: Context,
        on_end: Callable[[Job], object],
    ) -> None:
        self.function = function
        self.argument = argument
        self.context = context
        self.on_end = on_end
        self.state = JobState.QUEUED
        self.result: Any = None
        self.error: BaseException | None = None

    def run(self) -> None:
        """Make the call, and keep what came of it."""
        try:
            self.result = self.context.run(self.function, self.argument)
        except BaseException as error:
            # Without the frame of this method, which tells nobody anything.
            trace = error.__traceback__
            self.error = error.with_traceback(trace.tb_next if trace else None)


class ThreadPool:
    """
    Up to so many threads, started when they are needed.

    All methods belong to the event loop's thread.

    :param width: number of threads.
    :param mailbox: brings ends of jobs to the loop.
    :param name: beginning of the threads' names.
    """

    def __init__(self, width: int, mailbox: Mailbox, name: str = "iteration") -> None:
        self._width = width
        self._mailbox = mailbox
        self._name = name
        self._queue: SimpleQueue[Job | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._threads = 0
        self._started = 0
        self._outstanding = 0
        self._stuck = 0

    @property
    def stuck(self) -> int:
        """How many threads were given up and have not ended."""
        return self._stuck

    def submit(
        self,
        function: Callable[[Any], Any],
        argument: Any,
        context: Context,
        on_end: Callable[[Job], object],
    ) -> Job:
        """
        Have a thread call ``function(argument)``.

        :param function: what to call.
        :param argument: its argument.
        :param context: the context in which to call it.
        :param on_end: called with the job, on the loop.
        """
        job = Job(function, argument, context, on_end)
        self._outstanding += 1
        self._queue.put(job)
        self._add_thread_if_needed()
        return job

    async def run(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """
        Call in a thread, with a copy of the current context, and wait for the result.

        If the wait is cancelled, the thread is given up.

        :param function: what to call, with the other arguments.
        """
        return await self.run_in(copy_context(), functools.partial(function, *args, **kwargs))

    async def run_in(
        self, context: Context, function: Callable[[], T], on_abandon: Callable[[], None] | None = None
    ) -> T:
        """
        Call in a thread, with the context that is given, and wait for the result.

        :param context: not in use elsewhere at that time.
        :param function: what to call.
        :param on_abandon: called if the wait was cancelled while the function ran.
        """
        ended: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        job = self.submit(lambda _: function(), None, context, functools.partial(_resolve, ended))
        try:
            return await ended
        except asyncio.CancelledError:
            if self.abandon(job) is JobState.RUNNING and on_abandon is not None:
                on_abandon()
            raise

    def abandon(self, job: Job) -> JobState:
        """
        Give a job up: its ``on_end`` is not called unless it has ended by now.

        If a thread is at work on it, another one takes that thread's place.

        :param job: what :meth:`submit` returned.
        :return: the state in which the job was.
        """
        with self._lock:
            state = job.state
            if state not in (JobState.QUEUED, JobState.RUNNING):
                return state
            job.state = JobState.ABANDONED
        self._outstanding -= 1
        if state is JobState.RUNNING:
            self._stuck += 1
            self._threads -= 1
            self._add_thread_if_needed()
        return state

    def close(self) -> None:
        """Let the threads end as soon as they are idle. Waits for none."""
        for _ in range(self._threads):
            self._queue.put(None)
        self._threads = 0

    def _add_thread_if_needed(self) -> None:
        if self._threads < min(self._outstanding, self._width):
            self._threads += 1
            self._started += 1
            name = f"{self._name}-{self._started}"
            threading.Thread(target=self._work, name=name, daemon=True).start()

    def _work(self) -> None:
        while (job := self._queue.get()) is not None:
            if not self._moved(job, JobState.QUEUED, JobState.RUNNING):
                continue
            job.run()
            if not self._moved(job, JobState.RUNNING, JobState.ENDED):
                self._mailbox.post(self._on_stuck_end, job)
                return
            self._mailbox.post(self._on_end, job)
            # An idle thread holds no item.
            del job

    def _moved(self, job: Job, before: JobState, after: JobState) -> bool:
        with self._lock:
            if job.state is not before:
                return False
            job.state = after
            return True

    def _on_end(self, job: Job) -> None:
        self._outstanding -= 1
        job.on_end(job)

    def _on_stuck_end(self, job: Job) -> None:
        self._stuck -= 1


def _resolve(ended: asyncio.Future[Any], job: Job) -> None:
    if ended.done():
        return
    if job.error is None:
        ended.set_result(job.result)
    elif isinstance(job.error, StopIteration):
        # A future refuses it; generators turn it into this too.
        error = RuntimeError("the function raised StopIteration")
        error.__cause__ = job.error
        ended.set_exception(error)
    else:
        ended.set_exception(job.error)
