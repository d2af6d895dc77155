# SPDX-License-Identifier: Apache-2.0
"""Pages through Microsoft Graph in one run of a trigger. Needs the extra ``msgraph``."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import msgspec
from airflow.providers.microsoft.azure.hooks.msgraph import KiotaRequestAdapterHook
from airflow.providers.microsoft.azure.triggers.msgraph import ResponseSerializer

from airflow_provider_iteration import _compat
from airflow_provider_iteration.exceptions import PageFailed
from airflow_provider_iteration.http.callables import check_callable
from airflow_provider_iteration.http.retries import (
    DEFAULT_PAGE_RETRIES,
    IDEMPOTENT_METHODS,
    PageRetries,
    PageRetriesLike,
)
from airflow_provider_iteration.msgraph.callables import GraphCallables
from airflow_provider_iteration.msgraph.client import GraphAnswer, GraphPageClient, GraphRequest
from airflow_provider_iteration.msgraph.delta import DeltaRecord, DeltaRecords
from airflow_provider_iteration.msgraph.paging import DELTA_LINK, ODataPaging
from airflow_provider_iteration.pagination import (
    PageRequest,
    PageState,
    PageView,
    Paginator,
    Progress,
    check_items_known,
    checked_hosts,
    dump_paginator,
    items_at,
    load_paginator,
)
from airflow_provider_iteration.pagination.loading import is_importable
from airflow_provider_iteration.pagination.paths import compile_path
from airflow_provider_iteration.pagination.request import digest_of
from airflow_provider_iteration.rates import Rate
from airflow_provider_iteration.streams.events import Page
from airflow_provider_iteration.streams.options import StreamOptions
from airflow_provider_iteration.triggers.streaming import StreamingTrigger
from airflow_provider_iteration.xcom.iterable import XComIterable

GONE = 410
RESULT_KEY = "return_value"


class MSGraphStreamingTrigger(StreamingTrigger):
    """
    Pages through Microsoft Graph, over one Kiota adapter, and streams the pages or their items.

    :param url: path below the connection's base URL.
    :param response_type: what Kiota makes of the response, such as ``"bytes"``; None is JSON.
    :param path_parameters: values for the places in ``url``.
    :param url_template: as of the stock trigger, which makes no use of it.
    :param method: HTTP method.
    :param query_parameters: query parameters.
    :param headers: headers of every request.
    :param data: the body of every request.
    :param conn_id: connection of Microsoft Graph.
    :param timeout: seconds that a request may take; None is no limit.
    :param proxies: proxies instead of the connection's.
    :param scopes: scopes of the token.
    :param api_version: version of the API, such as ``"beta"``.
    :param serializer: class, or its import path, that makes JSON of a response.
    :param paginator: how the next page is asked for: a spec or its dict; None pages as OData does.
    :param items_path: JMESPath of the list of items in a page, such as ``"value"``; None streams pages.
    :param pagination_function: import path of a function that says after a page what to ask for next, as
        for the stock operator; instead of ``paginator``.
    :param result_processor: import path of a function that makes of a page what is streamed.
    :param event_handler: import path of a function that gets the stock trigger's event for each page.
    :param delta: whether to go on from the delta link of an earlier Dag run, and keep one.
    :param delta_link: delta link to go on from.
    :param key: XCom key that gets the reference too.
    :param page_retries: how often one page is asked for again after 429, 5xx and connection errors, or
        a :class:`~airflow_provider_iteration.http.retries.PageRetries`, or its dict.
    :param rate_limit: how many requests may start in which time, such as ``"20/s"``.
    :param allowed_hosts: hosts, besides the connection's, that next links and redirects may lead to.
    :param warn_on_non_idempotent: whether it is logged that a method may be sent twice that should not.
    :param stream: as for :class:`~.streaming.StreamingTrigger`.
    """

    def __init__(
        self,
        *,
        url: str,
        response_type: str | None = None,
        path_parameters: dict[str, Any] | None = None,
        url_template: str | None = None,
        method: str = "GET",
        query_parameters: dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
        data: Any = None,
        conn_id: str = KiotaRequestAdapterHook.default_conn_name,
        timeout: float | None = None,
        proxies: dict[str, Any] | None = None,
        scopes: str | list[str] | None = None,
        api_version: Any = None,
        serializer: type[ResponseSerializer] | str = ResponseSerializer,
        paginator: Paginator | Mapping[str, Any] | None = None,
        items_path: str | None = None,
        pagination_function: Callable[..., Any] | str | None = None,
        result_processor: Callable[..., Any] | str | None = None,
        event_handler: Callable[..., Any] | str | None = None,
        delta: bool = False,
        delta_link: str | None = None,
        key: str = RESULT_KEY,
        page_retries: PageRetriesLike = DEFAULT_PAGE_RETRIES,
        rate_limit: str | None = None,
        allowed_hosts: Sequence[str] = (),
        warn_on_non_idempotent: bool = True,
        stream: StreamOptions | Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(stream=stream)
        self.url = url
        self.response_type = response_type
        self.path_parameters = path_parameters
        self.url_template = url_template
        self.method = method
        self.query_parameters = query_parameters
        self.headers = headers
        self.data = data
        self.conn_id = conn_id
        self.timeout = timeout
        self.proxies = proxies
        self.scopes = scopes
        self.api_version = KiotaRequestAdapterHook.resolve_api_version_from_value(api_version)
        self.serializer = _sent_class(serializer)
        self.paginator = None if paginator is None else load_paginator(paginator)
        self.items_path = items_path
        self.pagination_function = pagination_function
        self.result_processor = result_processor
        self.event_handler = event_handler
        self.delta = delta
        self.delta_link = delta_link
        self.key = key
        self.page_retries = PageRetries.load(page_retries)
        self.rate_limit = rate_limit
        self.allowed_hosts = checked_hosts(allowed_hosts)
        self.warn_on_non_idempotent = warn_on_non_idempotent
        self.context: Mapping[str, Any] | None = None
        self.operator: Any = None
        self._check_arguments()

    def __repr__(self) -> str:
        # Airflow's has all arguments, and some of them are links with tokens.
        return f"<{type(self).__module__}.{type(self).__qualname__}>"

    def _check_arguments(self) -> None:
        if self.paginator is not None:
            check_items_known(self.paginator, self.items_path)
        if self.items_path is not None:
            compile_path("items_path", self.items_path)
        for name in ("pagination_function", "result_processor", "event_handler"):
            check_callable(name, getattr(self, name))
        if self.pagination_function is not None and self.paginator is not None:
            raise ValueError("pagination_function: give either it or paginator, not both")
        if not isinstance(self.delta, bool):
            raise TypeError(f"delta: expected True or False, got {type(self.delta).__name__}")
        if self.delta and self.response_type is not None:
            raise ValueError("delta: a delta query answers JSON, so leave response_type out")
        if self.rate_limit is not None:
            Rate.parse("rate_limit", self.rate_limit)

    def arguments(self) -> dict[str, Any]:
        return {
            "url": self.url,
            "response_type": self.response_type,
            "path_parameters": self.path_parameters,
            "url_template": self.url_template,
            "method": self.method,
            "query_parameters": self.query_parameters,
            "headers": self.headers,
            "data": self.data,
            "conn_id": self.conn_id,
            "timeout": self.timeout,
            "proxies": self.proxies,
            "scopes": self.scopes,
            "api_version": self.api_version,
            "serializer": self.serializer,
            "paginator": None if self.paginator is None else dump_paginator(self.paginator),
            "items_path": self.items_path,
            "pagination_function": self.pagination_function,
            "result_processor": self.result_processor,
            "event_handler": self.event_handler,
            "delta": self.delta,
            "delta_link": self.delta_link,
            "key": self.key,
            "page_retries": self.page_retries.dump(),
            "rate_limit": self.rate_limit,
            "allowed_hosts": list(self.allowed_hosts),
            "warn_on_non_idempotent": self.warn_on_non_idempotent,
        }

    async def stream(self) -> XComIterable:
        reference = await super().stream()
        if self.key != RESULT_KEY:
            await self._store().set(self.key, reference)
        return reference

    async def pages(self, cursor: Any) -> AsyncGenerator[Page, None]:
        walk, received, newest = self._begin(cursor)
        callables = self._callables()
        if cursor is None:
            self._warn_of_repetitions()
        if cursor is None and self._is_delta():
            newest = await self._records().begin()
            walk = await self._gone_on_from(newest, walk)
        async with self._client(received) as client:
            while walk.request is not None:
                number = walk.progress.pages + 1
                try:
                    answer, walk = await self._fetch(client, walk)
                except PageFailed as failure:
                    if left := await callables.failure(failure):
                        yield await self._page(left, callables, number)
                    return
                value = await callables.page(answer.value)
                if not value:
                    return
                page = await self._page(value, callables, number, answer.size)
                try:
                    await self._advance(walk, value, page, answer, callables)
                except Exception:
                    # The page is good, only what follows it is not: keep it.
                    yield page
                    raise
                last = walk.request is None
                if last and self._is_delta():
                    await self._keep_delta_link(value, newest)
                yield msgspec.structs.replace(page, cursor=_cursor(walk, client.received, newest), last=last)

    async def _fetch(self, client: GraphPageClient, walk: PageState) -> tuple[GraphAnswer, PageState]:
        """Fetch the next page; where a delta link has expired, the first one of a new walk."""
        number = walk.progress.pages + 1
        assert walk.request is not None
        try:
            return await client.fetch(walk.request, number), walk
        except PageFailed as failure:
            begins_with_link = self._is_delta() and number == 1 and walk.request.url is not None
            if not begins_with_link or failure.status != GONE:
                raise
        self.log.warning("The delta link has expired (HTTP 410): everything is fetched")
        walk = PageState(walk.paginator)
        assert walk.request is not None
        return await client.fetch(walk.request, number), walk

    def _begin(self, cursor: Any) -> tuple[PageState, int, DeltaRecord | None]:
        paginator = self.paginator or ODataPaging.of_query(self.query_parameters)
        if cursor is None:
            return PageState(paginator), 0, None
        request = msgspec.convert(cursor["request"], PageRequest)
        walk = PageState(paginator, request, Progress(cursor["pages"], cursor["items"]))
        return walk, cursor["bytes"], msgspec.convert(cursor["newest"], DeltaRecord | None)

    def _client(self, received: int) -> GraphPageClient:
        return GraphPageClient(
            {
                "conn_id": self.conn_id,
                "timeout": self.timeout,
                "proxies": self.proxies,
                "scopes": self.scopes,
                "api_version": self.api_version,
            },
            GraphRequest(
                self.url,
                self.method,
                self.path_parameters,
                self.query_parameters,
                self.headers,
                self.data,
                self.response_type,
            ),
            retries=self.page_retries,
            rate_limit=None if self.rate_limit is None else Rate.parse("rate_limit", self.rate_limit),
            allowed_hosts=self.allowed_hosts,
            max_bytes=self.stream_options.max_bytes,
            received=received,
        )

    def _callables(self) -> GraphCallables:
        context = self.context
        if context is None:
            instance = self._task_instance_or_raise()
            context = {"ti": instance, "task_instance": instance, "run_id": instance.run_id}
        operator = self.operator
        if operator is None:
            own = self.arguments()
            operator = SimpleNamespace(**{name: own[name] for name in _OF_THE_REQUEST}, log=self.log)
        return GraphCallables(
            self.event_handler,
            self.result_processor,
            self.pagination_function,
            self.serializer,
            operator,
            context,
        )

    def _warn_of_repetitions(self) -> None:
        if self.warn_on_non_idempotent and self.method.strip().upper() not in IDEMPOTENT_METHODS:
            self.log.warning(
                "A %s request may be sent twice: by page_retries, and when the triggerer restarts. If that "
                "does no harm here, as for a search, say warn_on_non_idempotent=False",
                self.method,
            )

    async def _page(self, value: Any, callables: GraphCallables, number: int, size: int = 0) -> Page:
        result = await callables.result(value)
        if self.items_path is not None:
            return Page(items_at(self.items_path, result, number), many=True, size=size)
        # As the stock operator gathers results: a list adds its items.
        return Page(result, many=isinstance(result, list), size=size)

    async def _advance(
        self, walk: PageState, value: Any, page: Page, answer: GraphAnswer, callables: GraphCallables
    ) -> None:
        asked = walk.request
        assert asked is not None
        view = PageView(
            answer.url,
            value,
            answer.headers,
            len(page.elements()),
            answer.status,
            digest_of(answer.content) if walk.paginator.needs_stop else None,
        )
        if callables.follows:
            override = asked.override or {"url": self.url, "query_parameters": self.query_parameters}
            query = override["query_parameters"] or {}
            walk.advance_to(view, await callables.following(value, self.url, query))
        else:
            walk.advance(view)
        if (doubt := walk.doubt(view)) is not None:
            self.log.warning("%s", doubt)

    def _is_delta(self) -> bool:
        return self.delta or self.delta_link is not None

    def _records(self) -> DeltaRecords:
        return DeltaRecords(self._place(), _compat.message_timeout())

    async def _gone_on_from(self, newest: DeltaRecord | None, walk: PageState) -> PageState:
        link = self.delta_link
        if not link and (base := await self._records().base(newest)) is not None:
            link = base.link
        return PageState(walk.paginator, PageRequest(url=link, exact=True)) if link else walk

    async def _keep_delta_link(self, value: Any, newest: DeltaRecord | None) -> None:
        link = value.get(DELTA_LINK) if isinstance(value, dict) else None
        if isinstance(link, str) and link:
            await self._records().keep(link, newest)
        else:
            self.log.warning(
                "The last page has no delta link, so that the next run cannot go on from here: is the URL "
                "that of a delta query, such as users/delta?"
            )


_OF_THE_REQUEST = (
    "url",
    "response_type",
    "path_parameters",
    "url_template",
    "method",
    "query_parameters",
    "headers",
    "data",
    "conn_id",
    "timeout",
    "proxies",
    "scopes",
    "api_version",
)


def _sent_class(kind: type | str) -> type | str:
    """Give the import path of a class; one that has none, as of a Dag file, stays what it is."""
    if isinstance(kind, str) or not is_importable(kind):
        return kind
    return f"{kind.__module__}.{kind.__qualname__}"


def _cursor(walk: PageState, received: int, newest: DeltaRecord | None) -> dict[str, Any] | None:
    if walk.request is None:
        return None
    return {
        "request": msgspec.to_builtins(walk.request),
        "pages": walk.progress.pages,
        "items": walk.progress.items,
        "bytes": received,
        "newest": msgspec.to_builtins(newest),
    }
