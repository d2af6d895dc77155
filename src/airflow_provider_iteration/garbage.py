# SPDX-License-Identifier: Apache-2.0
"""
Finds files in object storage that nothing in the metadata database refers to any more.

Airflow tells nobody that it deletes a Dag run or a task instance, so what these had in object storage stays.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import sqlalchemy as sa

from airflow_provider_iteration.iteration.checkpoints import KEY
from airflow_provider_iteration.storage import DEPTH, place_of
from airflow_provider_iteration.streams.xcom_store import XComPlace
from airflow_provider_iteration.xcom import offloading

if TYPE_CHECKING:
    from airflow.sdk import ObjectStoragePath
    from sqlalchemy.orm import Session

_PLACE = ("dag_id", "run_id", "task_id", "map_index")
XCOM = sa.table("xcom", *map(sa.column, (*_PLACE, "value")))
STATES = sa.table("task_state_store", *map(sa.column, (*_PLACE, "key")))

IsKept = Callable[[str], bool]
"""Tells of a file, by its path below the storage path, whether it is still referred to."""


class FileKind(NamedTuple):
    """
    Files that this package keeps in object storage.

    :param option: the option in ``[iteration]`` that says where.
    :param depth: how many names the path of such a file has below that.
    :param suffix: how the last one ends.
    :param find_kept: returns the test for the files of one run (Dag id, run id).
    """

    option: str
    depth: int
    suffix: str
    find_kept: Callable[[Session, str, str], IsKept]

    def matches(self, name: str) -> bool:
        """Tell whether a path is one of these files: what others have put there is left alone."""
        parts = name.split("/")
        if len(parts) != self.depth or not name.endswith(self.suffix):
            return False
        with suppress(ValueError):
            return place_of(parts[:DEPTH]) is not None
        return False


class Orphan(NamedTuple):
    """
    A file that nothing refers to.

    :param path: where it is.
    :param bytes: its size.
    """

    path: ObjectStoragePath
    bytes: int


def find_orphans(
    session: Session, kind: FileKind, base: ObjectStoragePath, before: datetime
) -> Iterator[Orphan]:
    """
    Yield the files that are no longer referred to, one run after the other.

    :param session: of the metadata database.
    :param kind: which files.
    :param base: the storage path.
    :param before: younger files are kept, because what refers to a file is written after it.
    """
    for folder in _run_folders(base):
        # The listing before the query: what is written between the two is not in the listing.
        old = [found for found in _files(folder, base, kind) if found.modified < before]
        if not old:
            continue
        place = place_of([*old[0].name.split("/")[:DEPTH]])
        is_kept = kind.find_kept(session, place.dag_id, place.run_id)
        for found in old:
            if not is_kept(found.name):
                yield Orphan(base / found.name, found.bytes)


def remove(orphan: Orphan) -> None:
    """Remove a file."""
    with suppress(FileNotFoundError):
        orphan.path.unlink()


class _Found(NamedTuple):
    name: str
    bytes: int
    modified: datetime


def _run_folders(base: ObjectStoragePath) -> Iterator[ObjectStoragePath]:
    if not base.exists():
        return
    for dag_folder in base.iterdir():
        if dag_folder.is_dir():
            yield from (run_folder for run_folder in dag_folder.iterdir() if run_folder.is_dir())


def _files(folder: ObjectStoragePath, base: ObjectStoragePath, kind: FileKind) -> Iterator[_Found]:
    start = len(base.path.rstrip("/")) + 1
    for path, info in folder.fs.find(folder.path, detail=True).items():
        name = path[start:]
        if kind.matches(name):
            modified = folder.fs.modified(path)
            yield _Found(name, info["size"], modified if modified.tzinfo else modified.replace(tzinfo=UTC))


def _kept_xcoms(session: Session, dag_id: str, run_id: str) -> IsKept:
    text = sa.cast(XCOM.c.value, sa.Text)
    query = sa.select(text).where(
        XCOM.c.dag_id == dag_id, XCOM.c.run_id == run_id, text.contains(offloading.CLASS_NAME)
    )
    values = (offloading.OffloadedValue.find(json.loads(stored)) for stored in session.scalars(query))
    kept = {value.file for value in values if value is not None}
    return kept.__contains__


def _kept_checkpoints(session: Session, dag_id: str, run_id: str) -> IsKept:
    query = sa.select(STATES.c.task_id, STATES.c.map_index).where(
        STATES.c.dag_id == dag_id, STATES.c.run_id == run_id, STATES.c.key.startswith(KEY)
    )
    kept: set[Any] = {XComPlace(dag_id, row.task_id, run_id, row.map_index) for row in session.execute(query)}
    return lambda name: place_of(name.split("/")) in kept


KINDS = (
    FileKind("offload_path", DEPTH + 1, offloading.SUFFIX, _kept_xcoms),
    # One folder more: for the try.
    FileKind("checkpoint_path", DEPTH + 2, ".json", _kept_checkpoints),
)
