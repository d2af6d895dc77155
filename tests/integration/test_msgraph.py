# SPDX-License-Identifier: Apache-2.0
"""The Microsoft Graph operator on a real deployment, with the real Kiota and azure-identity."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from harness.deployment import Deployment
from harness.graph import GraphApi, GraphSettings, removed
from harness.tls import TestAuthority
from tests.support.databases import ONLY_POSTGRES

pytestmark = [pytest.mark.timeout(300), ONLY_POSTGRES]

LARGE = 20 * 1024 * 1024


@pytest.fixture(scope="module")
def graph(airflow: Deployment, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GraphApi]:
    """A Graph that the connection ``graph`` leads to."""
    with GraphApi(TestAuthority(tmp_path_factory.mktemp("authority")).server()) as api:
        airflow.connect_as("graph", api.connection())
        yield api


def counted(airflow: Deployment, dag_id: str, run: str, task_id: str, index: int = -1) -> tuple[int, int]:
    counts = airflow.counts(dag_id, run, task_id, index)
    return counts.worker_starts, counts.trigger_runs


@pytest.mark.lowest
def test_pages_come_in_one_trigger_run(airflow: Deployment, graph: GraphApi) -> None:
    """No worker start, one run of a trigger; a header is rendered there and goes with every page."""
    graph.reset(GraphSettings(pages=6))
    run = airflow.run("graph_pages")
    assert counted(airflow, "graph_pages", run, "pages") == (0, 1)
    assert airflow.inspect.xcom("graph_pages", run, "ids") == [f"u{number}" for number in range(12)]
    assert [request.headers["X-Run"] for request in graph.requests] == [run] * 6
    assert len(graph.token_requests) == 1


def test_function_pages_on_the_worker(airflow: Deployment, graph: GraphApi) -> None:
    """A function cannot be sent: the worker pages, with the same result, and its log says why."""
    graph.reset(GraphSettings())
    run = airflow.run("graph_worker")
    assert counted(airflow, "graph_worker", run, "pages") == (1, 0)
    assert airflow.inspect.xcom("graph_worker", run, "ids") == [f"u{number}" for number in range(6)]
    log = airflow.inspect.task_log("graph_worker", run, "pages")
    assert "The pages are fetched on this worker: result_processor is a callable" in log


@pytest.mark.lowest
def test_delta_over_runs(airflow: Deployment, graph: GraphApi) -> None:
    """A run goes on from the newest earlier run that has succeeded as a whole; all without a worker."""
    graph.reset(GraphSettings(pages=2, items=1))
    first = airflow.run("graph_delta")
    graph.changes += [removed(1)]
    failed = airflow.trigger("graph_delta", {"fail": True})
    assert airflow.wait("graph_delta", failed) == "failed"
    graph.changes += [removed(2)]
    third = airflow.run("graph_delta")
    fourth = airflow.run("graph_delta")
    came = {run: [item["id"] for item in items(airflow, run)] for run in (first, failed, third, fourth)}
    assert came == {first: ["u0", "u1"], failed: ["u1"], third: ["u1", "u2"], fourth: []}
    assert counted(airflow, "graph_delta", third, "changes") == (0, 1)
    for secret in ("deltatoken", "skiptoken"):
        assert secret not in airflow.inspect.task_log("graph_delta", third, "changes")


def test_mapped_instances_do_not_mix(airflow: Deployment, graph: GraphApi) -> None:
    """G3: each of three mapped instances has its own pages, in order."""
    graph.reset(GraphSettings(pages=3, items=2, delay=0.1))
    run = airflow.run("graph_mapped")
    for index in range(3):
        read = airflow.inspect.xcom("graph_mapped", run, "ids", map_index=index)
        assert read == [f"g{index}u{number}" for number in range(6)]
        assert counted(airflow, "graph_mapped", run, "members", index) == (2, 1)


def test_huge_page_travels_in_no_event(airflow: Deployment, graph: GraphApi) -> None:
    """G4: a page of 20 MB goes into a row, never into a trigger event; the task ends."""
    graph.reset(GraphSettings(pages=1, items=1, text=LARGE))
    run = airflow.run("graph_large")
    (length,) = airflow.inspect.xcom("graph_large", run, "lengths")
    assert LARGE < length < LARGE + 1000
    assert counted(airflow, "graph_large", run, "pages") == (0, 1)


def test_example_runs(airflow: Deployment, graph: GraphApi) -> None:
    """The example Dag does what its page says."""
    graph.reset(GraphSettings(pages=3, items=2))
    airflow.connect_as("msgraph_default", graph.connection())
    run = airflow.run("directory")
    assert airflow.inspect.xcom("directory", run, "count") == 6
    assert len(airflow.inspect.xcom("directory", run, "sort_out")["changed"]) == 6


def items(airflow: Deployment, run: str) -> list[Any]:
    """Return what a run of the delta query has, from its rows."""
    rows = [row.key for row in airflow.inspect.xcom_rows("graph_delta", run, "changes")]
    chunks = sorted(key for key in rows if key.startswith("return_value.") and not key.endswith(".head"))
    found: list[Any] = []
    for key in chunks:
        found += airflow.inspect.xcom("graph_delta", run, "changes", key)["items"]
    return found
