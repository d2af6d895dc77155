# SPDX-License-Identifier: Apache-2.0
"""
How an API's next page is asked for: frozen specs, each one a plain dict as well.

A new kind of paging is one class, its line in :data:`AnyPaginator`, and its name in the package's
``__all__``.
"""

from __future__ import annotations

from typing import ClassVar, TypeAlias, get_args

from airflow_provider_iteration.pagination.base import (
    Location,
    Paginator,
    check_choice,
    check_flag,
    check_parameters,
    check_place,
    read_value,
    with_parameter,
)
from airflow_provider_iteration.pagination.counting import Offset, PageNumber
from airflow_provider_iteration.pagination.links import LinkHeader, NextLink
from airflow_provider_iteration.pagination.paths import compile_path
from airflow_provider_iteration.pagination.request import PageRequest, PageView


class Cursor(Paginator, frozen=True, tag="cursor"):
    """
    The body has a token, which is sent as a parameter of the next request.

    A page such as ::

        {"orders": [...], "meta": {"next": "b3JkZXI6NDI"}}

    is read with ``Cursor("meta.next", "after")``: the next request has ``?after=b3JkZXI6NDI`` and otherwise
    the parameters of this one. Null, an empty text, ``false`` or no such key end the walk. Where a token of
    0 means the end, add ``stop=HasMore("meta.next")``.

    :param path: where the token is in the body, a text or a number.
    :param param: name of the parameter, of the header, or of the field of the JSON body: there it is a
        path with dots, such as GraphQL's ``variables.after``.
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
        check_choice("location", self.location, get_args(Location))
        check_parameters(self.location, param=self.param)
        check_flag("optional", self.optional)

    def check_first(self, page: PageView) -> None:
        if not self.optional:
            check_place(self.path, page)

    def looked_for(self) -> tuple[str, ...]:
        return (self.path,)

    def following(self, page: PageView, asked: PageRequest) -> PageRequest | None:
        token = read_value(self.path, page, (str, int, float))
        if token is None:
            return None
        return with_parameter(asked, self.location, self.param, token)


class SinglePage(Paginator, frozen=True, tag="single_page"):
    """
    There is one page and no next one.

    ``{"orders": [...]}`` is read with ``SinglePage()``, which has nothing to set.
    """

    reads_body: ClassVar[bool] = False

    def following(self, page: PageView, asked: PageRequest) -> PageRequest | None:
        return None


AnyPaginator: TypeAlias = (
    NextLink
    | LinkHeader
    | Cursor
    | Offset
    | PageNumber
    | SinglePage
)  # fmt: skip
PAGINATORS: tuple[type[Paginator], ...] = get_args(AnyPaginator)
