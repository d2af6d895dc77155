# SPDX-License-Identifier: Apache-2.0
"""The examples of the README, and those that stand in the text of a documentation page, are Dags."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import DAG

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
IMPORTS = """
from airflow.sdk import task
from airflow_provider_iteration import *
from airflow_provider_iteration.operators.http import HttpStreamingOperator
from airflow_provider_iteration.pagination import Cursor
"""
AROUND = """
import csv
from airflow.providers.http.operators.http import HttpOperator
from airflow_provider_iteration.operators.msgraph import MSGraphStreamingOperator

Session = dict

def is_open(order):
    return True

@task
def paths():
    return ["a", "b"]

@task.iterate
def enrich(order):
    return order

@task.iterate
def load(rows):
    return len(rows)

paths = urls = paths()
pages = HttpStreamingOperator(
    task_id="pages", http_conn_id="shop", method="GET", paginator=Cursor("next", "after")
)
"""
PAGES = ("guides/lazy-xcoms", "guides/mapped-or-iterated", "guides/iterating", "howto/http", "howto/msgraph")


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


@pytest.mark.parametrize("page", PAGES)
def test_examples_in_the_text_of_a_page_make_tasks(page: str) -> None:
    """Where they say nothing else, tasks that the text speaks of stand before them."""
    text = (ROOT / "docs" / f"{page}.rst").read_text()
    blocks = re.findall(r"^\.\. code-block:: python\n\n((?:   .*\n|\n)+)", text, re.MULTILINE)
    names: dict[str, Any] = {}
    with DAG("page", schedule=None) as dag:
        exec(IMPORTS + AROUND, names)
        before = len(dag.tasks)
        for block in blocks:
            exec(textwrap.dedent(block), names)
    assert len(dag.tasks) > before


def test_every_page_with_an_example_in_its_text_is_tried() -> None:
    """An example that no test runs goes out of date."""
    docs = ROOT / "docs"
    found = {
        path.relative_to(docs).with_suffix("").as_posix()
        for path in docs.rglob("*.rst")
        if ".. code-block:: python" in path.read_text()
    }
    assert found == set(PAGES)
