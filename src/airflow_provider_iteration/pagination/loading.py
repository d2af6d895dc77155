# SPDX-License-Identifier: Apache-2.0
"""Specs from plain dicts, and back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Literal, get_args, get_origin

import msgspec

from airflow_provider_iteration.pagination.specs import PAGINATORS, AnyPaginator, Paginator
from airflow_provider_iteration.pagination.stops import STOPS


def load_paginator(value: Paginator | Mapping[str, Any]) -> Paginator:
    """
    Make a spec of what a user gave.

    :param value: a spec, which is returned as it is, or its dict: ``{"type": "next_link", "path": "next"}``.
    :raises TypeError: if it is neither, or a class of the user's own, which could not travel.
    :raises ValueError: if the type is unknown, or a field is unknown, missing or wrong.
    """
    if isinstance(value, PAGINATORS):
        return value
    if not isinstance(value, Mapping):
        raise TypeError(_not_a_paginator(value))
    _check("paginator", value, PAGINATORS)
    _check_stop("paginator.stop", value.get("stop"))
    try:
        loaded: Paginator = msgspec.convert(dict(value), AnyPaginator)
    except msgspec.ValidationError as error:
        raise ValueError(f"paginator {value['type']!r}: {error}") from None
    return loaded


def dump_paginator(paginator: Paginator) -> dict[str, Any]:
    """
    Make the plain dict of a spec: JSON at every depth, without fields that have their default.

    :param paginator: a spec.
    :return: what :func:`load_paginator` makes an equal spec of.
    :raises TypeError: if it is none of this package's specs.
    """
    if not isinstance(paginator, PAGINATORS):
        raise TypeError(_not_a_paginator(paginator))
    dumped: dict[str, Any] = msgspec.to_builtins(paginator)
    return msgspec.json.decode(msgspec.json.encode(dumped), type=dict[str, Any])


def _not_a_paginator(value: Any) -> str:
    names = ", ".join(kind.__name__ for kind in PAGINATORS)
    return f"paginator: expected one of {names}, or its dict, got {type(value).__name__}"


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
