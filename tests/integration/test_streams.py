# SPDX-License-Identifier: Apache-2.0
"""Streams on a real deployment: from a trigger to a reader."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.api import ApiSettings, PagedApi, make_item
from harness.deployment import Deployment
from harness.processes import wait_until

pytestmark = pytest.mark.timeout(300)
KIB_256 = 256 * 1024


@pytest.mark.lowest
def test_pages_go_from_one_trigger_run_to_a_lazy_reader(airflow: Deployment) -> None:
    """T1: all pages in one trigger run, no worker start, few rows, each item once and in order."""
    with PagedApi(ApiSettings(pages=30, items=300)) as api:
        airflow.connect("stream", api.url)
        run = airflow.run("stream")
    counts = airflow.counts("stream", run, "pages")
    assert airflow.inspect.xcom("stream", run, "check_numbers") == 9000
    assert (counts.worker_starts, counts.trigger_runs) == (0, 1)
    assert counts.xcom_rows <= counts.xcom_bytes // KIB_256 + 5


def test_dag_that_knows_nothing_of_this_package_reads_a_stream(airflow: Deployment) -> None:
    """The reference is deserialised in every task process, whichever Dag file reads it."""
    with PagedApi(ApiSettings(pages=2, items=3)) as api:
        airflow.connect("stream", api.url)
        run = airflow.run("stream")
    reader = airflow.run("plain_reader", {"run_id": run})
    assert airflow.inspect.xcom("plain_reader", reader, "read") == 15


def test_example_of_the_documentation_runs(airflow: Deployment) -> None:
    """The Dag of the quickstart and of `make demo`."""
    with PagedApi(ApiSettings(pages=3)) as api:
        airflow.connect("shop", api.url)
        run = airflow.run("orders")
    assert airflow.inspect.xcom("orders", run, "count") == 30


@pytest.mark.lowest
def test_worker_mode_gives_the_same_items(airflow: Deployment) -> None:
    """deferrable=False streams on the worker, with the same result."""
    with PagedApi(ApiSettings(pages=7)) as api:
        airflow.connect("on_worker", api.url)
        run = airflow.run("on_worker")
    assert airflow.inspect.xcom("on_worker", run, "check_numbers") == 70
    assert airflow.counts("on_worker", run, "pages").trigger_runs == 0


def test_failing_page_fails_the_try_and_the_retry_runs(airflow: Deployment) -> None:
    """T7: a page that fails for good fails the try with its number and the API's words; retries run."""
    settings = ApiSettings(pages=8, fail={3: [500, 500, 503]}, retry_after="0")
    with PagedApi(settings) as api:
        airflow.connect("failing", api.url)
        run = airflow.run("failing")
    log = airflow.inspect.task_log("failing", run, "pages")
    assert "page 4 failed: HTTP 503" in log
    assert "try again" in log
    assert "committed before that: 3 pages, 30 items" in log
    assert "s3cret" not in log
    assert airflow.task("failing", run, "pages").try_number == 2
    assert airflow.inspect.xcom("failing", run, "check_numbers") == 80


def test_retry_leaves_no_row_of_the_failed_try(airflow: Deployment) -> None:
    """A re-run removes what its previous run left."""
    with PagedApi(ApiSettings(pages=8, fail={3: [500, 500, 500]}, retry_after="0")) as api:
        airflow.connect("failing", api.url)
        run = airflow.run("failing")
    keys = {row.key for row in airflow.inspect.xcom_rows("failing", run, "pages")}
    run_mark = airflow.task("failing", run, "pages").id[-8:]
    assert keys == {"return_value", "return_value.head", f"return_value.{run_mark}.0"}


def test_clearing_a_finished_stream_replaces_its_rows(airflow: Deployment) -> None:
    """After a clear the stream is written anew, and no row of the first time is left."""
    with PagedApi(ApiSettings(pages=3)) as api:
        airflow.connect("stream", api.url)
        run = airflow.run("stream")
        airflow.clear("stream", run, ["pages", "check_numbers"])
        airflow.wait_task("stream", run, "check_numbers", ["success"], try_number=2)
    marks = {
        row.key.split(".")[1] for row in airflow.inspect.xcom_rows("stream", run, "pages") if "." in row.key
    }
    assert marks == {"head", airflow.task("stream", run, "pages").id[-8:]}


def test_marking_failed_closes_the_connection(airflow: Deployment) -> None:
    """T4: a task that is marked failed stops its pages and closes its connection."""
    with PagedApi(ApiSettings(pages=9)) as api:
        airflow.connect("killed", api.url)
        api.hold(4)
        run = airflow.trigger("killed")
        api.wait_held(4)
        airflow.mark("killed", run, "pages", "failed")
        wait_until(lambda: api.requests[4].client_left, 30, "the connection is closed")
        asked = api.asked()
    assert asked == [0, 1, 2, 3, 4]


@pytest.fixture(scope="module")
def broken_run(airflow: Deployment) -> tuple[Deployment, str]:
    """A run of tasks that all fail, each in its own way."""
    with PagedApi(ApiSettings(pages=9, items=50, foreign={2: "http://other.example"})) as api:
        airflow.connect("broken", api.url)
        run = airflow.trigger("broken")
        airflow.wait("broken", run)
    return airflow, run


