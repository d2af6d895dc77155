# SPDX-License-Identifier: Apache-2.0
"""The stock operator's callables: by import path as in a triggerer, and as functions as on a worker."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest
import requests
import tenacity

from airflow_provider_iteration.exceptions import CursorCycleError, PageFailed, PaginationError
from airflow_provider_iteration.http.client import ConnectionFailed, StatusFailed
from airflow_provider_iteration.operators.http import HttpStreamingOperator
from airflow_provider_iteration.pagination import Cursor
from airflow_provider_iteration.triggers.http import HttpStreamingTrigger
from harness.api import ApiSettings, PagedApi
from tests.support import shop
from tests.support.streams import RUN_A
from tests.support.triggers import give_task
from tests.unit.conftest import XComs

CURSOR = Cursor("meta.next", "after")
SHOP = "tests.support.shop"


async def stream(monkeypatch: pytest.MonkeyPatch, api: PagedApi, **arguments: Any) -> list[Any]:
    """Stream an API as a triggerer does."""
    monkeypatch.setenv("AIRFLOW_CONN_SHOP", api.url)
    defaults: dict[str, Any] = {"endpoint": "cursor", "method": "GET"}
    trigger = HttpStreamingTrigger(http_conn_id="shop", **{**defaults, **arguments})
    give_task(trigger)
    return list(await trigger.stream())


def execute(monkeypatch: pytest.MonkeyPatch, api: PagedApi, **arguments: Any) -> list[Any]:
    """Stream an API as a worker does that cannot send the operator to a triggerer."""
    monkeypatch.setenv("AIRFLOW_CONN_SHOP", api.url)
    defaults: dict[str, Any] = {"endpoint": "cursor", "method": "GET"}
    operator = HttpStreamingOperator(task_id="pages", http_conn_id="shop", **{**defaults, **arguments})
    ti: Any = SimpleNamespace(id=RUN_A, dag_id="shop", task_id="pages", run_id="r1", map_index=-1)
    context: Any = {"ti": ti, "task_instance": ti, "run_id": "r1", "params": {"a": 1}}
    return list(operator.execute(context))


@pytest.fixture
def few_tries(monkeypatch: pytest.MonkeyPatch) -> None:
    """No wait between tries takes time."""

    async def no_sleep(seconds: float) -> None:
        pass

    monkeypatch.setattr("airflow_provider_iteration.http.client.asyncio.sleep", no_sleep)


@pytest.mark.parametrize("name", ["ids", "ids_on_the_loop"])
async def test_filter_makes_the_pages(monkeypatch: pytest.MonkeyPatch, xcoms: XComs, name: str) -> None:
    """response_filter is called for each page; what it returns is streamed. A coroutine function will do."""
    with PagedApi(ApiSettings(pages=2, items=2)) as api:
        pages = await stream(monkeypatch, api, paginator=CURSOR, response_filter=f"{SHOP}.{name}")
    assert pages == [[0, 1], [2, 3]]


async def test_items_of_what_the_filter_returned(monkeypatch: pytest.MonkeyPatch, xcoms: XComs) -> None:
    """items_path goes into what the filter returned."""
    with PagedApi(ApiSettings(pages=2, items=2)) as api:
        items = await stream(
            monkeypatch, api, paginator=CURSOR, response_filter=f"{SHOP}.ids", items_path="@"
        )
    assert items == [0, 1, 2, 3]


async def test_filter_gets_what_it_asks_for(monkeypatch: pytest.MonkeyPatch, xcoms: XComs) -> None:
    """A callable asks for names of the context."""
    with PagedApi(ApiSettings(pages=1, items=1)) as api:
        pages = await stream(monkeypatch, api, response_filter=f"{SHOP}.ids_with_run")
    assert pages == [["r1-0"]]


async def test_name_that_the_triggerer_does_not_have(monkeypatch: pytest.MonkeyPatch, xcoms: XComs) -> None:
    """A callable that asks for more than a triggerer has says so."""
    with (
        PagedApi() as api,
        pytest.raises(
            PaginationError, match="response_filter: it asks for 'params'.*there is run_id, task_instance, ti"
        ),
    ):
        await stream(monkeypatch, api, response_filter=f"{SHOP}.ids_with_params")


def test_function_on_a_worker_gets_the_whole_context(monkeypatch: pytest.MonkeyPatch, xcoms: XComs) -> None:
    """H6: a function makes the loop run on the worker, where the context is whole."""
    with PagedApi(ApiSettings(pages=1, items=2)) as api:
        pages = execute(monkeypatch, api, response_filter=shop.ids_with_params)
    assert pages == [[0, 1]]


async def test_check_that_says_yes(monkeypatch: pytest.MonkeyPatch, xcoms: XComs) -> None:
    """response_check is asked for each page."""
    with PagedApi(ApiSettings(pages=3)) as api:
        pages = await stream(monkeypatch, api, paginator=CURSOR, response_check=f"{SHOP}.is_good")
    assert len(pages) == 3


async def test_check_that_says_no(monkeypatch: pytest.MonkeyPatch, xcoms: XComs) -> None:
    """A page that is no good fails, with its number; those before it are kept."""
    with PagedApi(ApiSettings(pages=3, bodies={1: {"items": [], "meta": {"next": None}}})) as api:
        with pytest.raises(PageFailed, match="page 2 failed: .*response_check returned False") as caught:
            await stream(monkeypatch, api, paginator=CURSOR, response_check=f"{SHOP}.is_good")
    assert caught.value.__notes__ == ["committed before that: 1 pages, 1 items"]


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_pagination_function_says_what_comes_next(
    monkeypatch: pytest.MonkeyPatch, xcoms: XComs, method: str
) -> None:
    """What it returns is laid over the operator's own request, as with the stock operator."""
    with PagedApi(ApiSettings(pages=3, items=1)) as api:
        pages = await stream(
            monkeypatch,
            api,
            method=method,
            data={"size": 1},
            pagination_function=f"{SHOP}.next_page",
            response_filter=f"{SHOP}.ids",
        )
    assert pages == [[0], [1], [2]]
    sent = [request.query + request.body.decode() for request in api.requests]
    assert {text.count("size=1") for text in sent} == {1}


