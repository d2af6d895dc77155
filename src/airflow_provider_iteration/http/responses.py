# SPDX-License-Identifier: Apache-2.0
"""A response of aiohttp as one of ``requests``, which is what callables of the stock operator know."""

from __future__ import annotations

import io
from datetime import timedelta
from http.cookies import Morsel
from typing import Any

import aiohttp
import requests
from requests.structures import CaseInsensitiveDict
from requests.utils import get_encoding_from_headers
from urllib3 import HTTPHeaderDict, HTTPResponse


def as_requests(
    response: aiohttp.ClientResponse, body: bytes, sent: requests.PreparedRequest | None, seconds: float
) -> requests.Response:
    """
    Convert a response, losing nothing.

    Several values of one header are joined by commas, as ``requests`` does;
    ``response.raw.headers.getlist(name)`` has them one by one.

    :param response: the response; its body has been read.
    :param body: the body, decompressed.
    :param sent: the request that it answers.
    :param seconds: how long it took.
    """
    made: Any = requests.Response()
    several = HTTPHeaderDict((name, value) for name, value in response.headers.items())
    made.status_code = response.status
    made.reason = response.reason
    made.url = str(response.url)
    made.headers = CaseInsensitiveDict((name, several[name]) for name in several)
    made.encoding = get_encoding_from_headers(made.headers)
    made.request = sent
    made.elapsed = timedelta(seconds=seconds)
    made.history = [as_requests(earlier, b"", sent, 0.0) for earlier in response.history]
    made._content = body
    made._content_consumed = True
    made.raw = HTTPResponse(
        io.BytesIO(body),
        headers=several,
        status=response.status,
        reason=response.reason,
        preload_content=False,
    )
    for morsel in response.cookies.values():
        made.cookies.set_cookie(_cookie(morsel, response.url.host or ""))
    converted: requests.Response = made
    return converted


def media_type(response: requests.Response) -> str:
    """Return the media type of a response, in lower case and without parameters."""
    declared = response.headers.get("Content-Type", "application/octet-stream")
    return declared.partition(";")[0].strip().lower()


def _cookie(morsel: Morsel[str], host: str) -> Any:
    max_age = str(morsel["max-age"])
    return requests.cookies.create_cookie(
        morsel.key,
        morsel.value,
        domain=morsel["domain"] or host,
        path=morsel["path"] or "/",
        secure=bool(morsel["secure"]),
        rest={"HttpOnly": morsel["httponly"]} if morsel["httponly"] else {},
        expires=None if not max_age.lstrip("-").isdigit() else _expiry(int(max_age)),
    )


def _expiry(max_age: int) -> int:
    import time

    return int(time.time()) + max_age
