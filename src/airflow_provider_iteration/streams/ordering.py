# SPDX-License-Identifier: Apache-2.0
"""The order of events: duplicates are dropped and counted, a gap is an error."""

from __future__ import annotations

from collections.abc import Sequence
from typing import overload

from airflow_provider_iteration.exceptions import StreamError
from airflow_provider_iteration.streams.events import StreamEvent


class EventOrder:
    """
    Lets each event of one run pass once, and in its turn.

    :param run: id of the run.
    :param due: index of the first event that has not passed yet.
    """

    def __init__(self, run: str, due: int = 0) -> None:
        self.run = run
        self.due = due
        self.duplicates = 0

    def passes(self, event: StreamEvent) -> bool:
        """
        Tell whether an event is new. One that was here before is counted.

        :raises StreamError: if events are missing before it, or if it is of another run.
        """
        if event.trigger_run_id != self.run:
            raise StreamError(f"event of run {event.trigger_run_id} in the stream of run {self.run}")
        if event.sequence_index < self.due:
            self.duplicates += 1
            return False
        if event.sequence_index > self.due:
            raise StreamError(
                f"event {event.sequence_index} came where {self.due} was due: events are missing"
            )
        self.due += 1
        return True


class EventBatch(Sequence[StreamEvent]):
    """
    Events that are handled together. It remembers which one was taken last, for messages.

    :param events: at least one event, in order.
    """

    def __init__(self, events: Sequence[StreamEvent]) -> None:
        self._events = events
        self._taken: int | None = None

    def __len__(self) -> int:
        return len(self._events)

    @overload
    def __getitem__(self, index: int) -> StreamEvent: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[StreamEvent]: ...

    def __getitem__(self, index: int | slice) -> StreamEvent | Sequence[StreamEvent]:
        found = self._events[index]
        if isinstance(found, StreamEvent):
            self._taken = found.sequence_index
        return found

    def __repr__(self) -> str:
        return f"EventBatch({self.place()})"

    def place(self) -> str:
        """Say in words which events these are, and which one was taken last."""
        first, last = self._events[0].sequence_index, self._events[-1].sequence_index
        if first == last:
            return f"event {first}"
        taken = "" if self._taken is None else f", event {self._taken} was taken last"
        return f"events {first} to {last}{taken}"
