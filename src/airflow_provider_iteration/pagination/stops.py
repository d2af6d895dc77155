# SPDX-License-Identifier: Apache-2.0
"""
When a walk over pages ends in good order.

Conditions compose: ``TotalReached("total") | MaxPages(50)`` ends at whichever comes first, and
``EmptyPage() & HasMore("more")`` ends when both say so. Each is a frozen value and a plain dict alike:
``{"type": "max_pages", "n": 50}``.
"""

from __future__ import annotations

from typing import Any, TypeAlias, get_args

import msgspec

from airflow_provider_iteration.exceptions import PathError
from airflow_provider_iteration.pagination.paths import (
    compile_path,
    find,
    json_type,
    parent_is_missing,
    whereabouts,
)
from airflow_provider_iteration.pagination.request import PageView


class Progress(msgspec.Struct, frozen=True):
    """
    How far a walk has come, the page at hand counted.

    :param pages: number of pages.
    :param items: number of items in them.
    """

    pages: int = 0
    items: int = 0

    def counting(self, page: PageView) -> Progress:
        """
        Count one more page.

        :param page: the page that came.
        """
        return Progress(self.pages + 1, self.items + page.items)


class StopCondition(msgspec.Struct, frozen=True, tag_field="type", forbid_unknown_fields=True):
    """Base of the conditions; ``|`` and ``&`` compose them."""

    def met(self, page: PageView, progress: Progress) -> bool:
        """
        Tell whether no page is to be asked for after this one.

        :param page: the page that came last.
        :param progress: pages and items so far, this page counted.
        :raises PathError: if the page does not have what the condition looks at.
        """
        raise NotImplementedError

    def counts_items(self) -> bool:
        """Tell whether it must know how many items a page has."""
        return False

    def reads_body(self) -> bool:
        """Tell whether it reads the body of a page, which must then be JSON."""
        return True

    def looked_for(self) -> tuple[str, ...]:
        """Return the paths in a page that end the walk if nothing is there."""
        return ()

    def __or__(self, other: StopCondition) -> AnyOf:
        return AnyOf(_both(self, other)) if isinstance(other, StopCondition) else NotImplemented

    def __and__(self, other: StopCondition) -> AllOf:
        return AllOf(_both(self, other)) if isinstance(other, StopCondition) else NotImplemented


class EmptyPage(StopCondition, frozen=True, tag="empty_page"):
    """
    Ends after a page without items.

    For an API that goes on answering ``{"orders": []}`` beyond its last page.
    """

    def counts_items(self) -> bool:
        return True

    def reads_body(self) -> bool:
        return False

    def met(self, page: PageView, progress: Progress) -> bool:
        return page.items == 0


class TotalReached(StopCondition, frozen=True, tag="total_reached"):
    """
    Ends when as many items came as the API says there are, whatever else it says.

    ``{"orders": [...], "meta": {"total": 120}}`` → ``TotalReached("meta.total")``. A page after the
    first may leave the total out; it then decides nothing.

    :param path: where the total number of items is in the body, a number or digits.
    """

    path: str

    def __post_init__(self) -> None:
        compile_path("path", self.path)

    def counts_items(self) -> bool:
        return True

    def met(self, page: PageView, progress: Progress) -> bool:
        total = _number_at(self.path, page, progress.pages)
        return total is not None and progress.items >= total


class TotalPages(StopCondition, frozen=True, tag="total_pages"):
    """
    Ends when as many pages came as the API says there are, whatever else it says.

    ``{"orders": [...], "meta": {"pages": 12}}`` → ``TotalPages("meta.pages")``. A page after the first may
    leave the number out; it then decides nothing.

    :param path: where the number of pages is in the body, a number or digits.
    """

    path: str

    def __post_init__(self) -> None:
        compile_path("path", self.path)

    def met(self, page: PageView, progress: Progress) -> bool:
        total = _number_at(self.path, page, progress.pages)
        return total is not None and progress.pages >= total


class HasMore(StopCondition, frozen=True, tag="has_more"):
    """
    Ends when the API says that there is no more.

    ``{"orders": [...], "has_more": false}`` → ``HasMore("has_more")``. False, null, 0, an empty value, the
    text ``"false"`` and a missing key all end, so it fits an API whose last cursor is 0 too.

    :param path: where the API says so in the body.
    """

    path: str

    def __post_init__(self) -> None:
        compile_path("path", self.path)

    def looked_for(self) -> tuple[str, ...]:
        return (self.path,)

    def met(self, page: PageView, progress: Progress) -> bool:
        if progress.pages == 1 and parent_is_missing(self.path, page.body):
            raise PathError(f"page 1 has no place for {self.path!r}: {whereabouts(self.path, page.body)}")
        value = find(self.path, page.body)
        return not value or (isinstance(value, str) and value.strip().lower() in ("false", "0"))


