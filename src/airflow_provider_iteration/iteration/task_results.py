# SPDX-License-Identifier: Apache-2.0
"""The stream that the results of an iterated task become."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from airflow_provider_iteration import _compat
from airflow_provider_iteration.iteration.outcomes import Outcome
from airflow_provider_iteration.iteration.results import ResultWriter
from airflow_provider_iteration.streams.head import Head
from airflow_provider_iteration.streams.options import StreamOptions
from airflow_provider_iteration.streams.pacing import Pace
from airflow_provider_iteration.streams.writer import StreamWriter
from airflow_provider_iteration.streams.xcom_store import XComPlace, XComStore
from airflow_provider_iteration.xcom.iterable import XComIterable


class TaskResults:
    """
    Takes the outcomes of one task instance, and writes their results.

    :param ti: the task instance.
    :param task: the task.
    :param complete: makes results of what stands for those of an earlier try; called in a thread.
    """

    def __init__(self, ti: Any, task: Any, complete: Callable[[list[Any]], list[Any]] | None) -> None:
        self._place = XComPlace.of(ti)
        self._options = StreamOptions(max_map_length=_compat.max_map_length(task, self._place.map_index))
        self._run = str(ti.id)
        self._complete = complete
        self._writer: ResultWriter | None = None
        self._head: Head | None = None

    def __call__(self, outcome: Outcome) -> Any:
        assert self._writer is not None
        return self._writer(outcome)

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[None]:
        """Open the stream for as long as items run; what fails leaves what was written."""
        store = XComStore.of(self._place)
        # A worker has its channel to itself: no rest after a write.
        writer = StreamWriter(
            store, run=self._run, pace=Pace(rest=0.0), options=self._options, foreign=_compat.to_serde
        )
        async with writer:
            self._writer = ResultWriter(writer, self._run, options=self._options, complete=self._complete)
            yield
            self._head = await self._writer.close()

    def reference(self) -> XComIterable:
        """Return the reference to the results."""
        assert self._head is not None
        return XComIterable.of_head(self._place, self._options.key, self._head)
