# SPDX-License-Identifier: Apache-2.0
"""
One poller for all live consumers that wait in a triggerer.

A triggerer answers the messages of all its triggers one after the other, so a poller of its own for each
waiting task would slow everyone down. This one asks for the states of many tasks in one message, and for the
head of a stream only where the producing task may have one; it keeps to the duty cycle of the streams.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from airflow_provider_iteration import _compat
from airflow_provider_iteration.streams.following import (
    ENDED,
    FAILED,
    SKIPPED,
    WRITES,
    Place,
    generation_of,
)
from airflow_provider_iteration.streams.head import Head, head_key
from airflow_provider_iteration.streams.pacing import Pace, shared_pace
from airflow_provider_iteration.streams.recency import RunJudge
from airflow_provider_iteration.streams.xcom_store import XComPlace, XComStore, ask

log = logging.getLogger(__name__)

FIRST_PAUSE = 2.0
LONGEST_PAUSE = 15.0
PAUSE_GROWTH = 1.5
RUNS_AT_ONCE = 50

FAILS: frozenset[str | None] = FAILED - {"removed"}
"""As with ``all_success``: an instance that a mapped task has no more is no failure."""

States = Mapping[str, str | None]
AskStates = Callable[[str, Sequence[str], Sequence[str]], Awaitable[Mapping[str, States]]]
AskHead = Callable[[XComPlace, str], Awaitable[Any]]


class Found(NamedTuple):
    """
    What a waiting consumer was waiting for.

    :param run: the producer's present run, if it is known.
    :param failed: tasks that have failed, of those that were waited for.
    :param skipped: tasks that were skipped, of those that were waited for.
    """

    run: str | None
    failed: list[str]
    skipped: list[str]


class Waiter:
    """
    One waiting consumer, and what it knows so far.

    :param producer: the task instance whose stream is waited for.
    :param key: XCom key of the stream.
    :param others: ids of tasks of the same run that must have ended.
    :param judge: tells whether a head is of the producer's present run.
    :param place: how far the stream was read before.
    :param needs_end: whether only the producer's end is waited for.
    """

    def __init__(
        self,
        producer: XComPlace,
        key: str,
        others: Sequence[str],
        judge: RunJudge,
        place: Place | None,
        *,
        needs_end: bool = False,
    ) -> None:
        self.producer = producer
        self.key = key
        self.tasks = [producer.task_id, *others]
        self.found: asyncio.Future[Found] = asyncio.get_running_loop().create_future()
        self.due = 0.0
        self._judge = judge
        self._place = place
        self._needs_end = needs_end
        self._pause = FIRST_PAUSE
        self._seen: Any = None

    def take_states(self, states: States) -> bool:
        """
        Take the states of a run's tasks, and tell whether the head of the stream is wanted.

        :param states: task, or ``<task>_<index>``, → state.
        """
        self._note(dict(states))
        ended = {task: list(_states_of(task, states, self.tasks)) for task in self.tasks}
        others = {state for task in self.tasks[1:] for state in ended[task] or (None,)}
        if not others <= ENDED:
            return False
        state = states.get(self.producer.task_id)
        if state in ENDED or others & (FAILS | {SKIPPED}):
            self._settle(None, ended)
        return state in WRITES and not self._needs_end

    def take_head(self, row: Any) -> None:
        """
        Take the head of the stream.

        :param row: its row, None without one.
        :raises ValueError: if it is none that this version reads.
        """
        self._note(row)
        if row is None:
            self._judge.saw_none()
            return
        head = Head.from_row(row)
        if self._has_news(head):
            self._settle(head.run, {})

    def postpone(self, now: float) -> None:
        """Look at the head again later, and ever later while nothing changes."""
        self.due = now + self._pause
        self._pause = min(self._pause * PAUSE_GROWTH, LONGEST_PAUSE)

    def _has_news(self, head: Head) -> bool:
        place = self._place
        if place is None:
            return self._judge.is_current(head.run, head.items) and (head.items > 0 or head.last)
        if head.run != place.run:
            return head.run > place.run
        return head.items != place.items or (
            place.generation is not None and generation_of(head.extents) != place.generation
        )

    def _note(self, seen: Any) -> None:
        if seen != self._seen:
            self._seen, self._pause = seen, FIRST_PAUSE

    def _settle(self, run: str | None, ended: Mapping[str, list[str | None]]) -> None:
        if not self.found.done():
            self.found.set_result(_found(run, ended))


def found_ended(states: States, tasks: Sequence[str]) -> Found | None:
    """
    Return what a consumer would wait for if all the tasks have ended already; None if one has not.

    :param states: task, or ``<task>_<index>``, → state.
    :param tasks: ids of tasks.
    """
    ended = {task: list(_states_of(task, states, tasks)) for task in tasks}
    has_ended = all(each and ENDED.issuperset(each) for each in ended.values())
    return _found(None, ended) if has_ended else None


def _found(run: str | None, ended: Mapping[str, list[str | None]]) -> Found:
    failed = [task for task, states in ended.items() if FAILS & set(states)]
    skipped = [task for task, states in ended.items() if SKIPPED in states]
    return Found(run, failed, skipped)


def _states_of(task: str, states: States, tasks: Sequence[str]) -> Iterator[str | None]:
    if task in states:
        yield states[task]
        return
    for name, state in states.items():
        prefix, _, index = name.rpartition("_")
        if prefix == task and index.isdigit() and name not in tasks:
            yield state


class Poller:
    """
    Asks on behalf of all waiting consumers of one event loop.

    :param states: asks for states: Dag, runs, tasks → run → task → state.
    :param head: asks for the row of a head: producer, key of the stream.
    :param pace: the duty cycle to keep to.
    :param clock: seconds, monotonic.
    """

    def __init__(
        self, states: AskStates, head: AskHead, pace: Pace, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._ask_states = states
        self._ask_head = head
        self._pace = pace
        self._clock = clock
        self._waiters: set[Waiter] = set()
        self._loop_task: asyncio.Task[None] | None = None
        self._arrived = asyncio.Event()

    async def wait(self, waiter: Waiter) -> Found:
        """
        Wait until a consumer has what it waits for.

        :raises ValueError: if the stream is none that this version reads.
        """
        self._waiters.add(waiter)
        self._arrived.set()
        if self._loop_task is None or self._loop_task.done():
            # It is nobody's: not the context, nor the log, of whichever trigger came first.
            self._loop_task = asyncio.get_running_loop().create_task(
                self._poll(), name="live-poller", context=contextvars.Context()
            )
        try:
            return await waiter.found
        finally:
            self._waiters.discard(waiter)

    async def _poll(self) -> None:
        try:
            await self._poll_on()
        except Exception as error:
            for waiter in self._waiters:
                if not waiter.found.done():
                    waiter.found.set_exception(error)

    async def _poll_on(self) -> None:
        pause, seen = FIRST_PAUSE, None
        while self._waiters:
            self._arrived.clear()
            now_seen = await self._round()
            pause = FIRST_PAUSE if now_seen != seen else min(pause * PAUSE_GROWTH, LONGEST_PAUSE)
            seen = now_seen
            now = self._clock()
            due = min((each.due - now for each in self._waiters if each.due > now), default=pause)
            try:
                async with asyncio.timeout(max(min(pause, due), FIRST_PAUSE)):
                    await self._arrived.wait()
            except TimeoutError:
                continue
            # Others come with it: their states are asked for together.
            await asyncio.sleep(FIRST_PAUSE / 4)

    async def _round(self) -> Any:
        """Ask once for everything; return what the states were."""
        by_dag: dict[str, dict[str, list[Waiter]]] = defaultdict(lambda: defaultdict(list))
        for waiter in self._waiters:
            by_dag[waiter.producer.dag_id][waiter.producer.run_id].append(waiter)
        seen = []
        for dag_id, by_run in by_dag.items():
            for runs in _parts(sorted(by_run), RUNS_AT_ONCE):
                states = await self._states_of(dag_id, {run: by_run[run] for run in runs})
                seen.append(states)
        return seen

    async def _states_of(self, dag_id: str, by_run: Mapping[str, list[Waiter]]) -> Any:
        tasks = sorted({task for waiters in by_run.values() for each in waiters for task in each.tasks})
        states: Mapping[str, States] | None = await self._asked(
            "states of tasks", self._ask_states(dag_id, list(by_run), tasks)
        )
        if states is None:
            return None
        for run, waiters in by_run.items():
            wanted: dict[tuple[XComPlace, str], list[Waiter]] = defaultdict(list)
            for waiter in waiters:
                # Half a pause early rather than a whole round late.
                is_due = waiter.due <= self._clock() + FIRST_PAUSE / 2
                if waiter.take_states(states.get(run, {})) and is_due:
                    wanted[waiter.producer, waiter.key].append(waiter)
            for (producer, key), those in wanted.items():
                await self._look(producer, key, those)
        return states

    async def _look(self, producer: XComPlace, key: str, waiters: Iterable[Waiter]) -> None:
        answer = await self._asked("head of a stream", self._in_a_list(self._ask_head(producer, key)))
        for waiter in waiters:
            try:
                if answer is not None:
                    waiter.take_head(answer[0])
            except ValueError as error:
                if not waiter.found.done():
                    waiter.found.set_exception(error)
            waiter.postpone(self._clock())

    async def _in_a_list(self, question: Awaitable[Any]) -> list[Any]:
        return [await question]

    async def _asked(self, what: str, question: Awaitable[Any]) -> Any:
        """Ask when it is the poller's turn; None, and a line in the log, if there is no answer."""
        async with self._pace.turn():
            try:
                return await question
            except Exception as error:
                log.warning("the %s could not be asked for, and will be again: %s", what, error)
                return None


def _parts(values: Sequence[str], size: int) -> Iterator[Sequence[str]]:
    return (values[start : start + size] for start in range(0, len(values), size))


async def _states(
    dag_id: str, run_ids: Sequence[str], task_ids: Sequence[str]
) -> Mapping[str, Mapping[str, str | None]]:
    answer: Mapping[str, Mapping[str, str | None]] = await ask(
        "read",
        "states of tasks",
        _compat.message_timeout(),
        lambda: _compat.task_states(dag_id, run_ids, task_ids),
    )
    return answer


async def _head(producer: XComPlace, key: str) -> Any:
    return await XComStore.of(producer).get(head_key(key))


_pollers: WeakKeyDictionary[asyncio.AbstractEventLoop, Poller] = WeakKeyDictionary()


def shared_poller() -> Poller:
    """Return the one poller of the current event loop."""
    loop = asyncio.get_running_loop()
    if (poller := _pollers.get(loop)) is None:
        poller = _pollers[loop] = Poller(_states, _head, shared_pace())
    return poller
