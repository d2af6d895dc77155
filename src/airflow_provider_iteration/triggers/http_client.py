# SPDX-License-Identifier: Apache-2.0
"""Fetches the pages of one HTTP API over one session: retries, limits, and where a request may go."""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from types import SimpleNamespace, TracebackType
from typing import Any, NamedTuple, Self
from urllib.parse import parse_qsl

import aiohttp
import tenacity
import yarl
from airflow.providers.http.hooks.http import HttpAsyncHook, SessionConfig

from airflow_provider_iteration import _compat
from airflow_provider_iteration.exceptions import LimitExceeded, PageFailed, PaginationError, StoreTimeout
from airflow_provider_iteration.pagination import HostPolicy, PageRequest

TOO_MANY_REQUESTS = 429
LONGEST_WAIT = 300.0
_EXCERPT_BYTES = 4096
_READ_BYTES = 64 * 1024
_FAILURES = (aiohttp.ClientConnectionError, aiohttp.ClientPayloadError, TimeoutError)
_NOT_FOR_AIOHTTP = frozenset({"stream", "cert", "trust_env"})


class HttpRequest(NamedTuple):
    """
    The operator's own request, which each page's request is laid over.

    :param method: HTTP method.
    :param endpoint: path below the connection's base URL.
    :param data: query parameters of a GET request, otherwise the body: form fields or text.
    :param headers: headers on top of the connection's.
    :param extra_options: options of aiohttp's request, such as ``json``, ``timeout`` or ``ssl``.
    """

    method: str
    endpoint: str | None
    data: dict[str, Any] | str | None
    headers: Mapping[str, str]
    extra_options: Mapping[str, Any]


class HttpResponse(NamedTuple):
    """
    What came for one page.

    :param url: absolute URL that answered, after redirects.
    :param status: HTTP status.
    :param headers: header names in lower case; several values of one name are joined by commas.
    :param body: the body, decompressed.
    :param content_type: media type without parameters.
    :param charset: character set that the response names, or None.
    """

    url: str
    status: int
    headers: dict[str, str]
    body: bytes
    content_type: str
    charset: str | None


class _Transient(Exception):
    def __init__(self, failure: PageFailed, wait: float | None = None) -> None:
        super().__init__(failure)
        self.failure = failure
        self.wait = wait


class HttpPageClient:
    """
    One session for all pages of a stream. Use it as an asynchronous context manager.

    The connection is looked up once. Cookies are kept from page to page. Redirects are followed only to
    hosts that the connection or ``allowed_hosts`` names, and nothing is sent to any other.

    :param hook: gives base URL, headers and credentials.
    :param request: the operator's own request.
    :param retries: how often a page is asked for again after 429, 5xx and connection errors.
    :param allowed_hosts: hosts, besides the connection's, that may see its headers.
    :param max_bytes: how many bytes may be received in all; None is no limit.
    :param received: how many were received before, by an earlier client.
    """

    def __init__(
        self,
        hook: HttpAsyncHook,
        request: HttpRequest,
        *,
        retries: int,
        allowed_hosts: Iterable[str] = (),
        max_bytes: int | None = None,
        received: int = 0,
    ) -> None:
        self._hook = hook
        self._request = request
        self._retries = retries
        self._allowed_hosts = allowed_hosts
        self._max_bytes = max_bytes
        self.received = received

    async def __aenter__(self) -> Self:
        self._config = await self._connection()
        self._hosts = HostPolicy(self._config.base_url, self._allowed_hosts)
        self._options = _aiohttp_options(
            {**(self._config.extra_options or {}), **self._request.extra_options}
        )
        guard = aiohttp.TraceConfig()
        guard.on_request_redirect.append(self._check_redirect)
        # unsafe: APIs reached by an IP address have cookies too.
        jar = aiohttp.CookieJar(unsafe=True)
        self._session = aiohttp.ClientSession(trace_configs=[guard], cookie_jar=jar)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._session.close()

    async def fetch(self, request: PageRequest, page: int) -> HttpResponse:
        """
        Fetch one page, with retries.

        :param request: how this page differs from the operator's own request.
        :param page: number of the page, from 1, for messages.
        :raises PageFailed: if the API refuses for good, or the retries are used up.
        :raises ForeignHostError: if the request or a redirect leads to another host.
        :raises LimitExceeded: if the body goes beyond ``max_bytes``.
        """
        retrying = tenacity.AsyncRetrying(
            stop=tenacity.stop_after_attempt(self._retries + 1),
            wait=_wait,
            retry=tenacity.retry_if_exception_type(_Transient),
            sleep=asyncio.sleep,
            reraise=True,
        )
        try:
            return await retrying(self._attempt, request, page)
        except _Transient as signal:
            raise signal.failure from None

    async def _connection(self) -> SessionConfig:
        seconds = _compat.config_float("message_timeout", 60.0)
        try:
            async with asyncio.timeout(seconds):
                return await self._hook.config()
        except TimeoutError:
            raise StoreTimeout("lookup", f"connection {self._hook.http_conn_id}", seconds) from None

    async def _attempt(self, request: PageRequest, page: int) -> HttpResponse:
        arguments = self._arguments(request, page)
        try:
            async with self._session.request(**arguments) as response:
                if self._is_refused(response):
                    raise await self._refusal(response, page)
                return await self._receive(response)
        except _FAILURES as error:
            raise _Transient(PageFailed(page, None, _reason(error))) from None
        except aiohttp.ClientError as error:
            raise PageFailed(page, None, _reason(error)) from None

    def _arguments(self, request: PageRequest, page: int) -> dict[str, Any]:
        own = self._request
        is_get = own.method == "GET"
        query = _query(own.data) if is_get else {}
        url, params = request.address(_join(self._config.base_url, own.endpoint), query)
        self._hosts.check(url, f"the request for page {page}")
        arguments: dict[str, Any] = {
            **self._options,
            "method": own.method,
            "url": url,
            "params": list(_pairs(params)),
            "headers": {**self._connection_headers(), **own.headers, **request.headers},
        }
        if not is_get and own.data:
            arguments["data"] = own.data
        return _with_body(arguments, request.body) if request.body else arguments

    def _connection_headers(self) -> dict[str, str]:
        auth = self._config.auth
        own = {} if auth is None else {"Authorization": auth.encode()}
        return {**own, **(self._config.headers or {})}

    def _is_refused(self, response: aiohttp.ClientResponse) -> bool:
        merged = {**(self._config.extra_options or {}), **self._request.extra_options}
        return not response.ok and bool(merged.get("check_response", True))

    async def _refusal(self, response: aiohttp.ClientResponse, page: int) -> _Transient | PageFailed:
        excerpt = await response.content.read(_EXCERPT_BYTES)
        text = excerpt.decode(response.charset or "utf-8", errors="replace")
        failure = PageFailed(page, response.status, response.reason or "", text)
        if response.status == TOO_MANY_REQUESTS or response.status >= 500:
            return _Transient(failure, _retry_after(response.headers.get("Retry-After")))
        return failure

    async def _receive(self, response: aiohttp.ClientResponse) -> HttpResponse:
        parts = []
        size = 0
        async for part in response.content.iter_chunked(_READ_BYTES):
            size += len(part)
            if self._max_bytes is not None and self.received + size > self._max_bytes:
                raise LimitExceeded("max_bytes", self._max_bytes)
            parts.append(part)
        self.received += size
        return HttpResponse(
            url=str(response.url),
            status=response.status,
            headers=_joined_headers(response),
            body=b"".join(parts),
            content_type=response.content_type,
            charset=response.charset,
        )

    async def _check_redirect(
        self,
        session: aiohttp.ClientSession,
        context: SimpleNamespace,
        params: aiohttp.TraceRequestRedirectParams,
    ) -> None:
        headers = params.response.headers
        location = headers.get("Location") or headers.get("URI")
        if location:
            target = params.url.join(yarl.URL(location))
            self._hosts.check(str(target), f"a redirect from {params.url.host}")


