# SPDX-License-Identifier: Apache-2.0
"""Dags that are run by events of a watched API, and tasks whose triggers push XComs."""

from __future__ import annotations

from typing import Any

from airflow.sdk import Asset, AssetWatcher, BaseOperator, dag, task
from event_probes import PushingTrigger

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


class PushingOperator(BaseOperator):
    """Ends in the triggerer, with what its trigger has pushed."""

    def __init__(self, *, good: bool, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.good = good

    def execute(self, context: Any) -> None:
        self.defer(trigger=PushingTrigger(good=self.good), method_name="never")


@dag(schedule=None)
def pushed() -> None:
    PushingOperator(task_id="good", good=True)


@dag(schedule=None)
def not_pushed() -> None:
    PushingOperator(task_id="bad", good=False)


watched_burst()
watched_killed()
pushed()
not_pushed()
