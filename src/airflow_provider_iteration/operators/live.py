# SPDX-License-Identifier: Apache-2.0
"""The iterated task that begins before the task whose items it takes has ended."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow.sdk import Context, TriggerRule
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException
from airflow.triggers.base import StartTriggerArgs

from airflow_provider_iteration import _compat
from airflow_provider_iteration.exceptions import InputPaused, Starved
from airflow_provider_iteration.iteration.input_field import IterateInput, ResolvedInput, references_in
from airflow_provider_iteration.operators.iterable import IterableOperator
from airflow_provider_iteration.streams.following import Place
from airflow_provider_iteration.triggers.live import LiveTrigger
from airflow_provider_iteration.triggers.polling import found_ended
from airflow_provider_iteration.xcom.live import LiveItems, ended_as_in_airflow
from airflow_provider_iteration.xcom.pipeline import LivePipeline

RESUME_METHOD = "execute_live"
RULES = frozenset({"all_success", "always"})


def operator_class(input: IterateInput) -> type[IterableOperator]:
    """
    Return the operator for an input.

    :param input: what is iterated over.
    :raises TypeError: if a live input is where none can be.
    """
    return IterableOperator if input.live() is None else LiveIterableOperator


class LiveIterableOperator(IterableOperator):
    """
    Works through a stream while it is being written.

    Airflow starts it with its Dag run, because its trigger rule is ``always``, in the triggerer and without a
    worker slot. There it waits until the producing task has something and all its other upstreams have ended,
    whose states mean what they mean with ``all_success``. On a worker it follows the stream; where nothing
    comes for ``starve_seconds`` it goes back to waiting, and later on with what is not done.

    It succeeds only after the producing task has succeeded with what was read. If that task was run again in
    the meantime, the iteration begins anew; items whose input is the same are not done again.
    """

    def __init__(self, *, input: IterateInput, trigger_rule: str = TriggerRule.ALWAYS, **kwargs: Any) -> None:
        live = input.live()
        assert live is not None
        _check_rule(trigger_rule)
        _check_place(kwargs)
        _check_other_uses(live, input, kwargs.get("constants"))
        super().__init__(input=input, trigger_rule=TriggerRule.ALWAYS, **kwargs)
        if self.options.checkpoint_every is None:
            raise ValueError(
                "checkpoint_every: a live iteration that waits for its input goes on from its checkpoint: "
                "leave checkpoint_every=None out"
            )
        self._pipeline: LivePipeline = live
        # Airflow would have the wait count towards execution_timeout.
        self.start_from_trigger = self.execution_timeout is None and not _compat.has_triggerer_queues()

    @property
    def is_teardown(self) -> bool:
        """Whether it is a teardown: never, because a teardown begins when other tasks have ended."""
        return False

    @is_teardown.setter
    def is_teardown(self, value: bool) -> None:
        if value:
            raise TypeError(
                f"live(): the task {self.task_id!r} is to be a teardown, which begins when other tasks have "
                "ended: leave live() out"
            )

    @property
    def start_trigger_args(self) -> StartTriggerArgs | None:  # type: ignore[override]
        """Arguments of the trigger that waits; the task's upstreams are known when the Dag is complete."""
        if not self.start_from_trigger:
            return None
        path, arguments = self._trigger().serialize()
        return StartTriggerArgs(trigger_cls=path, next_method=RESUME_METHOD, trigger_kwargs=arguments)

    def execute(self, context: Context) -> Any:
        """Begin where the task started on a worker: at once if all upstreams have ended, else by waiting."""
        ti = context["ti"]
        states = _compat.task_states(ti.dag_id, [ti.run_id], self._tasks())
        if (found := found_ended(states.get(ti.run_id, {}), self._tasks())) is None:
            return self._wait()
        return self.execute_live(context, found._asdict())

    def execute_live(
        self,
        context: Context,
        event: dict[str, Any],
        place: dict[str, Any] | None = None,
        goes_on: bool = False,
        keeps_results: bool = False,
    ) -> Any:
        """
        Take over from the trigger, and follow the stream.

        :param context: context of the task.
        :param event: payload of the trigger's event: what it found.
        :param place: how far this try has read.
        :param goes_on: whether this try has been at it before.
        :param keeps_results: whether the results that it has written are the first ones of all.
        """
        self._check_upstreams(event)
        follower = self._items().follower
        follower.follow(
            run=event["run"],
            expected=Place.from_json(place),
            starve_seconds=self._pipeline.starve_seconds,
            is_busy=self._is_busy,
        )
        try:
            return self.work_off(context, goes_on=goes_on, keeps_results=keeps_results)
        except InputPaused as pause:
            return self._pause(pause)

    def confirm_input(self) -> None:
        """
        Check that the producing task has succeeded with what was read.

        :raises InputPaused: if it is being run again.
        """
        with ended_as_in_airflow():
            self._items().follower.confirm()

    def on_kill(self) -> None:
        """Read nothing more; otherwise as with any iteration."""
        if self._iteration is not None:
            self._items().follower.stop()
        super().on_kill()

    def _pause(self, pause: InputPaused) -> None:
        progress = self.progress()
        self.log.info("Waiting in the triggerer: %s", pause)
        if not isinstance(pause, Starved):
            return self._wait(goes_on=True)
        # An item that has failed is tried again, and would then come between results that are written.
        return self._wait(
            place=self._items().follower.place,
            goes_on=True,
            keeps_results=progress is not None and not progress.failed,
            needs_end=pause.needs_end,
        )

    def _is_busy(self) -> bool:
        progress = self.progress()
        return progress is not None and progress.in_flight > 0

    def _wait(
        self,
        *,
        place: Place | None = None,
        goes_on: bool = False,
        keeps_results: bool = False,
        needs_end: bool = False,
    ) -> None:
        plain = None if place is None else place.to_json()
        min_seconds = _compat.config_float("min_defer_seconds", 10.0)
        self.defer(
            trigger=self._trigger(plain, min_seconds=min_seconds, needs_end=needs_end),
            method_name=RESUME_METHOD,
            kwargs={"place": plain, "goes_on": goes_on, "keeps_results": keeps_results},
        )

    def _trigger(self, place: Mapping[str, Any] | None = None, **options: Any) -> LiveTrigger:
        producer, *others = self._tasks()
        return LiveTrigger(
            producer=producer,
            key=self._pipeline.key,
            others=others,
            place=None if place is None else dict(place),
            **options,
        )

    def _tasks(self) -> list[str]:
        """Return the tasks that are waited for, the producing one first."""
        producer = self._pipeline.producer.task_id
        return [producer, *sorted(_compat.upstream_ids(self) - {producer})]

    def _items(self) -> LiveItems:
        resolved: ResolvedInput = self.input
        items = resolved.live()
        assert items is not None
        return items

    def _check_upstreams(self, event: Mapping[str, Any]) -> None:
        """End as a task with the rule ``all_success`` does, whose upstreams have ended so."""
        if failed := event["failed"]:
            raise AirflowFailException(f"upstream tasks have failed: {', '.join(failed)}")
        if skipped := event["skipped"]:
            raise AirflowSkipException(f"upstream tasks were skipped: {', '.join(skipped)}")


