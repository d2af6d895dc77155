# SPDX-License-Identifier: Apache-2.0
"""
A real paged HTTP API, as large, slow and unreliable as a test wants it.

Styles of paging, by path: ``/cursor`` (a token in the body), ``/next-link`` (a link in the body),
``/link-header``, ``/offset`` (``offset`` and ``limit``), ``/page`` (``page`` from 1), and ``/single``.
Parameters are taken from the query, a JSON body, or headers. Items are numbered through:
``{"id": 0, "name": "item 0", "text": "..."}``.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import ssl
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self
from urllib.parse import parse_qsl

from aiohttp import BasicAuth, web

COOKIE = "session"
REALM = "shop"
DIGEST = f'Digest realm="{REALM}", nonce="abc", qop="auth", algorithm=MD5'
OF_CLIENTS = ("Host", "Accept-Encoding", "Connection", "Content-Length", "Authorization")
PATHS = ("/cursor", "/next-link", "/link-header", "/offset", "/page", "/single")


@dataclass(frozen=True)
class ApiSettings:
    """
    How the API behaves. Pages are numbered from 0.

    :param pages: number of pages.
    :param items: items on each page.
    :param text: length of the text in each item; 50 makes items of about 100 bytes.
    :param delay: seconds that each page takes.
    :param fail: page -> statuses that it answers, one request each, before it works.
    :param fail_for_good: page -> status that it always answers, with a JSON body that says why.
    :param retry_after: ``Retry-After`` of a failure: seconds or a date.
    :param drop: pages whose first request is cut off without an answer.
    :param cookies: whether later pages need the cookie that the first one sets.
    :param cycle: page -> page that its next cursor leads back to.
    :param foreign: page -> base URL of another host that its next link leads to.
    :param redirect: page -> URL that it redirects to.
    :param bodies: page -> body that it answers instead of its own: bytes, or anything for JSON.
    :param content_type: media type of ``bodies`` that are bytes.
    :param charset: character set that is declared for them.
    :param login: user and password that requests must have.
    :param digest: whether they are asked for as digest authentication (RFC 7616).
    :param short: how many items the last page lacks.
    :param endless: whether pages beyond the last one are the last one again.
    :param headers: headers of every page; a name may come twice.
    :param links: page -> target of the next link in its ``Link`` header.
    :param echo: whether a page tells what was sent for it.
    """

    pages: int = 10
    items: int = 10
    text: int = 50
    delay: float = 0.0
    fail: Mapping[int, Sequence[int]] = field(default_factory=dict)
    fail_for_good: Mapping[int, int] = field(default_factory=dict)
    retry_after: str | None = None
    drop: frozenset[int] = frozenset()
    cookies: bool = False
    cycle: Mapping[int, int] = field(default_factory=dict)
    foreign: Mapping[int, str] = field(default_factory=dict)
    redirect: Mapping[int, str] = field(default_factory=dict)
    bodies: Mapping[int, Any] = field(default_factory=dict)
    content_type: str = "application/octet-stream"
    charset: str | None = None
    login: tuple[str, str] | None = None
    digest: bool = False
    short: int = 0
    endless: bool = False
    headers: Sequence[tuple[str, str]] = ()
    links: Mapping[int, str] = field(default_factory=dict)
    echo: bool = False

    @property
    def total(self) -> int:
        """Number of items in all."""
        return self.pages * self.items - self.short


@dataclass
class SeenRequest:
    """
    A request that the API saw.

    ``client`` is its connection's other end; ``ended`` and ``status`` stay None while it is being answered.
    """

    method: str
    path: str
    query: str
    page: int
    headers: Mapping[str, str]
    body: bytes
    parameters: Mapping[str, Any]
    client: Any
    began: float
    ended: float | None = None
    status: int | None = None
    client_left: bool = False


class PagedApi:
    """
    The API in a thread of this process. Use it as a context manager.

    :param settings: how it behaves.
    :param port: port of the loopback address; 0 takes a free one.
    :param tls: serves HTTPS with this context.
    """

    def __init__(
        self, settings: ApiSettings | None = None, *, port: int = 0, tls: ssl.SSLContext | None = None
    ) -> None:
        self.settings = settings or ApiSettings()
        self.requests: list[SeenRequest] = []
        self._port = port
        self._tls = tls
        self._failures: Counter[int] = Counter()
        self._held: dict[int, threading.Event] = {}
        self._arrived: dict[int, threading.Event] = {}
        self._started = threading.Event()

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), name="paged-api")
        self._thread.start()
        if not self._started.wait(30):
            raise RuntimeError("the paged API did not start")
        return self

    def __exit__(self, *exc_info: object) -> None:
        for page in list(self._held):
            self.release(page)
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(30)

    @property
    def url(self) -> str:
        """Base URL."""
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self._port}"

    def reset(self, settings: ApiSettings) -> None:
        """Behave in another way from now on, and forget what was."""
        self.settings = settings
        self.requests.clear()
        self._failures.clear()

    def asked(self) -> list[int]:
        """Return the numbers of the pages that were asked for, in order."""
        return [request.page for request in self.requests]

    def hold(self, page: int) -> None:
        """Keep requests for a page waiting until it is released."""
        self._held[page] = threading.Event()
        self._arrived[page] = threading.Event()

    def wait_held(self, page: int, seconds: float = 60.0) -> None:
        """Wait until a request for a held page has come."""
        if not self._arrived[page].wait(seconds):
            raise TimeoutError(f"no request for page {page} came within {seconds:g} s")

    def release(self, page: int) -> None:
        """Answer requests for a page again."""
        self._held.pop(page).set()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        app = web.Application(client_max_size=2**30)
        for path in PATHS:
            app.router.add_route("*", path, self._handle)
        runner = web.AppRunner(app, handler_cancellation=True, access_log=None, shutdown_timeout=1.0)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", self._port, ssl_context=self._tls)
        await site.start()
        self._port = runner.addresses[0][1]
        self._started.set()
        await self._stop.wait()
        await runner.cleanup()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        parameters = _parameters(request, body)
        page = _page_of(request.path, parameters, self.settings.items)
        if self.settings.endless:
            page = min(page, self.settings.pages - 1)
        seen = SeenRequest(
            request.method,
            request.path,
            request.query_string,
            page,
            dict(request.headers),
            body,
            parameters,
            request.transport and request.transport.get_extra_info("peername"),
            time.monotonic(),
        )
        self.requests.append(seen)
        try:
            response = await self._answer(request, seen)
        except asyncio.CancelledError:
            seen.client_left = True
            raise
        finally:
            seen.ended = time.monotonic()
        seen.status = response.status
        return response

    async def _answer(self, request: web.Request, seen: SeenRequest) -> web.StreamResponse:
        page = seen.page
        await self._wait_released(page)
        if self.settings.delay:
            await asyncio.sleep(self.settings.delay)
        return self._refusal(request, page) or self._page(request, seen)

    async def _wait_released(self, page: int) -> None:
        if (gate := self._held.get(page)) is not None:
            self._arrived[page].set()
            # A thread of its own would outlive the request that a client gives up.
            while not gate.is_set():  # noqa: ASYNC110
                await asyncio.sleep(0.01)

    def _refusal(self, request: web.Request, page: int) -> web.Response | None:
        settings = self.settings
        self._failures[page] += 1
        count = self._failures[page]
        if settings.login and not self._is_known(request):
            asked = {"WWW-Authenticate": DIGEST} if settings.digest else {}
            return web.json_response({"error": "who are you?"}, status=401, headers=asked)
        if page in settings.drop and count == 1 and request.transport is not None:
            request.transport.abort()
        if page in settings.fail_for_good:
            return self._failure(settings.fail_for_good[page], f"page {page} is broken")
        statuses = settings.fail.get(page, ())
        if count <= len(statuses):
            return self._failure(statuses[count - 1], "try again")
        if settings.cookies and page > 0 and COOKIE not in request.cookies:
            return self._failure(403, "no cookie")
        if page in settings.redirect:
            return web.Response(status=302, headers={"Location": settings.redirect[page]})
        return None

    def _is_known(self, request: web.Request) -> bool:
        assert self.settings.login is not None
        given = request.headers.get("Authorization", "")
        if not self.settings.digest:
            return given == BasicAuth(*self.settings.login).encode()
        user, password = self.settings.login
        fields = dict(re.findall(r'(\w+)="?([^",]*)"?', given))
        if fields.get("username") != user:
            return False
        secret = _md5(f"{user}:{REALM}:{password}")
        what = _md5(f"{request.method}:{fields['uri']}")
        steps = (secret, fields["nonce"], fields["nc"], fields["cnonce"], fields["qop"], what)
        return bool(fields["response"] == _md5(":".join(steps)))

    def _failure(self, status: int, why: str) -> web.Response:
        headers = {"Retry-After": self.settings.retry_after} if self.settings.retry_after else {}
        return web.json_response({"error": why}, status=status, headers={**headers, "X-Secret": "s3cret"})

    def _page(self, request: web.Request, seen: SeenRequest) -> web.Response:
        page = seen.page
        response = self._page_response(request, seen)
        for name, value in self.settings.headers:
            response.headers.add(name, value)
        if page in self.settings.links:
            response.headers["Link"] = f'<{self.settings.links[page]}>; rel="next"'
        if self.settings.cookies and page == 0:
            response.set_cookie(COOKIE, "1")
        return response

    def _page_response(self, request: web.Request, seen: SeenRequest) -> web.Response:
        page = seen.page
        if page in self.settings.bodies:
            body = self.settings.bodies[page]
            if isinstance(body, bytes):
                return web.Response(
                    body=body, content_type=self.settings.content_type, charset=self.settings.charset
                )
            return web.json_response(body)
        items = self._items(seen)
        meta: dict[str, Any] = {"total": self.settings.total, "pages": self.settings.pages}
        if request.path == "/next-link":
            return web.json_response({"items": items, "next": self._next_link(request, page), "meta": meta})
        following = self._following(page)
        token = None if following is None else f"after-{following}"
        answer = {"items": items, "meta": {"next": token, **meta, "has_more": token is not None}}
        if self.settings.echo:
            answer["echo"] = _echo(request, seen)
        response = web.json_response(answer)
        if request.path == "/link-header" and following is not None:
            link = self._next_link(request, page)
            response.headers["Link"] = f'</link-header>; rel="first", <{link}>; rel="next"'
        return response

    def _items(self, seen: SeenRequest) -> list[dict[str, Any]]:
        count = self.settings.items
        first = seen.page * count
        if seen.path == "/offset":
            first = int(seen.parameters.get("offset", 0))
            count = min(int(seen.parameters.get("limit", count)), count)
        numbers = range(first, min(first + count, self.settings.total))
        if seen.path in ("/single", "/cursor", "/next-link", "/link-header") and not self.settings.short:
            numbers = range(first, first + count)
        return [make_item(number, self.settings.text) for number in numbers]

    def _following(self, page: int) -> int | None:
        if page in self.settings.cycle:
            return self.settings.cycle[page]
        return page + 1 if page + 1 < self.settings.pages else None

    def _next_link(self, request: web.Request, page: int) -> str | None:
        following = self._following(page)
        if following is None:
            return None
        base = self.settings.foreign.get(page, self.url)
        query = {**request.query, "page": str(following)}
        return f"{base}{request.path}?" + "&".join(f"{name}={value}" for name, value in query.items())


def make_item(number: int, text: int = 50) -> dict[str, Any]:
    """Return the item with a number, as the API serves it."""
    return {"id": number, "name": f"item {number}", "text": "x" * text}


def _echo(request: web.Request, seen: SeenRequest) -> dict[str, Any]:
    """Tell what was sent, but for what any two clients send differently."""
    headers = {name.lower(): value for name, value in request.headers.items() if name not in OF_CLIENTS}
    return {
        "method": request.method,
        "query": sorted(request.query.items()),
        "headers": headers,
        "body": seen.body.decode("latin-1"),
    }


def _parameters(request: web.Request, body: bytes) -> dict[str, Any]:
    """Return what was asked for, wherever it was sent; in a body also below ``variables``."""
    headers = {name.lower().removeprefix("x-"): value for name, value in request.headers.items()}
    sent = json.loads(body) if body[:1] == b"{" else {}
    if request.content_type == "application/x-www-form-urlencoded":
        sent = dict(parse_qsl(body.decode()))
    return {**headers, **sent, **sent.get("variables", {}), **request.query}


def _page_of(path: str, parameters: Mapping[str, Any], count: int) -> int:
    if path == "/offset":
        return int(parameters.get("offset", 0)) // max(min(int(parameters.get("limit", count)), count), 1)
    if path == "/page":
        return int(parameters.get("page", 1)) - 1
    if token := parameters.get("after"):
        return int(str(token).rpartition("-")[2])
    return int(parameters.get("page", 0))


def _md5(text: str) -> str:
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()
