# SPDX-License-Identifier: Apache-2.0
"""What an iteration raises, and that its core is free of Airflow."""

from __future__ import annotations

import pickle
import subprocess
import sys

import pytest

from airflow_provider_iteration.exceptions import (
    ItemCancelled,
    ItemLimitExceeded,
    ItemsFailed,
    ItemTimeout,
    IterationError,
    IterationStopped,
    LimitExceeded,
    ResourceFailed,
    TooManyStuck,
)

ERRORS = [
    (ItemTimeout(2.5), "the item took longer than item_timeout=2.5 s"),
    (ItemCancelled(), "the item was cancelled by its own code"),
    (ItemLimitExceeded(50), "the input has more items than max_items=50 allows"),
    (IterationStopped(7, 2), "the iteration was stopped: 7 items are done, 2 were cut off"),
    (ResourceFailed("session", "entered", "OSError"), "resource 'session' could not be entered: OSError"),
    (
        ItemsFailed(3, 9, {"OSError": 2, "KeyError": 1}, "0, 4-5", ("item 0:\nTraceback",)),
        "3 of 9 items failed (2 OSError, 1 KeyError), at index 0, 4-5\n\nitem 0:\nTraceback",
    ),
]


@pytest.mark.parametrize(("error", "message"), ERRORS)
def test_message_says_what_happened(error: IterationError, message: str) -> None:
    """Numbers and names, no payload."""
    assert str(error) == message


@pytest.mark.parametrize("error", [*(error for error, _ in ERRORS), TooManyStuck(16)])
def test_errors_survive_pickling(error: IterationError) -> None:
    """They may travel between processes, with their attributes."""
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), str(copy), vars(copy)) == (type(error), str(error), vars(error))


def test_stuck_items_get_advice() -> None:
    """The message says what to do."""
    assert "Give what they wait for a timeout of its own" in str(TooManyStuck(16))


def test_limit_of_items_is_a_limit_like_others() -> None:
    """Who catches limits catches this one."""
    error = ItemLimitExceeded(50)
    assert isinstance(error, LimitExceeded)
    assert (error.limit, error.allowed) == ("max_items", 50)


def test_core_imports_no_airflow() -> None:
    """It is imported in milliseconds, and by any process."""
    code = "import sys, airflow_provider_iteration.iteration; sys.exit('airflow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0
