# SPDX-License-Identifier: Apache-2.0
"""
Reading the events that a watcher recorded: each of them once, from where the reader was.

Airflow makes one Dag run of many events, and a run sees some of them only. So a reader asks for everything
after its own watermark, and keeps the watermark, in the asset's state store for one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

import msgspec

from airflow_provider_iteration.streams.codec import EncodedItems, Foreign, decode_items

OVERLAP = timedelta(minutes=1)
"""How far back is read again: two triggerers may commit events in another order than they stamped them."""


class RecordedEvent(msgspec.Struct, frozen=True):
    """
    One event of a watcher, as an asset has it.

    :param trigger_run_id: id under which the watcher numbers its events: new when it began anew.
    :param sequence_index: number of the event, from 0.
    :param payload: the element of the source.
    :param timestamp: when Airflow recorded it.
    """

    trigger_run_id: str
    sequence_index: int
    payload: Any
    timestamp: datetime

    def __repr__(self) -> str:
        return f"RecordedEvent({self.trigger_run_id}#{self.sequence_index})"


class Watermark(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """
    How far a reader has come in the events of one asset.

    :param since: when the last event that was read had been recorded; None before the first.
    :param indexes: number of the last event that was read, by ``trigger_run_id``.
    """

    since: datetime | None = None
    indexes: dict[str, int] = {}

    @property
    def after(self) -> str | None:
        """From when on to ask for events, as ``.after()`` of an asset's events takes it; None is all."""
        return None if self.since is None else (self.since - OVERLAP).isoformat()

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON, to be kept."""
        kept: dict[str, Any] = msgspec.to_builtins(self)
        return kept

    @classmethod
    def from_json(cls, kept: object) -> Watermark:
        """
        Give back what :meth:`to_json` returned; None is the watermark before any event.

        :raises ValueError: for anything else.
        """
        try:
            return cls() if kept is None else msgspec.convert(kept, cls)
        except msgspec.ValidationError as error:
            raise ValueError(f"watermark: {error}") from None


def unread(
    events: Iterable[Any], mark: Watermark, foreign: Foreign | None = None
) -> tuple[list[RecordedEvent], Watermark]:
    """
    Return the events after a watermark, in order and each of them once, and the watermark behind them.

    :param events: events of an asset, the oldest first, as ``inlet_events[asset]`` gives them. Those that
        do not come from a :class:`~airflow_provider_iteration.triggers.events.StreamingEventTrigger` are left
        out.
    :param mark: how far the reader was.
    :param foreign: makes values of other types than JSON has of what was recorded for them.
    """
    found: list[RecordedEvent] = []
    indexes, since = dict(mark.indexes), mark.since
    for event in events:
        envelope = _envelope(event.extra)
        if envelope is None:
            continue
        run, index = envelope["trigger_run_id"], envelope["sequence_index"]
        if index > indexes.get(run, -1):
            indexes[run] = index
            since = event.timestamp if since is None else max(since, event.timestamp)
            found.append(RecordedEvent(run, index, _payload(envelope, foreign), event.timestamp))
    return found, Watermark(since, indexes)


def _envelope(extra: Any) -> Mapping[str, Any] | None:
    payload = extra.get("payload") if isinstance(extra, Mapping) else None
    if isinstance(payload, Mapping) and {"trigger_run_id", "sequence_index"} <= payload.keys():
        return payload
    return None


def _payload(envelope: Mapping[str, Any], foreign: Foreign | None) -> Any:
    enc = envelope.get("enc")
    if enc is None:
        return envelope["payload"]
    return decode_items(EncodedItems(enc, envelope["payload"]), foreign)[0]
