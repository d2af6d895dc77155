# SPDX-License-Identifier: Apache-2.0
"""The HTTP trigger against a real server: retries, limits, hosts, what a page becomes."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from typing import Any

import pytest

from airflow_provider_iteration.exceptions import (
    CursorCycleError,
    ForeignHostError,
    LimitExceeded,
    PageFailed,
    PaginationError,
    PathError,
)
from airflow_provider_iteration.pagination import Cursor, LinkHeader, MaxPages, NextLink, Offset, PageNumber
from airflow_provider_iteration.triggers.http import HttpStreamingEventTrigger, HttpStreamingTrigger
from harness.api import ApiSettings, PagedApi
from tests.support.triggers import give_task
from tests.unit.conftest import XComs

CURSOR = Cursor("meta.next", "after")


async def stream(
    monkeypatch: pytest.MonkeyPatch, settings: ApiSettings, **arguments: Any
) -> tuple[list[Any], PagedApi]:
    """Stream a whole API and return its items, and the API for what it saw."""
    with PagedApi(settings) as api:
        monkeypatch.setenv("AIRFLOW_CONN_SHOP", arguments.pop("connection", api.url).format(url=api.url))
        defaults = {"endpoint": "cursor", "method": "GET", "paginator": CURSOR, "items_path": "items"}
        trigger = HttpStreamingTrigger(http_conn_id="shop", **{**defaults, **arguments})
        give_task(trigger)
        return list(await trigger.stream()), api


async def test_all_items_arrive_in_order(monkeypatch: pytest.MonkeyPatch, xcoms: XComs) -> None:
    """H2: an unknown number of pages, walked by their cursors."""
    items, api = await stream(monkeypatch, ApiSettings(pages=12, items=7))
    assert [item["id"] for item in items] == list(range(84))
    assert api.asked() == list(range(12))


async def test_next_links_are_followed(monkeypatch: pytest.MonkeyPatch, xcoms: XComs) -> None:
    """Links in the body are followed, and carry the operator's parameters once."""
    items, api = await stream(
        monkeypatch, ApiSettings(pages=4), endpoint="next-link", paginator=NextLink(), data={"size": 10}
    )
    assert len(items) == 40
    assert {request.query.count("size=10") for request in api.requests} == {1}


async def test_failures_are_retried_for_the_page_alone(monkeypatch: pytest.MonkeyPatch, xcoms: XComs) -> None:
    """H7: 429 and 5xx are tried again; pages before them are not."""
    settings = ApiSettings(pages=4, fail={1: [429, 500], 3: [503]}, retry_after="0")
    _, api = await stream(monkeypatch, settings)
    assert api.asked() == [0, 1, 1, 1, 2, 3, 3]


async def test_cut_connection_is_retried(monkeypatch: pytest.MonkeyPatch, xcoms: XComs) -> None:
    """A connection that breaks is tried again."""
    items, api = await stream(monkeypatch, ApiSettings(pages=3, drop=frozenset({1})))
    assert len(items) == 30
    assert api.asked() == [0, 1, 1, 2]


async def test_other_client_errors_are_not_retried(monkeypatch: pytest.MonkeyPatch, xcoms: XComs) -> None:
    """A refusal is final at once, with the page, the status and what the API said; no header is shown."""
    with pytest.raises(PageFailed, match=r"page 3 failed: HTTP 404 .*page 2 is broken") as caught:
        await stream(monkeypatch, ApiSettings(pages=4, fail_for_good={2: 404}))
    assert "s3cret" not in str(caught.value)


async def test_retries_end(monkeypatch: pytest.MonkeyPatch, xcoms: XComs) -> None:
    """After page_retries further tries the page has failed."""
    with pytest.raises(PageFailed, match="HTTP 500"):
        await stream(monkeypatch, ApiSettings(fail={0: [500] * 3}, retry_after="0"), page_retries=2)


async def test_one_session_keeps_cookies(monkeypatch: pytest.MonkeyPatch, xcoms: XComs) -> None:
    """A cookie of the first page is sent with the others."""
    items, _ = await stream(monkeypatch, ApiSettings(pages=3, cookies=True))
    assert len(items) == 30


