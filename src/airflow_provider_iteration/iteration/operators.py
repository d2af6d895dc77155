# SPDX-License-Identifier: Apache-2.0
"""An operator as what an iteration runs for each item: sync, or deferred within this process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from datetime import timedelta
from typing import Any, NamedTuple

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import TaskDeferralTimeout, TaskDeferred

from airflow_provider_iteration import _compat
from airflow_provider_iteration.iteration.attempts import Item
from airflow_provider_iteration.iteration.functions import checked_result
from airflow_provider_iteration.iteration.hooks import ItemHooks
from airflow_provider_iteration.iteration.item_context import item_context, set_current

# Of the arguments of a task, those that belong to the iterating task and not to each item.
OF_THE_TASK = frozenset({"dag", "task_group", "start_date", "end_date", "params", "default_args"})


def may_be_template(value: Any, suffixes: Sequence[str]) -> bool:
    """
    Tell whether rendering a value could change it.

    :param value: value of a template field.
    :param suffixes: of names of files that hold a template.
    """
    if value is None or isinstance(value, (bool, int, float)):
        return False
    if isinstance(value, str):
        return "{" in value or value.endswith(tuple(suffixes) or ("\0",))
    if type(value) is dict:
        return any(may_be_template(member, suffixes) for member in value.values())
    if type(value) in (list, tuple):
        return any(may_be_template(member, suffixes) for member in value)
    return True


class _Deferral(NamedTuple):
    signal: TaskDeferred


def check_operator(operator_class: type[BaseOperator], kwargs: Mapping[str, Any]) -> None:
    """
    Refuse an operator that cannot be iterated.

    :param operator_class: class of the operator.
    :param kwargs: its arguments that are the same for all items.
    :raises TypeError: if it skips downstream tasks, triggers Dag runs, or gives its slot back between pokes.
    """
    name = operator_class.__name__
    for base in operator_class.mro():
        if base.__name__ in ("SkipMixin", "BranchMixIn"):
            raise TypeError(f"{name} skips downstream tasks, which one item cannot decide: use .expand()")
        if base.__name__ == "TriggerDagRunOperator":
            raise TypeError(f"{name} triggers Dag runs through its own task instance: use .expand()")
    if kwargs.get("mode") == "reschedule":
        raise TypeError(
            f"{name} with mode='reschedule' gives its worker back, with all items in it: use 'poke'"
        )


class OperatorWork:
    """
    Makes an operator for each item, renders it, and executes it.

    ``execute`` runs in a thread. An operator that defers has its trigger run on the event loop of the
    iteration, and is resumed in a thread, as often as it defers.

    :param operator_class: class of the operator.
    :param kwargs: its arguments that are the same for all items.
    :param context: context of the task.
    :param task: the iterating task, whose Dag renders templates.
    :param data: arguments of items that come from other tasks, or True for all of them: these are never
        rendered, so that data does not run as a template.
    :param hooks: what else happens around each item.
    :param keep_results: whether results must be such that they can be stored.
    """

    is_async = True

    def __init__(
        self,
        operator_class: type[BaseOperator],
        kwargs: Mapping[str, Any],
        context: Mapping[str, Any],
        task: BaseOperator,
        *,
        data: frozenset[str] | bool,
        hooks: ItemHooks,
        keep_results: bool,
    ) -> None:
        self._data = data
        self._hooks = hooks
        # What is the same for all items and is no template need not be rendered for each.
        self._plain = frozenset(
            name
            for name in operator_class.template_fields
            if name in kwargs and not may_be_template(kwargs[name], operator_class.template_ext)
        )
        self._operator_class = operator_class
        self._kwargs = {name: value for name, value in kwargs.items() if name not in OF_THE_TASK}
        self._context = context
        self._task = task
        self._environment = task.get_template_env()
        self._keep_results = keep_results

    def __call__(self, item: Item) -> Any:
        """Return the coroutine that works on an item."""
        return self._run(item)

    async def _run(self, item: Item) -> Any:
        context: Any = item_context(self._context, item.index)
        set_current(context)
        label = self._hooks.label(context, item.value)
        return await self._hooks.around_async(item, context, label, self._executed(item, context))

    async def _executed(self, item: Item, context: Any) -> Any:
        operator, result = await item.in_thread(self._made_and_executed, item, context)
        while isinstance(result, _Deferral):
            result = await self._resumed(item, operator, result.signal, context)
        return checked_result(result) if self._keep_results else result

    def _made_and_executed(self, item: Item, context: Any) -> tuple[BaseOperator, Any]:
        operator = self._made(item, context)
        return operator, _caught(operator, operator.execute, context)

    def _made(self, item: Item, context: Any) -> BaseOperator:
        operator = self._operator_class(**self._kwargs, **item.value)
        _compat.lend_dag(operator, self._task)
        context["task"] = operator
        _compat.render_fields(operator, self._rendered_fields(item.value), context, self._environment)
        return operator

    def _rendered_fields(self, arguments: Mapping[str, Any]) -> list[str]:
        data = arguments if self._data is True else self._data or ()
        suffixes = self._operator_class.template_ext
        return [
            name
            for name in self._operator_class.template_fields
            if name not in data
            and (name in arguments or name not in self._plain)
            and (name not in arguments or may_be_template(arguments[name], suffixes))
        ]

    async def _resumed(self, item: Item, operator: BaseOperator, signal: TaskDeferred, context: Any) -> Any:
        payload = await first_payload(signal, self._context["ti"])
        if not signal.method_name:
            return payload
        kwargs = {**(signal.kwargs or {}), "event": payload}
        return await item.in_thread(
            _caught,
            operator,
            lambda _: operator.resume_execution(signal.method_name, kwargs, context),
            context,
        )


async def first_payload(signal: TaskDeferred, ti: Any) -> Any:
    """
    Run a trigger until its first event, on the running event loop.

    :param signal: what the operator raised to defer.
    :param ti: the task instance, which triggers may look at.
    :return: the payload of the event; None if the trigger ends without one.
    :raises TaskDeferralTimeout: if the deferral's own time is over.
    """
    trigger = signal.trigger
    trigger.task_instance = ti
    timeout = signal.timeout
    seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
    try:
        async with asyncio.timeout(seconds), aclosing(trigger.run()) as events:
            async for event in events:
                return event.payload
    except TimeoutError:
        raise TaskDeferralTimeout("Trigger timeout") from None
    finally:
        await trigger.cleanup()
    return None


def _caught(operator: BaseOperator, function: Callable[[Any], Any], context: Any) -> Any:
    # A deferral is no Exception, and must not end the run.
    with _compat.allowed_to_execute(operator):
        try:
            return function(context)
        except TaskDeferred as signal:
            return _Deferral(signal)
