# SPDX-License-Identifier: Apache-2.0
"""Every option of the stock operator: what it sends and gives, deferred, on the worker, and there."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import aiohttp
import pytest
from airflow.providers.http.operators.http import HttpOperator
from airflow.sdk import BaseHook, Connection
from requests.auth import AuthBase, HTTPBasicAuth, HTTPDigestAuth

from airflow_provider_iteration import _compat
from airflow_provider_iteration.exceptions import PageFailed, PaginationError
from airflow_provider_iteration.operators.http import HttpStreamingOperator
from airflow_provider_iteration.pagination import Cursor
from airflow_provider_iteration.triggers.http import HttpStreamingTrigger
from harness.api import ApiSettings, PagedApi
from harness.tls import TestAuthority
from tests.support.streams import RUN_A, RUN_B
from tests.support.triggers import give_task
from tests.unit.conftest import XComs

ECHO = ApiSettings(pages=3, items=4, echo=True)


class TokenAuth(AuthBase):
    """Credentials that are neither basic nor digest."""

    def __init__(self, login: str = "nobody", password: str = "") -> None:
        self.token = f"{login}:{password}"

    def __call__(self, request: Any) -> Any:
        request.headers["X-Token"] = self.token
        return request


class AnsweringAuth(AuthBase):
    """Credentials that want to see responses."""

    def __init__(self, *args: Any) -> None:
        pass

    def __call__(self, request: Any) -> Any:
        request.register_hook("response", lambda *args, **kwargs: None)
        return request


OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "get with parameters": {"data": {"size": 5, "tag": ["a", "b"], "none": None}},
    "get with text": {"data": "size=5&tag=a&tag=b"},
    "get with odd characters": {"data": {"q": "ä b+c&d=e/f?"}},
    "get with a query in the endpoint": {"endpoint": "cursor?size=5", "data": {"tag": "a"}},
    "endpoint with a slash": {"endpoint": "/cursor"},
    "endpoint with odd characters": {"endpoint": "cursor?q=a%20b&r=c d"},
    "headers": {"headers": {"X-One": "1", "x-two": "zwei"}},
    "headers of the connection": {"connection": {"extra": {"X-Conn": "c", "X-One": "conn"}}},
    "headers over the connection's": {
        "headers": {"X-One": "op"},
        "connection": {"extra": {"X-One": "conn"}},
    },
    "login": {"connection": {"login": "user", "password": "word"}},
    "login without a password": {"connection": {"login": "user"}},
    "basic of requests": {"auth_type": HTTPBasicAuth, "connection": {"login": "user", "password": "ü"}},
    # The stock operator cannot use it on a worker.
    "basic of aiohttp": {
        "auth_type": aiohttp.BasicAuth,
        "connection": {"login": "user", "password": "word"},
        "stock": False,
    },
    "token": {"auth_type": TokenAuth, "connection": {"login": "user", "password": "word"}},
    "token without a login": {"auth_type": TokenAuth},
    "post without a body": {"method": "POST"},
    "post of a form": {"method": "POST", "data": {"a": 1, "b": ["x", "y"], "c": None}},
    "post of text": {"method": "POST", "data": "plain text, ü"},
    "post of JSON as text": {
        "method": "POST",
        "data": json.dumps({"filter": "new"}),
        "headers": {"Content-Type": "application/json"},
    },
    "post of JSON": {"method": "POST", "request_kwargs": {"json": {"filter": ["ä", 1, None]}}},
    "post with parameters": {"method": "POST", "request_kwargs": {"params": {"size": 5}}},
    "put": {"method": "PUT", "data": {"a": "b"}},
    "patch": {"method": "PATCH", "data": {"a": "b"}},
    "delete": {"method": "DELETE", "data": {"a": "b"}},
    "delete without a body": {"method": "DELETE"},
    "lower case": {"method": "get"},
    "cookies": {"request_kwargs": {"cookies": {"flavour": "oat"}}},
    "auth of the request": {"request_kwargs": {"auth": HTTPBasicAuth("other", "one")}},
    "auth of the request as a pair": {"request_kwargs": {"auth": ("other", "one")}},
    "parameters as pairs": {"method": "POST", "request_kwargs": {"params": [("id", 1), ("id", 2)]}},
    "get with text in its own order": {"data": "q=a%20b&x=1,2&flag&q=c"},
    "timeout": {"extra_options": {"timeout": 10}},
    "two timeouts": {"extra_options": {"timeout": (5, 10)}},
    "timeout of the connection": {"connection": {"extra": {"timeout": 10, "X-A": "1"}}},
    "redirects": {"settings": {"redirect": {0: "/single?page=2"}}},
    "redirects of a post": {"method": "POST", "settings": {"redirect": {0: "/single?page=2"}}},
    "no redirects": {
        "extra_options": {"allow_redirects": False},
        # The stock operator gives the text of an empty body of no text type, here it is bytes.
        "stock": False,
        "settings": {"redirect": {0: "/single?page=2"}},
    },
    "unchecked response": {
        "extra_options": {"check_response": False},
        "settings": {"fail_for_good": {0: 404}},
    },
    "unchecked by the connection": {
        "connection": {"extra": {"check_response": False}},
        "settings": {"fail_for_good": {0: 418}},
    },
    "no environment": {"extra_options": {"trust_env": False}},
    "no keep-alive": {"tcp_keep_alive": False},
    "own keep-alive": {"tcp_keep_alive_idle": 30, "tcp_keep_alive_count": 3, "tcp_keep_alive_interval": 5},
    "stream": {"extra_options": {"stream": True}},
    "verification off": {"extra_options": {"verify": False}},
    "logged": {"log_response": True},
}


@pytest.fixture(autouse=True)
def no_listeners(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_compat, "has_task_listeners", lambda: False)


def connect(monkeypatch: pytest.MonkeyPatch, url: str, fields: dict[str, Any]) -> None:
    """Make the connection that the operators under test use."""
    fields = {**fields, "extra": json.dumps(fields["extra"])} if "extra" in fields else fields
    made = Connection(conn_id="shop", conn_type="http", host=url, **fields)
    monkeypatch.setenv("AIRFLOW_CONN_SHOP", made.get_uri())
    assert BaseHook.get_connection("shop").host


def execute_on_worker(operator: HttpStreamingOperator, run: str = RUN_A) -> list[Any]:
    """Execute an operator as a worker does, and return what it streamed."""
    ti: Any = SimpleNamespace(id=run, dag_id="shop", task_id="pages", run_id="r1", map_index=-1)
    operator.deferrable = False
    context: Any = {"ti": ti, "task_instance": ti, "run_id": "r1", "params": {"a": 1}}
    return list(operator.execute(context))


async def stream_as_sent(operator: HttpStreamingOperator) -> list[Any]:
    """Send an operator's trigger through JSON, as a deferral does, and run it."""
    _, arguments = operator.make_trigger({}).serialize()
    trigger = HttpStreamingTrigger(**json.loads(json.dumps(arguments)))
    give_task(trigger, RUN_B)
    return list(await trigger.stream())


