# SPDX-License-Identifier: Apache-2.0
"""Triggers and helpers that the test Dags import; every part of the deployment can import them."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path
from typing import Any

import requests
from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_provider_iteration.pagination import PageRequest, PageView, Paginator
from airflow_provider_iteration.streams import Page
from airflow_provider_iteration.triggers.streaming import StreamingTrigger


def leave_evidence(name: str) -> None:
    """Make a file that the test looks for."""
    Path(os.environ["EVIDENCE"]).joinpath(name).touch()


class CountingTrigger(StreamingTrigger):
    """Streams numbers, one a page."""

    def __init__(self, *, count: int, stream: Any = None) -> None:
        super().__init__(stream=stream)
        self.count = count

    def arguments(self) -> dict[str, Any]:
        return {"count": self.count}

    async def pages(self, cursor: Any) -> AsyncGenerator[Page, None]:
        for number in range(cursor or 0, self.count):
            yield Page(number, cursor=number + 1)


class TextsTrigger(CountingTrigger):
    """Streams texts of 100 letters, one a page."""

    async def pages(self, cursor: Any) -> AsyncGenerator[Page, None]:
        for number in range(cursor or 0, self.count):
            yield Page(f"{number:0100}", cursor=number + 1)


class SeveralEventsTrigger(BaseTrigger):
    """An ordinary trigger that yields several events, of which Airflow honours the first."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.count = count

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return "stream_probes.SeveralEventsTrigger", {"count": self.count}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        for number in range(self.count):
            yield TriggerEvent(number)


class TokenInBody(Paginator, frozen=True):
    """A paginator of the user's own."""

    def following(self, page: PageView, asked: PageRequest) -> PageRequest | None:
        token = page.body["meta"]["next"]
        return PageRequest(params={"after": token}) if token else None


def ids(response: requests.Response) -> list[int]:
    return [item["id"] for item in response.json()["items"]]


def next_page(response: requests.Response) -> dict[str, Any] | None:
    token = response.json()["meta"]["next"]
    return {"data": {"after": token}} if token else None


def is_never_good(response: requests.Response) -> bool:
    return False
