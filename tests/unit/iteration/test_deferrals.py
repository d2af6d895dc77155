# SPDX-License-Identifier: Apache-2.0
"""Operators that defer, as items: how often, how long, and what their triggers are told."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any, ClassVar

import pytest
from airflow.sdk import DAG, BaseOperator
from airflow.sdk.exceptions import TaskDeferralError, TaskDeferralTimeout
from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_provider_iteration.decorators.iterate import iterate
from airflow_provider_iteration.exceptions import ItemTimeout, IterationStopped
from tests.unit.conftest import XComs
from tests.unit.decorators.test_iterate import current_index, execute

DEFERRALS = 1500


class Told:
    """What a trigger was told, as (method, its number)."""

    seen: ClassVar[list[tuple[str, int]]] = []
    waiting: ClassVar[threading.Event] = threading.Event()


@pytest.fixture(autouse=True)
def told() -> list[tuple[str, int]]:
    Told.seen.clear()
    Told.waiting.clear()
    return Told.seen


class Waiting(BaseTrigger):
    """A trigger that fires, fails, or waits for ever, and notes what it is told."""

    def __init__(self, number: int, how: str) -> None:
        super().__init__()
        self.number = number
        self.how = how

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return f"{__name__}.Waiting", {"number": self.number, "how": self.how}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        if self.how == "waits":
            Told.waiting.set()
            await asyncio.Event().wait()
        if self.how == "fails":
            raise ValueError("no")
        yield TriggerEvent(self.number)

    async def on_kill(self) -> None:
        Told.seen.append(("on_kill", self.number))
        if self.number == 13:
            raise RuntimeError("cannot reach the cluster")

    async def cleanup(self) -> None:
        Told.seen.append(("cleanup", self.number))
        if self.number == 13:
            raise RuntimeError("cannot close")


class Waiter(BaseOperator):
    """Defers once, in the way that it is told."""

    def __init__(self, *, number: int = 0, how: str = "fires", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.number = number
        self.how = how

    def execute(self, context: Any) -> None:
        self.defer(trigger=Waiting(self.number, self.how), method_name="resumed")

    def resumed(self, context: Any, event: Any = None) -> list[int]:
        return [event, current_index()]


class Again(BaseOperator):
    """Defers again and again."""

    def __init__(self, *, times: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.times = times

    def execute(self, context: Any) -> None:
        self.next(context, event=0, left=self.times)

    def next(self, context: Any, event: Any, left: int) -> int:
        if left:
            self.defer(trigger=Waiting(left, "fires"), method_name="next", kwargs={"left": left - 1})
        return self.times


def waiters(*hows: str, first: int = 0, **options: Any) -> Any:
    arguments = [{"number": first + number, "how": how} for number, how in enumerate(hows)]
    with DAG("d", schedule=None):
        return iterate(Waiter.partial(task_id="t"), **options).iterate_kwargs(arguments)


def test_item_may_defer_more_often_than_python_recurses(xcoms: XComs) -> None:
    """Each deferral replaces the one before; its arguments are given to its method once."""
    with DAG("d", schedule=None):
        made = iterate(Again.partial(task_id="t")).iterate(times=[DEFERRALS, 1])
    assert list(execute(made)) == [DEFERRALS, 1]


def test_deferrals_of_one_item_end_in_order(xcoms: XComs, told: list[tuple[str, int]]) -> None:
    """A trigger is cleaned up before the operator goes on."""
    with DAG("d", schedule=None):
        made = iterate(Again.partial(task_id="t")).iterate(times=[3])
    execute(made)
    assert told == [("cleanup", 3), ("cleanup", 2), ("cleanup", 1)]


def test_trigger_of_an_item_that_is_cut_off_is_told(xcoms: XComs, told: list[tuple[str, int]]) -> None:
    """A deferred item has the same item_timeout as others; its trigger may cancel what it waits for."""
    made = waiters("fires", "waits", item_timeout=0.3)
    with pytest.raises(ItemTimeout):
        execute(made)
    assert sorted(told) == [("cleanup", 0), ("cleanup", 1), ("on_kill", 1)]


def test_item_that_was_cut_off_while_deferred_is_tried_again(
    xcoms: XComs, told: list[tuple[str, int]]
) -> None:
    """Nothing of it hangs: it waits on the event loop, and not in a thread."""
    made = waiters("waits", item_timeout=0.1, item_retries=1, item_retry_delay=0)
    with pytest.raises(ItemTimeout):
        execute(made)
    assert told == [("on_kill", 0), ("cleanup", 0)] * 2


def test_triggers_are_told_when_the_task_is_ended(xcoms: XComs, told: list[tuple[str, int]]) -> None:
    """Marking the task failed reaches what its items wait for."""
    made = waiters("waits", "waits")
    ender = threading.Thread(target=lambda: Told.waiting.wait(10) and made.on_kill())
    ender.start()
    with pytest.raises(IterationStopped):
        execute(made)
    ender.join()
    assert sorted(told) == [("cleanup", 0), ("cleanup", 1), ("on_kill", 0), ("on_kill", 1)]


def test_trigger_that_fails_is_cleaned_up(xcoms: XComs, told: list[tuple[str, int]]) -> None:
    """It is over, so it is not told to end."""
    with pytest.raises(TaskDeferralError):
        execute(waiters("fails", "fires"))
    assert sorted(told) == [("cleanup", 0), ("cleanup", 1)]


def test_deferral_that_takes_too_long_is_not_killed(xcoms: XComs, told: list[tuple[str, int]]) -> None:
    """As in Airflow: only an item that is cut off tells its trigger so."""

    class Impatient(Waiter):
        def execute(self, context: Any) -> None:
            self.defer(
                trigger=Waiting(self.number, "waits"),
                method_name="resumed",
                timeout=timedelta(seconds=0.05),
            )

    with DAG("d", schedule=None):
        made = iterate(Impatient.partial(task_id="t")).iterate(number=[1])
    with pytest.raises(TaskDeferralTimeout):
        execute(made)
    assert told == [("cleanup", 1)]


def test_trigger_that_fails_to_clean_up_has_fired_all_the_same(
    xcoms: XComs, caplog: pytest.LogCaptureFixture
) -> None:
    """Airflow ignores it, too: the event counts."""
    assert list(execute(waiters("fires", first=13))) == [[13, 0]]
    assert "cleanup of a trigger failed" in caplog.text


def test_trigger_that_cannot_be_killed_holds_nothing_up(
    xcoms: XComs, told: list[tuple[str, int]], caplog: pytest.LogCaptureFixture
) -> None:
    """It is logged, and it is cleaned up all the same."""
    with pytest.raises(ItemTimeout):
        execute(waiters("waits", first=13, item_timeout=0.1))
    assert "on_kill of a trigger failed" in caplog.text
    assert told == [("on_kill", 13), ("cleanup", 13)]
