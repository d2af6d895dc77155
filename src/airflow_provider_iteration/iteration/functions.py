# SPDX-License-Identifier: Apache-2.0
"""A decorated function as what an iteration calls for each item."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from airflow_provider_iteration import _compat
from airflow_provider_iteration.iteration.attempts import Item
from airflow_provider_iteration.iteration.hooks import ItemHooks
from airflow_provider_iteration.iteration.input_field import Data, rendered
from airflow_provider_iteration.iteration.item_context import item_context, set_current
from airflow_provider_iteration.iteration.runner import is_coroutine_function
from airflow_provider_iteration.streams.codec import encode_items

_KEYWORDS = inspect.Parameter.VAR_KEYWORD
_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def check_arguments(function: Callable[..., Any], given: Iterable[str], *, complete: bool) -> None:
    """
    Refuse arguments that a function does not have, before any item runs.

    :param function: the decorated function.
    :param given: names of all arguments that items will have.
    :param complete: whether no item has others.
    :raises TypeError: for a name that the function does not have, or one that is missing.
    """
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise TypeError(f"{function.__name__}() is a generator: a function for items must return its result")
    parameters = inspect.signature(function).parameters
    given = set(given)
    takes_any = any(parameter.kind is _KEYWORDS for parameter in parameters.values())
    if not takes_any and (unknown := sorted(given - set(parameters))):
        raise TypeError(f"{function.__name__}() has no parameter {unknown[0]!r}")
    missing = [
        name
        for name, parameter in parameters.items()
        if parameter.default is inspect.Parameter.empty
        and parameter.kind in _NAMED
        and name not in given
        and name not in _compat.context_keys()
    ]
    if complete and missing:
        raise TypeError(f"{function.__name__}() has no value for its parameter {missing[0]!r}")


class FunctionWork:
    """
    Calls a function with an item's arguments, in the item's context.

    The function is bound once: what is the same for all items is found out beforehand.

    :param function: a function or a coroutine function.
    :param constants: arguments that are the same for all items.
    :param context: context of the task.
    :param render: renders a text that was written in the Dag.
    :param hooks: what else happens around each item.
    :param keep_results: whether results must be such that they can be stored.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        constants: Mapping[str, Any],
        context: Mapping[str, Any],
        *,
        render: Callable[[str], Any],
        hooks: ItemHooks,
        keep_results: bool,
    ) -> None:
        self._hooks = hooks
        self._render = render
        self.is_async = is_coroutine_function(function)
        self._function = function
        self._constants = dict(constants)
        self._context = context
        self._keep_results = keep_results
        parameters = inspect.signature(function).parameters
        self._wants_all = any(parameter.kind is _KEYWORDS for parameter in parameters.values())
        self._wanted = [name for name in parameters if name in context and name not in constants]
        self._parameters = frozenset(parameters)

    def __call__(self, item: Item) -> Any:
        """Call the function for an item; for a coroutine function this returns a coroutine."""
        if self.is_async:
            return self._call_async(item)
        context = item_context(self._context, item.index)
        set_current(context)
        self._hooks.began(item.index, context)
        own = self._own(item)
        arguments = self._arguments(item, own, context)
        label = self._hooks.label(context, own)
        return self._hooks.around(context, label, lambda: self._kept(self._function(**arguments)))

    async def _call_async(self, item: Item) -> Any:
        context = item_context(self._context, item.index)
        set_current(context)
        self._hooks.began(item.index, context)
        own = self._own(item)
        arguments = self._arguments(item, own, context)
        label = self._hooks.label(context, own)
        return await self._hooks.around_async(item, context, label, self._awaited(arguments))

    async def _awaited(self, arguments: Mapping[str, Any]) -> Any:
        return self._kept(await self._function(**arguments))

    def _own(self, item: Item) -> dict[str, Any]:
        return {
            name: value.value if type(value) is Data else rendered(value, self._rendered_text)
            for name, value in item.value.items()
        }

    def _rendered_text(self, text: str) -> Any:
        return self._render(text) if "{" in text else text

    def _arguments(self, item: Item, own: Mapping[str, Any], context: Mapping[str, Any]) -> dict[str, Any]:
        arguments: dict[str, Any] = dict(context) if self._wants_all else {}
        for name in self._wanted:
            arguments[name] = context[name]
        arguments.update(self._constants)
        for name, resource in item.resources.items():
            if name in self._parameters:
                arguments[name] = resource
        arguments.update(own)
        return arguments

    def _kept(self, result: Any) -> Any:
        return checked_result(result) if self._keep_results else result


def checked_result(result: Any) -> Any:
    """
    Return a result that can be stored.

    :param result: what an item returned.
    :raises TypeError: if it is of a type that a stream does not hold; the item then fails.
    """
    try:
        encode_items([result], _compat.to_serde)
    except (TypeError, AttributeError, RecursionError) as error:
        raise TypeError(f"the result cannot be stored: {error}") from None
    return result
