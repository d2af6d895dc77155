# SPDX-License-Identifier: Apache-2.0
"""
A Microsoft Graph for tests: one TLS server is both the authority, which issues tokens, and the API.

Below a version (``/v1.0``, ``/beta``) it has these resources:

* ``/users``: pages by ``@odata.nextLink``; with ``$top`` it gives so many at a time.
* ``/counted``: no links, but ``@odata.count``; paged by ``$skip`` and ``$top``.
* ``/users/delta``: pages, then an ``@odata.deltaLink``; later what has changed.
* ``/content``: bytes. ``/text``: a text. ``/nothing``: 204. ``/moved``: redirects to ``moved``.
* ``/groups/g1/members``: as ``/users``, with ids of its own. Anything else is as ``/users``.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from aiohttp import web

TENANT, CLIENT, SECRET = "tests", "client", "s3cret-of-the-client"
LIFETIME = 3600


@dataclass(frozen=True)
class GraphSettings:
    """
    How the API behaves. Pages are numbered from 0.

    :param pages: number of pages.
    :param items: items on each page.
    :param text: length of the text in each item.
    :param throttle: page -> statuses that it answers, one request each, before it works.
    :param retry_after: ``Retry-After`` of a failure.
    :param fail_for_good: page -> status that it always answers.
    :param revoke: pages whose first request revokes all tokens issued so far.
    :param refusal: status and code with which a token is refused.
    :param foreign: page -> base URL of another host that its next link leads to.
    :param delay: seconds that each page takes.
    :param cycle: page -> page that its next link leads to.
    :param moved: where ``/moved`` redirects to.
    :param lifetime: seconds for which a token is good.
    :param content: what ``/content`` answers.
    """

    pages: int = 3
    items: int = 2
    text: int = 10
    throttle: Mapping[int, Sequence[int]] = field(default_factory=dict)
    retry_after: str | None = None
    fail_for_good: Mapping[int, int] = field(default_factory=dict)
    revoke: frozenset[int] = frozenset()
    refusal: tuple[int, str] = (401, "InvalidAuthenticationToken")
    foreign: Mapping[int, str] = field(default_factory=dict)
    delay: float = 0.0
    cycle: Mapping[int, int] = field(default_factory=dict)
    moved: str = "users"
    lifetime: int = LIFETIME
    content: bytes = b"\x00\x01content"


@dataclass
class SeenRequest:
    """A request that the API saw; those for tokens are counted elsewhere."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes
    began: float
    status: int | None = None


