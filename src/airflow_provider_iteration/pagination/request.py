# SPDX-License-Identifier: Apache-2.0
"""A request for a page, the page that came, and what may be done with their URLs."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from hashlib import blake2b
from typing import Any
from urllib.parse import parse_qsl, unquote_plus, urldefrag, urljoin, urlsplit, urlunsplit

import msgspec

from airflow_provider_iteration.exceptions import PaginationError

DIGEST_BYTES = 16


class PageRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """
    How one page differs from the operator's own request. Plain JSON: it is a stream's resume cursor.

    :param url: absolute URL, or None for the operator's own endpoint.
    :param params: query parameters on top of the operator's own.
    :param headers: headers on top of the operator's own.
    :param body: fields on top of those of the operator's own JSON body; mappings are merged at every depth.
    :param override: what a ``pagination_function`` returned: ``endpoint``, ``data``, ``headers`` and
        ``extra_options`` to lay over the operator's own.
    :param exact: whether the URL is sent as it is, without the operator's own query parameters.
    """

    url: str | None = None
    params: dict[str, Any] = {}
    headers: dict[str, str] = {}
    body: dict[str, Any] = {}
    override: dict[str, Any] | None = None
    exact: bool = False

    def address(self, endpoint: str, params: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        """
        Give the URL and the query parameters to send, no parameter twice.

        This request's parameters win over those in the URL, and these win over the operator's.

        :param endpoint: absolute URL of the operator's own endpoint.
        :param params: the operator's own query parameters.
        :return: the URL, and the parameters to send with it.
        """
        if self.exact and self.url is not None:
            return self.url, {}
        url = drop_query(self.url or endpoint, self.params)
        return merge_query(url, {**params, **self.params})

    def digest(self) -> bytes:
        """
        Identify the request: equal for two that ask the same, whichever way it is written.

        :return: 16 bytes from which no value can be read.
        """
        url = drop_query(self.url or "", self.params)
        headers = sorted((name.lower(), value) for name, value in self.headers.items())
        query = sorted([*_query_pairs(url), *_param_pairs(self.params)], key=lambda pair: pair[0])
        asked = [_without_query(url), query, headers, self.body, self.override]
        text = json.dumps(asked, sort_keys=True, default=repr)
        return blake2b(text.encode(), digest_size=DIGEST_BYTES).digest()

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [("url", None if self.url is None else shown_url(self.url))]

    def __repr__(self) -> str:
        return _redacted_repr(self)


class PageView(msgspec.Struct, frozen=True):
    """
    What a paginator gets to see of a page.

    :param url: absolute URL that answered, after redirects.
    :param body: decoded JSON.
    :param headers: response headers, their names in lower case.
    :param items: number of items in this page.
    :param status: HTTP status.
    :param content: digest of the body as it came, or None.
    """

    url: str
    body: Any
    headers: dict[str, str]
    items: int
    status: int = 200
    content: bytes | None = None

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [("url", shown_url(self.url)), ("items", self.items), ("status", self.status)]

    def __repr__(self) -> str:
        return _redacted_repr(self)


def digest_of(content: bytes) -> bytes:
    """Return a short digest of a body, to recognise it by."""
    return blake2b(content, digest_size=DIGEST_BYTES).digest()


def resolve_next(current_url: str, link: str) -> str:
    """
    Make a link absolute.

    :param current_url: absolute URL of the page that the link is in.
    :param link: an absolute or relative link; a fragment in it is dropped.
    :return: absolute URL. Whether it may be followed is for
        :class:`~airflow_provider_iteration.pagination.HostPolicy` to say.
    :raises PaginationError: if the link is no URL.
    """
    try:
        return urldefrag(urljoin(current_url, link.strip())).url
    except ValueError:
        raise PaginationError(
            f"the page at {shown_url(current_url)} has a next link that is no URL"
        ) from None


def merge_query(url: str, params: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """
    Leave out the parameters that a URL has already, so that none is sent twice; the URL's value wins.

    :param url: a URL; it is returned as it is, since it may be signed.
    :param params: query parameters that would be sent with it.
    :return: the URL, and the parameters still to be sent.
    """
    there = {name for name, _ in _query_pairs(url)}
    return url, {name: value for name, value in params.items() if name not in there}


def drop_query(url: str, names: Collection[str]) -> str:
    """
    Take parameters out of a URL's query; what stays is not touched.

    :param url: a URL.
    :param names: names of the parameters, not percent-encoded.
    """
    parts = urlsplit(url)
    if not names or not parts.query:
        return url
    kept = [field for field in parts.query.split("&") if unquote_plus(field.partition("=")[0]) not in names]
    return urlunsplit(parts._replace(query="&".join(kept)))


def merge_body(own: Mapping[str, Any], fields: Mapping[str, Any]) -> dict[str, Any]:
    """
    Lay fields over a body; mappings are merged at every depth.

    :param own: the operator's own body.
    :param fields: what a page puts into it.
    :raises PaginationError: if a field is to go below something that is no mapping.
    """
    return _merged(own, fields, "body")


def _merged(own: Mapping[str, Any], fields: Mapping[str, Any], place: str) -> dict[str, Any]:
    merged = dict(own)
    for name, value in fields.items():
        below = merged.get(name)
        if isinstance(value, Mapping) and below is not None:
            inner = f"{place}[{name!r}]"
            if not isinstance(below, Mapping):
                raise PaginationError(f"the paginator puts a field below {inner}, which is no mapping")
            merged[name] = _merged(below, value, inner)
        else:
            merged[name] = value
    return merged


def shown_url(url: str) -> str:
    """
    Give the part of a URL that a log may show: host and path.

    :param url: a URL.
    """
    try:
        parts = urlsplit(url)
    except ValueError:
        return "<not a URL>"
    return parts.netloc.rpartition("@")[2] + parts.path


def _redacted_repr(struct: PageRequest | PageView) -> str:
    shown = ", ".join(f"{name}={value!r}" for name, value in struct.__rich_repr__())
    return f"{type(struct).__name__}({shown})"


def _without_query(url: str) -> str:
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.lower(), parts.path or "/", "", ""))


def _query_pairs(url: str) -> list[tuple[str, str]]:
    return parse_qsl(urlsplit(url).query, keep_blank_values=True)


def _param_pairs(params: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name, value in params.items():
        for one in value if isinstance(value, (list, tuple)) else (value,):
            yield name, str(one)
