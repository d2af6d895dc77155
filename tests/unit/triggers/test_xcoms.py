# SPDX-License-Identifier: Apache-2.0
"""XComs that anyone's trigger pushes."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest
from airflow.triggers.base import BaseEventTrigger, BaseTrigger, TaskSuccessEvent, TriggerEvent

from airflow_provider_iteration import _compat, push_xcom, push_xcoms
from airflow_provider_iteration.exceptions import PushFailed, PushRefused
from tests.support.triggers import give_task, run_trigger
from tests.unit.conftest import XComs

SECRET = "s3cret"
PLACE = {"dag_id": "shop", "task_id": "pages", "run_id": "r1", "map_index": -1}


class Pushing(BaseTrigger):
    """A trigger of someone else, which pushes before it ends the task."""

    def __init__(self, values: dict[str, Any]) -> None:
        super().__init__()
        self.values = values

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return f"{__name__}.Pushing", {"values": self.values}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        await push_xcoms(self, self.values)
        yield TaskSuccessEvent()


class Watching(BaseEventTrigger):
    """An asset watcher."""

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return f"{__name__}.Watching", {}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        yield TriggerEvent(None)


def with_task() -> Pushing:
    trigger = Pushing({})
    give_task(trigger)
    return trigger


async def test_values_are_in_place_before_the_task_ends(xcoms: XComs) -> None:
    """T6: when the ending event comes, every key has its value."""
    await run_trigger(Pushing({"pod": {"exit": 0}, "return_value": [1, 2]}))
    assert [xcoms.read(key=key, **PLACE) for key in ("pod", "return_value")] == [{"exit": 0}, [1, 2]]


async def test_push_is_done_when_it_returns(xcoms: XComs) -> None:
    """One key, one value."""
    await push_xcom(with_task(), "pod", "done")
    assert xcoms.read(key="pod", **PLACE) == "done"


async def test_backend_never_runs_on_the_event_loop(xcoms: XComs) -> None:
    """T5: a slow XCom backend stalls no other trigger."""
    await push_xcom(with_task(), "pod", 1)
    assert threading.current_thread().name not in xcoms.threads


async def test_each_key_is_one_write(xcoms: XComs) -> None:
    """The documented cost: a write a key, in order."""
    written: list[str] = []
    xcoms.before_write = written.append
    await push_xcoms(with_task(), {"b": 1, "a": 2})
    assert written == ["b", "a"]


async def test_failed_push_fails_the_run(xcoms: XComs) -> None:
    """T6: a push that failed raises in run(), so that no ending event is sent."""

    def refuse(key: str) -> None:
        raise OSError(f"no space for {SECRET}")

    xcoms.before_write = refuse
    with pytest.raises(PushFailed, match="'pod' was not pushed: OSError"):
        await run_trigger(Pushing({"pod": 1}))


async def test_value_is_in_no_error(xcoms: XComs) -> None:
    """What a backend says of a value is not passed on, not even as the cause of the error."""

    def refuse(key: str) -> None:
        raise ValueError(f"not JSON compliant: {SECRET}")

    xcoms.before_write = refuse
    with pytest.raises(PushFailed) as caught:
        await push_xcom(with_task(), "pod", SECRET)
    assert SECRET not in f"{caught.value!r} {caught.value} {caught.value.__cause__}"
    assert caught.value.__suppress_context__


async def test_values_before_a_failed_one_stay(xcoms: XComs) -> None:
    """The error names the key at which it stopped."""

    def refuse(key: str) -> None:
        if key == "b":
            raise OSError("no space")

    xcoms.before_write = refuse
    with pytest.raises(PushFailed, match="'b'"):
        await push_xcoms(with_task(), {"a": 1, "b": 2, "c": 3})
    assert [key[0] for key in xcoms.rows] == ["a"]


async def test_unanswered_push_fails(xcoms: XComs, monkeypatch: pytest.MonkeyPatch) -> None:
    """A message that gets no answer is given up after [iteration] message_timeout."""
    released = threading.Event()

    def wait(key: str) -> None:
        released.wait(10)

    xcoms.before_write = wait
    monkeypatch.setattr(_compat, "message_timeout", lambda: 0.05)
    with pytest.raises(PushFailed, match=r"no answer within 0\.05 s"):
        await push_xcom(with_task(), "pod", 1)
    released.set()


async def test_watcher_is_refused() -> None:
    """Bad input: an asset watcher has no task; on a stock event such XComs would be dropped in silence."""
    with pytest.raises(PushRefused, match="Watching watches an asset and belongs to no task"):
        await push_xcom(Watching(), "pod", 1)


async def test_trigger_without_a_task_is_refused() -> None:
    """Bad input: outside of a triggerer there is no task instance."""
    with pytest.raises(PushRefused, match="Pushing has no task instance"):
        await push_xcom(Pushing({}), "pod", 1)


@pytest.mark.parametrize(("key", "error"), [(1, TypeError), (None, TypeError), ("", ValueError)])
async def test_wrong_key_is_refused_before_any_write(xcoms: XComs, key: Any, error: type[Exception]) -> None:
    """Bad input: the error names the argument, and nothing was pushed."""
    with pytest.raises(error, match="key: expected"):
        await push_xcoms(with_task(), {"good": 1, key: 2})
    assert not xcoms.rows
