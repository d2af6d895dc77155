# SPDX-License-Identifier: Apache-2.0
"""Operators of other providers over a hundred items each, on a real deployment."""

from __future__ import annotations

import json

import pytest

from harness.api import ApiSettings, PagedApi
from harness.deployment import Deployment

pytestmark = pytest.mark.timeout(300)

DAG = "many_operators"


@pytest.fixture(scope="module")
def ran(airflow: Deployment) -> tuple[Deployment, str]:
    """A run in which some items of each operator fail or are skipped."""
    with PagedApi(ApiSettings(pages=100, items=1, fail_for_good={5: 404})) as api:
        airflow.connect("many_http", api.url)
        return airflow, airflow.run(DAG, seconds=200)


@pytest.mark.parametrize(
    ("task_id", "succeeded", "skipped", "failed"),
    [
        ("get", 98, 1, 1),
        ("run", 88, 10, 2),
        ("query", 99, 0, 1),
        ("wait", 99, 0, 1),
        ("until", 99, 0, 1),
    ],
)
def test_hundred_items_are_one_task_instance(
    ran: tuple[Deployment, str], task_id: str, succeeded: int, skipped: int, failed: int
) -> None:
    """M3: one task instance, one start of a worker and no trigger for sync and deferrable operators."""
    airflow, run = ran
    instances = [i for i in airflow.inspect.task_instances(DAG, run) if i.task_id == task_id]
    counts = airflow.counts(DAG, run, task_id)
    progress = json.loads(airflow.inspect.task_states(DAG, run, task_id)["iteration_progress"])
    assert [instance.state for instance in instances] == ["success"]
    assert (counts.worker_starts, counts.trigger_runs) == (1, 0)
    assert [progress[key] for key in ("succeeded", "skipped", "failed")] == [succeeded, skipped, failed]


@pytest.mark.parametrize(
    ("task_id", "expected"),
    [
        ("get", [n for n in range(100) if n not in (5, 7)]),
        ("run", [str(n) for n in range(100) if n % 10 != 3 and n not in (5, 6)]),
        ("query", [2 * n for n in range(1, 100)]),
        ("wait", [True] * 99),
        ("until", [None] * 99),
    ],
)
def test_results_are_those_of_the_items_that_succeeded(
    ran: tuple[Deployment, str], task_id: str, expected: list[object]
) -> None:
    """They are in the order of the input."""
    airflow, run = ran
    assert airflow.inspect.xcom(DAG, run, f"results_{task_id}") == expected
