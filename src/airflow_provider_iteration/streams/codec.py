# SPDX-License-Identifier: Apache-2.0
"""
A lossless encoding of a row's items.

Rows are kept as plain JSON wherever that loses nothing, so that people can read them; everything else
becomes one ASCII text. What plain JSON loses on the way into a database and back: NUL and lone
surrogates (PostgreSQL refuses them), NaN and infinities, integers beyond 64 bits, floats that
PostgreSQL's ``numeric`` turns into integers, negative zero, bytes, tuples, and keys that Airflow's
serialisation reserves. ``JSONB`` also forgets the order of keys: the few orders that occur in a row
(the *shapes* of its objects) are kept beside the items, and restored when they are read.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import msgspec

MAX_SHAPES = 64
MAX_DEPTH = 200
_BYTES = "$bytes"
_TUPLE = "$tuple"
_FOREIGN = "$airflow"


class EncodedItems(msgspec.Struct, frozen=True):
    """
    :param enc: ``"json"`` or ``"text"``.
    :param items: a list of JSON values, or one text.
    :param shapes: orders of keys to restore, each a list of keys; only with ``"json"``.
    """

    enc: str
    items: Any
    shapes: list[list[str]] = []


class _NotPlain(Exception):
    """Plain JSON would lose something."""


Foreign: TypeAlias = Callable[[Any], Any]
"""Turns a value of a type that is unknown here into JSON, or back. Raises TypeError if it cannot."""


def encode_items(items: Sequence[Any], foreign: Foreign | None = None, first: int = 0) -> EncodedItems:
    """
    Encode the items of one row.

    :param items: JSON values, ``bytes`` and tuples, nested in any way.
    :param foreign: makes JSON of values of other types.
    :param first: index of the first item in the stream, for the error.
    :raises TypeError: for a value of another type; the message names its place.
    """
    try:
        shapes = _plain_shapes(items)
    except _NotPlain:
        tagged = [_tag(item, f"[{index}]", foreign) for index, item in enumerate(items, first)]
        return EncodedItems("text", _ascii(tagged))
    return EncodedItems("json", list(items), shapes)


def decode_items(encoded: EncodedItems, foreign: Foreign | None = None) -> list[Any]:
    """
    Give back what was passed to :func:`encode_items`.

    :param foreign: makes values of other types of their JSON.
    :raises ValueError: for an encoding that this version does not know.
    """
    if encoded.enc == "text":
        items: list[Any] = _untag(json.loads(encoded.items), foreign)
        return items
    if encoded.enc != "json":
        raise ValueError(f"unknown encoding {encoded.enc!r}: written by a newer version of this package?")
    if not encoded.shapes:
        return list(encoded.items)
    orders = {frozenset(shape): shape for shape in encoded.shapes}
    return [_reordered(item, orders) for item in encoded.items]


def dump_text(value: Any, foreign: Foreign | None = None) -> str:
    """Encode one value as ASCII text that survives every database."""
    return _ascii(_tag(value, "", foreign))


def _ascii(tagged: Any) -> str:
    return json.dumps(tagged, ensure_ascii=True, separators=(",", ":"))


def load_text(text: str, foreign: Foreign | None = None) -> Any:
    """Give back what was passed to :func:`dump_text`."""
    return _untag(json.loads(text), foreign)


def estimate_size(value: Any) -> int:
    """Return about how many bytes a value takes as JSON."""
    try:
        return len(msgspec.json.encode(value, enc_hook=repr))
    except (ValueError, TypeError, OverflowError, RecursionError):
        return len(repr(value))


# The walk over plain values: one pass that both proves that nothing is lost and collects the shapes.


def _plain_shapes(items: Sequence[Any]) -> list[list[str]]:
    seen: dict[tuple[str, ...], None] = {}
    for item in items:
        _walk(item, seen, 0)
    shapes = [shape for shape in seen if shape != _jsonb_order(shape)]
    if len({frozenset(shape) for shape in seen}) != len(seen) or len(shapes) > MAX_SHAPES:
        raise _NotPlain
    return [list(shape) for shape in shapes]


def _walk(value: Any, seen: dict[tuple[str, ...], None], depth: int) -> None:
    kind = type(value)
    check = _SCALARS.get(kind)
    if check is not None:
        check(value)
    elif depth > MAX_DEPTH:
        raise _NotPlain
    elif kind is dict:
        shape = tuple(value)
        if shape not in seen:
            _check_keys(shape)
            seen[shape] = None
        for member in value.values():
            _walk(member, seen, depth + 1)
    elif kind is list:
        for member in value:
            _walk(member, seen, depth + 1)
    else:
        raise _NotPlain


def _jsonb_order(keys: Sequence[str]) -> tuple[str, ...]:
    """PostgreSQL's JSONB keeps keys by their length in bytes, then bytewise."""
    return tuple(sorted(keys, key=lambda key: (len(key.encode()), key.encode())))


