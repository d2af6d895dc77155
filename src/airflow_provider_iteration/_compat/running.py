# SPDX-License-Identifier: Apache-2.0
"""A running task: its context, connections, time limit, events and result."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow.providers.http.hooks.http import HttpAsyncHook
    from airflow.sdk import BaseOperator


async def srv_base_url(hook: HttpAsyncHook) -> str | None:
    """Return the base URL of the first target that the connection's SRV record names; None without any."""
    # SRV records are there since version 6.2 of the http provider.
    if not getattr(hook, "_srv_lookup_enabled", False):
        return None
    urls: list[str] = await hook._get_srv_base_urls_async()
    return urls[0]


@contextmanager
def current_context(context: Any) -> Iterator[None]:
    """Make a context the one that ``get_current_context()`` gives, for the whole process."""
    # Since 3.0 (airflow.sdk.execution_time.context).
    from airflow.sdk.execution_time.context import set_current_context

    with set_current_context(context):
        yield


def lend_dag(operator: BaseOperator, owner: BaseOperator) -> None:
    """Let an operator that was made while a task runs see that task's Dag, without being in it."""
    # The attribute behind the property; since 3.0.
    object.__setattr__(operator, "_dag", owner.dag)


def render_fields(operator: BaseOperator, names: Iterable[str], context: Any, environment: Any) -> None:
    """Render some of an operator's template fields."""
    # Since 3.0 (airflow.sdk.definitions._internal.templater).
    operator._do_render_template_fields(operator, names, context, environment, set())


@contextmanager
def allowed_to_execute(operator: BaseOperator) -> Iterator[None]:
    """Let an operator be executed here, in the running thread's context, as the task runner does."""
    # Since 3.0 (airflow.sdk.bases.operator).
    from airflow.sdk.bases.operator import ExecutorSafeguard

    token = ExecutorSafeguard.tracker.set(operator)
    try:
        yield
    finally:
        ExecutorSafeguard.tracker.reset(token)


def retry_decision(policy: Any, error: Exception, attempt: int, retries: int, context: Any) -> Any:
    """Ask a ``retry_policy`` about a failure: ``"fail"``, ``"retry"`` or None, and a delay in seconds."""
    # Since 3.3 (airflow.sdk.definitions.retry_policy).
    from airflow.sdk.definitions.retry_policy import RetryAction

    decision = policy.evaluate(error, attempt, retries, context)
    names = {RetryAction.FAIL: "fail", RetryAction.RETRY: "retry"}
    delay = None if decision.retry_delay is None else decision.retry_delay.total_seconds()
    return names.get(decision.action), delay


class ConnectionsOnce(dict[str, Any]):
    """
    The connections that items look up, each asked for once: a lookup is a request to the api-server.

    Lookups in threads fill it. One on the event loop must not block, and finds what is there already.
    """

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()
        self._loop_thread = threading.get_ident()

    def __contains__(self, conn_id: object) -> bool:
        if super().__contains__(conn_id):
            return True
        if threading.get_ident() == self._loop_thread:
            return False
        with self._lock:
            if not super().__contains__(conn_id):
                self.look_up(str(conn_id))
        return True

    def look_up(self, conn_id: str) -> None:
        """Ask for a connection, past this dict. Blocks."""
        from airflow.sdk.execution_time import context

        token = context._preset_connections.set(None)
        try:
            self[conn_id] = context._get_connection(conn_id)
        finally:
            context._preset_connections.reset(token)


@contextmanager
def connections_once(known: Iterable[str] = ()) -> Iterator[None]:
    """
    Have each connection looked up once by all that runs inside.

    :param known: ids of connections that will be needed; those that cannot be found are left to who asks.
    """
    # Connections that are set beforehand, for a context and its copies. Since 3.3.
    from airflow.sdk.execution_time.context import _preset_connections

    connections = ConnectionsOnce()
    for conn_id in known:
        with suppress(Exception):
            connections.look_up(conn_id)
    token = _preset_connections.set(connections)
    try:
        yield
    finally:
        _preset_connections.reset(token)


def time_limit(seconds: float) -> AbstractContextManager[Any]:
    """Raise ``AirflowTaskTimeout`` in the main thread after some seconds, as ``execution_timeout`` does."""
    # Since 3.0 (airflow.sdk.execution_time.timeout). It has one timer: within another, it replaces that.
    from airflow.sdk.execution_time.timeout import timeout

    return timeout(seconds)


def trigger_failure(lines: list[str] | None) -> tuple[str, dict[str, Any]]:
    """
    Return the method and arguments with which Airflow resumes a task whose trigger failed.

    :param lines: the traceback; None if the deferral took too long.
    """
    # Since 3.0 (airflow.sdk.bases.operator).
    from airflow.sdk.bases.operator import TRIGGER_FAIL_REPR, TriggerFailureReason

    if lines is None:
        return TRIGGER_FAIL_REPR, {"error": TriggerFailureReason.TRIGGER_TIMEOUT}
    return TRIGGER_FAIL_REPR, {"error": TriggerFailureReason.TRIGGER_FAILURE, "traceback": lines}


def push_result(ti: Any, value: Any, log: Any) -> None:
    """Push a task's result as the task runner does, with its length where mapped tasks expand over it."""
    # Since 3.0 (airflow.sdk.execution_time.task_runner).
    from airflow.sdk.execution_time.task_runner import _push_xcom_if_needed

    _push_xcom_if_needed(value, ti, log)


def new_outlet_events() -> Any:
    """Return an empty mapping of a task's outlet events. Since 3.0 (airflow.sdk.execution_time.context)."""
    from airflow.sdk.execution_time.context import OutletEventAccessors

    return OutletEventAccessors()


def plain_outlet_events(events: Any) -> list[dict[str, Any]]:
    """
    Return outlet events as JSON.

    :param events: mapping of assets and aliases to what was set for them.
    """
    from airflow.sdk import AssetAlias

    plain: list[dict[str, Any]] = []
    for asset in events:
        accessor = events[asset]
        aliased = [
            [event.dest_asset_key.name, event.dest_asset_key.uri, event.dest_asset_extra, event.extra]
            for event in accessor.asset_alias_events
        ]
        # Partitions are there since 3.3.
        partitions = sorted(getattr(accessor, "partition_keys", ()))
        if accessor.extra or aliased or partitions:
            of = [asset.name] if isinstance(asset, AssetAlias) else [asset.name, asset.uri]
            plain.append({"of": of, "extra": accessor.extra, "aliased": aliased, "partitions": partitions})
    return plain


def add_outlet_event(events: Any, plain: Mapping[str, Any]) -> None:
    """
    Add to a task's outlet events what :func:`plain_outlet_events` made of another's.

    :param events: mapping of assets and aliases to what was set for them.
    :param plain: one event.
    """
    from airflow.sdk import Asset, AssetAlias

    name, *uri = plain["of"]
    accessor = events[Asset(name=name, uri=uri[0]) if uri else AssetAlias(name)]
    if plain["extra"]:
        accessor.extra = plain["extra"]
    for asset_name, asset_uri, asset_extra, extra in plain.get("aliased", ()):
        accessor.add(Asset(name=asset_name, uri=asset_uri, extra=asset_extra), extra=extra)
    if plain.get("partitions"):
        accessor.add_partitions(plain["partitions"])
