# SPDX-License-Identifier: Apache-2.0
"""The paged API server, asked by a plain HTTP client."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import httpx
import pytest

from harness.api import ApiSettings, PagedApi, make_item
from harness.processes import wait_until

SECONDS = 10.0


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    """A thread for a request that the test holds."""
    with ThreadPoolExecutor(1) as threads:
        yield threads


def get(api: PagedApi, path: str, **arguments: object) -> httpx.Response:
    with httpx.Client(base_url=api.url, timeout=SECONDS, trust_env=False) as client:
        return client.request("GET", path, **arguments)  # type: ignore[arg-type]


def cursors(api: PagedApi, most: int = 10) -> list[str]:
    """Follow cursors from the first page, and return them."""
    seen: list[str] = []
    token = get(api, "/cursor").json()["meta"]["next"]
    while token is not None and len(seen) < most:
        seen.append(token)
        token = get(api, "/cursor", params={"after": token}).json()["meta"]["next"]
    return seen


def test_items_are_numbered_through() -> None:
    """The items of a page are the ones that make_item makes."""
    with PagedApi(ApiSettings(pages=3, items=2)) as api:
        page = get(api, "/cursor", params={"after": "after-1"}).json()
    assert page["items"] == [make_item(2), make_item(3)]


def test_default_item_has_about_a_hundred_bytes() -> None:
    """An item is about 100 bytes of JSON unless a test wants more."""
    with PagedApi(ApiSettings(pages=1, items=100)) as api:
        size = len(get(api, "/cursor").content) / 100
    assert 80 < size < 120


def test_cursors_lead_to_the_last_page() -> None:
    """Each page but the last has a cursor."""
    with PagedApi(ApiSettings(pages=4)) as api:
        seen = cursors(api)
    assert seen == ["after-1", "after-2", "after-3"]


def test_last_page_says_that_there_is_no_more() -> None:
    """The last page has no cursor, and the total of all pages."""
    with PagedApi(ApiSettings(pages=3, items=5)) as api:
        meta = get(api, "/cursor", params={"after": "after-2"}).json()["meta"]
    assert meta == {"next": None, "total": 15, "pages": 3, "has_more": False}


def test_cursor_may_come_in_a_json_body() -> None:
    """A POST that carries the cursor in its body gets that page."""
    with PagedApi(ApiSettings(pages=3, items=1)) as api:
        page = httpx.post(f"{api.url}/cursor", json={"after": "after-2"}, trust_env=False).json()
    assert page["items"] == [make_item(2)]


def test_next_link_keeps_other_parameters() -> None:
    """Parameters of the client are in the next link, each of them once."""
    with PagedApi(ApiSettings(pages=3)) as api:
        link = get(api, "/next-link", params={"size": "7"}).json()["next"]
    assert dict(httpx.URL(link).params.multi_items()) == {"size": "7", "page": "1"}


def test_next_link_may_lead_to_another_host() -> None:
    """A page's link leads to the given base URL."""
    with PagedApi(ApiSettings(pages=3, foreign={0: "http://other.example"})) as api:
        link = get(api, "/next-link").json()["next"]
    assert httpx.URL(link).host == "other.example"


def test_cycle_of_cursors_never_ends() -> None:
    """A page's cursor may lead back to an earlier page."""
    with PagedApi(ApiSettings(pages=4, cycle={2: 1})) as api:
        seen = cursors(api, most=5)
    assert seen == ["after-1", "after-2", "after-1", "after-2", "after-1"]


def test_failures_are_answered_once_each() -> None:
    """A page answers its failures in order, then works."""
    with PagedApi(ApiSettings(fail={0: [500, 429]})) as api:
        answered = [get(api, "/cursor").status_code for _ in range(4)]
    assert answered == [500, 429, 200, 200]


@pytest.mark.parametrize("value", ["7", "Wed, 21 Oct 2026 07:28:00 GMT"])
def test_failure_says_when_to_try_again(value: str) -> None:
    """Retry-After is sent as given: seconds or a date."""
    with PagedApi(ApiSettings(fail={0: [429]}, retry_after=value)) as api:
        response = get(api, "/cursor")
    assert response.headers["Retry-After"] == value


def test_page_may_fail_for_good() -> None:
    """A page that is broken says so in JSON, each time."""
    with PagedApi(ApiSettings(fail_for_good={0: 404})) as api:
        answers = [get(api, "/cursor") for _ in range(3)]
    assert [(answer.status_code, answer.json()) for answer in answers] == [
        (404, {"error": "page 0 is broken"})
    ] * 3


def test_connection_may_be_cut_without_an_answer() -> None:
    """A dropped page closes the connection once, and then works."""
    with PagedApi(ApiSettings(drop=frozenset({0}))) as api:
        with pytest.raises(httpx.RemoteProtocolError):
            get(api, "/cursor")
        again = get(api, "/cursor").status_code
    assert again == 200


def test_later_pages_need_the_cookie_of_the_first() -> None:
    """A client that forgets the cookie is refused."""
    with PagedApi(ApiSettings(cookies=True)) as api:
        status = get(api, "/cursor", params={"after": "after-1"}).status_code
    assert status == 403


