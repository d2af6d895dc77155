# SPDX-License-Identifier: Apache-2.0
"""What a stream needs of the place where its rows are kept."""

from __future__ import annotations

from typing import Any, Protocol


class RowStore(Protocol):
    """
    A small asynchronous key-value store of JSON rows.

    Every call has a bound on its time and raises :class:`~..exceptions.StoreTimeout` beyond it.
    """

    async def get(self, key: str) -> Any:
        """Return the row, or None if there is none."""

    async def set(self, key: str, row: Any) -> None:
        """Write or replace the row."""

    async def delete(self, key: str) -> None:
        """Delete the row if it is there."""
