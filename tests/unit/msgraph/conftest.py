# SPDX-License-Identifier: Apache-2.0
"""A Graph of their own for the tests of a session, and streams from it."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from itertools import count
from typing import Any
from uuid import UUID

import pytest

from airflow_provider_iteration import _compat
from airflow_provider_iteration.triggers.msgraph import MSGraphStreamingTrigger
from harness.graph import GraphApi, GraphSettings, as_json
from harness.tls import TestAuthority
from tests.support.streams import RUN_A
from tests.support.triggers import give_task
from tests.unit.conftest import XComs


@pytest.fixture(scope="session")
def server_context(tmp_path_factory: pytest.TempPathFactory) -> ssl.SSLContext:
    return TestAuthority(tmp_path_factory.mktemp("authority")).server()


@pytest.fixture(scope="session")
def running(server_context: ssl.SSLContext) -> Iterator[GraphApi]:
    with GraphApi(server_context) as graph:
        yield graph


# A task instance's ids grow from try to try.
TRIES = count()


class Graph:
    """The API, and streams from it."""

    def __init__(self, api: GraphApi, monkeypatch: pytest.MonkeyPatch, xcoms: XComs) -> None:
        self.api = api
        self.xcoms = xcoms
        self._monkeypatch = monkeypatch
        self.connect()

    def connect(self, **extra: Any) -> None:
        self._monkeypatch.setenv("AIRFLOW_CONN_GRAPH", as_json(self.api.connection(**extra)))

    def trigger(self, url: str = "users", run_id: str = "r1", **arguments: Any) -> MSGraphStreamingTrigger:
        trigger = MSGraphStreamingTrigger(conn_id="graph", url=url, **arguments)
        give_task(trigger, str(UUID(int=UUID(RUN_A).int + next(TRIES))))
        instance: Any = trigger.task_instance
        instance.run_id = run_id
        return trigger

    async def stream(self, url: str = "users", **arguments: Any) -> list[Any]:
        return list(await self.trigger(url, **arguments).stream())


@pytest.fixture
def graph(running: GraphApi, monkeypatch: pytest.MonkeyPatch, xcoms: XComs) -> Graph:
    running.reset(GraphSettings())
    return Graph(running, monkeypatch, xcoms)


class Runs:
    """The runs of a Dag, as a supervisor knows them: run id -> state, the newest last."""

    def __init__(self, xcoms: XComs) -> None:
        self._xcoms = xcoms
        self.states: dict[str, str] = {}

    def newest_xcom(self, *, run_id: str, **place: Any) -> Any:
        runs = list(self.states)
        for earlier in reversed(runs[: runs.index(run_id) + 1]):
            order = ("dag_id", "task_id", "run_id", "map_index")
            named = {**place, "run_id": earlier}
            row = self._xcoms.read(key=place["key"], **{name: named[name] for name in order})
            if row is not None:
                return row
        return None

    def count(self, dag_id: str, state: str) -> int:
        return list(self.states.values()).count(state)


@pytest.fixture
def runs(xcoms: XComs, monkeypatch: pytest.MonkeyPatch) -> Runs:
    made = Runs(xcoms)
    monkeypatch.setattr(_compat, "read_newest_xcom", made.newest_xcom)
    monkeypatch.setattr(_compat, "dag_run_state", lambda dag_id, run_id: made.states[run_id])
    monkeypatch.setattr(_compat, "count_dag_runs", made.count)
    return made