async def test_credentials_of_the_connection_are_sent(monkeypatch: pytest.MonkeyPatch, xcoms: XComs) -> None:
    """Login and password of the connection are used as basic auth."""
    with PagedApi(ApiSettings(pages=2, login=("user", "word"))) as api:
        monkeypatch.setenv("AIRFLOW_CONN_SHOP", api.url.replace("http://", "http://user:word@"))
        trigger = HttpStreamingTrigger(
            http_conn_id="shop", endpoint="cursor", method="GET", paginator=CURSOR, items_path="items"
        )
        give_task(trigger)
        assert len(await trigger.stream()) == 20


async def test_foreign_next_link_is_refused_unasked(monkeypatch: pytest.MonkeyPatch, xcoms: XComs) -> None:
    """A link to another host is refused before anything is sent, and what came before is committed."""
    with PagedApi() as other:
        with pytest.raises(ForeignHostError, match="allowed_hosts") as caught:
            await stream(
                monkeypatch,
                ApiSettings(pages=4, foreign={1: other.url}),
                endpoint="next-link",
                paginator=NextLink(),
            )
        assert other.requests == []
    assert caught.value.__notes__ == ["committed before that: 2 pages, 20 items"]


async def test_foreign_next_link_to_an_allowed_host(monkeypatch: pytest.MonkeyPatch, xcoms: XComs) -> None:
    """A host in allowed_hosts is followed."""
    with PagedApi(ApiSettings(pages=4)) as other:
        items, _ = await stream(
            monkeypatch,
            ApiSettings(pages=4, foreign={1: other.url}),
            endpoint="next-link",
            paginator=NextLink(),
            allowed_hosts=[other.url.removeprefix("http://")],
        )
    assert [item["id"] for item in items] == list(range(40))


async def test_foreign_redirect_is_refused_unasked(monkeypatch: pytest.MonkeyPatch, xcoms: XComs) -> None:
    """A redirect to another host is refused before any header is sent there."""
    with PagedApi() as other:
        with pytest.raises(ForeignHostError, match="a redirect from 127"):
            await stream(monkeypatch, ApiSettings(pages=4, redirect={2: f"{other.url}/single"}))
        assert other.requests == []


async def test_redirect_on_the_same_host_is_followed(monkeypatch: pytest.MonkeyPatch, xcoms: XComs) -> None:
    """A redirect within the API is followed."""
    items, _ = await stream(monkeypatch, ApiSettings(pages=3, redirect={2: "/single?page=7"}))
    assert items[-1]["id"] == 79


async def test_cursor_cycle_is_an_error(monkeypatch: pytest.MonkeyPatch, xcoms: XComs) -> None:
    """An API that leads back to an earlier page does not page for ever; its good pages are committed."""
    with pytest.raises(CursorCycleError, match="page 5 is the one already made for page 3") as caught:
        await stream(monkeypatch, ApiSettings(pages=9, cycle={3: 2}))
    assert caught.value.__notes__ == ["committed before that: 4 pages, 40 items"]


async def test_body_beyond_max_bytes_is_not_read(monkeypatch: pytest.MonkeyPatch, xcoms: XComs) -> None:
    """A body that goes beyond max_bytes is an error that names the limit."""
    settings = ApiSettings(bodies={0: {"items": ["x" * 1_000_000]}})
    with pytest.raises(LimitExceeded, match="max_bytes=10000"):
        await stream(monkeypatch, settings, stream={"max_bytes": 10_000})


async def test_page_that_is_not_json(monkeypatch: pytest.MonkeyPatch, xcoms: XComs) -> None:
    """A page that is not JSON where JSON is needed says which page and what it is; not its content."""
    settings = ApiSettings(bodies={0: b"<html>private</html>"}, content_type="text/html")
    with pytest.raises(PageFailed, match=r"page 1 failed: .*not JSON: 20 bytes of text/html") as caught:
        await stream(monkeypatch, settings)
    assert "private" not in str(caught.value)


async def test_path_that_matches_nothing_shows_the_keys(
    monkeypatch: pytest.MonkeyPatch, xcoms: XComs
) -> None:
    """A wrong items_path shows the keys that there are."""
    with pytest.raises(PathError, match="'items', 'meta'"):
        await stream(monkeypatch, ApiSettings(), items_path="orders")


