# SPDX-License-Identifier: Apache-2.0
"""Base class of operators whose trigger delivers many pages in one run."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import msgspec
from airflow.sdk import BaseOperator
from airflow.triggers.base import StartTriggerArgs

from airflow_provider_iteration import _compat
from airflow_provider_iteration.operators.handling import Handling, handling
from airflow_provider_iteration.operators.start import (
    argument_obstacles,
    finishing_losses,
    placing_obstacles,
)
from airflow_provider_iteration.streams.options import FinishOn, StreamOptions
from airflow_provider_iteration.xcom.iterable import XComIterable

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_provider_iteration.streams.events import StreamEvent
    from airflow_provider_iteration.triggers.streaming import StreamingTrigger

RESUME_METHOD = "execute_complete"
HANDLING_METHOD = "resume_handling"
"""The method that a task with a handler resumes with: its old ``next_method`` may be ``execute_complete``."""

PAGES_KEY = "pages"
RESULTS_KEY = "return_value"


class StreamingOperatorMeta(_compat.BaseOperatorMeta):
    """Settles how the task starts once the outermost ``__init__`` has run."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        operator = super().__call__(*args, **kwargs)
        operator.settle_start()
        return operator


class StreamingOperator(BaseOperator, metaclass=StreamingOperatorMeta):
    """
    Base of operators that stream pages from a trigger, instead of deferring for each page.

    A subclass names its trigger in :meth:`make_trigger`. The task then starts in the triggerer where
    nothing is lost by that, and otherwise on a worker that defers once; it ends in the triggerer where
    nothing is lost, and otherwise after one resume. The result is an
    :class:`~airflow_provider_iteration.xcom.iterable.XComIterable`.

    A subclass that overrides :meth:`handle_trigger_events`, or names an old method in :attr:`next_method`,
    handles the pages on a worker. The result is then the stream of what the handler returned; that of the
    pages has the XCom key ``pages``.

    :param deferrable: stream in the triggerer (default), or on the worker.
    :param start_from_trigger: None decides by itself (default); False starts on a worker; True is an error
        where the task cannot start in the triggerer.
    :param finish_on: ``"auto"`` (default) ends the task without a worker unless something would be lost:
        outlets, callbacks, ``pre_execute``, ``post_execute``, extra links, or a task listener of the
        deployment. ``"worker"`` and ``"triggerer"`` say so themselves.
    :param max_pages: more pages than this are an error.
    :param max_bytes: more bytes than this, in the whole stream, are an error.
    :param max_uncommitted_pages: how many pages may be fetched but not yet stored, and how many are asked
        for again after a restart of the triggerer at most.
    :param resume_every_pages: hand over to the handler after so many pages; the trigger runs at most one
        page further ahead. Each time costs a resume. None is once, at the end.
    :param resume_every_seconds: hand over to the handler after so many seconds, if there are two pages at
        least. None is once, at the end.
    """

    next_method: str | None = None
    """Name of a method ``(context, event)``, as a deferrable operator has it, to call for each event."""

    next_method_takes_list: bool = False
    """Whether :attr:`next_method` takes the list of a batch's events instead."""

    def __init__(
        self,
        *,
        deferrable: bool = True,
        start_from_trigger: bool | None = None,
        finish_on: FinishOn = "auto",
        max_pages: int | None = None,
        max_bytes: int | None = None,
        max_uncommitted_pages: int = 32,
        resume_every_pages: int | None = None,
        resume_every_seconds: float | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.deferrable = deferrable
        self.finish_on = finish_on
        self.stream_options = StreamOptions(
            finish_on=finish_on,
            max_pages=max_pages,
            max_bytes=max_bytes,
            max_uncommitted_pages=max_uncommitted_pages,
            resume_every_pages=resume_every_pages,
            resume_every_seconds=resume_every_seconds,
        )
        self._wants_trigger_start = start_from_trigger
        self._start_obstacles: list[str] = []

    def has_handler(self) -> bool:
        """
        Tell whether a handler takes the events of the stream.

        It is asked once the operator is constructed. By default there is one where
        :meth:`handle_trigger_events` is overridden or :attr:`next_method` is set.
        """
        overridden = type(self).handle_trigger_events is not StreamingOperator.handle_trigger_events
        return overridden or self.next_method is not None

    def handle_trigger_events(self, events: Sequence[StreamEvent], context: Context) -> Any:
        """
        Handle a batch of events. A subclass overrides it, also as ``async def`` or as a generator.

        Each event is a page: ``event.payload`` is what the page holds (with ``items_path`` the list of
        its items). Batches come in order, no event comes twice in one try of the task, and
        ``event.is_last`` is true for the very last one only.

        :param events: one or more events, never all of a long stream.
        :param context: context of the task.
        :return: appended to the stream of results as one item; nothing if it is None. Of a generator
            each value that it yields is an item.
        :raises StopStream: to end the stream here, successfully.
        """
        method = getattr(self, self.next_method or "")
        if self.next_method_takes_list:
            return method(context, event=[event.payload for event in events])
        # A generator: each value that the method returns is an item of its own.
        return (method(context, event=event.payload) for event in events)

    @abstractmethod
    def make_trigger(self, context: Mapping[str, Any]) -> StreamingTrigger:
        """
        Return the trigger that fetches the pages.

        It is called on the worker, and once, with an empty context, when the operator is constructed: one
        that needs the context there raises ``KeyError``, and the task starts on a worker.

        :param context: context of the task, or an empty mapping.
        """

    def settle_start(self) -> None:
        """
        Decide whether the task starts in the triggerer. Called once the operator is constructed.

        :raises ValueError: if the start in the triggerer was asked for and cannot be, with the argument.
        :raises TypeError: if an argument can neither be sent to the triggerer nor rendered.
        """
        self._check_handler()
        if self.finish_on == "triggerer" and (losses := list(finishing_losses(self))):
            raise ValueError(f"finish_on='triggerer' in task {self.task_id!r}: {'; '.join(losses)}")
        if _compat.is_mapped_instance(self):
            self._start_obstacles = list(placing_obstacles(self))
            return
        # Also where it will not start there: what is wrong with its arguments is an error of the Dag.
        trigger = self._trigger_without_context()
        if not self.deferrable or self._wants_trigger_start is False:
            self._start_obstacles = list(placing_obstacles(self))
            return
        if trigger is not None:
            self._settle(trigger)
        if self._wants_trigger_start and self._start_obstacles:
            raise ValueError(
                f"start_from_trigger=True in task {self.task_id!r}: {'; '.join(self._start_obstacles)}. "
                "Leave it out to start on a worker"
            )

    def execute(self, context: Context) -> Any:
        """Defer to the trigger, or stream here where ``deferrable`` is False."""
        trigger = self._equipped(self.make_trigger(context))
        reasons = list(self.worker_reasons(trigger)) if self.deferrable else []
        if reasons:
            self.log.info("The pages are fetched on this worker: %s", "; ".join(reasons))
        if reasons or not self.deferrable:
            self.prepare_on_worker(trigger, context)
            return (
                self._handle_here(trigger, context) if self.has_handler() else asyncio.run(trigger.stream())
            )
        if self._start_obstacles:
            self.log.info("Started on a worker: %s", "; ".join(self._start_obstacles))
        self._defer_to(trigger, context)
        return None

    def execute_complete(self, context: Context, event: dict[str, Any]) -> XComIterable:
        """Take over from the trigger: what is returned is pushed as the task's result."""
        reference = XComIterable.deserialize(event["reference"], XComIterable.__version__)
        self.log.info("Streamed %d items in %d pages", len(reference), reference.pages)
        return reference

    def resume_handling(
        self, context: Context, event: dict[str, Any], handled: int = 0
    ) -> XComIterable | None:
        """
        Take over from the trigger: handle the pages that are new, then go on or end.

        :param context: context of the task.
        :param event: payload of the trigger's event.
        :param handled: how many pages were handled in earlier resumes of this try.
        """
        pages = XComIterable.deserialize(event["reference"], XComIterable.__version__)
        more = event.get("more", False)
        options = msgspec.structs.replace(self._options(), handled=handled)
        with self._limited(context), self._handling(context, options) as handling:
            due = handling.over(pages, len(pages) - more, ends=not more, options=options)
            self.log.info("Handled %d pages, %d in all", due - handled, due)
            if handling.stopped or not more:
                return self._finish(handling, pages, context)
        trigger = self._equipped(self.make_trigger(context))
        self._defer_to(trigger, context, handled=due)
        return None

    def worker_reasons(self, trigger: StreamingTrigger) -> Iterator[str]:
        """
        Yield why the pages must be fetched on the worker, because something cannot be sent to the triggerer.

        :param trigger: the trigger, as it would be sent.
        """
        return iter(())

    def prepare_on_worker(self, trigger: StreamingTrigger, context: Mapping[str, Any]) -> None:
        """
        Give a trigger that is run on the worker what it has in the triggerer.

        :param trigger: the trigger.
        :param context: context of the task.
        """
        trigger.task_instance = context["ti"]

    def _check_handler(self) -> None:
        if self.has_handler():
            if self.next_method is not None and not callable(getattr(self, self.next_method, None)):
                raise ValueError(f"next_method of task {self.task_id!r}: no method {self.next_method!r}")
            return
        for name in ("resume_every_pages", "resume_every_seconds"):
            if getattr(self.stream_options, name) is not None:
                raise ValueError(
                    f"{name} in task {self.task_id!r}: there is no handler to resume for; override "
                    "handle_trigger_events, or leave it out"
                )

    def _handling(self, context: Context, options: StreamOptions) -> AbstractContextManager[Handling]:
        return handling(self.handle_trigger_events, context, options, keep=self.do_xcom_push)

    def _handle_here(self, trigger: StreamingTrigger, context: Context) -> XComIterable | None:
        options = trigger.stream_options
        with self._handling(context, options) as handling:
            pages = handling.live(trigger, options)
            return self._finish(handling, pages, context)

    def _finish(self, handling: Handling, pages: XComIterable, context: Context) -> XComIterable | None:
        results = handling.finish()
        if results is not None:
            context["ti"].xcom_push(key=PAGES_KEY, value=pages)
        return results

    def _defer_to(self, trigger: StreamingTrigger, context: Context, handled: int = 0) -> None:
        trigger.stream_options = msgspec.structs.replace(
            trigger.stream_options,
            min_seconds=_compat.config_float("min_defer_seconds", 10.0),
            handled=handled,
        )
        self.defer(
            trigger=trigger,
            method_name=self._resume_method(),
            kwargs={"handled": handled} if handled else None,
            timeout=self._time_left(context),
        )

    def _resume_method(self) -> str:
        return HANDLING_METHOD if self.has_handler() else RESUME_METHOD

    def _limited(self, context: Context) -> AbstractContextManager[Any]:
        # Airflow gives each resume the whole execution_timeout anew.
        left = self._time_left(context)
        return nullcontext() if left is None else _compat.time_limit(left.total_seconds())

    def _trigger_without_context(self) -> StreamingTrigger | None:
        try:
            return self.make_trigger({})
        except KeyError as error:
            self._start_obstacles = [f"make_trigger needs {error} of the context"]
            return None

    def _settle(self, trigger: StreamingTrigger) -> None:
        classpath, arguments = self._equipped(trigger).serialize()
        self._start_obstacles = [*placing_obstacles(self), *argument_obstacles(self, arguments)]
        if self._start_obstacles:
            return
        self.start_from_trigger = True
        self.start_trigger_args = StartTriggerArgs(
            trigger_cls=classpath, next_method=self._resume_method(), trigger_kwargs=arguments
        )

    def _equipped(self, trigger: StreamingTrigger) -> StreamingTrigger:
        trigger.stream_options = self._options()
        return trigger

    def _options(self) -> StreamOptions:
        options = self.stream_options.to_json()
        needs_worker = next(finishing_losses(self), None) is not None or not self.do_xcom_push
        mapped_over = self.has_dag() and _compat.has_mapped_dependants(self)
        if needs_worker or mapped_over:
            options["finish_on"] = "worker"
        if mapped_over and not _compat.is_mapped_instance(self):
            options["max_map_length"] = _compat.max_map_length(self, -1)
        if self.has_handler():
            options.update(key=PAGES_KEY, results_key=RESULTS_KEY)
        return StreamOptions.from_json(options)

    def _time_left(self, context: Context) -> timedelta | None:
        if self.execution_timeout is None:
            return None
        started = context["ti"].start_date or datetime.now(UTC)
        left = self.execution_timeout - (datetime.now(UTC) - started)
        return max(left, timedelta(seconds=1))
