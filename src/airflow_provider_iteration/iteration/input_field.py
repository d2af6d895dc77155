# SPDX-License-Identifier: Apache-2.0
"""The input of an iteration as one template field: upstream edges when parsed, values when run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from typing import Any, NamedTuple

from airflow_provider_iteration import _compat
from airflow_provider_iteration.iteration.inputs import (
    checked_kwargs,
    combinations,
    elements_of,
    known_total,
)
from airflow_provider_iteration.streams.lazy import LazyIterable
from airflow_provider_iteration.xcom.live import LiveItems
from airflow_provider_iteration.xcom.pipeline import LivePipeline, Pipeline, lazily


class IterateInput(_compat.ResolveMixin):
    """
    What a task iterates over, as written in the Dag.

    :param value: argument → input, whose cross product is iterated over; or, for ``iterate_kwargs``, the
        input whose items are mappings of arguments.
    """

    def __init__(self, value: Any, *, whole: bool = False) -> None:
        self.value = value
        self.whole = whole

    def iter_references(self) -> Iterable[tuple[Any, str]]:
        return references_in(self.value)

    def resolve(self, context: Mapping[str, Any]) -> ResolvedInput:
        if self.whole:
            return ResolvedInput(with_data(self.value, context), whole=True)
        values = {name: with_data(part, context) for name, part in self.value.items()}
        return ResolvedInput(values, whole=False)

    def live(self) -> LivePipeline | None:
        """
        Return the input that is read while it is written, if there is one.

        :raises TypeError: if there are several, or if one is not a whole input.
        """
        inputs = {"iterate_kwargs()": self.value} if self.whole else self.value
        found = [value for value in inputs.values() if isinstance(value, LivePipeline)]
        for name, value in inputs.items():
            if not isinstance(value, LivePipeline) and next(live_in(value), None) is not None:
                raise TypeError(
                    f"{name}: a live input is given as it is, not within a {type(value).__name__}"
                )
        if len(found) > 1:
            raise TypeError(
                "iterate(): one input can be live, and the other ones are held: leave live() out there"
            )
        if found and not self.whole and next(iter(inputs.values())) is not found[0]:
            raise TypeError("iterate(): the live input comes first, because all others are read before it")
        return found[0] if found else None

    def serialize(self) -> Any:
        """Return a summary, short whatever the input: this is what the stored Dag and the UI show."""
        return _summary(self.value) if self.whole else {k: _summary(v) for k, v in self.value.items()}


class Data(NamedTuple):
    """
    A value that comes from another task, and so is never rendered: data must not run as a template.

    :param value: the value.
    """

    value: Any


class ResolvedInput:
    """
    The same with values in place of other tasks' outputs. Rendering it, for the UI, reads no item.

    :param values: as in :class:`IterateInput`.
    :param whole: whether the items are mappings of arguments.
    """

    def __init__(self, values: Any, *, whole: bool) -> None:
        self._values = values
        self._whole = whole

    def items(self) -> Iterator[dict[str, Any]]:
        """Yield the arguments of each item; what comes from other tasks as :class:`Data`."""
        if self._whole:
            return map(_data_arguments, checked_kwargs(_elements("iterate_kwargs", self._values, whole=True)))
        return combinations({name: _elements(name, value) for name, value in self._values.items()})

    def live(self) -> LiveItems | None:
        """Return the input that is read while it is written, if there is one."""
        values = [self._values] if self._whole else self._values.values()
        found = (value.value for value in values if isinstance(value, Data))
        return next((value for value in found if isinstance(value, LiveItems)), None)

    def total(self) -> int | None:
        """Return the number of items, if it is known without reading any."""
        wrapped = [self._values] if self._whole else list(self._values.values())
        values = [value.value if isinstance(value, Data) else value for value in wrapped]
        return known_total(values) if all(_has_cheap_length(value) for value in values) else None

    def serialize(self) -> Any:
        """Return a summary, as :meth:`IterateInput.serialize` does."""
        return IterateInput(self._values, whole=self._whole).serialize()


class _Arguments(dict[str, Any]):
    """Arguments of an item that come from another task as a whole."""


def references_in(value: Any) -> Iterator[tuple[Any, str]]:
    """
    Yield the tasks whose outputs are anywhere in a value.

    :param value: what was written in the Dag.
    """
    if _compat.is_resolvable(value):
        yield from value.iter_references()
    elif isinstance(value, Mapping):
        for member in value.values():
            yield from references_in(member)
    elif isinstance(value, (list, tuple, set)):
        for member in value:
            yield from references_in(member)


def live_in(value: Any) -> Iterator[LivePipeline]:
    """
    Yield the live pipelines that are anywhere in a value.

    :param value: what was written in the Dag.
    """
    if isinstance(value, LivePipeline):
        yield value
    elif isinstance(value, Mapping):
        for member in value.values():
            yield from live_in(member)
    elif isinstance(value, (list, tuple, set)):
        for member in value:
            yield from live_in(member)


def with_data(value: Any, context: Mapping[str, Any]) -> Any:
    """
    Put values in place of other tasks' outputs, wrapped as :class:`Data`.

    :param value: what was written in the Dag.
    :param context: context of the task.
    """
    if _compat.is_resolvable(value):
        return Data(value.resolve(context))
    if next(references_in(value), None) is None:
        return value
    if isinstance(value, Mapping):
        return {key: with_data(member, context) for key, member in value.items()}
    return type(value)(with_data(member, context) for member in value)


def rendered(value: Any, render: Callable[[str], Any]) -> Any:
    """
    Render the texts in what was written in the Dag, and unwrap data.

    :param value: an argument of an item.
    :param render: renders one text.
    """
    if isinstance(value, Data):
        return value.value
    if isinstance(value, str):
        return render(value)
    if type(value) in (list, tuple, set):
        return type(value)(rendered(member, render) for member in value)
    if type(value) is dict:
        return {key: rendered(member, render) for key, member in value.items()}
    return value


def _elements(name: str, value: Any, *, whole: bool = False) -> Iterable[Any]:
    if not isinstance(value, Data):
        if whole:
            return (_unwrapped(each) for each in value)
        return elements_of(name, value)
    elements = elements_of(name, _in_slices(value.value))
    if whole:
        return (_Arguments(each) if isinstance(each, Mapping) else each for each in elements)
    return map(Data, elements)


def _unwrapped(arguments: Any) -> Any:
    if isinstance(arguments, Data):
        value = arguments.value
        return _Arguments(value) if isinstance(value, Mapping) else value
    return arguments


def _data_arguments(arguments: dict[str, Any]) -> dict[str, Any]:
    if isinstance(arguments, _Arguments):
        return {name: Data(value) for name, value in arguments.items()}
    return arguments


def _in_slices(value: Any) -> Any:
    """Read a mapped task's outputs in slices: one request for each item would take hours."""
    derived = _compat.is_mapped_output(value) or _compat.derived_output(value) is not None
    return lazily(value) if derived else value


def _has_cheap_length(value: Any) -> bool:
    return isinstance(value, (int, float, Sized))


def _summary(value: Any) -> str:
    if isinstance(value, Data):
        return _summary(value.value)
    if isinstance(value, Pipeline):
        return value.serialize()
    if isinstance(value, LazyIterable):
        return repr(value)
    if _compat.is_resolvable(value):
        return ", ".join(f"output of {operator.task_id}" for operator, _ in value.iter_references())
    if isinstance(value, Sized) and not isinstance(value, (str, bytes)):
        if _compat.is_mapped_output(value):
            return "outputs of a mapped task"
        return f"{len(value)} items"
    return f"one {type(value).__name__}"
