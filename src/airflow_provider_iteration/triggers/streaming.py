# SPDX-License-Identifier: Apache-2.0
"""Base classes of triggers that deliver many pages in one run."""

from __future__ import annotations

import asyncio
import platform
from abc import abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from airflow.triggers.base import BaseTrigger, TaskSuccessEvent, TriggerEvent
from msgspec.structs import replace

from airflow_provider_iteration import _compat
from airflow_provider_iteration.exceptions import Fenced, StreamError
from airflow_provider_iteration.streams.events import Page
from airflow_provider_iteration.streams.opening import drop_older
from airflow_provider_iteration.streams.options import StreamOptions
from airflow_provider_iteration.streams.pacing import shared_pace
from airflow_provider_iteration.streams.pausing import Pause
from airflow_provider_iteration.streams.producer import Listener, produce
from airflow_provider_iteration.streams.store import RowStore
from airflow_provider_iteration.streams.writer import StreamWriter
from airflow_provider_iteration.streams.xcom_store import XComPlace, XComStore
from airflow_provider_iteration.xcom.iterable import XComIterable

if TYPE_CHECKING:
    import jinja2


class StreamingTrigger(BaseTrigger):
    """
    Base of triggers that deliver many pages in one run of the trigger.

    A subclass writes :meth:`pages` and :meth:`arguments`. Everything else is done here: pages are written
    to the XComs of the task as a stream, several to a row; a triggerer that restarts goes on after the
    last committed page; a trigger that was taken over by another triggerer stops itself; a failure keeps
    what was committed and fails the try on a worker; cancelling closes what :meth:`pages` has opened.

    Not done: pages are not committed exactly when they are yielded, so a restarted trigger asks again for
    up to ``max_uncommitted_pages`` pages (it stores none of them twice). A retry of the task starts anew.

    :param stream: sizes, limits and the key of the stream: a :class:`~..streams.StreamOptions`, or it as
        plain JSON.
    """

    row_store: RowStore | None = None
    """Where the rows go, if not into the XComs of the task: set by tests, before the trigger is run."""

    def __init__(self, *, stream: StreamOptions | Mapping[str, Any] | None = None) -> None:
        super().__init__()
        self.stream_options = StreamOptions.from_json(stream)
        self._pause = Pause()
        self._listener: Listener | None = None

    @abstractmethod
    def pages(self, cursor: Any) -> AsyncGenerator[Page, None]:
        """
        Yield the pages that follow a cursor. Write it as an asynchronous generator.

        :param cursor: None at the beginning, otherwise the cursor of the last committed page.
        """

    @abstractmethod
    def arguments(self) -> dict[str, Any]:
        """Return the subclass's own constructor arguments, as JSON."""

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class path and all constructor arguments."""
        kind = type(self)
        stream = self.stream_options.to_json()
        return f"{kind.__module__}.{kind.__qualname__}", {**self.arguments(), "stream": stream}

    def get_template_env(self, dag: Any = None) -> jinja2.Environment:
        """Return an environment in which an undefined name is an error, as it is on a worker."""
        import jinja2

        return super().get_template_env(dag).overlay(undefined=jinja2.StrictUndefined)

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """
        Stream the pages, then end the task, or hand the reference to a worker, in one event.

        The payload for a worker is ``{"reference": ..., "more": ...}``; ``more`` says that pages follow
        those in the reference, which its handler is to have first.
        """
        options = self.stream_options
        resume_from = asyncio.get_running_loop().time() + options.min_seconds
        self._pause = self._next_pause()
        try:
            reference = await self.stream()
        except Fenced as error:
            self.log.warning("Another triggerer has taken this stream over: %s", error)
            # Any other ending would fail the task, which lives on in the other triggerer.
            raise asyncio.CancelledError(str(error)) from None
        except Exception:
            await _sleep_until(resume_from)
            raise
        if self._ends_here():
            await self._store().set(options.key, reference)
            yield TaskSuccessEvent()
        else:
            await _sleep_until(resume_from)
            yield TriggerEvent({"reference": reference.serialize(), "more": self._pause.paused})

    def listen(self, listener: Listener, pause: Pause) -> None:
        """
        Have a stream on a worker followed while it is written.

        :param listener: is told of each new event, and awaited before the next page is asked for.
        :param pause: ends the stream early.
        """
        self._listener, self._pause = listener, pause

    async def stream(self) -> XComIterable:
        """
        Write the pages to the stream, in the triggerer or on a worker.

        :return: the reference to the stream; it is not written.
        :raises Fenced: if another producer has taken the stream over.
        """
        run = str(self._task_instance_or_raise().id)
        options = self._options()
        writer = StreamWriter(
            self._store(),
            run=run,
            pace=shared_pace(),
            options=options,
            log=platform.node(),
            foreign=_compat.to_serde,
        )
        if options.results_key is not None:
            await drop_older(self._store(), options.results_key, run)
        async with writer:
            head = await produce(self.pages, writer, options, pause=self._pause, tell=self._listener)
        self.log.info(
            "Stream %s: %d pages, %d items in %d chunks", options.key, head.pages, head.items, head.chunks
        )
        return XComIterable.of_head(self._place(), options.key, head)

    @staticmethod
    def from_trigger(
        trigger: BaseTrigger, *, stream: StreamOptions | Mapping[str, Any] | None = None
    ) -> TriggerStream:
        """
        Make a stream of any trigger that yields several events: each event's payload is a page.

        :param trigger: the trigger; it is made anew, from what it serialises to, in the triggerer.
        :param stream: as for the constructor.
        """
        classpath, arguments = trigger.serialize()
        return TriggerStream(classpath=classpath, trigger_arguments=arguments, stream=stream)

    def _options(self) -> StreamOptions:
        # On a worker, and after a start there, the operator has said it.
        limit = None if self.task is None else _compat.max_map_length(self.task, self._place().map_index)
        return self.stream_options if limit is None else replace(self.stream_options, max_map_length=limit)

    def _next_pause(self) -> Pause:
        options = self.stream_options
        seconds = options.resume_every_seconds
        return Pause(
            handled=options.handled,
            pages=options.resume_every_pages,
            # The task does not resume before min_seconds anyway: no use in fetching nothing until then.
            seconds=None if seconds is None else max(seconds, options.min_seconds),
        )

    def _ends_here(self) -> bool:
        finish_on = self.stream_options.finish_on
        task: Any = self.task
        if finish_on == "worker" or (task is not None and _compat.has_mapped_dependants(task)):
            return False
        return finish_on == "triggerer" or not _compat.has_task_listeners()

    def _store(self) -> RowStore:
        return self.row_store or XComStore.of(self._place())

    def _place(self) -> XComPlace:
        return XComPlace.of(self._task_instance_or_raise())

    def _task_instance_or_raise(self) -> Any:
        if self.task_instance is None:
            raise StreamError(f"{type(self).__name__} writes to the XComs of a task, and there is no task")
        return self.task_instance


async def _sleep_until(moment: float) -> None:
    # A scheduler that learns late of the end of a task's previous start takes it for that of the next one,
    # and fails the task.
    await asyncio.sleep(max(moment - asyncio.get_running_loop().time(), 0))


class TriggerStream(StreamingTrigger):
    """
    The events of any other trigger as a stream; made by :meth:`StreamingTrigger.from_trigger`.

    The other trigger knows no cursor: after a restart it begins anew, and as many events as were committed
    before are dropped. It must yield the same events again for that to be right.

    :param classpath: class of the other trigger.
    :param trigger_arguments: its constructor arguments.
    :param stream: as for :class:`StreamingTrigger`.
    """

    def __init__(
        self,
        *,
        classpath: str,
        trigger_arguments: dict[str, Any],
        stream: StreamOptions | Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(stream=stream)
        self.classpath = classpath
        self.trigger_arguments = trigger_arguments
        self._inner: BaseTrigger | None = None

    def arguments(self) -> dict[str, Any]:
        return {"classpath": self.classpath, "trigger_arguments": self.trigger_arguments}

    async def pages(self, cursor: Any) -> AsyncGenerator[Page, None]:
        self._inner = inner = _compat.import_string(self.classpath)(**self.trigger_arguments)
        inner.task_instance = self.task_instance
        inner.trigger_id = self.trigger_id
        async with aclosing(inner.run()) as events:
            async for event in events:
                state = getattr(event, "task_instance_state", None)
                if state is not None and not isinstance(event, TaskSuccessEvent):
                    raise StreamError(f"the trigger {self.classpath} ended its task as {state}")
                if state is not None:
                    return
                yield Page(event.payload)

    async def cleanup(self) -> None:
        if self._inner is not None:
            await self._inner.cleanup()

    async def on_kill(self) -> None:
        if self._inner is not None:
            await self._inner.on_kill()
