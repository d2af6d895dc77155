# SPDX-License-Identifier: Apache-2.0
"""What is sent for each page, retries, and tokens."""

from __future__ import annotations

import json
import logging
from io import BytesIO
from typing import Any

import pytest
from msgraph_core import APIVersion  # type: ignore[import-untyped]
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from airflow_provider_iteration.exceptions import PageFailed
from harness.graph import GraphSettings
from tests.unit.msgraph.conftest import Graph, Runs


async def test_every_page_is_asked_for_in_the_same_way(graph: Graph) -> None:
    """G1: headers, body, path parameters, scopes and version go with every page."""
    await graph.stream(
        "groups/{id}/members",
        method="POST",
        path_parameters={"id": "g1"},
        headers={"ConsistencyLevel": "eventual", "X-Own": "1"},
        data={"filter": ["a"]},
        query_parameters={"$select": "id"},
        scopes=["https://graph.example/Users.Read"],
        api_version=APIVersion.beta,
    )
    sent = [
        (
            request.method,
            request.path,
            request.headers["ConsistencyLevel"],
            request.headers["X-Own"],
            json.loads(request.body),
        )
        for request in graph.api.requests
    ]
    assert sent == [("POST", "/beta/groups/g1/members", "eventual", "1", {"filter": ["a"]})] * 3
    assert [form["scope"] for form in graph.api.token_requests] == ["https://graph.example/Users.Read"]


@pytest.mark.parametrize("data", [b"bytes", BytesIO(b"bytes"), "bytes"])
async def test_body_that_is_read_is_sent_again(graph: Graph, data: Any) -> None:
    """G1: a body given as a file is there for the second page too."""
    await graph.stream(method="POST", data=data)
    assert [request.body for request in graph.api.requests] == [b"bytes"] * 3


async def test_own_parameters_are_not_added_to_a_link(graph: Graph) -> None:
    """A next link has everything in it, and nothing is sent twice."""
    await graph.stream(query_parameters={"$select": "id", "$skiptoken": "page-0"})
    assert [dict(request.query) for request in graph.api.requests] == [
        {"$select": "id", "$skiptoken": "page-0"},
        {"$skiptoken": "page-1"},
        {"$skiptoken": "page-2"},
    ]


async def test_absolute_url_keeps_its_parameters(graph: Graph) -> None:
    """The operator's own URL may be an absolute one on the connection's host."""
    graph.api.reset(GraphSettings(pages=1))
    await graph.stream(f"{graph.api.url}/v1.0/users?a=1", query_parameters={"$top": 2, "a": "2"})
    assert graph.api.paths() == ["/v1.0/users?a=1&$top=2"]


async def test_timeout_is_kept_to(graph: Graph) -> None:
    """G1: a page that takes longer than the time-out fails as a connection does."""
    graph.api.reset(GraphSettings(delay=5.0))
    with pytest.raises(PageFailed, match=r"page 1 failed: connection failed \(ReadTimeout\)"):
        await graph.stream(timeout=0.2, page_retries=0)


async def test_proxies_are_used(graph: Graph) -> None:
    """G1: requests go to the proxy that is given, here one that is not there."""
    with pytest.raises(PageFailed, match="page 1 failed: connection failed"):
        await graph.stream(
            proxies={"http": "http://127.0.0.1:9", "https": "http://127.0.0.1:9"}, page_retries=0
        )
    assert graph.api.requests == []


@pytest.mark.parametrize("status", [429, 503, 504, 500])
async def test_throttling_is_waited_out_once(graph: Graph, status: int) -> None:
    """H7: Retry-After is kept to, and Kiota does not wait as well; pages before it are kept."""
    graph.api.reset(GraphSettings(throttle={1: [status]}, retry_after="1"))
    pages = await graph.stream(page_retries=1)
    began = [request.began for request in graph.api.requests]
    assert (len(pages), len(began)) == (3, 4)
    assert 0.9 <= began[2] - began[1] < 1.9


async def test_tries_are_not_multiplied(graph: Graph) -> None:
    """Two tries again are three requests: Kiota's own retries are off."""
    graph.api.reset(GraphSettings(fail_for_good={0: 429}, retry_after="0"))
    with pytest.raises(PageFailed, match="page 1 failed: HTTP 429; the API said"):
        await graph.stream(page_retries={"attempts": 2, "delay": 0})
    assert len(graph.api.requests) == 3


