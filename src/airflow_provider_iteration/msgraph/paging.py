# SPDX-License-Identifier: Apache-2.0
"""How Microsoft Graph is paged through where nothing else is said."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from airflow_provider_iteration.pagination import PageRequest, PageView, Paginator
from airflow_provider_iteration.pagination.request import resolve_next

NEXT_LINK = "@odata.nextLink"
DELTA_LINK = "@odata.deltaLink"
COUNT = "@odata.count"
ITEMS = "value"
SKIP, TOP = "$skip", "$top"


class ODataPaging(Paginator, frozen=True):
    """
    Follows ``@odata.nextLink``; without any, counts by ``$skip`` and ``$top``, as the stock operator does.

    A next link has everything in it and is sent as it is. A page without one, that says ``@odata.count``
    and is full, is followed by the request with a ``$skip`` that is larger by ``$top``; the offset comes
    from the request, never from what was received. Once a link was followed, a page without one is the
    last.

    :param top: the ``$top`` of the operator's own request; None pages by links alone.
    :param skip: its ``$skip``.
    """

    top: int | None = None
    skip: int = 0

    @classmethod
    def of_query(cls, query: Mapping[str, Any] | None) -> ODataPaging:
        """
        Make the spec for an operator's query parameters; a number may be a text, as of a template.

        :param query: the query parameters, rendered.
        """
        query = query or {}
        return cls(top=_number(query.get(TOP)), skip=_number(query.get(SKIP)) or 0)

    def following(self, page: PageView, asked: PageRequest) -> PageRequest | None:
        if not isinstance(page.body, dict):
            return None
        link = page.body.get(NEXT_LINK)
        if isinstance(link, str) and link:
            return PageRequest(url=resolve_next(page.url, link), exact=True)
        if asked.url is not None or not self.top or not page.body.get(COUNT):
            return None
        items = page.body.get(ITEMS)
        if not isinstance(items, list) or len(items) != self.top:
            return None
        skipped = asked.params.get(SKIP, self.skip)
        return msgspec.structs.replace(asked, params={**asked.params, SKIP: skipped + self.top})


def _number(value: Any) -> int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    return int(value) if isinstance(value, str) and value.strip().isdecimal() else None
