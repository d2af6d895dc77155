# SPDX-License-Identifier: Apache-2.0
"""A stream whose pages come when the test lets them, and whose data the test changes between runs."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

from airflow_provider_iteration.iteration.tasks import until
from airflow_provider_iteration.operators.streaming import StreamingOperator
from airflow_provider_iteration.streams import Page
from airflow_provider_iteration.triggers.streaming import StreamingTrigger


def told(name: str) -> dict[str, Any]:
    """Return what the test says about a stream: how many pages are open, their text, where it fails."""
    settings: dict[str, Any] = json.loads(Path(os.environ["EVIDENCE"], f"{name}.json").read_text())
    return settings


class GatedTrigger(StreamingTrigger):
    """Streams one text a page; each waits until the test has opened it."""

    def __init__(self, *, name: str, stream: Any = None) -> None:
        super().__init__(stream=stream)
        self.name = name

    def arguments(self) -> dict[str, Any]:
        return {"name": self.name}

    async def pages(self, cursor: Any) -> AsyncGenerator[Page, None]:
        number, word = cursor or 0, told(self.name)["word"]
        while number < told(self.name)["pages"]:
            await until(functools.partial(self._is_open, number))
            yield Page(f"{word}-{number}", cursor=number + 1)
            number += 1
        await until(lambda: not told(self.name).get("hold"))
        if told(self.name).get("fails"):
            raise RuntimeError("the API is gone")

    def _is_open(self, number: int) -> bool:
        return bool(told(self.name)["open"] > number)


class GatedOperator(StreamingOperator):
    """Streams what the test lets through."""

    def __init__(self, *, name: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.name = name

    def make_trigger(self, context: Any) -> GatedTrigger:
        return GatedTrigger(name=self.name)
