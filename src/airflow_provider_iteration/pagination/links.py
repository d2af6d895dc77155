# SPDX-License-Identifier: Apache-2.0
"""Paginators that follow a link to the next page."""

from __future__ import annotations

import re
from collections.abc import Iterator

from airflow_provider_iteration.pagination.base import (
    Paginator,
    check_flag,
    check_name,
    check_place,
    read_value,
)
from airflow_provider_iteration.pagination.paths import compile_path
from airflow_provider_iteration.pagination.request import PageRequest, PageView, merge_query, resolve_next

_LINK = re.compile(r"\s*<([^>]*)>((?:[^\",]|\"(?:[^\"\\]|\\.)*\")*)(?:,|$)")
_PARAMETER = re.compile(r";\s*([^\s=;]+)\s*(?:=\s*(?:\"((?:[^\"\\]|\\.)*)\"|([^\s;]*)))?")


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
    """

    path: str = "next"
    optional: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        compile_path("path", self.path)
        check_flag("optional", self.optional)

    def check_first(self, page: PageView) -> None:
        if not self.optional:
            check_place(self.path, page)

    def following(self, page: PageView, asked: PageRequest) -> PageRequest | None:
        link = read_value(self.path, page, (str,))
        return None if link is None else _to(link, page, asked)


class LinkHeader(Paginator, frozen=True, tag="link_header"):
    """
    The response has a ``Link`` header (RFC 8288) with the next page, absolute or relative.

    A response such as ::

        Link: <https://shop.example/orders?page=2>; rel="next", <...?page=9>; rel="last"

        [{"id": 1}, ...]

    is read with ``LinkHeader()``. The link's own query parameters win over those asked with before, and
    none is sent twice. No such header, or none with the relation, ends the walk.

    :param rel: relation of the link, in any case of letters.
    """

    rel: str = "next"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_name("rel", self.rel)

    def following(self, page: PageView, asked: PageRequest) -> PageRequest | None:
        for target, relations in links_of(page.headers.get("link", "")):
            if self.rel.lower() in relations:
                return _to(target, page, asked)
        return None


def links_of(header: str) -> Iterator[tuple[str, list[str]]]:
    """
    Yield the links of a ``Link`` header, with their relations in lower case.

    Links with an anchor of their own speak of another resource and are left out.

    :param header: the header; several are joined by commas.
    """
    position = 0
    while found := _LINK.match(header, position):
        position = found.end()
        target, text = found.groups()
        parameters: dict[str, str] = {}
        for name, quoted, plain in _PARAMETER.findall(text):
            # Of several of a name the first counts (RFC 8288, 3.3).
            parameters.setdefault(name.lower(), re.sub(r"\\(.)", r"\1", quoted) or plain)
        if not parameters.get("anchor"):
            yield target, parameters.get("rel", "").lower().split()
        if position >= len(header):
            return


def _to(link: str, page: PageView, asked: PageRequest) -> PageRequest:
    url, params = merge_query(resolve_next(page.url, link), asked.params)
    return PageRequest(url=url, params=params, headers=asked.headers, body=asked.body)
