# SPDX-License-Identifier: Apache-2.0
"""Lazy views: what is read when, and what is refused."""

from __future__ import annotations

import copy
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from airflow_provider_iteration.streams.lazy import LazyIterable, LazySequence, node_of, view
from airflow_provider_iteration.streams.nodes import Sliced


def lazy(items: Any) -> LazyIterable:
    return view(node_of(items))


class Watched(Sequence[Any]):
    """A sequence that notes each access, as one whose items are far away."""

    def __init__(self, items: Sequence[Any]) -> None:
        self.items = items
        self.reads: list[Any] = []

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, key: Any) -> Any:
        self.reads.append(key)
        return self.items[key]


class Page(list[Any]):
    """A list that can be watched being dropped."""


def noting(called: list[int]) -> Callable[[int], int]:
    """Return a function that notes what it is called with, and returns it."""

    def noted(number: int) -> int:
        called.append(number)
        return number

    return noted


def is_odd(number: int) -> bool:
    return number % 2 == 1


def fails_at_three(number: int) -> int:
    if number == 3:
        raise ZeroDivisionError("three")
    return number


async def coroutine(item: Any) -> None: ...


def generator(item: Any) -> Iterator[Any]:
    yield item


# Reading.


def test_nothing_is_read_before_it_is_asked_for() -> None:
    """Steps, printing, and the length cost no read."""
    source = Watched(range(1000))
    items = view(Sliced(source, "numbers")).map(str).batched(10).concat(lazy([1]))
    assert isinstance(items, LazySequence)
    assert (len(items), repr(items)) == (
        101,
        "LazySequence(numbers | map(str) | batched(10) | concat(1 items), not read)",
    )
    assert source.reads == []


def test_an_index_reads_what_it_needs_only() -> None:
    """The function is called for the item that is asked for."""
    called: list[int] = []
    items: Any = lazy(range(1000)).map(noting(called))
    assert items[-1] == 999
    assert called == [999]


def test_a_sparse_slice_reads_what_it_needs_only() -> None:
    """A step leaves out the items in between."""
    called: list[int] = []
    items: Any = lazy(range(10)).map(noting(called))
    assert items[::-4] == [9, 5, 1]
    assert called == [9, 5, 1]


def test_iterating_again_reads_again() -> None:
    """A filtered view is no iterator that is used up."""
    items = lazy(range(6)).filter(is_odd)
    assert (list(items), list(items)) == ([1, 3, 5], [1, 3, 5])


def test_filtering_is_lazy() -> None:
    """The first item that is wanted ends the reading."""
    called: list[int] = []
    items = lazy(range(1000)).map(noting(called)).filter(is_odd)
    assert next(iter(items)) == 1
    assert called == [0, 1]


def test_flatten_leaves_texts_and_mappings_whole() -> None:
    """Lists, tuples and generators are pages; everything else is an item."""
    pages = [[1, 2], (3,), "text", b"bytes", {"a": 1}, None, [], lazy([4]), lazy([5]).filter(is_odd)]
    flat = list(lazy(pages).map(lambda page: page).flatten())
    assert flat == [1, 2, 3, "text", b"bytes", {"a": 1}, None, 4, 5]


def test_flatten_takes_generators() -> None:
    """A generator function makes pages."""
    assert list(lazy([1, 2]).map(generator).flatten()) == [1, 2]


def test_flatten_holds_one_page_at_a_time() -> None:
    """The page before is gone when the next one is made."""
    alive: list[weakref.ref[Page]] = []
    at_once: list[int] = []

    def page(number: int) -> Page:
        at_once.append(sum(each() is not None for each in alive))
        made = Page([number] * 3)
        alive.append(weakref.ref(made))
        return made

    assert sum(1 for _ in lazy(range(5)).map(page).flatten()) == 15
    assert at_once == [0, 0, 0, 0, 0]


def test_flatten_of_batches_knows_its_length() -> None:
    """It gives back what was batched."""
    items = lazy(range(7)).batched(3).flatten()
    assert isinstance(items, LazySequence)
    assert (len(items), items[5]) == (7, 5)


