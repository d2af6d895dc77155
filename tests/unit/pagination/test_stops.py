# SPDX-License-Identifier: Apache-2.0
"""When a walk over pages ends in good order."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_iteration.exceptions import PathError
from airflow_provider_iteration.pagination import (
    AllOf,
    AnyOf,
    EmptyPage,
    HasMore,
    MaxItems,
    MaxPages,
    PageView,
    Progress,
    StopCondition,
    TotalPages,
    TotalReached,
)

YES, NO = MaxPages(1), MaxPages(1000)


def page(body: Any = None, items: int = 1) -> PageView:
    return PageView(url="https://api.example/orders", body=body, headers={}, items=items)


def test_progress_counts() -> None:
    """A page adds one to the pages, and its items to the items."""
    assert Progress(2, 10).counting(page(items=5)) == Progress(3, 15)


@pytest.mark.parametrize(
    ("condition", "progress", "expected"),
    [
        (MaxPages(3), Progress(2, 99), False),
        (MaxPages(3), Progress(3, 0), True),
        (MaxItems(10), Progress(99, 9), False),
        (MaxItems(10), Progress(1, 10), True),
        (MaxItems(10), Progress(1, 12), True),
    ],
)
def test_counts(condition: StopCondition, progress: Progress, expected: bool) -> None:
    """A number of pages or items ends the walk when it is reached."""
    assert condition.met(page(), progress) is expected


@pytest.mark.parametrize(("items", "expected"), [(0, True), (1, False)])
def test_empty_page(items: int, expected: bool) -> None:
    """A page without items ends the walk."""
    assert EmptyPage().met(page(items=items), Progress(2, 7)) is expected


@pytest.mark.parametrize(
    ("body", "pages", "expected"),
    [
        ({"total": 11}, 1, False),
        ({"total": 10}, 1, True),
        ({"total": 9}, 1, True),
        ({"total": 0}, 1, True),
        ({"total": "10"}, 1, True),
        ({"total": 10.0}, 1, True),
        ({}, 2, False),
        ({"total": None}, 2, False),
    ],
)
def test_total_reached(body: dict[str, Any], pages: int, expected: bool) -> None:
    """The API's total ends the walk; a later page without one decides nothing."""
    assert TotalReached("total").met(page(body), Progress(pages, 10)) is expected


@pytest.mark.parametrize(
    ("body", "pages", "expected"),
    [({"n": 3}, 2, False), ({"n": 3}, 3, True), ({"n": "2"}, 3, True), ({}, 2, False)],
)
def test_total_pages(body: Any, pages: int, expected: bool) -> None:
    """It ends when as many pages came as there are; a later page may leave the number out."""
    assert TotalPages("n").met(page(body), Progress(pages, 10)) is expected


def test_total_pages_must_be_there_at_first() -> None:
    """A wrong path is an error on the first page."""
    with pytest.raises(PathError, match="page 1: the total at 'n' is missing"):
        TotalPages("n").met(page({"m": 1}), Progress(1, 10))


def test_total_missing_on_the_first_page() -> None:
    """A total that never comes would never end the walk, so its path must be wrong."""
    with pytest.raises(PathError) as caught:
        TotalReached("meta.total").met(page({"meta": {"count": 3}}), Progress(1, 1))
    assert str(caught.value) == "page 1: the total at 'meta.total' is missing; 'meta' has the keys 'count'"


@pytest.mark.parametrize(
    ("value", "name"), [("s3cret", "a string"), (True, "a boolean"), ([1], "a list"), ("²", "a string")]
)
def test_total_that_is_no_number(value: Any, name: str) -> None:
    """The error names page, path and type, and no value."""
    with pytest.raises(PathError) as caught:
        TotalReached("total").met(page({"total": value}), Progress(2, 1))
    assert str(caught.value) == f"page 2: the total at 'total' is {name}, not a number"


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        (True, False),
        ("yes", False),
        (17, False),
        (False, True),
        (None, True),
        (0, True),
        ("", True),
        ("False", True),
        ("0", True),
    ],
)
def test_has_more(more: Any, expected: bool) -> None:
    """What the API means as no ends the walk."""
    assert HasMore("more").met(page({"more": more}), Progress(1, 1)) is expected


