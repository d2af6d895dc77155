# SPDX-License-Identifier: Apache-2.0
"""Iterations that are killed, cleared and ended early on a real deployment."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from airflow_provider_iteration.iteration.checkpoint_writer import GROUPED
from harness.deployment import Deployment
from harness.processes import wait_until
from tests.support.databases import ONLY_POSTGRES

pytestmark = [pytest.mark.timeout(400), ONLY_POSTGRES]
ITEMS = 2000
CONCURRENCY = 16
EVERY = 50
KILLS = 10 if os.environ.get("FULL") else 3


def lines(evidence: Path, name: str, run: str) -> list[list[int]]:
    """Return what a task has written down, as numbers."""
    file = evidence / f"{name}-{run}"
    text = file.read_text() if file.exists() else ""
    return [[int(word) for word in line.split()] for line in text.splitlines()]


def committed(airflow: Deployment, dag: str, run: str, task: str) -> set[int]:
    """Return the indexes of the items that are in the checkpoint."""
    states = airflow.inspect.task_states(dag, run, task)
    rows = [json.loads(text) for key, text in states.items() if key.startswith("iteration_checkpoint_")]
    return {index for row in rows for first, last in row["indexes"] for index in range(first, last + 1)}


def kill_at(airflow: Deployment, evidence: Path, run: str, count: int) -> None:
    """Kill the process of the task when it has begun so many items."""

    def is_due() -> bool:
        begun = lines(evidence, "square", run)
        return len(begun) >= count and is_running(begun[-1][1])

    airflow.wait_for("killed_items", run, is_due, f"item {count}")
    pid = lines(evidence, "square", run)[-1][1]
    os.kill(pid, signal.SIGKILL)
    wait_until(gone([pid]), 10, "the process is gone")


def gone(pids: list[int]) -> Callable[[], bool]:
    return lambda: not any(map(is_running, pids))


def is_running(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_killed_processes_lose_no_result_and_repeat_little(airflow: Deployment, evidence: Path) -> None:
    """M5: SIGKILL at seeded moments: each try does only what was not committed, and all results are right."""
    moments = sorted(random.Random(1).sample(range(100, ITEMS - 100), KILLS))
    run = airflow.trigger("killed_items", {"count": ITEMS})
    repeated = 0
    for moment in moments:
        kill_at(airflow, evidence, run, moment + repeated)
        begun = {x for x, _ in lines(evidence, "square", run)}
        uncommitted = begun - committed(airflow, "killed_items", run, "square")
        assert len(uncommitted) <= CONCURRENCY + GROUPED * EVERY
        repeated += len(uncommitted)
    assert airflow.wait("killed_items", run) == "success"
    times = Counter(x for x, _ in lines(evidence, "square", run))
    assert airflow.inspect.xcom("killed_items", run, "total") == [ITEMS, sum(x * x for x in range(ITEMS))]
    assert set(times) == set(range(ITEMS))
    assert sum(times.values()) - ITEMS <= repeated


def test_what_a_clear_does_again(airflow: Deployment, evidence: Path) -> None:
    """Before its end only the missing, with other input the changed ones, after a success all."""
    (evidence / "fail-2").touch()
    run = airflow.trigger("cleared_items")
    assert airflow.wait("cleared_items", run) == "failed"
    assert sorted(x for (x,) in lines(evidence, "change", run)) == [0, 1, 2, 3]
    (evidence / "fail-2").unlink()
    (evidence / "changed").touch()
    done = len(lines(evidence, "change", run))
    airflow.clear("cleared_items", run, ["changing", "change", "total"])
    airflow.wait_task("cleared_items", run, "total", ["success"])
    assert sorted(x for (x,) in lines(evidence, "change", run)[done:]) == [2, 100]
    assert airflow.inspect.xcom("cleared_items", run, "total") == [4, 2 * (100 + 1 + 2 + 3)]
    done = len(lines(evidence, "change", run))
    airflow.clear("cleared_items", run, ["change", "total"])
    airflow.wait_task("cleared_items", run, "change", ["success"], try_number=3)
    assert sorted(x for (x,) in lines(evidence, "change", run)[done:]) == [1, 2, 3, 100]


def test_large_results_survive_a_retry(airflow: Deployment, evidence: Path) -> None:
    """Results of a megabyte each are not made again."""
    run = airflow.run("large_results")
    times = Counter(x for (x,) in lines(evidence, "large", run))
    assert airflow.inspect.xcom("large_results", run, "weigh") == [
        [1_000_000, f"{x}", f"{x}"] for x in range(6)
    ]
    assert times == {0: 1, 1: 1, 2: 1, 3: 1, 4: 1, 5: 2}


def test_events_and_xcoms_of_the_first_try_are_there_after_the_second(airflow: Deployment) -> None:
    """The event has the extra of the last item, which was done in the first try; so were two of the keys."""
    run = airflow.run("replayed")
    assert airflow.inspect.asset_extras("survived") == [{"x": 2, "try": 1}]
    assert [airflow.inspect.xcom("replayed", run, "emit", f"mine_{index}") for index in range(3)] == [0, 1, 2]


def test_checkpoints_are_no_xcoms(airflow: Deployment) -> None:
    """X5: they are in the task's state store; the XComs are the results and what items have pushed."""
    run = airflow.run("replayed")
    assert committed(airflow, "replayed", run, "emit") >= {1, 2}
    keys = {row.key for row in airflow.inspect.xcom_rows("replayed", run, "emit")}
    own = {key for key in keys if key.startswith("return_value")}
    assert "return_value" in own
    assert keys - own == {f"mine_{index}" for index in range(3)}


