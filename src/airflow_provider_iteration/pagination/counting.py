# SPDX-License-Identifier: Apache-2.0
"""Paginators that count: pages, or items."""

from __future__ import annotations

from typing import ClassVar, Literal, get_args

from airflow_provider_iteration.exceptions import PaginationError
from airflow_provider_iteration.pagination.base import (
    Location,
    Paginator,
    check_choice,
    check_flag,
    check_parameters,
    check_whole,
    parameter,
    with_parameter,
)
from airflow_provider_iteration.pagination.request import PageRequest, PageView

Step = Literal["items", "limit"]


class Offset(Paginator, frozen=True, tag="offset"):
    """
    Each request says how many items to leave out.

    An API that answers ``GET /orders?offset=200&limit=100`` with ::

        {"orders": [...], "total": 1042}

    is read with ``Offset(limit=100)``, and without the last, empty page with
    ``Offset(limit=100, stop=TotalReached("total"))``. A page without items ends the walk.

    The offset grows by the number of items that came, so nothing is left out where the API gives fewer than
    asked for. An API that takes items out of a page *after* it has counted them needs ``step="limit"``.

    :param limit: how many items to ask for.
    :param param: name of the parameter with the offset; in a body, a path with dots.
    :param limit_param: name of the parameter with the limit; None sends none.
    :param start: the first offset.
    :param step: what the offset grows by: ``"items"``, those that came, or ``"limit"``.
    :param location: where both are sent: ``"query"``, ``"body"`` or ``"header"``.
    :param end_on_empty: False goes on after a page without items, as of an API that filters after it has
        counted; it needs ``step="limit"`` and a ``stop``.
    """

    reads_body: ClassVar[bool] = False
    needs_stop: ClassVar[bool] = True

    limit: int = 100
    param: str = "offset"
    limit_param: str | None = "limit"
    start: int = 0
    step: Step = "items"
    location: Location = "query"
    end_on_empty: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_whole("limit", self.limit, 1)
        check_whole("start", self.start, 0)
        check_choice("step", self.step, get_args(Step))
        check_choice("location", self.location, get_args(Location))
        check_parameters(self.location, param=self.param, limit_param=self.limit_param)
        check_flag("end_on_empty", self.end_on_empty)

        if not self.end_on_empty and (self.stop is None or self.step == "items"):
            raise ValueError('end_on_empty=False: needs step="limit", and a stop that ends the walk')

    @property
    def needs_items(self) -> bool:
        return self.step == "items"

    def first(self) -> PageRequest:
        request = with_parameter(PageRequest(), self.location, self.param, self.start)
        if self.limit_param is None:
            return request
        return with_parameter(request, self.location, self.limit_param, self.limit)

    def following(self, page: PageView, asked: PageRequest) -> PageRequest | None:
        if page.items == 0 and self.end_on_empty:
            return None
        offset = _counted(asked, self.location, self.param)
        grown = offset + (page.items if self.step == "items" else self.limit)
        return with_parameter(asked, self.location, self.param, grown)


class PageNumber(Paginator, frozen=True, tag="page_number"):
    """
    Each request says the number of its page.

    An API that answers ``GET /orders?page=3`` with ::

        {"orders": [...], "pages": 11}

    is read with ``PageNumber()``, and without the last, empty page with
    ``PageNumber(stop=TotalPages("pages"))``. A page without items ends the walk.

    :param param: name of the parameter; in a body, a path with dots.
    :param start: number of the first page.
    :param size: how many items to ask for; None leaves it to the API.
    :param size_param: name of the parameter with the size.
    :param location: where they are sent: ``"query"``, ``"body"`` or ``"header"``.
    :param end_on_empty: False goes on after a page without items, as of an API that filters after it has
        counted; it needs a ``stop``.
    """

    reads_body: ClassVar[bool] = False
    needs_stop: ClassVar[bool] = True

    param: str = "page"
    start: int = 1
    size: int | None = None
    size_param: str | None = None
    location: Location = "query"
    end_on_empty: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_whole("start", self.start, 0)
        check_choice("location", self.location, get_args(Location))
        check_parameters(self.location, param=self.param, size_param=self.size_param)
        check_flag("end_on_empty", self.end_on_empty)
        if (self.size is None) != (self.size_param is None):
            missing = "size" if self.size is None else "size_param"
            raise ValueError(f"{missing}: size and size_param go together")
        if not self.end_on_empty and self.stop is None:
            raise ValueError("end_on_empty=False: needs a stop that ends the walk")
        if self.size is not None:
            check_whole("size", self.size, 1)

    def first(self) -> PageRequest:
        request = with_parameter(PageRequest(), self.location, self.param, self.start)
        if self.size_param is None:
            return request
        return with_parameter(request, self.location, self.size_param, self.size)

    def following(self, page: PageView, asked: PageRequest) -> PageRequest | None:
        if page.items == 0 and self.end_on_empty:
            return None
        number = _counted(asked, self.location, self.param)
        return with_parameter(asked, self.location, self.param, number + 1)


def _counted(asked: PageRequest, location: Location, name: str) -> int:
    value = parameter(asked, location, name)
    try:
        return int(value)
    except (TypeError, ValueError):
        raise PaginationError(f"the request that was asked has no number as parameter {name!r}") from None
