# SPDX-License-Identifier: Apache-2.0
"""Hands the events of a stream to the handler of an operator, and keeps what it returns."""

from __future__ import annotations

import contextlib
import inspect
import logging
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from typing import Any

from airflow.sdk.exceptions import TaskDeferred
from anyio.from_thread import BlockingPortal, start_blocking_portal

from airflow_provider_iteration import _compat
from airflow_provider_iteration.exceptions import StopStream, StreamError
from airflow_provider_iteration.streams.codec import estimate_size
from airflow_provider_iteration.streams.events import Page, StreamEvent
from airflow_provider_iteration.streams.inbox import Inbox
from airflow_provider_iteration.streams.options import StreamOptions
from airflow_provider_iteration.streams.ordering import EventBatch, EventOrder
from airflow_provider_iteration.streams.pacing import Pace
from airflow_provider_iteration.streams.pausing import Pause
from airflow_provider_iteration.streams.writer import StreamWriter
from airflow_provider_iteration.streams.xcom_store import XComPlace, XComStore
from airflow_provider_iteration.triggers.streaming import StreamingTrigger
from airflow_provider_iteration.xcom.iterable import XComIterable

log = logging.getLogger(__name__)

Handler = Callable[[EventBatch, Any], Any]
RESULT_ITEMS = 256


class ResultStream:
    """
    The stream of what a handler returns. It goes on where an earlier resume of the same try left it.

    :param ti: the task instance.
    :param options: its key, and what it may not exceed.
    :param portal: to the event loop in which it is written.
    """

    def __init__(self, ti: Any, options: StreamOptions, portal: BlockingPortal) -> None:
        self._place = XComPlace.of(ti)
        self._portal = portal
        self._writer = StreamWriter(
            XComStore.of(self._place),
            run=str(ti.id),
            # A worker has its channel to itself: no rest after a write.
            pace=Pace(rest=0.0),
            options=options,
            foreign=_compat.to_serde,
        )
        self._options = options
        self._count = 0
        self._ready: list[Any] = []
        self._pages = 0

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """Open the stream for as long as events are handled; what fails leaves what was written."""
        with self._portal.wrap_async_context_manager(self._writer):
            self._pages, self._count = self._writer.head.pages, self._writer.head.items
            try:
                yield
            except Exception:
                with contextlib.suppress(Exception):
                    self._flush()
                raise
            self._flush()

    def add(self, item: Any) -> None:
        """
        Take one item.

        :raises TooLongToMap: if mapped tasks could not expand over so many.
        """
        self._count += 1
        self._options.check_map_length(self._count)
        self._ready.append(item)
        if len(self._ready) >= RESULT_ITEMS:
            self._hand_over()

    def close(self) -> XComIterable:
        """Write what was taken, end the stream, and return the reference to it."""
        self._hand_over()
        head = self._portal.call(self._writer.close)
        return XComIterable.of_head(self._place, self._options.key, head)

    def _flush(self) -> None:
        self._hand_over()
        self._portal.call(self._writer.flush)

    def _hand_over(self) -> None:
        items, self._ready = self._ready, []
        if items:
            event = StreamEvent(self._writer.head.run, self._pages, Page(items, many=True))
            self._pages += 1
            self._portal.call(self._writer.write, event)
            self._portal.call(self._writer.ready)


@contextlib.contextmanager
def handling(
    handler: Handler, context: Mapping[str, Any], options: StreamOptions, *, keep: bool
) -> Iterator[Handling]:
    """
    Open the stream of results for as long as events are handled.

    The handler runs in this thread, where signals such as the one of ``execution_timeout`` reach it; an
    event loop in a thread of its own does everything else.

    :param handler: takes a batch and the context; may be a coroutine function or a generator.
    :param context: context of the task.
    :param options: of the stream of pages.
    :param keep: whether what the handler returns is kept.
    """
    with start_blocking_portal() as portal:
        order = EventOrder(str(context["ti"].id), options.handled)
        if not keep or options.results_key is None:
            yield Handling(handler, context, order, None, portal)
            return
        of_results = StreamOptions(key=options.results_key, max_map_length=options.max_map_length)
        results = ResultStream(context["ti"], of_results, portal)
        with results.writing():
            yield Handling(handler, context, order, results, portal)


