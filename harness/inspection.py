# SPDX-License-Identifier: Apache-2.0
"""What a deployment did: read from its database, its task logs and its api-server's access log."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import sqlalchemy as sa

WORKER_START = "Worker startup parse complete"
TRIGGER_START = re.compile(r'"event":"trigger [^"]* starting"')


@dataclass(frozen=True)
class TaskInstance:
    """One task instance as the database has it."""

    task_id: str
    map_index: int
    state: str | None
    try_number: int
    id: str
    start_date: datetime | None
    end_date: datetime | None

    @property
    def seconds(self) -> float | None:
        """Time from start to end."""
        if self.start_date is None or self.end_date is None:
            return None
        return (self.end_date - self.start_date).total_seconds()


@dataclass(frozen=True)
class XComRow:
    """One XCom row: its key, and the length of its value's text in bytes."""

    key: str
    map_index: int
    bytes: int


@dataclass(frozen=True)
class Counts:
    """What one task instance cost, over all of its tries that are still logged."""

    worker_starts: int
    trigger_runs: int
    xcom_rows: int
    xcom_bytes: int
    api_requests: int


class Inspector:
    """
    Reads from a deployment without changing it.

    :param home: its AIRFLOW_HOME.
    :param database_url: URL of its database.
    """

    def __init__(self, home: Path, database_url: str) -> None:
        self._home = home
        self.database_url = database_url
        self._engine = sa.create_engine(database_url)

    def close(self) -> None:
        """Close the database connections."""
        self._engine.dispose()

    def dag_files(self) -> set[str]:
        """Return the names of the files whose Dags are known."""
        return {Path(row[0]).name for row in self._rows("SELECT DISTINCT fileloc FROM dag")}

    def dag_run_state(self, dag_id: str, run_id: str) -> str | None:
        """Return the state of a Dag run, or None if there is none."""
        rows = self._rows(
            "SELECT state FROM dag_run WHERE dag_id = :dag_id AND run_id = :run_id",
            dag_id=dag_id,
            run_id=run_id,
        )
        return rows[0][0] if rows else None

    def task_instances(self, dag_id: str, run_id: str) -> list[TaskInstance]:
        """Return all task instances of a run, by task and map index."""
        rows = self._rows(
            "SELECT task_id, map_index, state, try_number, id, start_date, end_date FROM task_instance "
            "WHERE dag_id = :dag_id AND run_id = :run_id ORDER BY task_id, map_index",
            dag_id=dag_id,
            run_id=run_id,
        )
        # SQLite has ids without hyphens.
        return [
            TaskInstance(
                row[0], row[1], row[2], row[3], str(UUID(str(row[4]))), _moment(row[5]), _moment(row[6])
            )
            for row in rows
        ]

    def xcom(
        self, dag_id: str, run_id: str, task_id: str, key: str = "return_value", map_index: int = -1
    ) -> Any:
        """
        Return the stored value of an XCom, as JSON.

        :raises KeyError: if there is none.
        """
        rows = self._rows(
            "SELECT CAST(value AS TEXT) FROM xcom WHERE dag_id = :dag_id AND run_id = :run_id "
            "AND task_id = :task_id AND key = :key AND map_index = :map_index",
            dag_id=dag_id,
            run_id=run_id,
            task_id=task_id,
            key=key,
            map_index=map_index,
        )
        if not rows:
            raise KeyError(f"{dag_id}.{task_id}[{map_index}] in run {run_id} has no XCom {key!r}")
        return json.loads(rows[0][0])

    def xcom_rows(self, dag_id: str, run_id: str, task_id: str) -> list[XComRow]:
        """Return all XCom rows of a task in a run."""
        rows = self._rows(
            "SELECT key, map_index, CAST(value AS TEXT) FROM xcom WHERE dag_id = :dag_id "
            "AND run_id = :run_id AND task_id = :task_id ORDER BY key",
            dag_id=dag_id,
            run_id=run_id,
            task_id=task_id,
        )
        return [XComRow(key, index, len((text or "").encode())) for key, index, text in rows]

    def task_states(self, dag_id: str, run_id: str, task_id: str, map_index: int = -1) -> dict[str, str]:
        """Return what the task state store holds for a task instance: key → value as JSON text."""
        rows = self._rows(
            "SELECT key, value FROM task_state_store WHERE dag_id = :dag_id AND run_id = :run_id "
            "AND task_id = :task_id AND map_index = :map_index ORDER BY key",
            dag_id=dag_id,
            run_id=run_id,
            task_id=task_id,
            map_index=map_index,
        )
        return {row[0]: row[1] for row in rows}

    def counts(self, dag_id: str, run_id: str, task_id: str, map_index: int = -1) -> Counts:
        """Return what a task instance cost."""
        rows = [row for row in self.xcom_rows(dag_id, run_id, task_id) if row.map_index == map_index]
        logs = self.log_files(dag_id, run_id, task_id, map_index)
        ids = [
            instance.id
            for instance in self.task_instances(dag_id, run_id)
            if (instance.task_id, instance.map_index) == (task_id, map_index)
        ]
        return Counts(
            worker_starts=sum(_text(log).count(WORKER_START) for log in logs if ".trigger." not in log.name),
            trigger_runs=sum(
                len(TRIGGER_START.findall(_text(log))) for log in logs if ".trigger." in log.name
            ),
            xcom_rows=len(rows),
            xcom_bytes=sum(row.bytes for row in rows),
            api_requests=self._api_requests([*ids, f"/{dag_id}/{run_id}/{task_id}/"]),
        )

    def log_files(self, dag_id: str, run_id: str, task_id: str, map_index: int = -1) -> list[Path]:
        """Return the log files of a task instance, of workers and triggers."""
        folder = self._home / "logs" / f"dag_id={dag_id}" / f"run_id={run_id}" / f"task_id={task_id}"
        if map_index >= 0:
            folder /= f"map_index={map_index}"
        return sorted(folder.glob("attempt=*.log*"))

    def task_log(self, dag_id: str, run_id: str, task_id: str, map_index: int = -1) -> str:
        """Return the text of all log files of a task instance."""
        return "\n".join(_text(log) for log in self.log_files(dag_id, run_id, task_id, map_index))

    def asset_events(self, name: str) -> int:
        """Return how many events an asset has had."""
        rows = self._rows(
            "SELECT count(*) FROM asset_event JOIN asset ON asset.id = asset_event.asset_id "
            "WHERE asset.name = :name",
            name=name,
        )
        count: int = rows[0][0]
        return count

    def asset_extras(self, name: str) -> list[Any]:
        """Return the extras of an asset's events, the oldest first."""
        rows = self._rows(
            "SELECT CAST(asset_event.extra AS TEXT) FROM asset_event JOIN asset ON asset.id = "
            "asset_event.asset_id WHERE asset.name = :name ORDER BY asset_event.id",
            name=name,
        )
        return [json.loads(row[0]) for row in rows]

    def asset_payloads(self, name: str) -> list[Any]:
        """Return the payloads of the events that watchers recorded for an asset, in order."""
        rows = self._rows(
            "SELECT CAST(asset_event.extra AS TEXT) FROM asset_event "
            "JOIN asset ON asset.id = asset_event.asset_id WHERE asset.name = :name ORDER BY asset_event.id",
            name=name,
        )
        return [json.loads(row[0])["payload"] for row in rows]

    def run_ids(self, dag_id: str) -> list[str]:
        """Return the ids of all runs of a Dag, in order."""
        rows = self._rows("SELECT run_id FROM dag_run WHERE dag_id = :dag_id ORDER BY id", dag_id=dag_id)
        return [row[0] for row in rows]

    def _api_requests(self, marks: list[str]) -> int:
        lines = _text(self._home / "parts" / "api-server.log").splitlines()
        return sum("path=/execution/" in line and any(mark in line for mark in marks) for line in lines)

    def _rows(self, query: str, **parameters: Any) -> list[Any]:
        with self._engine.connect() as connection:
            return list(connection.execute(sa.text(query), parameters))


def _text(path: Path) -> str:
    return path.read_text(errors="replace") if path.exists() else ""


def _moment(value: Any) -> datetime | None:
    return datetime.fromisoformat(value) if isinstance(value, str) else value
