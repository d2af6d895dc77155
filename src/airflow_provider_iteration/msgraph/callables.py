# SPDX-License-Identifier: Apache-2.0
"""The stock Graph operator's callables and serializer, called for one page at a time."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import Callable, Mapping
from typing import Any

from airflow.providers.microsoft.azure.triggers.msgraph import ResponseSerializer

from airflow_provider_iteration import _compat
from airflow_provider_iteration.exceptions import PaginationError
from airflow_provider_iteration.http.callables import call_in_context, resolve_callable
from airflow_provider_iteration.pagination import PageRequest


class GraphCallables:
    """
    Calls what a user gave, in a thread, or on the loop where it is a coroutine function.

    :param event_handler: gets the event that the stock trigger would send, and returns the page in it.
    :param result_processor: makes of a page what is streamed.
    :param pagination_function: says after a page what to ask for next.
    :param serializer: class, or its import path, that makes JSON of a response.
    :param operator: what ``pagination_function`` gets for its operator.
    :param context: what callables may ask for by name.
    """

    def __init__(
        self,
        event_handler: Callable[..., Any] | str | None,
        result_processor: Callable[..., Any] | str | None,
        pagination_function: Callable[..., Any] | str | None,
        serializer: type[ResponseSerializer] | str,
        operator: Any,
        context: Mapping[str, Any],
    ) -> None:
        self._event_handler = resolve_callable("event_handler", event_handler)
        self._result_processor = resolve_callable("result_processor", result_processor)
        self._pagination_function = resolve_callable("pagination_function", pagination_function)
        kind = _compat.import_string(serializer) if isinstance(serializer, str) else serializer
        self._serializer: Any = kind()
        self._operator = operator
        self._context = context

    @property
    def follows(self) -> bool:
        """Whether there is a ``pagination_function``."""
        return self._pagination_function is not None

    async def page(self, value: Any) -> Any:
        """
        Make of what came what the stock operator has after its trigger and its ``event_handler``.

        :param value: what the hook returns.
        :return: the page; what is false, such as None, ends the paging.
        """
        if self._event_handler is None:
            if not value:
                return None
            return await asyncio.to_thread(self._round_trip, value)
        text = await asyncio.to_thread(self._serializer.serialize, value) if value else None
        kind = f"{type(value).__module__}.{type(value).__name__}" if value else None
        return await self._handled({"status": "success", "type": kind, "response": text})

    async def failure(self, error: Exception) -> Any:
        """
        Let ``event_handler`` deal with a page that failed; what it returns is the last page.

        :param error: the failure, which is raised again where there is no handler.
        """
        if self._event_handler is None:
            raise error
        return await self._handled({"status": "failure", "message": str(error)})

    async def result(self, page: Any) -> Any:
        """Return what ``result_processor`` makes of a page."""
        if self._result_processor is None:
            return page
        return await call_in_context("result_processor", self._result_processor, (page,), self._context)

    async def following(self, page: Any, url: str, query: Mapping[str, Any]) -> PageRequest | None:
        """
        Ask ``pagination_function`` what comes after a page.

        :param page: the page.
        :param url: URL of the operator's own request.
        :param query: query parameters that the page was asked for with.
        :raises PaginationError: if it did not return a URL and query parameters.
        """
        assert self._pagination_function is not None
        if not isinstance(page, dict):
            return None
        operator = copy.copy(self._operator)
        operator.url, operator.query_parameters = url, copy.deepcopy(dict(query)) or None
        answer = await call_in_context(
            "pagination_function", self._pagination_function, (operator, page), self._context
        )
        return _checked_request(answer)

    async def _handled(self, event: dict[str, Any]) -> Any:
        assert self._event_handler is not None
        answer = await call_in_context("event_handler", self._event_handler, (event,), self._context)
        return await asyncio.to_thread(self._serializer.deserialize, answer) if answer else None

    def _round_trip(self, value: Any) -> Any:
        is_stock = type(self._serializer) is ResponseSerializer
        if is_stock and type(value) in (dict, list):
            return value
        text = self._serializer.serialize(value)
        # The stock operator reads base64 of digits alone as a number.
        return text if is_stock and isinstance(value, bytes) else self._serializer.deserialize(text)


def _checked_request(answer: Any) -> PageRequest | None:
    what = "pagination_function: expected a URL and query parameters (a mapping or None), "
    try:
        url, query = answer
    except (TypeError, ValueError):
        raise PaginationError(f"{what}got {type(answer).__name__}") from None
    if not url:
        return None
    if not isinstance(url, str) or not (query is None or isinstance(query, Mapping)):
        raise PaginationError(f"{what}got {type(url).__name__} and {type(query).__name__}")
    try:
        plain = json.loads(json.dumps({"url": url, "query_parameters": query}, allow_nan=False))
    except (TypeError, ValueError):
        raise PaginationError(
            "pagination_function: what it returned is not plain JSON, so that a restarted triggerer could "
            "not go on"
        ) from None
    return PageRequest(override=plain)
