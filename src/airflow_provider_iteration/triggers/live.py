# SPDX-License-Identifier: Apache-2.0
"""The trigger that waits until there is something in a live stream."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_provider_iteration.exceptions import StreamError
from airflow_provider_iteration.streams.following import Place
from airflow_provider_iteration.streams.recency import RunJudge
from airflow_provider_iteration.streams.xcom_store import XComPlace
from airflow_provider_iteration.triggers.polling import Waiter, shared_poller


class LiveTrigger(BaseTrigger):
    """
    Waits until a task of the same run has written to its stream, or has ended, and others have ended.

    All such triggers of one triggerer share one poller, which looks every 2 to 15 seconds.

    :param producer: id of the task whose stream it is.
    :param key: XCom key of the stream.
    :param others: ids of tasks that must have ended.
    :param place: how far the stream was read before, as JSON.
    :param min_seconds: how long to wait at least: a task that was on a worker just now must not be back too
        soon.
    :param needs_end: whether the end of the task is waited for, whatever it writes until then.
    """

    def __init__(
        self,
        *,
        producer: str,
        key: str,
        others: Sequence[str] = (),
        place: dict[str, Any] | None = None,
        min_seconds: float = 0.0,
        needs_end: bool = False,
    ) -> None:
        super().__init__()
        self.producer = producer
        self.key = key
        self.others = list(others)
        self.place = place
        self.min_seconds = min_seconds
        self.needs_end = needs_end

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class path and all constructor arguments."""
        kind = type(self)
        return f"{kind.__module__}.{kind.__qualname__}", {
            "producer": self.producer,
            "key": self.key,
            "others": self.others,
            "place": self.place,
            "min_seconds": self.min_seconds,
            "needs_end": self.needs_end,
        }

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Wait, then tell what was found: the ``run``, and which tasks have ``failed`` or ``skipped``."""
        ti: Any = self.task_instance
        if ti is None:
            raise StreamError(
                "a live consumer waits in the triggerer, and this is none: dag.test() runs such tasks in "
                "their order if testing.in_order(dag) was called before"
            )
        place = Place.from_json(self.place)
        judge = RunJudge(str(ti.id))
        waiter = Waiter(
            XComPlace(ti.dag_id, self.producer, ti.run_id),
            self.key,
            self.others,
            judge,
            place,
            needs_end=self.needs_end,
        )
        soonest = asyncio.get_running_loop().time() + self.min_seconds
        found = await shared_poller().wait(waiter)
        await asyncio.sleep(max(soonest - asyncio.get_running_loop().time(), 0.0))
        yield TriggerEvent(found._asdict())