def test_cookie_of_the_first_page_opens_later_pages() -> None:
    """A client that keeps the cookie is served."""
    with (
        PagedApi(ApiSettings(cookies=True)) as api,
        httpx.Client(base_url=api.url, trust_env=False) as client,
    ):
        client.get("/cursor")
        status = client.get("/cursor", params={"after": "after-1"}).status_code
    assert status == 200


@pytest.mark.parametrize(
    ("login", "status"), [(None, 401), (("user", "wrong"), 401), (("user", "word"), 200)]
)
def test_login_is_demanded(login: tuple[str, str] | None, status: int) -> None:
    """Only the right user and password are let in."""
    with PagedApi(ApiSettings(login=("user", "word"))) as api:
        response = get(api, "/cursor", auth=login)
    assert response.status_code == status


def test_page_may_redirect() -> None:
    """A page answers 302 with the given place."""
    with PagedApi(ApiSettings(redirect={0: "/single?page=7"})) as api:
        response = get(api, "/cursor")
    assert (response.status_code, response.headers["Location"]) == (302, "/single?page=7")


def test_page_may_have_bytes_for_a_body() -> None:
    """A body of bytes is sent untouched, with its media type."""
    with PagedApi(ApiSettings(bodies={0: b"\x00\xff"}, content_type="image/png")) as api:
        response = get(api, "/single")
    assert (response.content, response.headers["Content-Type"]) == (b"\x00\xff", "image/png")


def test_page_may_have_any_json_for_a_body() -> None:
    """A body that is not bytes is sent as JSON."""
    with PagedApi(ApiSettings(bodies={0: ["\x00", {"b": 1, "a": None}]})) as api:
        response = get(api, "/single")
    assert response.json() == ["\x00", {"b": 1, "a": None}]


def test_requests_are_recorded_whole() -> None:
    """What a client sent is there for a test to look at."""
    with PagedApi() as api:
        httpx.post(f"{api.url}/cursor?size=3", content=b"hello", headers={"X-Word": "w"}, trust_env=False)
        (seen,) = api.requests
    assert (
        seen.method,
        seen.path,
        seen.query,
        seen.page,
        seen.body,
        seen.headers["X-Word"],
        seen.status,
    ) == (
        "POST",
        "/cursor",
        "size=3",
        0,
        b"hello",
        "w",
        200,
    )


def test_pages_asked_for_are_known_in_order() -> None:
    """The numbers of the pages tell what a client did, retries included."""
    with PagedApi(ApiSettings(pages=3)) as api:
        cursors(api)
        get(api, "/cursor", params={"after": "after-1"})
        asked = api.asked()
    assert asked == [0, 1, 2, 1]


def test_held_page_is_not_answered_before_its_release(pool: ThreadPoolExecutor) -> None:
    """A held request has come, but has no answer yet."""
    with PagedApi() as api:
        api.hold(0)
        answer: Future[httpx.Response] = pool.submit(get, api, "/cursor")
        api.wait_held(0, SECONDS)
        answered_early = answer.done() or api.requests[0].ended is not None
        api.release(0)
        status = answer.result(SECONDS).status_code
    assert (answered_early, status) == (False, 200)


def test_other_pages_are_answered_while_one_is_held(pool: ThreadPoolExecutor) -> None:
    """A held page stops nobody else."""
    with PagedApi() as api:
        api.hold(0)
        answer: Future[httpx.Response] = pool.submit(get, api, "/cursor")
        api.wait_held(0, SECONDS)
        status = get(api, "/cursor", params={"after": "after-1"}).status_code
        api.release(0)
        answer.result(SECONDS)
    assert status == 200


def test_waiting_for_a_request_that_never_comes_is_an_error() -> None:
    """The error names the page."""
    with PagedApi() as api:
        api.hold(3)
        with pytest.raises(TimeoutError, match="no request for page 3"):
            api.wait_held(3, 0.01)


def test_client_that_leaves_is_noticed() -> None:
    """A request whose client closes the connection is recorded as left, without a status."""
    with PagedApi() as api:
        api.hold(0)
        host, port = httpx.URL(api.url).host, httpx.URL(api.url).port
        with socket.create_connection((host, port), SECONDS) as connection:
            connection.sendall(b"GET /cursor HTTP/1.1\r\nHost: here\r\n\r\n")
            api.wait_held(0, SECONDS)
        wait_until(lambda: api.requests[0].client_left, SECONDS, "the API notices that its client left", 0.02)
        (seen,) = api.requests
    assert (seen.client_left, seen.status) == (True, None)


def test_server_ends_while_a_page_is_held(pool: ThreadPoolExecutor) -> None:
    """Leaving the block releases what is held, and ends the thread."""
    with PagedApi() as api:
        api.hold(0)
        answer: Future[httpx.Response] = pool.submit(get, api, "/cursor")
        api.wait_held(0, SECONDS)
    answer.exception(SECONDS)
    assert "paged-api" not in {thread.name for thread in threading.enumerate()}
