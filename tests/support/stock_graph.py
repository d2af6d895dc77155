# SPDX-License-Identifier: Apache-2.0
"""The stock Graph operator, resumed for each page as the scheduler would, without one."""

from __future__ import annotations

import copy
import json
import warnings
from types import SimpleNamespace
from typing import Any

from airflow.providers.microsoft.azure.hooks.msgraph import KiotaRequestAdapterHook
from airflow.providers.microsoft.azure.operators.msgraph import MSGraphAsyncOperator
from airflow.sdk.exceptions import TaskDeferred

from airflow_provider_iteration import _compat
from airflow_provider_iteration.msgraph.adapters import close_adapter


class _Instance(SimpleNamespace):
    def xcom_pull(self, **place: Any) -> Any:
        return json.loads(self.pushed) if self.pushed else None

    def xcom_push(self, *, key: str, value: Any) -> None:
        self.pushed = json.dumps(value)


async def stock_result(**arguments: Any) -> Any:
    """Run the stock operator to its end, and return its result."""
    with warnings.catch_warnings():
        # It looks for a module that Airflow 3 warns about.
        warnings.simplefilter("ignore")
        try:
            return await _run(arguments)
        finally:
            adapter: Any
            _, adapter = KiotaRequestAdapterHook.cached_request_adapters.pop("graph", (None, None))
            if adapter is not None:
                provider = adapter._authentication_provider.access_token_provider
                await close_adapter(adapter, provider._credentials)


async def _run(arguments: dict[str, Any]) -> Any:
    context: Any = {"ti": _Instance(map_index=-1, pushed=None), "run_id": "r1"}
    method = "execute"
    kwargs: dict[str, Any] = {}
    while True:
        # It is made anew for each resume.
        operator = MSGraphAsyncOperator(task_id="stock", conn_id="graph", **copy.deepcopy(arguments))
        try:
            with _compat.allowed_to_execute(operator):
                return getattr(operator, method)(context, **kwargs)
        except TaskDeferred as deferred:
            events = deferred.trigger.run()
            event = await anext(events)
            await events.aclose()
            method, kwargs = deferred.method_name, {**(deferred.kwargs or {}), "event": event.payload}
