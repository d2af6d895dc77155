# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import asyncio
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_iteration.iteration import IterateOptions, Iteration, Outcome
from airflow_provider_iteration.iteration.results import InputOrder, ResultWriter
from airflow_provider_iteration.streams import Head
from airflow_provider_iteration.streams.memory import MemoryStore
from airflow_provider_iteration.streams.pacing import Pace
from airflow_provider_iteration.streams.writer import StreamWriter
from tests.support.streams import RUN_A, make_writer, read_stream


def outcome(index: int) -> Outcome:
    return Outcome(index, "success", 1, result=index)


@given(st.permutations(range(30)))
def test_outcomes_come_back_in_the_order_of_the_input(order: list[int]) -> None:
    """Whatever the order in which items end, none is lost and none comes early."""
    sequence = InputOrder()
    ready = [each.index for index in order for each in sequence.add(outcome(index))]
    assert (ready, sequence.held) == (list(range(30)), 0)


def test_outcome_waits_for_its_turn() -> None:
    """What ends early is held until those before it have ended."""
    sequence = InputOrder()
    assert sequence.add(outcome(1)) == []
    assert [each.index for each in sequence.add(outcome(0))] == [0, 1]


async def test_results_of_an_iteration_become_a_stream() -> None:
    """Results are in the order of the input; skipped items have no place; None keeps its own."""
    store = MemoryStore()
    chance = random.Random(3)

    async def work(number: int) -> int | None:
        await asyncio.sleep(chance.random() / 1000)
        return None if number == 5 else number

    async with StreamWriter(store, run=RUN_A, pace=Pace(0)) as writer:
        results = ResultWriter(writer, RUN_A)
        await Iteration(work, range(1000), IterateOptions(task_concurrency=50), sink=results).run()
        head = await results.close()
    assert head.items == 1000
    assert read_stream(store, head) == [None if number == 5 else number for number in range(1000)]
    assert len(store.rows) < 10


async def test_results_go_on_where_an_earlier_pass_has_paused() -> None:
    """What is written is not written again; the rest comes behind it."""
    store = MemoryStore()
    async with make_writer(store) as writer:
        results = ResultWriter(writer, RUN_A)
        for index in (0, 1, 3):
            results(outcome(index))
        await results.pause()
        assert (writer.head.items, writer.head.last) == (2, False)
    async with make_writer(store) as writer:
        results = ResultWriter(writer, RUN_A)
        for index in range(5):
            results(outcome(index))
        head = await results.close()
    assert read_stream(store, head) == [0, 1, 2, 3, 4]


async def test_results_can_begin_anew() -> None:
    """The rows of the earlier pass are gone, and its readers can tell."""
    store = MemoryStore()
    async with make_writer(store) as writer:
        before = await writer_of(writer, "old", 3)
    async with StreamWriter(store, run=RUN_A, pace=Pace(0), anew=True) as writer:
        after = await writer_of(writer, "new", 2)
    assert read_stream(store, after) == ["new", "new"]
    assert (before.extents[0].incarnation, after.extents[0].incarnation) == (1, 2)
    assert len(store.rows) == 2


async def writer_of(writer: StreamWriter, word: str, count: int) -> Head:
    """Write one result so many times."""
    results = ResultWriter(writer, RUN_A)
    for index in range(count):
        results(Outcome(index, "success", 1, result=word))
    return await results.close()


async def test_results_are_flushed_for_those_who_read_along() -> None:
    """Long before there are enough for a row."""
    ended = asyncio.Event()
    written = asyncio.Event()
    store = MemoryStore(lambda action, key: written.set() if (action, key[-2:]) == ("set", ".0") else None)
    async with make_writer(store, linger=0.0) as writer:
        results = ResultWriter(writer, RUN_A)
        ticker = asyncio.create_task(results.flush_every(0.001, ended))
        results(outcome(0))
        await written.wait()
        ended.set()
        await ticker
        assert (await results.close()).items == 1


async def test_what_fails_in_between_is_raised_in_the_end() -> None:
    """The results that it was about are not lost silently."""

    def fails(results: list[object]) -> list[object]:
        raise LookupError("the row is gone")

    ended = asyncio.Event()
    async with make_writer(MemoryStore()) as writer:
        results = ResultWriter(writer, RUN_A, complete=fails)
        results(outcome(0))
        await results.flush_every(0.001, ended)
        with pytest.raises(LookupError, match="the row is gone"):
            await results.close()