def _check_rule(trigger_rule: Any) -> None:
    rule = str(getattr(trigger_rule, "value", trigger_rule))
    if rule not in RULES:
        raise ValueError(
            f"trigger_rule={rule!r}: a task with a live input begins before that input has ended, and its "
            "other upstreams count as with 'all_success'. Leave trigger_rule out, also in default_args, or "
            "live()"
        )


def _check_other_uses(live: LivePipeline, input: IterateInput, constants: Any) -> None:
    """Refuse another use of what the producer returns: that is not there before it has ended."""
    others = dict(constants or {}) if input.whole else {**(constants or {}), **input.value}
    for name, value in others.items():
        if value is live:
            continue
        if any(operator is live.producer for operator, _ in references_in(value)):
            raise TypeError(
                f"{name}: the output of {live.producer.task_id!r}, whose items are followed with live(), is "
                "not there when the iteration begins: leave live() out, or let another task hand it on"
            )


def _check_place(arguments: Mapping[str, Any]) -> None:
    group = arguments.get("task_group")
    dag = arguments.get("dag") or getattr(group, "dag", None) or _compat.current_dag()
    if dag is not None and dag.fail_fast:
        raise ValueError(
            f"live(): the Dag {dag.dag_id!r} has fail_fast=True, with which Airflow allows no task to begin "
            "before its upstreams have ended: leave one of them out"
        )
    group = group or _compat.current_task_group(dag)
    if group is not None and next(iter(group.iter_mapped_task_groups()), None) is not None:
        raise ValueError(
            f"live(): the task group {group.group_id!r} is mapped, and Airflow allows no task in it to begin "
            "before its upstreams have ended: leave live() out, or iterate in place of the group"
        )
