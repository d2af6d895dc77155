# SPDX-License-Identifier: Apache-2.0
"""
The one door to Airflow's insides.

Every private, undocumented or moving symbol of Airflow that this package touches is imported here and
nowhere else, each with the version since which it stands where it is taken from. Import this module only
where Airflow is loaded anyway: importing it is not cheap.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import TYPE_CHECKING, Any

# The class behind decorated tasks, and what makes their ids. Since 3.0 (airflow.sdk.bases.decorator).
from airflow.sdk.bases.decorator import DecoratedOperator as DecoratedOperator
from airflow.sdk.bases.decorator import _TaskDecorator as TaskDecorator
from airflow.sdk.bases.decorator import get_unique_task_id as get_unique_task_id

# The metaclass of operators; public in name, undocumented. There since 3.0 (airflow.sdk.bases.operator).
from airflow.sdk.bases.operator import BaseOperatorMeta

# What is resolved when a task runs. Since 3.0 (airflow.sdk.definitions._internal.mixins).
from airflow.sdk.definitions._internal.mixins import ResolveMixin

# What ``Operator.partial()`` returns. Since 3.0 (airflow.sdk.definitions.mappedoperator).
from airflow.sdk.definitions.mappedoperator import OperatorPartial
from airflow.sdk.definitions.mappedoperator import validate_mapping_kwargs as validate_mapping_kwargs

# Since 3.2 (airflow.sdk.module_loading), which does not say that it exports it.
from airflow.sdk.module_loading import import_string as import_string  # type: ignore[attr-defined]

# Where serialised values are allowed into a process, one class at a time. Since 3.3.
from airflow.sdk.serde import allow_class

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from airflow.providers.http.hooks.http import HttpAsyncHook
    from airflow.sdk import BaseOperator

__all__ = [
    "BaseOperatorMeta",
    "DecoratedOperator",
    "OperatorPartial",
    "ResolveMixin",
    "TaskDecorator",
    "add_outlet_event",
    "allow_class",
    "allowed_to_execute",
    "asset_states",
    "config_float",
    "config_int",
    "config_text",
    "connections_once",
    "context_keys",
    "count_dag_runs",
    "current_context",
    "current_dag",
    "current_task_group",
    "dag_run_state",
    "delete_stored_xcom",
    "delete_xcom",
    "derived_output",
    "determine_kwargs",
    "from_serde",
    "get_unique_task_id",
    "has_mapped_dependants",
    "has_task_listeners",
    "has_triggerer_queues",
    "import_string",
    "in_mapped_task_group",
    "is_mapped",
    "is_mapped_instance",
    "is_mapped_output",
    "is_resolvable",
    "jinja_filter_names",
    "lend_dag",
    "max_map_length",
    "message_timeout",
    "metadata_session",
    "new_outlet_events",
    "plain_outlet_events",
    "plain_output",
    "push_result",
    "python_operator",
    "read_newest_xcom",
    "read_xcom",
    "render_fields",
    "retry_decision",
    "serde_parts",
    "srv_base_url",
    "stored_xcom",
    "task_states",
    "time_limit",
    "to_serde",
    "to_serde_parts",
    "trigger_failure",
    "upstream_ids",
    "write_xcom",
]

SKIPPED_KEY = "skipmixin_key"
"""The one XCom whose stored value the scheduler reads, past the backend (airflow.sdk.bases.skipmixin)."""


def read_xcom(*, key: str, dag_id: str, task_id: str, run_id: str, map_index: int = -1) -> Any:
    """Read one XCom through the configured backend; None if it is missing. Blocks: use a thread."""
    # Resolves [core] xcom_backend when imported, so not at module level. Since 3.0.
    from airflow.sdk.execution_time.xcom import XCom

    return XCom.get_one(key=key, dag_id=dag_id, task_id=task_id, run_id=run_id, map_index=map_index)


def write_xcom(value: Any, *, key: str, dag_id: str, task_id: str, run_id: str, map_index: int = -1) -> None:
    """Write one XCom through the configured backend. Blocks: use a thread."""
    from airflow.sdk.execution_time.xcom import XCom

    XCom.set(key, value, dag_id=dag_id, task_id=task_id, run_id=run_id, map_index=map_index)


def delete_xcom(*, key: str, dag_id: str, task_id: str, run_id: str, map_index: int = -1) -> None:
    """Delete one XCom and what the configured backend keeps for it. Blocks: use a thread."""
    from airflow.sdk.execution_time.xcom import XCom

    XCom.delete(key=key, dag_id=dag_id, task_id=task_id, run_id=run_id, map_index=map_index)


def asset_states(accessors: Any) -> list[Any]:
    """Return the state store of each asset that a watcher watches (``_by_name``, since 3.3)."""
    return list(accessors._by_name.values())


def read_newest_xcom(*, key: str, dag_id: str, task_id: str, run_id: str, map_index: int = -1) -> Any:
    """Read the newest XCom of a run and of those before it; None if there is none. Blocks: use a thread."""
    from airflow.sdk.execution_time.xcom import XCom

    return XCom.get_one(
        key=key,
        dag_id=dag_id,
        task_id=task_id,
        run_id=run_id,
        map_index=map_index,
        include_prior_dates=True,
    )


def dag_run_state(dag_id: str, run_id: str) -> str:
    """Ask for the state of a Dag run, on a worker or in a triggerer. Blocks: use a thread."""
    # Since 3.0 (airflow.sdk.execution_time.task_runner).
    from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

    state: Any = RuntimeTaskInstance.get_dagrun_state(dag_id, run_id)
    return str(getattr(state, "value", state))


def count_dag_runs(dag_id: str, state: str) -> int:
    """Count the runs of a Dag that are in a state, on a worker or in a triggerer. Blocks: use a thread."""
    from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

    return RuntimeTaskInstance.get_dr_count(dag_id, states=[state])


def config_float(name: str, fallback: float) -> float:
    """Read a number from the section ``[iteration]`` of the configuration."""
    # The SDK's own configuration, which task processes and triggers have too. Since 3.2.
    from airflow.sdk.configuration import conf

    value: float = conf.getfloat("iteration", name, fallback=fallback)
    return value


def config_int(name: str) -> int:
    """Read a whole number from the section ``[iteration]`` of the configuration; 0 if it is not set."""
    from airflow.sdk.configuration import conf

    value: int = conf.getint("iteration", name, fallback=0)
    return value


def message_timeout() -> float:
    """Return the seconds to wait for the answer to one message, as configured."""
    return config_float("message_timeout", 60.0)


def config_text(name: str, fallback: str) -> str:
    """Read a text from the section ``[iteration]`` of the configuration."""
    from airflow.sdk.configuration import conf

    value: str = conf.get("iteration", name, fallback=fallback)
    return value


def stored_xcom(*, key: str, dag_id: str, task_id: str, run_id: str, map_index: int = -1) -> Any:
    """Return an XCom as it is stored, with a ``key`` and a ``value``, before a backend reads it. Blocks."""
    # What a backend has for its deletions. Since 3.0.
    from airflow.sdk.bases.xcom import BaseXCom

    return BaseXCom._get_xcom_db_ref(
        key=key, dag_id=dag_id, task_id=task_id, run_id=run_id, map_index=map_index
    )


def delete_stored_xcom(*, key: str, dag_id: str, task_id: str, run_id: str, map_index: int = -1) -> None:
    """Delete the row of an XCom, and nothing else. Blocks."""
    # The message and the channel of ``BaseXCom.delete``. Since 3.0.
    from airflow.sdk.execution_time.comms import DeleteXCom
    from airflow.sdk.execution_time.task_runner import SUPERVISOR_COMMS

    SUPERVISOR_COMMS.send(
        DeleteXCom(key=key, dag_id=dag_id, task_id=task_id, run_id=run_id, map_index=map_index)
    )


@contextmanager
def metadata_session() -> Iterator[Any]:
    """Give a session of the metadata database, for a command; connections are looked up there too."""
    # Since 2.0 (airflow.utils.session).
    from airflow.utils.session import create_session

    # How the SDK tells that it is not in a task; the scheduler sets it in the same way. Since 3.1.
    os.environ["_AIRFLOW_PROCESS_CONTEXT"] = "server"
    with create_session() as session:
        yield session


def has_mapped_dependants(task: Any) -> bool:
    """Tell whether a mapped task or group expands over the task's output; for parsed and stored Dags."""
    return next(iter(task.iter_mapped_dependants()), None) is not None