def test_execution_timeout_keeps_what_is_done(airflow: Deployment, evidence: Path) -> None:
    """The second try does what hung in the first."""
    run = airflow.run("timed_out")
    assert airflow.inspect.xcom("timed_out", run, "total") == [8, sum(range(8))]
    assert [x for x, attempt in lines(evidence, "too_slow", run) if attempt == 2] == [3]


def test_marked_failed_in_the_middle_of_processes(airflow: Deployment, evidence: Path) -> None:
    """
    Marking the task failed in the UI ends all children of 16 Bash items and keeps the checkpoint.

    So does clearing the other task while it runs, whose next try goes on where it was.
    """
    (evidence / "enough").unlink(missing_ok=True)
    run = airflow.trigger("ended_items")
    wait_until(lambda: len(lines(evidence, "bash", run)) == 16, 60, "16 processes")
    wait_until(lambda: len(lines(evidence, "brief", run)) == 116, 60, "16 items in the other task")
    # A clear gives the task instance another id at once, so that its old process can commit nothing more.
    wait_until(lambda: len(committed(airflow, "ended_items", run, "brief")) == 100, 60, "a checkpoint")
    children = [pid for line in lines(evidence, "bash", run) for pid in line[:2]]
    airflow.mark("ended_items", run, "bash", "failed")
    airflow.clear("ended_items", run, ["brief"])
    told = wait_for_log(airflow, "ended_items", run, "bash", "asked to end")
    wait_until(gone(children), 30, "all children are gone")
    assert time.time() - told < 5
    assert committed(airflow, "ended_items", run, "bash") == set(range(20))
    wait_until(lambda: len(lines(evidence, "brief", run)) > 116, 60, "the next try of the cleared task")
    (evidence / "enough").touch()
    airflow.wait_task("ended_items", run, "brief", ["success"])
    assert sorted(x for x, *_ in lines(evidence, "brief", run)[116:]) == list(range(100, 116))


def test_worker_that_is_shut_down_keeps_what_is_done(airflow: Deployment, evidence: Path) -> None:
    """SIGTERM to the process around the task: the try fails in time, the next one goes on."""
    (evidence / "enough").unlink(missing_ok=True)
    run = airflow.trigger("ended_items")
    wait_until(lambda: len(lines(evidence, "brief", run)) == 116, 60, "16 items")
    _, pid, supervisor = lines(evidence, "brief", run)[-1]
    os.kill(supervisor, signal.SIGTERM)
    wait_until(gone([pid]), 10, "the process is gone")
    assert committed(airflow, "ended_items", run, "brief") == set(range(100))
    (evidence / "enough").touch()
    airflow.wait_task("ended_items", run, "brief", ["success"])
    airflow.mark("ended_items", run, "bash", "failed")
    assert sorted(x for x, *_ in lines(evidence, "brief", run)[116:]) == list(range(100, 116))


def wait_for_log(airflow: Deployment, dag: str, run: str, task: str, text: str) -> float:
    """Wait for a line in the log of a task, and return when it was written."""
    wait_until(lambda: text in airflow.inspect.task_log(dag, run, task), 60, f"{text!r} in the log of {task}")
    return time.time()
