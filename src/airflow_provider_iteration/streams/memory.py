# SPDX-License-Identifier: Apache-2.0
"""A row store in memory, for tests: its messages can be watched, delayed, held and broken."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Any


class MemoryStore:
    """
    A :class:`~.store.RowStore` that keeps rows as a database would: as JSON text.

    ``rows`` has the texts by key, ``messages`` the actions and keys so far.

    :param before: called before each message with its action (``"get"``, ``"set"`` or ``"delete"``) and
        key; it may wait, or raise.
    :param rows: rows that are there already.
    """

    def __init__(
        self,
        before: Callable[[str, str], Any] | None = None,
        rows: Mapping[str, str] | None = None,
    ) -> None:
        self.rows: dict[str, str] = dict(rows or {})
        self.messages: list[tuple[str, str]] = []
        self._before = before

    async def get(self, key: str) -> Any:
        """Return the row, or None."""
        await self._message("get", key)
        return self.read(key)

    async def set(self, key: str, row: Any) -> None:
        """Write or replace the row, which is JSON, or says with ``serialize()`` what its JSON is."""
        text = json.dumps(row, allow_nan=False, default=lambda value: value.serialize())
        await self._message("set", key)
        self.rows[key] = text

    async def delete(self, key: str) -> None:
        """Delete the row if it is there."""
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
