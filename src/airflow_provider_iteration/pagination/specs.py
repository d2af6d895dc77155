# SPDX-License-Identifier: Apache-2.0
"""
How an API's next page is asked for: frozen specs, each one a plain dict as well.

A new kind of paging is one class here, its line in :data:`AnyPaginator`, and its name in the package's
``__all__``.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias, get_args

import msgspec

from airflow_provider_iteration.exceptions import PathError
from airflow_provider_iteration.pagination.paths import (
    compile_path,
    find,
    json_type,
    parent_is_missing,
    whereabouts,
)
from airflow_provider_iteration.pagination.request import PageRequest, PageView, merge_query, resolve_next
from airflow_provider_iteration.pagination.stops import AnyStop, check_stop

Location: TypeAlias = Literal["query", "body", "header"]


class Paginator(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    tag_field="type",
    forbid_unknown_fields=True,
    omit_defaults=True,
):
    """
    Base of the specs. They hold no state; :class:`~airflow_provider_iteration.pagination.PageState` does.

    :param stop: ends the walk in good order, whatever the page says about a next one.
    """

    stop: AnyStop | None = None

    def __post_init__(self) -> None:
        if self.stop is not None:
            check_stop("stop", self.stop)

    def check_first(self, page: PageView) -> None:
        """
        Refuse a first page that cannot have been meant, before a wrong path passes for the last page.

        :param page: the first page.
        :raises PathError: if the page has no place at all for what this spec reads.
        """

    def following(self, page: PageView, asked: PageRequest) -> PageRequest | None:
        """
        Say what to ask for after a page.

        :param page: the page that came.
        :param asked: the request that it came for.
        :return: the next request, or None if this page is the last.
        :raises PathError: if what is at the path can be no link or token.
        """
        raise NotImplementedError


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
        _check_flag("optional", self.optional)

    def check_first(self, page: PageView) -> None:
        if not self.optional:
            _check_place(self.path, page)

    def following(self, page: PageView, asked: PageRequest) -> PageRequest | None:
        link = _read(self.path, page, (str,))
        if link is None:
            return None
        url, params = merge_query(resolve_next(page.url, link), asked.params)
        return PageRequest(url=url, params=params, headers=asked.headers, body=asked.body)


class Cursor(Paginator, frozen=True, tag="cursor"):
    """
    The body has a token, which is sent as a parameter of the next request.

    A page such as ::

        {"orders": [...], "meta": {"next": "b3JkZXI6NDI"}}

    is read with ``Cursor("meta.next", "after")``: the next request has ``?after=b3JkZXI6NDI`` and otherwise
    the parameters of this one. Null, an empty text, ``false`` or no such key end the walk. Where a token of
    0 means the end, add ``stop=HasMore("meta.next")``.

    :param path: where the token is in the body, a text or a number.
    :param param: name of the parameter, of the field of the JSON body, or of the header.
    :param location: where it is sent: ``"query"``, ``"body"`` or ``"header"``.
    :param optional: accept a first page without even the object around the token, as of an API that
        leaves ``meta`` out when everything fits on one page.
    """

    path: str
    param: str
    location: Location = "query"
    optional: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        compile_path("path", self.path)
        _check_name("param", self.param)
        _check_choice("location", self.location, get_args(Location))
        _check_flag("optional", self.optional)

    def check_first(self, page: PageView) -> None:
        if not self.optional:
            _check_place(self.path, page)

    def following(self, page: PageView, asked: PageRequest) -> PageRequest | None:
        token = _read(self.path, page, (str, int, float))
        if token is None:
            return None
        if self.location == "query":
            return msgspec.structs.replace(asked, params={**asked.params, self.param: token})
        if self.location == "body":
            return msgspec.structs.replace(asked, body={**asked.body, self.param: token})
        return msgspec.structs.replace(asked, headers=_with_header(asked.headers, self.param, str(token)))


class SinglePage(Paginator, frozen=True, tag="single_page"):
    """
    There is one page and no next one.

    ``{"orders": [...]}`` is read with ``SinglePage()``, which has nothing to set.
    """

    def following(self, page: PageView, asked: PageRequest) -> PageRequest | None:
        return None


AnyPaginator: TypeAlias = (
    NextLink
    | Cursor
    | SinglePage
)  # fmt: skip
PAGINATORS: tuple[type[Paginator], ...] = get_args(AnyPaginator)


def _read(path: str, page: PageView, kinds: tuple[type, ...]) -> Any:
    """Return the link or token, or None where it says that this is the last page."""
    value = find(path, page.body)
    if value is None or value is False or value == "":
        return None
    if isinstance(value, bool) or not isinstance(value, kinds):
        wanted = "a link (a string)" if kinds == (str,) else "a token (a string or a number)"
        raise PathError(f"path {path!r} leads to {json_type(value)}, not to {wanted}")
    return value


def _check_place(path: str, page: PageView) -> None:
    if parent_is_missing(path, page.body):
        raise PathError(
            f"page 1 has no place for path {path!r}: {whereabouts(path, page.body)}. Correct the path, or "
            "set optional=True if the API leaves it out when there is only one page"
        )


def _with_header(headers: dict[str, str], name: str, value: str) -> dict[str, str]:
    others = {key: kept for key, kept in headers.items() if key.lower() != name.lower()}
    return {**others, name: value}


def _check_name(argument_name: str, value: Any) -> None:
    if not isinstance(value, str):
        raise TypeError(f"{argument_name}: expected a name (str), got {type(value).__name__}")
    if not value:
        raise ValueError(f"{argument_name}: expected a name, got an empty text")


def _check_flag(argument_name: str, value: Any) -> None:
    if not isinstance(value, bool):
        raise TypeError(f"{argument_name}: expected True or False, got {type(value).__name__}")


def _check_choice(argument_name: str, value: Any, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ValueError(f"{argument_name}: expected one of {', '.join(map(repr, choices))}, got {value!r}")