def test_has_more_missing() -> None:
    """An API may leave the key out when there is no more."""
    assert HasMore("meta.more").met(page({"meta": {}}), Progress(1, 1))


def test_has_more_without_a_place_for_it() -> None:
    """A wrong path must not pass for the end of the pages."""
    with pytest.raises(PathError, match=r"page 1 has no place for 'met\.more': the body has the keys 'meta'"):
        HasMore("met.more").met(page({"meta": {"more": True}}), Progress(1, 1))


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (YES | NO, True),
        (NO | YES, True),
        (NO | NO, False),
        (YES & NO, False),
        (YES & YES, True),
        ((NO & NO) | YES, True),
        ((NO | YES) & NO, False),
    ],
)
def test_composed(condition: StopCondition, expected: bool) -> None:
    """``|`` ends with either, ``&`` with both."""
    assert condition.met(page(), Progress(1, 1)) is expected


def test_total_ends_whatever_has_more_says() -> None:
    """H11: an API whose ``has_more`` stays true is ended by its total."""
    condition = HasMore("more") | TotalReached("total")
    assert condition.met(page({"more": True, "total": 10}), Progress(5, 10))


def test_any_of_is_flat() -> None:
    """A chain of ``|`` is one group."""
    assert YES | NO | EmptyPage() == AnyOf((YES, NO, EmptyPage()))


def test_all_of_is_flat() -> None:
    """A chain of ``&`` is one group, also when it is written from the right."""
    assert YES & (NO & EmptyPage()) == AllOf((YES, NO, EmptyPage()))


def test_groups_of_the_other_kind_stay() -> None:
    """``&`` inside of ``|`` is a group of its own."""
    assert (YES & NO) | EmptyPage() == AnyOf((AllOf((YES, NO)), EmptyPage()))


@pytest.mark.parametrize("kind", [MaxPages, MaxItems])
@pytest.mark.parametrize(("n", "got"), [(True, "bool"), ("4", "str"), (2.0, "float"), (None, "NoneType")])
def test_count_of_another_type(kind: Any, n: Any, got: str) -> None:
    """The error names the argument and the type."""
    with pytest.raises(TypeError, match=f"n: expected an int of at least 1, got {got}"):
        kind(n)


@pytest.mark.parametrize("kind", [MaxPages, MaxItems])
@pytest.mark.parametrize("n", [0, -1])
def test_count_out_of_range(kind: Any, n: int) -> None:
    """The error names the argument and the number."""
    with pytest.raises(ValueError, match=f"n: expected an int of at least 1, got {n}"):
        kind(n)


@pytest.mark.parametrize("kind", [TotalReached, HasMore])
def test_bad_path(kind: Any) -> None:
    """A path is checked when the condition is made."""
    with pytest.raises(ValueError, match="path: 'a b' is not a valid JMESPath expression"):
        kind("a b")


@pytest.mark.parametrize("kind", [AnyOf, AllOf])
@pytest.mark.parametrize("conditions", [(), [], YES, "abc"])
def test_group_of_nothing(kind: Any, conditions: Any) -> None:
    """A group needs a sequence of conditions."""
    with pytest.raises(ValueError, match="conditions: expected a sequence of at least one"):
        kind(conditions)


@pytest.mark.parametrize("kind", [AnyOf, AllOf])
def test_group_of_something_else(kind: Any) -> None:
    """The error names the argument, what may stand there, and what stood there."""
    with pytest.raises(TypeError, match=r"conditions: expected a stop condition \(EmptyPage, .*\), got int"):
        kind((YES, 3))


def test_composing_with_something_else() -> None:
    """Python's own error for operands that do not fit."""
    with pytest.raises(TypeError, match="unsupported operand"):
        YES | 3  # type: ignore[operator]


def test_own_condition_cannot_travel() -> None:
    """A class of the user's own has no dict, so a group refuses it."""

    class Mine(StopCondition, frozen=True):
        pass

    with pytest.raises(TypeError, match="got Mine"):
        YES | Mine()
