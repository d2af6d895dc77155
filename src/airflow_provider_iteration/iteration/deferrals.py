# SPDX-License-Identifier: Apache-2.0
"""Deferrals that are worked off within the process: the trigger on the event loop, the method in a thread."""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from datetime import timedelta
from typing import Any, NamedTuple

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowException, AirflowSkipException, TaskDeferred

from airflow_provider_iteration import _compat
from airflow_provider_iteration.iteration.attempts import Item

log = logging.getLogger(__name__)


class Deferral(NamedTuple):
    """What an operator raised to defer, as a value: it is no Exception, and must not end the run."""

    signal: TaskDeferred


def caught(operator: BaseOperator, function: Callable[[Any], Any], context: Any) -> Any:
    """
    Call a method of an operator as the task runner does.

    :param operator: the operator.
    :param function: called with the context.
    :param context: context of the item.
    :return: what it returned, or a :class:`Deferral`.
    """
    with _compat.allowed_to_execute(operator):
        try:
            return function(context)
        except TaskDeferred as signal:
            return Deferral(signal)


async def resumed(item: Item, operator: BaseOperator, signal: TaskDeferred, context: Any, ti: Any) -> Any:
    """
    Run a trigger to its first event, and go on as Airflow does with it.

    A trigger that fails, ends without an event, or takes too long, is told to the operator in Airflow's way,
    so that sensors make of it what they make of it there.

    :param item: the item.
    :param operator: its operator, which has deferred.
    :param signal: what it raised to defer.
    :param context: context of the item.
    :param ti: the task instance, which triggers may look at.
    :return: what the operator's method returned, or a further :class:`Deferral`.
    :raises AirflowException: if the trigger ended the task as failed.
    :raises AirflowSkipException: if it ended it as skipped.
    """
    try:
        event = await _first_event(signal, ti)
        if event is None:
            raise AirflowException("the trigger exited without sending an event")
    except _TimedOut:
        method, kwargs = _compat.trigger_failure(None)
    except Exception as error:
        method, kwargs = _compat.trigger_failure(traceback.format_exception(error))
    else:
        if (state := getattr(event, "task_instance_state", None)) is not None:
            return _ended(str(getattr(state, "value", state)))
        method, kwargs = signal.method_name, {**(signal.kwargs or {}), "event": event.payload}
    return await item.in_thread(
        caught, operator, lambda _: operator.resume_execution(method, kwargs, context), context
    )


class _TimedOut(Exception):
    pass


async def _first_event(signal: TaskDeferred, ti: Any) -> Any:
    trigger = signal.trigger
    trigger.task_instance = ti
    timeout = signal.timeout
    seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
    scope = asyncio.timeout(seconds)
    try:
        async with scope, aclosing(trigger.run()) as events:
            async for event in events:
                return event
    except TimeoutError:
        if scope.expired():
            raise _TimedOut from None
        raise
    except asyncio.CancelledError:
        await _told(trigger.on_kill)
        raise
    finally:
        await _told(trigger.cleanup)
    return None


async def _told(method: Callable[[], Awaitable[None]]) -> None:
    # As in a triggerer: the event counts, whatever comes after it.
    try:
        await method()
    except Exception:
        log.warning("%s of a trigger failed", method.__name__, exc_info=True)


def _ended(state: str) -> None:
    if state == "failed":
        raise AirflowException("the trigger ended the task as failed")
    if state == "skipped":
        raise AirflowSkipException("the trigger ended the task as skipped")
