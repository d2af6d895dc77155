# SPDX-License-Identifier: Apache-2.0
"""
What is sent for a page.

A request is prepared by the library that the stock hook sends with (``requests``): the same arguments make
the same bytes, whether the stock operator sends them or this package does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urljoin

import msgspec
import requests
from requests.auth import AuthBase, HTTPBasicAuth, HTTPDigestAuth

from airflow_provider_iteration.exceptions import PaginationError
from airflow_provider_iteration.http.transport import OF_THE_REQUEST
from airflow_provider_iteration.pagination import PageRequest
from airflow_provider_iteration.pagination.request import merge_body

# aiohttp counts the body and keeps connections itself, and knows best what it can decompress.
_LEFT_TO_AIOHTTP = ("Content-Length", "Connection", "Accept-Encoding")


class HttpRequest(NamedTuple):
    """
    The operator's own request, which each page's request is laid over.

    :param method: HTTP method.
    :param endpoint: path below the connection's base URL.
    :param data: query parameters of a GET request, otherwise the body: form fields or text.
    :param headers: headers on top of the connection's.
    :param extra_options: options of the stock hook, and ``json``, ``params``, ``cookies``, ``files`` and
        ``auth`` of the request itself.
    """

    method: str
    endpoint: str | None
    data: dict[str, Any] | str | None
    headers: Mapping[str, str]
    extra_options: Mapping[str, Any]

    def overridden(self, override: Mapping[str, Any] | None) -> HttpRequest:
        """
        Lay over it what a ``pagination_function`` returned, as the stock operator does.

        :param override: ``endpoint``, ``data``, ``headers`` and ``extra_options``, each of them optional.
        """
        if not override:
            return self
        data: Any = override.get("data") or self.data
        if isinstance(self.data, dict) and isinstance(data, dict):
            data = _deeply_merged(self.data, data)
        return self._replace(
            endpoint=override.get("endpoint") or self.endpoint,
            data=data,
            headers={**self.headers, **override.get("headers", {})},
            extra_options=_deeply_merged(self.extra_options, override.get("extra_options", {})),
        )


class Preparer:
    """
    Makes requests ready to be sent. Credentials may ask a server for a token: use a thread.

    :param base_url: URL of the connection.
    :param headers: headers of the connection.
    :param auth: credentials, or None.
    :param session: session whose environment counts.
    """

    def __init__(
        self,
        base_url: str,
        headers: Mapping[str, str],
        auth: AuthBase | None,
        session: requests.Session,
    ) -> None:
        self._base_url = base_url
        self._auth = None if isinstance(auth, HTTPDigestAuth) else auth
        self._session = session
        session.headers.update(headers)

    def address(self, own: HttpRequest, page: PageRequest) -> tuple[str, dict[str, Any]]:
        """
        Give the URL of a page and the query parameters to send with it, none twice.

        :param own: the operator's own request.
        :param page: how the page differs from it.
        """
        query = {
            **(_query(own.data) if own.method == "GET" else {}),
            **_query(own.extra_options.get("params")),
        }
        return page.address(join_url(self._base_url, own.endpoint), query)

    def prepare(self, own: HttpRequest, page: PageRequest) -> requests.PreparedRequest:
        """
        Make one request ready.

        :param own: the operator's own request.
        :param page: how the page differs from it.
        :raises PaginationError: if the paginator puts a field into a body that is no mapping.
        """
        params: dict[str, Any] | str
        url, params = self.address(own, page)
        if own.method == "GET" and isinstance(own.data, str) and not page.params and not page.exact:
            # As it is, but for a next link, which may have the same parameters.
            params = own.data if page.url is None else params
        options = own.extra_options
        arguments: dict[str, Any] = {
            name: options[name] for name in OF_THE_REQUEST - {"params"} if options.get(name) is not None
        }
        if isinstance(arguments.get("auth"), list):
            arguments["auth"] = tuple(arguments["auth"])
        arguments.setdefault("auth", self._auth)
        if own.method not in ("GET", "HEAD"):
            arguments["data"] = own.data or None
        if page.body:
            _put_into_body(arguments, page.body)
        headers = {**own.headers, **page.headers}
        request = requests.Request(own.method, url, params=params, headers=headers, **arguments)
        try:
            prepared = self._session.prepare_request(request)
        except (requests.exceptions.RequestException, UnicodeError) as error:
            # Its text has the value of the header, which may be a token.
            raise PaginationError(_why_unprepared(error, {**self._session.headers, **headers})) from None
        if prepared.hooks.get("response"):
            kind = type(arguments["auth"] or self._session.auth).__name__
            raise PaginationError(f"auth_type: {kind} wants to see responses, which is not supported here")
        for name in _LEFT_TO_AIOHTTP:
            if name.lower() not in {given.lower() for given in headers}:
                prepared.headers.pop(name, None)
        return prepared


def make_auth(auth_type: Any, login: str | None, password: str | None) -> AuthBase | None:
    """
    Make credentials as the stock hook does.

    :param auth_type: class of them, or None for basic authentication.
    :param login: login of the connection.
    :param password: password of the connection.
    """
    if auth_type is None or _is_basic_of_aiohttp(auth_type):
        return HTTPBasicAuth(login, password or "") if login else None
    made: AuthBase = auth_type(login, password) if login else auth_type()
    return made


def join_url(base_url: str, endpoint: str | None) -> str:
    """
    Join as the stock hooks do; an endpoint that is a URL stays as it is.

    :param base_url: URL of the connection.
    :param endpoint: path below it, or None.
    """
    if not endpoint:
        return base_url
    if endpoint.startswith(("http://", "https://")):
        return urljoin(base_url, endpoint)
    separator = "" if base_url.endswith("/") or endpoint.startswith("/") else "/"
    return f"{base_url}{separator}{endpoint}"


def _deeply_merged(own: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(own)
    for name, value in other.items():
        below = merged.get(name)
        if isinstance(below, Mapping) and isinstance(value, Mapping):
            merged[name] = _deeply_merged(below, value)
        else:
            merged[name] = value
    return merged


def _is_basic_of_aiohttp(auth_type: Any) -> bool:
    return (
        f"{getattr(auth_type, '__module__', '')}".startswith("aiohttp.") and auth_type.__name__ == "BasicAuth"
    )


def _query(data: Mapping[str, Any] | str | None) -> dict[str, Any]:
    if isinstance(data, str):
        pairs: dict[str, Any] = {}
        for name, value in parse_qsl(data.lstrip("?"), keep_blank_values=True):
            pairs.setdefault(name, []).append(value)
        return pairs
    if isinstance(data, (list, tuple)):
        several: dict[str, Any] = {}
        for name, value in data:
            several.setdefault(name, []).append(value)
        return several
    return dict(data or {})


def _why_unprepared(error: Exception, headers: Mapping[str, Any]) -> str:
    for name, value in headers.items():
        if not isinstance(value, (str, bytes)):
            return f"headers[{name!r}]: expected a text, got {type(value).__name__}"
        if value != value.strip() or any(mark in str(value) for mark in "\r\n"):
            return f"headers[{name!r}]: the value begins or ends with white space, or has a line break"
    return f"the request cannot be made ({type(error).__name__})"


def _put_into_body(arguments: dict[str, Any], fields: Mapping[str, Any]) -> None:
    place = "json" if "json" in arguments or not arguments.get("data") else "data"
    own = arguments.get(place) or {}
    if isinstance(own, str):
        own = _parsed(own)
        if own is not None:
            arguments[place] = msgspec.json.encode(merge_body(own, fields)).decode()
            return
    if not isinstance(own, Mapping):
        raise PaginationError(f"the paginator puts a field into the body, but {place} is no mapping")
    if place == "data" and any(isinstance(value, Mapping) for value in fields.values()):
        raise PaginationError(
            "the paginator puts a nested field into the body, and data is sent as a form: give the body as "
            "json in request_kwargs"
        )
    arguments[place] = merge_body(own, fields)


def _parsed(text: str) -> dict[str, Any] | None:
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except msgspec.DecodeError:
        return None