class Handling:
    """
    Calls a handler with batches of events, each event once and in order. Made by :func:`handling`.

    :param handler: takes a batch and the context; may be a coroutine function or a generator.
    :param context: context of the task.
    :param order: which event is due.
    :param results: takes what the handler returns; None drops it.
    :param portal: to the event loop in which coroutines run; it is the same one for all batches.
    """

    def __init__(
        self,
        handler: Handler,
        context: Mapping[str, Any],
        order: EventOrder,
        results: ResultStream | None,
        portal: BlockingPortal,
    ) -> None:
        self._handler = handler
        self._context = context
        self._order = order
        self._results = results
        self._portal = portal
        self.stopped = False

    def handle(self, events: list[StreamEvent]) -> None:
        """
        Hand events over. Those that were here before are dropped; none is taken after a stop.

        :raises StreamError: if events are missing; the handler has not seen those that follow.
        """
        passed = [event for event in events if not self.stopped and self._order.passes(event)]
        if not passed:
            return
        batch = EventBatch(passed)
        try:
            self._keep(self._handler(batch, self._context))
        except StopStream:
            log.info("The handler ended the stream at %s", batch.place())
            self.stopped = True
        except TaskDeferred:
            raise StreamError(
                f"the handler deferred the task at {batch.place()}: its trigger goes on by itself, so return "
                "instead, or raise StopStream to end the stream"
            ) from None
        except Exception as error:
            error.add_note(f"raised by the handler at {batch.place()} of the stream")
            raise

    def over(self, pages: XComIterable, stop: int, *, ends: bool, options: StreamOptions) -> int:
        """
        Handle pages that are stored, beginning with the one that is due.

        :param pages: the stream, one page an item.
        :param stop: the page to stop before.
        :param ends: whether that is the end of the stream.
        :param options: sizes of a batch.
        :return: the page that is due next.
        """
        indexes = range(self._order.due, stop)
        for events in batches(self._order.run, pages, indexes, ends=ends, options=options):
            self.handle(events)
            if self.stopped:
                break
        return self._order.due

    def live(self, trigger: StreamingTrigger, options: StreamOptions) -> XComIterable:
        """
        Stream the pages here, and handle them as they come. A slow handler makes the source wait.

        :param trigger: the source.
        :param options: sizes of a batch and of what is held.
        :return: the reference to the pages.
        """
        inbox, pause = Inbox(options, batch_pages(options)), Pause()
        trigger.listen(inbox.put, pause)
        producer = self._portal.start_task_soon(_produce, trigger, inbox)
        while events := self._portal.call(inbox.take):
            self.handle(events)
            if self.stopped:
                self._portal.call(inbox.stop)
                self._portal.call(pause.stop)
        return producer.result()

    def finish(self) -> XComIterable | None:
        """Say what was dropped, end the stream of results, and return the reference to it, if it is kept."""
        if self._order.duplicates:
            log.info("%d events came more than once and were dropped", self._order.duplicates)
        return None if self._results is None else self._results.close()

    def _keep(self, value: Any) -> None:
        if isinstance(value, AsyncGenerator):
            for item in self._yielded(value):
                self._add(item)
        elif isinstance(value, Iterator):
            for item in value:
                self._add(self._awaited(item))
        else:
            self._add(self._awaited(value))

    def _yielded(self, generator: AsyncGenerator[Any, Any]) -> Iterator[Any]:
        end = object()
        while (item := self._portal.call(anext, generator, end)) is not end:
            yield item

    def _awaited(self, value: Any) -> Any:
        return self._portal.call(_wait_for, value) if inspect.isawaitable(value) else value

    def _add(self, item: Any) -> None:
        if item is not None and self._results is not None:
            self._results.add(item)


def batches(
    run: str, pages: XComIterable, indexes: range, *, ends: bool, options: StreamOptions
) -> Iterator[list[StreamEvent]]:
    """
    Make events of the pages of a stream, as many at a time as are to be held in memory.

    :param run: id of the run.
    :param pages: the stream, one page an item.
    :param indexes: which pages.
    :param ends: whether the last of them is the last one of the stream.
    :param options: sizes of a batch.
    """
    batch: list[StreamEvent] = []
    size = 0
    for index in indexes:
        payload = pages[index]
        batch.append(StreamEvent(run, index, payload, ends and index == indexes[-1]))
        size += estimate_size(payload)
        if len(batch) >= batch_pages(options) or size >= options.max_uncommitted_bytes:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def batch_pages(options: StreamOptions) -> int:
    """Return how many pages a handler is given at a time at most."""
    return options.resume_every_pages or options.max_uncommitted_pages


async def _produce(trigger: StreamingTrigger, inbox: Inbox) -> XComIterable:
    try:
        pages = await trigger.stream()
    except Exception as error:
        await inbox.close(error)
        raise
    await inbox.close()
    return pages


async def _wait_for(value: Any) -> Any:
    return await value
