# SPDX-License-Identifier: Apache-2.0
"""The input of an iteration as one template field: upstream edges when parsed, values when run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from typing import Any

from airflow_provider_iteration import _compat
from airflow_provider_iteration.iteration.inputs import (
    checked_kwargs,
    combinations,
    elements_of,
    known_total,
)

SLICE = 256


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
        for part in self._parts():
            if _compat.is_resolvable(part):
                yield from part.iter_references()

    def resolve(self, context: Mapping[str, Any]) -> ResolvedInput:
        if self.whole:
            return ResolvedInput(_resolved(self.value, context), whole=True, literal=_literal(self.value))
        values = {name: _resolved(part, context) for name, part in self.value.items()}
        literal = frozenset(name for name, part in self.value.items() if _literal(part))
        return ResolvedInput(values, whole=False, literal=literal)

    def names(self) -> list[str] | None:
        """Return the arguments that each item has, as far as that is known without the values."""
        return None if self.whole else list(self.value)

    def serialize(self) -> Any:
        """Return a summary, short whatever the input: this is what the stored Dag and the UI show."""
        return _summary(self.value) if self.whole else {k: _summary(v) for k, v in self.value.items()}

    def _parts(self) -> Iterator[Any]:
        values = [self.value] if self.whole else list(self.value.values())
        for value in values:
            yield value
            if isinstance(value, (list, tuple)):
                yield from value


class ResolvedInput:
    """
    The same with values in place of other tasks' outputs. Rendering it, for the UI, reads no item.

    :param values: as in :class:`IterateInput`.
    :param whole: whether the items are mappings of arguments.
    :param literal: which values were written in the Dag, so that they may be templates.
    """

    def __init__(self, values: Any, *, whole: bool, literal: frozenset[str] | bool) -> None:
        self._values = values
        self._whole = whole
        self._literal = literal

    @property
    def data(self) -> frozenset[str] | bool:
        """Which arguments come from other tasks; True for all of them."""
        if self._whole:
            return not self._literal
        literal = self._literal if isinstance(self._literal, frozenset) else frozenset()
        return frozenset(self._values) - literal

    def items(self, render: Callable[[Any], Any] = lambda value: value) -> Iterator[dict[str, Any]]:
        """
        Yield the arguments of each item.

        :param render: renders what was written in the Dag; values of other tasks are not rendered, so that
            data never runs as a template.
        """
        if self._whole:
            elements = checked_kwargs(elements_of("iterate_kwargs", _in_slices(self._values)))
            return (render(each) if self._literal else each for each in elements)
        return self._rendered(combinations({k: _in_slices(v) for k, v in self._values.items()}), render)

    def total(self) -> int | None:
        """Return the number of items, if it is known without reading any."""
        values = [self._values] if self._whole else list(self._values.values())
        return known_total(values) if all(_has_cheap_length(value) for value in values) else None

    def serialize(self) -> Any:
        """Return a summary, as :meth:`IterateInput.serialize` does."""
        return IterateInput(self._values, whole=self._whole).serialize()

    def _rendered(
        self, items: Iterator[dict[str, Any]], render: Callable[[Any], Any]
    ) -> Iterator[dict[str, Any]]:
        literal = self._literal if isinstance(self._literal, frozenset) else frozenset()
        for arguments in items:
            yield {k: render(v) if k in literal and _may_be_template(v) else v for k, v in arguments.items()}


def _resolved(value: Any, context: Mapping[str, Any]) -> Any:
    if _compat.is_resolvable(value):
        return value.resolve(context)
    if isinstance(value, (list, tuple)) and any(map(_compat.is_resolvable, value)):
        return [_resolved(member, context) for member in value]
    return value


def _literal(value: Any) -> bool:
    return not _compat.is_resolvable(value)


def _may_be_template(value: Any) -> bool:
    return "{" in value if isinstance(value, str) else isinstance(value, (list, tuple, dict, set))


def _in_slices(value: Any) -> Any:
    """Read a mapped task's outputs in slices: one request for each item would take hours."""
    return _sliced(value) if _compat.is_mapped_output(value) else value


def _sliced(sequence: Sequence[Any]) -> Iterator[Any]:
    start = 0
    while batch := list(sequence[start : start + SLICE]):
        yield from batch
        start += len(batch)


def _has_cheap_length(value: Any) -> bool:
    return isinstance(value, (int, float, Sized))


def _summary(value: Any) -> str:
    if _compat.is_resolvable(value):
        return ", ".join(f"output of {operator.task_id}" for operator, _ in value.iter_references())
    if isinstance(value, Sized) and not isinstance(value, (str, bytes)):
        if _compat.is_mapped_output(value):
            return "outputs of a mapped task"
        return f"{len(value)} items"
    return f"one {type(value).__name__}"
