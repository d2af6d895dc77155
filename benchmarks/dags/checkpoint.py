# SPDX-License-Identifier: Apache-2.0
"""The Dag of the checkpoint benchmark: the same iteration with and without checkpoints."""

from __future__ import annotations

import asyncio
import itertools

from airflow.sdk import dag

from airflow_provider_iteration import iterate

ITEMS = 20_000
CONCURRENCY = 16


async def work(x: int) -> dict[str, int]:
    await asyncio.sleep(0.005)
    return {"id": x, "square": x * x}


@dag(schedule=None)
def bench_checkpoint() -> None:
    items = range(ITEMS)
    one_at_a_time = {"pool": "default_pool", "max_active_tis_per_dag": 1}
    without = iterate(task_concurrency=CONCURRENCY, checkpoint_every=None, **one_at_a_time)(work)
    with_them = iterate(task_concurrency=CONCURRENCY, **one_at_a_time)(work)
    tasks = []
    for number in range(3):
        tasks.append(without.override(task_id=f"without_{number}").iterate(x=items))
        tasks.append(with_them.override(task_id=f"with_{number}").iterate(x=items))
    for earlier, later in itertools.pairwise(tasks):
        earlier >> later


bench_checkpoint()
