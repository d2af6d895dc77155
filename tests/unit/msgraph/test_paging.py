# SPDX-License-Identifier: Apache-2.0
"""Paging through a local Graph, with the real Kiota and azure-identity."""

from __future__ import annotations

from harness.graph import GraphSettings, make_user
from tests.unit.msgraph.conftest import Graph


async def test_next_links_are_followed(graph: Graph) -> None:
    """Three pages, two links, one token: the elements are the pages."""
    pages = await graph.stream()
    assert [[user["id"] for user in page["value"]] for page in pages] == [["u0", "u1"], ["u2", "u3"], ["u4", "u5"]]
    assert graph.api.paths() == [
        "/v1.0/users",
        "/v1.0/users?$skiptoken=page-1",
        "/v1.0/users?$skiptoken=page-2",
    ]
    assert len(graph.api.token_requests) == 1


async def test_items_are_the_elements(graph: Graph) -> None:
    """With items_path the elements are the users."""
    assert await graph.stream(items_path="value") == [make_user(number) for number in range(6)]