def test_pagination_function_merges_deeply(monkeypatch: pytest.MonkeyPatch, xcoms: XComs) -> None:
    """What it returns is merged at every depth, as by the stock operator."""
    answers = iter([{"extra_options": {"json": {"variables": {"after": "after-1"}}}}, None])
    with PagedApi(ApiSettings(pages=3, items=1)) as api:
        execute(
            monkeypatch,
            api,
            method="POST",
            items_path="items",
            extra_options={"json": {"query": "q", "variables": {"n": 1}}},
            pagination_function=lambda response: next(answers),
        )
    assert json.loads(api.requests[1].body) == {"query": "q", "variables": {"n": 1, "after": "after-1"}}


def test_pagination_function_on_a_worker(monkeypatch: pytest.MonkeyPatch, xcoms: XComs) -> None:
    """A lambda pages on the worker."""
    with PagedApi(ApiSettings(pages=3, items=1)) as api:
        items = execute(
            monkeypatch,
            api,
            items_path="items",
            pagination_function=lambda response: shop.next_page(response),
        )
    assert [item["id"] for item in items] == [0, 1, 2]


async def test_pagination_function_that_goes_in_circles(
    monkeypatch: pytest.MonkeyPatch, xcoms: XComs
) -> None:
    """A function that asks for a page again is stopped like any paginator."""
    with PagedApi(ApiSettings(pages=9, cycle={3: 2})) as api, pytest.raises(CursorCycleError):
        await stream(monkeypatch, api, pagination_function=f"{SHOP}.next_page")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("next_page_that_is_no_json", "after page 1 is not plain JSON"),
        ("next_page_with_a_wrong_key", "after page 1 has the key 'params'"),
        ("is_good", "after page 1 is bool"),
    ],
)
async def test_wrong_answer_of_a_pagination_function(
    monkeypatch: pytest.MonkeyPatch, xcoms: XComs, name: str, message: str
) -> None:
    """What cannot be laid over a request is an error; the page before it is kept."""
    with PagedApi(ApiSettings(pages=3)) as api:
        with pytest.raises(PaginationError, match=f"pagination_function: .*{message}") as caught:
            await stream(monkeypatch, api, pagination_function=f"{SHOP}.{name}")
    assert caught.value.__notes__ == ["committed before that: 1 pages, 1 items"]


async def test_import_path_that_leads_nowhere(monkeypatch: pytest.MonkeyPatch, xcoms: XComs) -> None:
    """The error names the argument, the path, and where the module must be."""
    with PagedApi() as api:
        with pytest.raises(PaginationError, match="response_check: 'shop.nowhere' cannot be imported"):
            await stream(monkeypatch, api, response_check="shop.nowhere")


