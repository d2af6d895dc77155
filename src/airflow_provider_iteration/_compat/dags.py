# SPDX-License-Identifier: Apache-2.0
"""Dag files: operators, decorators, outputs and what was made of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

# The class behind decorated tasks, and what makes their ids. Since 3.0 (airflow.sdk.bases.decorator).
from airflow.sdk.bases.decorator import DecoratedOperator as DecoratedOperator
from airflow.sdk.bases.decorator import _TaskDecorator
from airflow.sdk.bases.decorator import get_unique_task_id as get_unique_task_id

# The metaclass of operators; public in name, undocumented. There since 3.0 (airflow.sdk.bases.operator).
from airflow.sdk.bases.operator import BaseOperatorMeta as BaseOperatorMeta

# What is resolved when a task runs. Since 3.0 (airflow.sdk.definitions._internal.mixins).
from airflow.sdk.definitions._internal.mixins import ResolveMixin as ResolveMixin

# What ``Operator.partial()`` returns. Since 3.0 (airflow.sdk.definitions.mappedoperator).
from airflow.sdk.definitions.mappedoperator import OperatorPartial as OperatorPartial
from airflow.sdk.definitions.mappedoperator import validate_mapping_kwargs as validate_mapping_kwargs

TaskDecorator = _TaskDecorator

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from airflow.sdk import BaseOperator


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


def python_operator() -> type[BaseOperator]:
    """Return the operator of a plain ``@task``."""
    # Since version 1.0 of the standard provider (airflow.providers.standard.decorators.python).
    from airflow.providers.standard.decorators.python import _PythonDecoratedOperator

    return _PythonDecoratedOperator
