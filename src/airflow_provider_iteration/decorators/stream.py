# SPDX-License-Identifier: Apache-2.0
"""``@task.stream``: a generator function whose yields become a stream."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeAlias, overload

from airflow_provider_iteration import _compat
from airflow_provider_iteration.operators.generator import GeneratorOperator

__all__ = ["StreamTask", "stream_task"]

StreamTask: TypeAlias = _compat.TaskDecorator[Any, Any, GeneratorOperator]
"""What ``@task.stream`` makes of a function: ``partial``, ``expand`` and ``override`` are as usual."""


@overload
def stream_task(python_callable: Callable[..., Any], /) -> StreamTask: ...


@overload
def stream_task(**kwargs: Any) -> Callable[[Callable[..., Any]], StreamTask]: ...


def stream_task(python_callable: Any = None, /, **kwargs: Any) -> Any:
    """
    Make a task of a generator function; each value that it yields is an item of the task's stream.

    ::

        @task.stream
        def rows(path: str):
            with open(path) as file:
                yield from csv.DictReader(file)

    :param python_callable: a generator function, or an asynchronous one.
    :param kwargs: arguments of ``@task``.
    :raises TypeError: if it is anything else, or for ``multiple_outputs``.
    """
    if kwargs.pop("multiple_outputs", None):
        raise TypeError("multiple_outputs: a stream has one item for each value that is yielded")

    def decorate(function: Callable[..., Any]) -> StreamTask:
        _check_generator(function)
        return _compat.TaskDecorator(
            function=function,
            operator_class=GeneratorOperator,
            multiple_outputs=False,
            kwargs=dict(kwargs),
            decorator_name="@task.stream",
        )

    return decorate if python_callable is None else decorate(python_callable)


def _check_generator(function: Any) -> None:
    inner = inspect.unwrap(function) if callable(function) else function
    if not inspect.isgeneratorfunction(inner) and not inspect.isasyncgenfunction(inner):
        name = getattr(function, "__name__", type(function).__name__)
        raise TypeError(
            f"@task.stream: {name} is no generator function: yield each item, or use @task to return a value"
        )