async def test_nothing_of_a_response_is_lost(monkeypatch: pytest.MonkeyPatch, xcoms: XComs) -> None:
    """Status, several values of a header, cookies, bytes, encoding, redirects: all is there for callables."""
    settings = ApiSettings(
        bodies={0: "grün".encode("latin-1")},
        content_type="text/plain",
        headers=[("X-Several", "a"), ("X-Several", "b, c"), ("Set-Cookie", "k=v; Path=/; Max-Age=60")],
        redirect={1: "/single?page=0"},
    )
    with PagedApi(settings) as api:
        (seen,) = await stream(
            monkeypatch, api, endpoint="single", data={"page": 1}, response_filter=f"{SHOP}.see"
        )
        url = api.url
    assert seen == {
        "status": 200,
        "reason": "OK",
        "url": f"{url}/single?page=0",
        "encoding": "ISO-8859-1",
        "text": "grün",
        "content": "grün".encode("latin-1"),
        "several": ["a", "b, c"],
        "joined": "a, b, c",
        "cookies": {"k": "v"},
        "asked": ("GET", f"{url}/single?page=1"),
        "history": [302],
        "took": True,
    }


async def test_response_is_logged_if_asked_for(
    monkeypatch: pytest.MonkeyPatch, xcoms: XComs, capsys: pytest.CaptureFixture[str]
) -> None:
    """log_response logs the text of each page, and not all of a large one."""
    with PagedApi(ApiSettings(pages=1, items=1, text=50_000)) as api:
        await stream(monkeypatch, api, log_response=True)
    logged = capsys.readouterr().out
    assert '"name": "item 0"' in logged
    assert len(logged) < 15_000


@pytest.mark.parametrize(("warn", "count"), [(True, 1), (False, 0)])
async def test_methods_that_should_not_be_sent_twice(
    monkeypatch: pytest.MonkeyPatch, xcoms: XComs, capsys: pytest.CaptureFixture[str], warn: bool, count: int
) -> None:
    """H3: a POST is warned about once for the whole stream, unless that is switched off."""
    with PagedApi(ApiSettings(pages=3)) as api:
        await stream(monkeypatch, api, method="POST", paginator=CURSOR, warn_on_non_idempotent=warn)
    assert capsys.readouterr().out.count("may be sent twice") == count


def retrying(on: Any) -> dict[str, Any]:
    return {"stop": tenacity.stop_after_attempt(3), "wait": tenacity.wait_none(), "retry": on}


def test_retry_args_of_tenacity(monkeypatch: pytest.MonkeyPatch, xcoms: XComs) -> None:
    """H8: the stock operator's retry_args decide what is tried again, on a worker."""
    with PagedApi(ApiSettings(pages=2, fail={1: [404, 404]})) as api:
        execute(
            monkeypatch,
            api,
            paginator=CURSOR,
            retry_args=retrying(tenacity.retry_if_exception_type(StatusFailed)),
        )
    assert api.asked() == [0, 1, 1, 1]


@pytest.mark.parametrize(
    ("settings", "kind"),
    [
        ({"fail_for_good": {0: 500}}, StatusFailed),
        ({"drop": frozenset({0})}, ConnectionFailed),
    ],
)
def test_retry_args_see_the_exceptions_of_the_stock_hook(
    monkeypatch: pytest.MonkeyPatch, xcoms: XComs, settings: dict[str, Any], kind: type[PageFailed]
) -> None:
    """Predicates that were written for the stock operator go on working."""
    never = tenacity.retry_if_exception_type(KeyError)
    with PagedApi(ApiSettings(**settings)) as api, pytest.raises(kind) as caught:
        # aiohttp itself tries methods that may be sent twice once more, on another connection.
        execute(monkeypatch, api, method="POST", retry_args=retrying(never))
    stock = requests.exceptions.ConnectionError if kind is ConnectionFailed else Exception
    assert isinstance(caught.value, stock)
    assert len(api.requests) == 1


def test_retry_args_may_judge_results(monkeypatch: pytest.MonkeyPatch, xcoms: XComs) -> None:
    """A predicate on results gets a response, as from the stock hook."""
    bad = tenacity.retry_if_result(lambda response: not response.json()["items"])
    with PagedApi(ApiSettings(bodies={0: {"items": []}})) as api, pytest.raises(tenacity.RetryError):
        execute(monkeypatch, api, retry_args={**retrying(bad), "reraise": False})
    assert len(api.requests) == 3
