# SPDX-License-Identifier: Apache-2.0
"""Stand-ins for what only a running task has."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import Any

import pytest

from airflow_provider_iteration import _compat


class XComs:
    """The XComs of a process without a supervisor: written through Airflow's serialisation, kept as JSON."""

    def __init__(self) -> None:
        self.rows: dict[tuple[Any, ...], str] = {}
        self.reads: list[str] = []
        self.threads: set[str] = set()
        self.before_write: Callable[[str], None] | None = None

    def read(self, *, key: str, **place: Any) -> Any:
        from airflow.sdk.serde import deserialize

        self.reads.append(key)
        self.threads.add(threading.current_thread().name)
        text = self.rows.get((key, *place.values()))
        return None if text is None else deserialize(json.loads(text))

    def write(self, value: Any, *, key: str, **place: Any) -> None:
        from airflow.sdk.serde import serialize

        self.threads.add(threading.current_thread().name)
        if self.before_write is not None:
            self.before_write(key)
        self.rows[(key, *place.values())] = json.dumps(serialize(value), allow_nan=False)

    def delete(self, *, key: str, **place: Any) -> None:
        self.rows.pop((key, *place.values()), None)


@pytest.fixture
def xcoms(monkeypatch: pytest.MonkeyPatch) -> XComs:
    """XComs in memory, for streams that are written and read within a test."""
    kept = XComs()
    monkeypatch.setattr(_compat, "read_xcom", kept.read)
    monkeypatch.setattr(_compat, "write_xcom", kept.write)
    monkeypatch.setattr(_compat, "delete_xcom", kept.delete)
    return kept
