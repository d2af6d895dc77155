# SPDX-License-Identifier: Apache-2.0
"""What a user's own package has: a paginator, and functions given by their import paths."""

from __future__ import annotations

from typing import Any

import requests

from airflow_provider_iteration.pagination import PageRequest, PageView, Paginator

SEEN: list[dict[str, Any]] = []


class NextInHeader(Paginator, frozen=True):
    """The number of the next page is in a header."""

    name: str = "x-next-page"

    def following(self, page: PageView, asked: PageRequest) -> PageRequest | None:
        number = page.headers.get(self.name)
        return PageRequest(params={"page": number}) if number else None


class Anything(NextInHeader, frozen=True):
    """A paginator with a field of any type."""

    value: Any = None


def is_good(response: requests.Response) -> bool:
    return response.status_code == 200 and bool(response.json()["items"])


def is_never_good(response: requests.Response) -> bool:
    return False


def ids(response: requests.Response) -> list[int]:
    return [item["id"] for item in response.json()["items"]]


async def ids_on_the_loop(response: requests.Response) -> list[int]:
    return ids(response)


def ids_with_run(response: requests.Response, run_id: str) -> list[Any]:
    return [f"{run_id}-{number}" for number in ids(response)]


def ids_with_params(response: requests.Response, params: dict[str, Any]) -> list[int]:
    return ids(response)


def next_page(response: requests.Response) -> dict[str, Any] | None:
    token = response.json()["meta"]["next"]
    return {"data": {"after": token}} if token else None


def next_page_that_is_no_json(response: requests.Response) -> dict[str, Any] | None:
    return {"data": {"after": object()}}


def next_page_with_a_wrong_key(response: requests.Response) -> dict[str, Any] | None:
    return {"params": {"after": "x"}}


def see(response: requests.Response) -> dict[str, Any]:
    """Return everything of a response that callables look at."""
    return {
        "status": response.status_code,
        "reason": response.reason,
        "url": response.url,
        "encoding": response.encoding,
        "text": response.text,
        "content": response.content,
        "several": response.raw.headers.getlist("X-Several"),
        "joined": response.headers["x-several"],
        "cookies": {cookie.name: cookie.value for cookie in response.cookies},
        "asked": (response.request.method, response.request.url),
        "history": [earlier.status_code for earlier in response.history],
        "took": response.elapsed.total_seconds() >= 0,
    }
