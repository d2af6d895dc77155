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
                **measure_live(airflow),
                # Last: its run does not end.
                **measure_waiters(airflow),
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


def measure_live(airflow: Deployment) -> dict[str, Any]:
    """Measure 40 pages of a second each, with a second of work for each, live and one after the other."""
    airflow.run("bench_warm_up")
    totals = {}
    for kind in ("live", "sequential"):
        run = airflow.run(f"bench_{kind}", seconds=300)
        began = airflow.task(f"bench_{kind}", run, "pages").start_date
        ended = airflow.task(f"bench_{kind}", run, "moment").end_date
        assert began is not None
        assert ended is not None
        totals[kind] = (ended - began).total_seconds()
        if kind == "live":
            first_item = airflow.inspect.xcom("bench_live", run, "first") - began.timestamp()
    return {
        "live_first_item_s": round(first_item, 1),
        "live_total_s": round(totals["live"], 1),
        "sequential_total_s": round(totals["sequential"], 1),
    }


def measure_waiters(airflow: Deployment) -> dict[str, Any]:
    """Measure how late a stock timer of 20 seconds is beside 200 consumers that wait for 20 producers."""
    late = {}
    for beside in ("", "waiters_200_"):
        if beside:
            start_waiters(airflow)
        run = airflow.run("bench_timer", seconds=300)
        ended = airflow.task("bench_timer", run, "timer").end_date
        assert ended is not None
        late[f"{beside}timer_late_s"] = round(
            ended.timestamp() - airflow.inspect.xcom("bench_timer", run, "timer", key="due"), 1
        )
    return late


def start_waiters(airflow: Deployment) -> None:
    """Start the consumers, and return when the last of them waits."""
    run = airflow.trigger("bench_waiters")

    def all_wait() -> bool:
        tasks = airflow.inspect.task_instances("bench_waiters", run)
        return all(each.state == "deferred" for each in tasks)

    airflow.wait_for("bench_waiters", run, all_wait, "220 deferred tasks", seconds=300)
    # The triggerer takes them up some at a time, and writes a line into the log of each.
    airflow.wait_for(
        "bench_waiters",
        run,
        lambda: all(
            airflow.inspect.log_files("bench_waiters", run, each.task_id)
            for each in airflow.inspect.task_instances("bench_waiters", run)
        ),
        "220 tasks in the triggerer",
        seconds=300,
    )


if __name__ == "__main__":
    main()
