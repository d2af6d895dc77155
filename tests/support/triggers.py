# SPDX-License-Identifier: Apache-2.0
"""Running triggers without a triggerer."""

from __future__ import annotations

from typing import Any

from airflow.triggers.base import BaseTrigger

from airflow_provider_iteration import testing
from tests.support.streams import RUN_A


def give_task(trigger: BaseTrigger, run: str = RUN_A) -> None:
    """Give a trigger a task instance, as a triggerer does that starts it after a deferral."""
    testing.give_task(trigger, run, dag_id="shop", task_id="pages", run_id="r1")


async def run_trigger(trigger: BaseTrigger, run: str = RUN_A) -> list[Any]:
    """Run a trigger to its end and return its events."""
    give_task(trigger, run)
    return [event async for event in trigger.run()]
