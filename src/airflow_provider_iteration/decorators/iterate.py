# SPDX-License-Identifier: Apache-2.0
"""``@task.iterate``: a function over many items in one task instance."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, overload

import attrs
from airflow.sdk import BaseOperator, TriggerRule, XComArg

from airflow_provider_iteration import _compat
from airflow_provider_iteration.iteration.functions import check_arguments
from airflow_provider_iteration.iteration.hooks import ItemOptions
from airflow_provider_iteration.iteration.input_field import IterateInput, references_in
from airflow_provider_iteration.iteration.inputs import elements_of
from airflow_provider_iteration.iteration.operators import OF_THE_TASK, check_operator
from airflow_provider_iteration.iteration.options import IterateOptions, check_names
from airflow_provider_iteration.iteration.resources import check_factories
from airflow_provider_iteration.operators.iterable import FunctionSpec, IterableOperator, OperatorSpec
from airflow_provider_iteration.operators.live import operator_class

__all__ = ["IterateTask", "iterate"]

_RESOURCES = "resources"
_ALSO_OF_ITEMS = ("default_args", "do_xcom_push", "execution_timeout", "params", "retries")
_TASK_ARGUMENTS = frozenset(inspect.signature(BaseOperator.__init__).parameters) - {"self", "kwargs"}


@attrs.define(slots=False)
class IterateTask(_compat.TaskDecorator[Any, Any, Any]):
    """
    What ``@task.iterate`` makes of a function. Called plainly it is an ordinary task.

    ``partial`` and ``override`` are those of ``@task``; ``override`` also takes the options of
    :func:`iterate`.
    """

    options: dict[str, Any] = attrs.field(factory=dict)

    def iterate(self, **inputs: Any) -> XComArg:
        """
        Run the function over the cross product of inputs, the last one fastest, as ``.expand()`` does.

        :param inputs: parameter → list, mapping (as pairs), another task's output, or one value.
        :raises TypeError: for a parameter that the function does not have, an input that cannot be
            iterated over, or no input at all.
        """
        if not inputs:
            raise TypeError("iterate(): no arguments to iterate over")
        for name, value in inputs.items():
            if not _compat.is_resolvable(value):
                elements_of(name, value)
        self._refuse_names("iterate", inputs)
        check_arguments(self.function, [*self._constants(), *self._resources(), *inputs], complete=True)
        return self._make(IterateInput(inputs))

    def iterate_kwargs(self, kwargs: Any) -> XComArg:
        """
        Run the function over an input whose items are mappings of arguments, as ``.expand_kwargs()`` does.

        :param kwargs: a list of mappings, or another task's output.
        :raises TypeError: if it is anything else.
        """
        _check_mappings(kwargs)
        known = [*self._constants(), *self._resources()]
        check_arguments(self.function, known, complete=False)
        for item in kwargs if isinstance(kwargs, (list, tuple)) else ():
            if isinstance(item, Mapping):
                check_arguments(self.function, [*known, *item], complete=True)
        return self._make(IterateInput(kwargs, whole=True))

    def partial(self, **kwargs: Any) -> IterateTask:
        made = super().partial(**kwargs)
        assert isinstance(made, IterateTask)
        return made

    def override(self, **kwargs: Any) -> IterateTask:
        options, others = _split(kwargs)
        made = super().override(**others)
        assert isinstance(made, IterateTask)
        made.options = {**self.options, **options}
        return made

    def _constants(self) -> dict[str, Any]:
        constants: dict[str, Any] = self.kwargs.get("op_kwargs", {})
        return constants

    def _resources(self) -> dict[str, Any]:
        resources: dict[str, Any] = self.options.get(_RESOURCES) or {}
        return resources

    def _refuse_names(self, method: str, inputs: Mapping[str, Any]) -> None:
        if reserved := sorted(_compat.context_keys() & set(inputs)):
            raise ValueError(f"{method}(): {reserved[0]!r} is a name of the task's context")
        for known, what in ((self._constants(), "partial()"), (self._resources(), "resources")):
            if both := sorted(set(known) & set(inputs)):
                raise TypeError(f"{method}(): {both[0]!r} is given in {what} already")

    def _make(self, input: IterateInput) -> XComArg:
        kwargs = {name: value for name, value in self.kwargs.items() if name != "op_kwargs"}
        if self.is_teardown:
            if input.live() is not None:
                raise TypeError("live(): a teardown begins when other tasks have ended: leave live() out")
            if "trigger_rule" in kwargs:
                raise ValueError("Trigger rule not configurable for teardown tasks.")
            kwargs["trigger_rule"] = TriggerRule.ALL_DONE_SETUP_SUCCESS
        fails_run = kwargs.pop("on_failure_fail_dagrun", self.on_failure_fail_dagrun)
        task_id = _compat.get_unique_task_id(
            kwargs.pop("task_id"), kwargs.get("dag"), kwargs.get("task_group")
        )
        operator = operator_class(input)(
            task_id=task_id,
            work=FunctionSpec(self.function),
            input=input,
            constants=self._constants(),
            **_of_the_iteration(self.options),
            **kwargs,
        )
        operator.is_setup = self.is_setup
        operator.is_teardown = self.is_teardown
        operator.on_failure_fail_dagrun = fails_run
        operator.returns_dag_result = self.returns_dag_result
        if self.function.__doc__ and not operator.doc_md:
            operator.doc_md = self.function.__doc__
        return XComArg(operator)


class IteratePartial:
    """
    What :func:`iterate` makes of ``Operator.partial(...)``.

    :param partial: the operator's class and the arguments that are the same for all items.
    :param options: options of the iteration, and ``resources``.
    """

    def __init__(self, partial: _compat.OperatorPartial, options: Mapping[str, Any]) -> None:
        check_operator(partial.operator_class, partial.kwargs)
        self._partial = partial
        self._options = dict(options)

    def iterate(self, **inputs: Any) -> IterableOperator:
        """
        Run the operator over the cross product of inputs, the last one fastest, as ``.expand()`` does.

        :param inputs: argument of the operator → list, mapping, another task's output, or one value.
        :raises TypeError: for an argument that the operator does not have, or an input that cannot be
            iterated over.
        """
        if not inputs:
            raise TypeError("iterate(): no arguments to iterate over")
        for name, value in inputs.items():
            if not _compat.is_resolvable(value):
                elements_of(name, value)
        _compat.validate_mapping_kwargs(self._partial.operator_class, "partial", dict(inputs))
        for value in inputs["mode"] if isinstance(inputs.get("mode"), (list, tuple)) else ():
            check_operator(self._partial.operator_class, {"mode": value})
        if both := sorted(set(self._partial.kwargs) & set(inputs)):
            raise TypeError(f"iterate(): {both[0]!r} is given in partial() already")
        return self._make(IterateInput(inputs))

    def iterate_kwargs(self, kwargs: Any) -> IterableOperator:
        """
        Run the operator over an input whose items are mappings of arguments.

        :param kwargs: a list of mappings, or another task's output.
        """
        _check_mappings(kwargs)
        for item in kwargs if isinstance(kwargs, (list, tuple)) else ():
            if isinstance(item, Mapping):
                _compat.validate_mapping_kwargs(self._partial.operator_class, "partial", dict(item))
                check_operator(self._partial.operator_class, item)
        return self._make(IterateInput(kwargs, whole=True))

    def _make(self, input: IterateInput) -> IterableOperator:
        given = dict(self._partial.kwargs)
        of_the_task = {
            name: given.pop(name) for name in list(given) if name in _TASK_ARGUMENTS or name in OF_THE_TASK
        }
        constants = {
            name: value for name, value in given.items() if next(references_in(value), None) is not None
        }
        own = {name: value for name, value in given.items() if name not in constants}
        group = of_the_task.get("task_group")
        if group is not None:
            of_the_task["task_id"] = of_the_task["task_id"].removeprefix(group.child_id(""))
        own |= {name: of_the_task[name] for name in _ALSO_OF_ITEMS if name in of_the_task}
        kind = self._partial.operator_class
        return operator_class(input)(
            work=OperatorSpec(kind, own),
            input=input,
            constants=constants,
            **_of_the_iteration(self._options),
            operator_label=getattr(kind, "custom_operator_name", kind.__name__),
            params=self._partial.params or None,
            **{name: value for name, value in of_the_task.items() if name != "params"},
        )


@overload
def iterate(function: _compat.OperatorPartial, /, **options: Any) -> IteratePartial: ...


@overload
def iterate(function: Callable[..., Any], /) -> IterateTask: ...


@overload
def iterate(**options: Any) -> Callable[[Callable[..., Any]], IterateTask]: ...


def iterate(function: Any = None, /, **options: Any) -> Any:
    """
    Make a task that runs a function over many items in one task instance.

    ::

        @iterate(task_concurrency=16, item_retries=3, rate_limit="20/s", resources={"session": open_session})
        async def enrich(order: dict, session) -> dict: ...

        enrich.iterate(order=orders.output)

    Options are those of :class:`~airflow_provider_iteration.iteration.IterateOptions` and
    :class:`~airflow_provider_iteration.iteration.hooks.ItemOptions`, ``resources``, and the arguments of
    ``@task``.

    :param function: a function or a coroutine function.
    :raises TypeError: for an unknown option, or one of a wrong type.
    :raises ValueError: for an option with a wrong value.
    """
    own, others = _split(options)
    if others.pop("multiple_outputs", None):
        raise TypeError("multiple_outputs: an iterated task has one result for each item")
    if isinstance(function, _compat.OperatorPartial):
        # Airflow warns of a partial that was never expanded.
        function._expand_called = True
        check_names(others, own)
    _of_the_iteration(own)
    if isinstance(function, _compat.OperatorPartial):
        return IteratePartial(function, own)

    def decorate(function: Callable[..., Any]) -> IterateTask:
        return IterateTask(
            function=function,
            operator_class=_compat.python_operator(),
            multiple_outputs=False,
            kwargs=dict(others),
            decorator_name="@task.iterate",
            options=own,
        )

    return decorate if function is None else decorate(function)


def _split(arguments: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Part the options of the iteration from the arguments of the task."""
    names = {*IterateOptions.known(), *ItemOptions.known(), _RESOURCES}
    own = {name: value for name, value in arguments.items() if name in names}
    return own, {name: value for name, value in arguments.items() if name not in names}


def _of_the_iteration(options: Mapping[str, Any]) -> dict[str, Any]:
    """Make the operator's arguments of options, which are checked thereby."""
    of_items = {name: value for name, value in options.items() if name in ItemOptions.known()}
    resources = options.get(_RESOURCES) or {}
    check_factories(resources)
    others = {name: value for name, value in options.items() if name not in (*of_items, _RESOURCES)}
    return {
        "options": IterateOptions.parse(**others),
        "item_options": ItemOptions(**of_items),
        "item_resources": resources,
    }


def _check_mappings(kwargs: Any) -> None:
    if _compat.is_resolvable(kwargs):
        return
    if not isinstance(kwargs, (list, tuple)):
        raise TypeError(
            f"iterate_kwargs(): expected a list of mappings or a task's output, got {type(kwargs).__name__}"
        )
    for index, item in enumerate(kwargs):
        if not _compat.is_resolvable(item) and not isinstance(item, Mapping):
            raise TypeError(f"iterate_kwargs(): item {index} is {type(item).__name__}, not a mapping")