def test_leaving_early_closes_a_page() -> None:
    """A generator that is left is closed."""
    closed: list[int] = []

    def pages(number: int) -> Iterator[int]:
        try:
            yield number
            yield number
        finally:
            closed.append(number)

    items = iter(lazy([7]).map(pages).flatten())
    next(items)
    items.close()  # type: ignore[attr-defined]
    assert closed == [7]


# Lengths.


@pytest.mark.parametrize(
    "items",
    [lazy([1]).filter(is_odd), lazy([[1]]).flatten(), lazy([1]).filter(is_odd).batched(2).map(len)],
)
def test_an_unknown_length_says_what_to_do(items: LazyIterable) -> None:
    """len() is a TypeError, list() and bool() work."""
    with pytest.raises(TypeError, match=r"not known before all items are read: count them.*list\(\)"):
        len(items)
    assert (items.known_length(), bool(items), len(list(items))) == (None, True, 1)
    assert not isinstance(items, Sequence)


def test_truth_of_an_unknown_length_reads_to_the_first_item() -> None:
    """An empty one is false."""
    called: list[int] = []
    items = lazy(range(9)).map(noting(called)).filter(is_odd)
    assert bool(items)
    assert called == [0, 1]
    assert not lazy([2]).filter(is_odd)


def test_zip_ends_with_the_shortest() -> None:
    """As XComArg.zip() does."""
    zipped: Any = lazy([1, 2, 3]).zip(["ab"], ["x", "y"])
    assert (len(zipped), list(zipped)) == (1, [(1, "ab", "x")])


def test_zip_with_a_fillvalue_ends_with_the_longest() -> None:
    """None is a fill value as any other."""
    zipped: Any = lazy([1, 2]).zip(["a"], fillvalue=None)
    assert (len(zipped), list(zipped), zipped[1]) == (2, [(1, "a"), (2, None)], (2, None))


def test_strict_zip_of_unequal_lengths_is_an_error() -> None:
    """It says which input is short, also where lengths are not known."""
    with pytest.raises(ValueError, match=r"strict=True\): input 1 \(from 0\) has only 1 items"):
        list(lazy([1, 3]).filter(is_odd).zip(["a"], strict=True))
    with pytest.raises(ValueError, match=r"strict=True\): the inputs have 2 and 1 items"):
        len(lazy([1, 2]).zip(["a"], strict=True))


# Slices of what costs a request for each access.


def test_items_are_read_in_slices() -> None:
    """X4: reading N items takes few calls, none of them for a single item, and a call is capped."""
    source = Watched(range(10_000))
    assert list(view(Sliced(source, "numbers"))) == list(range(10_000))
    assert len(source.reads) <= 10_000 // 256 + 2
    assert max(key.stop - key.start for key in source.reads) == 256


def test_large_items_come_in_short_slices() -> None:
    """X6: a slice holds about a megabyte."""
    source = Watched(["x" * 100_000] * 100)
    assert sum(len(item) for item in view(Sliced(source, "texts"))) == 10_000_000
    assert {key.stop - key.start for key in source.reads[1:]} == {10}


def test_indexes_near_each_other_share_a_slice() -> None:
    """Reading by index, forwards or backwards, is no call an item."""
    source = Watched(range(1000))
    items: Any = view(Sliced(source, "numbers"))
    assert [items[index] for index in range(1000)] == list(range(1000))
    forwards = len(source.reads)
    assert list(reversed(items)) == list(range(999, -1, -1))
    assert forwards <= 7
    assert len(source.reads) - forwards <= 7


# Coroutines.


async def test_coroutines_read_too() -> None:
    """async for, alen and aget."""
    items: Any = lazy(range(1000)).map(str)
    assert [item async for item in items] == list(map(str, range(1000)))
    assert (await items.alen(), await items.aget(-1)) == (1000, "999")


async def test_async_iteration_gives_items_before_an_error() -> None:
    """What came before the item that fails is not lost."""
    seen: list[int] = []
    with pytest.raises(ZeroDivisionError):
        async for item in lazy(range(5)).map(fails_at_three):
            seen.append(item)
    assert seen == [0, 1, 2]


