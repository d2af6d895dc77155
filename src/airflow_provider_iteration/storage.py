# SPDX-License-Identifier: Apache-2.0
"""
Where files of a task instance lie in object storage: ``<dag>/<run>/<task>/<map index>/…``.

Each run has a folder of its own, for a lifecycle rule of the storage. The names can be turned back into the
task instance, which is how ``airflow iteration gc`` knows whose file it sees.
"""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import quote, unquote

from airflow_provider_iteration.streams.xcom_store import XComPlace

DEPTH = 4
"""How many folders there are above a task instance's files."""


def folder_names(place: XComPlace) -> tuple[str, ...]:
    """Return the names of the folders, outermost first, that hold the files of a task instance."""
    return (*map(_escape, (place.dag_id, place.run_id, place.task_id)), str(place.map_index))


def place_of(names: Sequence[str]) -> XComPlace:
    """
    Give back what was passed to :func:`folder_names`.

    :raises ValueError: if these are no names of it.
    """
    dag_id, run_id, task_id, map_index = names[:DEPTH]
    return XComPlace(unquote(dag_id), unquote(task_id), unquote(run_id), int(map_index))


def _escape(part: str) -> str:
    escaped = quote(part, safe=":+=")
    return f"%2E{escaped[1:]}" if escaped.startswith(".") else escaped
