# SPDX-License-Identifier: Apache-2.0
"""The errors of paging."""

from __future__ import annotations

import copy
import pickle

import pytest

from airflow_provider_iteration.exceptions import (
    CursorCycleError,
    ForeignHostError,
    IterationError,
    LimitExceeded,
    PageFailed,
    PaginationError,
    PathError,
    StreamError,
)

ERRORS = [
    (
        CursorCycleError(3, 7),
        "the request for page 7 is the one already made for page 3: the paging goes round in a circle, "
        "so it was stopped",
    ),
    (LimitExceeded("max_pages", 50), "the stream was stopped because it went beyond max_pages=50"),
    (PageFailed(4), "page 4 failed: no response"),
    (PageFailed(4, reason="timed out"), "page 4 failed: timed out"),
    (PageFailed(4, 503), "page 4 failed: HTTP 503"),
    (
        PageFailed(4, 429, "Too Many Requests", '{"error":\n  "slow down"}'),
        'page 4 failed: HTTP 429 Too Many Requests; the API said: {"error": "slow down"}',
    ),
]


@pytest.mark.parametrize(("error", "message"), ERRORS)
def test_message(error: IterationError, message: str) -> None:
    """Messages are made from numbers and from what the API said."""
    assert str(error) == message


@pytest.mark.parametrize("error", [error for error, _ in ERRORS])
def test_errors_travel(error: IterationError) -> None:
    """An error that was pickled or copied has the same message and attributes."""
    for other in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert (type(other), str(other), vars(other)) == (type(error), str(error), vars(error))


def test_body_is_cut() -> None:
    """Of a long error page, only the beginning is kept anywhere in the error."""
    error = PageFailed(1, 500, "", "x" * 10_000_000)
    assert error.body == "x" * 199 + "…"
    assert len(repr(error)) < 300


@pytest.mark.parametrize("kind", [PathError, CursorCycleError, ForeignHostError])
def test_paging_errors(kind: type[Exception]) -> None:
    """What keeps the next page from being asked for can be caught as one."""
    assert issubclass(kind, PaginationError)


@pytest.mark.parametrize("kind", [PaginationError, LimitExceeded, PageFailed])
def test_stream_errors(kind: type[Exception]) -> None:
    """What stops a stream can be caught as one."""
    assert issubclass(kind, StreamError)
