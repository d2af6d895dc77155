# SPDX-License-Identifier: Apache-2.0
"""An operator as what an iteration runs for each item: sync, or deferred within this process."""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from airflow.sdk import BaseOperator

from airflow_provider_iteration import _compat
from airflow_provider_iteration.iteration.attempts import Item
from airflow_provider_iteration.iteration.deferrals import Deferral, caught, resumed
from airflow_provider_iteration.iteration.functions import checked_result
from airflow_provider_iteration.iteration.hooks import ItemHooks
from airflow_provider_iteration.iteration.input_field import Data, rendered
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
    :param data: arguments in ``kwargs`` that come from other tasks, and are not rendered again.
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
        data: Collection[str],
        hooks: ItemHooks,
        keep_results: bool,
    ) -> None:
        self._hooks = hooks
        self._live: dict[int, BaseOperator] = {}
        suffixes = operator_class.template_ext
        # What is the same for all items and is no template need not be rendered for each.
        self._rendered = [
            name
            for name in operator_class.template_fields
            if name not in data and may_be_template(kwargs.get(name), suffixes)
        ]
        self._operator_class = operator_class
        self._kwargs = dict(kwargs)
        self._context = context
        self._task = task
        self._environment = task.get_template_env()
        self._keep_results = keep_results

    def __call__(self, item: Item) -> Any:
        """Return the coroutine that works on an item."""
        return self._run(item)

    def kill(self, item: Item) -> None:
        """Tell the operator of an item that is about to be cut off, once, without waiting for it."""
        if (operator := self._live.pop(item.index, None)) is not None:
            threading.Thread(target=operator.on_kill, name=f"on_kill-{item.index}", daemon=True).start()

    async def _run(self, item: Item) -> Any:
        context: Any = item_context(self._context, item.index)
        set_current(context)
        self._hooks.began(item.index, context)
        own = {name: rendered(value, lambda text: text) for name, value in item.value.items()}
        label = self._hooks.label(context, own)
        try:
            return await self._hooks.around_async(item, context, label, self._executed(item, own, context))
        finally:
            self._live.pop(item.index, None)

    async def _executed(self, item: Item, own: Mapping[str, Any], context: Any) -> Any:
        operator, result = await item.in_thread(self._made_and_executed, item, own, context)
        while isinstance(result, Deferral):
            result = await resumed(item, operator, result.signal, context, self._context["ti"])
        return checked_result(result) if self._keep_results else result

    def _made_and_executed(
        self, item: Item, own: Mapping[str, Any], context: Any
    ) -> tuple[BaseOperator, Any]:
        operator = self._made(item, own, context)
        self._live[item.index] = operator
        return operator, caught(operator, operator.execute, context)

    def _made(self, item: Item, own: Mapping[str, Any], context: Any) -> BaseOperator:
        operator = self._operator_class(**self._kwargs, **own)
        _compat.lend_dag(operator, self._task)
        context["task"] = operator
        if names := [name for name in self._rendered if name not in own]:
            _compat.render_fields(operator, names, context, self._environment)
        self._render_own(operator, item, context)
        return operator

    def _render_own(self, operator: BaseOperator, item: Item, context: Any) -> None:
        suffixes = operator.template_ext
        for name, value in item.value.items():
            is_literal = type(value) is not Data and name in operator.template_fields
            if is_literal and may_be_template(value, suffixes):
                setattr(
                    operator,
                    name,
                    rendered(value, lambda text: operator.render_template(text, context, self._environment)),
                )
