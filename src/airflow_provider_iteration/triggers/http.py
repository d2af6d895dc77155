# SPDX-License-Identifier: Apache-2.0
"""Pages through an HTTP API in one run of a trigger."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import Any

import msgspec
import requests

from airflow_provider_iteration import _compat
from airflow_provider_iteration.exceptions import PageFailed
from airflow_provider_iteration.http.callables import PageCallables, check_callable
from airflow_provider_iteration.http.client import HttpPageClient
from airflow_provider_iteration.http.preparing import HttpRequest
from airflow_provider_iteration.http.responses import media_type
from airflow_provider_iteration.http.retries import (
    DEFAULT_PAGE_RETRIES,
    IDEMPOTENT_METHODS,
    PageRetries,
    PageRetriesLike,
)
from airflow_provider_iteration.http.transport import KeepAlive
from airflow_provider_iteration.pagination import (
    PageRequest,
    PageState,
    PageView,
    Paginator,
    Progress,
    SinglePage,
    check_items_known,
    checked_hosts,
    dump_paginator,
    items_at,
    load_paginator,
)
from airflow_provider_iteration.pagination.paths import compile_path
from airflow_provider_iteration.pagination.request import digest_of
from airflow_provider_iteration.rates import Rate
from airflow_provider_iteration.streams.events import Page
from airflow_provider_iteration.streams.options import StreamOptions
from airflow_provider_iteration.triggers.events import StreamingEventTrigger
from airflow_provider_iteration.triggers.streaming import StreamingTrigger

LOGGED_CHARACTERS = 10_000
SOURCE_ARGUMENTS = frozenset({"http_conn_id", "method", "endpoint", "data", "paginator", "items_path"})
"""What says which items there are: a watcher that is given others begins anew."""


class HttpStreamingTrigger(StreamingTrigger):
    """
    Pages through an HTTP API, over one session, and streams the pages or their items.

    :param http_conn_id: connection with the base URL and the credentials.
    :param auth_type: import path of the class that is made of login and password; None is basic auth.
    :param method: HTTP method.
    :param endpoint: path below the connection's base URL.
    :param headers: headers of every request.
    :param data: query parameters of a GET request, otherwise the body.
    :param extra_options: options of the stock hook, such as ``timeout``, ``verify`` and ``proxies``, and
        ``json``, ``params`` and ``cookies`` of the request.
    :param paginator: how the next page is asked for: a spec or its dict; None is one page.
    :param items_path: JMESPath of the list of items in a page; None streams whole pages.
    :param response_check: import path of a function that says of a response whether it is good.
    :param response_filter: import path of a function that makes of a response what is streamed.
    :param pagination_function: import path of a function that says after a response what to ask for next,
        as for the stock operator; instead of ``paginator``.
    :param log_response: whether the text of each page is logged, at most 10,000 characters of it.
    :param page_retries: how often one page is asked for again after 429, 5xx and connection errors, or
        a :class:`~airflow_provider_iteration.http.retries.PageRetries`, or its dict.
    :param retry_args: arguments of tenacity instead of ``page_retries``; only where the loop runs on a
        worker.
    :param rate_limit: how many requests may start in which time, such as ``"20/s"``.
    :param allowed_hosts: hosts, besides the connection's, that next links and redirects may lead to.
        They are sent the connection's headers.
    :param keep_alive: TCP keep-alive: whether, idle seconds, count, interval in seconds.
    :param warn_on_non_idempotent: whether it is logged that a method may be sent twice that should not.
    :param stream: as for :class:`~.streaming.StreamingTrigger`.
    """

    def __init__(
        self,
        *,
        http_conn_id: str = "http_default",
        auth_type: Any = None,
        method: str = "POST",
        endpoint: str | None = None,
        headers: dict[str, str] | None = None,
        data: dict[str, Any] | str | None = None,
        extra_options: dict[str, Any] | None = None,
        paginator: Paginator | Mapping[str, Any] | None = None,
        items_path: str | None = None,
        response_check: Callable[..., Any] | str | None = None,
        response_filter: Callable[..., Any] | str | None = None,
        pagination_function: Callable[..., Any] | str | None = None,
        log_response: bool = False,
        page_retries: PageRetriesLike = DEFAULT_PAGE_RETRIES,
        retry_args: Mapping[str, Any] | None = None,
        rate_limit: str | None = None,
        allowed_hosts: Sequence[str] = (),
        keep_alive: Sequence[Any] = (),
        warn_on_non_idempotent: bool = True,
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
        self.response_check = response_check
        self.response_filter = response_filter
        self.pagination_function = pagination_function
        self.log_response = log_response
        self.page_retries = PageRetries.load(page_retries)
        self.retry_args = retry_args
        self.rate_limit = rate_limit
        self.allowed_hosts = checked_hosts(allowed_hosts)
        self.keep_alive = KeepAlive(*keep_alive)
        self.warn_on_non_idempotent = warn_on_non_idempotent
        self.context: Mapping[str, Any] | None = None
        self._check_arguments()

    def _check_arguments(self) -> None:
        check_items_known(self.paginator, self.items_path)
        if self.items_path is not None:
            compile_path("items_path", self.items_path)
        for name in ("response_check", "response_filter", "pagination_function"):
            check_callable(name, getattr(self, name))
        if self.pagination_function is not None and not isinstance(self.paginator, SinglePage):
            raise ValueError("pagination_function: give either it or paginator, not both")
        if self.rate_limit is not None:
            Rate.parse("rate_limit", self.rate_limit)

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
            "response_check": self.response_check,
            "response_filter": self.response_filter,
            "pagination_function": self.pagination_function,
            "log_response": self.log_response,
            "page_retries": self.page_retries.dump(),
            "retry_args": self.retry_args,
            "rate_limit": self.rate_limit,
            "allowed_hosts": list(self.allowed_hosts),
            "keep_alive": list(self.keep_alive),
            "warn_on_non_idempotent": self.warn_on_non_idempotent,
        }

    async def pages(self, cursor: Any) -> AsyncGenerator[Page, None]:
        walk, received = self._begin(cursor)
        callables = PageCallables(
            self.response_check, self.response_filter, self.pagination_function, self._context()
        )
        if cursor is None:
            self._warn_of_repetitions()
        async with self._client(received) as client:
            while walk.request is not None:
                number = walk.progress.pages + 1
                response = await client.fetch(walk.request, number)
                page, view = await self._read(response, number, callables)
                try:
                    if callables.follows:
                        walk.advance_to(view, await _following(callables, response, number))
                    else:
                        walk.advance(view)
                    if (doubt := walk.doubt(view)) is not None:
                        self.log.warning("%s", doubt)
                except Exception:
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

    def _client(self, received: int) -> HttpPageClient:
        auth_type = self.auth_type
        return HttpPageClient(
            self.http_conn_id,
            HttpRequest(self.method, self.endpoint, self.data, self.headers or {}, self.extra_options or {}),
            auth_type=_compat.import_string(auth_type) if isinstance(auth_type, str) else auth_type,
            retries=self.page_retries,
            retry_args=self.retry_args,
            rate_limit=None if self.rate_limit is None else Rate.parse("rate_limit", self.rate_limit),
            keep_alive=self.keep_alive,
            allowed_hosts=self.allowed_hosts,
            max_bytes=self.stream_options.max_bytes,
            received=received,
        )

    def _context(self) -> Mapping[str, Any]:
        if self.context is not None:
            return self.context
        instance = self._task_instance_or_raise()
        return {"ti": instance, "task_instance": instance, "run_id": instance.run_id}

    def _warn_of_repetitions(self) -> None:
        if self.warn_on_non_idempotent and self.method not in IDEMPOTENT_METHODS:
            self.log.warning(
                "A %s request may be sent twice: by page_retries, and when the triggerer restarts. If that "
                "does no harm here, as for a search, say warn_on_non_idempotent=False",
                self.method,
            )

    async def _read(
        self, response: requests.Response, number: int, callables: PageCallables
    ) -> tuple[Page, PageView]:
        if self.log_response:
            self.log.info("Page %d: %s", number, response.text[:LOGGED_CHARACTERS])
        await callables.check(response, number)
        many = self.items_path is not None
        needs_json = self.paginator.needs_json or (many and not callables.filters)
        body = _decoded(response, number, needs_json)
        payload = await callables.filter(response) if callables.filters else body
        if many and body is None and not callables.filters:
            payload = []
        elif self.items_path is not None:
            payload = items_at(self.items_path, payload, number)
        view = PageView(
            str(response.url),
            body,
            {name.lower(): value for name, value in response.headers.items()},
            len(payload) if many else 1,
            response.status_code,
            digest_of(response.content) if self.paginator.needs_stop else None,
        )
        return Page(payload, many=many, size=len(response.content)), view


class HttpStreamingEventTrigger(StreamingEventTrigger):
    """
    Watches an HTTP API for an asset: every new item of it becomes one event.

    The API is paged through to its end, again and again; it must list the oldest items first. Where the
    last page leads no further, it is asked for again, and what has been appended to it is new.

    A whole page is an event where ``items_path`` is None, and a page that has changed is one again: with
    the default paginator, every change of a resource.

    The other parameters are those of :class:`HttpStreamingTrigger`.

    :param poll_interval: seconds from the end of one walk over the pages to the next one.
    :param max_unrecorded: how many events may be on their way into the database.
    :param max_event_bytes: an event that is larger than this, as JSON, is an error.
    :param skip_existing: whether the items that are there at the very first start make no events.
    """

    def __init__(
        self,
        *,
        http_conn_id: str = "http_default",
        auth_type: Any = None,
        method: str = "GET",
        endpoint: str | None = None,
        headers: dict[str, str] | None = None,
        data: dict[str, Any] | str | None = None,
        extra_options: dict[str, Any] | None = None,
        paginator: Paginator | Mapping[str, Any] | None = None,
        items_path: str | None = None,
        response_check: str | None = None,
        response_filter: str | None = None,
        page_retries: PageRetriesLike = DEFAULT_PAGE_RETRIES,
        rate_limit: str | None = None,
        allowed_hosts: Sequence[str] = (),
        keep_alive: Sequence[Any] = (),
        warn_on_non_idempotent: bool = True,
        poll_interval: float = 60.0,
        max_unrecorded: int = 100,
        max_event_bytes: int = 256 * 1024,
        skip_existing: bool = False,
    ) -> None:
        super().__init__(
            poll_interval=poll_interval,
            max_unrecorded=max_unrecorded,
            max_event_bytes=max_event_bytes,
            skip_existing=skip_existing,
        )
        _check_import_path("auth_type", auth_type)
        _check_import_path("response_check", response_check)
        _check_import_path("response_filter", response_filter)
        self._source = HttpStreamingTrigger(
            http_conn_id=http_conn_id,
            auth_type=auth_type,
            method=method,
            endpoint=endpoint,
            headers=headers,
            data=data,
            extra_options=extra_options,
            paginator=paginator,
            items_path=items_path,
            response_check=response_check,
            response_filter=response_filter,
            page_retries=page_retries,
            rate_limit=rate_limit,
            allowed_hosts=allowed_hosts,
            keep_alive=keep_alive,
            warn_on_non_idempotent=warn_on_non_idempotent,
        )
        # There is no task, and so nothing of its context for response_check and response_filter.
        self._source.context = {}

    def arguments(self) -> dict[str, Any]:
        of_tasks = {"log_response", "pagination_function", "retry_args"}
        return {name: value for name, value in self._source.arguments().items() if name not in of_tasks}

    def identity(self) -> dict[str, Any]:
        return {name: value for name, value in self.arguments().items() if name in SOURCE_ARGUMENTS}

    def pages(self, cursor: Any) -> AsyncGenerator[Page, None]:
        return self._source.pages(cursor)


def _check_import_path(name: str, value: Any) -> None:
    if value is not None and not isinstance(value, str):
        raise TypeError(
            f"{name}: a watcher runs in the triggerer, to which no {type(value).__name__} can be sent: give "
            "its import path"
        )


async def _following(
    callables: PageCallables, response: requests.Response, number: int
) -> PageRequest | None:
    override = await callables.following(response, number)
    return None if override is None else PageRequest(override=override)


def _cursor(walk: PageState, received: int) -> dict[str, Any] | None:
    if walk.request is None:
        return None
    return {
        "request": msgspec.to_builtins(walk.request),
        "pages": walk.progress.pages,
        "items": walk.progress.items,
        "bytes": received,
    }


def _decoded(response: requests.Response, number: int, needs_json: bool) -> Any:
    kind = media_type(response)
    if needs_json and not response.content:
        # What an API answers beyond its last page, with 204 for one.
        return None
    if needs_json or kind.endswith(("/json", "+json")):
        try:
            return _load_json(response)
        except ValueError:
            if needs_json:
                raise PageFailed(
                    number,
                    response.status_code,
                    f"the body is not JSON: {len(response.content)} bytes of {kind}",
                ) from None
    charset = response.encoding if "charset" in response.headers.get("Content-Type", "").lower() else None
    if kind.startswith("text/") or charset:
        try:
            return response.content.decode(charset or "utf-8")
        except (UnicodeDecodeError, LookupError):
            return response.content
    return response.content


def _load_json(response: requests.Response) -> Any:
    body = response.content
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        # NaN, lone surrogates, numbers beyond a double: not valid, yet APIs send them.
        try:
            return json.loads(body)
        except UnicodeDecodeError:
            # Nor is a character set of its own, which some declare.
            return json.loads(body.decode(response.encoding or "utf-8"))