async def test_status_of_a_primitive_is_tried_again(graph: Graph) -> None:
    """Where Kiota reads the response, a throttled one is waited out too."""
    graph.api.reset(GraphSettings(throttle={0: [429]}, retry_after="0"))
    assert await graph.stream("text", response_type="str") == ["a text"]


@pytest.mark.parametrize("refusal", [(401, "InvalidAuthenticationToken"), (403, "TokenExpired")])
async def test_refused_token_is_replaced(graph: Graph, refusal: tuple[int, str]) -> None:
    """A token that is refused in the middle is replaced, and its page asked for again; no retry is used."""
    graph.api.reset(GraphSettings(revoke=frozenset({1}), refusal=refusal))
    pages = await graph.stream(page_retries=0)
    assert [request.status for request in graph.api.requests] == [200, refusal[0], 200, 200]
    assert (len(pages), len(graph.api.token_requests)) == (3, 2)


async def test_expired_token_is_renewed(graph: Graph) -> None:
    """A token that expires in the middle is renewed; all pages come, none twice."""
    graph.api.reset(GraphSettings(lifetime=1, delay=0.4))
    pages = await graph.stream(page_retries=0)
    assert [page["value"][0]["id"] for page in pages] == ["u0", "u2", "u4"]
    assert len(graph.api.token_requests) >= 2


async def test_token_that_is_always_refused(graph: Graph) -> None:
    """A 401 with a new token is final."""
    graph.api.reset(GraphSettings(fail_for_good={0: 401}))
    with pytest.raises(PageFailed, match="page 1 failed: HTTP 401"):
        await graph.stream()
    assert len(graph.api.requests) == 2


async def test_no_token_at_all(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong secret is said by the authority, and is not in the error."""
    wrong = {**graph.api.connection(), "password": "wr0ng"}
    monkeypatch.setenv("AIRFLOW_CONN_GRAPH", json.dumps(wrong))
    with pytest.raises(PageFailed, match="no token was given; the API said: .*AADSTS7000215") as caught:
        await graph.stream()
    assert "wr0ng" not in str(caught.value)


async def test_links_are_in_no_log(
    graph: Graph, runs: Runs, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    """Tokens, of links and of the authority, appear in no line of this package, Airflow or azure."""
    graph.api.reset(GraphSettings(throttle={1: [429]}, retry_after="0", revoke=frozenset({2})))
    runs.states["r1"] = "running"
    with caplog.at_level(logging.INFO):
        logging.getLogger("httpx").setLevel(logging.WARNING)  # as Airflow does
        await graph.stream("users/delta", delta_link=f"{graph.api.url}/v1.0/users/delta?$skiptoken=page-0")
    logged = caplog.text + capsys.readouterr().out
    assert "asked again" in logged
    for secret in ("skiptoken", "deltatoken", "s3cret", "token-1"):
        assert secret not in logged


async def test_links_are_in_no_trace(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither are they in Kiota's traces."""
    kept = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(kept))
    monkeypatch.setattr("kiota_http.httpx_request_adapter.tracer", provider.get_tracer("tests"))
    await graph.stream()
    spans = kept.get_finished_spans()
    assert len(spans) > 3
    assert "skiptoken" not in "".join(span.to_json() for span in spans)


@pytest.mark.parametrize(
    ("arguments", "count"),
    [({}, 0), ({"method": "POST"}, 1), ({"method": "post", "warn_on_non_idempotent": False}, 0)],
)
async def test_methods_that_may_be_sent_twice(
    graph: Graph, capsys: pytest.CaptureFixture[str], arguments: dict[str, Any], count: int
) -> None:
    """H3: a method that is not idempotent is warned about, once for each stream."""
    await graph.stream(**arguments)
    assert capsys.readouterr().out.count("may be sent twice") == count


def test_repr_shows_no_link(graph: Graph) -> None:
    """Airflow would show all arguments of a trigger."""
    trigger = graph.trigger(delta_link="https://graph.example/users/delta?$deltatoken=s3cret")
    assert "s3cret" not in repr(trigger)