class GraphApi:
    """
    The server in a thread of this process. Use it as a context manager.

    :param tls: context of the server.
    :param settings: how it behaves.
    """

    def __init__(self, tls: ssl.SSLContext, settings: GraphSettings | None = None) -> None:
        self.settings = settings or GraphSettings()
        self.requests: list[SeenRequest] = []
        self.token_requests: list[dict[str, str]] = []
        self.changes: list[dict[str, Any]] = []
        self.oldest_delta = 0
        self._tls = tls
        self._port = 0
        self._good_tokens: dict[str, float] = {}
        self._failures: Counter[int] = Counter()
        self._revoked: set[int] = set()
        self._started = threading.Event()

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), name="graph-api")
        self._thread.start()
        if not self._started.wait(30):
            raise RuntimeError("the Graph API did not start")
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(30)

    @property
    def url(self) -> str:
        """Base URL."""
        return f"https://127.0.0.1:{self._port}"

    def connection(self, **extra: Any) -> dict[str, Any]:
        """Return an Airflow connection to it, as JSON."""
        return {
            "conn_type": "msgraph",
            "schema": "https",
            "host": f"127.0.0.1:{self._port}",
            "login": CLIENT,
            "password": SECRET,
            "extra": {
                "tenant_id": TENANT,
                "authority": f"127.0.0.1:{self._port}",
                "disable_instance_discovery": True,
                "verify": False,
                # Otherwise the authority's, with its port, which Kiota compares with the host alone.
                "allowed_hosts": "127.0.0.1",
                **extra,
            },
        }

    def reset(self, settings: GraphSettings) -> None:
        """Behave in another way from now on, and forget what was."""
        self.settings = settings
        self.requests.clear()
        self.token_requests.clear()
        self.changes.clear()
        self.oldest_delta = 0
        self._failures.clear()
        self._revoked.clear()

    def paths(self) -> list[str]:
        """Return the paths that were asked for, in order, each with its query."""
        return [
            request.path
            + ("?" + "&".join(f"{k}={v}" for k, v in request.query.items()) if request.query else "")
            for request in self.requests
        ]

    def open_connections(self) -> int:
        """Return how many connections are open."""
        return len(self._runner.server.connections) if self._runner.server else 0

    def forget_deltas(self) -> None:
        """Answer 410 to all delta links given so far."""
        self.oldest_delta = len(self.changes) + 1

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        app = web.Application(client_max_size=2**30)
        app.router.add_get("/{tenant}/v2.0/.well-known/openid-configuration", self._discovery)
        app.router.add_post("/{tenant}/oauth2/v2.0/token", self._token)
        app.router.add_route("*", "/{version}/{path:.*}", self._handle)
        self._runner = runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=self._tls)
        await site.start()
        self._port = runner.addresses[0][1]
        self._started.set()
        await self._stop.wait()
        await runner.cleanup()

    async def _discovery(self, request: web.Request) -> web.Response:
        base = f"{self.url}/{request.match_info['tenant']}"
        return web.json_response(
            {
                "issuer": f"{base}/v2.0",
                "authorization_endpoint": f"{base}/oauth2/v2.0/authorize",
                "token_endpoint": f"{base}/oauth2/v2.0/token",
            }
        )

    async def _token(self, request: web.Request) -> web.Response:
        form = {name: str(value) for name, value in (await request.post()).items()}
        self.token_requests.append(form)
        if form.get("client_secret") != SECRET:
            return web.json_response(
                {"error": "invalid_client", "error_description": "AADSTS7000215: Invalid client secret."},
                status=401,
            )
        token = f"token-{len(self.token_requests)}"
        self._good_tokens[token] = time.monotonic() + self.settings.lifetime
        return web.json_response(
            {"token_type": "Bearer", "expires_in": self.settings.lifetime, "access_token": token}
        )

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        seen = SeenRequest(
            request.method,
            request.path,
            dict(request.query),
            request.headers.copy(),
            await request.read(),
            time.monotonic(),
        )
        self.requests.append(seen)
        page = self._page_number(request)
        await asyncio.sleep(self.settings.delay)
        response = self._refusal(seen, page) or self._answer(request, page)
        seen.status = response.status
        return response

    def _page_number(self, request: web.Request) -> int:
        if "$skip" in request.query:
            return int(request.query["$skip"]) // max(self.settings.items, 1)
        return int(request.query.get("$skiptoken", "page-0").partition("-")[2])

    def _refusal(self, seen: SeenRequest, page: int) -> web.Response | None:
        if page in self.settings.revoke and page not in self._revoked:
            self._revoked.add(page)
            self._good_tokens.clear()
        scheme, _, token = seen.headers.get("Authorization", "").partition(" ")
        if scheme != "Bearer" or self._good_tokens.get(token, 0.0) <= time.monotonic():
            return self._failure(*self.settings.refusal)
        if page in self.settings.fail_for_good:
            return self._failure(self.settings.fail_for_good[page], "Broken")
        statuses = self.settings.throttle.get(page, ())
        self._failures[page] += 1
        if self._failures[page] <= len(statuses):
            return self._failure(statuses[self._failures[page] - 1], "TooManyRequests")
        return None

    def _failure(self, status: int, code: str) -> web.Response:
        headers = {"Retry-After": self.settings.retry_after} if self.settings.retry_after else {}
        error = {"error": {"code": code, "message": f"{code}: try again"}}
        return web.json_response(error, status=status, headers=headers)

    def _answer(self, request: web.Request, page: int) -> web.StreamResponse:
        path = request.match_info["path"]
        if path == "content":
            return web.Response(body=self.settings.content, content_type="application/octet-stream")
        if path == "text":
            return web.Response(text="a text")
        if path == "nothing":
            # The stock hook gives the headers then: the same for every request.
            return web.Response(status=204, headers={"Date": "Mon, 30 Nov 2026 00:00:00 GMT"})
        if path == "moved":
            return web.Response(status=302, headers={"Location": self.settings.moved})
        if path.endswith("delta"):
            return self._delta(request, page)
        if path == "counted":
            return self._counted(request)
        prefix = path.split("/")[1] if path.startswith("groups/") else ""
        body = {"@odata.context": f"{self.url}/$metadata#users", "value": self._items(page, prefix)}
        if page + 1 < self.settings.pages:
            body["@odata.nextLink"] = self._link(
                request, page, f"$skiptoken=page-{self.settings.cycle.get(page, page + 1)}"
            )
        return web.json_response(body)

    def _counted(self, request: web.Request) -> web.Response:
        total = self.settings.pages * self.settings.items
        first = int(request.query.get("$skip", 0))
        top = int(request.query.get("$top", self.settings.items))
        items = [make_user(number, self.settings.text) for number in range(first, min(first + top, total))]
        return web.json_response({"@odata.count": total, "value": items})

    def _delta(self, request: web.Request, page: int) -> web.Response:
        if (token := request.query.get("$deltatoken")) is not None:
            since = int(token.partition("-")[2])
            if since < self.oldest_delta:
                return self._failure(410, "syncStateNotFound")
            value = self.changes[since:]
        else:
            value = self._items(page)
            if page + 1 < self.settings.pages:
                link = self._link(request, page, f"$skiptoken=page-{page + 1}")
                return web.json_response({"value": value, "@odata.nextLink": link})
        link = self._link(request, page, f"$deltatoken=change-{max(len(self.changes), self.oldest_delta)}")
        return web.json_response({"value": value, "@odata.deltaLink": link})

    def _items(self, page: int, prefix: str = "") -> list[dict[str, Any]]:
        first = page * self.settings.items
        numbers = range(first, first + self.settings.items)
        return [make_user(number, self.settings.text, prefix) for number in numbers]

    def _link(self, request: web.Request, page: int, query: str) -> str:
        return f"{self.settings.foreign.get(page, self.url)}{request.path}?{query}"


def make_user(number: int, text: int = 10, prefix: str = "") -> dict[str, Any]:
    """Return the item with a number, as the API serves it."""
    return {"id": f"{prefix}u{number}", "displayName": f"User {number}", "notes": "x" * text}


def removed(number: int) -> dict[str, Any]:
    """Return what a delta query says of an item that is gone."""
    return {"id": f"u{number}", "@removed": {"reason": "deleted"}}


def as_json(connection: Mapping[str, Any]) -> str:
    """Return a connection as the text of an environment variable."""
    return json.dumps(dict(connection))
