# SPDX-License-Identifier: Apache-2.0
"""The environment variables of a deployment, and its database."""

from __future__ import annotations

import contextlib
import os
import secrets
import sys
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import psycopg2

from harness.processes import clean_environment

DEFAULT_POSTGRES = "postgresql://postgres@127.0.0.1:5432"
PARTS = ("api-server", "scheduler", "triggerer", "dag-processor")


def airflow_program() -> str:
    """Return the path of the ``airflow`` of the running Python."""
    return str(Path(sys.executable).with_name("airflow"))


def make_environment(
    home: Path,
    database_url: str,
    port: int,
    *,
    config: Mapping[str, str],
    environment: Mapping[str, str],
    python_path: Sequence[Path],
) -> dict[str, str]:
    """
    Return the whole environment of the parts of a deployment.

    :param home: its AIRFLOW_HOME.
    :param database_url: URL of its database.
    :param port: port of its api-server.
    :param config: further settings, such as ``AIRFLOW__CORE__PARALLELISM``; they win.
    :param environment: further variables, such as connections.
    :param python_path: directories from which all parts can import.
    """
    address = f"http://127.0.0.1:{port}"
    settings = {
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": database_url,
        "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
        "AIRFLOW__CORE__PARALLELISM": "4",
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__DAGS_FOLDER": str(home / "dags"),
        "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
        "AIRFLOW__CORE__FERNET_KEY": "a2V5LW9mLWEtdGhyb3dhd2F5LWRlcGxveW1lbnQtMTI=",
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{address}/execution/",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True",
        "AIRFLOW__API__PORT": str(port),
        "AIRFLOW__API__HOST": "127.0.0.1",
        "AIRFLOW__API__BASE_URL": address,
        "AIRFLOW__API__WORKERS": "1",
        "AIRFLOW__API_AUTH__JWT_SECRET": secrets.token_hex(32),
        "AIRFLOW__DAG_PROCESSOR__REFRESH_INTERVAL": "5",
        "AIRFLOW__LOGGING__COLORED_CONSOLE_LOG": "False",
        # Each part may serve logs or health on a fixed port; deployments must not meet there.
        "AIRFLOW__LOGGING__TRIGGER_LOG_SERVER_PORT": "0",
        "AIRFLOW__LOGGING__WORKER_LOG_SERVER_PORT": "0",
        # A take-over of triggers within seconds, yet not while a triggerer makes its first request, which
        # keeps it busy for ten of them on a small machine.
        "AIRFLOW__TRIGGERER__JOB_HEARTBEAT_SEC": "2",
        "AIRFLOW__TRIGGERER__TRIGGERER_HEALTH_CHECK_THRESHOLD": "20",
    }
    path = os.pathsep.join(str(entry) for entry in python_path)
    return {**clean_environment(), "PYTHONPATH": path, **settings, **config, **environment}


@contextlib.contextmanager
def own_database(kind: str, home: Path) -> Iterator[str]:
    """
    Make a database for one deployment, and drop it afterwards.

    :param kind: ``"sqlite"`` or ``"postgresql"``.
    :param home: where the SQLite file goes.
    :raises RuntimeError: if there is no PostgreSQL server at ``HARNESS_POSTGRES``.
    """
    if kind == "sqlite":
        yield f"sqlite:///{home / 'airflow.db'}"
        return
    server = os.environ.get("HARNESS_POSTGRES") or DEFAULT_POSTGRES
    name = f"harness_{uuid.uuid4().hex[:12]}"
    _execute(server, f'CREATE DATABASE "{name}"')
    try:
        yield f"{server.replace('postgresql://', 'postgresql+psycopg2://', 1)}/{name}"
    finally:
        _execute(server, f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')


def _execute(server: str, statement: str) -> None:
    try:
        connection = psycopg2.connect(f"{server}/postgres")
    except psycopg2.OperationalError as error:
        raise RuntimeError(
            f"no PostgreSQL server at {server}: start one, or set HARNESS_POSTGRES to its URL ({error})"
        ) from error
    try:
        connection.autocommit = True
        with connection.cursor() as cursor:
            cursor.execute(statement)
    finally:
        connection.close()
