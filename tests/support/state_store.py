# SPDX-License-Identifier: Apache-2.0
"""A task state store in memory."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from pydantic import JsonValue, TypeAdapter

# What Airflow's messages accept: no tuple, for one.
_JSON: TypeAdapter[Any] = TypeAdapter(JsonValue)


class MemoryStateStore:
    """
    Keeps values as JSON text, as the database does.

    :param before: called before each message with its action and key; it may wait, or raise.
    """

    def __init__(self, before: Callable[[str, str], Any] | None = None) -> None:
        self.rows: dict[str, str] = {}
        self.reads: list[str] = []
        self._before = before

    def get(self, key: str, default: Any = None) -> Any:
        self.reads.append(key)
        if self._before is not None:
            self._before("get", key)
        return json.loads(self.rows[key]) if key in self.rows else default

    def set(self, key: str, value: Any, **more: Any) -> None:
        text = json.dumps(_JSON.validate_python(value), allow_nan=False)
        if self._before is not None:
            self._before("set", key)
        self.rows[key] = text

    def delete(self, key: str) -> None:
        self.rows.pop(key, None)

    def checkpoint_rows(self) -> list[str]:
        """Return the keys of the rows of all tries."""
        return sorted(key for key in self.rows if key.startswith("iteration_checkpoint_"))
