# SPDX-License-Identifier: Apache-2.0
"""Retries and rates, against a real server."""

from __future__ import annotations

import logging
import random
from itertools import pairwise
from typing import Any

import pytest

from airflow_provider_iteration.exceptions import PageFailed
from airflow_provider_iteration.http.retries import PageRetries
from airflow_provider_iteration.pagination import Cursor
from airflow_provider_iteration.triggers.http import HttpStreamingTrigger
from harness.api import ApiSettings, PagedApi
from tests.support.triggers import give_task
from tests.unit.conftest import XComs

CURSOR = Cursor("meta.next", "after")


async def stream(monkeypatch: pytest.MonkeyPatch, api: PagedApi, **arguments: Any) -> list[Any]:
    monkeypatch.setenv("AIRFLOW_CONN_SHOP", api.url)
    defaults: dict[str, Any] = {"endpoint": "cursor", "method": "GET", "paginator": CURSOR}
    trigger = HttpStreamingTrigger(http_conn_id="shop", items_path="items", **{**defaults, **arguments})
    give_task(trigger)
    return list(await trigger.stream())


async def test_what_is_tried_again_is_for_the_user_to_say(
    monkeypatch: pytest.MonkeyPatch, xcoms: XComs
) -> None:
    """An API that answers 404 for a while is waited for, if that is asked for."""
    retries = {"attempts": 2, "on": [404], "delay": 0}
    with PagedApi(ApiSettings(pages=2, fail={1: [404, 404]})) as api:
        await stream(monkeypatch, api, page_retries=retries)
    assert api.asked() == [0, 1, 1, 1]


async def test_answer_that_is_not_ready_yet(monkeypatch: pytest.MonkeyPatch, xcoms: XComs) -> None:
    """A 202 is waited for, if that is asked for."""
    with PagedApi(ApiSettings(pages=2, fail={1: [202, 202]})) as api:
        items = await stream(monkeypatch, api, page_retries={"on": [202], "delay": 0})
    assert (len(items), api.asked()) == (20, [0, 1, 1, 1])


async def test_what_is_not_named_is_final(monkeypatch: pytest.MonkeyPatch, xcoms: XComs) -> None:
    """With connections alone tried again, a 500 is final."""
    with PagedApi(ApiSettings(pages=2, fail={1: [500]})) as api:
        with pytest.raises(PageFailed, match="page 2 failed: HTTP 500"):
            await stream(monkeypatch, api, page_retries=PageRetries(on=("connection",)))
    assert api.asked() == [0, 1]


async def test_connections_need_not_be_tried_again(monkeypatch: pytest.MonkeyPatch, xcoms: XComs) -> None:
    """A connection that breaks is final where only statuses are named."""
    with PagedApi(ApiSettings(pages=2, drop=frozenset({1}))) as api:
        with pytest.raises(PageFailed, match="page 2 failed: connection failed"):
            await stream(monkeypatch, api, method="POST", page_retries=PageRetries(on=(500,)))


async def test_retry_after_is_kept_to(monkeypatch: pytest.MonkeyPatch, xcoms: XComs) -> None:
    """The API's own wait is the one that is kept to, not ours."""
    with PagedApi(ApiSettings(pages=2, fail={1: [429]}, retry_after="1")) as api:
        await stream(monkeypatch, api, page_retries={"delay": 50, "max_retry_after": 0.2})
    before, after = api.requests[1:]
    assert 0.2 <= after.began - before.began < 20


async def test_retry_is_logged(
    monkeypatch: pytest.MonkeyPatch, xcoms: XComs, caplog: pytest.LogCaptureFixture
) -> None:
    """Who waits for a page sees why, and how long."""
    with PagedApi(ApiSettings(pages=2, fail={1: [429]}, retry_after="0")) as api:
        with caplog.at_level(logging.INFO):
            await stream(monkeypatch, api)
    assert "Page 2: HTTP 429; asked again in 0.0 s" in caplog.text


async def test_rate_is_kept_to(monkeypatch: pytest.MonkeyPatch, xcoms: XComs) -> None:
    """H9: starts of requests are spaced as the rate says."""
    with PagedApi(ApiSettings(pages=15, items=1)) as api:
        await stream(monkeypatch, api, rate_limit="50/s")
    gaps = [after.began - before.began for before, after in pairwise(api.requests)]
    # What is spaced are the starts; how long each takes to arrive is not ours.
    assert sum(gaps) >= 14 / 50 - 0.02


@pytest.mark.timeout(120)
async def test_unreliable_api_within_a_rate(monkeypatch: pytest.MonkeyPatch, xcoms: XComs) -> None:
    """200 pages, one in twenty answers 429 or 500: all items once, within the rate, no good page again."""
    chance = random.Random(7)
    fail = {page: [chance.choice([429, 500])] for page in range(200) if chance.random() < 0.05}
    rate = 100
    with PagedApi(ApiSettings(pages=200, items=5, fail=fail, retry_after="0")) as api:
        items = await stream(monkeypatch, api, rate_limit=f"{rate}/s")
    assert [item["id"] for item in items] == list(range(1000))
    good = [request.page for request in api.requests if request.status == 200]
    assert good == list(range(200))
    assert len(api.requests) == 200 + len(fail)
    began = [request.began for request in api.requests]
    for index, first in enumerate(began):
        within = sum(first <= other < first + 1.0 for other in began[index:])
        assert within <= rate + 5
