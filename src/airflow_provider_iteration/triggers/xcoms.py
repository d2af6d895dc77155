# SPDX-License-Identifier: Apache-2.0
"""XComs that a trigger pushes while it runs, for triggers of any author."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow.triggers.base import BaseEventTrigger, BaseTrigger

from airflow_provider_iteration.exceptions import PushFailed, PushRefused, StoreTimeout
from airflow_provider_iteration.streams.xcom_store import XComPlace, XComStore


async def push_xcom(trigger: BaseTrigger, key: str, value: Any) -> None:
    """
    Push an XCom of the task that a running trigger belongs to.

    The value goes through the configured XCom backend, as on a worker, in a thread, so that a slow one
    does not stall other triggers. It is in place when this returns. One write takes some 30 ms of the
    triggerer, which serves one at a time, whoever asks; ``[iteration] message_timeout`` is its bound.

    Not done: the length that tasks need which expand over ``return_value`` is not written with it. A task
    with such a dependant must end on a worker.

    :param trigger: the trigger, usually ``self`` in its ``run()``.
    :param key: XCom key; ``"return_value"`` is the task's result.
    :param value: what the XCom backend can keep; it appears in no log line and no error.
    :raises PushRefused: if the trigger has no task to push for: an asset watcher, for one.
    :raises PushFailed: if it was not pushed. Let it go: then the try fails, as on a worker.
    """
    await push_xcoms(trigger, {key: value})


async def push_xcoms(trigger: BaseTrigger, values: Mapping[str, Any]) -> None:
    """
    Push several XComs, in order, one write for each key: many results belong under one key, or in a stream.

    :param trigger: as for :func:`push_xcom`.
    :param values: the values by their keys.
    :raises PushRefused: as :func:`push_xcom`; nothing was pushed then.
    :raises PushFailed: for the first key that was not pushed; those before it are.
    """
    store = XComStore.of(_place(trigger))
    for key in values:
        _check_key(key)
    for key, value in values.items():
        await _push(store, key, value)


async def _push(store: XComStore, key: str, value: Any) -> None:
    try:
        await store.set(key, value)
    except StoreTimeout as error:
        raise PushFailed(key, str(error)) from None
    except Exception as error:
        # Not chained: what a backend or the api-server says of a value often quotes it.
        raise PushFailed(key, _kind(error)) from None


def _place(trigger: BaseTrigger) -> XComPlace:
    name = type(trigger).__name__
    if isinstance(trigger, BaseEventTrigger):
        raise PushRefused(
            f"{name} watches an asset and belongs to no task, so there is nothing to push an XCom to: "
            "send the value in the event's payload"
        )
    if trigger.task_instance is None:
        raise PushRefused(
            f"{name} has no task instance: an XCom can be pushed in run(), once a triggerer has started it"
        )
    return XComPlace.of(trigger.task_instance)


def _check_key(key: object) -> None:
    if not isinstance(key, str):
        raise TypeError(f"key: expected a string, got {type(key).__name__}")
    if not key:
        raise ValueError("key: expected the name of an XCom, got an empty string")


def _kind(error: Exception) -> str:
    # What Airflow's supervisor answers carries a code of its own.
    code = getattr(getattr(getattr(error, "error", None), "error", None), "value", None)
    return type(error).__name__ if code is None else f"{type(error).__name__} {code}"
