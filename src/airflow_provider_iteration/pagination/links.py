# SPDX-License-Identifier: Apache-2.0
"""Paginators that follow a link to the next page."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import ClassVar, NamedTuple

from airflow_provider_iteration.pagination.base import (
    Paginator,
    check_flag,
    check_name,
    check_place,
    read_value,
)
from airflow_provider_iteration.pagination.paths import compile_path
from airflow_provider_iteration.pagination.request import PageRequest, PageView, merge_query, resolve_next

_QUOTED = r'"(?:[^"\\]|\\.)*+"?'
_LINK = re.compile(rf"(?:<[^>]*+>?|{_QUOTED}|[^,])++", re.DOTALL)
_TARGET = re.compile(r"\s*<([^>]*)>")
_PARAM = re.compile(rf";\s*([^\s=;]++)\s*+(?:=\s*+(?:({_QUOTED})|([^;]*)))?", re.DOTALL)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


class NextLink(Paginator, frozen=True, tag="next_link"):
    """
    The body has a link to the next page, absolute or relative.

    A page such as ::

        {"orders": [...], "links": {"next": "https://shop.example/orders?page=2"}}

    is read with ``NextLink("links.next")``, and OData's with ``NextLink('"@odata.nextLink"')``. The link's
    own query parameters win over those asked with before, and none is sent twice. Null, an empty text,
    ``false`` or no such key end the walk.

    :param path: where the link is in the body.
    :param optional: accept a first page without even the object around the link, as of an API that
        leaves ``links`` out when everything fits on one page.
    :param keep_params: whether the operator's own query parameters go with the link; False follows it as it
        is, for an API that refuses anything beside it.
    """

    path: str = "next"
    optional: bool = False
    keep_params: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        compile_path("path", self.path)
        check_flag("optional", self.optional)
        check_flag("keep_params", self.keep_params)

    def check_first(self, page: PageView) -> None:
        if not self.optional:
            check_place(self.path, page)

    def looked_for(self) -> tuple[str, ...]:
        return (self.path,)

    def following(self, page: PageView, asked: PageRequest) -> PageRequest | None:
        link = read_value(self.path, page, (str,))
        return None if link is None else _to(link, page, asked, self.keep_params)


class LinkHeader(Paginator, frozen=True, tag="link_header"):
    """
    The ``Link`` header has a link to the next page (RFC 8288), absolute or relative.

    A response such as ::

        Link: </orders?page=2>; rel="next", </orders?page=9>; rel="last"

        [{"id": 1}, {"id": 2}]

    is read with ``LinkHeader()``. The link's own query parameters win over those asked with before, and
    none is sent twice. A response without such a link ends the walk. A link with an ``anchor`` is about
    another resource, and is not followed.

    :param rel: the relation of the link to be followed; upper and lower case are the same.
    :param keep_params: as for :class:`NextLink`.
    """

    reads_body: ClassVar[bool] = False

    rel: str = "next"
    keep_params: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_flag("keep_params", self.keep_params)
        check_name("rel", self.rel)
        if len(self.rel.split()) != 1 or self.rel != self.rel.strip():
            raise ValueError("rel: expected one relation, such as 'next', without white space")

    def following(self, page: PageView, asked: PageRequest) -> PageRequest | None:
        for link in parse_links(page.headers.get("link", "")):
            if link.target and not link.anchor and self.rel.lower() in link.rels:
                return _to(link.target, page, asked, self.keep_params)
        return None


class Link(NamedTuple):
    """One link of a ``Link`` header: where it leads, its relations in lower case, its anchor."""

    target: str
    rels: tuple[str, ...]
    anchor: str


def parse_links(header: str) -> Iterator[Link]:
    """
    Read a ``Link`` header; what is malformed between two commas is skipped.

    :param header: its value, several of them joined by commas.
    """
    for value in _LINK.findall(header):
        if target := _TARGET.match(value):
            params = _params(value[target.end() :])
            rels = tuple(params.get("rel", "").lower().split())
            yield Link(target[1].strip(), rels, params.get("anchor", "").strip())


def _params(text: str) -> dict[str, str]:
    """Return the parameters of a link; of several with one name the first counts."""
    params: dict[str, str] = {}
    for name, quoted, token in _PARAM.findall(text):
        value = _ESCAPED.sub(r"\1", quoted[1:].removesuffix('"')) if quoted else token.strip()
        params.setdefault(name.lower(), value)
    return params


def _to(link: str, page: PageView, asked: PageRequest, keep_params: bool) -> PageRequest:
    url = resolve_next(page.url, link)
    if not keep_params:
        return PageRequest(url=url, headers=asked.headers, body=asked.body, exact=True)
    url, params = merge_query(url, asked.params)
    return PageRequest(url=url, params=params, headers=asked.headers, body=asked.body)
