# SPDX-License-Identifier: Apache-2.0
"""Triggers that push XComs; every part of the deployment can import them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from airflow.triggers.base import BaseTrigger, TaskSuccessEvent, TriggerEvent

from airflow_provider_iteration import push_xcoms


class PushingTrigger(BaseTrigger):
    """Pushes what can be pushed, or a text that no database takes."""

    def __init__(self, good: bool) -> None:
        super().__init__()
        self.good = good

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return "event_probes.PushingTrigger", {"good": self.good}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        value: Any = {"exit": 0} if self.good else "s3cret \ud800"
        await push_xcoms(self, {"pod": value, "return_value": [1, 2]})
        yield TaskSuccessEvent()
