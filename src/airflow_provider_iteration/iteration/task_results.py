# SPDX-License-Identifier: Apache-2.0
"""The stream that the results of an iterated task become."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from typing import Any

from airflow_provider_iteration import _compat
from airflow_provider_iteration.exceptions import InputPaused
from airflow_provider_iteration.iteration.outcomes import Outcome
from airflow_provider_iteration.iteration.results import ResultWriter
from airflow_provider_iteration.streams.head import Head
from airflow_provider_iteration.streams.options import StreamOptions
from airflow_provider_iteration.streams.pacing import Pace
from airflow_provider_iteration.streams.writer import StreamWriter
from airflow_provider_iteration.streams.xcom_store import XComPlace, XComStore
from airflow_provider_iteration.xcom.iterable import XComIterable

LINGER = 1.0
"""Seconds after which those who read along see a result, if the database keeps up."""


class TaskResults:
    """
    Takes the outcomes of one task instance, and writes their results.

    :param ti: the task instance.
    :param task: the task.
    :param complete: makes results of what stands for those of an earlier try; called in a thread.
    :param anew: drop results that this try has written before; otherwise they are the first ones.
    :param read_along: whether somebody follows the results while they are written.
    """

    def __init__(
        self,
        ti: Any,
        task: Any,
        complete: Callable[[list[Any]], list[Any]] | None,
        *,
        anew: bool = True,
        read_along: bool = False,
    ) -> None:
        self._anew = anew
        self._read_along = read_along
        self._place = XComPlace.of(ti)
        self._options = StreamOptions(max_map_length=_compat.max_map_length(task, self._place.map_index))
        self._run = str(ti.id)
        self._complete = complete
        self._writer: ResultWriter | None = None
        self._head: Head | None = None
        self._is_paused = False

    def __call__(self, outcome: Outcome) -> Any:
        assert self._writer is not None
        return self._writer(outcome)

    def noting_pause(self, items: Iterable[Any]) -> Iterator[Any]:
        """Pass items on, and take note if there are no more of them for now: the stream stays open then."""
        try:
            yield from items
        except InputPaused:
            self._is_paused = True
            raise

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[None]:
        """Open the stream for as long as items run; what fails leaves what was written."""
        store = XComStore.of(self._place)
        # A worker has its channel to itself: no rest after a write.
        writer = StreamWriter(
            store,
            run=self._run,
            pace=Pace(rest=0.0),
            options=self._options,
            foreign=_compat.to_serde,
            anew=self._anew,
        )
        async with writer:
            results = self._writer = ResultWriter(
                writer, self._run, options=self._options, complete=self._complete
            )
            async with self._flushed(results):
                yield
            if self._is_paused:
                await results.pause()
            else:
                self._head = await results.close()

    @asynccontextmanager
    async def _flushed(self, results: ResultWriter) -> AsyncIterator[None]:
        if not self._read_along:
            yield
            return
        ended = asyncio.Event()
        ticker = asyncio.create_task(results.flush_every(LINGER, ended))
        try:
            yield
        finally:
            ended.set()
            await ticker

    def reference(self) -> XComIterable:
        """Return the reference to the results."""
        assert self._head is not None
        return XComIterable.of_head(self._place, self._options.key, self._head)
