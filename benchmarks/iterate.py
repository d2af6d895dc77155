# SPDX-License-Identifier: Apache-2.0
"""
Iterating against a hand-written ``gather`` and against mapped tasks, on PostgreSQL.

Times are spans of task instances, or of all instances of a mapped task. A first run of each Dag, which also
pays for imports, is not measured.
"""

from __future__ import annotations

from typing import Any

from benchmarks import HERE, publish
from harness.api import ApiSettings, PagedApi
from harness.deployment import Deployment

LATENCY = 0.05
OPERATORS = 5000


def main() -> None:
    with Deployment([HERE / "dags"], database="postgresql", python_path=[HERE / "lib"]) as airflow:
        airflow.run("bench_noop", {"count": 100})
        figures = {
            **measure_noop(airflow, 1_000, "1k"),
            **measure_noop(airflow, 10_000, "10k"),
            **measure_noop(airflow, 100_000, "100k"),
            **measure_expand(airflow),
            **measure_http(airflow),
            **measure_memory(airflow),
            **measure_operators(airflow),
        }
    figures["slope_ratio"] = slope(figures)
    publish("iterate", figures)


def measure_noop(airflow: Deployment, count: int, name: str) -> dict[str, Any]:
    """Measure coroutines that do nothing, with their results returned."""
    run = airflow.run("bench_noop", {"count": count}, seconds=300)
    return {
        f"iterate_{name}_s": airflow.task("bench_noop", run, "iterated").seconds,
        f"gather_{name}_s": airflow.task("bench_noop", run, "gathered").seconds,
        f"rows_{name}": airflow.counts("bench_noop", run, "iterated").xcom_rows,
    }


def measure_expand(airflow: Deployment) -> dict[str, Any]:
    """Measure 100 items as mapped task instances and in one."""
    run = airflow.run("bench_expand", seconds=600)
    mapped = [i for i in airflow.inspect.task_instances("bench_expand", run) if i.task_id == "expanded"]
    ends = [i.end_date for i in mapped if i.end_date is not None]
    starts = [i.start_date for i in mapped if i.start_date is not None]
    return {
        "expand_100_s": (max(ends) - min(starts)).total_seconds(),
        "iterate_100_s": airflow.task("bench_expand", run, "iterated").seconds,
    }


def measure_http(airflow: Deployment) -> dict[str, Any]:
    """Measure 500 requests of 50 ms each, with a session that all of them share."""
    with PagedApi(ApiSettings(pages=500, items=1, delay=LATENCY)) as api:
        run = airflow.run("bench_http", {"url": api.url}, seconds=300)
    seconds = {
        task: airflow.task("bench_http", run, task).seconds
        for task in ("iterated_16", "by_hand_16", "iterated_64", "by_hand_64")
    }
    return {
        "http_500_s": seconds["iterated_16"],
        "http_500_hand_s": seconds["by_hand_16"],
        "http_500_64_s": seconds["iterated_64"],
        "http_500_64_hand_s": seconds["by_hand_64"],
    }


def measure_memory(airflow: Deployment) -> dict[str, Any]:
    """Measure how much the task grows between its 10,000th and its 100,000th item out of a stream."""
    with PagedApi(ApiSettings(pages=100, items=1000)) as api:
        airflow.connect("bench", api.url)
        run = airflow.run("bench_stream_in", seconds=300)
    return {"rss_growth_mb": round(airflow.inspect.xcom("bench_stream_in", run, "growth"), 2)}


def measure_operators(airflow: Deployment) -> dict[str, Any]:
    """Measure operators without a network, and the two row writes an item of AIP-104's protocol."""
    run = airflow.run("bench_operators", seconds=300)
    seconds = airflow.task("bench_operators", run, "operators").seconds or 0.0
    return {
        "operator_overhead_us": round(1e6 * seconds / OPERATORS),
        # 200 items, each an XCom and a state of its own, one after the other.
        "aip104_floor_s": airflow.task("bench_operators", run, "floor").seconds,
    }


def slope(figures: dict[str, Any]) -> float:
    """Compare what an item costs from 10,000 to 100,000 with what it costs from 1,000 to 10,000."""
    late = (figures["iterate_100k_s"] - figures["iterate_10k_s"]) / 90_000
    early = (figures["iterate_10k_s"] - figures["iterate_1k_s"]) / 9_000
    return round(late / early, 2) if early > 0 else float("inf")


if __name__ == "__main__":
    main()
