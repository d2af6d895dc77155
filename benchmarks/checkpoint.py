# SPDX-License-Identifier: Apache-2.0
"""
What checkpoints cost: 20,000 items of 5 ms, sixteen at a time, with and without them, on PostgreSQL.

Each is run three times, in turns, and the shortest span of the task instance counts.
"""

from __future__ import annotations

from benchmarks import HERE, publish
from harness.deployment import Deployment

ITEMS = 20_000
ROUNDS = 3


def main() -> None:
    with Deployment([HERE / "dags"], database="postgresql", python_path=[HERE / "lib"]) as airflow:
        run = airflow.run("bench_checkpoint", seconds=400)
        seconds = {
            kind: [airflow.task("bench_checkpoint", run, f"{kind}_{n}").seconds or 0.0 for n in range(ROUNDS)]
            for kind in ("with", "without")
        }
        states = airflow.inspect.task_states("bench_checkpoint", run, "with_0")
    with_s, without_s = min(seconds["with"]), min(seconds["without"])
    rows = {key: text for key, text in states.items() if key.startswith("iteration_checkpoint")}
    publish(
        "checkpoint",
        {
            "with_s": with_s,
            "without_s": without_s,
            "ratio": round(with_s / without_s, 3),
            "checkpoint_rows": len(rows),
            "rows_limit": round(ITEMS / 256 + with_s / 2 + 5),
            "bytes_per_item": round(sum(map(len, rows.values())) / ITEMS, 1),
            "all_with_s": seconds["with"],
            "all_without_s": seconds["without"],
        },
    )


if __name__ == "__main__":
    main()
