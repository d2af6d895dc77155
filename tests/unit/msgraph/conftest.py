# SPDX-License-Identifier: Apache-2.0
"""A Graph of their own for the tests of a session, and streams from it."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from typing import Any

import pytest

from airflow_provider_iteration.triggers.msgraph import MSGraphStreamingTrigger
from harness.graph import GraphApi, GraphSettings, as_json
from harness.tls import TestAuthority
from tests.support.triggers import give_task
from tests.unit.conftest import XComs


@pytest.fixture(scope="session")
def server_context(tmp_path_factory: pytest.TempPathFactory) -> ssl.SSLContext:
    return TestAuthority(tmp_path_factory.mktemp("authority")).server()


@pytest.fixture(scope="session")
def running(server_context: ssl.SSLContext) -> Iterator[GraphApi]:
    with GraphApi(server_context) as graph:
        yield graph


class Graph:
    """The API, and streams from it."""

    def __init__(self, api: GraphApi, monkeypatch: pytest.MonkeyPatch, xcoms: XComs) -> None:
        self.api = api
        self.xcoms = xcoms
        self._monkeypatch = monkeypatch
        self.connect()

    def connect(self, **extra: Any) -> None:
        self._monkeypatch.setenv("AIRFLOW_CONN_GRAPH", as_json(self.api.connection(**extra)))

    def trigger(self, url: str = "users", **arguments: Any) -> MSGraphStreamingTrigger:
        trigger = MSGraphStreamingTrigger(conn_id="graph", url=url, **arguments)
        give_task(trigger)
        return trigger

    async def stream(self, url: str = "users", **arguments: Any) -> list[Any]:
        return list(await self.trigger(url, **arguments).stream())


@pytest.fixture
def graph(running: GraphApi, monkeypatch: pytest.MonkeyPatch, xcoms: XComs) -> Graph:
    running.reset(GraphSettings())
    return Graph(running, monkeypatch, xcoms)
