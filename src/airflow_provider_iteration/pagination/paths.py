# SPDX-License-Identifier: Apache-2.0
"""All access by JMESPath to the body of a page. Messages name keys and types, never values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import jmespath
from jmespath.exceptions import JMESPathError
from jmespath.functions import Functions

from airflow_provider_iteration.exceptions import PathError

Steps: TypeAlias = list[str | int]

MAX_KEYS_SHOWN = 20
MAX_KEY_LENGTH = 40

_PARTIAL_NODES = frozenset(
    {"pipe", "projection", "filter_projection", "value_projection", "flatten", "slice"}
)
_JSON_TYPES: tuple[tuple[type | tuple[type, ...], str], ...] = (
    (bool, "a boolean"),
    ((int, float), "a number"),
    (str, "a string"),
    (Mapping, "an object"),
    (list, "a list"),
)


def compile_path(argument_name: str, expression: str) -> Any:
    """
    Check an expression where it is written down, long before the first page arrives.

    :param argument_name: the argument to name in an error.
    :param expression: JMESPath, such as ``meta.next`` or ``"@odata.nextLink"`` (with its double quotes).
    :return: the compiled expression.
    :raises TypeError: if the expression is no string.
    :raises ValueError: if it is no JMESPath, or calls a function that JMESPath does not have.
    """
    if not isinstance(expression, str):
        raise TypeError(
            f"{argument_name}: expected a JMESPath expression (str), got {type(expression).__name__}"
        )
    try:
        compiled = jmespath.compile(expression)
    except JMESPathError:
        raise ValueError(
            f"{argument_name}: {expression!r} is not a valid JMESPath expression; a key with characters "
            """other than letters, digits and _ goes in double quotes, as in '"@odata.nextLink"'"""
        ) from None
    for name in _functions(compiled.parsed):
        if name not in Functions.FUNCTION_TABLE:
            raise ValueError(f"{argument_name}: {expression!r} calls {name}(), which JMESPath does not have")
    return compiled


def find(path: str, body: Any) -> Any:
    """
    Give what is at a path.

    :param path: a JMESPath expression that :func:`compile_path` accepted.
    :param body: decoded JSON.
    :return: the value, or None where there is none.
    :raises PathError: if a function in the path does not take what it met in this body.
    """
    try:
        return jmespath.compile(path).search(body)
    except (ValueError, TypeError, AttributeError):
        # The library's own message quotes the value.
        raise PathError(f"path {path!r} calls a function on something that it does not accept") from None


def items_at(path: str, body: Any, page_number: int) -> list[Any]:
    """
    Give the items of a page.

    :param path: the ``items_path``, a JMESPath expression; ``@`` is the body itself.
    :param body: decoded JSON.
    :param page_number: the page's number, from 1, for the error.
    :return: the list at the path.
    :raises PathError: if nothing is there, or something other than a list.
    """
    found = find(path, body)
    if isinstance(found, list):
        return found
    where = f"page {page_number}: items_path {path!r}"
    if found is not None:
        raise PathError(f"{where} leads to {json_type(found)}, not to a list")
    raise PathError(
        f"{where} matches nothing; {whereabouts(path, body)}. "
        f"If the API leaves the list out or writes null for an empty one, use {path + ' || `[]`'!r}"
    )


def parent_is_missing(path: str, body: Any) -> bool:
    """
    Tell whether a body has no place at all for what the path names.

    ``meta.next`` has a place in ``{"meta": {}}`` and in ``{"meta": null}``, and none in ``{"data": []}``
    or ``{"meta": []}``. Of a path that is more than keys and indexes, only its plain beginning counts.

    :param path: a JMESPath expression.
    :param body: decoded JSON.
    """
    steps, plain = _leading_steps(jmespath.compile(path).parsed)
    depth, level = _deepest(steps, body)
    if depth == len(steps) or level is None:
        return False
    is_last = plain and depth == len(steps) - 1
    return not (is_last and isinstance(level, Mapping if isinstance(steps[depth], str) else list))


def last_is_missing(path: str, body: Any) -> bool:
    """
    Tell whether a body lacks what a plain path names, as opposed to having null there.

    :param path: a JMESPath expression; one that is more than keys and indexes is never found missing.
    :param body: decoded JSON.
    """
    steps, plain = _leading_steps(jmespath.compile(path).parsed)
    depth, level = _deepest(steps, body)
    return plain and depth < len(steps) and level is not None


def whereabouts(path: str, body: Any) -> str:
    """
    Say what there is at the deepest level of a path that exists: keys or a type, no values.

    :param path: a JMESPath expression.
    :param body: decoded JSON.
    """
    steps, _ = _leading_steps(jmespath.compile(path).parsed)
    depth, level = _deepest(steps, body)
    name = repr(".".join(map(str, steps[:depth]))) if depth else "the body"
    return f"{name} {_shape(level)}"


def json_type(value: Any) -> str:
    """
    Name the JSON type of a value, with its article.

    :param value: anything that a JSON decoder returns.
    """
    if value is None:
        return "null"
    return next((name for kinds, name in _JSON_TYPES if isinstance(value, kinds)), type(value).__name__)


def _shape(level: Any) -> str:
    if isinstance(level, Mapping):
        return f"has the keys {_keys(list(level))}" if level else "is an empty object"
    if isinstance(level, list):
        return f"is a list of {len(level)}"
    return f"is {json_type(level)}"


def _keys(keys: Sequence[Any]) -> str:
    shown = ", ".join(repr(str(key)[:MAX_KEY_LENGTH]) for key in keys[:MAX_KEYS_SHOWN])
    more = len(keys) - MAX_KEYS_SHOWN
    return f"{shown} and {more} more" if more > 0 else shown


def _leading_steps(node: Mapping[str, Any]) -> tuple[Steps, bool]:
    """Return the keys and indexes that an expression begins with, and whether they are all of it."""
    kind, children = node["type"], node["children"]
    if kind in ("field", "index"):
        return [node["value"]], True
    if kind in ("subexpression", "index_expression"):
        return _joined_steps(children)
    if kind in _PARTIAL_NODES and children:
        return _leading_steps(children[0])[0], False
    return [], False


def _joined_steps(nodes: Sequence[Mapping[str, Any]]) -> tuple[Steps, bool]:
    steps: Steps = []
    for node in nodes:
        more, plain = _leading_steps(node)
        steps += more
        if not plain:
            return steps, False
    return steps, True


def _deepest(steps: Steps, body: Any) -> tuple[int, Any]:
    """Follow the steps as far as they exist; return how many those were, and what is there."""
    for depth, step in enumerate(steps):
        if not _has(body, step):
            return depth, body
        body = body[step]
    return len(steps), body


def _has(level: Any, step: str | int) -> bool:
    if isinstance(step, str):
        return isinstance(level, Mapping) and step in level
    return isinstance(level, list) and -len(level) <= step < len(level)


def _functions(node: Any) -> Iterator[str]:
    if not isinstance(node, Mapping):
        return
    if node["type"] == "function_expression":
        yield node["value"]
    for child in node["children"]:
        yield from _functions(child)