def _check_keys(keys: Sequence[Any]) -> None:
    for key in keys:
        if type(key) is not str or key.startswith("__"):
            raise _NotPlain
        _check_str(key)


def _check_str(value: str) -> None:
    if "\0" in value or not (value.isascii() or _is_utf8(value)):
        raise _NotPlain


def _is_utf8(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _check_int(value: int) -> None:
    if not -(2**63) <= value < 2**63:
        raise _NotPlain


def _check_float(value: float) -> None:
    if not 1e-6 <= abs(value) < 1e15 and (value != 0.0 or math.copysign(1.0, value) < 0):
        raise _NotPlain


_SCALARS: dict[type, Callable[[Any], None]] = {
    str: _check_str,
    int: _check_int,
    float: _check_float,
    bool: lambda value: None,
    type(None): lambda value: None,
}


def _reordered(value: Any, orders: dict[frozenset[str], list[str]]) -> Any:
    if type(value) is dict:
        shape = orders.get(frozenset(value), value)
        return {key: _reordered(value[key], orders) for key in shape}
    if type(value) is list:
        return [_reordered(member, orders) for member in value]
    return value


# The text form: JSON in ASCII, with the few other types tagged. An object of one key that begins with
# ``$`` gets one more ``$``, so that data which looks like a tag stays data.


def _tag(value: Any, place: str, foreign: Foreign | None) -> Any:
    kind = type(value)
    if kind in _SCALARS:
        return value
    if kind is bytes:
        return {_BYTES: base64.b64encode(value).decode("ascii")}
    if kind is tuple:
        return {_TUPLE: [_tag(member, f"{place}[{index}]", foreign) for index, member in enumerate(value)]}
    if kind is list:
        return [_tag(member, f"{place}[{index}]", foreign) for index, member in enumerate(value)]
    if kind is dict:
        return _tag_dict(value, place, foreign)
    if foreign is not None:
        return {_FOREIGN: _from_foreign(value, place, foreign)}
    raise TypeError(
        f"item{place} is of type {kind.__module__}.{kind.__qualname__}, which a stream cannot keep: "
        "use JSON values, bytes and tuples"
    )


def _from_foreign(value: Any, place: str, foreign: Foreign) -> Any:
    try:
        return foreign(value)
    except (TypeError, AttributeError, RecursionError) as error:
        kind = type(value)
        raise TypeError(
            f"item{place} is of type {kind.__module__}.{kind.__qualname__}, which cannot be stored: {error}"
        ) from error


def _tag_dict(value: dict[Any, Any], place: str, foreign: Foreign | None) -> dict[str, Any]:
    for key in value:
        if type(key) is not str:
            raise TypeError(f"item{place} has a key of type {type(key).__qualname__}: keys must be str")
    tagged = {key: _tag(member, f"{place}[{key!r}]", foreign) for key, member in value.items()}
    if len(tagged) == 1 and next(iter(tagged)).startswith("$"):
        return {"$" + key: member for key, member in tagged.items()}
    return tagged


def _untag(value: Any, foreign: Foreign | None) -> Any:
    if type(value) is list:
        return [_untag(member, foreign) for member in value]
    if type(value) is not dict:
        return value
    if len(value) == 1:
        ((key, member),) = value.items()
        if key == _BYTES:
            return base64.b64decode(member)
        if key == _TUPLE:
            return tuple(_untag(entry, foreign) for entry in member)
        if key == _FOREIGN:
            return member if foreign is None else foreign(member)
        if key.startswith("$"):
            return {key[1:]: _untag(member, foreign)}
    return {key: _untag(member, foreign) for key, member in value.items()}
