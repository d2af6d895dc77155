# SPDX-License-Identifier: Apache-2.0
"""The examples of the README are Dags."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from airflow.sdk import DAG

README = Path(__file__).parents[2] / "README.md"
IMPORTS = """
from airflow.sdk import task
from airflow_provider_iteration import *
from airflow_provider_iteration.operators.http import HttpStreamingOperator
from airflow_provider_iteration.pagination import Cursor
"""


def test_examples_make_a_dag() -> None:
    """What the README shows can be pasted into a Dag file: tasks and edges are as it says."""
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    names: dict[str, Any] = {}
    with DAG("readme", schedule=None) as dag:
        exec(IMPORTS, names)
        for block in blocks:
            exec(block, names)
    assert {task.task_id for task in dag.tasks} >= {"pages", "total", "enrich"}
    assert {"total", "enrich"} <= dag.get_task("pages").downstream_task_ids