@pytest.mark.parametrize(
    ("body", "content_type", "expected"),
    [
        (b"\x00\xff\x10", "application/octet-stream", b"\x00\xff\x10"),
        ("grün".encode(), "text/plain", "grün"),
        (b"\xff\xfe", "text/plain", b"\xff\xfe"),
        (b'{"a": NaN}', "application/problem+json", None),
        (b"", "application/json", b""),
    ],
)
async def test_what_a_page_becomes(
    monkeypatch: pytest.MonkeyPatch, xcoms: XComs, body: bytes, content_type: str, expected: Any
) -> None:
    """Without items_path a page is JSON, text or bytes, as its content type says."""
    settings = ApiSettings(bodies={0: body}, content_type=content_type)
    (page,), _ = await stream(monkeypatch, settings, endpoint="single", paginator=None, items_path=None)
    assert page == expected if expected is not None else repr(page) == "{'a': nan}"


async def test_pages_of_a_link_header_need_not_be_json(monkeypatch: pytest.MonkeyPatch, xcoms: XComs) -> None:
    """A paginator that reads no body pages through text as well."""
    settings = ApiSettings(
        bodies={0: b"a,b\n1,2\n", 1: b"a,b\n3,4\n"},
        content_type="text/csv",
        links={0: "/single?page=1"},
    )
    pages, _ = await stream(monkeypatch, settings, endpoint="single", paginator=LinkHeader(), items_path=None)
    assert pages == ["a,b\n1,2\n", "a,b\n3,4\n"]


async def test_post_sends_its_body_with_every_page(monkeypatch: pytest.MonkeyPatch, xcoms: XComs) -> None:
    """G1, for HTTP: a JSON body goes with every page, with the cursor in it."""
    _, api = await stream(
        monkeypatch,
        ApiSettings(pages=3),
        method="POST",
        paginator=Cursor("meta.next", "after", location="body"),
        extra_options={"json": {"filter": "new"}},
    )
    bodies = [json.loads(request.body) for request in api.requests]
    assert bodies == [
        {"filter": "new"},
        {"filter": "new", "after": "after-1"},
        {"filter": "new", "after": "after-2"},
    ]


async def test_resume_asks_for_no_committed_page(monkeypatch: pytest.MonkeyPatch, xcoms: XComs) -> None:
    """A second trigger of the same run goes on where the first one failed."""
    with PagedApi(ApiSettings(pages=6, fail_for_good={4: 404})) as api:
        monkeypatch.setenv("AIRFLOW_CONN_SHOP", api.url)
        trigger = HttpStreamingTrigger(
            http_conn_id="shop", endpoint="cursor", method="GET", paginator=CURSOR, items_path="items"
        )
        give_task(trigger)
        with pytest.raises(PageFailed):
            await trigger.stream()
        api.settings = replace(api.settings, fail_for_good={})
        items = list(await trigger.stream())
    assert api.asked() == [0, 1, 2, 3, 4, 4, 5]
    assert [item["id"] for item in items] == list(range(60))


async def test_no_secret_in_any_log_line(
    monkeypatch: pytest.MonkeyPatch, xcoms: XComs, caplog: pytest.LogCaptureFixture
) -> None:
    """Payloads, headers and query parameters appear in no log line."""
    with caplog.at_level(logging.DEBUG):
        await stream(
            monkeypatch,
            ApiSettings(pages=2, fail={1: [500]}, retry_after="0"),
            data={"token": "t0ken"},
            headers={"X-Key": "k3y"},
        )
    assert not any(secret in caplog.text for secret in ("t0ken", "k3y", "item 1", "s3cret"))


async def test_misspelt_path_is_warned_about(
    monkeypatch: pytest.MonkeyPatch, xcoms: XComs, capsys: pytest.CaptureFixture[str]
) -> None:
    """A walk that ends with page 1 because there is nothing at its path says so."""
    await stream(monkeypatch, ApiSettings(pages=3), paginator=Cursor("meta.nxt", "after"))
    assert "page 1 has nothing at 'meta.nxt'" in capsys.readouterr().out


