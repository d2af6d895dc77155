# SPDX-License-Identifier: Apache-2.0
"""``stream()``: what a Dag says about the items of another task's output before they are used."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, NoReturn

from airflow.sdk import BaseOperator

from airflow_provider_iteration import _compat
from airflow_provider_iteration.iteration.inputs import elements_of
from airflow_provider_iteration.iteration.item_context import RETURN_VALUE
from airflow_provider_iteration.streams.lazy import LazyIterable, node_of, view
from airflow_provider_iteration.streams.nodes import Sliced
from airflow_provider_iteration.streams.options import check_seconds
from airflow_provider_iteration.streams.step_arguments import (
    MISSING,
    check_batch_size,
    check_function,
    check_others,
    check_zip,
    function_name,
)
from airflow_provider_iteration.streams.xcom_store import XComPlace
from airflow_provider_iteration.xcom.live import LiveItems, live_items

__all__ = ["LivePipeline", "Pipeline", "stream"]

STARVE_SECONDS = 30.0


class _Step(NamedTuple):
    method: str
    arguments: tuple[Any, ...]
    options: Mapping[str, Any]

    def applied(self, items: LazyIterable, context: Mapping[str, Any]) -> LazyIterable:
        arguments = [
            lazily(each.resolve(context)) if _compat.is_resolvable(each) else each for each in self.arguments
        ]
        made: LazyIterable = getattr(items, self.method)(*arguments, **self.options)
        return made

    def label(self) -> str:
        return f"{self.method}({', '.join(map(_argument_label, self.arguments))})"


class Pipeline(_compat.ResolveMixin):
    """
    Steps between the output of a task and those who use its items; made by :func:`stream`.

    Each step gives a new pipeline. Nothing is read when a Dag is parsed. A task that a pipeline is given to,
    in ``.iterate()`` or as an argument, also within lists and mappings, depends on the tasks that it reads
    from, and gets a :class:`~airflow_provider_iteration.streams.lazy.LazySequence`, or a
    :class:`~airflow_provider_iteration.streams.lazy.LazyIterable` if ``filter`` or ``flatten`` leaves the
    number of items open.

    :param source: a task's output.
    :param steps: what is done with its items.
    """

    def __init__(self, source: Any, steps: tuple[_Step, ...] = ()) -> None:
        self._source = source
        self._steps = steps

    def flatten(self) -> Pipeline:
        """Put the items of lists, tuples and generators in their place; texts and mappings stay whole."""
        return self._with("flatten")

    def map(self, f: Callable[[Any], Any]) -> Pipeline:
        """
        Put what a function returns in the place of each item.

        :param f: a plain function of one item. A generator function makes pages for :meth:`flatten`.
        :raises TypeError: if it is anything else.
        """
        check_function("map", f)
        return self._with("map", f)

    def filter(self, f: Callable[[Any], Any]) -> Pipeline:
        """
        Leave out the items that a function says no to.

        :param f: a plain function of one item.
        :raises TypeError: if it is anything else.
        """
        check_function("filter", f)
        return self._with("filter", f)

    def batched(self, n: int) -> Pipeline:
        """
        Make lists of so many items, the last one of what remains.

        :param n: number of items in each.
        :raises TypeError: if it is no whole number.
        :raises ValueError: if it is less than 1.
        """
        check_batch_size(n)
        return self._with("batched", n)

    def zip(self, *others: Any, fillvalue: Any = MISSING, strict: bool = False) -> Pipeline:
        """
        Make tuples of the items of several inputs that have the same place, as ``XComArg.zip()`` does.

        :param others: other tasks' outputs, or pipelines.
        :param fillvalue: stands for the items of inputs that have ended. Without it the shortest input
            decides how many tuples there are.
        :param strict: inputs of unequal length fail the task.
        :raises TypeError: for another type of argument, or ``strict`` together with ``fillvalue``.
        """
        self._check_inputs("zip", others)
        check_zip(fillvalue, strict)
        options = {"strict": strict, "fillvalue": fillvalue}
        return self._with("zip", *others, **options)

    def concat(self, *others: Any) -> Pipeline:
        """
        Append the items of other inputs.

        :param others: other tasks' outputs, or pipelines.
        :raises TypeError: for another type of argument.
        """
        self._check_inputs("concat", others)
        return self._with("concat", *others)

    def live(self, *, starve_seconds: float = STARVE_SECONDS) -> LivePipeline:
        """
        Read the source while it is still being written. It comes last.

        An iterated task begins when the producing task has its first page, follows it on a worker, and
        succeeds only after that task has succeeded with what was read. Other tasks that the pipeline reads
        from, in ``zip`` or ``concat``, are waited for.

        :param starve_seconds: how long an iterated task keeps its worker while nothing new comes. After that
            it waits in the triggerer, and goes on where it was.
        :raises TypeError: if the source is not the output of one task, or for another type of number.
        :raises ValueError: if the seconds are not more than 0.
        """
        check_seconds("starve_seconds", starve_seconds)
        source, steps = self._source, self._steps
        while isinstance(source, Pipeline):
            source, steps = source._source, (*source._steps, *steps)
        return LivePipeline(source, steps, starve_seconds=starve_seconds)

    def iter_references(self) -> Iterator[tuple[Any, str]]:
        yield from self._source.iter_references()
        for step in self._steps:
            for argument in step.arguments:
                if _compat.is_resolvable(argument):
                    yield from argument.iter_references()

    def resolve(self, context: Mapping[str, Any]) -> LazyIterable:
        return self._finish(lazily(self._source.resolve(context)), context)

    def serialize(self) -> str:
        """Return a summary: this is what the stored Dag and the UI show."""
        return " | ".join((_argument_label(self._source), *(step.label() for step in self._steps)))

    def __repr__(self) -> str:
        return f"stream({self.serialize()})"

    def __iter__(self) -> NoReturn:
        # Also where Airflow looks into the arguments of .expand().
        raise TypeError(
            f"{self!r} is read when a task runs: it can neither be iterated over in the Dag file nor be "
            "given to .expand(), which needs its length before. Give it to .iterate(), or to a @task.stream "
            "whose output .expand() takes"
        )

    def _finish(self, items: LazyIterable, context: Mapping[str, Any]) -> LazyIterable:
        for step in self._steps:
            items = step.applied(items, context)
        return items

    def _with(self, method: str, *arguments: Any, **options: Any) -> Pipeline:
        return Pipeline(self._source, (*self._steps, _Step(method, arguments, options)))

    def _check_inputs(self, method: str, others: Sequence[Any]) -> None:
        check_others(method, others)
        for number, other in enumerate(others):
            _check_input(f"{method}(): argument {number}", other)


class LivePipeline(Pipeline):
    """
    A pipeline whose source is read while it is written; made by :meth:`Pipeline.live`.

    :param source: output of the task that is followed.
    :param steps: what is done with its items.
    :param starve_seconds: how long to keep a worker while nothing new comes.
    """

    def __init__(self, source: Any, steps: tuple[_Step, ...], *, starve_seconds: float) -> None:
        super().__init__(source, steps)
        self.starve_seconds = starve_seconds
        self.producer, self.key = self._followed(source)
        self._check_steps()
        if hasattr(self.producer, "is_read_live"):
            self.producer.is_read_live = True

    def resolve(self, context: Mapping[str, Any]) -> LiveItems:
        ti = context["ti"]
        place = XComPlace(ti.dag_id, self.producer.task_id, ti.run_id)
        return live_items(
            place, self.key, str(ti.id), lazily, finish=lambda items: self._finish(items, context)
        )

    def serialize(self) -> str:
        return f"{super().serialize()} | live()"

    def live(self, *, starve_seconds: float = STARVE_SECONDS) -> LivePipeline:
        raise TypeError(f"{self!r} is live already")

    def _followed(self, source: Any) -> tuple[Any, str]:
        if (output := _compat.plain_output(source)) is None:
            raise TypeError(
                f"live(): {self!r} does not begin with the output of one task as it is: write the steps of "
                "XComArg.map(), zip() or concat() with stream()"
            )
        operator, key = output
        if _compat.is_mapped(operator) or _compat.in_mapped_task_group(operator):
            raise TypeError(
                f"live(): the task {operator.task_id!r} is mapped, and only one task instance is followed: "
                "leave live() out, or make one @task.stream or iterated task of it"
            )
        if key == RETURN_VALUE and not getattr(operator, "do_xcom_push", True):
            raise ValueError(
                f"live(): the task {operator.task_id!r} has do_xcom_push=False, so it leaves nothing to read"
            )
        return operator, key

    def _check_steps(self) -> None:
        for step in self._steps:
            for argument in step.arguments:
                if _compat.is_resolvable(argument) and any(
                    operator is self.producer for operator, _ in argument.iter_references()
                ):
                    raise TypeError(
                        f"{step.method}(): the output of {self.producer.task_id!r}, whose items are followed "
                        "with live(), is not there as a whole before that task has ended: leave live() out"
                    )

    def _with(self, method: str, *arguments: Any, **options: Any) -> Pipeline:
        raise TypeError(f"{method}(): live() comes last; write stream(...).{method}(...).live()")


# As with other tasks' outputs, what is given to .expand() must look mappable to get as far as the message
# above; Airflow's own would name a type and say no more.
Sequence.register(Pipeline)


def stream(source: Any) -> Pipeline:
    """
    Begin a pipeline over the items of a task's output.

    ::

        open_orders = stream(pages.output).filter(is_open).batched(500)
        load.iterate(rows=open_orders)

    :param source: output of a task: a stream, the results of an iteration, a list, a mapping (as pairs of
        key and value), the outputs of a mapped task; or another pipeline.
    :raises TypeError: if it is anything else.
    """
    _check_input("stream()", source)
    return Pipeline(source)


def lazily(value: Any) -> LazyIterable:
    """
    Give the items of a task's output, read when they are asked for.

    :param value: what the output was resolved to.
    :raises TypeError: if it cannot be iterated over.
    """
    if isinstance(value, LazyIterable):
        return value
    if _compat.is_mapped_output(value):
        return view(Sliced(value, "outputs of a mapped task"))
    if (derived := _compat.derived_output(value)) is not None:
        first, calls = derived
        items = lazily(first)
        for method, arguments, options in calls:
            others = (each if callable(each) else lazily(each) for each in arguments)
            items = getattr(items, method)(*others, **options)
        return items
    return view(node_of(elements_of("stream()", value)))


def _check_input(what: str, value: Any) -> None:
    if isinstance(value, BaseOperator):
        raise TypeError(f"{what} is the task {value.task_id!r}: give its .output")
    if not _compat.is_resolvable(value):
        remedy = ": have a @task return it" if isinstance(value, Iterable) else ""
        raise TypeError(f"{what} must be a task's output or a pipeline, got {type(value).__name__}{remedy}")
    if isinstance(value, LivePipeline):
        raise TypeError(f"{what} is {value!r}: live() comes last, after all other steps")


def _argument_label(argument: Any) -> str:
    if isinstance(argument, Pipeline):
        return argument.serialize()
    if _compat.is_resolvable(argument):
        return ", ".join(f"output of {operator.task_id}" for operator, _ in argument.iter_references())
    return function_name(argument) if callable(argument) else repr(argument)
