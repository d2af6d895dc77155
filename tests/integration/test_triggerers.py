# SPDX-License-Identifier: Apache-2.0
"""Triggerers that die, stall, or have much to do."""

from __future__ import annotations

import statistics
from collections import Counter

import pytest

from harness.api import ApiSettings, PagedApi
from harness.deployment import Deployment
from harness.processes import wait_until
from tests.support.databases import ONLY_POSTGRES

MAX_UNCOMMITTED = 4
pytestmark = [pytest.mark.timeout(400), ONLY_POSTGRES]


def committed_pages(airflow: Deployment, run: str) -> int:
    """Return how many pages the head of the stream counts."""
    pages: int = airflow.inspect.xcom("interrupted", run, "pages", "return_value.head")["pages"]
    return pages


def test_killed_triggerer_loses_and_repeats_nothing(airflow: Deployment) -> None:
    """H3: SIGKILL in the middle: all pages once, no committed page asked for again, few others."""
    with PagedApi(ApiSettings(pages=40)) as api:
        airflow.connect("interrupted", api.url)
        api.hold(20)
        run = airflow.trigger("interrupted")
        api.wait_held(20)
        airflow.triggerer.kill()
        committed = committed_pages(airflow, run)
        before = len(api.requests)
        airflow.triggerer.start()
        wait_until(lambda: len(api.requests) > before, 60, "the stream goes on")
        api.release(20)
        assert airflow.wait("interrupted", run) == "success"
        again = Counter(api.asked())
    assert committed > 0
    assert airflow.inspect.xcom("interrupted", run, "check_numbers") == 400
    assert [page for page, times in again.items() if times > 1 and page < committed] == []
    assert sum(times > 1 for times in again.values()) <= MAX_UNCOMMITTED


def test_stalled_triggerer_stops_itself_when_it_wakes_up(airflow: Deployment) -> None:
    """SIGSTOP, a take-over by another triggerer, SIGCONT: all pages once, in order, few asked for twice."""
    with PagedApi(ApiSettings(pages=40)) as api:
        airflow.connect("interrupted", api.url)
        api.hold(20)
        run = airflow.trigger("interrupted")
        api.wait_held(20)
        airflow.triggerer.stop()
        committed = committed_pages(airflow, run)
        before = len(api.requests)
        other = airflow.start_triggerer()
        wait_until(lambda: len(api.requests) > before, 90, "the other triggerer takes over")
        airflow.triggerer.cont()
        api.release(20)
        state = airflow.wait("interrupted", run)
        again = Counter(api.asked())
        other.end()
    assert state == "success"
    assert airflow.inspect.xcom("interrupted", run, "check_numbers") == 400
    assert [page for page, times in again.items() if times > 1 and page < committed] == []
    assert sum(times > 1 for times in again.values()) <= MAX_UNCOMMITTED


def test_fifty_streams_share_a_triggerer_with_a_timer(airflow: Deployment) -> None:
    """50 streams at once all end, none much later than the others, and a stock timer keeps its time."""
    with PagedApi(ApiSettings(pages=20, items=100)) as api:
        airflow.connect("many", api.url)
        run = airflow.run("many", seconds=300)
    instances = {i.task_id: i for i in airflow.inspect.task_instances("many", run)}
    seconds = [i.seconds or 0.0 for name, i in instances.items() if name.startswith("pages_")]
    timer = instances["timer"].seconds or 0.0
    assert len(seconds) == 50
    assert max(seconds) <= 2 * statistics.median(seconds)
    assert timer <= 15.0
