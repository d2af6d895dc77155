# SPDX-License-Identifier: Apache-2.0
"""
A real paged HTTP API, as large, slow and unreliable as a test wants it.

Styles of paging, by path: ``/cursor`` (a token in the body), ``/next-link`` (a link in the body) and
``/single``. Items are numbered through: ``{"id": 0, "name": "item 0", "text": "..."}``.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from aiohttp import BasicAuth, web

COOKIE = "session"


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
    :param login: user and password that requests must have.
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
    login: tuple[str, str] | None = None


@dataclass
class SeenRequest:
    """A request that the API saw; ``ended`` and ``status`` stay None while it is being answered."""

    method: str
    path: str
    query: str
    page: int
    headers: Mapping[str, str]
    body: bytes
    began: float
    ended: float | None = None
    status: int | None = None
    client_left: bool = False


class PagedApi:
    """
    The API in a thread of this process. Use it as a context manager.

    :param settings: how it behaves.
    :param port: port of the loopback address; 0 takes a free one.
    """

    def __init__(self, settings: ApiSettings | None = None, *, port: int = 0) -> None:
        self.settings = settings or ApiSettings()
        self.requests: list[SeenRequest] = []
        self._port = port
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
        return f"http://127.0.0.1:{self._port}"

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
        for path in ("/cursor", "/next-link", "/single"):
            app.router.add_route("*", path, self._handle)
        runner = web.AppRunner(app, handler_cancellation=True, access_log=None, shutdown_timeout=1.0)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", self._port)
        await site.start()
        self._port = runner.addresses[0][1]
        self._started.set()
        await self._stop.wait()
        await runner.cleanup()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        page = _page_of(request, body)
        seen = SeenRequest(
            request.method,
            request.path,
            request.query_string,
            page,
            dict(request.headers),
            body,
            time.monotonic(),
        )
        self.requests.append(seen)
        try:
            response = await self._answer(request, page)
        except asyncio.CancelledError:
            seen.client_left = True
            raise
        finally:
            seen.ended = time.monotonic()
        seen.status = response.status
        return response

    async def _answer(self, request: web.Request, page: int) -> web.StreamResponse:
        await self._wait_released(page)
        if self.settings.delay:
            await asyncio.sleep(self.settings.delay)
        return self._refusal(request, page) or self._page(request, page)

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
        if settings.login and request.headers.get("Authorization") != BasicAuth(*settings.login).encode():
            return web.json_response({"error": "who are you?"}, status=401)
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

    def _failure(self, status: int, why: str) -> web.Response:
        headers = {"Retry-After": self.settings.retry_after} if self.settings.retry_after else {}
        return web.json_response({"error": why}, status=status, headers={**headers, "X-Secret": "s3cret"})

    def _page(self, request: web.Request, page: int) -> web.Response:
        response = self._page_response(request, page)
        if self.settings.cookies and page == 0:
            response.set_cookie(COOKIE, "1")
        return response

    def _page_response(self, request: web.Request, page: int) -> web.Response:
        if page in self.settings.bodies:
            body = self.settings.bodies[page]
            if isinstance(body, bytes):
                return web.Response(body=body, content_type=self.settings.content_type)
            return web.json_response(body)
        count = self.settings.items
        items = [make_item(page * count + index, self.settings.text) for index in range(count)]
        if request.path == "/next-link":
            return web.json_response({"items": items, "next": self._next_link(request, page)})
        following = self._following(page)
        token = None if following is None else f"after-{following}"
        meta = {"next": token, "total": self.settings.pages * count, "has_more": token is not None}
        return web.json_response({"items": items, "meta": meta})

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
        return f"{base}/next-link?" + "&".join(f"{name}={value}" for name, value in query.items())


def make_item(number: int, text: int = 50) -> dict[str, Any]:
    """Return the item with a number, as the API serves it."""
    return {"id": number, "name": f"item {number}", "text": "x" * text}


def _page_of(request: web.Request, body: bytes) -> int:
    token = request.query.get("after")
    if token is None and body[:1] == b"{":
        token = json.loads(body).get("after")
    if token:
        return int(token.rpartition("-")[2])
    return int(request.query.get("page", "0"))