def max_map_length(task: Any, map_index: int) -> int | None:
    """
    Return how long the output of a task instance may be at most; None if no mapped task expands over it.

    :param task: the task.
    :param map_index: index of the instance; mapped tasks expand over the instances of a mapped task.
    """
    from airflow.sdk.configuration import conf

    if map_index >= 0 or not has_mapped_dependants(task):
        return None
    value: int = conf.getint("core", "max_map_length", fallback=1024)
    return value


def has_task_listeners() -> bool:
    """Tell whether a plugin of this deployment listens to the ends of task instances."""
    # The SDK's own listener manager; since 3.2 (airflow.sdk.listener).
    from airflow.sdk.listener import get_listener_manager

    hook = get_listener_manager().hook
    return any(
        getattr(hook, name).get_hookimpls()
        for name in ("on_task_instance_running", "on_task_instance_success", "on_task_instance_failed")
    )


def has_triggerer_queues() -> bool:
    """Tell whether triggerers of this deployment take triggers by queue. The option is there since 3.2."""
    from airflow.sdk.configuration import conf

    value: bool = conf.getboolean("triggerer", "queues_enabled", fallback=False)
    return value


def is_resolvable(value: Any) -> bool:
    """Tell whether a value is resolved when the task runs: a task's output, a task group's argument."""
    return isinstance(value, ResolveMixin)


