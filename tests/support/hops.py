# SPDX-License-Identifier: Apache-2.0
"""Takes a task through all its deferrals without a deployment."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import TaskDeferred
from airflow.triggers.base import BaseTrigger

from airflow_provider_iteration import _compat
from tests.support.streams import RUN_A
from tests.support.triggers import run_trigger


class Task:
    """
    One try of a task.

    :param operator: its operator.
    :param run: id of the task instance.
    """

    def __init__(self, operator: BaseOperator, run: str = RUN_A) -> None:
        self.operator = operator
        self.run = run
        self.pushed: dict[str, Any] = {}
        self.deferrals: list[TaskDeferred] = []
        self.context: Any = {
            "ti": SimpleNamespace(
                id=run,
                dag_id="shop",
                task_id="pages",
                run_id="r1",
                map_index=-1,
                start_date=datetime.now(UTC),
                xcom_push=self._push,
            )
        }

    async def end(self) -> Any:
        """Execute it, and resume it with the event of each trigger that it defers to; return its result."""
        step: Any = self.operator.execute
        arguments: dict[str, Any] = {}
        while True:
            deferred, result = await asyncio.to_thread(self._call, step, arguments)
            if deferred is None:
                return result
            self.deferrals.append(deferred)
            (event,) = await run_trigger(_sent(deferred.trigger), self.run)
            step = getattr(self.operator, deferred.method_name)
            arguments = {**(deferred.kwargs or {}), "event": event.payload}

    def _call(self, step: Any, arguments: dict[str, Any]) -> tuple[TaskDeferred | None, Any]:
        with _compat.allowed_to_execute(self.operator):
            try:
                return None, step(self.context, **arguments)
            except TaskDeferred as deferred:
                return deferred, None

    def _push(self, key: str, value: Any) -> None:
        self.pushed[key] = value


def _sent(trigger: BaseTrigger) -> BaseTrigger:
    """Make a trigger anew, as the triggerer does."""
    _, arguments = trigger.serialize()
    made: BaseTrigger = type(trigger)(**arguments)
    return made
