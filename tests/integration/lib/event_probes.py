# SPDX-License-Identifier: Apache-2.0
"""Triggers that push XComs, and who defers to one; every part of the deployment can import them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, NoReturn

from airflow.providers.standard.sensors.date_time import DateTimeSensorAsync
from airflow.providers.standard.triggers.temporal import DateTimeTrigger
from airflow.triggers.base import BaseTrigger, TaskSuccessEvent, TriggerEvent

from airflow_provider_iteration import push_xcom, push_xcoms

UNSTORABLE = "s3cret \ud800"
"""Not written out where it is pushed: a traceback shows that line."""


class ReportingTrigger(DateTimeTrigger):
    """Someone else's trigger, which ends its task with XComs."""

    def serialize(self) -> tuple[str, dict[str, Any]]:
        _, arguments = super().serialize()
        return "event_probes.ReportingTrigger", arguments

    async def run(self) -> AsyncIterator[TriggerEvent]:
        async for event in super().run():
            await push_xcoms(self, {"moment": event.payload.isoformat(), "return_value": [1, 2]})
            yield TaskSuccessEvent()
            return


class ReportingSensor(DateTimeSensorAsync):
    """Someone else's operator, which defers to that trigger instead of its own."""

    def defer(self, *, trigger: Any, **kwargs: Any) -> NoReturn:
        super().defer(trigger=ReportingTrigger(trigger.moment), **kwargs)


class RefusedTrigger(BaseTrigger):
    """Pushes a text that no database takes."""

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return "event_probes.RefusedTrigger", {}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        await push_xcom(self, "report", UNSTORABLE)
        yield TaskSuccessEvent()