async def test_api_that_clamps_to_its_last_page(monkeypatch: pytest.MonkeyPatch, xcoms: XComs) -> None:
    """An API that answers its last page for ever is noticed; its pages are kept once."""
    with pytest.raises(PaginationError, match="page 4 is the same as page 3") as caught:
        await stream(monkeypatch, ApiSettings(pages=3, endless=True), endpoint="page", paginator=PageNumber())
    assert caught.value.__notes__ == ["committed before that: 4 pages, 40 items"]


async def test_cookies_are_sent_as_they_came(monkeypatch: pytest.MonkeyPatch, xcoms: XComs) -> None:
    """A session in base64 is not put in quotes."""
    _, api = await stream(monkeypatch, ApiSettings(pages=2, headers=[("Set-Cookie", "s=abc/d@e==; Path=/")]))
    assert api.requests[1].headers["Cookie"] == "s=abc/d@e=="


@pytest.mark.parametrize("value", ["s3cr3t\n", " s3cr3t", 12345])
async def test_header_that_cannot_be_sent_is_not_shown(
    monkeypatch: pytest.MonkeyPatch, xcoms: XComs, value: Any
) -> None:
    """A wrong header is named, its value is not."""
    with pytest.raises(PaginationError, match=r"headers\['X-Key'\]") as caught:
        await stream(monkeypatch, ApiSettings(), headers={"X-Key": value})
    assert "s3cr3t" not in str(caught.value)
    assert "12345" not in str(caught.value)


@pytest.mark.parametrize("items_path", ["items", None])
async def test_json_in_a_character_set_of_its_own(
    monkeypatch: pytest.MonkeyPatch, xcoms: XComs, items_path: str | None
) -> None:
    """A declared character set counts for JSON too."""
    settings = ApiSettings(
        bodies={0: '{"items": ["Grün"]}'.encode("latin-1")},
        content_type="application/json",
        charset="latin-1",
    )
    (item,), _ = await stream(monkeypatch, settings, endpoint="single", paginator=None, items_path=items_path)
    assert item == ("Grün" if items_path else {"items": ["Grün"]})


async def test_empty_answer_beyond_the_last_page(monkeypatch: pytest.MonkeyPatch, xcoms: XComs) -> None:
    """An API that answers 204 beyond its last page has come to its end."""
    items, _ = await stream(
        monkeypatch,
        ApiSettings(pages=3, bodies={2: b""}),
        endpoint="page",
        paginator=PageNumber(),
    )
    assert len(items) == 20


async def test_long_link_header(monkeypatch: pytest.MonkeyPatch, xcoms: XComs) -> None:
    """Cursors in links can be long."""
    items, _ = await stream(
        monkeypatch,
        ApiSettings(headers=[("Link", f'</single?page=1>; title="{"x" * 9000}"; rel="next"')]),
        endpoint="single",
        paginator=LinkHeader(stop=MaxPages(2)),
    )
    assert len(items) == 20


async def test_redirect_to_what_is_no_url(monkeypatch: pytest.MonkeyPatch, xcoms: XComs) -> None:
    """A redirect that leads nowhere is an error of this package."""
    with pytest.raises(ForeignHostError, match="a redirect from 127.0.0.1 leads to what is no URL"):
        await stream(monkeypatch, ApiSettings(redirect={0: "http://[bad/"}), page_retries=0)


async def test_nested_field_in_a_form_is_refused(monkeypatch: pytest.MonkeyPatch, xcoms: XComs) -> None:
    """A form has no place for a nested field, and would be sent unchanged for ever."""
    with pytest.raises(PaginationError, match="nested field into the body, and data is sent as a form"):
        await stream(
            monkeypatch,
            ApiSettings(),
            method="POST",
            data={"size": 1},
            paginator=Offset(param="page.offset", location="body"),
        )


@pytest.mark.parametrize("kind", [HttpStreamingTrigger, HttpStreamingEventTrigger])
def test_repr_shows_no_header(kind: Any) -> None:
    """Airflow would show all arguments of a trigger."""
    trigger = kind(endpoint="orders", headers={"Authorization": "Bearer secret"})
    assert "secret" not in repr(trigger)
