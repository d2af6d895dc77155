# SPDX-License-Identifier: Apache-2.0
"""What the benchmark Dags are measured with, and against."""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import psutil
from airflow.providers.http.hooks.http import HttpAsyncHook
from airflow.providers.standard.triggers.temporal import DateTimeTrigger
from airflow.sdk import BaseOperator
from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_provider_iteration import _compat
from airflow_provider_iteration.operators.streaming import StreamingOperator
from airflow_provider_iteration.streams import Page
from airflow_provider_iteration.triggers.streaming import StreamingTrigger

PROBE_SECONDS = 0.01


def resident_mb() -> float:
    """Return the resident memory of this process in MB."""
    return float(psutil.Process().memory_info().rss) / 1e6


@contextmanager
def counted_reads() -> Iterator[list[str]]:
    """Give the keys of the XComs that this package reads while the context is open."""
    keys: list[str] = []
    read = _compat.read_xcom

    def counted(*, key: str, **place: Any) -> Any:
        keys.append(key)
        return read(key=key, **place)

    _compat.read_xcom = counted
    try:
        yield keys
    finally:
        _compat.read_xcom = read


class SlowPagesTrigger(StreamingTrigger):
    """Streams numbers, one a page, each of which takes some time; after the last one it waits for ever."""

    def __init__(self, *, count: int, seconds: float, ends: bool = True, stream: Any = None) -> None:
        super().__init__(stream=stream)
        self.count = count
        self.seconds = seconds
        self.ends = ends

    def arguments(self) -> dict[str, Any]:
        return {"count": self.count, "seconds": self.seconds, "ends": self.ends}

    async def pages(self, cursor: Any) -> AsyncGenerator[Page, None]:
        for number in range(cursor or 0, self.count):
            await asyncio.sleep(self.seconds)
            yield Page(number, cursor=number + 1)
        if not self.ends:
            await asyncio.Event().wait()


class SlowPagesOperator(StreamingOperator):
    """
    Streams from a :class:`SlowPagesTrigger`.

    :param trigger_arguments: its arguments.
    """

    def __init__(self, *, trigger_arguments: dict[str, Any], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.trigger_arguments = trigger_arguments

    def make_trigger(self, context: Any) -> SlowPagesTrigger:
        return SlowPagesTrigger(**self.trigger_arguments)


class TimerOperator(BaseOperator):
    """
    Sets a timer of Airflow's own, which ends the task in the triggerer.

    :param timer_seconds: how long it is.
    """

    def __init__(self, *, timer_seconds: float, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.timer_seconds = timer_seconds

    def execute(self, context: Any) -> None:
        due = datetime.now(UTC) + timedelta(seconds=self.timer_seconds)
        context["ti"].xcom_push(key="due", value=due.timestamp())
        self.defer(trigger=DateTimeTrigger(moment=due, end_from_trigger=True), method_name="execute_complete")


class LagTrigger(BaseTrigger):
    """Measures how late a timer of 10 ms is in the triggerer's loop."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.seconds = seconds

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return "bench_probes.LagTrigger", {"seconds": self.seconds}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        loop = asyncio.get_running_loop()
        lags: list[float] = []
        end = loop.time() + self.seconds
        while loop.time() < end:
            due = loop.time() + PROBE_SECONDS
            await asyncio.sleep(PROBE_SECONDS)
            lags.append(1000 * (loop.time() - due))
        yield TriggerEvent({"p99_ms": statistics.quantiles(lags, n=100)[98], "max_ms": max(lags)})


class LagOperator(BaseOperator):
    """Returns what :class:`LagTrigger` measured."""

    def __init__(self, *, seconds: float, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.seconds = seconds

    def execute(self, context: Any) -> None:
        self.defer(trigger=LagTrigger(self.seconds), method_name="execute_complete")

    def execute_complete(self, context: Any, event: dict[str, float]) -> dict[str, float]:
        return event


class HopTrigger(BaseTrigger):
    """Fetches one page, as an operator does that defers for each page."""

    def __init__(self, page: int) -> None:
        super().__init__()
        self.page = page

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return "bench_probes.HopTrigger", {"page": self.page}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        async with HttpAsyncHook("GET", "bench").session() as session:
            response = await session.run("cursor", data={"after": f"after-{self.page}"})
            body = await response.json()
        yield TriggerEvent({"items": len(body["items"])})


class HopOperator(BaseOperator):
    """Defers for each page."""

    def __init__(self, *, pages: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.pages = pages

    def execute(self, context: Any) -> None:
        self._defer(0, 0)

    def next_page(self, context: Any, event: dict[str, int], page: int, items: int) -> int | None:
        items += event["items"]
        if page + 1 == self.pages:
            return items
        self._defer(page + 1, items)
        return None

    def _defer(self, page: int, items: int) -> None:
        self.defer(trigger=HopTrigger(page), method_name="next_page", kwargs={"page": page, "items": items})
