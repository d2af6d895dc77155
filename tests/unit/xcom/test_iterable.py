# SPDX-License-Identifier: Apache-2.0
"""The lazy sequence that consumers get."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from airflow_provider_iteration.streams import Extent
from airflow_provider_iteration.streams.xcom_store import XComPlace
from airflow_provider_iteration.xcom.iterable import XComIterable
from tests.support.triggers import Numbers, give_task
from tests.unit.conftest import XComs


class Two:
    """A type with ``__index__``."""

    def __index__(self) -> int:
        return 2


@pytest.fixture
async def numbers(xcoms: XComs) -> XComIterable:
    """A stream of 0 to 99."""
    trigger = Numbers(count=100, stream={"max_uncommitted_pages": 8})
    give_task(trigger)
    return await trigger.stream()


async def test_it_is_a_sequence(numbers: XComIterable) -> None:
    """Length, index, negative index, containment and counting work as in a list."""
    assert isinstance(numbers, Sequence)
    assert (len(numbers), numbers[0], numbers[-1], numbers[Two()]) == (100, 0, 99, 2)
    assert 57 in numbers
    assert numbers.index(57) == 57


@pytest.mark.parametrize(
    "part",
    [
        slice(None),
        slice(5, 9),
        slice(-3, None),
        slice(None, None, -1),
        slice(90, 10, -7),
        slice(7, 3),
        slice(0, 500),
    ],
)
async def test_slices_are_those_of_a_list(numbers: XComIterable, part: slice) -> None:
    """A slice is the list that a list would give."""
    assert numbers[part] == list(range(100))[part]


async def test_iteration_in_both_directions(numbers: XComIterable) -> None:
    """for and reversed() go through all items."""
    assert list(numbers) == list(range(100))
    assert list(reversed(numbers)) == list(range(99, -1, -1))


async def test_coroutines_read_too(numbers: XComIterable) -> None:
    """async for, aget and alen."""
    assert [number async for number in numbers] == list(range(100))
    assert (await numbers.aget(-1), await numbers.alen()) == (99, 100)


@pytest.mark.parametrize("index", [100, -101])
async def test_index_out_of_range(numbers: XComIterable, index: int) -> None:
    """An index that does not exist is an IndexError."""
    with pytest.raises(IndexError, match="out of range"):
        numbers[index]


async def test_repr_is_short_and_reads_nothing(numbers: XComIterable, xcoms: XComs) -> None:
    """X1: printing and rendering it says what it is, and costs no read."""
    xcoms.reads.clear()
    text = "XComIterable(100 items of shop.pages, not read)"
    assert (str(numbers), repr(numbers)) == (text, text)
    assert xcoms.reads == []


async def test_reading_all_costs_a_read_for_each_chunk(numbers: XComIterable, xcoms: XComs) -> None:
    """X4: the number of reads is the number of chunks."""
    xcoms.reads.clear()
    list(numbers)
    assert len(xcoms.reads) == sum(extent.chunks for extent in numbers.extents)


async def test_reference_survives_serialisation(numbers: XComIterable) -> None:
    """The reference is plain JSON and gives an equal sequence."""
    text = json.dumps(numbers.serialize())
    assert XComIterable.deserialize(json.loads(text), 1) == numbers


def test_reference_of_a_newer_version_is_refused() -> None:
    """A format that is not known is an error, not a guess."""
    reference = XComIterable(XComPlace("d", "t", "r"), key="k", run="x", extents=[], pages=0)
    with pytest.raises(TypeError, match="newer version"):
        XComIterable.deserialize(reference.serialize(), 2)


def test_empty_stream_is_an_empty_sequence() -> None:
    """A stream without items behaves as an empty list."""
    empty = XComIterable(XComPlace("d", "t", "r"), key="k", run="x", extents=[], pages=0)
    assert (len(empty), list(empty), empty[:], bool(empty)) == (0, [], [], False)


def test_unequal_references() -> None:
    """Two runs of one task are two sequences."""
    place = XComPlace("d", "t", "r")
    first = XComIterable(place, key="k", run="x", extents=[Extent(1, 1, 1)], pages=1)
    second = XComIterable(place, key="k", run="y", extents=[Extent(1, 1, 1)], pages=1)
    assert first != second
    assert len({first, second}) == 2
