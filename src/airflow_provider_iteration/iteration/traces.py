# SPDX-License-Identifier: Apache-2.0
"""What an item leaves behind besides its result: XComs of its own, and outlet events."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from airflow_provider_iteration import _compat
from airflow_provider_iteration.streams.codec import dump_text, load_text

log = logging.getLogger(__name__)

_PUSHED = "pushed"
_EVENTS = "events"


def extras_of(context: Mapping[str, Any]) -> dict[str, Any] | None:
    """
    Return what an item left, as JSON, or None if that is nothing.

    :param context: context of the item, in which it has run.
    """
    extras: dict[str, Any] = {}
    if pushed := getattr(context["ti"], "pushed", None):
        extras[_PUSHED] = _kept(pushed)
    if events := context.get("outlet_events"):
        extras[_EVENTS] = _compat.plain_outlet_events(events)
    return extras or None


def is_complete(extras: Mapping[str, Any] | None) -> bool:
    """
    Tell whether a later try can do with extras instead of doing the item again.

    :param extras: what :func:`extras_of` returned.
    """
    return not extras or extras.get(_PUSHED, "") is not None


def _kept(pushed: Mapping[str, Any]) -> str | None:
    try:
        return dump_text(pushed, _compat.to_serde)
    except (TypeError, AttributeError, RecursionError) as error:
        # An XCom backend of the user's own may take what nothing else does.
        log.warning("XComs %s are not kept for a retry, which does their item again: %s", list(pushed), error)
        return None


def push_again(ti: Any, extras: Mapping[str, Any] | None) -> None:
    """
    Push an item's own XComs, which the start of a new try has deleted. Blocks: one request a key.

    :param ti: the task instance.
    :param extras: what :func:`extras_of` returned in an earlier try.
    """
    if extras and (text := extras.get(_PUSHED)):
        for key, value in load_text(text, _compat.from_serde).items():
            ti.xcom_push(key, value)


class OutletEvents:
    """
    Gathers the outlet events of items: of each asset one, with the extra of the last item in the input.

    :param target: the task's own events.
    """

    def __init__(self, target: Any) -> None:
        self._target = target
        self._last: dict[tuple[str, ...], tuple[int, dict[str, Any]]] = {}

    def add(self, index: int, extras: Mapping[str, Any] | None) -> None:
        """
        Take the events of one item.

        :param index: place of the item in the input.
        :param extras: what it left.
        """
        for event in (extras or {}).get(_EVENTS, ()):
            _compat.add_outlet_event(self._target, {**event, "extra": {}})
            key = tuple(event["of"])
            if event["extra"] and (key not in self._last or self._last[key][0] < index):
                self._last[key] = (index, event)

    def settle(self) -> None:
        """Set the extras, when all items have ended."""
        for _, event in self._last.values():
            _compat.add_outlet_event(self._target, {"of": event["of"], "extra": event["extra"]})