@pytest.mark.parametrize("name", OPTIONS)
def test_option_means_the_same_everywhere(name: str, monkeypatch: pytest.MonkeyPatch, xcoms: XComs) -> None:
    """H1, H5: deferred, on the worker, and with the stock operator the same is sent and comes back."""
    arguments = dict(OPTIONS[name])
    compared = arguments.pop("stock", True)
    connection = arguments.pop("connection", {})
    settings = ApiSettings(**{**vars(ECHO), **arguments.pop("settings", {})})
    arguments = {"method": "GET", "endpoint": "cursor", **arguments}
    with PagedApi(settings) as api:
        connect(monkeypatch, api.url, connection)
        operator = HttpStreamingOperator(task_id="pages", http_conn_id="shop", **arguments)
        on_worker = execute_on_worker(operator)
        if list(operator.worker_reasons(operator.make_trigger({}))):
            deferred = on_worker
        else:
            deferred = asyncio.run(stream_as_sent(operator))
        assert deferred == on_worker
        if compared:
            stock = HttpOperator(
                task_id="stock", http_conn_id="shop", deferrable=False, **{"log_response": False, **arguments}
            ).execute({})
            assert on_worker == [_decoded(stock)]


def _decoded(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


async def pages(monkeypatch: pytest.MonkeyPatch, api: PagedApi, **arguments: Any) -> list[Any]:
    connect(monkeypatch, api.url, arguments.pop("connection", {}))
    defaults: dict[str, Any] = {"endpoint": "cursor", "method": "GET", "items_path": "items"}
    trigger = HttpStreamingTrigger(http_conn_id="shop", **{**defaults, **arguments})
    give_task(trigger)
    return list(await trigger.stream())


async def test_digest_authentication(monkeypatch: pytest.MonkeyPatch, xcoms: XComs) -> None:
    """Digest credentials answer the server's question, for every page."""
    with PagedApi(ApiSettings(pages=3, login=("user", "word"), digest=True)) as api:
        items = await pages(
            monkeypatch,
            api,
            auth_type=f"{HTTPDigestAuth.__module__}.HTTPDigestAuth",
            paginator=Cursor("meta.next", "after"),
            connection={"login": "user", "password": "word"},
        )
    assert len(items) == 30


async def test_credentials_that_see_responses_are_refused(
    monkeypatch: pytest.MonkeyPatch, xcoms: XComs
) -> None:
    """What cannot work says so before anything is sent."""
    with PagedApi() as api:
        with pytest.raises(PaginationError, match="auth_type: AnsweringAuth wants to see responses"):
            await pages(monkeypatch, api, auth_type=AnsweringAuth)
        assert api.requests == []


async def test_requests_go_through_a_proxy(monkeypatch: pytest.MonkeyPatch, xcoms: XComs) -> None:
    """A proxy gets the requests, whatever host they are for."""
    with PagedApi(ApiSettings(pages=1)) as proxy:
        made = Connection(conn_id="shop", conn_type="http", host="http://shop.invalid")
        monkeypatch.setenv("AIRFLOW_CONN_SHOP", made.get_uri())
        trigger = HttpStreamingTrigger(
            http_conn_id="shop",
            endpoint="cursor",
            method="GET",
            items_path="items",
            extra_options={"proxies": {"http": proxy.url}},
        )
        give_task(trigger)
        assert len(await trigger.stream()) == 10
        assert proxy.requests[0].headers["Host"] == "shop.invalid"


async def test_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch, xcoms: XComs) -> None:
    """The environment's proxy counts, as for the stock operator on a worker."""
    with PagedApi(ApiSettings(pages=1)) as proxy:
        monkeypatch.setenv("http_proxy", proxy.url)
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        monkeypatch.setenv("AIRFLOW_CONN_SHOP", "http://shop.invalid")
        trigger = HttpStreamingTrigger(
            http_conn_id="shop", endpoint="cursor", method="GET", items_path="items"
        )
        give_task(trigger)
        assert len(await trigger.stream()) == 10


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> TestAuthority:
    return TestAuthority(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def secure_api(authority: TestAuthority) -> Iterator[PagedApi]:
    with PagedApi(ApiSettings(pages=2), tls=authority.server()) as api:
        yield api


async def test_unknown_certificate_is_refused(
    monkeypatch: pytest.MonkeyPatch, xcoms: XComs, secure_api: PagedApi
) -> None:
    """A certificate that nobody vouches for fails the page."""
    with pytest.raises(PageFailed, match="connection failed"):
        await pages(monkeypatch, secure_api, page_retries=0)


@pytest.mark.parametrize("option", ["verify", "verify_ssl"])
async def test_verification_can_be_off(
    monkeypatch: pytest.MonkeyPatch, xcoms: XComs, secure_api: PagedApi, option: str
) -> None:
    """The connection may say that certificates are not verified."""
    items = await pages(monkeypatch, secure_api, connection={"extra": {option: False}})
    assert len(items) == 10


async def test_bundle_of_the_user_vouches(
    monkeypatch: pytest.MonkeyPatch, xcoms: XComs, secure_api: PagedApi, authority: TestAuthority
) -> None:
    """``verify`` may be the path of a bundle."""
    items = await pages(monkeypatch, secure_api, extra_options={"verify": str(authority.bundle)})
    assert len(items) == 10


async def test_bundle_of_the_environment_vouches(
    monkeypatch: pytest.MonkeyPatch, xcoms: XComs, secure_api: PagedApi, authority: TestAuthority
) -> None:
    """REQUESTS_CA_BUNDLE counts, as for the stock operator on a worker."""
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(authority.bundle))
    assert len(await pages(monkeypatch, secure_api)) == 10