async def test_async_iteration_that_is_left_closes() -> None:
    """A generator inside is closed with it."""
    closed: list[bool] = []

    def pages(number: int) -> Iterator[int]:
        try:
            yield from range(1000)
        finally:
            closed.append(True)

    items = aiter(lazy([1]).map(pages).flatten())
    assert await anext(items) == 0
    await items.aclose()  # type: ignore[attr-defined]
    assert closed == [True]


# Errors.


@pytest.mark.parametrize(
    ("items", "step"),
    [
        (lazy(range(9)).map(fails_at_three), "map(fails_at_three), step 1 of the pipeline, for its item 3"),
        (
            lazy(range(1, 9)).map(fails_at_three).batched(2),
            "map(fails_at_three), step 1 of the pipeline, for its item 2",
        ),
        (
            lazy(range(9)).filter(lambda number: number != 1).filter(fails_at_three),
            "filter(fails_at_three), step 2 of the pipeline, for its item 2",
        ),
        (
            lazy([[1], range(9)]).map(lambda page: map(fails_at_three, page)).flatten(),
            "flatten(), step 2 of the pipeline, for its item 1",
        ),
    ],
)
def test_an_error_names_the_step_and_the_index(items: LazyIterable, step: str) -> None:
    """The error keeps its type, which Airflow may know; a note has its place."""
    with pytest.raises(ZeroDivisionError, match="three") as raised:
        list(items)
    assert f"raised in {step}" in raised.value.__notes__


def test_an_error_at_an_index_names_it() -> None:
    """Also without iterating."""
    with pytest.raises(ZeroDivisionError) as raised:
        lazy(range(9)).map(fails_at_three)[3]  # type: ignore[index]
    assert "for its item 3" in raised.value.__notes__[0]


@pytest.mark.parametrize("index", [3, -4])
def test_index_out_of_range(index: int) -> None:
    """As with a list."""
    with pytest.raises(IndexError, match="out of range"):
        lazy([1, 2, 3]).map(str)[index]  # type: ignore[index]


@pytest.mark.parametrize(
    ("method", "arguments", "options", "error", "message"),
    [
        ("map", (3,), {}, TypeError, r"map\(\): f must be a function of one item, got int"),
        ("filter", ("x",), {}, TypeError, r"filter\(\): f must be a function of one item, got str"),
        ("map", (coroutine,), {}, TypeError, "must not be a coroutine function, coroutine is one.*iterate"),
        ("filter", (generator,), {}, TypeError, "generator is a generator function"),
        ("batched", (0,), {}, ValueError, r"batched\(\): n must be at least 1, got 0"),
        ("batched", (True,), {}, TypeError, r"batched\(\): n must be a whole number, got bool"),
        ("batched", ("4",), {}, TypeError, r"batched\(\): n must be a whole number, got str"),
        ("zip", (), {}, TypeError, r"zip\(\): give at least one other"),
        ("concat", (), {}, TypeError, r"concat\(\): give at least one other"),
        ("concat", ([], iter([])), {}, TypeError, r"concat\(\): argument 1 is an iterator"),
        ("concat", (3,), {}, TypeError, "expected a stream or a sequence of items, got int"),
        ("zip", ([],), {"strict": 1}, TypeError, r"zip\(\): strict must be True or False"),
        ("zip", ([],), {"strict": True, "fillvalue": 0}, TypeError, "strict=True leaves nothing to fill"),
    ],
)
def test_wrong_arguments(
    method: str, arguments: Any, options: Any, error: type[Exception], message: str
) -> None:
    """Each error names the argument and what to do."""
    with pytest.raises(error, match=message):
        getattr(lazy([1]), method)(*arguments, **options)


def test_a_copy_is_itself() -> None:
    """Airflow copies what tasks are given; nothing is read for that."""
    items = lazy([1]).map(str)
    assert copy.deepcopy({"items": items})["items"] is items
