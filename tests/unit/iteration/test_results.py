# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_iteration.iteration import IterateOptions, Iteration, Outcome
from airflow_provider_iteration.iteration.results import InputOrder, ResultWriter
from airflow_provider_iteration.streams.memory import MemoryStore
from airflow_provider_iteration.streams.pacing import Pace
from airflow_provider_iteration.streams.writer import StreamWriter
from tests.support.streams import RUN_A, read_stream


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
        import asyncio

        await asyncio.sleep(chance.random() / 1000)
        return None if number == 5 else number

    async with StreamWriter(store, run=RUN_A, pace=Pace(0)) as writer:
        results = ResultWriter(writer, RUN_A)
        await Iteration(work, range(1000), IterateOptions(task_concurrency=50), sink=results).run()
        head = await results.close()
    assert head.items == 1000
    assert read_stream(store, head) == [None if number == 5 else number for number in range(1000)]
    assert len(store.rows) < 10
