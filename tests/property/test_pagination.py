# SPDX-License-Identifier: Apache-2.0
"""Walks over simulated APIs of any size, and specs of any shape."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_iteration.exceptions import CursorCycleError, ForeignHostError
from airflow_provider_iteration.pagination import (
    AllOf,
    AnyOf,
    Cursor,
    EmptyPage,
    HasMore,
    HostPolicy,
    LinkHeader,
    MaxItems,
    MaxPages,
    NextLink,
    Offset,
    PageNumber,
    PageRequest,
    PageState,
    PageView,
    Paginator,
    Progress,
    SinglePage,
    StopCondition,
    TotalPages,
    TotalReached,
    dump_paginator,
    items_at,
    load_paginator,
    merge_query,
)

ENDPOINT = "https://api.example/v1/orders"

Api = Callable[[PageRequest], PageView]

counts = st.integers(min_value=1, max_value=1000)
paths = st.sampled_from(["next", "meta.next", '"@odata.nextLink"', "rows[-1].id", "a[?b=='c'].d | [0]"])
names = st.text(min_size=1, max_size=8)
steps = st.text(st.characters(exclude_characters="."), min_size=1, max_size=8)
locations = st.sampled_from(["query", "body", "header"])
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
stops: st.SearchStrategy[Any] = st.recursive(
    st.one_of(
        st.builds(EmptyPage),
        st.builds(MaxPages, counts),
        st.builds(MaxItems, counts),
        st.builds(TotalReached, paths),
        st.builds(TotalPages, paths),
        st.builds(HasMore, paths),
    ),
    lambda inner: st.lists(inner, min_size=1, max_size=3).flatmap(
        lambda conditions: st.sampled_from([AnyOf(tuple(conditions)), AllOf(tuple(conditions))])
    ),
    max_leaves=6,
)
paginators: st.SearchStrategy[Paginator] = st.one_of(
    st.builds(SinglePage, stop=st.none() | stops),
    st.builds(NextLink, paths, st.booleans(), stop=st.none() | stops),
    st.builds(
        LinkHeader, st.sampled_from(["next", "More", "https://rel.example/next"]), stop=st.none() | stops
    ),
    st.builds(Cursor, paths, steps, locations, st.booleans(), stop=st.none() | stops),
    st.builds(
        Offset,
        counts,
        steps.map("p{}".format),
        st.none() | steps.map("l{}".format),
        counts,
        st.sampled_from(["items", "limit"]),
        locations,
        stop=st.none() | stops,
    ),
    st.builds(PageNumber, steps, counts, location=locations, stop=st.none() | stops),
    st.builds(
        PageNumber,
        steps.map("p{}".format),
        counts,
        counts,
        steps.map("s{}".format),
        locations,
        stop=st.none() | stops,
    ),
)
requests = st.builds(
    PageRequest,
    url=st.none() | st.just(ENDPOINT),
    params=st.dictionaries(names, json_values, max_size=3),
    headers=st.dictionaries(names, st.text(), max_size=3),
    body=st.dictionaries(names, json_values, max_size=3),
)


def link_api(pages: list[list[int]], after_last: int | None = None) -> Api:
    """Give an API whose pages link to the next one; the last one to ``after_last``, if that is given."""

    def answer(request: PageRequest) -> PageView:
        url, params = request.address(ENDPOINT, {"limit": 5})
        query = {**dict(parse_qsl(urlsplit(url).query)), **params}
        number = int(query.get("page", 0))
        following = number + 1 if number + 1 < len(pages) else after_last
        link = None if following is None else f"orders?limit=5&page={following}"
        return view(pages[number], {"next": link}, f"{ENDPOINT}?{urlencode(query)}")

    return answer


def cursor_api(pages: list[list[int]], location: str, after_last: int | None = None) -> Api:
    """Give an API whose pages hold a token for the next one."""

    def answer(request: PageRequest) -> PageView:
        sent = {"query": request.params, "body": request.body, "header": request.headers}[location]
        number = int(str(sent.get("after", "token0")).removeprefix("token"))
        following = number + 1 if number + 1 < len(pages) else after_last
        token = None if following is None else f"token{following}"
        return view(pages[number], {"next": token}, ENDPOINT)

    return answer


def view(items: list[int], meta: dict[str, Any], url: str) -> PageView:
    body = {"orders": items, "meta": meta}
    return PageView(url=url, body=body, headers={}, items=len(items_at("orders", body, 1)))


def walk(state: PageState, api: Api, pages: int = 10_000) -> list[int]:
    items: list[int] = []
    while state.request is not None and pages > 0:
        page = api(state.request)
        items += page.body["orders"]
        state.advance(page)
        pages -= 1
    return items


def numbered(sizes: list[int]) -> list[list[int]]:
    items = iter(range(sum(sizes)))
    return [[next(items) for _ in range(size)] for size in sizes]


@st.composite
def walks(draw: st.DrawFn) -> tuple[Paginator, Callable[[int | None], Api], list[list[int]]]:
    pages = numbered(draw(st.lists(st.integers(0, 5), min_size=1, max_size=12)))
    location = draw(st.sampled_from(["link", "query", "body", "header"]))
    if location == "link":
        return NextLink("meta.next"), lambda last: link_api(pages, last), pages
    cursor = Cursor("meta.next", "after", location)  # type: ignore[arg-type]
    return cursor, lambda last: cursor_api(pages, location, last), pages


@given(walks())
def test_all_items_once_in_order(case: tuple[Any, ...]) -> None:
    """H2: whatever the sizes of the pages, empty ones included, each item comes once and in order."""
    paginator, api, pages = case
    state = PageState(paginator)
    assert walk(state, api(None)) == [item for page in pages for item in page]
    assert state.progress == Progress(len(pages), sum(map(len, pages)))


@given(walks(), st.data())
def test_resumed_anywhere(case: tuple[Any, ...], data: st.DataObject) -> None:
    """H3: a walk resumed from the JSON of its next request goes on where it was, and asks nothing twice."""
    paginator, api, pages = case
    first = PageState(paginator)
    before = walk(first, api(None), pages=data.draw(st.integers(0, len(pages) - 1)))
    stored = json.loads(json.dumps(msgspec.to_builtins((first.request, first.progress))))
    request, progress = msgspec.convert(stored, tuple[PageRequest, Progress])
    resumed = PageState(load_paginator(dump_paginator(paginator)), request, progress)
    assert before + walk(resumed, api(None)) == [item for page in pages for item in page]


@given(walks(), st.data())
def test_circles_of_any_length(case: tuple[Any, ...], data: st.DataObject) -> None:
    """A last page that leads back to any page before it ends the walk with an error, soon."""
    paginator, api, pages = case
    back = data.draw(st.integers(0, len(pages) - 1))
    state = PageState(paginator)
    with pytest.raises(CursorCycleError) as caught:
        walk(state, api(back))
    assert caught.value.first in (back + 1, back + 2, len(pages) + 1)
    assert state.progress.pages <= len(pages) + 1


@given(walks(), counts, st.data())
def test_stops_end_a_circle(case: tuple[Any, ...], n: int, data: st.DataObject) -> None:
    """H11: a total and a number of pages end the walk, though the API always names a next page."""
    paginator, api, pages = case
    total = sum(map(len, pages))
    limit = MaxPages(min(n, len(pages)))
    stop: StopCondition = data.draw(st.sampled_from([limit, limit | MaxItems(total + 1)]))
    state = PageState(msgspec.structs.replace(paginator, stop=stop))
    walk(state, api(0))
    assert state.progress.pages == min(n, len(pages))


@given(paginators)
def test_specs_round_trip(paginator: Paginator) -> None:
    """H4: a spec is equal after its dict went through JSON."""
    assert load_paginator(json.loads(json.dumps(dump_paginator(paginator)))) == paginator


@given(requests)
def test_requests_round_trip(request: PageRequest) -> None:
    """A request is equal, and the same for the memory of a walk, after it went through JSON."""
    loaded = msgspec.convert(json.loads(json.dumps(msgspec.to_builtins(request))), PageRequest)
    assert loaded == request
    assert loaded.digest() == request.digest()


@given(st.dictionaries(names, names), st.dictionaries(names, names), st.dictionaries(names, names))
def test_parameters_are_never_doubled(
    linked: dict[str, str], asked: dict[str, str], own: dict[str, str]
) -> None:
    """H10: of link, request and operator, each parameter is sent once, and the right one wins."""
    url, params = PageRequest(url=f"{ENDPOINT}?{urlencode(linked)}", params=asked).address("", own)
    sent = [*parse_qsl(urlsplit(url).query, keep_blank_values=True), *params.items()]
    assert sorted(sent) == sorted({**own, **linked, **asked}.items())


@given(st.dictionaries(names, names), st.dictionaries(names, names))
def test_links_win(linked: dict[str, str], own: dict[str, str]) -> None:
    """H10: a link's own value stays, and only what it lacks is added."""
    url, params = merge_query(f"{ENDPOINT}?{urlencode(linked)}", own)
    sent = [*parse_qsl(urlsplit(url).query, keep_blank_values=True), *params.items()]
    assert sorted(sent) == sorted({**own, **linked}.items())


@given(stops, stops, st.integers(0, 5), st.builds(Progress, counts, counts))
def test_composed_stops(first: Any, second: Any, items: int, progress: Progress) -> None:
    """``|`` is or, ``&`` is and, for conditions of any depth."""
    body = {
        "next": 500,
        "meta": {"next": 10},
        "@odata.nextLink": 1,
        "rows": [{"id": 2}],
        "a": [{"b": "c", "d": 3}],
    }
    page = PageView(url=ENDPOINT, body=body, headers={}, items=items)
    one, other = first.met(page, progress), second.met(page, progress)
    assert (first | second).met(page, progress) is (one or other)
    assert (first & second).met(page, progress) is (one and other)


@given(st.text(max_size=30))
def test_host_policy_answers_for_any_text(text: str) -> None:
    """Whatever a link is, it is either followed or refused with our own error, never with another one."""
    policy = HostPolicy("https://api.example")
    for url in (text, f"https://{text}", f"https://api.example{text}"):
        with suppress(ForeignHostError):
            policy.check(url, "a link")
