# SPDX-License-Identifier: Apache-2.0
"""Outcomes, and the account of failed items."""

from __future__ import annotations

from airflow_provider_iteration.iteration import Outcome
from airflow_provider_iteration.iteration.outcomes import (
    KINDS_KEPT,
    OTHER_KINDS,
    TRACEBACK_CHARACTERS,
    FailureLog,
    IndexRanges,
    traceback_text,
)


def failed(index: int, error: Exception | None = None) -> Outcome:
    return Outcome(index, "failed", 1, error=error or ValueError("no"))


def log_of(*indexes: int) -> FailureLog:
    log = FailureLog()
    for index in indexes:
        log.add(failed(index))
    return log


def test_repr_shows_no_payload() -> None:
    """An outcome may be logged: neither the result nor the error's text is in its repr."""
    outcomes = [Outcome(3, "success", 1, result="secret"), failed(4, ValueError("secret"))]
    assert "secret" not in repr(outcomes)


def test_neighbours_share_a_range() -> None:
    """Indexes that come in any order are run together."""
    ranges = IndexRanges()
    for index in (5, 3, 9, 4, 0, 6):
        ranges.add(index)
    assert ranges.ranges() == ((0, 0), (3, 6), (9, 9))


def test_number_of_ranges_is_bounded() -> None:
    """Beyond the bound, indexes are counted unless they extend a range."""
    ranges = IndexRanges(most=2)
    for index in (0, 10, 20, 11):
        ranges.add(index)
    assert (ranges.ranges(), ranges.others) == (((0, 0), (10, 11)), 1)


def test_indexes_read_shortly() -> None:
    """Stretches are written as such, and what is left out is counted."""
    assert log_of(3, 7, 8, 9, 20, 30, 31).report().indexes_text(most=2) == "3, 7-9 and 3 more"


def test_only_failure_is_kept_as_it_is() -> None:
    """One failed item can be raised as itself."""
    only = log_of(7).only
    assert only is not None
    assert only.index == 7


def test_second_failure_lets_the_first_go() -> None:
    """Frames of failed items are not held for the whole run."""
    assert log_of(7, 8).only is None


def test_three_tracebacks_are_kept() -> None:
    """The first three say what happened; the rest is counted."""
    report = log_of(4, 3, 2, 1).report()
    assert [text.split(":")[0] for text in report.tracebacks] == ["item 4", "item 3", "item 2"]


def test_kinds_are_counted_most_frequent_first() -> None:
    """The kinds tell at a glance what goes wrong."""
    log = log_of(0)
    for index in (1, 2):
        log.add(failed(index, KeyError()))
    assert list(log.report().kinds.items()) == [("KeyError", 2), ("ValueError", 1)]


def test_number_of_kinds_is_bounded() -> None:
    """Exception classes made at run time do not fill the memory."""
    log = FailureLog()
    for index in range(KINDS_KEPT + 5):
        log.add(failed(index, type(f"Error{index}", (Exception,), {})()))
    assert log.report().kinds[OTHER_KINDS] == 5


def test_end_of_a_long_traceback_is_kept() -> None:
    """The end is where the error is."""
    text = traceback_text(ValueError("x" * 10_000 + "end"))
    assert (len(text), text[-3:]) == (TRACEBACK_CHARACTERS, "end")