@pytest.mark.parametrize(
    ("task_id", "message"),
    [
        ("limited", r"max_bytes=20000"),
        ("wrong_path", r"orders.*'items', 'meta'"),
        ("foreign", r"other\.example"),
    ],
)
def test_error_of_a_trigger_reaches_the_task(
    broken_run: tuple[Deployment, str], task_id: str, message: str
) -> None:
    """A body beyond max_bytes, a wrong path, a foreign link: the worker's log says what and where."""
    airflow, run = broken_run
    assert airflow.task("broken", run, task_id).state == "failed"
    assert re.search(message, airflow.inspect.task_log("broken", run, task_id))


ODD_VALUES = [
    {"z": "nul \0 inside", "a": "lone \ud800 surrogate"},
    {"numbers": [1e20, -0.0, 2**70, 0.1, 1e-9], "longer": {"b": 1, "aa": 2, "a": 3}},
    {"": None, "__type": "dict", "$bytes": "no"},
    [],
    "",
]


def test_odd_pages_come_back_equal(airflow: Deployment) -> None:
    """NUL, NaN, lone surrogates, key order, bytes 0 to 255 and 20 MB survive the database."""
    items = [*ODD_VALUES, float("nan")]
    bodies = {0: items, 1: bytes(range(256)), 2: {"items": [make_item(n, 2000) for n in range(10_000)]}}
    with PagedApi(ApiSettings(bodies=bodies)) as api:
        airflow.connect("whole_pages", api.url)
        run = airflow.run("whole_pages", seconds=200)
    assert airflow.inspect.xcom("whole_pages", run, "digest") == digest(items)
    assert airflow.inspect.xcom("whole_pages", run, "digest_raw") == digest([bytes(range(256))])
    assert airflow.inspect.xcom("whole_pages", run, "check_large") == 10_000


def digest(items: list[object]) -> str:
    import hashlib

    text = "\n".join(f"{type(item).__name__} {item!r}" for item in items)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def test_users_own_trigger_streams(airflow: Deployment) -> None:
    """A StreamingTrigger of 10 lines streams, and so do the events of any other trigger."""
    run = airflow.run("own_triggers")
    assert json.loads(airflow.inspect.xcom("own_triggers", run, "total")) == list(range(100))
    assert json.loads(airflow.inspect.xcom("own_triggers", run, "total_wrapped")) == list(range(12))


@pytest.fixture(scope="module")
def placed_run(airflow: Deployment) -> Iterator[tuple[Deployment, str, PagedApi]]:
    """A run of one task for each place in which a streaming task can start and end."""
    airflow.airflow("pools", "set", "small", "1", "for tests")
    airflow.airflow("variables", "set", "word", "hello")
    with PagedApi(ApiSettings(pages=3)) as api:
        airflow.connect("placed", api.url)
        run = airflow.run("placed", seconds=200)
        yield airflow, run, api


@pytest.mark.parametrize(
    ("task_id", "worker_starts"),
    [("plain", 0), ("templated", 0), ("outlet", 1), ("callback", 1), ("expanded", 1)],
)
def test_task_starts_in_the_triggerer(
    placed_run: tuple[Deployment, str, PagedApi], task_id: str, worker_starts: int
) -> None:
    """Where nothing is lost no worker is started; otherwise one ends the task."""
    airflow, run, _ = placed_run
    counts = airflow.counts("placed", run, task_id)
    assert (counts.worker_starts, counts.trigger_runs) == (worker_starts, 1)


@pytest.mark.parametrize("task_id", ["argument", "pull", "pooled"])
def test_task_starts_on_a_worker(placed_run: tuple[Deployment, str, PagedApi], task_id: str) -> None:
    """Another task's output, a pull, a pool: the task starts on a worker, and ends in the triggerer."""
    airflow, run, _ = placed_run
    counts = airflow.counts("placed", run, task_id)
    assert (counts.worker_starts, counts.trigger_runs) == (1, 1)


def test_mapped_instances_start_on_workers_and_say_so(
    placed_run: tuple[Deployment, str, PagedApi],
) -> None:
    """T3: a mapped task falls back to a worker start, and its log says why."""
    airflow, run, _ = placed_run
    assert "Started on a worker: the task is mapped" in airflow.inspect.task_log("placed", run, "mapped", 1)


def test_outlet_emits_its_asset_event(placed_run: tuple[Deployment, str, PagedApi]) -> None:
    """A streaming task with outlets emits the event of its asset."""
    assert placed_run[0].inspect.asset_events("placed_asset") == 1


def test_success_callback_runs(placed_run: tuple[Deployment, str, PagedApi], evidence: Path) -> None:
    """on_success_callback of a streaming task runs."""
    assert (evidence / "callback-callback").exists()


def test_template_is_rendered_in_the_triggerer(placed_run: tuple[Deployment, str, PagedApi]) -> None:
    """run_id, params, try_number and variables have their values in the request."""
    _, run, api = placed_run
    from urllib.parse import parse_qs

    seen = {parse_qs(request.query)["seen"][0] for request in api.requests if "seen" in request.query}
    assert seen == {f"{run} 42 1 hello"}


def test_mapped_task_expands_over_a_stream(placed_run: tuple[Deployment, str, PagedApi]) -> None:
    """`.expand()` over a stream of pages makes an instance for each page."""
    airflow, run, _ = placed_run
    states = [i.state for i in airflow.inspect.task_instances("placed", run) if i.task_id == "count"]
    assert states == ["success"] * 3
