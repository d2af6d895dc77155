# SPDX-License-Identifier: Apache-2.0
"""The stock operator's callables, by import path and as functions."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_iteration.exceptions import PageFailed, PaginationError
from harness.graph import GraphSettings
from tests.support import graph_functions
from tests.support.stock_graph import stock_result
from tests.unit.msgraph.conftest import Graph

PATH = "tests.support.graph_functions"
IDS = ["u0", "u1", "u2", "u3", "u4", "u5"]


async def test_processor_may_ask_for_the_run(graph: Graph) -> None:
    """A processor gets those names of the context that it asks for."""
    pages = await graph.stream(result_processor=f"{PATH}.count")
    assert pages == [{"run": "r1", "users": 2}] * 3


async def test_processor_that_asks_for_too_much(graph: Graph) -> None:
    """What there is not in the triggerer is named."""
    with pytest.raises(PaginationError, match="result_processor: it asks for 'params'"):
        await graph.stream(result_processor=f"{PATH}.with_params")


@pytest.mark.parametrize("handler", ["unwrapped", "forgiving"])
async def test_event_handler_gets_the_stock_event(graph: Graph, handler: str) -> None:
    """An event handler unwraps the event of each page, as in the stock operator."""
    expected = await stock_result(url="users", event_handler=getattr(graph_functions, handler))
    assert await graph.stream(event_handler=f"{PATH}.{handler}") == expected


async def test_event_handler_may_raise(graph: Graph) -> None:
    """A page that fails is the handler's to judge."""
    graph.api.reset(GraphSettings(fail_for_good={1: 400}))
    with pytest.raises(ValueError, match="page 2 failed: HTTP 400"):
        await graph.stream(event_handler=f"{PATH}.unwrapped")


async def test_event_handler_may_end_the_stream(graph: Graph) -> None:
    """A handler that returns nothing for a failure ends with what there is, as in the stock operator."""
    graph.api.reset(GraphSettings(fail_for_good={2: 400}))
    expected = await stock_result(url="users", event_handler=graph_functions.forgiving)
    assert await graph.stream(event_handler=f"{PATH}.forgiving") == expected
    assert len(expected) == 2


@pytest.mark.parametrize(
    ("function", "url", "query"),
    [("by_links", "users", {"$select": "id"}), ("by_skip", "counted", {"$top": 4})],
)
async def test_pagination_function(graph: Graph, function: str, url: str, query: dict[str, Any]) -> None:
    """A pagination function has the query parameters of the page that came, and no page is lost."""
    expected = await stock_result(
        url=url, query_parameters=query, pagination_function=getattr(graph_functions, function)
    )
    graph.api.requests.clear()
    pages = await graph.stream(url, query_parameters=query, pagination_function=f"{PATH}.{function}")
    assert pages == expected
    assert [user["id"] for page in pages for user in page["value"]] == IDS


async def test_pagination_function_that_returns_something_else(graph: Graph) -> None:
    """The error says what was expected; the page is kept."""
    with pytest.raises(PaginationError, match="expected a URL and query parameters"):
        await graph.stream(pagination_function=f"{PATH}.not_a_pair")
    assert any("value" in row for row in graph.xcoms.rows.values())


async def test_serializer_of_its_own(graph: Graph) -> None:
    """A serializer is used as the stock operator does."""
    expected = await stock_result(url="users", serializer=graph_functions.Shouting)
    pages = await graph.stream(serializer=graph_functions.Shouting)
    assert pages == [expected]
    assert pages[0]["VALUE"][0]["ID"] == "U0"


async def test_functions_are_called_on_a_worker(graph: Graph) -> None:
    """Functions get all of the context, and pagination the operator itself."""
    trigger = graph.trigger(
        result_processor=lambda result, params, **context: [params["tag"], len(result["value"])],
        pagination_function=lambda operator, response, **context: (
            response.get("@odata.nextLink"),
            operator.marked,
        ),
    )
    trigger.context = {"params": {"tag": "t"}}

    class Operator:
        marked = None

    trigger.operator = Operator()
    assert list(await trigger.stream()) == ["t", 2] * 3


async def test_page_retries_do_not_hide_a_failure(graph: Graph) -> None:
    """Without a handler the failure is the try's."""
    graph.api.reset(GraphSettings(fail_for_good={1: 400}))
    with pytest.raises(PageFailed, match="page 2 failed: HTTP 400") as caught:
        await graph.stream()
    assert caught.value.__notes__ == ["committed before that: 1 pages, 1 items"]
