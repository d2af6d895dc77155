# SPDX-License-Identifier: Apache-2.0
"""What a live iteration tells whoever reads the stream for it, and the triggerer when it goes there."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.sdk import DAG, task
from airflow.sdk.exceptions import TaskDeferred

from airflow_provider_iteration import iterate, stream
from airflow_provider_iteration.exceptions import InputPaused, ProducerRestarted, Starved
from airflow_provider_iteration.iteration import Progress
from airflow_provider_iteration.iteration.input_field import Data, ResolvedInput
from airflow_provider_iteration.operators.live import LiveIterableOperator
from airflow_provider_iteration.streams.xcom_store import XComPlace
from airflow_provider_iteration.xcom.live import LiveItems
from tests.support.following import Scripted, follow
from tests.support.streams import RUN_A

EVENT = {"run": RUN_A, "failed": [], "skipped": []}


@task
def numbers() -> list[int]:
    return [1, 2]


@iterate
def handled(item: Any) -> Any:
    return item


class Consumer:
    """A live iteration whose items are only read, and which is as far as its test says."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, producer: Scripted) -> None:
        with DAG("d"):
            output: Any = handled.iterate(item=stream(numbers()).live(starve_seconds=30))
        self.operator: LiveIterableOperator = output.operator
        self.read: list[int] = []
        self.in_flight = self.failed = 0
        self.pause: InputPaused | None = None
        items = LiveItems(follow(producer), XComPlace("d", "numbers", "r"), lambda items: items)
        self.operator.input = ResolvedInput({"item": Data(items)}, whole=False)
        monkeypatch.setattr(self.operator, "work_off", self._work_off)
        monkeypatch.setattr(self.operator, "progress", self._progress)

    def deferral(self) -> TaskDeferred:
        """Run it until it goes to the triggerer."""
        with pytest.raises(TaskDeferred) as caught:
            self.operator.execute_live({}, EVENT)
        return caught.value

    def _work_off(self, context: Any, **how: bool) -> None:
        for arguments in self.operator.input.items():
            self.read.append(arguments["item"].value[1])
        if self.pause is not None:
            raise self.pause

    def _progress(self) -> Progress:
        return Progress(0, 0, 0, self.failed, self.in_flight, 0, None, None, 0.0)


@pytest.fixture
def starving(monkeypatch: pytest.MonkeyPatch) -> Consumer:
    """A consumer whose producer has an item, and then none for long."""
    return Consumer(monkeypatch, Scripted(*[("running", RUN_A, 1)] * 30, ("success", RUN_A, 2)))


@pytest.fixture
def sated(monkeypatch: pytest.MonkeyPatch) -> Consumer:
    """A consumer that reads all that there is."""
    return Consumer(monkeypatch, Scripted(("success", RUN_A, 2)))


def waits_for(deferral: TaskDeferred) -> dict[str, Any]:
    """Return the arguments of the trigger."""
    arguments: dict[str, Any] = deferral.trigger.serialize()[1]
    return arguments


def test_starved_consumer_waits_for_more_than_it_has_read(starving: Consumer) -> None:
    """In the triggerer, and it is told the same place when it is back."""
    deferral = starving.deferral()
    assert starving.read == [0]
    assert deferral.kwargs is not None
    assert waits_for(deferral)["place"] == deferral.kwargs["place"]
    assert deferral.kwargs["place"]["items"] == 1
    assert not waits_for(deferral)["needs_end"]


def test_consumer_with_items_in_flight_keeps_its_worker(starving: Consumer) -> None:
    """What is at work could not go to the triggerer."""
    starving.in_flight = 1
    starving.operator.execute_live({}, EVENT)
    assert starving.read == [0, 1]


def test_consumer_that_needs_no_more_items_waits_for_the_end(sated: Consumer) -> None:
    """It is not called for further items."""
    sated.pause = Starved(30, 2, needs_end=True)
    assert waits_for(sated.deferral())["needs_end"]


@pytest.mark.parametrize(("failed", "keeps"), [(0, True), (1, False)])
def test_results_are_kept_unless_an_item_has_failed(sated: Consumer, failed: int, keeps: bool) -> None:
    """That item's result, if it comes, belongs between them."""
    sated.failed, sated.pause = failed, Starved(30, 2)
    kwargs = sated.deferral().kwargs
    assert kwargs is not None
    assert (kwargs["goes_on"], kwargs["keeps_results"]) == (True, keeps)


def test_consumer_of_a_producer_that_began_anew_begins_anew(sated: Consumer) -> None:
    """With no place, and with none of the results that it has written."""
    sated.pause = ProducerRestarted("d.numbers", 2)
    deferral = sated.deferral()
    assert waits_for(deferral)["place"] is None
    assert deferral.kwargs == {"place": None, "goes_on": True, "keeps_results": False}
