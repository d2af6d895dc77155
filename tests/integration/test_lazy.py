# SPDX-License-Identifier: Apache-2.0
"""Pipelines and generator tasks on a real deployment."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from harness.deployment import Deployment

pytestmark = pytest.mark.timeout(600)

FULL = bool(os.environ.get("FULL"))
ROWS = 1_000_000 if FULL else 100_000
LISTS = 100 if FULL else 10
ODD = [2 * number for number in range(1, 1000, 2)]


def finished(airflow: Deployment, dag_id: str, seconds: float) -> str:
    """Run a Dag some of whose tasks fail."""
    run = airflow.trigger(dag_id)
    airflow.wait(dag_id, run, seconds)
    return run


@pytest.fixture(scope="module")
def piped(airflow: Deployment) -> tuple[Deployment, str]:
    """A run of the Dag with pipelines over a stream."""
    return airflow, finished(airflow, "pipelines", 200)


def test_plain_task_gets_a_lazy_value(piped: tuple[Deployment, str]) -> None:
    """It is read in the task that takes it; its length is not known behind a filter."""
    airflow, run = piped
    assert airflow.inspect.xcom("pipelines", run, "plain") == ["LazyIterable", 500, sum(ODD)]


def test_pipelines_within_lists_and_mappings_are_resolved(piped: tuple[Deployment, str]) -> None:
    """As other tasks' outputs are."""
    airflow, run = piped
    assert airflow.inspect.xcom("pipelines", run, "nested") == [2 * sum(range(1000)), 1000]


def test_pipeline_is_iterated_over(piped: tuple[Deployment, str]) -> None:
    """Batches of a filtered stream are the items of an iteration."""
    airflow, run = piped
    assert airflow.inspect.xcom("pipelines", run, "iterated") == ["XComIterable", 5, sum(ODD)]


def test_results_and_streams_are_joined(piped: tuple[Deployment, str]) -> None:
    """A pipeline can read from two tasks."""
    airflow, run = piped
    expected = ["LazySequence", 7, sum(ODD) + sum(range(1000))]
    assert airflow.inspect.xcom("pipelines", run, "joined") == expected


def test_error_in_a_step_is_named_in_the_log(piped: tuple[Deployment, str]) -> None:
    """The task's log says which step, and which item."""
    airflow, run = piped
    assert airflow.task("pipelines", run, "fails_in_a_step").state == "failed"
    log = airflow.inspect.task_log("pipelines", run, "fails_in_a_step")
    assert "raised in map(<lambda>), step 1 of the pipeline, for its item 7" in log


def test_lists_of_a_mapped_upstream_are_read_without_a_hang(airflow: Deployment) -> None:
    """X6: mapped instances that return 1,000 items each; 100 of them with FULL=1."""
    run = airflow.run("mapped_lists", seconds=300)
    items, total = 1000 * LISTS, sum(range(1000 * LISTS))
    assert airflow.inspect.xcom("mapped_lists", run, "flattened") == ["LazyIterable", items, total]
    assert airflow.inspect.xcom("mapped_lists", run, "lengths") == ["LazySequence", LISTS, items]


@pytest.fixture(scope="module")
def generated(airflow: Deployment) -> tuple[Deployment, str]:
    """A run of the Dag with generator tasks."""
    return airflow, airflow.run("generated", seconds=400)


def test_generator_task_streams_many_rows_at_flat_memory(generated: tuple[Deployment, str]) -> None:
    """100,000 rows, with FULL=1 a million: few XCom rows, and a process that does not grow."""
    airflow, run = generated
    count, total, grown_mb = airflow.inspect.xcom("generated", run, "read")
    assert (count, total) == (ROWS, sum(range(ROWS)))
    assert grown_mb < 40
    assert airflow.counts("generated", run, "rows").xcom_rows <= ROWS // 1000


def states(airflow: Deployment, dag_id: str, run: str, task_id: str) -> list[Any]:
    return [i.state for i in airflow.inspect.task_instances(dag_id, run) if i.task_id == task_id]


def test_mapped_task_expands_over_a_generator_task(generated: tuple[Deployment, str]) -> None:
    """An instance for each item; none, and a skip, for an empty stream."""
    airflow, run = generated
    assert states(airflow, "generated", run, "one") == ["success"] * 3
    assert states(airflow, "generated", run, "none") == ["skipped"]


def test_mapped_generator_tasks_are_read_as_one(generated: tuple[Deployment, str]) -> None:
    """`.expand()` of a generator task: a stream for each instance, flattened by who reads them."""
    airflow, run = generated
    assert airflow.inspect.xcom("generated", run, "summed") == ["LazyIterable", 6, 4]


@pytest.fixture(scope="module")
def broken(airflow: Deployment) -> tuple[Deployment, str]:
    """A run of the Dag whose streams end badly."""
    return airflow, finished(airflow, "generated_badly", 300)


@pytest.mark.parametrize("task_id", ["too_many", "too_long", "too_many_results"])
def test_streams_that_cannot_be_mapped_stop_early(broken: tuple[Deployment, str], task_id: str) -> None:
    """A generator, a streaming operator, an iteration: the error says why, and no reference is left."""
    airflow, run = broken
    assert airflow.task("generated_badly", run, task_id).state == "failed"
    assert "more items than [core] max_map_length=1024" in airflow.inspect.task_log(
        "generated_badly", run, task_id
    )
    assert "return_value" not in [
        row.key for row in airflow.inspect.xcom_rows("generated_badly", run, task_id)
    ]


def test_timeout_ends_a_generator(broken: tuple[Deployment, str], evidence: Path) -> None:
    """execution_timeout fails the task, and the generator's `finally` has run."""
    airflow, run = broken
    assert airflow.task("generated_badly", run, "late").state == "failed"
    assert (evidence / "late-closed").exists()


def test_retry_of_a_generator_that_failed_half_way_begins_anew(broken: tuple[Deployment, str]) -> None:
    """The second try's stream is whole, and nothing of the first is in it."""
    airflow, run = broken
    assert airflow.task("generated_badly", run, "half_way").try_number == 2
    assert airflow.inspect.xcom("generated_badly", run, "count") == 20_000


def test_marking_a_generator_task_closes_it(airflow: Deployment, evidence: Path) -> None:
    """`finally` runs before the process is killed."""
    run = airflow.trigger("killed_generator")
    wait_for(evidence / "endless-began")
    airflow.mark("killed_generator", run, "endless", "failed")
    wait_for(evidence / "endless-closed")
    assert airflow.task("killed_generator", run, "endless").state == "failed"


def wait_for(path: Path, seconds: float = 90.0) -> None:
    until = time.monotonic() + seconds
    while not path.exists():
        assert time.monotonic() < until, f"no {path.name} after {seconds} s"
        time.sleep(0.2)
