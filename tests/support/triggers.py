# SPDX-License-Identifier: Apache-2.0
"""Two triggers, and running them without a triggerer."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_provider_iteration import testing
from airflow_provider_iteration.streams import Page
from airflow_provider_iteration.triggers.streaming import StreamingTrigger
from tests.support.streams import RUN_A


class Numbers(StreamingTrigger):
    """Streams numbers."""

    def __init__(self, *, count: int, stream: Any = None) -> None:
        super().__init__(stream=stream)
        self.count = count

    def arguments(self) -> dict[str, Any]:
        return {"count": self.count}

    async def pages(self, cursor: Any) -> AsyncGenerator[Page, None]:
        for number in range(cursor or 0, self.count):
            yield Page(number, cursor=number + 1)


class SeveralEvents(BaseTrigger):
    """An ordinary trigger that yields several events."""

    def __init__(self, count: int, ending: type[Any] | None = None) -> None:
        super().__init__()
        self.count = count
        self.ending = ending

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return f"{__name__}.SeveralEvents", {"count": self.count}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        for number in range(self.count):
            yield TriggerEvent(number)
        if self.ending:
            yield self.ending()


def give_task(trigger: BaseTrigger, run: str = RUN_A) -> None:
    """Give a trigger a task instance, as a triggerer does that starts it after a deferral."""
    testing.give_task(trigger, run, dag_id="shop", task_id="pages", run_id="r1")


async def run_trigger(trigger: BaseTrigger, run: str = RUN_A) -> list[Any]:
    """Run a trigger to its end and return its events."""
    give_task(trigger, run)
    return [event async for event in trigger.run()]