def in_mapped_task_group(operator: Any) -> bool:
    """Tell whether any task group around the operator is mapped."""
    return next(iter(operator.iter_mapped_task_groups()), None) is not None


def is_mapped_instance(operator: BaseOperator) -> bool:
    """Tell whether the operator was made from a mapped one (``_BaseOperator__from_mapped``, since 2.3)."""
    return bool(getattr(operator, "_BaseOperator__from_mapped", False))


def jinja_filter_names() -> frozenset[str]:
    """Return the filters that a template has in the triggerer, where a Dag's own ones are missing."""
    # Since 3.0 (airflow.sdk.definitions._internal.templater).
    from airflow.sdk.definitions._internal.templater import SandboxedEnvironment

    return frozenset(SandboxedEnvironment(cache_size=0).filters)


def determine_kwargs(
    function: Callable[..., Any], args: Collection[Any], context: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Pick from a context what a callable asks for by name, as the stock operators do."""
    # Since 3.0 (airflow.sdk.bases.decorator).
    from airflow.sdk.bases.decorator import determine_kwargs as determine

    return determine(function, args, context)


async def srv_base_url(hook: HttpAsyncHook) -> str | None:
    """Return the base URL of the first target that the connection's SRV record names; None without any."""
    # SRV records are there since version 6.2 of the http provider.
    if not getattr(hook, "_srv_lookup_enabled", False):
        return None
    urls: list[str] = await hook._get_srv_base_urls_async()
    return urls[0]


def context_keys() -> frozenset[str]:
    """Return the names that a task's context can have."""
    # Since 3.0 (airflow.sdk.definitions.context).
    from airflow.sdk.definitions.context import KNOWN_CONTEXT_KEYS

    return frozenset(KNOWN_CONTEXT_KEYS)


def plain_output(value: Any) -> tuple[Any, str] | None:
    """Return the task, and the key, that a task's output is of; None for what was made of outputs."""
    # Since 3.0 (airflow.sdk.definitions.xcom_arg).
    from airflow.sdk.definitions.xcom_arg import PlainXComArg

    return (value.operator, value.key) if isinstance(value, PlainXComArg) else None


def is_mapped(operator: Any) -> bool:
    """Tell whether a task of a Dag file is mapped."""
    # Since 3.0 (airflow.sdk.definitions.mappedoperator).
    from airflow.sdk.definitions.mappedoperator import MappedOperator

    return isinstance(operator, MappedOperator)


def current_dag() -> Any:
    """Return the Dag in whose block a Dag file is; None outside of any."""
    # Since 3.0 (airflow.sdk.definitions._internal.contextmanager).
    from airflow.sdk.definitions._internal.contextmanager import DagContext

    return DagContext.get_current()


def current_task_group(dag: Any) -> Any:
    """Return the task group in whose block a Dag file is; None outside of any."""
    from airflow.sdk.definitions._internal.contextmanager import TaskGroupContext

    return TaskGroupContext.get_current(dag)


def upstream_ids(operator: BaseOperator) -> set[str]:
    """
    Return the tasks that must have ended before another begins: direct upstreams, and setups further up.

    Airflow waits for these setups itself, but not where the trigger rule is ``always``.
    """
    # Since 2.7 (airflow.sdk.definitions._internal.node, airflow._shared.dagnode since 3.2).
    setups = operator.get_upstreams_only_setups() if operator.has_dag() else ()
    return {*operator.upstream_task_ids, *(setup.task_id for setup in setups)}


def task_states(
    dag_id: str, run_ids: Collection[str], task_ids: Collection[str]
) -> dict[str, dict[str, str | None]]:
    """
    Ask for the states of tasks, on a worker or in a triggerer, in one message. Blocks: use a thread.

    :return: run → task → state; of a mapped task there is one for each instance, as ``<task>_<index>``.
    """
    # Since 3.0 (airflow.sdk.execution_time.task_runner).
    from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

    states = RuntimeTaskInstance.get_task_states(dag_id, task_ids=list(task_ids), run_ids=list(run_ids))
    return {run: dict(tasks) for run, tasks in states.items()}


def is_mapped_output(value: Any) -> bool:
    """Tell whether a value is the lazy sequence of a mapped task's outputs."""
    # Since 3.0 (airflow.sdk.execution_time.lazy_sequence).
    from airflow.sdk.execution_time.lazy_sequence import LazyXComSequence

    return isinstance(value, LazyXComSequence)


def derived_output(value: Any) -> tuple[Any, list[tuple[str, list[Any], dict[str, Any]]]] | None:
    """
    Take apart what Airflow's own ``.map()``, ``.zip()`` or ``.concat()`` made of tasks' outputs, whose items
    it reads one by one: the first output, and the calls that were made on it (name, arguments, options).
    """
    # Since 3.0 (airflow.sdk.definitions._internal.types, airflow.sdk.definitions.xcom_arg).
    from airflow.sdk.definitions._internal.types import is_arg_set
    from airflow.sdk.definitions.xcom_arg import _ConcatResult, _MapResult, _ZipResult

    if isinstance(value, _MapResult):
        return value.value, [("map", [function], {}) for function in value.callables]
    if not isinstance(value, (_ConcatResult, _ZipResult)) or len(value.values) < 2:
        return None
    first, *others = value.values
    if isinstance(value, _ConcatResult):
        return first, [("concat", others, {})]
    return first, [("zip", others, {"fillvalue": value.fillvalue} if is_arg_set(value.fillvalue) else {})]


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


def python_operator() -> type[BaseOperator]:
    """Return the operator of a plain ``@task``."""
    # Since version 1.0 of the standard provider (airflow.providers.standard.decorators.python).
    from airflow.providers.standard.decorators.python import _PythonDecoratedOperator

    return _PythonDecoratedOperator


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


def to_serde(value: Any) -> Any:
    """Make JSON of a value as Airflow does for its XComs: dates, decimals, pydantic models and others."""
    # Since 3.1 (airflow.sdk.serde).
    from airflow.sdk.serde import serialize

    return serialize(value)


def serde_parts(data: Any) -> tuple[str, int, Any] | None:
    """Return class name, version and content of a serialised object; None for anything else."""
    # Since 3.1 (airflow.sdk.serde).
    from airflow.sdk.serde import decode

    try:
        parts: tuple[str, int, Any] = decode(data)
    except (KeyError, TypeError, ValueError):
        return None
    return parts


def to_serde_parts(class_name: str, version: int, content: Any) -> dict[str, Any]:
    """Return what :func:`serde_parts` takes apart."""
    from airflow.sdk.serde import encode

    data: dict[str, Any] = encode(class_name, version, content)
    return data


def from_serde(data: Any) -> Any:
    """Give back what :func:`to_serde` was given; only classes that the deployment allows."""
    from airflow.sdk.serde import deserialize

    return deserialize(data)


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
