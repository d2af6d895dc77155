# SPDX-License-Identifier: Apache-2.0
"""The stock operator's callables, called for one page at a time."""

from __future__ import annotations

import asyncio
import inspect
import json
import re
from collections.abc import Callable, Mapping
from typing import Any

import requests

from airflow_provider_iteration import _compat
from airflow_provider_iteration.exceptions import PageFailed, PaginationError

_IMPORT_PATH = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+")
_OVERRIDES = ("endpoint", "data", "headers", "extra_options")


def check_callable(argument_name: str, value: Any) -> None:
    """
    Refuse what can be called neither here nor elsewhere.

    :param argument_name: the argument to name in the error.
    :param value: None, a callable, or an import path.
    :raises TypeError: if it is anything else.
    :raises ValueError: if it is a text that is no import path.
    """
    if value is None or callable(value):
        return
    if not isinstance(value, str):
        raise TypeError(
            f"{argument_name}: expected an import path such as 'shop.pages.check', or a callable, "
            f"got {type(value).__name__}"
        )
    if not _IMPORT_PATH.fullmatch(value):
        raise ValueError(
            f"{argument_name}: expected an import path such as 'shop.pages.check', got {value!r}"
        )


class PageCallables:
    """
    Calls what a user gave, in a thread, or on the loop where it is a coroutine function.

    Each callable gets the response, and those names of the context that it asks for.

    :param check: ``response_check``.
    :param filter: ``response_filter``.
    :param following: ``pagination_function``.
    :param context: what callables may ask for by name.
    """

    def __init__(
        self,
        check: Callable[..., Any] | str | None,
        filter: Callable[..., Any] | str | None,
        following: Callable[..., Any] | str | None,
        context: Mapping[str, Any],
    ) -> None:
        self._check = resolve_callable("response_check", check)
        self._filter = resolve_callable("response_filter", filter)
        self._following = resolve_callable("pagination_function", following)
        self._context = context

    @property
    def filters(self) -> bool:
        """Whether there is a ``response_filter``."""
        return self._filter is not None

    @property
    def follows(self) -> bool:
        """Whether there is a ``pagination_function``."""
        return self._following is not None

    async def check(self, response: requests.Response, page: int) -> None:
        """
        Ask ``response_check`` about a page.

        :raises PageFailed: if it says no.
        """
        if self._check is None:
            return
        if not await self._call("response_check", self._check, response):
            raise PageFailed(page, response.status_code, "response_check returned False")

    async def filter(self, response: requests.Response) -> Any:
        """Return what ``response_filter`` makes of a page."""
        assert self._filter is not None
        return await self._call("response_filter", self._filter, response)

    async def following(self, response: requests.Response, page: int) -> dict[str, Any] | None:
        """
        Ask ``pagination_function`` what comes after a page.

        :return: what to lay over the operator's own request, as plain JSON; None at the end.
        :raises PaginationError: if it returned anything else.
        """
        assert self._following is not None
        # The stock operator calls it with the response alone.
        answer = await call(self._following, (response,), {})
        return _checked_override(answer, page) if answer else None

    async def _call(self, name: str, function: Callable[..., Any], response: requests.Response) -> Any:
        return await call_in_context(name, function, (response,), self._context)


def resolve_callable(name: str, value: Callable[..., Any] | str | None) -> Callable[..., Any] | None:
    """
    Import what is given as an import path.

    :param name: the argument to name in the error.
    :param value: None, a callable, or an import path.
    :raises PaginationError: if it cannot be imported here.
    """
    if not isinstance(value, str):
        return value
    try:
        found: Callable[..., Any] = _compat.import_string(value)
    except ImportError as error:
        raise PaginationError(
            f"{name}: {value!r} cannot be imported ({error}): the module must be in an installed package or "
            "the plugins folder, of the triggerer too"
        ) from None
    return found


async def call_in_context(
    name: str, function: Callable[..., Any], args: tuple[Any, ...], context: Mapping[str, Any]
) -> Any:
    """
    Call a function with those names of a context that it asks for.

    :param name: the argument to name in the error.
    :param function: what to call.
    :param args: what it gets by position.
    :param context: what it may ask for by name.
    :raises PaginationError: if it asks for a name that is not there.
    """
    wanted = _compat.determine_kwargs(function, args, context)
    missing = _missing_names(function, len(args), wanted)
    if missing:
        known = ", ".join(sorted(context))
        raise PaginationError(
            f"{name}: it asks for {missing[0]!r}, which there is not where the pages are fetched; there "
            f"is {known}. Give the function itself, not its import path, to have it called on a worker"
        )
    return await call(function, args, wanted)


async def call(function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """Call in a thread, or on the loop where it is a coroutine function."""
    if inspect.iscoroutinefunction(function):
        return await function(*args, **kwargs)
    return await asyncio.to_thread(function, *args, **kwargs)


def _missing_names(function: Callable[..., Any], positional: int, given: Mapping[str, Any]) -> list[str]:
    try:
        parameters = list(inspect.signature(function).parameters.values())[positional:]
    except ValueError:
        return []
    optional = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [
        parameter.name
        for parameter in parameters
        if parameter.default is inspect.Parameter.empty
        and parameter.kind not in optional
        and parameter.name not in given
    ]


def _checked_override(answer: Any, page: int) -> dict[str, Any]:
    what = f"pagination_function: what it returned after page {page}"
    if not isinstance(answer, Mapping):
        raise PaginationError(f"{what} is {type(answer).__name__}, not a mapping with any of {_OVERRIDES}")
    if unknown := [key for key in answer if key not in _OVERRIDES]:
        raise PaginationError(f"{what} has the key {unknown[0]!r}; the keys are {_OVERRIDES}")
    try:
        override: dict[str, Any] = json.loads(json.dumps(answer, allow_nan=False))
    except (TypeError, ValueError):
        raise PaginationError(
            f"{what} is not plain JSON, so that a restarted triggerer could not go on"
        ) from None
    return override
