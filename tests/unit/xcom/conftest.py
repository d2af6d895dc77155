# SPDX-License-Identifier: Apache-2.0
"""A process that has the XCom backend configured."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from airflow.sdk.execution_time import task_runner, xcom

from airflow_provider_iteration.xcom import backend
from airflow_provider_iteration.xcom.backend import XComIterableBackend
from tests.support.supervisor import MemorySupervisor

Configure = Callable[..., None]


@pytest.fixture
def supervisor(monkeypatch: pytest.MonkeyPatch) -> MemorySupervisor:
    """The other end of the channel of a task that uses the backend."""
    memory = MemorySupervisor()
    monkeypatch.setattr(task_runner, "SUPERVISOR_COMMS", memory, raising=False)
    monkeypatch.setattr(xcom, "XCom", XComIterableBackend)
    monkeypatch.setattr(backend, "_deleted", set())
    return memory


@pytest.fixture
def configure(monkeypatch: pytest.MonkeyPatch) -> Configure:
    """Sets options of ``[iteration]``."""

    def set_options(**options: object) -> None:
        for name, value in options.items():
            monkeypatch.setenv(f"AIRFLOW__ITERATION__{name.upper()}", str(value))

    return set_options


@pytest.fixture
def storage(tmp_path: Path, configure: Configure) -> Path:
    """A directory as ``offload_path``."""
    configure(offload_path=f"file://{tmp_path}/xcoms")
    return tmp_path / "xcoms"
