# SPDX-License-Identifier: Apache-2.0
"""The operator that works through many items in one task instance."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, ClassVar

import attrs
from airflow.sdk import BaseOperator, Context
from airflow.sdk.exceptions import (
    AirflowFailException,
    AirflowSensorTimeout,
    AirflowSkipException,
    DownstreamTasksSkipped,
)

from airflow_provider_iteration import _compat
from airflow_provider_iteration.iteration.functions import FunctionWork
from airflow_provider_iteration.iteration.hooks import ItemHooks, ItemOptions
from airflow_provider_iteration.iteration.input_field import IterateInput, ResolvedInput, live_in
from airflow_provider_iteration.iteration.item_context import RoutedContext, set_current
from airflow_provider_iteration.iteration.operators import OperatorWork
from airflow_provider_iteration.iteration.options import IterateOptions
from airflow_provider_iteration.iteration.progress import Progress
from airflow_provider_iteration.iteration.recording import Recorder
from airflow_provider_iteration.iteration.resources import ResourceFactory
from airflow_provider_iteration.iteration.retries import Classifier, Decision, by_type, first_of
from airflow_provider_iteration.iteration.runner import Iteration, Summary
from airflow_provider_iteration.iteration.task_checkpoints import (
    CLOSE_SECONDS,
    TaskCheckpoints,
    mark_finished,
)
from airflow_provider_iteration.iteration.task_results import TaskResults
from airflow_provider_iteration.xcom.iterable import XComIterable

log = logging.getLogger(__name__)

STOP_GRACE = 4.0
"""Seconds that items have to end: the supervisor kills five seconds after it has asked to end."""
FLUSH_SECONDS = 2.0
"""Of these, what the checkpoint may take, before anything else."""
LAST_FLUSH_SECONDS = 0.5
LIMITS = frozenset(
    {"execution_timeout", "max_retry_delay", "retries", "retry_delay", "retry_exponential_backoff"}
)
SKIPPED_WITH_ITEMS = frozenset({"all_success", "none_skipped", "all_done_min_one_success"})


@attrs.frozen
class FunctionSpec:
    """
    A function for each item.

    :param function: the function.
    """

    function: Callable[..., Any]

    def connections(self) -> list[str]:
        """Return ids of connections that are known beforehand: none."""
        return []

    def same_for_all(self, task: IterableOperator) -> Any:
        """Return what the result of each item depends on besides the item."""
        return task.constants

    def bind(self, task: IterableOperator, context: Mapping[str, Any], hooks: ItemHooks) -> FunctionWork:
        """Make what is called for each item."""
        environment = task.get_template_env()
        return FunctionWork(
            self.function,
            task.constants,
            context,
            render=lambda text: task.render_template(text, context, environment),  # type: ignore[arg-type]
            hooks=hooks,
            keep_results=task.do_xcom_push,
        )


@attrs.frozen
class OperatorSpec:
    """
    An operator for each item.

    :param operator_class: class of the operator.
    :param kwargs: its arguments that are the same for all items, but for other tasks' outputs, which are
        among the task's constants. Templates in them are rendered for each item.
    """

    operator_class: type[BaseOperator]
    kwargs: dict[str, Any]

    def connections(self) -> list[str]:
        """Return ids of connections among the arguments."""
        return sorted(
            value
            for name, value in self.kwargs.items()
            if name.endswith("conn_id") and isinstance(value, str) and "{" not in value
        )

    def same_for_all(self, task: IterableOperator) -> Any:
        """Return what the result of each item depends on besides the item."""
        own = {**self.kwargs, **task.constants}
        if defaults := own.get("default_args"):
            own["default_args"] = _without_limits(defaults)
        return _without_limits(own)

    def bind(self, task: IterableOperator, context: Mapping[str, Any], hooks: ItemHooks) -> OperatorWork:
        """Make what is called for each item."""
        kwargs = {**self.kwargs, **task.constants, "task_id": task.task_id}
        if task.has_dag():
            defaults = {**(task.dag.default_args or {}), **(kwargs.get("default_args") or {})}
            kwargs["default_args"] = {k: v for k, v in defaults.items() if not k.startswith("on_")}
        return OperatorWork(
            self.operator_class,
            kwargs,
            context,
            task,
            data=task.constants,
            hooks=hooks,
            keep_results=task.do_xcom_push,
        )


class IterableOperator(BaseOperator):
    """
    Runs a function over all items of an input, in one task instance, so many at a time.

    Made by :func:`~airflow_provider_iteration.decorators.iterate.iterate`.

    :param work: what is done for each item: a function, or an operator.
    :param constants: arguments that are the same for all items (templated).
    :param input: what is iterated over.
    :param options: limits, retries, and what failed items mean.
    :param resources: name → factory of a context manager, entered once for the task instance.
    :param item_options: label, callbacks and XComs of each item.
    :param operator_label: the name that the UI shows.
    """

    template_fields = ("input", "constants")
    template_fields_renderers: ClassVar[dict[str, str]] = {"input": "json", "constants": "py"}
    shallow_copy_attrs = ("work", "input", "item_resources")
    ui_color = "#ffefeb"
    is_read_live = False
    """Whether a task of the same Dag follows the results while they are written."""

    def __init__(
        self,
        *,
        work: FunctionSpec | OperatorSpec,
        input: IterateInput,
        constants: Mapping[str, Any] | None = None,
        options: IterateOptions | None = None,
        item_resources: Mapping[str, ResourceFactory] | None = None,
        item_options: ItemOptions | None = None,
        operator_label: str = "@task.iterate",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.work = work
        self.input: Any = input
        self.constants = dict(constants or {})
        self.options = options or IterateOptions()
        self.item_resources = dict(item_resources or {})
        self.item_options = item_options or ItemOptions()
        if next(live_in(self.constants), None) is not None:
            raise TypeError("partial(): live() is for what is iterated over")
        if self.item_options.xcom_layout == "indexed" and not self.do_xcom_push:
            raise ValueError("xcom_layout='indexed': do_xcom_push=False keeps no results")
        self.custom_operator_name = operator_label
        # These are for each item, so Airflow must not call them for the task.
        self._success_callbacks, self.on_success_callback = self.on_success_callback, []
        self._skipped_callbacks, self.on_skipped_callback = self.on_skipped_callback, []
        self._iteration: Iteration | None = None
        self._checkpoints: TaskCheckpoints | None = None
        self._is_ending = False

    def execute(self, context: Context) -> Any:
        """Work off the input; the result is a reference to the results."""
        return self.work_off(context)

    def work_off(
        self, context: Mapping[str, Any], *, goes_on: bool = False, keeps_results: bool = False
    ) -> XComIterable | None:
        """
        Work off the input.

        :param context: context of the task.
        :param goes_on: whether this try has been at it before, and was deferred in between.
        :param keeps_results: whether the results that it has written then are the first ones of all.
        :return: a reference to the results.
        """
        values = context
        resolved: ResolvedInput = self.input
        hooks = self._hooks()
        work = self.work.bind(self, values, hooks)
        checkpoints = self._checkpoints = self._open_checkpoints(values, goes_on)
        results = TaskResults(
            values["ti"],
            self,
            checkpoints.completed if checkpoints else None,
            anew=not keeps_results,
            read_along=self.is_read_live,
        )
        recorder = self._recorder(values, hooks, results, checkpoints)
        iteration = self._iteration = Iteration(
            work,
            results.noting_pause(checkpoints.noted(resolved.items()) if checkpoints else resolved.items()),
            self.options,
            sink=recorder,
            # Entered after the others, and left before them.
            resources={**self.item_resources, **({_RESULTS: results.writing} if self.do_xcom_push else {})},
            classify=self._classifier(values),
            on_cancel=work.kill if isinstance(work, OperatorWork) else None,
            on_progress=self._progress_keeper(values),
            pass_item=True,
            recall=checkpoints.recall if checkpoints and checkpoints.knows else None,
            is_async=work.is_async,
            total=resolved.total(),
            grace=STOP_GRACE / 2,
        )
        set_current(values)
        with _compat.connections_once(self.work.connections()), _compat.current_context(RoutedContext()):
            summary = self._run(iteration, checkpoints, recorder, values)
        reference = results.reference() if self.do_xcom_push else None
        if self._has_checkpoint(values, checkpoints):
            mark_finished(values, self.retries or 0)
        return self._finish(summary, reference, hooks, values)

    def confirm_input(self) -> None:
        """Check, once all items are done, that the input is still what counts."""

    def progress(self) -> Progress | None:
        """Return how far the iteration is; None before its beginning."""
        return None if self._iteration is None else self._iteration.progress()

    def on_kill(self) -> None:
        """Start nothing new, commit what is done, and end what runs."""
        if self._iteration is None:
            return
        began = time.monotonic()
        self._is_ending = True
        self._iteration.start_nothing_new()
        if self._checkpoints is not None:
            self._checkpoints.flush(FLUSH_SECONDS)
        left = STOP_GRACE - (time.monotonic() - began)
        # One half for the items, the other for the resources.
        self._iteration.stop(left / 2)
        # Last: in a signal handler, a log that was interrupted may refuse a line.
        self.log.info("The task was asked to end: %d items are done", self._iteration.progress().done)

    def _run(
        self,
        iteration: Iteration,
        checkpoints: TaskCheckpoints | None,
        recorder: Recorder,
        context: Mapping[str, Any],
    ) -> Summary:
        has_succeeded = False
        try:
            summary = iteration.run_blocking()
            self.confirm_input()
            has_succeeded = True
            recorder.settle()
            return summary
        finally:
            set_current(context)
            if checkpoints is not None:
                seconds = LAST_FLUSH_SECONDS if self._is_ending else CLOSE_SECONDS
                checkpoints.close(seconds, has_succeeded=has_succeeded)
            recorder.close(wait=not self._is_ending)
            self._log_progress(iteration.progress())
            _keep_progress(context, iteration.progress())

    def _open_checkpoints(self, context: Mapping[str, Any], goes_on: bool) -> TaskCheckpoints | None:
        if self.options.checkpoint_every is None or context.get("task_state_store") is None:
            return None
        checkpoints = TaskCheckpoints(
            context,
            self.work.same_for_all(self),
            retries=self.retries or 0,
            every=self.options.checkpoint_items,
            seconds=self.options.checkpoint_seconds,
            keep_results=self.do_xcom_push,
        )
        checkpoints.load(goes_on=goes_on)
        return checkpoints

    def _has_checkpoint(self, context: Mapping[str, Any], checkpoints: TaskCheckpoints | None) -> bool:
        """Tell whether this try, or perhaps an earlier one, has left rows."""
        if context.get("task_state_store") is None:
            return False
        is_first = getattr(context["ti"], "try_number", 1) <= 1
        return not is_first or (checkpoints is not None and checkpoints.has_rows)

    def _recorder(
        self,
        context: Mapping[str, Any],
        hooks: ItemHooks,
        results: TaskResults,
        checkpoints: TaskCheckpoints | None,
    ) -> Recorder:
        return Recorder(
            context,
            hooks,
            results if self.do_xcom_push else None,
            checkpoints,
            push_results=self.item_options.xcom_layout == "indexed",
        )

    def _hooks(self) -> ItemHooks:
        return ItemHooks(
            self.item_options,
            self.get_template_env(),
            success=list(self._success_callbacks or ()),  # type: ignore[arg-type]
            skipped=list(self._skipped_callbacks or ()),  # type: ignore[arg-type]
        )

    def _progress_keeper(self, context: Mapping[str, Any]) -> Callable[[Progress], Awaitable[None]]:
        async def keep(progress: Progress) -> None:
            self._log_progress(progress)
            await asyncio.to_thread(_keep_progress, context, progress)

        return keep

    def _classifier(self, context: Mapping[str, Any]) -> Classifier:
        by_airflow = by_type(skip=(AirflowSkipException,), final=(AirflowFailException, AirflowSensorTimeout))
        policy = self.retry_policy
        if policy is None:
            return by_airflow

        def by_policy(error: Exception, attempt: int) -> Decision | None:
            retries = self.options.item_retries
            action, delay = _compat.retry_decision(policy, error, attempt, retries, context)
            return None if action is None else Decision(action, delay)

        return first_of(by_airflow, by_policy)

    def _log_progress(self, progress: Progress) -> None:
        total = "" if progress.total is None else f" of {progress.total}"
        self.log.info(
            "%d%s items done: %d succeeded, %d skipped, %d failed; %.1f items/s",
            progress.done,
            total,
            progress.succeeded,
            progress.skipped,
            progress.failed,
            progress.rate or 0.0,
        )

    def _finish(
        self, summary: Summary, reference: XComIterable | None, hooks: ItemHooks, context: Mapping[str, Any]
    ) -> XComIterable | None:
        progress = summary.progress
        if summary.failed.count:
            self.log.warning(
                "%d failed items are put up with, at index %s",
                summary.failed.count,
                summary.failed.indexes_text(),
            )
        if not progress.done:
            hooks.settled("skipped", context)
        if progress.done == progress.skipped:
            raise AirflowSkipException(
                "there were no items" if not progress.done else "all items were skipped"
            )
        if progress.skipped and (skipped := self._skipped_downstream(context["ti"])):
            if reference is not None:
                _compat.push_result(context["ti"], reference, self.log)
            raise DownstreamTasksSkipped(tasks=skipped)
        return reference

    def _skipped_downstream(self, ti: Any) -> list[str | tuple[str, int]]:
        in_group = _compat.in_mapped_task_group(self)
        return [
            (task.task_id, ti.map_index) if in_group and _compat.in_mapped_task_group(task) else task.task_id
            for task in self.get_direct_relatives(upstream=False)
            if str(getattr(task.trigger_rule, "value", task.trigger_rule)) in SKIPPED_WITH_ITEMS
        ]


def _without_limits(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out what one changes to help a task that has failed; its results are the same."""
    return {name: value for name, value in arguments.items() if name not in LIMITS}


_RESULTS = "results of the iteration"
PROGRESS_KEY = "iteration_progress"
"""Key of the task state store under which the last snapshot of the progress is."""


def _keep_progress(context: Mapping[str, Any], progress: Progress) -> None:
    """Leave a snapshot where a page can read it, also when the task has ended. Blocks: use a thread."""
    if (store := context.get("task_state_store")) is None:
        return
    numbers = ("done", "succeeded", "skipped", "failed", "in_flight", "retried", "total")
    snapshot: dict[str, Any] = {name: getattr(progress, name) for name in numbers}
    try:
        store.set(PROGRESS_KEY, {**snapshot, "elapsed": round(progress.elapsed, 1)})
    except Exception:
        # No item fails for what is only shown.
        log.warning("the progress could not be kept", exc_info=True)
