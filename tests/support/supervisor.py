# SPDX-License-Identifier: Apache-2.0
"""The supervisor's end of the channel, for XComs only."""

from __future__ import annotations

import json
from typing import Any

from airflow.sdk.execution_time.comms import DeleteXCom, GetXCom, SetXCom, XComResult


class MemorySupervisor:
    """
    Answers what is sent about XComs, and keeps them as a database does: as JSON, with keys in another order.

    >>> monkeypatch.setattr(task_runner, "SUPERVISOR_COMMS", MemorySupervisor(), raising=False)
    """

    def __init__(self) -> None:
        self.rows: dict[tuple[Any, ...], str] = {}
        self.mapped_lengths: dict[str, int | None] = {}
        self.messages: list[tuple[str, str]] = []

    def send(self, msg: Any) -> Any:
        """Answer one message."""
        self.messages.append((type(msg).__name__, msg.key))
        place = (msg.dag_id, msg.run_id, msg.task_id, -1 if msg.map_index is None else msg.map_index, msg.key)
        if isinstance(msg, SetXCom):
            self.rows[place] = json.dumps(msg.value, sort_keys=True, allow_nan=False)
            self.mapped_lengths[msg.key] = msg.mapped_length
        elif isinstance(msg, GetXCom):
            return XComResult(key=msg.key, value=json.loads(self.rows.get(place, "null")))
        else:
            assert isinstance(msg, DeleteXCom)
            self.rows.pop(place, None)
        return None

    async def asend(self, msg: Any) -> Any:
        """Answer one message."""
        return self.send(msg)

    def stored(self, key: str) -> Any:
        """Return the one row under a key, as JSON."""
        (text,) = [text for place, text in self.rows.items() if place[-1] == key]
        return json.loads(text)

    @property
    def keys(self) -> list[str]:
        """All keys, in order."""
        return sorted(place[-1] for place in self.rows)
