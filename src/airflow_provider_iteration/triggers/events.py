# SPDX-License-Identifier: Apache-2.0
"""
Asset watchers that deliver many events in one run.

Airflow records an event in its database some time after the trigger has yielded it, and tells so only to
triggers that share a stream (:mod:`airflow.triggers.shared_stream`, *ack mode*). A watcher here is such a
stream with one subscriber, itself: a producer walks the source and hands each new element on, and once
Airflow says that the event is in the database, keeps the place behind it in the asset's state store.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import uuid
from abc import abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Hashable, Sequence
from typing import Any

import msgspec
from airflow.triggers.base import BaseEventTrigger, TriggerEvent
from airflow.triggers.shared_stream import AdvanceItem, SharedStreamProducer

from airflow_provider_iteration import _compat
from airflow_provider_iteration.exceptions import Fenced, LimitExceeded, StreamError
from airflow_provider_iteration.streams.asset_store import AssetPlaces
from airflow_provider_iteration.streams.codec import encode_items
from airflow_provider_iteration.streams.events import Page
from airflow_provider_iteration.streams.pacing import shared_pace
from airflow_provider_iteration.streams.watching import NewElement, Walk, WatchState, resume

MOST_UNRECORDED = 1000
"""Airflow fails a subscriber that is more than ``[triggerer] shared_stream_subscriber_queue_size`` behind."""
RESTART_SECONDS = 10.0
"""How long a watcher that failed waits before it gives up its run: Airflow starts the next one at once."""
SETTLE_SECONDS = 30.0


class WatcherEvent(TriggerEvent):
    """An event whose payload stays out of the triggerer's log, where Airflow writes each event's repr."""

    def __repr__(self) -> str:
        return f"WatcherEvent({self.payload['trigger_run_id']}#{self.payload['sequence_index']})"

    __str__ = __repr__


class StreamingEventTrigger(BaseEventTrigger):
    """
    Base of asset watchers: every new element of a source becomes one event of the asset.

    A subclass writes :meth:`pages` and :meth:`arguments`. Its place in the source is kept in the state
    store of the asset, and moves on only once Airflow has recorded the events before it.

    What is guaranteed: every element becomes an event, also when the triggerer is killed at any moment. It
    becomes one event, but for those, ``max_unrecorded`` at most, that were recorded and not yet confirmed
    when the triggerer was killed, or when two triggerers run the watcher for a while. They come again under
    the same ``trigger_run_id`` and ``sequence_index``, by which
    :func:`~airflow_provider_iteration.streams.unread` drops them.

    Not done: elements that are changed or deleted in the source are no events.

    :param poll_interval: seconds from the end of one walk over the source to the next one.
    :param max_unrecorded: how many events may be on their way into the database, 1 to 1,000. Airflow
        confirms them about once a second.
    :param max_event_bytes: an event that is larger than this, as JSON, is an error.
    :param skip_existing: whether what is in the source at the very first start makes no events.
    """

    asset_stores: Sequence[Any] | None = None
    """Where the place is kept, if not with the assets that it watches: set by tests."""

    def __init__(
        self,
        *,
        poll_interval: float = 60.0,
        max_unrecorded: int = 100,
        max_event_bytes: int = 256 * 1024,
        skip_existing: bool = False,
    ) -> None:
        super().__init__()
        _check_number("poll_interval", poll_interval, 0.1, None)
        _check_number("max_unrecorded", max_unrecorded, 1, MOST_UNRECORDED)
        _check_number("max_event_bytes", max_event_bytes, 1, None)
        self.poll_interval = poll_interval
        self.max_unrecorded = max_unrecorded
        self.max_event_bytes = max_event_bytes
        self.skip_existing = skip_existing

    @abstractmethod
    def pages(self, cursor: Any) -> AsyncGenerator[Page, None]:
        """
        Yield the pages that follow a cursor, up to the last one that there is now.

        Where the last page has no cursor, the next walk begins at the cursor before it, and takes as new
        what has been appended since.

        :param cursor: None at the beginning, otherwise the cursor of a page that was recorded.
        """

    @abstractmethod
    def arguments(self) -> dict[str, Any]:
        """Return the subclass's own constructor arguments, as JSON."""

    def identity(self) -> dict[str, Any]:
        """Return those arguments that name the source. Where one is changed, the watcher begins anew."""
        return self.arguments()

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class path and all constructor arguments."""
        own = {
            "poll_interval": self.poll_interval,
            "max_unrecorded": self.max_unrecorded,
            "max_event_bytes": self.max_event_bytes,
            "skip_existing": self.skip_existing,
        }
        return _classpath(type(self)), {**self.arguments(), **own}

    def state_key(self) -> str:
        """Return the key in the asset's state store under which the place is kept."""
        text = json.dumps([_classpath(type(self)), self.identity()], sort_keys=True)
        return f"stream.{hashlib.sha256(text.encode()).hexdigest()[:16]}"

    def shared_stream_key(self) -> Hashable:
        """Return a key that no other trigger has: the stream is shared for its confirmations only."""
        return (self.state_key(), self.trigger_id)

    @classmethod
    def create_shared_stream_producer(cls, kwargs: dict[str, Any]) -> SharedStreamProducer:
        """Return what walks the source and keeps the place."""
        return WatchProducer(cls(**kwargs))

    async def filter_shared_stream(self, shared_stream: AsyncIterator[Any]) -> AsyncIterator[TriggerEvent]:
        """Yield an event for each new element."""
        async for message in shared_stream:
            if isinstance(message, _Hello):
                message.places.set_result(self._places())
            else:
                yield WatcherEvent(payload=message)

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Refuse to run outside of the shared stream, where nobody says what has been recorded."""
        raise StreamError(f"{type(self).__name__} cannot run by itself: give it to an AssetWatcher")
        yield

    def _places(self) -> AssetPlaces:
        if self.asset_stores is None and self.asset_state_store is None:
            raise StreamError(
                f"{type(self).__name__} watches no asset: give it to an AssetWatcher. A task defers to a "
                "StreamingTrigger"
            )
        stores = self.asset_stores or _compat.asset_states(self.asset_state_store)
        return AssetPlaces(stores, self.state_key())


class _Hello:
    """The first message of a stream: the producer asks its subscriber where the place is kept."""

    def __init__(self) -> None:
        self.places: asyncio.Future[AssetPlaces] = asyncio.get_running_loop().create_future()


class WatchProducer(SharedStreamProducer):
    """
    Walks the source of a watcher for ever, and keeps the place behind what Airflow has recorded.

    :param trigger: the watcher.
    """

    def __init__(self, trigger: StreamingEventTrigger) -> None:
        self._trigger = trigger
        self._places: AssetPlaces | None = None
        self._incarnation = 0
        self._unrecorded = 0
        self._confirmed = asyncio.Condition()

    async def open_stream(self) -> AsyncGenerator[tuple[Any, WatchState | None], None]:
        """Yield each new element, as the payload of its event, with the place behind it."""
        hello = _Hello()
        yield hello, None
        self._places = await hello.places
        try:
            walk = self._walk(await self._open(self._places))
            while True:
                async for element in walk.news():
                    payload = self._payload(element)
                    await self._wait_for_room()
                    yield payload, element.after
                await asyncio.sleep(self._trigger.poll_interval)
                walk = self._walk(walk.state)
        except Exception:
            # Events on their way are confirmed only while this runs.
            await self._settle()
            await asyncio.sleep(RESTART_SECONDS)
            raise

    async def advance(self, batch: Sequence[AdvanceItem]) -> None:
        """
        Keep the place behind the recorded events.

        :raises StreamError: if one was not recorded; it comes again after a restart of the watcher.
        """
        states = [item.broker_payload for item in batch if item.broker_payload is not None]
        recorded = [item for item in _while_clean(batch) if item.broker_payload is not None]
        if recorded:
            await self._keep(recorded[-1].broker_payload)
        async with self._confirmed:
            self._unrecorded -= len(states)
            self._confirmed.notify_all()
        if len(recorded) < len(states):
            raise StreamError(f"event {states[len(recorded)].index - 1} was not recorded in time")

    def _walk(self, state: WatchState) -> Walk:
        trigger = self._trigger
        return Walk(trigger.pages, state, warn=trigger.log.warning, foreign=_compat.to_serde)

    async def _open(self, places: AssetPlaces) -> WatchState:
        async with shared_pace().turn():
            states = await places.read()
        state = resume(states, WatchState(run=str(uuid.uuid4())))
        if not states and self._trigger.skip_existing:
            walk = self._walk(state)
            async for _ in walk.news():
                pass
            state = msgspec.structs.replace(walk.state, index=0)
        async with shared_pace().turn():
            await places.write(state)
        self._incarnation = state.incarnation
        return state

    async def _keep(self, state: WatchState) -> None:
        assert self._places is not None
        async with shared_pace().turn():
            if any(found.incarnation > self._incarnation for found in await self._places.read()):
                raise Fenced("another triggerer has taken this watcher over")
            await self._places.write(state)

    async def _wait_for_room(self) -> None:
        async with self._confirmed:
            await self._confirmed.wait_for(lambda: self._unrecorded < self._trigger.max_unrecorded)
            self._unrecorded += 1

    async def _settle(self) -> None:
        async with self._confirmed:
            try:
                async with asyncio.timeout(SETTLE_SECONDS):
                    await self._confirmed.wait_for(lambda: not self._unrecorded)
            except TimeoutError:
                self._trigger.log.warning("%d events are not confirmed yet", self._unrecorded)

    def _payload(self, element: NewElement) -> dict[str, Any]:
        encoded = encode_items([element.payload], _compat.to_serde)
        payload = {
            "trigger_run_id": element.after.run,
            "sequence_index": element.index,
            "payload": encoded.items[0] if encoded.enc == "json" else encoded.items,
        }
        if encoded.enc != "json":
            payload["enc"] = encoded.enc
        if len(json.dumps(payload)) > self._trigger.max_event_bytes:
            raise LimitExceeded("max_event_bytes", self._trigger.max_event_bytes)
        return payload


def _while_clean(batch: Sequence[AdvanceItem]) -> list[AdvanceItem]:
    failed = (number for number, item in enumerate(batch) if not item.outcome.is_clean)
    return list(batch[: next(failed, len(batch))])


def _classpath(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _check_number(name: str, value: Any, least: float, most: float | None) -> None:
    kinds = (int,) if isinstance(least, int) else (int, float)
    if isinstance(value, bool) or not isinstance(value, kinds):
        kind = "a whole number" if kinds == (int,) else "a number"
        raise TypeError(f"{name}: expected {kind}, got {type(value).__name__}")
    if value < least or (most is not None and value > most):
        bounds = f"at least {least}" if most is None else f"{least} to {most}"
        raise ValueError(f"{name}: expected {bounds}, got {value}")
