# SPDX-License-Identifier: Apache-2.0
"""The one poller of all waiting consumers: what it asks for, and whom it wakes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from airflow_provider_iteration.streams import Head, Pace
from airflow_provider_iteration.streams.following import Place
from airflow_provider_iteration.streams.recency import RunJudge
from airflow_provider_iteration.streams.xcom_store import XComPlace
from airflow_provider_iteration.triggers import polling
from airflow_provider_iteration.triggers.live import LiveTrigger
from airflow_provider_iteration.triggers.polling import Found, Poller, Waiter, found_ended
from tests.support.streams import RUN_A, RUN_B


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(polling, "FIRST_PAUSE", 0.001)
    monkeypatch.setattr(polling, "LONGEST_PAUSE", 0.002)


def head(items: int = 1, run: str = RUN_A, **fields: Any) -> Any:
    """Return the row of a head."""
    opened = Head(run=run, **fields)
    return (opened.extended(items=items, pages=1, size=1, cursor=None) if items else opened).to_row()


class Airflow:
    """Answers a poller, and writes down what it was asked."""

    def __init__(self, states: dict[str, str | None], row: Any = None) -> None:
        self.states = states
        self.row = row
        self.asked: list[Any] = []
        self.fails = 0
        self.asks = asyncio.Event()

    async def ask_states(
        self, dag_id: str, runs: Sequence[str], tasks: Sequence[str]
    ) -> Mapping[str, Mapping[str, str | None]]:
        self.asked.append((dag_id, list(runs), list(tasks)))
        self.asks.set()
        if self.fails:
            self.fails -= 1
            raise RuntimeError("the api-server is away")
        return dict.fromkeys(runs, self.states)

    async def ask_head(self, place: XComPlace, key: str) -> Any:
        self.asked.append((place.task_id, key))
        self.asks.set()
        return self.row

    def poller(self) -> Poller:
        return Poller(self.ask_states, self.ask_head, Pace(rest=0.0))

    async def asked_again(self, times: int = 3) -> None:
        """Wait until it was asked so many times more."""
        for _ in range(times):
            self.asks.clear()
            await self.asks.wait()


def waiter(*others: str, run: str = "r", place: Place | None = None) -> Waiter:
    return Waiter(XComPlace("d", "pages", run), "key", others, RunJudge(RUN_A), place)


async def found(airflow: Airflow, *others: str, place: Place | None = None) -> Found:
    return await airflow.poller().wait(waiter(*others, place=place))


async def test_first_item_is_found() -> None:
    """With the run that it is of."""
    assert await found(Airflow({"pages": "deferred"}, head())) == Found(RUN_A, [], [])


async def still_waits(airflow: Airflow, change: Callable[[], None], *others: str) -> Found:
    """Check that nothing is found before a change, and return what is found after it."""
    waiting = asyncio.create_task(found(airflow, *others))
    await airflow.asked_again()
    assert not waiting.done()
    change()
    return await waiting


@pytest.mark.parametrize("state", [None, "scheduled", "queued", "up_for_retry", "restarting"])
async def test_head_is_not_asked_for_before_the_producer_runs(state: str | None) -> None:
    """It would be that of an earlier run."""
    airflow = Airflow({"pages": state}, head())
    await still_waits(airflow, lambda: airflow.states.update(pages="running"))
    assert [len(question) for question in airflow.asked[:3]] == [3, 3, 3]


async def test_head_without_an_item_wakes_nobody() -> None:
    """There is nothing to do yet."""
    airflow = Airflow({"pages": "running"}, head(0))
    await still_waits(airflow, lambda: setattr(airflow, "row", head(1)))


async def test_other_upstreams_are_waited_for() -> None:
    """Although the producer has something."""
    airflow = Airflow({"pages": "running", "other": "running"}, head())
    await still_waits(airflow, lambda: airflow.states.update(other="success"), "other")


async def test_end_alone_can_be_waited_for() -> None:
    """By a consumer that has read as much as it needs: what else is written is not even asked for."""
    airflow = Airflow({"pages": "running"}, head())
    needs_end = Waiter(XComPlace("d", "pages", "r"), "key", (), RunJudge(RUN_A), None, needs_end=True)
    waiting = asyncio.create_task(airflow.poller().wait(needs_end))
    await airflow.asked_again()
    assert not waiting.done()
    airflow.states.update(pages="success")
    assert await waiting == Found(None, [], [])
    assert [len(question) for question in airflow.asked] == [3] * len(airflow.asked)


async def test_instances_of_a_mapped_upstream_are_waited_for() -> None:
    """All of them; another task whose name looks like one of them is no instance."""
    airflow = Airflow({"pages": "running", "other_0": "success", "other_1": None}, head())
    await still_waits(airflow, lambda: airflow.states.update(other_1="success"), "other")


async def test_instance_that_is_gone_is_no_failure() -> None:
    """A mapped upstream has fewer instances than in an earlier run of it."""
    airflow = Airflow({"pages": "running", "other_0": "success", "other_1": "removed"}, head())
    assert await found(airflow, "other") == Found(RUN_A, [], [])


async def test_failure_beside_is_found_at_once() -> None:
    """Before the producer has anything."""
    airflow = Airflow({"pages": None, "a": "failed", "b": "skipped"})
    assert await found(airflow, "a", "b") == Found(None, ["a"], ["b"])


@pytest.mark.parametrize(("state", "failed", "skipped"), [
    ("success", [], []),
    ("failed", ["pages"], []),
    ("upstream_failed", ["pages"], []),
    ("skipped", [], ["pages"]),
])  # fmt: skip
async def test_end_of_the_producer_is_found(state: str, failed: list[str], skipped: list[str]) -> None:
    """However it ended, and without a look at its head."""
    airflow = Airflow({"pages": state})
    assert await found(airflow) == Found(None, failed, skipped)
    assert len(airflow.asked) == 1


@pytest.mark.parametrize("row", [head(3), head(1, RUN_B), head(2, incarnation=2)])
async def test_consumer_that_was_there_waits_for_more(row: Any) -> None:
    """More items, a new run, or a run that began anew."""
    airflow = Airflow({"pages": "running"}, head(2))
    waiting = asyncio.create_task(found(airflow, place=Place(RUN_A, 1, 2)))
    await airflow.asked_again()
    assert not waiting.done()
    airflow.row = row
    assert (await waiting).run == row["run"]


async def test_many_waiters_cost_few_questions() -> None:
    """200 consumers of one producer, in four runs."""
    airflow = Airflow({"pages": "running"}, head())
    poller = airflow.poller()
    await asyncio.gather(*(poller.wait(waiter(run=f"r{number % 4}")) for number in range(200)))
    assert len(airflow.asked) == 1 + 4


async def test_question_without_an_answer_is_asked_again(caplog: pytest.LogCaptureFixture) -> None:
    """The waiting tasks do not fail for it."""
    airflow = Airflow({"pages": "running"}, head())
    airflow.fails = 2
    assert (await found(airflow)).run == RUN_A
    assert "the api-server is away" in caplog.text


async def test_head_of_a_newer_version_fails_its_waiter_only() -> None:
    """With a message that says what it is."""
    airflow = Airflow({"pages": "running"}, {**head(), "v": 99})
    with pytest.raises(ValueError, match="format 99"):
        await found(airflow)


async def test_poller_rests_when_nobody_waits() -> None:
    """A waiter that was cancelled is not asked for any more."""
    airflow = Airflow({"pages": None})
    poller = airflow.poller()
    waiting = asyncio.create_task(poller.wait(waiter()))
    await airflow.asked_again()
    waiting.cancel()
    await asyncio.wait([waiting])
    assert poller._loop_task is not None
    await poller._loop_task


def test_trigger_survives_serialisation() -> None:
    """What it is made of is plain JSON."""
    arguments = {
        "producer": "p",
        "key": "k",
        "others": ["a"],
        "place": {"run": RUN_A, "items": 2},
        "min_seconds": 1.0,
        "needs_end": True,
    }
    path, again = LiveTrigger(**arguments).serialize()  # type: ignore[arg-type]
    assert (path.rpartition(".")[2], again) == ("LiveTrigger", arguments)


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        ({"pages": "success", "other": "success"}, Found(None, [], [])),
        ({"pages": "failed", "other_0": "skipped", "other_1": "success"}, Found(None, ["pages"], ["other"])),
        ({"pages": "running", "other": "success"}, None),
        ({"pages": "success"}, None),
        ({"pages": "success", "other": None}, None),
    ],
)
def test_nothing_is_waited_for_when_all_have_ended(
    states: dict[str, str | None], expected: Found | None
) -> None:
    """A task that started on a worker then begins at once."""
    assert found_ended(states, ["pages", "other"]) == expected