def _joined_headers(response: aiohttp.ClientResponse) -> dict[str, str]:
    headers: dict[str, str] = {}
    for name, value in response.headers.items():
        key = name.lower()
        headers[key] = f"{headers[key]}, {value}" if key in headers else value
    return headers


def _wait(state: tenacity.RetryCallState) -> float:
    """Wait as the API says; otherwise exponentially, with full jitter."""
    error = state.outcome.exception() if state.outcome else None
    if isinstance(error, _Transient) and error.wait is not None:
        return error.wait
    return random.uniform(0.5, 1.0) * min(2.0 ** (state.attempt_number - 1), 60.0)


def _retry_after(value: str | None) -> float | None:
    """Read a Retry-After header: seconds or a date (RFC 9110, 10.2.3)."""
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = (_aware(parsedate_to_datetime(value)) - datetime.now(UTC)).total_seconds()
        except ValueError:
            return None
    return None if math.isnan(seconds) else min(max(seconds, 0.0), LONGEST_WAIT)


def _aware(moment: datetime) -> datetime:
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _reason(error: Exception) -> str:
    # Never the error's own text: aiohttp's messages carry whole URLs.
    return f"connection failed ({type(error).__name__})"


def _join(base_url: str, endpoint: str | None) -> str:
    """Join as the stock HTTP hooks do."""
    if not endpoint:
        return base_url
    separator = "" if base_url.endswith("/") or endpoint.startswith("/") else "/"
    return f"{base_url}{separator}{endpoint}"


def _query(data: Mapping[str, Any] | str | None) -> dict[str, Any]:
    if isinstance(data, str):
        pairs: dict[str, Any] = {}
        for name, value in parse_qsl(data, keep_blank_values=True):
            pairs.setdefault(name, []).append(value)
        return pairs
    return dict(data or {})


def _pairs(params: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    """Write parameters as the stock hook's library does: lists repeated, None left out."""
    for name, value in params.items():
        for member in value if isinstance(value, (list, tuple)) else (value,):
            if member is not None:
                yield str(name), str(member)


def _with_body(arguments: dict[str, Any], fields: Mapping[str, Any]) -> dict[str, Any]:
    place = "json" if "json" in arguments or "data" not in arguments else "data"
    own = arguments.get(place) or {}
    if not isinstance(own, Mapping):
        raise PaginationError(f"the paginator puts a field into the body, but {place} is no mapping")
    return {**arguments, place: {**own, **fields}}


def _aiohttp_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Translate what the stock hooks call options into aiohttp's words."""
    known = {name: value for name, value in options.items() if name not in _NOT_FOR_AIOHTTP}
    known.pop("check_response", None)
    if isinstance(timeout := known.get("timeout"), (int, float)):
        known["timeout"] = aiohttp.ClientTimeout(total=timeout)
    for name in ("verify", "verify_ssl"):
        if (verify := known.pop(name, None)) is not None:
            known.setdefault("ssl", bool(verify))
    proxies = known.pop("proxies", None)
    if isinstance(proxies, Mapping) and proxies:
        known.setdefault("proxy", proxies.get("https") or proxies.get("http"))
    return known
