# SPDX-License-Identifier: Apache-2.0
"""A Dag that knows nothing of this package, and reads a stream of another Dag."""

from __future__ import annotations

from typing import Any

from airflow.sdk import dag, task


@dag(schedule=None)
def plain_reader() -> None:
    @task
    def read(**context: Any) -> int:
        items = context["ti"].xcom_pull(
            dag_id="stream", task_ids="pages", run_id=context["dag_run"].conf["run_id"]
        )
        return sum(item["id"] for item in items)

    read()


plain_reader()
