# SPDX-License-Identifier: Apache-2.0
"""The thread that commits what is done."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from typing import Any

import pytest

from airflow_provider_iteration.iteration import checkpoint_writer
from airflow_provider_iteration.iteration.checkpoint_writer import MOST_BEHIND, CheckpointWriter
from airflow_provider_iteration.iteration.checkpoints import ROW_BYTES, Done

LONG = 3600.0


def done(index: int, result: Any = None) -> Done:
    return Done(index, "success", 1, "0" * 12, result)


class Rows:
    """What was written; may hold a write, or fail it."""

    def __init__(self, failures: int = 0, *, held: bool = False) -> None:
        self.written: list[list[int]] = []
        self.told: list[list[int]] = []
        self.writing = threading.Event()
        self.go_on = threading.Event()
        self._failures = failures
        if not held:
            self.go_on.set()

    def write(self, items: Sequence[Done]) -> None:
        self.writing.set()
        assert self.go_on.wait(10)
        if self._failures:
            self._failures -= 1
            raise RuntimeError("api down")
        self.written.append([item.index for item in items])

    def committed(self, items: Sequence[Done]) -> None:
        self.told.append([item.index for item in items])

    def writer(self, every: int = 4, seconds: float = LONG) -> CheckpointWriter:
        return CheckpointWriter(self.write, self.committed, every=every, seconds=seconds)


def test_row_is_due_after_so_many_items() -> None:
    """The rest waits for the end."""
    rows = Rows(held=True)
    writer = rows.writer(every=2)
    for index in range(2):
        writer.add(done(index))
    assert rows.writing.wait(10)
    rows.go_on.set()
    writer.add(done(2))
    assert writer.close(10)
    assert rows.written == [[0, 1], [2]]


def test_row_is_due_after_some_time() -> None:
    """A slow iteration commits, too."""
    rows = Rows()
    rows.writer(every=100, seconds=0.01).add(done(0))
    assert rows.writing.wait(10)


def test_items_that_end_during_a_write_share_the_next_row() -> None:
    """A slow store makes rows larger, not more."""
    rows = Rows(held=True)
    writer = rows.writer(every=2)
    for index in range(8):
        writer.add(done(index))
        if index == 1:
            assert rows.writing.wait(10)
    rows.go_on.set()
    assert writer.close(10)
    assert rows.written == [[0, 1], [2, 3, 4, 5, 6, 7]]


def test_large_results_make_more_rows() -> None:
    """A row stays below what the store warns of, as far as items let it."""
    rows = Rows()
    writer = rows.writer(every=100)
    for index in range(4):
        writer.add(done(index, "x" * (ROW_BYTES // 2)))
    assert writer.close(10)
    assert rows.written == [[0], [1], [2], [3]]


def test_flush_commits_what_was_taken() -> None:
    """It is what a signal handler asks for first."""
    rows = Rows()
    writer = rows.writer()
    writer.add(done(0))
    assert writer.flush(10)
    assert rows.written == [[0]]


def test_flush_does_not_wait_for_ever() -> None:
    """A store that hangs does not hold the end back."""
    rows = Rows(held=True)
    writer = rows.writer(every=1)
    writer.add(done(0))
    assert rows.writing.wait(10)
    assert not writer.flush(0.05)
    rows.go_on.set()


def test_nothing_to_flush() -> None:
    """Without items there is no thread."""
    rows = Rows()
    writer = rows.writer()
    assert writer.flush(0)
    assert writer.close(0)
    assert rows.written == []


async def test_iteration_that_is_too_far_ahead_waits() -> None:
    """Memory is bounded: more than so many items are not held."""
    rows = Rows(held=True)
    writer = rows.writer(every=1)
    waits = [writer.add(done(index)) for index in range(MOST_BEHIND + 1)]
    assert waits[:-1] == [None] * MOST_BEHIND
    last = waits[-1]
    assert last is not None
    waiting = asyncio.ensure_future(last)
    await asyncio.sleep(0)
    assert not waiting.done()
    rows.go_on.set()
    await waiting
    assert writer.close(10)


def test_write_that_fails_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """An api-server that restarts costs nothing."""
    monkeypatch.setattr(checkpoint_writer, "wait_exponential", lambda **_: lambda state: 0)
    rows = Rows(failures=2)
    writer = rows.writer()
    writer.add(done(0))
    assert writer.close(10)
    assert (rows.written, writer.rows, writer.lost) == ([[0]], 1, 0)


def test_write_that_goes_on_failing_is_given_up(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """No item fails for a checkpoint; the log says how many a retry will do again."""
    monkeypatch.setattr(checkpoint_writer, "wait_exponential", lambda **_: lambda state: 0)
    rows = Rows(failures=3)
    writer = rows.writer()
    writer.add(done(0))
    assert writer.close(10)
    assert (rows.written, rows.told, writer.lost) == ([], [[0]], 1)
    assert "1 items are not in the checkpoint" in caplog.text


def test_who_waits_for_a_commit_is_told() -> None:
    """Callbacks come after the checkpoint."""
    rows = Rows()
    writer = rows.writer()
    writer.add(done(7))
    assert writer.close(10)
    assert rows.told == [[7]]


def test_failing_notice_does_not_end_the_thread() -> None:
    """The iteration waits for it: what follows is committed all the same."""
    rows = Rows()

    def committed(items: Sequence[Done]) -> None:
        raise RuntimeError("no thread can be started")

    writer = CheckpointWriter(rows.write, committed, every=1, seconds=LONG)
    for index in range(3):
        writer.add(done(index))
        assert writer.flush(10)
    assert writer.close(10)
    assert rows.written == [[0], [1], [2]]
