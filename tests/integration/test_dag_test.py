# SPDX-License-Identifier: Apache-2.0
"""A live pipeline under ``dag.test()``, which has one process, and no triggerer."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from shutil import copy

import pytest

from harness.environment import airflow_program, make_environment
from harness.inspection import Inspector

SECONDS = 120
pytestmark = pytest.mark.timeout(3 * SECONDS)
DAG_FILE = Path(__file__).parent / "dag_test" / "in_order_dag.py"


@pytest.fixture
def inspector(tmp_path: Path) -> Iterator[Inspector]:
    """What a run of the Dag file has left in a database of its own."""
    (tmp_path / "dags").mkdir()
    file = copy(DAG_FILE, tmp_path / "dags")
    url = f"sqlite:///{tmp_path / 'airflow.db'}"
    variables = make_environment(tmp_path, url, 0, config={}, environment={}, python_path=[])
    for command in ([airflow_program(), "db", "migrate"], [sys.executable, file]):
        done = subprocess.run(
            command, env=variables, capture_output=True, text=True, check=False, timeout=SECONDS
        )
        assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    found = Inspector(tmp_path, url)
    yield found
    found.close()


def test_live_tasks_run_in_order(inspector: Inspector) -> None:
    """Each one reads what the one before it has left, to its end; a plain one too."""
    (run,) = inspector.run_ids("in_one_process")
    assert inspector.xcom("in_one_process", run, "total") == -sum(x * x for x in range(100))
    assert inspector.xcom("in_one_process", run, "last") == 99 * 99
