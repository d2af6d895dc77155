# SPDX-License-Identifier: Apache-2.0
"""Rows of checkpoints, and what a later try makes of them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from airflow_provider_iteration.iteration.checkpoints import (
    ROW_BYTES,
    Checkpoint,
    Done,
    Row,
    pack,
    row_key,
    unpack,
)
from tests.support.state_store import MemoryStateStore

PRINT = "0123456789ab"


class Files:
    """Files in memory."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}

    def write(self, index: int, text: str) -> str:
        self.texts[f"f{index}"] = text
        return f"f{index}"

    def read(self, name: str) -> str:
        return self.texts[name]


def done(index: int, result: Any = None, **more: Any) -> Done:
    fields = {"status": "success", "attempts": 1, "fingerprint": PRINT, **more}
    return Done(index=index, result=result, **fields)


def stored(*rows: tuple[int, int, list[Done]]) -> MemoryStateStore:
    """Return a store with rows, each given by its try, its number and its items."""
    store = MemoryStateStore()
    for attempt, number, items in rows:
        store.set(row_key(attempt, number), msgspec.to_builtins(pack(items)))
    return store


def loaded(store: MemoryStateStore, tries: range) -> Checkpoint:
    checkpoint = Checkpoint(store)
    checkpoint.load(tries)
    return checkpoint


def test_row_is_small_beside_its_results() -> None:
    """An item costs little more than its result: columns, and stretches of indexes."""
    row = msgspec.to_builtins(pack([done(index, index) for index in range(256)]))
    assert row["indexes"] == [[0, 255]]
    assert len(msgspec.json.encode(row)) < 256 * 20


def test_items_of_a_row_come_back_in_their_order() -> None:
    """Items end in any order."""
    extras = {"pushed": "1"}
    items = [done(5, "e"), done(1, "a", attempts=3), done(2, status="skipped"), done(9, "x", extras=extras)]
    assert unpack(pack(items)) == sorted(items, key=lambda item: item.index)


def test_large_result_goes_to_a_file() -> None:
    """With files, a row stays small whatever a result is."""
    files = Files()
    large = "x" * (2 * ROW_BYTES)
    row = pack([done(0, "small"), done(1, large)], files=files)
    assert len(msgspec.json.encode(row)) < 1000
    assert [item.result for item in unpack(row, files=files)] == ["small", large]


def test_file_without_files_names_the_setting() -> None:
    """A deployment that has lost its checkpoint_path is told so."""
    row = pack([done(1, "x" * (2 * ROW_BYTES))], files=Files())
    with pytest.raises(ValueError, match="checkpoint_path is not set any more"):
        unpack(row)


def test_later_try_counts_where_tries_disagree() -> None:
    """An item that was done again, because its input had changed, is that of the later try."""
    store = stored((1, 0, [done(0, "old"), done(1, "kept")]), (2, 0, [done(0, "new", fingerprint="f" * 12)]))
    checkpoint = loaded(store, range(2, 0, -1))
    assert [checkpoint.item(index).result for index in (0, 1)] == ["new", "kept"]


def test_tries_without_rows_are_passed_over() -> None:
    """A try that ended before its first row hides nothing."""
    checkpoint = loaded(stored((1, 0, [done(0, "a")]), (1, 1, [done(1, "b")])), range(4, 0, -1))
    assert len(checkpoint) == 2


def test_few_rows_are_held() -> None:
    """Results are read when their turn comes, each row once if it is asked for in order."""
    pairs = [[done(2 * number, number), done(2 * number + 1, number)] for number in range(30)]
    store = stored(*((1, number, pair) for number, pair in enumerate(pairs)))
    checkpoint = loaded(store, range(1, 0, -1))
    store.reads.clear()
    assert [checkpoint.item(index).result for index in range(60)] == [index // 2 for index in range(60)]
    assert store.reads == [row_key(1, number) for number in range(30)]


def test_row_that_is_gone_is_named() -> None:
    """Rows are deleted by age, in the middle of a retry too."""
    store = stored((1, 0, [done(0, "a")]))
    checkpoint = loaded(store, range(1, 0, -1))
    store.delete(row_key(1, 0))
    with pytest.raises(LookupError, match="iteration_checkpoint_1_0000 of the checkpoint is gone"):
        checkpoint.item(0)


def test_row_of_a_newer_version_is_refused() -> None:
    """A row is not guessed at."""
    store = MemoryStateStore()
    row = pack([done(0)])
    store.set(row_key(1, 0), msgspec.to_builtins(msgspec.structs.replace(row, v=2)))
    with pytest.raises(ValueError, match="format 2"):
        loaded(store, range(1, 0, -1))


def test_repr_shows_no_result() -> None:
    """What a log may show tells nothing of the data."""
    assert "secret" not in repr(done(3, "secret"))


def test_row_has_readable_names() -> None:
    """People read rows in the task's state."""
    assert {"indexes", "inputs", "results"} <= set(Row.__struct_fields__)


def test_later_row_of_one_try_counts() -> None:
    """A try may go through its input twice, with another input the second time."""
    again = done(1, "new", fingerprint="f" * 12)
    store = stored((1, 0, [done(0, "kept"), done(1, "old")]), (1, 1, [again]))
    checkpoint = loaded(store, range(1, 0, -1))
    assert (checkpoint.item(0).result, checkpoint.item(1).result) == ("kept", "new")
    assert (checkpoint.rows_of(1), checkpoint.rows_of(11)) == (2, 0)


def test_row_of_a_later_try_counts_more_than_all_earlier_ones() -> None:
    """Whatever their numbers."""
    store = stored((2, 0, [done(0, "second")]), (1, 0, [done(0, "first")]), (1, 1, [done(0, "first again")]))
    assert loaded(store, range(2, 0, -1)).item(0).result == "second"
