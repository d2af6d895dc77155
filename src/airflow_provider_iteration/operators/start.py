# SPDX-License-Identifier: Apache-2.0
"""Decides, when an operator is constructed, whether its task may start in the triggerer."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from airflow.sdk import BaseOperator

from airflow_provider_iteration import _compat
from airflow_provider_iteration.operators.templates import template_obstacle

DEFAULT_POOL = "default_pool"


def placing_obstacles(operator: BaseOperator) -> Iterator[str]:
    """
    Yield what a start in the triggerer would get wrong, whatever the trigger's arguments are.

    :param operator: a constructed operator.
    """
    if _compat.is_mapped_instance(operator):
        yield "the task is mapped"
    if not operator.has_dag():
        yield "the operator has no Dag yet"
    elif _compat.in_mapped_task_group(operator):
        yield "the task is in a mapped task group"
    if operator.pool != DEFAULT_POOL or operator.pool_slots != 1:
        yield "a start in the triggerer takes no pool slot, and the task has a pool or slots of its own"
    for name in ("max_active_tis_per_dag", "max_active_tis_per_dagrun"):
        if getattr(operator, name) is not None:
            yield f"a start in the triggerer does not count towards {name}"
    if _compat.has_triggerer_queues():
        yield "triggerer queues are in use, and a start in the triggerer has no queue"


def argument_obstacles(operator: BaseOperator, arguments: Mapping[str, Any]) -> Iterator[str]:
    """
    Yield which of a trigger's arguments cannot travel or be rendered, each with its place.

    :param operator: the operator, whose template fields and Dag decide what is rendered.
    :param arguments: constructor arguments of the trigger.
    """
    shadowed = _dag_names(operator)
    own_rendering = _dag_renders_its_own_way(operator)
    for name, value in arguments.items():
        for place, leaf in _leaves(value, name):
            if (problem := foreign_type(leaf)) is not None:
                yield f"{place} {problem}"
            elif name in operator.template_fields and isinstance(leaf, str):
                problem = template_obstacle(leaf, shadowed)
                if problem is None and own_rendering and "{" in leaf:
                    problem = "may be a template, and the Dag renders templates in a way of its own"
                if problem is not None:
                    yield f"{place} {problem}"


def foreign_type(value: Any) -> str | None:
    """Say why a value cannot be sent to the triggerer as plain JSON; None if it can."""
    kind = type(value)
    if value is None or kind in (str, bool, int):
        return None
    if kind is float:
        return None if math.isfinite(value) else "is a number that JSON does not have"
    if _compat.is_resolvable(value):
        return "is the output of another task or an argument of a task group"
    if callable(value):
        return f"is a callable ({getattr(value, '__qualname__', kind.__qualname__)}), which cannot be sent"
    return f"is of type {kind.__module__}.{kind.__qualname__}, which is not JSON"


def foreign_leaves(arguments: Mapping[str, Any]) -> Iterator[str]:
    """
    Yield what in some arguments cannot be sent to the triggerer, with its place; a task's output can.

    :param arguments: arguments of a trigger.
    """
    for name, value in arguments.items():
        for place, leaf in _leaves(value, name):
            if not _compat.is_resolvable(leaf) and (problem := foreign_type(leaf)) is not None:
                yield f"{place} {problem}"


def refuse_callables(**arguments: Any) -> None:
    """
    Refuse callables in arguments that are sent as they are: no worker could make use of them either.

    :raises TypeError: naming the argument and its place.
    """
    for name, value in arguments.items():
        for place, leaf in _leaves(value, name):
            if callable(leaf) and not _compat.is_resolvable(leaf):
                raise TypeError(f"{place} {foreign_type(leaf)}: give a value, a template, or a task's output")


def finishing_losses(operator: BaseOperator) -> Iterator[str]:
    """
    Yield what would be lost if the task ended in the triggerer.

    :param operator: a constructed operator.
    """
    if operator.outlets:
        yield "outlets emit no asset event"
    for name in ("on_success_callback", "on_execute_callback"):
        if getattr(operator, name):
            yield f"{name} is not called"
    for name in ("pre_execute", "post_execute"):
        if _is_overridden(operator, name) or getattr(operator, f"_{name}_hook", None) is not None:
            yield f"{name} is not called"
    if operator.operator_extra_links:
        yield "extra links are not filled"
    if getattr(operator, "has_handler", bool)():
        yield "its handler of events is not called"


def _leaves(value: Any, place: str) -> Iterator[tuple[str, Any]]:
    if type(value) is dict:
        for key, member in value.items():
            if type(key) is str:
                yield from _leaves(member, f"{place}[{key!r}]")
            else:
                yield f"{place}: key {key!r}", object()
    elif type(value) is list:
        for index, member in enumerate(value):
            yield from _leaves(member, f"{place}[{index}]")
    else:
        yield place, value


def _dag_names(operator: BaseOperator) -> frozenset[str]:
    dag = operator.dag if operator.has_dag() else None
    return frozenset((dag.user_defined_macros or {}) if dag is not None else ())


def _dag_renders_its_own_way(operator: BaseOperator) -> bool:
    dag = operator.dag if operator.has_dag() else None
    return dag is not None and bool(
        dag.render_template_as_native_obj
        or dag.jinja_environment_kwargs
        or dag.user_defined_filters
        or not _is_strict(dag.template_undefined)
    )


def _is_strict(undefined: type) -> bool:
    import jinja2

    return undefined is jinja2.StrictUndefined


def _is_overridden(operator: BaseOperator, name: str) -> bool:
    own: Callable[..., Any] = inspect.unwrap(getattr(type(operator), name))
    return own is not inspect.unwrap(getattr(BaseOperator, name))
