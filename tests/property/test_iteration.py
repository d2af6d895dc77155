# SPDX-License-Identifier: Apache-2.0
"""Iterations under random inputs, speeds, failures and cancellations."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_iteration.exceptions import IterationStopped
from airflow_provider_iteration.iteration import Item, IterateOptions, Iteration, Outcome, by_type
from airflow_provider_iteration.iteration.outcomes import IndexRanges


class Skip(Exception): ...


class Final(Exception): ...


class Script(NamedTuple):
    """What an item does: how many passes of the loop it takes, how often it fails, how it ends."""

    passes: int
    failures: int
    end: str


SCRIPTS = st.builds(
    Script, st.integers(0, 4), st.integers(0, 3), st.sampled_from(["success", "success", "skip", "final"])
)
SOURCES = st.sampled_from(["list", "thread", "async"])


class Watched:
    """An input and a callable that check, whenever they are used, what must always hold."""

    def __init__(self, scripts: list[Script], concurrency: int) -> None:
        self.scripts = scripts
        self.concurrency = concurrency
        self.read = 0
        self.active: set[int] = set()
        self.most = 0
        self.starts: list[int] = []
        self.attempts: Counter[int] = Counter()
        self.outcomes: list[Outcome] = []

    def source(self, kind: str) -> Any:
        if kind == "list":
            return list(enumerate(self.scripts))
        return self._pairs() if kind == "thread" else self._async_pairs()

    def _pairs(self) -> Iterator[tuple[int, Script]]:
        for pair in enumerate(self.scripts):
            self.read += 1
            # Read, and not yet delivered: no more than there are slots.
            assert self.read - len(self.outcomes) <= self.concurrency
            yield pair

    async def _async_pairs(self) -> AsyncIterator[tuple[int, Script]]:
        for pair in self._pairs():
            await asyncio.sleep(0)
            yield pair

    async def work(self, item: Item) -> int:
        script: Script = item.value
        assert item.index not in self.active
        self.active.add(item.index)
        self.most = max(self.most, len(self.active))
        self.attempts[item.index] += 1
        if item.attempt == 1:
            self.starts.append(item.index)
        try:
            for _ in range(script.passes):
                await asyncio.sleep(0)
            if item.attempt <= script.failures:
                raise OSError
            if script.end != "success":
                raise {"skip": Skip, "final": Final}[script.end]
            return item.index
        finally:
            self.active.discard(item.index)

    def sink(self, slow: bool) -> Callable[[Outcome], Any]:
        return self._deliver_slowly if slow else self.outcomes.append

    async def _deliver_slowly(self, outcome: Outcome) -> None:
        await asyncio.sleep(0)
        self.outcomes.append(outcome)

    def iteration(self, kind: str, retries: int, slow_sink: bool) -> Iteration:
        options = IterateOptions(
            task_concurrency=self.concurrency,
            item_retries=retries,
            item_retry_delay=0,
            max_failed_items=len(self.scripts),
        )
        return Iteration(
            self.work,
            self.source(kind),
            options,
            sink=self.sink(slow_sink),
            classify=by_type(final=(Final,), skip=(Skip,)),
            pass_item=True,
            indexed=True,
        )


def expected(script: Script, retries: int) -> tuple[str, int]:
    if script.failures > retries:
        return "failed", retries + 1
    status = {"success": "success", "skip": "skipped", "final": "failed"}[script.end]
    return status, script.failures + 1


@given(
    scripts=st.lists(SCRIPTS, max_size=40),
    concurrency=st.integers(1, 8),
    retries=st.integers(0, 3),
    kind=SOURCES,
    slow_sink=st.booleans(),
)
@settings(deadline=None)
def test_each_item_has_the_outcome_that_it_must_have(
    scripts: list[Script], concurrency: int, retries: int, kind: str, slow_sink: bool
) -> None:
    """C1, M1: one outcome an item, retries counted, never too many in flight, read only as worked off."""
    watched = Watched(scripts, concurrency)
    summary = asyncio.run(watched.iteration(kind, retries, slow_sink).run())
    found = {outcome.index: (outcome.status, outcome.attempts) for outcome in watched.outcomes}
    wanted = {index: expected(script, retries) for index, script in enumerate(scripts)}
    assert len(watched.outcomes) == len(scripts)
    assert found == wanted
    assert dict(watched.attempts) == {index: attempts for index, (_, attempts) in wanted.items()}
    assert watched.most <= concurrency
    assert watched.starts == list(range(len(scripts)))
    counts = Counter(status for status, _ in wanted.values())
    progress = summary.progress
    assert (progress.succeeded, progress.skipped, progress.failed, progress.in_flight) == (
        counts["success"],
        counts["skipped"],
        counts["failed"],
        0,
    )
    assert progress.retried == sum(attempts - 1 for _, attempts in wanted.values())


@given(
    scripts=st.lists(SCRIPTS, max_size=25), retries=st.integers(0, 2), kind=SOURCES, slow_sink=st.booleans()
)
@settings(deadline=None)
def test_concurrency_of_one_is_strictly_serial(
    scripts: list[Script], retries: int, kind: str, slow_sink: bool
) -> None:
    """Items are worked on and delivered one after the other, retries included, in input order."""
    watched = Watched(scripts, 1)
    asyncio.run(watched.iteration(kind, retries, slow_sink).run())
    assert watched.most <= 1
    assert [outcome.index for outcome in watched.outcomes] == list(range(len(scripts)))


@given(
    scripts=st.lists(SCRIPTS, min_size=1, max_size=40),
    concurrency=st.integers(1, 8),
    kind=SOURCES,
    slow_sink=st.booleans(),
    passes=st.integers(0, 60),
    by_stop=st.booleans(),
)
@settings(deadline=None)
def test_end_at_any_moment_leaves_consistent_outcomes(
    scripts: list[Script], concurrency: int, kind: str, slow_sink: bool, passes: int, by_stop: bool
) -> None:
    """Cancelled or stopped: no outcome twice, none that is wrong, nothing at work, nothing new afterwards."""
    retries = 2
    watched = Watched(scripts, concurrency)

    async def main() -> tuple[bool, Iteration]:
        iteration = watched.iteration(kind, retries, slow_sink)
        running = asyncio.ensure_future(iteration.run())
        for _ in range(passes):
            await asyncio.sleep(0)
        if by_stop:
            iteration.stop()
        else:
            running.cancel()
        cut_off = False
        try:
            await running
        except (IterationStopped, asyncio.CancelledError):
            cut_off = True
        after = (watched.starts.copy(), watched.outcomes.copy())
        for _ in range(10):
            await asyncio.sleep(0)
        assert after == (watched.starts, watched.outcomes)
        return cut_off, iteration

    cut_off, iteration = asyncio.run(main())
    progress = iteration.progress()
    indexes = [outcome.index for outcome in watched.outcomes]
    assert len(indexes) == len(set(indexes)) == progress.done
    for outcome in watched.outcomes:
        assert (outcome.status, outcome.attempts) == expected(scripts[outcome.index], retries)
    assert not watched.active
    assert watched.starts == list(range(len(watched.starts)))
    assert set(indexes) <= set(watched.starts)
    # Every item that was taken is accounted for, one way or the other.
    assert len(watched.starts) <= progress.done + progress.in_flight <= len(scripts)
    assert progress.in_flight <= concurrency
    if not cut_off:
        assert progress.done == len(scripts)


@given(values=st.lists(st.integers(0, 99), max_size=30), concurrency=st.integers(1, 6), kind=SOURCES)
@settings(deadline=None, max_examples=30)
def test_threads_give_what_coroutines_give(values: list[int], concurrency: int, kind: str) -> None:
    """A function that runs in threads has one outcome for each item too, in whatever order."""

    def work(value: int) -> int:
        if value % 7 == 3:
            raise ValueError
        return value * 2

    async def stream() -> AsyncIterator[int]:
        for value in values:
            yield value

    outcomes: list[Outcome] = []
    sources: dict[str, Callable[[], Any]] = {
        "list": lambda: values,
        "thread": lambda: (value for value in values),
        "async": stream,
    }
    options = IterateOptions(task_concurrency=concurrency, max_failed_items=len(values))
    asyncio.run(Iteration(work, sources[kind](), options, sink=outcomes.append).run())
    found = sorted((outcome.index, outcome.status, outcome.result) for outcome in outcomes)
    assert found == [
        (index, "failed", None) if value % 7 == 3 else (index, "success", value * 2)
        for index, value in enumerate(values)
    ]


@given(indexes=st.lists(st.integers(0, 60), unique=True), most=st.integers(1, 60))
def test_ranges_hold_what_was_added(indexes: list[int], most: int) -> None:
    """Every index is in a range or counted, whatever the order; ranges are apart and in order."""
    ranges = IndexRanges(most)
    for index in indexes:
        ranges.add(index)
    held = [index for first, last in ranges.ranges() for index in range(first, last + 1)]
    assert len(held) + ranges.others == len(indexes)
    assert held == sorted(held)
    assert set(held) <= set(indexes)
    assert len(ranges.ranges()) <= most
    if not ranges.others:
        starts = [first for first, _ in ranges.ranges()]
        assert all(start - 1 not in held for start in starts)
