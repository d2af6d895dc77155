# SPDX-License-Identifier: Apache-2.0
"""Keeps a watcher's place in the state stores of the assets that it watches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow_provider_iteration import _compat
from airflow_provider_iteration.streams.watching import WatchState
from airflow_provider_iteration.streams.xcom_store import ask


class AssetPlaces:
    """
    The place of one watcher, kept with every asset that it watches: one may be added or taken away.

    Airflow keeps the state of an asset until the asset is gone, over restarts and from run to run.

    :param stores: the state store of each asset.
    :param key: key of the place.
    """

    def __init__(self, stores: Sequence[Any], key: str) -> None:
        self._stores = stores
        self._key = key
        self._timeout = _compat.message_timeout()

    async def read(self) -> list[WatchState]:
        """
        Return the place that each asset has, of those that have any.

        :raises StoreTimeout: if there is no answer in time.
        """
        rows = [await self._ask("read", lambda store=store: store.get(self._key)) for store in self._stores]
        return [WatchState.from_row(row) for row in rows if row is not None]

    async def write(self, state: WatchState) -> None:
        """
        Keep a place with every asset.

        :raises StoreTimeout: if there is no answer in time.
        """
        row = state.to_row()
        for store in self._stores:
            await self._ask("write", lambda store=store: store.set(self._key, row))

    async def _ask(self, action: str, call: Any) -> Any:
        return await ask(action, self._key, self._timeout, call)
