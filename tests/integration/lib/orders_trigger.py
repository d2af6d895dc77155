# SPDX-License-Identifier: Apache-2.0
"""The streaming trigger of the documentation, with an operator that handles its pages."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from typing import Any

import aiohttp
from airflow.sdk import Context

from airflow_provider_iteration.operators.streaming import StreamingOperator
from airflow_provider_iteration.streams import Page, StreamEvent
from airflow_provider_iteration.triggers.streaming import StreamingTrigger


class OrdersTrigger(StreamingTrigger):
    """Streams the orders of a shop, whose API says in each page what the next one comes after."""

    def __init__(self, *, url: str, stream: Any = None) -> None:
        super().__init__(stream=stream)
        self.url = url

    def arguments(self) -> dict[str, Any]:
        return {"url": self.url}

    async def pages(self, cursor: Any) -> AsyncGenerator[Page, None]:
        asked = cursor or {}
        async with aiohttp.ClientSession(raise_for_status=True) as session:
            while asked is not None:
                async with session.get(self.url, params=asked) as response:
                    body = await response.json()
                token = body["meta"]["next"]
                asked = {"after": token} if token else None
                yield Page(body["items"], cursor=asked, many=True, last=asked is None)


class OrdersOperator(StreamingOperator):
    """Yields the ids of all orders."""

    template_fields = ("url",)

    def __init__(self, *, url: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.url = url

    def make_trigger(self, context: Mapping[str, Any]) -> StreamingTrigger:
        return OrdersTrigger(url=self.url)

    def handle_trigger_events(self, events: Sequence[StreamEvent], context: Context) -> Iterator[int]:
        for event in events:
            yield from (order["id"] for order in event.payload)
