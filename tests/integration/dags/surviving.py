# SPDX-License-Identifier: Apache-2.0
"""Iterations that are killed, cleared, timed out, and run again."""

from __future__ import annotations

import asyncio
import os
import time
from datetime import timedelta
from typing import Any

from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import Asset, dag, get_current_context, task
from evidence import is_there, write_down

from airflow_provider_iteration.decorators.iterate import iterate

SOON = timedelta(seconds=1)


def evidence_name(name: str) -> str:
    return f"{name}-{get_current_context()['run_id']}"


@task
def numbers(dag_run: Any = None) -> list[int]:
    return list(range(dag_run.conf["count"]))


@task
def total(results: Any) -> list[int]:
    return [len(results), sum(results)]


@iterate(task_concurrency=16, checkpoint_every=50, retries=20, retry_delay=SOON)
async def square(x: int) -> int:
    write_down(evidence_name("square"), x, os.getpid())
    await asyncio.sleep(0.01)
    return x * x


@dag(schedule=None)
def killed_items() -> None:
    total(square.iterate(x=numbers()))


killed_items()


@iterate(task_concurrency=4, retries=0)
def change(x: int) -> int:
    """Fail for the input that the test says, as long as it says so."""
    write_down(evidence_name("change"), x)
    if is_there(f"fail-{x}"):
        raise ValueError(f"no {x}")
    return 2 * x


@task
def changing() -> list[int]:
    return [100, 1, 2, 3] if is_there("changed") else [0, 1, 2, 3]


@dag(schedule=None)
def cleared_items() -> None:
    total(change.iterate(x=changing()))


cleared_items()


@iterate(task_concurrency=2, retries=1, retry_delay=SOON)
def large(x: int, ti: Any = None) -> str:
    """A megabyte for each item; the last one fails at first."""
    write_down(evidence_name("large"), x)
    if x == 5 and ti.try_number == 1:
        raise ValueError("not yet")
    return f"{x}" * 1_000_000


@task
def weigh(results: Any) -> list[Any]:
    return [[len(each), each[0], each[-1]] for each in results]


@dag(schedule=None)
def large_results() -> None:
    weigh(large.iterate(x=list(range(6))))


large_results()


@iterate(outlets=[Asset("survived")], retries=1, retry_delay=SOON)
def emit(x: int, ti: Any = None, outlet_events: Any = None) -> None:
    """The last item emits in the first try, in which the first one fails."""
    outlet_events[Asset("survived")].extra = {"x": x, "try": ti.try_number}
    ti.xcom_push("mine", x)
    if x == 0 and ti.try_number == 1:
        raise ValueError("not yet")


@dag(schedule=None)
def replayed() -> None:
    emit.iterate(x=[0, 1, 2])


replayed()


@iterate(task_concurrency=4, retries=1, retry_delay=SOON, execution_timeout=timedelta(seconds=6))
async def too_slow(x: int) -> int:
    """One item hangs in the first try."""
    ti: Any = get_current_context()["ti"]
    write_down(evidence_name("too_slow"), x, ti.try_number)
    if x == 3 and ti.try_number == 1:
        await asyncio.sleep(3600)
    return x


@dag(schedule=None)
def timed_out() -> None:
    total(too_slow.iterate(x=list(range(8))))


timed_out()


SLEEP = """
trap '' HUP
sleep 3600 & echo "$$ $! {{ ti.index }}" >> "$EVIDENCE/bash-{{ run_id }}"
wait
"""


@iterate(task_concurrency=16, retries=1, retry_delay=SOON)
def brief(x: int) -> int:
    """Items that run while the test ends the task."""
    write_down(evidence_name("brief"), x, os.getpid(), os.getppid())
    if x < 100:
        return x
    while not is_there("enough"):
        time.sleep(0.05)
    return x


@dag(schedule=None)
def ended_items() -> None:
    commands = ["echo done"] * 20 + [SLEEP] * 16
    iterate(BashOperator.partial(task_id="bash", append_env=True, retries=0), task_concurrency=16).iterate(
        bash_command=commands
    )
    brief.iterate(x=list(range(116)))


ended_items()
