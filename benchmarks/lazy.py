# SPDX-License-Identifier: Apache-2.0
"""
Lazy XComs on PostgreSQL: what a generator task costs to write, and what streams cost to read.

Times of reading are taken in the reading task. A first, short run of each Dag that is timed as a whole, which
also pays for imports, is not measured.
"""

from __future__ import annotations

from typing import Any

from benchmarks import HERE, publish
from harness.deployment import Deployment

ROWS = 1_000_000


def main() -> None:
    with Deployment([HERE / "dags"], database="postgresql", python_path=[HERE / "lib"]) as airflow:
        publish(
            "lazy",
            {
                **measure_generator(airflow),
                **measure_read(airflow),
                **measure_mapped(airflow),
            },
        )


def measure_generator(airflow: Deployment) -> dict[str, Any]:
    """Measure a generator task of a million rows, and how much its process grows from a twentieth on."""
    airflow.run("bench_generator", {"rows": 1000})
    run = airflow.run("bench_generator", {"rows": ROWS}, seconds=600)
    counts = airflow.counts("bench_generator", run, "rows")
    return {
        "generator_1m_rows_s": airflow.task("bench_generator", run, "rows").seconds,
        "rss_growth_mb": round(airflow.inspect.xcom("bench_generator", run, "growth"), 2),
        "generator_xcom_rows": counts.xcom_rows,
        "generator_xcom_bytes": counts.xcom_bytes,
    }


def measure_read(airflow: Deployment) -> dict[str, Any]:
    """Measure a plain task that goes through 17,000 results."""
    run = airflow.run("bench_read", seconds=300)
    calls, seconds = airflow.inspect.xcom("bench_read", run, "read")
    return {"read_17k_calls": calls, "read_17k_s": round(seconds, 3)}


def measure_mapped(airflow: Deployment) -> dict[str, Any]:
    """Measure an item of a mapped upstream, through a pipeline and as Airflow gives it."""
    run = airflow.run("bench_read_mapped", seconds=600)
    return {
        "read_mapped_item_s": round(airflow.inspect.xcom("bench_read_mapped", run, "piped"), 5),
        "read_mapped_item_airflow_s": round(airflow.inspect.xcom("bench_read_mapped", run, "plain"), 5),
    }


if __name__ == "__main__":
    main()
