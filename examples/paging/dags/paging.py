# SPDX-License-Identifier: Apache-2.0
"""One API, paged in six ways."""

from __future__ import annotations

from typing import Any

from airflow.sdk import dag, task

from airflow_provider_iteration.operators.http import HttpStreamingOperator
from airflow_provider_iteration.pagination import (
    Cursor,
    LinkHeader,
    MaxPages,
    NextLink,
    Offset,
    PageNumber,
    SinglePage,
    TotalReached,
)


def orders(task_id: str, endpoint: str, **arguments: Any) -> HttpStreamingOperator:
    return HttpStreamingOperator(
        task_id=task_id,
        http_conn_id="shop",
        endpoint=endpoint,
        method="GET",
        items_path="items",
        **arguments,
    )


@task
def count(items: Any) -> int:
    return sum(1 for _ in items)


@dag(schedule=None)
def paging() -> None:
    # [next_link]
    next_link = orders("next_link", "next-link", paginator=NextLink("next"))
    # [link_header]
    link_header = orders("link_header", "link-header", paginator=LinkHeader())
    # [cursor]
    cursor = orders("cursor", "cursor", paginator=Cursor("meta.next", param="after"))
    # [offset]
    offset = orders("offset", "offset", paginator=Offset(limit=100, stop=TotalReached("meta.total")))
    # [page_number]
    page_number = orders("page_number", "page", paginator=PageNumber(start=1))
    # [single_page]
    single_page = orders("single_page", "single", paginator=SinglePage())
    # [dict]
    as_dict = orders("as_dict", "cursor", paginator={"type": "cursor", "path": "meta.next", "param": "after"})
    # [stop]
    stopped = orders(
        "stopped",
        "cursor",
        paginator=Cursor("meta.next", param="after", stop=TotalReached("meta.total") | MaxPages(2)),
    )
    # [end]
    for pages in (next_link, link_header, cursor, offset, page_number, single_page, as_dict, stopped):
        count.override(task_id=f"count_{pages.task_id}")(pages.output)


paging()
