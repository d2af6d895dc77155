# SPDX-License-Identifier: Apache-2.0
"""Assets that are watched by one trigger each, and XComs from the triggerer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from harness.api import ApiSettings, PagedApi
from harness.deployment import Deployment
from harness.processes import wait_until
from tests.support.databases import ONLY_POSTGRES

pytestmark = [pytest.mark.timeout(400), ONLY_POSTGRES]
BURST = ApiSettings(pages=5, items=5)


def watch(airflow: Deployment, *dag_ids: str) -> None:
    """Let Dags be run by their assets, from now on."""
    for dag_id in dag_ids:
        airflow.pause(dag_id, False)
    airflow.airflow("dags", "reserialize")


@pytest.fixture(scope="module")
def shops(airflow: Deployment) -> Iterator[dict[str, PagedApi]]:
    """Two APIs that have 25 items each, and are watched."""
    with ExitStack() as stack:
        apis = {name: stack.enter_context(PagedApi(BURST)) for name in ("watched_burst", "shop_events")}
        for name, api in apis.items():
            airflow.connect(name, api.url)
        watch(airflow, "watched_burst", "read_orders")
        yield apis
        airflow.pause("watched_burst")
        airflow.pause("read_orders")


def read_ids(airflow: Deployment) -> list[int]:
    """Return what all runs of the example Dag have read, in order."""
    runs = airflow.inspect.run_ids("read_orders")
    ended = [run for run in runs if airflow.inspect.dag_run_state("read_orders", run) == "success"]
    return [number for run in ended for number in airflow.inspect.xcom("read_orders", run, "read")]


def test_every_event_of_a_burst_is_recorded_once(airflow: Deployment, shops: dict[str, PagedApi]) -> None:
    """A burst of 25 items: 25 events, in order, numbered through, none twice."""
    wait_until(lambda: airflow.inspect.asset_events("watched_burst") >= 25, 90, "25 events")
    polls = len(shops["watched_burst"].requests)
    wait_until(lambda: len(shops["watched_burst"].requests) >= polls + 3, 60, "more polls")
    recorded = airflow.inspect.asset_payloads("watched_burst")
    assert [event["sequence_index"] for event in recorded] == list(range(25))
    assert [event["payload"]["id"] for event in recorded] == list(range(25))


def test_watcher_of_a_failing_api_goes_on(airflow: Deployment, shops: dict[str, PagedApi]) -> None:
    """A page that fails for good fails the watcher; Airflow starts it anew, and nothing comes twice."""
    wait_until(lambda: airflow.inspect.asset_events("watched_burst") >= 25, 90, "25 events")
    shops["watched_burst"].reset(ApiSettings(pages=7, items=5, fail={6: [500, 500]}))
    wait_until(lambda: airflow.inspect.asset_events("watched_burst") >= 35, 90, "the later events")
    recorded = airflow.inspect.asset_payloads("watched_burst")
    assert [event["sequence_index"] for event in recorded] == list(range(35))
    assert [event["payload"]["id"] for event in recorded] == list(range(35))


def test_example_reads_every_event_once(airflow: Deployment, shops: dict[str, PagedApi]) -> None:
    """Few runs, of which each reads everything since its own watermark: all events, each of them once."""
    wait_until(lambda: len(read_ids(airflow)) >= 25, 120, "the events are read")
    shops["shop_events"].reset(ApiSettings(pages=6, items=5))
    wait_until(lambda: len(read_ids(airflow)) >= 30, 120, "the later events are read")
    assert read_ids(airflow) == list(range(30))
    assert len(airflow.inspect.run_ids("read_orders")) < 30


def test_events_stay_out_of_the_log(airflow: Deployment, shops: dict[str, PagedApi]) -> None:
    """The triggerer logs that an event was sent, and not what is in it."""
    wait_until(lambda: airflow.inspect.asset_events("watched_burst") >= 25, 90, "25 events")
    log = airflow.triggerer.log.read_text()
    assert log.count("WatcherEvent(") >= 25
    assert "item 7" not in log


def test_pushed_values_are_there_when_the_task_ends(airflow: Deployment) -> None:
    """T6: a trigger of someone else ends its task in the triggerer, with XComs."""
    run = airflow.run("pushed")
    assert airflow.inspect.xcom("pushed", run, "good", "moment") == "2026-01-01T00:00:00+00:00"
    assert airflow.inspect.xcom("pushed", run, "good") == [1, 2]
    assert airflow.counts("pushed", run, "good").worker_starts == 1


def test_failed_push_fails_the_try(airflow: Deployment) -> None:
    """T6: what the database refuses was not pushed: the try fails, the log names the key and no value."""
    run = airflow.trigger("not_pushed")
    assert airflow.wait("not_pushed", run) == "failed"
    log = airflow.inspect.task_log("not_pushed", run, "bad")
    assert "XCom 'report' was not pushed" in log
    assert "s3cret" not in log
    assert airflow.inspect.xcom_rows("not_pushed", run, "bad") == []


def test_killed_triggerer_loses_no_event(airflow: Deployment) -> None:
    """SIGKILL in the middle of a burst: all 25 events; one that comes twice has the same number."""
    with PagedApi(BURST) as api:
        airflow.connect("watched_killed", api.url)
        api.hold(3)
        watch(airflow, "watched_killed")
        api.wait_held(3)
        wait_until(lambda: airflow.inspect.asset_events("watched_killed") > 0, 60, "the first events")
        airflow.triggerer.kill()
        before = len(api.requests)
        airflow.triggerer.start()
        wait_until(lambda: len(api.requests) > before, 60, "the watcher goes on")
        api.release(3)
        wait_until(
            lambda: (
                {event["sequence_index"] for event in airflow.inspect.asset_payloads("watched_killed")}
                >= set(range(25))
            ),
            90,
            "25 events",
        )
    recorded = airflow.inspect.asset_payloads("watched_killed")
    airflow.pause("watched_killed")
    assert {(event["sequence_index"], event["payload"]["id"]) for event in recorded} == {
        (number, number) for number in range(25)
    }
    assert len({event["trigger_run_id"] for event in recorded}) == 1
    # Only what was sent before the kill can be in doubt.
    assert len(recorded) <= 25 + 15
