# SPDX-License-Identifier: Apache-2.0
"""Specs from plain dicts, and back."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from importlib import import_module
from typing import Any, Literal, get_args, get_origin

import msgspec

from airflow_provider_iteration.pagination.base import Paginator
from airflow_provider_iteration.pagination.specs import PAGINATORS, AnyPaginator
from airflow_provider_iteration.pagination.stops import STOPS

# Airflow gives the modules of Dag files such names.
_DAG_FILE_PREFIX = "unusual_prefix_"


def load_paginator(value: Paginator | Mapping[str, Any]) -> Paginator:
    """
    Make a spec of what a user gave.

    :param value: a spec, which is returned as it is, or its dict: ``{"type": "next_link", "path": "next"}``.
        The type of a class of the user's own is its import path.
    :raises TypeError: if it is neither, or a class that the triggerer could not import.
    :raises ValueError: if the type is unknown, or a field is unknown, missing or wrong.
    """
    if isinstance(value, Paginator):
        _import_path(type(value))
        return value
    if not isinstance(value, Mapping):
        raise TypeError(_not_a_paginator(value))
    kind = _own_class(value.get("type"))
    if kind is None:
        _check("paginator", value, PAGINATORS)
    else:
        _check_fields(f"paginator {value['type']!r}", value, msgspec.structs.fields(kind))
    _check_stop("paginator.stop", value.get("stop"))
    given = dict(value) if kind is None else {**value, "type": kind.__struct_config__.tag}
    try:
        loaded: Paginator = msgspec.convert(given, AnyPaginator if kind is None else kind)
    except msgspec.ValidationError as error:
        raise ValueError(f"paginator {value['type']!r}: {error}") from None
    return loaded


def dump_paginator(paginator: Paginator) -> dict[str, Any]:
    """
    Make the plain dict of a spec: JSON at every depth, without fields that have their default.

    :param paginator: a spec.
    :return: what :func:`load_paginator` makes an equal spec of.
    :raises TypeError: if it is none, cannot be imported, or has a field that is not JSON.
    """
    if not isinstance(paginator, Paginator):
        raise TypeError(_not_a_paginator(paginator))
    path = _import_path(type(paginator))
    try:
        dumped: dict[str, Any] = json.loads(json.dumps(msgspec.to_builtins(paginator), allow_nan=False))
    except (TypeError, ValueError) as error:
        raise TypeError(f"paginator {type(paginator).__name__}: a field is not plain JSON: {error}") from None
    if path is None:
        return dumped
    travelled = {**dumped, "type": path}
    if load_paginator(travelled) != paginator:
        raise TypeError(
            f"paginator {type(paginator).__name__}: a field does not come back equal from JSON; give it a "
            "type that JSON has, or annotate it with the one that it should come back as"
        )
    return travelled


def _import_path(kind: type[Paginator]) -> str | None:
    """Return the import path of a user's own class; None for one of this package."""
    if kind in PAGINATORS:
        return None
    if not is_importable(kind):
        raise TypeError(
            f"paginator: {kind.__name__} cannot be imported in a triggerer, because it is defined in a "
            "function or a Dag file: put it into an installed package or the plugins folder"
        )
    if getattr(sys.modules.get(kind.__module__), kind.__qualname__, None) is not kind:
        raise TypeError(
            f"paginator: {kind.__name__} is not what {kind.__module__}.{kind.__qualname__} leads to: define "
            "it at the top level of its module"
        )
    return f"{kind.__module__}.{kind.__qualname__}"


def is_importable(kind: type) -> bool:
    """
    Tell whether a class can be imported in another process.

    :param kind: a class; one of a Dag file, of ``__main__`` or in a function cannot.
    """
    module = kind.__module__
    return not (
        "<locals>" in kind.__qualname__ or module == "__main__" or module.startswith(_DAG_FILE_PREFIX)
    )


def _own_class(path: Any) -> type[Paginator] | None:
    if not isinstance(path, str) or "." not in path:
        return None
    module, _, name = path.rpartition(".")
    try:
        kind = getattr(import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ValueError(f"paginator: type {path!r} cannot be imported: {error}") from None
    if not (isinstance(kind, type) and issubclass(kind, Paginator)):
        raise ValueError(f"paginator: type {path!r} is no subclass of Paginator")
    _import_path(kind)
    return kind


def _not_a_paginator(value: Any) -> str:
    names = ", ".join(kind.__name__ for kind in PAGINATORS)
    return f"paginator: expected one of {names}, a subclass, or its dict, got {type(value).__name__}"


def _check(what: str, value: Mapping[str, Any], kinds: Iterable[type[msgspec.Struct]]) -> None:
    by_tag = {str(kind.__struct_config__.tag): kind for kind in kinds}
    tag = value.get("type")
    if tag is None:
        raise ValueError(f"{what}: 'type' is missing; {_known('type', by_tag)}")
    if not isinstance(tag, str) or tag not in by_tag:
        raise ValueError(f"{what}: unknown type {tag!r}{_guess(tag, by_tag)}; {_known('type', by_tag)}")
    _check_fields(f"{what} {tag!r}", value, msgspec.structs.fields(by_tag[tag]))


def _check_fields(what: str, value: Mapping[str, Any], fields: Sequence[msgspec.structs.FieldInfo]) -> None:
    known = [field.name for field in fields]
    for name in value:
        if name != "type" and name not in known:
            guess = _guess(name, known)
            raise ValueError(f"{what}: unknown field {name!r}{guess}; {_known('field', known)}")
    for field in fields:
        if field.required and field.name not in value:
            raise ValueError(f"{what}: field {field.name!r} is missing")
        _check_choice(what, field, value)


def _check_choice(what: str, field: msgspec.structs.FieldInfo, value: Mapping[str, Any]) -> None:
    choices = get_args(field.type) if get_origin(field.type) is Literal else ()
    given = value.get(field.name, field.default)
    if choices and given not in choices:
        raise ValueError(
            f"{what}: {field.name} is {given!r}{_guess(given, choices)}; {_known('choice', choices)}"
        )


def _check_stop(what: str, value: Any) -> None:
    if not isinstance(value, Mapping):
        return
    _check(what, value, STOPS)
    conditions = value.get("conditions")
    for index, condition in enumerate(conditions if isinstance(conditions, (list, tuple)) else ()):
        _check_stop(f"{what}.conditions[{index}]", condition)


def _known(noun: str, names: Iterable[str]) -> str:
    return f"the {noun}s are {', '.join(sorted(names))}"


def _guess(name: Any, names: Iterable[str]) -> str:
    close = get_close_matches(str(name), list(names), n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""