class MaxPages(StopCondition, frozen=True, tag="max_pages"):
    """
    Ends after so many pages.

    :param n: number of pages, at least 1.
    """

    n: int

    def __post_init__(self) -> None:
        _check_count("n", self.n)

    def reads_body(self) -> bool:
        return False

    def met(self, page: PageView, progress: Progress) -> bool:
        return progress.pages >= self.n


class MaxItems(StopCondition, frozen=True, tag="max_items"):
    """
    Ends after the page with which so many items have come; that page is kept whole.

    :param n: number of items, at least 1.
    """

    n: int

    def __post_init__(self) -> None:
        _check_count("n", self.n)

    def counts_items(self) -> bool:
        return True

    def reads_body(self) -> bool:
        return False

    def met(self, page: PageView, progress: Progress) -> bool:
        return progress.items >= self.n


class Group(StopCondition, frozen=True):
    """Base of the conditions that are made of others."""

    conditions: tuple[AnyStop, ...]

    def __post_init__(self) -> None:
        _flatten(self)

    def counts_items(self) -> bool:
        return any(condition.counts_items() for condition in self.conditions)

    def reads_body(self) -> bool:
        return any(condition.reads_body() for condition in self.conditions)

    def looked_for(self) -> tuple[str, ...]:
        return tuple(path for condition in self.conditions for path in condition.looked_for())


class AnyOf(Group, frozen=True, tag="any_of"):
    """
    Ends when one of its conditions does; what ``a | b`` makes.

    :param conditions: at least one; those of another ``AnyOf`` become its own.
    """

    def met(self, page: PageView, progress: Progress) -> bool:
        return any(condition.met(page, progress) for condition in self.conditions)


class AllOf(Group, frozen=True, tag="all_of"):
    """
    Ends when all of its conditions do; what ``a & b`` makes.

    :param conditions: at least one; those of another ``AllOf`` become its own.
    """

    def met(self, page: PageView, progress: Progress) -> bool:
        return all(condition.met(page, progress) for condition in self.conditions)


AnyStop: TypeAlias = EmptyPage | TotalReached | TotalPages | HasMore | MaxPages | MaxItems | AnyOf | AllOf
STOPS: tuple[type[StopCondition], ...] = get_args(AnyStop)


def check_stop(argument_name: str, value: Any) -> None:
    """
    Refuse what cannot travel as a stop condition.

    :param argument_name: the argument to name in the error.
    :param value: a condition of this module passes.
    :raises TypeError: if the value is anything else.
    """
    if not isinstance(value, STOPS):
        names = ", ".join(kind.__name__ for kind in STOPS)
        raise TypeError(f"{argument_name}: expected a stop condition ({names}), got {type(value).__name__}")


def _number_at(path: str, page: PageView, page_number: int) -> float | None:
    value = find(path, page.body)
    where = f"page {page_number}: the total at {path!r}"
    if value is None:
        if page_number > 1:
            return None
        raise PathError(f"{where} is missing; {whereabouts(path, page.body)}")
    if isinstance(value, str) and value.isascii() and value.isdigit():
        return int(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise PathError(f"{where} is {json_type(value)}, not a number")
    return value


def _check_count(argument_name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{argument_name}: expected an int of at least 1, got {type(value).__name__}")
    if value < 1:
        raise ValueError(f"{argument_name}: expected an int of at least 1, got {value}")


def _both(*conditions: Any) -> tuple[AnyStop, ...]:
    # Typed loosely: the group itself refuses a condition that is not one of the union.
    return conditions


def _flatten(group: Group) -> None:
    if isinstance(group.conditions, (str, StopCondition)) or not group.conditions:
        raise ValueError("conditions: expected a sequence of at least one stop condition")
    flat: list[AnyStop] = []
    for condition in group.conditions:
        check_stop("conditions", condition)
        flat.extend(condition.conditions if isinstance(condition, type(group)) else (condition,))
    msgspec.structs.force_setattr(group, "conditions", tuple(flat))
