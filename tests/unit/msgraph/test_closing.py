# SPDX-License-Identifier: Apache-2.0
"""Adapters and credentials are closed, and never shared."""

from __future__ import annotations

import asyncio
import gc
import time
from contextlib import aclosing

import pytest
from airflow.providers.microsoft.azure.hooks.msgraph import KiotaRequestAdapterHook

from airflow_provider_iteration.exceptions import PageFailed
from harness.graph import GraphSettings
from tests.unit.msgraph.conftest import Graph


def closed(graph: Graph, seconds: float = 5.0) -> bool:
    """Tell whether the API sees all connections closed within so long."""
    gc.collect()
    end = time.monotonic() + seconds
    while graph.api.open_connections() and time.monotonic() < end:
        time.sleep(0.01)
    return graph.api.open_connections() == 0


async def test_all_is_closed_at_the_end(graph: Graph) -> None:
    """G5: connections to Graph and to the authority are closed; a ResourceWarning would be an error here."""
    await graph.stream()
    assert await asyncio.to_thread(closed, graph)


async def test_all_is_closed_after_a_failure(graph: Graph) -> None:
    """G5: also where a page fails, and where a token was replaced."""
    graph.api.reset(GraphSettings(revoke=frozenset({0}), fail_for_good={1: 400}))
    with pytest.raises(PageFailed):
        await graph.stream()
    assert await asyncio.to_thread(closed, graph)


async def test_all_is_closed_when_it_is_cancelled(graph: Graph) -> None:
    """G5, T4: a trigger that is cancelled closes what it has open."""
    async with aclosing(graph.trigger().pages(None)) as pages:
        await anext(pages)
        assert graph.api.open_connections() > 0
    assert await asyncio.to_thread(closed, graph)


async def test_nothing_is_left_in_the_stock_cache(graph: Graph) -> None:
    """G5: the stock hook's cache, which all event loops share, is not used."""
    async with aclosing(graph.trigger().pages(None)) as pages:
        await anext(pages)
        assert "graph" not in KiotaRequestAdapterHook.cached_request_adapters


def test_each_loop_has_its_own(graph: Graph) -> None:
    """G5: two event loops, one after the other and one within a thread of the other's, share nothing."""

    async def both() -> None:
        other = asyncio.to_thread(lambda: asyncio.run(graph.stream(run_id="r2", api_version="beta")))
        await asyncio.gather(other, graph.stream())

    asyncio.run(graph.stream())
    asyncio.run(both())
    versions = [request.path.split("/")[1] for request in graph.api.requests]
    assert sorted(versions) == ["beta"] * 3 + ["v1.0"] * 6
    assert closed(graph)
