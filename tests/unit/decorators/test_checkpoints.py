# SPDX-License-Identifier: Apache-2.0
"""What a later try of an iterated task does, and what it leaves alone."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import DAG, Asset, AssetAlias, BaseOperator, get_current_context, task
from airflow.sdk.exceptions import AirflowSkipException, DownstreamTasksSkipped

from airflow_provider_iteration import _compat
from airflow_provider_iteration.decorators.iterate import iterate
from airflow_provider_iteration.exceptions import ItemsFailed, ResourceFailed
from tests.support.state_store import MemoryStateStore
from tests.unit.conftest import XComs
from tests.unit.decorators.test_iterate import TaskInstance, execute

RUNS = ("0198c0de-0000-7000-8000-00000000000a", "0198c0de-0000-7000-8000-00000000000b")


class Tries:
    """One task instance over its tries, with what lasts from one to the next."""

    def __init__(self, store: MemoryStateStore | None = None) -> None:
        self.store = store or MemoryStateStore()
        self.number = 0
        self.max_tries = 1
        self.ti = TaskInstance()
        self.events: Any = None

    def run(self, make: Callable[[], Any]) -> Any:
        """Make the task anew, as a process does, and execute its next try."""
        self.number += 1
        self.ti = TaskInstance()
        self.ti.id = f"0198c0de-0000-7000-8000-{self.number:012x}"
        self.ti.try_number, self.ti.max_tries = self.number, self.max_tries
        self.events = _compat.new_outlet_events()
        with DAG("d", schedule=None):
            made = make()
        return execute(made, self.ti, task_state_store=self.store, outlet_events=self.events)

    def clear(self) -> None:
        """Do what a clear does: the task may have as many tries again."""
        self.max_tries = self.number + 1


class Work:
    """Doubles numbers, counts what it is asked to do, and fails where it is told to."""

    def __init__(self, *failing: int) -> None:
        self.failing = set(failing)
        self.done: list[int] = []

    async def __call__(self, x: int) -> int:
        self.done.append(x)
        if x in self.failing:
            raise ValueError(f"no {x}")
        return 2 * x


def doubled(work: Work, xs: Any, /, **options: Any) -> Callable[[], Any]:
    async def double(x: int) -> int:
        return await work(x)

    return lambda: iterate(**options)(double).override(task_id="t").iterate(x=xs)


def fail(tries: Tries, make: Callable[[], Any]) -> None:
    with pytest.raises((ValueError, ItemsFailed)):
        tries.run(make)


def test_retry_does_what_is_missing(xcoms: XComs) -> None:
    """M5: a long batch that has failed goes on, it does not begin again."""
    work, tries = Work(3, 700), Tries()
    fail(tries, doubled(work, range(1000)))
    work.done.clear()
    work.failing.clear()
    assert list(tries.run(doubled(work, range(1000)))) == [2 * x for x in range(1000)]
    assert sorted(work.done) == [3, 700]


def test_third_try_knows_the_first_two(xcoms: XComs) -> None:
    """Each try adds what it has done."""
    work, tries = Work(3, 7), Tries()
    fail(tries, doubled(work, range(10)))
    work.failing.remove(3)
    fail(tries, doubled(work, range(10)))
    work.failing.remove(7)
    work.done.clear()
    assert list(tries.run(doubled(work, range(10)))) == [2 * x for x in range(10)]
    assert work.done == [7]


def test_clear_of_a_finished_task_does_everything_anew(xcoms: XComs) -> None:
    """The results of a run that was cleared are not used again."""
    work, tries = Work(3), Tries()
    fail(tries, doubled(work, range(10)))
    work.failing.clear()
    tries.run(doubled(work, range(10)))
    tries.clear()
    work.done.clear()
    tries.run(doubled(work, range(10)))
    assert sorted(work.done) == list(range(10))


def test_clear_of_an_unfinished_task_does_what_is_missing(xcoms: XComs) -> None:
    """A person who clears a failed task wants it to go on."""
    work, tries = Work(3), Tries()
    fail(tries, doubled(work, range(10)))
    tries.clear()
    work.failing.clear()
    work.done.clear()
    tries.run(doubled(work, range(10)))
    assert work.done == [3]


def test_process_that_dies_between_its_last_item_and_its_success(xcoms: XComs) -> None:
    """A retry is no clear: the number of tries that it may have is the same."""
    work, tries = Work(3), Tries()
    fail(tries, doubled(work, range(10)))
    work.failing.clear()
    tries.run(doubled(work, range(10)))
    work.done.clear()
    assert list(tries.run(doubled(work, range(10)))) == [2 * x for x in range(10)]
    assert work.done == [3]  # for which no row was due


def test_clear_after_the_retries_were_lowered_does_everything_anew(xcoms: XComs) -> None:
    """Then the task may have as many tries as before, and it was a clear all the same."""
    work, tries = Work(3), Tries()
    tries.max_tries = 2
    fail(tries, doubled(work, range(10), retries=2))
    work.failing.clear()
    tries.run(doubled(work, range(10), retries=2))
    work.done.clear()
    tries.run(doubled(work, range(10), retries=0))
    assert sorted(work.done) == list(range(10))


def test_clear_after_a_checkpoint_could_not_be_read_does_everything_anew(xcoms: XComs) -> None:
    """What an earlier try left does not come back after a success that knew nothing of it."""
    work, tries = Work(3), Tries()
    fail(tries, doubled(work, range(10)))
    rows = dict(tries.store.rows)
    for key in tries.store.checkpoint_rows():
        tries.store.rows[key] = '{"v": 1}'
    work.failing.clear()
    tries.run(doubled(work, range(10)))
    tries.store.rows.update({key: rows[key] for key in tries.store.checkpoint_rows()})
    tries.clear()
    work.done.clear()
    tries.run(doubled(work, range(10)))
    assert sorted(work.done) == list(range(10))


def test_try_without_checkpoints_ends_those_before_it(xcoms: XComs) -> None:
    """Who turns them off for one try, because the code has changed, does not get old results back later."""
    work, tries = Work(3), Tries()
    fail(tries, doubled(work, range(10)))
    work.failing.clear()
    tries.run(doubled(work, range(10), checkpoint_every=None))
    tries.clear()
    work.done.clear()
    tries.run(doubled(work, range(10)))
    assert sorted(work.done) == list(range(10))


def test_results_that_were_not_kept_are_made_anew(xcoms: XComs) -> None:
    """A try that kept no results is of no use to one that needs them."""
    work, tries = Work(1), Tries()
    fail(tries, doubled(work, range(3), do_xcom_push=False))
    work.failing.clear()
    assert list(tries.run(doubled(work, range(3)))) == [0, 2, 4]


def test_changed_input_is_done_again(xcoms: XComs) -> None:
    """An item is the one that was done only with the same input."""
    work, tries = Work(3), Tries()
    fail(tries, doubled(work, range(10)))
    work.failing.clear()
    work.done.clear()
    changed = [0, 1, 2, 3, 4, 50, 6, 7, 80, 9]
    assert list(tries.run(doubled(work, changed))) == [2 * x for x in changed]
    assert sorted(work.done) == [3, 50, 80]


def test_changed_constant_changes_all_items(xcoms: XComs) -> None:
    """Who mends an argument wants no mixture of results."""
    tries = Tries()

    def make(factor: int, failing: int) -> Callable[[], Any]:
        def scale(x: int, factor: int) -> int:
            if x == failing:
                raise ValueError("no")
            return factor * x

        return lambda: iterate(scale).override(task_id="t").partial(factor=factor).iterate(x=[0, 1, 2])

    fail(tries, make(2, failing=1))
    assert list(tries.run(make(3, failing=-1))) == [0, 3, 6]


def test_skipped_items_stay_skipped(xcoms: XComs) -> None:
    """They are not run again, and downstream tasks are skipped all the same."""
    tries = Tries()
    done: list[int] = []
    failing = {2}

    def half(x: int) -> int:
        done.append(x)
        if x == 1:
            raise AirflowSkipException("odd")
        if x in failing:
            raise ValueError("no")
        return x // 2

    @task
    def after(halves: Any) -> None: ...

    def make() -> Any:
        made: Any = iterate(do_xcom_push=False)(half).override(task_id="t").iterate(x=[0, 1, 2])
        after(made)
        return made

    fail(tries, make)
    failing.clear()
    done.clear()
    with pytest.raises(DownstreamTasksSkipped):
        tries.run(make)
    assert done == [2]


def test_own_xcoms_are_pushed_again(xcoms: XComs) -> None:
    """The start of a try deletes them; what an item has pushed is there again afterwards."""
    tries = Tries()
    failing = {1}

    def push(x: int) -> None:
        get_current_context()["ti"].xcom_push(key="seen", value={"x": x})
        if x in failing:
            raise ValueError("no")

    def make() -> Any:
        return iterate(push).override(task_id="t").iterate(x=[0, 1])

    fail(tries, make)
    failing.clear()
    tries.run(make)
    assert tries.ti.pushed == {"seen_0": {"x": 0}, "seen_1": {"x": 1}}


def test_item_whose_xcoms_cannot_be_kept_is_done_again(
    xcoms: XComs, caplog: pytest.LogCaptureFixture
) -> None:
    """An XCom backend may take what JSON does not: no item fails for it, and no key is missing later."""
    tries = Tries()
    failing = {1}
    told: list[int] = []

    def push(x: int) -> None:
        get_current_context()["ti"].xcom_push(key="seen", value=object() if x == 0 else x)
        if x in failing:
            raise ValueError("no")

    def make() -> Any:
        called = lambda context: told.append(context["ti"].index)  # noqa: E731
        return iterate(on_success_callback=called)(push).override(task_id="t").iterate(x=[0, 1, 2])

    fail(tries, make)
    failing.clear()
    tries.run(make)
    assert set(tries.ti.pushed) == {"seen_0", "seen_1", "seen_2"}
    assert sorted(told) == [0, 0, 1, 2]
    assert "XComs ['seen_0'] are not kept for a retry" in caplog.text


def test_indexed_results_are_pushed_again(xcoms: XComs) -> None:
    """With xcom_layout="indexed" the keys of all items are there after a retry."""
    work, tries = Work(1), Tries()
    fail(tries, doubled(work, range(3), xcom_layout="indexed"))
    work.failing.clear()
    tries.run(doubled(work, range(3), xcom_layout="indexed"))
    assert tries.ti.pushed == {"return_value_0": 0, "return_value_1": 2, "return_value_2": 4}


def test_outlet_events_are_replayed(xcoms: XComs) -> None:
    """An asset has one event, with the extra of the last item in the input, whichever try did that."""
    tries = Tries()
    failing = {0}
    asset, alias = Asset("loaded"), AssetAlias("tables")

    def load(x: int, outlet_events: Any = None) -> None:
        outlet_events[asset].extra = {"x": x}
        outlet_events[alias].add(Asset(f"table_{x}"), extra={"rows": x})
        if x in failing:
            raise ValueError("no")

    def make() -> Any:
        return iterate(outlets=[asset, alias])(load).override(task_id="t").iterate(x=[0, 1, 2])

    fail(tries, make)
    failing.clear()
    tries.run(make)
    assert tries.events[asset].extra == {"x": 2}
    assert sorted(e.dest_asset_key.name for e in tries.events[alias].asset_alias_events) == [
        "table_0",
        "table_1",
        "table_2",
    ]


def test_failed_task_emits_nothing_of_its_items(xcoms: XComs) -> None:
    """Outlet events are those of items that were not in vain."""
    tries = Tries()

    def load(x: int, outlet_events: Any = None) -> None:
        outlet_events[Asset("loaded")].extra = {"x": x}
        raise ValueError("no")

    fail(tries, lambda: iterate(load).override(task_id="t").iterate(x=[0]))
    assert not len(tries.events)


def test_callbacks_come_after_the_checkpoint_and_once(xcoms: XComs) -> None:
    """An item whose callback was called is not run again."""
    tries = Tries()
    work = Work(1)
    seen: list[tuple[int, bool]] = []

    def told(context: Any) -> None:
        seen.append((context["ti"].index, bool(tries.store.checkpoint_rows())))

    make = doubled(work, range(3), on_success_callback=told)
    fail(tries, make)
    assert sorted(seen) == [(0, True), (2, True)]
    work.failing.clear()
    seen.clear()
    tries.run(make)
    assert [index for index, _ in seen] == [1]


def test_callback_has_the_context_of_its_item(xcoms: XComs) -> None:
    """It runs later, in another thread, and sees what it would have seen then."""
    seen: list[Any] = []

    def told(context: Any) -> None:
        ti: Any = get_current_context()["ti"]
        seen.append((context["ti"].index, ti.index))

    Tries().run(doubled(Work(), range(3), on_success_callback=told))
    assert sorted(seen) == [(0, 0), (1, 1), (2, 2)]


def test_checkpoints_can_be_turned_off(xcoms: XComs) -> None:
    """Then a retry does everything anew."""
    work, tries = Work(1), Tries()
    fail(tries, doubled(work, range(3), checkpoint_every=None))
    assert tries.store.checkpoint_rows() == []
    work.failing.clear()
    work.done.clear()
    tries.run(doubled(work, range(3), checkpoint_every=None))
    assert sorted(work.done) == [0, 1, 2]


def test_short_iteration_that_succeeds_costs_no_row(xcoms: XComs) -> None:
    """What is over before a checkpoint was due needs none: everyone shares the api-server."""
    tries = Tries()
    tries.run(doubled(Work(), range(100)))
    assert sorted(tries.store.rows) == ["iteration_progress"]


@pytest.mark.parametrize("every", [1, 7, timedelta(hours=1)])
def test_checkpoint_every(xcoms: XComs, every: Any) -> None:
    """However often it is written, nothing is missing from it at the end."""
    work, tries = Work(40), Tries()
    fail(tries, doubled(work, range(50), checkpoint_every=every))
    work.failing.clear()
    work.done.clear()
    assert list(tries.run(doubled(work, range(50), checkpoint_every=every))) == [2 * x for x in range(50)]
    assert work.done == [40]


def test_results_that_are_no_json_come_back_as_they_were(xcoms: XComs) -> None:
    """What an XCom may be, a checkpoint keeps."""
    tries = Tries()
    values = [b"\0", (1, 2), "\0\ud800", float("inf"), datetime(2026, 1, 1, tzinfo=UTC), {"b": 1, "a": 2}]
    failing = {1}

    def value(x: int) -> Any:
        if x in failing:
            raise ValueError("no")
        return values[x]

    def make() -> Any:
        return iterate(value).override(task_id="t").iterate(x=list(range(len(values))))

    fail(tries, make)
    failing.clear()
    assert list(tries.run(make)) == values


def large(index: int) -> str:
    return f"{index}" * 1_000_000


def test_large_results_in_files(xcoms: XComs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With checkpoint_path the store holds small rows only; the run is part of each path."""
    monkeypatch.setenv("AIRFLOW__ITERATION__CHECKPOINT_PATH", f"file://{tmp_path}/checkpoints")
    assert_large_results_survive(largest_row=2000)
    assert len(list((tmp_path / "checkpoints" / "shop" / "r1" / "t").rglob("*.json"))) == 2


