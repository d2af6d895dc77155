# SPDX-License-Identifier: Apache-2.0
"""What the consumer of a live stream gets, and how it sees the producing task."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from airflow_provider_iteration import _compat
from airflow_provider_iteration.exceptions import ProducerFailed, StreamError
from airflow_provider_iteration.streams.following import SKIPPED, Committed, Follower, generation_of
from airflow_provider_iteration.streams.head import Head, head_key
from airflow_provider_iteration.streams.lazy import LazyIterable, view
from airflow_provider_iteration.streams.nodes import Node
from airflow_provider_iteration.streams.recency import RunJudge
from airflow_provider_iteration.streams.step_arguments import MISSING
from airflow_provider_iteration.streams.xcom_store import XComPlace
from airflow_provider_iteration.xcom.iterable import XComIterable

Finish = Callable[[LazyIterable], LazyIterable]


class TaskProducer:
    """
    A :class:`~..streams.following.Producer`: one task instance, asked for over the api-server. Calls block.

    :param place: the task instance.
    :param key: XCom key of its stream.
    :param lazily: gives the items of a result that is no stream.
    """

    def __init__(self, place: XComPlace, key: str, lazily: Callable[[Any], Iterable[Any]]) -> None:
        self._place = place
        self._key = key
        self._lazily = lazily

    def state(self) -> str | None:
        place = self._place
        states = _compat.task_states(place.dag_id, [place.run_id], [place.task_id])
        return states.get(place.run_id, {}).get(place.task_id)

    def committed(self) -> Committed | None:
        row = _compat.read_xcom(key=head_key(self._key), **self._place._asdict())
        if row is None:
            return None
        return committed_of(XComIterable.of_head(self._place, self._key, Head.from_row(row)))

    def result(self) -> Committed | Iterable[Any]:
        value = _compat.read_xcom(key=self._key, **self._place._asdict())
        if value is None:
            raise StreamError(
                f"{self._place} has succeeded and left nothing under the XCom key {self._key!r}, so there is "
                "nothing to read: it returned None, or was marked success by hand; clear it to have it run"
            )
        is_own = isinstance(value, XComIterable) and (value.place, value.key) == (self._place, self._key)
        return committed_of(value) if is_own else self._lazily(value)


def committed_of(stream: XComIterable) -> Committed:
    """Return what a reference says is committed."""
    return Committed(
        stream.run,
        generation_of(stream.extents),
        sum(extent.items * extent.chunks for extent in stream.extents),
        lambda start, stop: stream._node.span(start, stop),
    )


class LiveItems(LazyIterable):
    """
    Items of a stream that may still be written while they are read; what ``.live()`` gives.

    They end when the producing task has succeeded, so whoever has read them all has read what counts. It is
    an error in between if that task fails or is run again. Each new pass begins with the first item.

    :param follower: reads the stream.
    :param producer: the task instance that writes it.
    :param finish: puts the further steps of the pipeline on top; called when the first item is asked for.
    """

    def __init__(self, follower: Follower, producer: XComPlace, finish: Finish) -> None:
        self.follower = follower
        self._producer = producer
        self._finish = finish

    @property
    def _node(self) -> Node:
        return self._finish(view(_Followed(self.follower, self._producer)))._node

    async def __aiter__(self) -> AsyncIterator[Any]:
        items = iter(self)
        try:
            # One by one: the next one may be minutes away.
            while (item := await asyncio.to_thread(next, items, MISSING)) is not MISSING:
                yield item
        except asyncio.CancelledError:
            self.follower.stop()
            raise

    def identity(self) -> Any:
        return repr(self)

    def __repr__(self) -> str:
        return f"LiveItems(live stream of {self._producer.dag_id}.{self._producer.task_id}, not read)"


class _Followed(Node):
    sized = False

    def __init__(self, follower: Follower, producer: XComPlace) -> None:
        self._follower = follower
        self._producer = producer

    def __iter__(self) -> Iterator[Any]:
        with ended_as_in_airflow():
            yield from self._follower

    def describe(self) -> str:
        return f"live stream of {self._producer.dag_id}.{self._producer.task_id}"


@contextmanager
def ended_as_in_airflow() -> Iterator[None]:
    """
    Have a consumer end as a task does whose upstream has ended so.

    :raises AirflowSkipException: if the producer was skipped.
    :raises AirflowFailException: if it has failed; a retry would find the same.
    """
    try:
        yield
    except ProducerFailed as error:
        kind = AirflowSkipException if error.state == SKIPPED else AirflowFailException
        raise kind(str(error)) from None


def live_items(
    place: XComPlace, key: str, consumer: str, lazily: Callable[[Any], Any], finish: Finish
) -> LiveItems:
    """
    Give the items of a task's stream while it is written.

    :param place: the producing task instance.
    :param key: XCom key of the stream.
    :param consumer: id of the try that reads.
    :param lazily: gives the items of a result that is no stream.
    :param finish: puts the further steps of the pipeline on top.
    """
    producer = TaskProducer(place, key, lazily)
    return LiveItems(Follower(producer, task=str(place), judge=RunJudge(consumer)), place, finish)
