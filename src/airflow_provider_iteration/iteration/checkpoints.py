# SPDX-License-Identifier: Apache-2.0
"""
Checkpoints: what is done, in rows that a later try reads.

A row holds the items of one commit: their indexes, the fingerprints of their inputs, and their results, in
columns, so that an item costs little more than its result. Each try writes rows of its own, so that a late
writer of an earlier try spoils nothing; where tries disagree about an item, the later one counts.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from itertools import count
from typing import Any, Literal, NamedTuple, Protocol

import msgspec

from airflow_provider_iteration.iteration.fingerprints import FINGERPRINT_BYTES
from airflow_provider_iteration.streams.codec import (
    EncodedItems,
    Foreign,
    decode_items,
    encode_items,
    estimate_size,
)

FORMAT_VERSION = 1
KEY = "iteration_checkpoint"
"""Key of the row that says which try has finished; the rows of a try are ``<KEY>_<try>_<number>``."""
ROW_BYTES = 48 * 1024
"""Size that a row aims at: the task state store warns of values above 64 KiB."""
ROWS_KEPT = 8
_DIGITS = 2 * FINGERPRINT_BYTES
_PLACE_BITS = 20


class StateStore(Protocol):
    """What a checkpoint needs of the place where it is kept. Calls block."""

    def get(self, key: str, default: Any = None) -> Any:
        """Return a row."""

    def set(self, key: str, value: Any) -> None:
        """Write a row."""


class ResultFiles(Protocol):
    """Where results are kept that are too large for a row. Calls block."""

    def write(self, index: int, text: str) -> str:
        """Write a text, and return by what name it is found again."""

    def read(self, name: str) -> str:
        """Return a text."""


class Done(msgspec.Struct, frozen=True):
    """
    One item that is done.

    :param index: place of the item in the input.
    :param status: how it ended.
    :param attempts: how often it was tried.
    :param fingerprint: of its input.
    :param result: what it returned.
    :param extras: what else must be done again in a later try (its own XComs, outlet events), as JSON.
    """

    index: int
    status: Literal["success", "skipped"]
    attempts: int
    fingerprint: str
    result: Any = None
    extras: Any = None

    def __repr__(self) -> str:
        return f"Done(#{self.index}, {self.status})"


class Row(msgspec.Struct, frozen=True, omit_defaults=True):
    """
    A row as it is stored; people see it in the task's state.

    :param indexes: first and last index of each stretch of items.
    :param inputs: the fingerprints of all items, one after the other.
    :param skipped: indexes of items that were skipped.
    :param attempts: index → how often it was tried, where that was more than once.
    :param enc: encoding of the results, as in a stream.
    :param results: results of all items, in the order of their indexes.
    :param shapes: orders of keys, as in a stream.
    :param files: index → name of the file that holds the result.
    :param extras: index → what else must be done again.
    """

    indexes: list[list[int]]
    inputs: str
    enc: str
    results: Any
    v: int = FORMAT_VERSION
    shapes: list[list[str]] = []
    skipped: list[int] = []
    attempts: dict[str, int] = {}
    files: dict[str, str] = {}
    extras: dict[str, Any] = {}


def pack(items: Sequence[Done], foreign: Foreign | None = None, files: ResultFiles | None = None) -> Row:
    """
    Make a row.

    :param items: any number.
    :param foreign: makes JSON of values of types that the codec does not know.
    :param files: keeps results beyond the size of a row.
    """
    items = sorted(items, key=lambda item: item.index)
    results = [item.result for item in items]
    in_files: dict[str, str] = {}
    for position, item in enumerate(items):
        if files is not None and size_of(item) > ROW_BYTES:
            text = msgspec.json.encode(encode_items([item.result], foreign)).decode()
            in_files[str(item.index)] = files.write(item.index, text)
            results[position] = None
    encoded = encode_items(results, foreign)
    return Row(
        indexes=_stretches(item.index for item in items),
        inputs="".join(item.fingerprint for item in items),
        enc=encoded.enc,
        results=encoded.items,
        shapes=encoded.shapes,
        skipped=[item.index for item in items if item.status == "skipped"],
        attempts={str(item.index): item.attempts for item in items if item.attempts != 1},
        files=in_files,
        extras={str(item.index): item.extras for item in items if item.extras},
    )


def unpack(row: Row, foreign: Foreign | None = None, files: ResultFiles | None = None) -> list[Done]:
    """
    Give back what was packed, in the order of the indexes.

    :param foreign: gives back values of types that the codec does not know.
    :param files: where results beyond the size of a row are.
    """
    results = decode_items(EncodedItems(row.enc, row.results, row.shapes), foreign)
    skipped = set(row.skipped)
    return [
        Done(
            index,
            "skipped" if index in skipped else "success",
            row.attempts.get(str(index), 1),
            _fingerprint_at(row.inputs, position),
            _from_file(row.files[str(index)], foreign, files) if str(index) in row.files else result,
            row.extras.get(str(index)),
        )
        for position, (index, result) in enumerate(zip(_indexes(row.indexes), results, strict=True))
    ]


def size_of(item: Done) -> int:
    """Return about how many bytes an item takes in a row."""
    return estimate_size((item.result, item.extras))


def _from_file(name: str, foreign: Foreign | None, files: ResultFiles | None) -> Any:
    if files is None:
        raise ValueError(
            f"the result is in the file {name}, and [iteration] checkpoint_path is not set any more: "
            "set it again"
        )
    return decode_items(msgspec.json.decode(files.read(name), type=EncodedItems), foreign)[0]


class Known(NamedTuple):
    """
    Where an item that is done is found.

    :param key: key of its row.
    :param fingerprint: of its input.
    :param is_skipped: whether it was skipped.
    :param has_extras: whether more than its result must be done again.
    """

    key: str
    fingerprint: str
    is_skipped: bool
    has_extras: bool


class _RowIndex(NamedTuple):
    key: str
    inputs: str
    skipped: frozenset[int]
    with_extras: frozenset[int]


class Checkpoint:
    """
    What earlier tries have done. Results are read when they are asked for, a few rows at a time.

    :param store: where the rows are.
    :param foreign: gives back values of types that the codec does not know.
    :param files: where results beyond the size of a row are.
    """

    def __init__(
        self, store: StateStore, foreign: Foreign | None = None, files: ResultFiles | None = None
    ) -> None:
        self._store = store
        self._foreign = foreign
        self._files = files
        self._rows: list[_RowIndex] = []
        # Index → number of its row among those, and place in it, in one number: there may be a million.
        self._known: dict[int, int] = {}
        self._kept: OrderedDict[str, dict[int, Done]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._known)

    def load(self, tries: Iterable[int]) -> None:
        """
        Read the rows of tries. Blocks.

        :param tries: numbers of tries, the latest first.
        """
        for attempt in tries:
            of_later_tries = len(self._rows) << _PLACE_BITS
            for number in count():
                key = row_key(attempt, number)
                if (row := self._row(key)) is None:
                    break
                first = len(self._rows) << _PLACE_BITS
                self._rows.append(
                    _RowIndex(key, row.inputs, frozenset(row.skipped), frozenset(map(int, row.extras)))
                )
                for position, index in enumerate(_indexes(row.indexes)):
                    # Of one try, the later row counts: it may have gone through its input more than once.
                    if self._known.get(index, of_later_tries) >= of_later_tries:
                        self._known[index] = first + position

    def rows_of(self, attempt: int) -> int:
        """Return how many rows of a try were read."""
        return sum(row.key.startswith(row_prefix(attempt)) for row in self._rows)

    def find(self, index: int) -> Known | None:
        """Return where an item is, if it is done."""
        if (number := self._known.get(index)) is None:
            return None
        row, place = self._rows[number >> _PLACE_BITS], number & (1 << _PLACE_BITS) - 1
        return Known(
            row.key, _fingerprint_at(row.inputs, place), index in row.skipped, index in row.with_extras
        )

    def item(self, index: int) -> Done:
        """
        Return an item that is done. Blocks.

        :raises LookupError: if the row is gone, or a file that it names; the next try does its items again.
        """
        key = self._key(index)
        if key not in self._kept:
            while len(self._kept) >= ROWS_KEPT:
                self._kept.popitem(last=False)
            self._kept[key] = {item.index: item for item in self._read(key)}
        self._kept.move_to_end(key)
        return self._kept[key][index]

    def _read(self, key: str) -> list[Done]:
        if (row := self._row(key)) is None:
            raise LookupError(
                f"the row {key} of the checkpoint is gone from the task state store: "
                "the next try does its items again"
            )
        try:
            return unpack(row, self._foreign, self._files)
        except FileNotFoundError:
            # Emptied and not deleted: the rows of a try are numbered through.
            self._store.set(key, msgspec.to_builtins(pack([])))
            raise LookupError(
                f"a file with a result, which the row {key} of the checkpoint names, is gone: "
                "the next try does its items again"
            ) from None

    def _key(self, index: int) -> str:
        return self._rows[self._known[index] >> _PLACE_BITS].key

    def _row(self, key: str) -> Row | None:
        plain = self._store.get(key)
        if plain is None:
            return None
        row = msgspec.convert(plain, Row)
        if row.v > FORMAT_VERSION:
            raise ValueError(f"the checkpoint {key} has format {row.v}, this version reads {FORMAT_VERSION}")
        return row


def row_key(attempt: int, number: int) -> str:
    """Return the key of a row of a try."""
    return f"{row_prefix(attempt)}{number:04}"


def row_prefix(attempt: int) -> str:
    """Return what the keys of all rows of a try begin with."""
    return f"{KEY}_{attempt}_"


def _fingerprint_at(inputs: str, position: int) -> str:
    return inputs[_DIGITS * position : _DIGITS * (position + 1)]


def _stretches(indexes: Iterable[int]) -> list[list[int]]:
    stretches: list[list[int]] = []
    for index in indexes:
        if stretches and stretches[-1][1] == index - 1:
            stretches[-1][1] = index
        else:
            stretches.append([index, index])
    return stretches


def _indexes(stretches: Iterable[Sequence[int]]) -> Iterator[int]:
    for first, last in stretches:
        yield from range(first, last + 1)
