# SPDX-License-Identifier: Apache-2.0
"""A row store in memory, whose messages tests can watch, delay, hold and break."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any


class MemoryStore:
    """
    Keeps rows as a database would: as JSON text.

    :param before: called before each message with its action and key; it may wait, or raise.
    """

    def __init__(self, before: Callable[[str, str], Any] | None = None) -> None:
        self.rows: dict[str, str] = {}
        self.messages: list[tuple[str, str]] = []
        self._before = before

    async def get(self, key: str) -> Any:
        await self._message("get", key)
        return self.read(key)

    async def set(self, key: str, row: Any) -> None:
        text = json.dumps(row, allow_nan=False)
        await self._message("set", key)
        self.rows[key] = text

    async def delete(self, key: str) -> None:
        await self._message("delete", key)
        self.rows.pop(key, None)

    def read(self, key: str) -> Any:
        """Return a row, or None, without a message."""
        return json.loads(self.rows[key]) if key in self.rows else None

    def written(self) -> list[str]:
        """Return the keys that were written, in order."""
        return [key for action, key in self.messages if action == "set"]

    async def _message(self, action: str, key: str) -> None:
        self.messages.append((action, key))
        if self._before is not None:
            waited = self._before(action, key)
            if asyncio.iscoroutine(waited):
                await waited
