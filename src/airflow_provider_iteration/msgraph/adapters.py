# SPDX-License-Identifier: Apache-2.0
"""
The stock hook's adapter, owned by one stream.

The stock hook keeps adapters in a class attribute, by connection id alone: the next operator with that
connection gets the first one's scopes, version and time-out, and an adapter belongs to the event loop that
it was made on. Here each stream makes its own and closes it.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

from airflow.providers.microsoft.azure.hooks.msgraph import KiotaRequestAdapterHook

from airflow_provider_iteration import _compat
from airflow_provider_iteration.exceptions import StoreTimeout
from airflow_provider_iteration.pagination.hosts import checked_hosts


class OwnAdapterHook(KiotaRequestAdapterHook):
    """
    The stock hook with an adapter of its own, which :meth:`close` closes altogether.

    :param arguments: those of the stock hook.
    """

    def __init__(self, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.cached_request_adapters = {}
        self.connection_hosts: list[str] = []
        self._credential: Any = None

    def get_credentials(self, *args: Any, **kwargs: Any) -> Any:
        self._credential = super().get_credentials(*args, **kwargs)
        return self._credential

    def get_allowed_hosts(  # type: ignore[override]
        self, authority: str | None, config: dict[str, Any]
    ) -> list[str]:
        hosts: list[str] = super().get_allowed_hosts(authority, config)
        if config.get("allowed_hosts"):
            self.connection_hosts = [host for host in hosts if _is_one_host(host)]
        return hosts

    async def open(self) -> Any:
        """
        Look up the connection, and make the adapter.

        :return: a request adapter of Kiota.
        :raises StoreTimeout: if the supervisor does not answer.
        """
        seconds = _compat.message_timeout()
        try:
            async with asyncio.timeout(seconds):
                return await self.get_async_conn()
        except TimeoutError:
            raise StoreTimeout("lookup", f"connection {self.conn_id}", seconds) from None

    async def close(self) -> None:
        """Close the adapter's connections and those of its credential."""
        _, adapter = self.cached_request_adapters.pop(self.conn_id, (None, None))
        credential, self._credential = self._credential, None
        await close_adapter(adapter, credential)


async def close_adapter(adapter: Any, credential: Any) -> None:
    """
    Close all that an adapter and its credential have open.

    :param adapter: a request adapter of Kiota, or None.
    :param credential: the stock hook's credential, or None.
    """
    async with contextlib.AsyncExitStack() as stack:
        if credential is not None:
            # The stock wrapper's own close() does nothing. There since version 13 of the provider.
            stack.push_async_callback(getattr(credential, "_credential", credential).close)
        if adapter is not None:
            client = adapter._http_client
            stack.push_async_callback(client.aclose)
            # Kiota's transports do not close those that they wrap.
            for transport in (client._transport, *client._mounts.values()):
                if transport is not None:
                    stack.push_async_callback(transport.transport.aclose)


def _is_one_host(entry: str) -> bool:
    """Tell a host from what Kiota takes as well, such as ``.sharepoint.com`` for all below it."""
    try:
        checked_hosts([entry])
    except ValueError:
        return False
    return not entry.startswith(".")
