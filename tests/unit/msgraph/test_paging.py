# SPDX-License-Identifier: Apache-2.0
"""Paging through a local Graph, with the real Kiota and azure-identity."""

from __future__ import annotations

from base64 import b64decode
from contextlib import aclosing
from typing import Any

import pytest

from airflow_provider_iteration.exceptions import CursorCycleError, ForeignHostError, LimitExceeded
from airflow_provider_iteration.pagination import NextLink, Offset
from harness.graph import GraphApi, GraphSettings, make_user
from tests.support.stock_graph import stock_result
from tests.unit.msgraph.conftest import Graph


def at_another_host(api: GraphApi) -> str:
    return api.url.replace("127.0.0.1", "localhost")


LINKS = NextLink('"@odata.nextLink"', keep_params=False)


async def test_next_links_are_followed(graph: Graph) -> None:
    """Three pages, two links, one token: the elements are the pages."""
    pages = await graph.stream()
    assert [[user["id"] for user in page["value"]] for page in pages] == [
        ["u0", "u1"],
        ["u2", "u3"],
        ["u4", "u5"],
    ]
    assert graph.api.paths() == [
        "/v1.0/users",
        "/v1.0/users?$skiptoken=page-1",
        "/v1.0/users?$skiptoken=page-2",
    ]
    assert len(graph.api.token_requests) == 1


async def test_items_are_the_elements(graph: Graph) -> None:
    """With items_path the elements are the users."""
    assert await graph.stream(items_path="value") == [make_user(number) for number in range(6)]


@pytest.mark.parametrize("top", [2, "2"])
async def test_offset_comes_from_the_request(graph: Graph, top: Any) -> None:
    """Without links $skip grows by $top, whatever a processor makes of the pages; a text will do."""
    result = await graph.stream(
        "counted",
        query_parameters={"$top": top, "$select": "id"},
        result_processor="tests.support.graph_functions.ids",
    )
    assert result == [f"u{number}" for number in range(6)]
    assert graph.api.paths() == [
        f"/v1.0/counted?$top=2&$select=id{skip}" for skip in ("", "&$skip=2", "&$skip=4", "&$skip=6")
    ]


@pytest.mark.parametrize(
    ("url", "arguments"),
    [
        ("users", {}),
        ("users", {"query_parameters": {"$select": "id"}, "headers": {"ConsistencyLevel": "eventual"}}),
        ("counted", {"query_parameters": {"$top": 2}}),
        ("counted", {"query_parameters": {"$top": 4}}),
        ("groups/{id}/members", {"path_parameters": {"id": "g 1"}}),
        ("users", {"method": "POST", "data": {"a": "b"}}),
    ],
)
async def test_result_is_that_of_the_stock_operator(graph: Graph, url: str, arguments: Any) -> None:
    """More than one page: the same pages, asked for by the same requests."""
    expected = await stock_result(url=url, **arguments)
    asked = graph.api.paths()
    graph.api.requests.clear()
    assert await graph.stream(url, **arguments) == expected
    assert graph.api.paths() == asked


async def test_processed_result_is_that_of_the_stock_operator(graph: Graph) -> None:
    """A processor's lists are put one behind the other."""

    def ids(result: Any, **context: Any) -> list[str]:
        return [user["id"] for user in result["value"]]

    expected = await stock_result(url="users", result_processor=ids)
    assert await graph.stream(result_processor="tests.support.graph_functions.ids") == expected


@pytest.mark.parametrize(
    ("url", "arguments"),
    [
        ("content", {"response_type": "bytes"}),
        ("content", {}),
        ("text", {"response_type": "str"}),
        ("nothing", {}),
    ],
)
async def test_single_result_is_that_of_the_stock_operator(graph: Graph, url: str, arguments: Any) -> None:
    """One page: a sequence with the stock operator's result; bytes are base64 in a text."""
    expected = await stock_result(url=url, **arguments)
    assert await graph.stream(url, **arguments) == [expected]


async def test_digits_in_base64_stay_a_text(graph: Graph) -> None:
    """The stock operator makes a number of bytes whose base64 happens to be digits."""
    graph.api.reset(GraphSettings(content=b64decode("12345678")))
    assert await graph.stream("content", response_type="bytes") == ["12345678"]


@pytest.mark.parametrize(
    ("url", "paginator"), [("users", LINKS), ("counted", Offset(4, "$skip", limit_param="$top"))]
)
async def test_paginators_of_this_package_do(graph: Graph, url: str, paginator: Any) -> None:
    """Any paginator can be used instead."""
    users = await graph.stream(url, paginator=paginator, items_path="value")
    assert [user["id"] for user in users] == [f"u{number}" for number in range(6)]


async def test_link_to_another_host_is_refused(graph: Graph, server_context: Any) -> None:
    """A next link to another host is not followed: nothing is sent there, and what came before is kept."""
    with GraphApi(server_context) as other:
        graph.api.reset(GraphSettings(foreign={1: at_another_host(other)}))
        with pytest.raises(ForeignHostError, match="the request for page 3 leads to") as caught:
            await graph.stream()
        assert (other.requests, other.token_requests) == ([], [])
    assert "skiptoken" not in str(caught.value)
    assert caught.value.__notes__ == ["committed before that: 2 pages, 2 items"]


async def test_redirect_to_another_host_is_refused(graph: Graph, server_context: Any) -> None:
    """Neither is a redirect."""
    with GraphApi(server_context) as other:
        graph.api.reset(GraphSettings(moved=f"{at_another_host(other)}/v1.0/content"))
        with pytest.raises(ForeignHostError, match="a redirect from"):
            await graph.stream("moved")
        assert (other.requests, other.token_requests) == ([], [])


async def test_allowed_redirect_goes_without_the_token(graph: Graph, server_context: Any) -> None:
    """A host that is allowed gets the request, but no token: a download link has its own."""
    with GraphApi(server_context) as other:
        graph.api.reset(GraphSettings(moved=f"{other.url}/v1.0/content"))
        with pytest.raises(Exception, match="HTTP 401"):
            await graph.stream("moved", allowed_hosts=[other.url.removeprefix("https://")])
        assert "Authorization" not in other.requests[0].headers


async def test_redirect_on_the_same_host(graph: Graph) -> None:
    """A redirect on the same host is followed, with the token."""
    graph.api.reset(GraphSettings(moved="/v1.0/users", pages=1))
    assert [len(page["value"]) for page in await graph.stream("moved")] == [2]


async def test_circle_is_noticed(graph: Graph) -> None:
    """Links that lead back are an error, not an endless stream."""
    graph.api.reset(GraphSettings(pages=1000, cycle={1: 1}))
    with pytest.raises(CursorCycleError):
        await graph.stream()


async def test_size_is_limited(graph: Graph) -> None:
    """max_bytes counts what came."""
    with pytest.raises(LimitExceeded, match="max_bytes=300"):
        await graph.stream(stream={"max_bytes": 300})


async def test_restart_goes_on_after_the_last_committed_page(graph: Graph) -> None:
    """A cursor leads to the next page: nothing before it is asked for again."""
    trigger = graph.trigger()
    async with aclosing(trigger.pages(None)) as pages:
        await anext(pages)
        cursor = (await anext(pages)).cursor
    graph.api.requests.clear()
    rest = [page.payload["value"][0]["id"] async for page in graph.trigger().pages(cursor)]
    assert (rest, graph.api.paths()) == (["u4"], ["/v1.0/users?$skiptoken=page-2"])