def test_large_results_in_the_store(xcoms: XComs) -> None:
    """Without checkpoint_path they are kept all the same."""
    assert_large_results_survive(largest_row=1_100_000)


def assert_large_results_survive(largest_row: int) -> None:
    tries = Tries()
    failing = {2}
    done: list[int] = []

    def make() -> Any:
        def big(x: int) -> str:
            done.append(x)
            if x in failing:
                raise ValueError("no")
            return large(x)

        return iterate(big).override(task_id="t").iterate(x=[0, 1, 2])

    fail(tries, make)
    failing.clear()
    done.clear()
    assert list(tries.run(make)) == [large(0), large(1), large(2)]
    assert done == [2]
    assert max(len(tries.store.rows[key]) for key in tries.store.checkpoint_rows()) < largest_row


def test_file_that_is_gone_costs_one_try(
    xcoms: XComs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lifecycle rule of the storage may have deleted it: the try after that does the item again."""
    monkeypatch.setenv("AIRFLOW__ITERATION__CHECKPOINT_PATH", f"file://{tmp_path}/checkpoints")
    tries, failing = Tries(), {2}

    def make() -> Any:
        def big(x: int) -> str:
            if x in failing:
                raise ValueError("no")
            return large(x)

        return iterate(big).override(task_id="t").iterate(x=[0, 1, 2])

    fail(tries, make)
    failing.clear()
    next((tmp_path / "checkpoints").rglob("1.json")).unlink()
    with pytest.raises(ResourceFailed) as caught:
        tries.run(make)
    assert re.search("a file with a result.* is gone: the next try does its", str(caught.value.__cause__))
    assert list(tries.run(make)) == [large(0), large(1), large(2)]


def test_checkpoint_that_cannot_be_read(xcoms: XComs, caplog: pytest.LogCaptureFixture) -> None:
    """A retry that knows nothing is better than none."""
    work, tries = Work(1), Tries()
    fail(tries, doubled(work, range(3)))
    for key in tries.store.checkpoint_rows():
        tries.store.rows[key] = '{"v": 1}'
    work.failing.clear()
    assert list(tries.run(doubled(work, range(3)))) == [0, 2, 4]
    assert "all items are done anew" in caplog.text


def test_store_that_fails_does_no_harm(xcoms: XComs) -> None:
    """No item fails for a checkpoint."""

    def broken(action: str, key: str) -> None:
        raise RuntimeError("api down")

    assert list(Tries(MemoryStateStore(broken)).run(doubled(Work(), range(3)))) == [0, 2, 4]


class Doubling(BaseOperator):
    """An operator that fails for some."""

    failing: set[int] = set()  # noqa: RUF012
    done: list[int] = []  # noqa: RUF012

    def __init__(self, *, x: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.x = x

    def execute(self, context: Any) -> int:
        self.done.append(self.x)
        if self.x in self.failing:
            raise ValueError("no")
        return 2 * self.x


def test_operators_are_not_executed_again(xcoms: XComs, monkeypatch: pytest.MonkeyPatch) -> None:
    """What holds for functions holds for operators."""
    done: list[int] = []
    monkeypatch.setattr(Doubling, "done", done)
    monkeypatch.setattr(Doubling, "failing", {3})
    tries = Tries()

    def make() -> Any:
        return iterate(Doubling.partial(task_id="t")).iterate(x=list(range(6)))

    fail(tries, make)
    monkeypatch.setattr(Doubling, "failing", set())
    done.clear()
    assert list(tries.run(make)) == [0, 2, 4, 6, 8, 10]
    assert done == [3]


@pytest.mark.parametrize(
    "changed",
    [{"execution_timeout": timedelta(hours=1), "retries": 7}, {"default_args": {"retries": 5}}],
    ids=["arguments", "default_args"],
)
def test_helping_a_failed_task_keeps_what_is_done(
    xcoms: XComs, monkeypatch: pytest.MonkeyPatch, changed: dict[str, Any]
) -> None:
    """Who gives a task more time or more retries wants it to go on."""
    done: list[int] = []
    monkeypatch.setattr(Doubling, "done", done)
    monkeypatch.setattr(Doubling, "failing", {3})
    tries = Tries()

    def make(**more: Any) -> Callable[[], Any]:
        return lambda: iterate(Doubling.partial(task_id="t", **more)).iterate(x=list(range(6)))

    fail(tries, make())
    monkeypatch.setattr(Doubling, "failing", set())
    done.clear()
    tries.run(make(**changed))
    assert done == [3]


def test_recalled_items_count_as_done(xcoms: XComs) -> None:
    """Progress, and shares of failed items, are those of the whole input."""
    work, tries = Work(3), Tries()
    fail(tries, doubled(work, range(10), max_failed_share=0.05))
    assert tries.store.get("iteration_progress")["failed"] == 1
    tries.run(doubled(work, range(100), max_failed_share=0.05))
    progress = tries.store.get("iteration_progress")
    assert (progress["done"], progress["succeeded"], progress["failed"]) == (100, 99, 1)


def test_results_of_nothing_are_not_kept(xcoms: XComs) -> None:
    """With do_xcom_push=False a checkpoint holds no results, and what is done is not done again."""
    work, tries = Work(1), Tries()
    fail(tries, doubled(work, range(3), do_xcom_push=False))
    assert all('"results": [null, null]' in tries.store.rows[key] for key in tries.store.checkpoint_rows())
    work.failing.clear()
    work.done.clear()
    assert tries.run(doubled(work, range(3), do_xcom_push=False)) is None
    assert work.done == [1]
