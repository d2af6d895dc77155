# SPDX-License-Identifier: Apache-2.0
"""Fetches the pages of one Graph API through Kiota: retries, tokens, and where a request may go."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping
from io import BytesIO
from types import TracebackType
from typing import Any, NamedTuple, Self
from urllib.parse import urlencode

import httpx
import msgspec
from airflow.providers.microsoft.azure.hooks.msgraph import DefaultResponseHandler
from azure.core.exceptions import ClientAuthenticationError, ServiceRequestError, ServiceResponseError
from kiota_abstractions.api_error import APIError
from kiota_abstractions.request_information import RequestInformation
from kiota_abstractions.response_handler import ResponseHandler
from kiota_http.middleware.options.redirect_handler_option import (
    RedirectHandlerOption,
    default_scrub_sensitive_headers,
)
from kiota_http.middleware.options.response_handler_option import ResponseHandlerOption
from kiota_http.middleware.options.retry_handler_option import RetryHandlerOption

from airflow_provider_iteration.exceptions import LimitExceeded, PageFailed, PaginationError, StreamError
from airflow_provider_iteration.http.retries import PageRetries
from airflow_provider_iteration.http.retrying import Transient, with_retries
from airflow_provider_iteration.msgraph.adapters import OwnAdapterHook
from airflow_provider_iteration.pagination import HostPolicy, PageRequest
from airflow_provider_iteration.pagination.request import merge_body, merge_query
from airflow_provider_iteration.rates import Rate

log = logging.getLogger(__name__)

_ABSOLUTE = ("http://", "https://")
_EXPIRED = "TokenExpired"
_BROKEN = (httpx.TransportError, ServiceRequestError, ServiceResponseError)


class GraphRequest(NamedTuple):
    """
    The operator's own request, which each page's request is laid over.

    :param url: path below the connection's base URL, or an absolute URL.
    :param method: HTTP method.
    :param path_parameters: values for the places in ``url``.
    :param query_parameters: query parameters.
    :param headers: headers.
    :param data: the body: a mapping is sent as JSON.
    :param response_type: what Kiota makes of the response, such as ``"bytes"``; None is JSON, or bytes
        where it is none.
    """

    url: str
    method: str = "GET"
    path_parameters: Mapping[str, Any] | None = None
    query_parameters: Mapping[str, Any] | None = None
    headers: Mapping[str, str] | None = None
    data: Any = None
    response_type: str | None = None


class GraphAnswer(NamedTuple):
    """
    What came for one page.

    :param value: what the stock hook would return.
    :param size: bytes of the body.
    :param url: absolute URL that answered.
    :param headers: response headers, their names in lower case.
    :param status: HTTP status.
    :param content: the body.
    """

    value: Any
    size: int
    url: str
    headers: dict[str, str]
    status: int
    content: bytes


class GraphPageClient:
    """
    One adapter for all pages of a stream. Use it as an asynchronous context manager.

    Kiota's own retries are off: waits are not to be doubled. A token that is refused is replaced once for
    each page. Redirects are followed only to hosts that the connection or ``allowed_hosts`` names; to
    another host than the one asked, without the token, as Kiota does.

    :param hook_arguments: ``conn_id``, ``timeout``, ``proxies``, ``scopes`` and ``api_version``.
    :param request: the operator's own request.
    :param retries: what is tried again.
    :param rate_limit: how many requests may start in which time, retries counted.
    :param allowed_hosts: hosts, besides the connection's, that next links and redirects may lead to.
    :param max_bytes: how many bytes may be received in all; None is no limit.
    :param received: how many were received before, by an earlier client.
    """

    def __init__(
        self,
        hook_arguments: Mapping[str, Any],
        request: GraphRequest,
        *,
        retries: PageRetries,
        rate_limit: Rate | None = None,
        allowed_hosts: Iterable[str] = (),
        max_bytes: int | None = None,
        received: int = 0,
    ) -> None:
        self._hook_arguments = hook_arguments
        self._request = request
        self._retries = retries
        self._limiter = None if rate_limit is None else rate_limit.limiter()
        self._allowed_hosts = tuple(allowed_hosts)
        self._max_bytes = max_bytes
        self.received = received

    async def __aenter__(self) -> Self:
        await self._open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._hook.close()

    async def fetch(self, request: PageRequest, page: int) -> GraphAnswer:
        """
        Fetch one page, with retries, and with a new token where the old one is refused.

        :param request: how this page differs from the operator's own request.
        :param page: number of the page, from 1, for messages.
        :raises PageFailed: if the API refuses for good, or the retries are used up.
        :raises ForeignHostError: if the request or a redirect leads to another host.
        :raises LimitExceeded: if the bodies go beyond ``max_bytes``.
        """
        try:
            return await with_retries(self._retries, lambda: self._attempt(request, page))
        except PageFailed as failure:
            if not _is_refused_token(failure):
                raise
        log.info("Page %d: the token was refused; a new one is asked for", page)
        # The credential has no way to forget a token, so it is made anew.
        await self._hook.close()
        await self._open()
        return await with_retries(self._retries, lambda: self._attempt(request, page))

    async def _open(self) -> None:
        self._hook = OwnAdapterHook(**self._hook_arguments)
        try:
            self._adapter = await self._hook.open()
        except BaseException:
            await self._hook.close()
            raise
        # Links have tokens, which traces are not to have.
        self._adapter.observability_options.include_euii_attributes = False
        hosts = (*self._allowed_hosts, *self._hook.connection_hosts)
        self._hosts = HostPolicy(self._adapter.base_url, hosts)

    async def _attempt(self, request: PageRequest, page: int) -> GraphAnswer:
        information = self._information(request, page)
        if self._limiter is not None:
            await self._limiter.acquire()
        try:
            answer = await self._send(information)
        except APIError as error:
            headers = error.response_headers or {}
            raise self._refusal(page, error.response_status_code, error.message or "", headers) from None
        except _Refused as refused:
            response = refused.response
            raise self._refusal(page, response.status_code, response.text, response.headers) from None
        except ClientAuthenticationError as error:
            raise PageFailed(page, error.status_code, "no token was given", error.message) from None
        except _BROKEN as error:
            failure = PageFailed(page, None, f"connection failed ({type(error).__name__})")
            raise (Transient(failure) if self._retries.covers(None) else failure) from None
        except StreamError:
            raise
        except Exception as error:
            # Never its own text: Kiota's and httpx's have whole URLs, with their tokens.
            raise PageFailed(page, None, f"the request failed ({type(error).__name__})") from None
        self.received += answer.size
        if self._max_bytes is not None and self.received > self._max_bytes:
            raise LimitExceeded("max_bytes", self._max_bytes)
        return answer

    def _refusal(
        self, page: int, status: int | None, body: str, headers: Mapping[str, str]
    ) -> PageFailed | Transient:
        failure = PageFailed(page, status, "", body)
        if status is not None and self._retries.covers(status):
            return Transient(failure, headers.get("Retry-After"))
        return failure

    async def _send(self, information: RequestInformation) -> GraphAnswer:
        if (kind := self._request.response_type) is not None:
            errors = self._hook.error_mapping()
            value = await self._adapter.send_primitive_async(information, kind, errors)
            return GraphAnswer(
                value, len(value) if kind in ("bytes", "str") and value else 0, "", {}, 200, b""
            )
        response: httpx.Response = await self._adapter.send_no_response_content_async(information, None)
        return GraphAnswer(
            _value(response),
            len(response.content),
            str(response.url),
            dict(response.headers.items()),
            response.status_code,
            response.content,
        )

    def _information(self, request: PageRequest, page: int) -> RequestInformation:
        own = self._request
        url, query = self._address(request)
        if url.startswith(_ABSOLUTE):
            self._hosts.check(url, f"the request for page {page}")
        information = self._hook.request_information(
            url=url,
            response_type=own.response_type,
            # Copies: Kiota adds to them, and clears them.
            path_parameters=dict(own.path_parameters or {}),
            method=own.method,
            query_parameters=query,
            headers={**(own.headers or {}), **request.headers},
            data=_body(own.data, request.body),
        )
        options: list[Any] = [
            RetryHandlerOption(should_retry=False),
            RedirectHandlerOption(scrub_sensitive_headers=self._check_redirect),
        ]
        if own.response_type is None:
            options.append(ResponseHandlerOption(response_handler=_NativeResponses()))
        information.add_request_options(options)
        return information

    def _address(self, request: PageRequest) -> tuple[str, dict[str, Any]]:
        """Give the URL of a page, and the query parameters that it does not have yet."""
        own_query = dict(self._request.query_parameters or {})
        override = request.override
        if override is not None:
            url: str = override["url"]
            # A link has its parameters in it, as in the stock operator.
            return url, {} if url.startswith(_ABSOLUTE) else override["query_parameters"] or {}
        url = request.url or self._request.url
        if not url.startswith(_ABSOLUTE):
            return url, {**own_query, **request.params}
        if request.url is None:
            url, query = merge_query(url, {**own_query, **request.params})
        else:
            url, query = request.address(url, own_query)
        return _with_query(url, query), {}

    def _check_redirect(self, redirected: httpx.Request, origin: httpx.URL) -> None:
        self._hosts.check(str(redirected.url), f"a redirect from {origin.host}")
        default_scrub_sensitive_headers(redirected, origin)


class _Refused(Exception):
    def __init__(self, response: httpx.Response) -> None:
        super().__init__(response.status_code)
        self.response = response


class _NativeResponses(ResponseHandler):
    """Gives the response as it came."""

    async def handle_response_async(self, response: Any, error_map: Any) -> Any:
        if not response.is_success and response.status_code != 302:
            raise _Refused(response)
        return response


def _value(response: httpx.Response) -> Any:
    try:
        return msgspec.json.decode(response.content)
    except (msgspec.DecodeError, UnicodeDecodeError):
        # No JSON, or what only a lenient parser takes: as the stock hook has it.
        return DefaultResponseHandler.get_value(response)


def _is_refused_token(failure: PageFailed) -> bool:
    return failure.status == 401 or (failure.status == 403 and _EXPIRED in failure.body)


def _body(data: Any, fields: dict[str, Any]) -> Any:
    if isinstance(data, BytesIO):
        # Not read(): it would be empty for the second page.
        data = data.getvalue()
    if not fields:
        return data
    if data is None:
        return fields
    if not isinstance(data, Mapping):
        raise PaginationError("the paginator puts a field into the body, but data is no mapping")
    return merge_body(data, fields)


def _with_query(url: str, query: Mapping[str, Any]) -> str:
    if not query:
        return url
    plain = {name: json.dumps(value) if isinstance(value, bool) else value for name, value in query.items()}
    return f"{url}{'&' if '?' in url else '?'}{urlencode(plain, doseq=True)}"
