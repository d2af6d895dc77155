# SPDX-License-Identifier: Apache-2.0
"""Pages through an HTTP API in one run of a trigger."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any

import aiohttp
import msgspec
from airflow.providers.http.hooks.http import HttpAsyncHook

from airflow_provider_iteration import _compat
from airflow_provider_iteration.exceptions import PageFailed, PaginationError
from airflow_provider_iteration.pagination import (
    PageRequest,
    PageState,
    PageView,
    Paginator,
    Progress,
    SinglePage,
    dump_paginator,
    items_at,
    load_paginator,
)
from airflow_provider_iteration.pagination.paths import compile_path
from airflow_provider_iteration.streams.events import Page
from airflow_provider_iteration.streams.options import StreamOptions
from airflow_provider_iteration.triggers.http_client import HttpPageClient, HttpRequest, HttpResponse
from airflow_provider_iteration.triggers.streaming import StreamingTrigger

DEFAULT_PAGE_RETRIES = 3


class HttpStreamingTrigger(StreamingTrigger):
    """
    Pages through an HTTP API, over one session, and streams the pages or their items.

    :param http_conn_id: connection with the base URL and the credentials.
    :param auth_type: import path of the class that is made of login and password; None is basic auth.
    :param method: HTTP method.
    :param endpoint: path below the connection's base URL.
    :param headers: headers of every request.
    :param data: query parameters of a GET request, otherwise the body.
    :param extra_options: options of aiohttp's request; ``json`` is a JSON body.
    :param paginator: how the next page is asked for: a spec or its dict; None is one page.
    :param items_path: JMESPath of the list of items in a page; None streams whole pages.
    :param page_retries: how often one page is asked for again after 429, 5xx and connection errors.
    :param allowed_hosts: hosts, besides the connection's, that next links and redirects may lead to.
        They are sent the connection's headers.
    :param stream: as for :class:`~.streaming.StreamingTrigger`.
    """

    def __init__(
        self,
        *,
        http_conn_id: str = "http_default",
        auth_type: str | None = None,
        method: str = "POST",
        endpoint: str | None = None,
        headers: dict[str, str] | None = None,
        data: dict[str, Any] | str | None = None,
        extra_options: dict[str, Any] | None = None,
        paginator: Paginator | Mapping[str, Any] | None = None,
        items_path: str | None = None,
        page_retries: int = DEFAULT_PAGE_RETRIES,
        allowed_hosts: Sequence[str] = (),
        stream: StreamOptions | Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(stream=stream)
        self.http_conn_id = http_conn_id
        self.auth_type = auth_type
        self.method = method.upper()
        self.endpoint = endpoint
        self.headers = headers
        self.data = data
        self.extra_options = extra_options
        self.paginator = SinglePage() if paginator is None else load_paginator(paginator)
        self.items_path = items_path
        if items_path is not None:
            compile_path("items_path", items_path)
        self.page_retries = _checked_retries(page_retries)
        self.allowed_hosts = tuple(allowed_hosts)

    def arguments(self) -> dict[str, Any]:
        return {
            "http_conn_id": self.http_conn_id,
            "auth_type": self.auth_type,
            "method": self.method,
            "endpoint": self.endpoint,
            "headers": self.headers,
            "data": self.data,
            "extra_options": self.extra_options,
            "paginator": dump_paginator(self.paginator),
            "items_path": self.items_path,
            "page_retries": self.page_retries,
            "allowed_hosts": list(self.allowed_hosts),
        }

    async def pages(self, cursor: Any) -> AsyncGenerator[Page, None]:
        walk, received = self._begin(cursor)
        request = HttpRequest(
            self.method, self.endpoint, self.data, self.headers or {}, self.extra_options or {}
        )
        client = HttpPageClient(
            self._hook(),
            request,
            retries=self.page_retries,
            allowed_hosts=self.allowed_hosts,
            max_bytes=self.stream_options.max_bytes,
            received=received,
        )
        async with client:
            while walk.request is not None:
                number = walk.progress.pages + 1
                response = await client.fetch(walk.request, number)
                payload, view = self._read(response, number)
                page = Page(payload, many=self.items_path is not None, size=len(response.body))
                try:
                    walk.advance(view)
                except PaginationError:
                    # The page is good, only what follows it is not: keep it.
                    yield page
                    raise
                yield msgspec.structs.replace(
                    page, cursor=_cursor(walk, client.received), last=walk.request is None
                )

    def _begin(self, cursor: Any) -> tuple[PageState, int]:
        if cursor is None:
            return PageState(self.paginator), 0
        request = msgspec.convert(cursor["request"], PageRequest)
        return PageState(self.paginator, request, Progress(cursor["pages"], cursor["items"])), cursor["bytes"]

    def _hook(self) -> HttpAsyncHook:
        auth_type = aiohttp.BasicAuth if self.auth_type is None else _compat.import_string(self.auth_type)
        return HttpAsyncHook(self.method, self.http_conn_id, auth_type=auth_type)

    def _read(self, response: HttpResponse, number: int) -> tuple[Any, PageView]:
        needs_json = self.items_path is not None or self.paginator != SinglePage()
        payload = _decoded(response, number, needs_json)
        view = PageView(response.url, payload, response.headers, 1, response.status)
        if self.items_path is None:
            return payload, view
        items = items_at(self.items_path, payload, number)
        return items, msgspec.structs.replace(view, items=len(items))


def _cursor(walk: PageState, received: int) -> dict[str, Any] | None:
    if walk.request is None:
        return None
    return {
        "request": msgspec.to_builtins(walk.request),
        "pages": walk.progress.pages,
        "items": walk.progress.items,
        "bytes": received,
    }


def _decoded(response: HttpResponse, number: int, needs_json: bool) -> Any:
    if needs_json or response.content_type.endswith(("/json", "+json")):
        try:
            return _load_json(response.body)
        except ValueError:
            if needs_json:
                raise PageFailed(
                    number,
                    response.status,
                    f"the body is not JSON: {len(response.body)} bytes of {response.content_type}",
                ) from None
    if response.content_type.startswith("text/") or response.charset:
        try:
            return response.body.decode(response.charset or "utf-8")
        except (UnicodeDecodeError, LookupError):
            return response.body
    return response.body


def _load_json(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except msgspec.DecodeError:
        # NaN, lone surrogates, numbers beyond a double: not valid, yet APIs send them.
        return json.loads(body)


def _checked_retries(value: Any) -> int:
    if type(value) is not int:
        raise TypeError(f"page_retries: expected a whole number, got {type(value).__name__}")
    if value < 0:
        raise ValueError(f"page_retries: expected 0 or more, got {value}")
    return value
