# SPDX-License-Identifier: Apache-2.0
"""Which templates come out in the triggerer as they would on a worker; decided on their syntax tree."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import cache

import jinja2
from jinja2 import meta, nodes

from airflow_provider_iteration import _compat

TRIGGERER_NAMES = frozenset(
    {
        "conn",
        "dag_run",
        "data_interval_end",
        "data_interval_start",
        "ds",
        "ds_nodash",
        "logical_date",
        "params",
        "run_id",
        "ts",
        "ts_nodash",
        "ts_nodash_with_tz",
        "var",
    }
)
_INSTANCE_NAMES = frozenset({"ti", "task_instance"})
_INSTANCE_ATTRIBUTES = frozenset({"dag_id", "map_index", "run_id", "task_id", "try_number"})
_OTHER_FILES = (nodes.Include, nodes.Import, nodes.FromImport, nodes.Extends)


def template_obstacle(text: str, shadowed: Collection[str] = ()) -> str | None:
    """
    Say why a text cannot be rendered in the triggerer.

    :param text: a template, or plain text.
    :param shadowed: names to which the Dag gives a meaning of its own.
    :return: the reason, or None if there is none.
    """
    if not any(mark in text for mark in ("{{", "{%", "{#")):
        return None
    try:
        tree = _environment().parse(text)
    except jinja2.TemplateSyntaxError:
        # Rendering it on a worker gives the error that people know.
        return "is a template with a syntax error"
    return next(_obstacles(tree, shadowed), None)


def _obstacles(tree: nodes.Template, shadowed: Collection[str]) -> Iterator[str]:
    if next(tree.find_all(_OTHER_FILES), None) is not None:
        yield "includes another template"
    unknown = {node.name for node in tree.find_all(nodes.Filter)} - _compat.jinja_filter_names()
    if unknown:
        yield f"uses the filter {min(unknown)!r}, which the triggerer does not have"
    names = meta.find_undeclared_variables(tree) - set(_environment().globals)
    for name in sorted(names):
        if name in _INSTANCE_NAMES:
            yield from _instance_obstacles(tree, name)
        elif name not in TRIGGERER_NAMES or name in shadowed:
            yield f"uses {name!r}, which the triggerer does not have"


def _instance_obstacles(tree: nodes.Template, name: str) -> Iterator[str]:
    used = [
        node.attr
        for node in tree.find_all(nodes.Getattr)
        if isinstance(node.node, nodes.Name) and node.node.name == name
    ]
    mentions = sum(1 for node in tree.find_all(nodes.Name) if node.name == name)
    if mentions > len(used):
        yield f"uses {name!r} as a whole, which the triggerer has only in part"
    for attribute in used:
        if attribute not in _INSTANCE_ATTRIBUTES:
            yield f"uses '{name}.{attribute}', which gets no answer in the triggerer"


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(autoescape=False)
    environment.filters.update(dict.fromkeys(_compat.jinja_filter_names(), str))
    return environment
