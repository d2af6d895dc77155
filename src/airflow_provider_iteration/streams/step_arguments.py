# SPDX-License-Identifier: Apache-2.0
"""The arguments of a pipeline's steps, checked alike when a Dag is parsed and when a task runs."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any

MISSING: Any = type("Missing", (), {"__repr__": lambda self: "nothing"})()
"""Stands for an argument that was not given."""


def function_name(function: Callable[..., Any]) -> str:
    """Return what a function is called."""
    name: str = getattr(function, "__name__", type(function).__name__)
    return name


def check_function(method: str, function: Any) -> None:
    """
    Refuse what is no plain function of one item.

    :param method: ``"map"`` or ``"filter"``, for the error.
    :param function: what was given.
    :raises TypeError: naming the argument and what to do.
    """
    if not callable(function):
        raise TypeError(f"{method}(): f must be a function of one item, got {type(function).__name__}")
    if getattr(function, "_airflow_is_task_decorator", False):
        raise TypeError(f"{method}(): f must be a plain function, not a task: leave out the decorator")
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        raise TypeError(
            f"{method}(): f must not be a coroutine function, {function_name(function)} is one: "
            "run it for each item with iterate()"
        )
    if method == "filter" and inspect.isgeneratorfunction(function):
        raise TypeError(
            f"filter(): f must return true or false, {function_name(function)} is a generator function"
        )


def check_batch_size(size: Any) -> None:
    """
    Refuse a size that no batch can have.

    :param size: what was given to ``batched()``.
    :raises TypeError: if it is no whole number.
    :raises ValueError: if it is less than 1.
    """
    if type(size) is not int:
        raise TypeError(f"batched(): n must be a whole number, got {type(size).__name__}")
    if size < 1:
        raise ValueError(f"batched(): n must be at least 1, got {size}")


def check_others(method: str, others: Sequence[Any]) -> None:
    """
    Refuse to join with nothing, or with what can be read only once.

    :param method: ``"zip"`` or ``"concat"``, for the error.
    :param others: what was given.
    :raises TypeError: naming the argument.
    """
    if not others:
        raise TypeError(f"{method}(): give at least one other stream or task's output")
    for number, other in enumerate(others):
        if isinstance(other, Iterator):
            raise TypeError(
                f"{method}(): argument {number} is an iterator ({type(other).__name__}), which can be read "
                "only once: give a list"
            )


def check_zip(fillvalue: Any, strict: Any) -> None:
    """
    Refuse options of ``zip()`` that exclude each other.

    :param fillvalue: fills up the shorter inputs.
    :param strict: whether shorter inputs are an error.
    :raises TypeError: if ``strict`` is neither True nor False, or both are given.
    """
    if type(strict) is not bool:
        raise TypeError(f"zip(): strict must be True or False, got {type(strict).__name__}")
    if strict and fillvalue is not MISSING:
        raise TypeError("zip(): strict=True leaves nothing to fill: give either it or a fillvalue")
