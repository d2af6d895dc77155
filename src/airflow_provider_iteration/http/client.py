# SPDX-License-Identifier: Apache-2.0
"""Fetches the pages of one HTTP API over one session: retries, limits, and where a request may go."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping
from types import SimpleNamespace, TracebackType
from typing import Any, Self

import aiohttp
import requests
import tenacity
import yarl
from airflow.providers.http.exceptions import HttpErrorException
from airflow.providers.http.hooks.http import HttpAsyncHook, SessionConfig
from requests.auth import HTTPDigestAuth

from airflow_provider_iteration import _compat
from airflow_provider_iteration.exceptions import ForeignHostError, LimitExceeded, PageFailed, StoreTimeout
from airflow_provider_iteration.http.preparing import HttpRequest, Preparer, make_auth
from airflow_provider_iteration.http.responses import as_requests
from airflow_provider_iteration.http.retries import PageRetries
from airflow_provider_iteration.http.retrying import Transient, with_retries
from airflow_provider_iteration.http.transport import KeepAlive, TlsContexts, Transport
from airflow_provider_iteration.pagination import HostPolicy, PageRequest
from airflow_provider_iteration.rates import Rate

_EXCERPT_BYTES = 4096
_READ_BYTES = 64 * 1024
_LONGEST_HEADER = 64 * 1024
_RETRIES = PageRetries()
_KEEP_ALIVE = KeepAlive()
_FAILURES = (aiohttp.ClientConnectionError, aiohttp.ClientPayloadError, TimeoutError)


class StatusFailed(PageFailed, HttpErrorException):
    """A page that was refused, for ``retry_args``: also what the stock hook raises then."""


class ConnectionFailed(PageFailed, requests.exceptions.ConnectionError):
    """A page whose connection failed, for ``retry_args``: also what the stock hook raises then."""


class HttpPageClient:
    """
    One session for all pages of a stream. Use it as an asynchronous context manager.

    The connection is looked up once. Cookies are kept from page to page. Redirects are followed only to
    hosts that the connection or ``allowed_hosts`` names, and nothing is sent to any other.

    :param http_conn_id: connection with the base URL, headers and credentials.
    :param request: the operator's own request.
    :param auth_type: class that is made of login and password; None is basic authentication.
    :param retries: what is tried again.
    :param retry_args: arguments of tenacity, in place of ``retries``.
    :param rate_limit: how many requests may start in which time, retries counted.
    :param keep_alive: TCP keep-alive.
    :param allowed_hosts: hosts, besides the connection's, that may see its headers.
    :param max_bytes: how many bytes may be received in all; None is no limit.
    :param received: how many were received before, by an earlier client.
    """

    def __init__(
        self,
        http_conn_id: str,
        request: HttpRequest,
        *,
        auth_type: Any = None,
        retries: PageRetries = _RETRIES,
        retry_args: Mapping[str, Any] | None = None,
        rate_limit: Rate | None = None,
        keep_alive: KeepAlive = _KEEP_ALIVE,
        allowed_hosts: Iterable[str] = (),
        max_bytes: int | None = None,
        received: int = 0,
    ) -> None:
        self._hook = HttpAsyncHook(request.method, http_conn_id, auth_type=_basic)
        self._request = request
        self._auth_type = auth_type
        self._retries = retries
        self._retry_args = retry_args
        self._rate_limit = rate_limit
        self._keep_alive = keep_alive
        self._allowed_hosts = allowed_hosts
        self._max_bytes = max_bytes
        self.received = received

    async def __aenter__(self) -> Self:
        config = await self._connection()
        base_url = await _compat.srv_base_url(self._hook) or config.base_url
        login, password = (None, None) if config.auth is None else (config.auth.login, config.auth.password)
        auth = await asyncio.to_thread(make_auth, self._auth_type, login, password)
        self._hosts = HostPolicy(base_url, self._allowed_hosts)
        self._connection_options = config.extra_options or {}
        self._contexts = TlsContexts()
        self._transport = self._transport_for(self._request)
        session = self._transport.session()
        self._preparer = Preparer(base_url, config.headers or {}, auth, session)
        self._limiter = None if self._rate_limit is None else self._rate_limit.limiter()
        self._session = self._open_session(auth)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._session.close()

    async def fetch(self, request: PageRequest, page: int) -> requests.Response:
        """
        Fetch one page, with retries.

        :param request: how this page differs from the operator's own request.
        :param page: number of the page, from 1, for messages.
        :raises PageFailed: if the API refuses for good, or the retries are used up.
        :raises ForeignHostError: if the request or a redirect leads to another host.
        :raises LimitExceeded: if the body goes beyond ``max_bytes``.
        """
        if self._retry_args is not None:
            return await self._fetch_as_asked(request, page)
        return await with_retries(self._retries, lambda: self._attempt(request, page))

    async def _fetch_as_asked(self, request: PageRequest, page: int) -> requests.Response:
        async def attempt() -> requests.Response:
            try:
                return await self._attempt(request, page)
            except Transient as signal:
                raise _as_stock(signal.failure) from None
            except PageFailed as failure:
                raise _as_stock(failure) from None

        arguments: dict[str, Any] = {"sleep": asyncio.sleep, "reraise": True, **(self._retry_args or {})}
        response: requests.Response = await tenacity.AsyncRetrying(**arguments)(attempt)
        return response

    async def _connection(self) -> SessionConfig:
        seconds = _compat.message_timeout()
        try:
            async with asyncio.timeout(seconds):
                return await self._hook.config()
        except TimeoutError:
            raise StoreTimeout("lookup", f"connection {self._hook.http_conn_id}", seconds) from None

    def _open_session(self, auth: Any) -> aiohttp.ClientSession:
        guard = aiohttp.TraceConfig()
        guard.on_request_redirect.append(self._check_redirect)
        digest = isinstance(auth, HTTPDigestAuth)
        return aiohttp.ClientSession(
            trace_configs=[guard],
            # unsafe: APIs reached by an IP address have cookies too.
            cookie_jar=aiohttp.CookieJar(unsafe=True, quote_cookie=False),
            # Links with long cursors come in headers.
            max_line_size=_LONGEST_HEADER,
            max_field_size=_LONGEST_HEADER,
            connector=aiohttp.TCPConnector(socket_factory=self._keep_alive.make_socket),
            middlewares=[aiohttp.DigestAuthMiddleware(auth.username, auth.password)] if digest else (),
        )

    def _transport_for(self, own: HttpRequest) -> Transport:
        return Transport.of_options({**self._connection_options, **own.extra_options})

    async def _attempt(self, request: PageRequest, page: int) -> requests.Response:
        own = self._request.overridden(request.override)
        # Before anything is made ready: credentials may be asked for on the way.
        self._hosts.check(self._preparer.address(own, request)[0], f"the request for page {page}")
        transport = self._transport if own.extra_options is self._request.extra_options else None
        transport = transport or self._transport_for(own)
        prepared, sending = await asyncio.to_thread(self._made_ready, own, request, transport)
        if self._limiter is not None:
            await self._limiter.acquire()
        try:
            return await self._send(prepared, sending, transport, page)
        except _FAILURES as error:
            failure = PageFailed(page, None, _reason(error))
            raise Transient(failure) if self._retries.covers(None) else failure from None
        except aiohttp.ClientError as error:
            raise PageFailed(page, None, _reason(error)) from None

    def _made_ready(
        self, own: HttpRequest, request: PageRequest, transport: Transport
    ) -> tuple[requests.PreparedRequest, dict[str, Any]]:
        prepared = self._preparer.prepare(own, request)
        return prepared, transport.sending(str(prepared.url), self._contexts)

    async def _send(
        self, prepared: requests.PreparedRequest, sending: dict[str, Any], transport: Transport, page: int
    ) -> requests.Response:
        body = prepared.body.encode() if isinstance(prepared.body, str) else prepared.body
        began = time.monotonic()
        async with self._session.request(
            str(prepared.method),
            yarl.URL(str(prepared.url), encoded=True),
            data=body,
            headers={name: _text(value) for name, value in prepared.headers.items()},
            skip_auto_headers=["Content-Type"],
            **sending,
        ) as response:
            if self._is_refused(response, transport):
                raise await self._refusal(response, page)
            content = await self._receive(response)
            return as_requests(response, content, prepared, time.monotonic() - began)

    def _is_refused(self, response: aiohttp.ClientResponse, transport: Transport) -> bool:
        if response.ok:
            # Such as a 202 for a page that is being made.
            return self._retries.covers(response.status)
        return transport.check_response

    async def _refusal(self, response: aiohttp.ClientResponse, page: int) -> Transient | PageFailed:
        excerpt = await response.content.read(_EXCERPT_BYTES)
        text = excerpt.decode(_known_charset(response), errors="replace")
        failure = PageFailed(page, response.status, response.reason or "", text)
        if self._retries.covers(response.status):
            return Transient(failure, response.headers.get("Retry-After"))
        return failure

    async def _receive(self, response: aiohttp.ClientResponse) -> bytes:
        parts = []
        size = 0
        async for part in response.content.iter_chunked(_READ_BYTES):
            size += len(part)
            if self._max_bytes is not None and self.received + size > self._max_bytes:
                raise LimitExceeded("max_bytes", self._max_bytes)
            parts.append(part)
        self.received += size
        return b"".join(parts)

    async def _check_redirect(
        self,
        session: aiohttp.ClientSession,
        context: SimpleNamespace,
        params: aiohttp.TraceRequestRedirectParams,
    ) -> None:
        headers = params.response.headers
        location = headers.get("Location") or headers.get("URI")
        if location:
            what = f"a redirect from {params.url.host}"
            try:
                target = str(params.url.join(yarl.URL(location)))
            except ValueError:
                raise ForeignHostError(f"{what} leads to what is no URL") from None
            self._hosts.check(target, what)


def _text(value: str | bytes) -> str:
    return value if isinstance(value, str) else value.decode("latin-1")


def _basic(login: str, password: str | None) -> aiohttp.BasicAuth:
    return aiohttp.BasicAuth(login, password or "")


def _as_stock(failure: PageFailed) -> PageFailed:
    kind = ConnectionFailed if failure.status is None else StatusFailed
    return kind(failure.page_number, failure.status, failure.reason, failure.body)


def _known_charset(response: aiohttp.ClientResponse) -> str:
    import codecs

    try:
        return codecs.lookup(response.charset or "utf-8").name
    except LookupError:
        return "utf-8"


def _reason(error: Exception) -> str:
    # Never the error's own text: aiohttp's messages carry whole URLs.
    return f"connection failed ({type(error).__name__})"
