# SPDX-License-Identifier: Apache-2.0
"""Iterations on a real deployment: one task instance for many items."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.api import ApiSettings, PagedApi
from harness.deployment import Deployment

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def iterated(airflow: Deployment) -> tuple[Deployment, str]:
    """A run of the Dag with an iteration of each kind."""
    return airflow, airflow.run("iterated", seconds=200)


def test_many_items_are_one_task_instance(iterated: tuple[Deployment, str]) -> None:
    """M1, M3: 20,000 items from an upstream task are one task instance, and few rows."""
    airflow, run = iterated
    instances = [i for i in airflow.inspect.task_instances("iterated", run) if i.task_id == "double"]
    assert airflow.inspect.xcom("iterated", run, "total") == [20_000, 2 * sum(range(20_000))]
    assert len(instances) == 1
    assert airflow.counts("iterated", run, "double").xcom_rows < 30


def test_what_an_item_pushes_carries_its_index(iterated: tuple[Deployment, str]) -> None:
    """Each item has keys of its own."""
    airflow, run = iterated
    pushed = [airflow.inspect.xcom("iterated", run, "push", f"mine_{index}") for index in range(3)]
    assert pushed == [7, 8, 9]


def test_iterations_are_chained(iterated: tuple[Deployment, str]) -> None:
    """M7: the results of one iteration are the input of another."""
    airflow, run = iterated
    assert airflow.inspect.xcom("iterated", run, "total_chained") == [20_000, 4 * sum(range(20_000))]


def test_mapped_upstream_is_iterated_over(iterated: tuple[Deployment, str]) -> None:
    """The outputs of a mapped task are an input like any other."""
    airflow, run = iterated
    assert airflow.inspect.xcom("iterated", run, "total_mapped") == [3, 6]


def test_mapped_task_expands_over_an_iteration(iterated: tuple[Deployment, str]) -> None:
    """M7: `.expand()` over the results makes an instance for each."""
    airflow, run = iterated
    states = [i.state for i in airflow.inspect.task_instances("iterated", run) if i.task_id == "expanded"]
    assert states == ["success", "success"]


def test_skipped_items_skip_what_wants_all(iterated: tuple[Deployment, str]) -> None:
    """M6: a direct downstream task is skipped by its trigger rule; another one gets the rest."""
    airflow, run = iterated
    assert airflow.task("iterated", run, "total_skipped").state == "skipped"
    assert airflow.inspect.xcom("iterated", run, "total_anyway") == [3, 9]


def test_template_shows_results_shortly(iterated: tuple[Deployment, str]) -> None:
    """X1: a template with the results says what they are, and reads none."""
    airflow, run = iterated
    assert (
        airflow.inspect.xcom("iterated", run, "shown")
        == "XComIterable(20000 items of iterated.double, not read)"
    )


def test_sync_call_on_the_event_loop_makes_progress(iterated: tuple[Deployment, str]) -> None:
    """C2: a coroutine that calls Airflow synchronously does not hang, while results are being written."""
    airflow, run = iterated
    pushed = [airflow.inspect.xcom("iterated", run, "on_the_loop", f"loop_{index}") for index in range(8)]
    assert pushed == list(range(8))


def test_indexed_results_have_keys_of_their_own(iterated: tuple[Deployment, str]) -> None:
    """xcom_layout='indexed' leaves a row for each item."""
    airflow, run = iterated
    assert airflow.inspect.xcom("iterated", run, "on_the_loop", "return_value_3") == 3


def test_callback_is_called_for_each_item(iterated: tuple[Deployment, str], evidence: Path) -> None:
    """on_success_callback is called eight times, with the context of each item."""
    assert sorted(path.name for path in evidence.glob("item-*")) == [f"item-{index}" for index in range(8)]


def test_items_emit_one_event_for_an_outlet(iterated: tuple[Deployment, str]) -> None:
    """An outlet has one event for the task instance."""
    assert iterated[0].inspect.asset_events("iterated_asset") == 1


def test_iteration_in_a_mapped_task_group(iterated: tuple[Deployment, str]) -> None:
    """Each instance of a mapped group iterates over its own input."""
    airflow, run = iterated
    results = [
        i.map_index
        for i in airflow.inspect.task_instances("iterated", run)
        if i.task_id == "group.in_group" and i.state == "success"
    ]
    assert results == [0, 1]


def test_progress_is_logged(iterated: tuple[Deployment, str]) -> None:
    """The log says how far the task came."""
    airflow, run = iterated
    log = airflow.inspect.task_log("iterated", run, "double")
    assert "20000 of 20000 items done: 20000 succeeded, 0 skipped, 0 failed" in log


def test_stream_is_iterated_over_with_a_session_of_its_own(airflow: Deployment) -> None:
    """Items of a stream, one session for all; operators for each item, sync and deferrable, beside it."""
    with PagedApi(ApiSettings(pages=4, items=5)) as api:
        airflow.connect("iterated_http", api.url)
        run = airflow.run("iterated_http", seconds=200)
    assert airflow.inspect.xcom("iterated_http", run, "total") == [20, 5 * sum(range(20))]
    assert airflow.inspect.xcom("iterated_http", run, "total_stock") == [5, 5 * sum(range(5))]
    assert airflow.inspect.xcom("iterated_http", run, "total_deferred") == [5, 5 * sum(range(5))]
    assert airflow.counts("iterated_http", run, "deferred").trigger_runs == 0


@pytest.mark.lowest
def test_example_of_the_documentation_runs(airflow: Deployment) -> None:
    """The Dag of the guide: a stream, an iteration over it with one session, and a reader."""
    with PagedApi(ApiSettings(pages=3, items=10)) as api:
        airflow.connect("shop", api.url)
        run = airflow.run("iterating")
    assert airflow.inspect.xcom("iterating", run, "count") == 300