async def test_connection_is_kept_from_page_to_page(
    monkeypatch: pytest.MonkeyPatch, xcoms: XComs, authority: TestAuthority
) -> None:
    """All pages go over one connection, TLS with a bundle of the user's included."""
    with PagedApi(ApiSettings(pages=5), tls=authority.server()) as api:
        options = {"verify": str(authority.bundle)}
        await pages(monkeypatch, api, paginator=Cursor("meta.next", "after"), extra_options=options)
    assert len(api.requests) == 5
    assert len({request.client for request in api.requests}) == 1


async def test_client_certificate_is_shown(
    monkeypatch: pytest.MonkeyPatch, xcoms: XComs, authority: TestAuthority
) -> None:
    """``cert`` is what the server sees of the client."""
    certificate: Path = authority.certificate("client")
    options = {"verify": str(authority.bundle), "cert": str(certificate)}
    with PagedApi(ApiSettings(pages=1), tls=authority.server(wants_client=True)) as api:
        items = await pages(monkeypatch, api, extra_options=options)
    assert len(items) == 10


async def test_redirect_from_http_to_https_is_verified_as_asked(
    monkeypatch: pytest.MonkeyPatch, xcoms: XComs, authority: TestAuthority, secure_api: PagedApi
) -> None:
    """A redirect to HTTPS is under the same ``verify``."""
    host = secure_api.url.removeprefix("https://")
    with PagedApi(ApiSettings(redirect={0: f"{secure_api.url}/single?page=1"})) as api:
        items = await pages(
            monkeypatch, api, extra_options={"verify": str(authority.bundle)}, allowed_hosts=[host]
        )
    assert len(items) == 10


async def test_srv_record_names_the_host(monkeypatch: pytest.MonkeyPatch, xcoms: XComs) -> None:
    """A connection with an SRV record asks the record's first target."""

    async def target(hook: Any) -> str:
        return api.url

    with PagedApi(ApiSettings(pages=1)) as api:
        monkeypatch.setattr(_compat, "srv_base_url", target)
        monkeypatch.setenv("AIRFLOW_CONN_SHOP", "http://_http._tcp.shop.invalid")
        trigger = HttpStreamingTrigger(
            http_conn_id="shop", endpoint="cursor", method="GET", items_path="items"
        )
        give_task(trigger)
        assert len(await trigger.stream()) == 10
