# SPDX-License-Identifier: Apache-2.0
"""Dags that are run by events of a watched API, and tasks whose triggers push XComs."""

from __future__ import annotations

from typing import Any

from airflow.sdk import Asset, AssetWatcher, BaseOperator, dag, task
from event_probes import RefusedTrigger, ReportingSensor

from airflow_provider_iteration.pagination import Cursor
from airflow_provider_iteration.triggers.http import HttpStreamingEventTrigger


def watched(name: str, **arguments: Any) -> Asset:
    trigger = HttpStreamingEventTrigger(
        http_conn_id=name,
        endpoint="cursor",
        paginator=Cursor("meta.next", "after"),
        items_path="items",
        page_retries=0,
        poll_interval=1,
        **arguments,
    )
    return Asset(name, watchers=[AssetWatcher(name=name, trigger=trigger)])


@task
def nothing() -> None:
    pass


@dag(schedule=[watched("watched_burst")], is_paused_upon_creation=True, max_active_runs=1)
def watched_burst() -> None:
    nothing()


@dag(schedule=[watched("watched_killed")], is_paused_upon_creation=True, max_active_runs=1)
def watched_killed() -> None:
    nothing()


@dag(schedule=None)
def pushed() -> None:
    ReportingSensor(task_id="good", target_time="2026-01-01T00:00:00+00:00")


class RefusedOperator(BaseOperator):
    """Its trigger does not get rid of its XCom."""

    def execute(self, context: Any) -> None:
        self.defer(trigger=RefusedTrigger(), method_name="never")


@dag(schedule=None)
def not_pushed() -> None:
    RefusedOperator(task_id="bad")


watched_burst()
watched_killed()
pushed()
not_pushed()
