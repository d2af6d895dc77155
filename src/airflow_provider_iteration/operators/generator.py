# SPDX-License-Identifier: Apache-2.0
"""The operator that makes a stream of what a generator function yields."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator, Mapping
from contextlib import aclosing, closing, nullcontext
from typing import Any

from airflow.sdk import Asset, Context

from airflow_provider_iteration import _compat
from airflow_provider_iteration.exceptions import StreamStopped
from airflow_provider_iteration.iteration.loops import ended_by_signals, run_bounded
from airflow_provider_iteration.streams.blocking import BlockingWriter
from airflow_provider_iteration.streams.options import StreamOptions
from airflow_provider_iteration.streams.pacing import Pace
from airflow_provider_iteration.streams.writer import StreamWriter
from airflow_provider_iteration.streams.xcom_store import XComPlace, XComStore
from airflow_provider_iteration.xcom.iterable import XComIterable

CLOSE_SECONDS = 4.0
"""What an asynchronous generator has to end: the supervisor kills five seconds after it has asked to end."""


class _AskedToEnd(BaseException):
    """Raised in the generator, past any ``except Exception`` of it."""


class GeneratorOperator(_compat.DecoratedOperator):
    """
    Makes a stream of what a generator function yields, within ``execute``: with the task's context, under its
    ``execution_timeout``. Made by :func:`~airflow_provider_iteration.decorators.stream.stream_task`.

    An ordinary generator runs in the main thread. Items are written behind its back, many to a row, so that
    it is held up only if the database is slower than it is. However the task ends, the generator is closed.
    """

    custom_operator_name = "@task.stream"
    template_fields = ("op_args", "op_kwargs")

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if not self.do_xcom_push:
            raise ValueError("do_xcom_push=False: a stream is kept in XComs, so there would be none")
        self._runs = False

    def execute(self, context: Context) -> XComIterable:
        """Run the generator to its end; the result is a reference to the stream."""
        values: Mapping[str, Any] = context
        arguments = (*self.op_args, *self.op_kwargs.values())
        self.inlets.extend(argument for argument in arguments if isinstance(argument, Asset))
        ti = values["ti"]
        place = XComPlace.of(ti)
        options = StreamOptions(max_map_length=_compat.max_map_length(self, place.map_index))
        writer = BlockingWriter(_make_writer(ti, place, options), options)
        self._runs = True
        try:
            with writer:
                self._consume(self._items(values), writer)
                head = writer.close()
        except _AskedToEnd:
            raise StreamStopped(writer.count) from None
        finally:
            self._runs = False
        self.log.info("Streamed %d items in %d chunks", head.items, head.chunks)
        return XComIterable.of_head(place, options.key, head)

    def on_kill(self) -> None:
        """End the generator where it is. Called by a signal handler, in the thread that runs it."""
        if self._runs:
            self._runs = False
            raise _AskedToEnd

    def _items(self, context: Mapping[str, Any]) -> Any:
        kwargs = self.determine_kwargs({**context, **self.op_kwargs})
        items = self.python_callable(*self.op_args, **kwargs)
        if not isinstance(items, (Iterator, AsyncIterator)):
            raise TypeError(
                f"{self.python_callable.__name__}() returned {type(items).__name__} where a generator was "
                "due: a function of @task.stream yields its items"
            )
        return items

    def _consume(self, items: Any, writer: BlockingWriter) -> None:
        if isinstance(items, AsyncIterator):
            run_bounded(_drain_async(items, writer), lambda error: False, lambda: CLOSE_SECONDS)
        else:
            _drain(items, writer)


def _make_writer(ti: Any, place: XComPlace, options: StreamOptions) -> StreamWriter:
    store = XComStore(place, _compat.message_timeout())
    # A worker has its channel to itself: no rest after a write.
    return StreamWriter(store, run=str(ti.id), pace=Pace(rest=0.0), options=options, foreign=_compat.to_serde)


def _drain(items: Iterator[Any], writer: BlockingWriter) -> None:
    with closing(items) if isinstance(items, Generator) else nullcontext():
        for item in items:
            if (pending := writer.put(item)) is not None:
                pending.result()


async def _drain_async(items: AsyncIterator[Any], writer: BlockingWriter) -> None:
    with ended_by_signals():
        async with aclosing(items) if isinstance(items, AsyncGenerator) else nullcontext():
            async for item in items:
                if (pending := writer.put(item)) is not None:
                    await asyncio.wrap_future(pending)
