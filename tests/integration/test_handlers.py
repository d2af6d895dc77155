# SPDX-License-Identifier: Apache-2.0
"""Handlers of events on a real deployment: in hops, at the end, on a worker, stopping and failing."""

from __future__ import annotations

import json
import os
import re
from typing import Any

import pytest

from harness.api import ApiSettings, PagedApi
from harness.deployment import Deployment
from tests.support.databases import ONLY_POSTGRES

pytestmark = [pytest.mark.timeout(300), ONLY_POSTGRES]


@pytest.fixture(scope="module")
def handled_run(airflow: Deployment) -> tuple[Deployment, str]:
    """A run of one task for each way of handling."""
    return airflow, airflow.run("handled", seconds=240)


def results(run: tuple[Deployment, str], task_id: str, dag_id: str = "handled") -> list[Any]:
    """Return what the task after a handling task read of its results."""
    airflow, run_id = run
    found: list[Any] = json.loads(airflow.inspect.xcom(dag_id, run_id, f"read_{task_id}"))
    return found


def events(first: int, stop: int, pages: int) -> list[list[Any]]:
    """Return the events of a batch, as the handler returns them."""
    return [[number, number, number == pages - 1] for number in range(first, stop)]


def batches_of(pages: int, size: int) -> list[list[list[Any]]]:
    return [events(first, min(first + size, pages), pages) for first in range(0, pages, size)]


def hops(run: tuple[Deployment, str], task_id: str, dag_id: str = "handled") -> tuple[int, int]:
    """Return how often a task was started on a worker, and how often it deferred there."""
    airflow, run_id = run
    # A trigger run overwrites the log of the one before in the same try, so those cannot be counted.
    deferrals = airflow.inspect.task_log(dag_id, run_id, task_id).count("Pausing task as DEFERRED")
    return airflow.counts(dag_id, run_id, task_id).worker_starts, deferrals


def test_batches_come_in_order_one_a_hop(handled_run: tuple[Deployment, str]) -> None:
    """resume_every_pages: each event once, in order, four a call; the last one says that it is."""
    assert results(handled_run, "batches") == batches_of(12, 4)


def test_each_batch_costs_one_hop(handled_run: tuple[Deployment, str]) -> None:
    """The task starts in the triggerer; three batches are three worker starts, two of which defer again."""
    assert hops(handled_run, "batches") == (3, 2)


def test_task_has_its_first_start_after_all_hops(handled_run: tuple[Deployment, str]) -> None:
    """What execution_timeout is counted from stays over the hops, two of which take ten seconds."""
    airflow, run_id = handled_run
    assert (airflow.task("handled", run_id, "batches").seconds or 0) > 20


def test_pages_are_there_beside_the_results(handled_run: tuple[Deployment, str]) -> None:
    """The stream of the pages has the key "pages"."""
    airflow, run_id = handled_run
    assert json.loads(airflow.inspect.xcom("handled", run_id, "read_pages")) == list(range(12))


def test_without_a_bound_there_is_one_resume(handled_run: tuple[Deployment, str]) -> None:
    """At the end the handler gets all pages, in batches that are bounded."""
    assert hops(handled_run, "once") == (1, 0)
    assert results(handled_run, "once") == batches_of(40, 32)


def test_worker_mode_hands_over_the_same_events(handled_run: tuple[Deployment, str]) -> None:
    """H5: deferrable=False gives a handler the same events in the same order, and defers never."""
    airflow, run_id = handled_run
    assert [event for batch in results(handled_run, "here") for event in batch] == events(0, 12, 12)
    assert airflow.counts("handled", run_id, "here").trigger_runs == 0


@pytest.mark.parametrize("task_id", ["stopped", "stopped_here"])
def test_handler_can_end_the_stream(handled_run: tuple[Deployment, str], task_id: str) -> None:
    """StopStream ends the task successfully with what was handled before."""
    assert results(handled_run, task_id) == [0, 1, 2, 3, 4]
    assert handled_run[0].task("handled", handled_run[1], task_id).state == "success"


def test_stopped_task_defers_no_more(handled_run: tuple[Deployment, str]) -> None:
    """After StopStream in the second batch the task does not defer again."""
    assert hops(handled_run, "stopped") == (2, 1)


def test_failing_handler_fails_the_try_and_the_retry_begins_anew(
    handled_run: tuple[Deployment, str],
) -> None:
    """A handler that raises on event 7 fails the try with a note of the event; nothing of it is left."""
    airflow, run_id = handled_run
    log = airflow.inspect.task_log("handled", run_id, "failing")
    assert "event 7 was taken last" in log
    assert airflow.task("handled", run_id, "failing").try_number == 2
    assert results(handled_run, "failing") == [f"try 2 event {number}" for number in range(9)]


def test_retry_leaves_no_row_of_the_failed_try_of_a_handler(handled_run: tuple[Deployment, str]) -> None:
    """The rows of both streams carry the run of the last try."""
    airflow, run_id = handled_run
    keys = [row.key for row in airflow.inspect.xcom_rows("handled", run_id, "failing")]
    marks = {match[1] for key in keys if (match := re.search(r"\.(\w{8})\.\d", key))}
    assert marks == {airflow.task("handled", run_id, "failing").id[-8:]}


def test_old_method_is_called_for_each_event(handled_run: tuple[Deployment, str]) -> None:
    """An operator of before works on the events of an existing trigger, named by next_method."""
    airflow, run_id = handled_run
    assert results(handled_run, "migrated") == [0, 10, 20, 30, 40, 50]
    assert airflow.inspect.xcom("handled", run_id, "migrated", "event_4") == 4


def test_pages_of_an_http_api_are_handled_the_same_in_both_ways(airflow: Deployment) -> None:
    """H5: a handler gets the items of each page, deferred and on a worker, each page asked for once."""
    with PagedApi(ApiSettings(pages=5, items=4)) as api:
        airflow.connect("handled_http", api.url)
        run = (airflow, airflow.run("handled_http"))
        asked = sorted(api.asked())
    assert [results(run, task_id, "handled_http") for task_id in ("deferred", "here")] == [
        list(range(20))
    ] * 2
    assert asked == sorted([*range(5), *range(5)])


def test_example_of_an_own_trigger_runs(airflow: Deployment) -> None:
    """The trigger and the operator of the documentation, on an API of three pages."""
    with PagedApi(ApiSettings(pages=3, items=5)) as api:
        run_id = airflow.run("own_orders", {"url": f"{api.url}/cursor"})
    assert results((airflow, run_id), "orders", "own_orders") == list(range(15))


@pytest.mark.timeout(900)
def test_forty_pages_in_ten_hops_stay_in_order(airflow: Deployment) -> None:
    """Three runs of three with FULL=1: many resumes in a row do not lose the task to the scheduler."""
    for _ in range(3 if os.environ.get("FULL") else 1):
        run_id = airflow.run("handled_often", seconds=280)
        assert results((airflow, run_id), "batches", "handled_often") == batches_of(40, 4)
        assert hops((airflow, run_id), "batches", "handled_often") == (10, 9)
