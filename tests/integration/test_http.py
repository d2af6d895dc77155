# SPDX-License-Identifier: Apache-2.0
"""The HTTP operator on a real deployment: every paginator, callables, rates."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from harness.api import ApiSettings, PagedApi
from harness.deployment import Deployment

pytestmark = pytest.mark.timeout(300)


@pytest.mark.lowest
def test_every_paginator_of_the_documentation_runs(airflow: Deployment) -> None:
    """One example for each paginator, from the triggerer to a reader."""
    with PagedApi(ApiSettings(pages=4, items=5, short=2)) as api:
        airflow.connect("shop", api.url)
        run = airflow.run("paging")
    counts = {
        name: airflow.inspect.xcom("paging", run, f"count_{name}")
        for name in ("next_link", "link_header", "cursor", "offset", "page_number", "as_dict")
    }
    assert set(counts.values()) == {18}, counts
    assert airflow.inspect.xcom("paging", run, "count_single_page") == 5
    assert airflow.inspect.xcom("paging", run, "count_stopped") == 10


@pytest.fixture(scope="module")
def options_run(airflow: Deployment) -> Iterator[tuple[Deployment, str, PagedApi]]:
    """A run of the Dag with callables; one of its tasks fails on purpose."""
    with PagedApi(ApiSettings(pages=3, items=2)) as api:
        airflow.connect("http_options", api.url)
        run = airflow.trigger("http_options")
        assert airflow.wait("http_options", run, 200) == "failed"
        yield airflow, run, api


@pytest.mark.parametrize(
    ("task_id", "worker_starts", "trigger_runs"),
    [
        ("imported", 0, 1),
        ("imported_paging", 0, 1),
        ("own_paginator", 0, 1),
        ("limited", 0, 1),
        ("function", 1, 0),
        ("function_paging", 1, 0),
    ],
)
def test_callable_runs_where_it_can(
    options_run: tuple[Deployment, str, PagedApi], task_id: str, worker_starts: int, trigger_runs: int
) -> None:
    """H6: import paths are called in the triggerer, functions on a worker; the result is the same."""
    airflow, run, _ = options_run
    counts = airflow.counts("http_options", run, task_id)
    assert (counts.worker_starts, counts.trigger_runs) == (worker_starts, trigger_runs)
    read = json.loads(airflow.inspect.xcom("http_options", run, f"{task_id}_read"))
    assert read == [[0, 1], [2, 3], [4, 5]]


def test_log_says_why_the_worker_pages(options_run: tuple[Deployment, str, PagedApi]) -> None:
    """A task that pages on the worker says which argument is the reason."""
    airflow, run, _ = options_run
    log = airflow.inspect.task_log("http_options", run, "function")
    assert "The pages are fetched on this worker: response_filter is a callable" in log


def test_refused_page_fails_the_task(options_run: tuple[Deployment, str, PagedApi]) -> None:
    """response_check that says no fails the try, with the page and the reason."""
    airflow, run, _ = options_run
    log = airflow.inspect.task_log("http_options", run, "refused")
    assert airflow.task("http_options", run, "refused").state == "failed"
    assert "page 1 failed: HTTP 200 response_check returned False" in log
