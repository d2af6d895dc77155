# SPDX-License-Identifier: Apache-2.0
"""Checkpoints of an iterated task: in its state store, and large results in files."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from airflow_provider_iteration import _compat
from airflow_provider_iteration.iteration.checkpoint_writer import CheckpointWriter
from airflow_provider_iteration.iteration.checkpoints import KEY, Checkpoint, Done, ResultFiles, pack, row_key
from airflow_provider_iteration.iteration.fingerprints import Fingerprinter
from airflow_provider_iteration.iteration.outcomes import Outcome, Status
from airflow_provider_iteration.storage import folder_names
from airflow_provider_iteration.streams.xcom_store import XComPlace

log = logging.getLogger(__name__)

CLOSE_SECONDS = 60.0


class Recalled(msgspec.Struct, frozen=True):
    """
    Stands for the result of an item that an earlier try has done, until its turn comes.

    :param index: place of the item in the input.
    :param has_extras: whether more than its result must be done again.
    """

    index: int
    has_extras: bool


class TaskCheckpoints:
    """
    Keeps what is done in the task state store, and knows what earlier tries have kept there.

    *What it is for*: a retry, a killed worker, and a clear of a task that has not ended repeat only what was
    not committed. A clear of a task that has succeeded does everything anew.

    *How*: each try writes rows of its own; a last row says which try has finished. That row counts for
    nothing while the task's ``max_tries`` and ``retries`` are the same, because then it was a retry and no
    clear: the process ended between that row and its success.

    *What it does not do*: it does not see that a function's code has changed. Rows stay after a success, for
    ``[state_store] default_retention_days``, unless ``[state_store] clear_on_success`` is set.

    :param context: context of the task.
    :param constants: what is the same for all items; with others, everything counts as changed.
    :param retries: those of the task, as the Dag has them now.
    :param every: number of items after which a row is due.
    :param seconds: time after which a row is due.
    :param keep_results: whether results are kept.
    """

    def __init__(
        self,
        context: Mapping[str, Any],
        constants: Any,
        *,
        retries: int,
        every: int,
        seconds: float,
        keep_results: bool,
    ) -> None:
        ti = context["ti"]
        self._store = context["task_state_store"]
        self._ti = ti
        self._try: int = getattr(ti, "try_number", 1)
        self._limits = _limits(ti, retries)
        self._files = _files(ti)
        self._fingerprint = Fingerprinter(_compat.to_serde)
        self._constants = self._fingerprint((constants, keep_results))
        # Index → fingerprint of items that were taken and have not ended.
        self._prints: dict[int, str] = {}
        self._earlier = Checkpoint(self._store, _compat.from_serde, self._files)
        self._keep_results = keep_results
        self._committed: Callable[[Sequence[Done]], None] = lambda items: None
        self._writer = CheckpointWriter(self._write, self._tell, every=every, seconds=seconds)
        self.recalled = 0
        self.changed = 0

    def tell(self, committed: Callable[[Sequence[Done]], None]) -> None:
        """
        Say what is to be called with the items of each row that was written, or given up.

        :param committed: called in the writer's thread.
        """
        self._committed = committed

    def load(self, *, goes_on: bool = False) -> None:
        """
        Find out what earlier tries have done. Blocks.

        :param goes_on: whether this try has been at it before, and was deferred in between.
        """
        newest = self._try if goes_on else self._try - 1
        if newest < 1:
            return
        try:
            self._earlier.load(range(newest, self._finished_try(), -1))
            self._writer.rows = self._earlier.rows_of(self._try)
        except Exception:
            log.warning("the checkpoint cannot be read: all items are done anew", exc_info=True)
            self._earlier = Checkpoint(self._store, _compat.from_serde, self._files)
        if self.knows:
            log.info("%d items were done before", len(self._earlier))

    def noted(self, items: Iterable[Any]) -> Iterator[Any]:
        """Pass items on, and keep the fingerprint of each until it ends."""
        for index, value in enumerate(items):
            self._prints[index] = self._fingerprint((self._constants, value))
            yield value

    def recall(self, index: int) -> Outcome | None:
        """
        Return the outcome of an item that needs not be worked on, with :class:`Recalled` as its result.

        :param index: place of the item in the input.
        """
        if (known := self._earlier.find(index)) is None:
            return None
        if known.fingerprint != self._prints[index]:
            self.changed += 1
            return None
        del self._prints[index]
        self.recalled += 1
        status: Status = "skipped" if known.is_skipped else "success"
        return Outcome(index, status, 1, Recalled(index, known.has_extras))

    @property
    def knows(self) -> bool:
        """Whether earlier tries have left anything."""
        return len(self._earlier) > 0

    def item(self, index: int) -> Done:
        """Return an item that was recalled, with its result. Blocks."""
        return self._earlier.item(index)

    def completed(self, results: list[Any]) -> list[Any]:
        """Put the results of recalled items in their places. Blocks."""
        return [self.item(each.index).result if type(each) is Recalled else each for each in results]

    def add(self, outcome: Outcome, extras: Any) -> Awaitable[None] | None:
        """
        Take an item that has ended in this try; what is returned is to be awaited before the next one.

        :param outcome: what became of it: a success, or skipped.
        :param extras: what else must be done again in a later try.
        """
        assert outcome.status != "failed"
        fingerprint = self._prints.pop(outcome.index)
        result = outcome.result if self._keep_results else None
        return self._writer.add(
            Done(outcome.index, outcome.status, outcome.attempts, fingerprint, result, extras)
        )

    def leave_out(self, index: int) -> None:
        """Take an item that has ended and is not kept: a later try does it again."""
        self._prints.pop(index)

    def flush(self, seconds: float) -> bool:
        """Commit what has ended so far; tells whether that was done in time. For signal handlers too."""
        return self._writer.flush(seconds)

    def close(self, seconds: float, *, has_succeeded: bool) -> None:
        """
        Commit the rest. Blocks.

        :param seconds: how long that may take.
        :param has_succeeded: whether a short iteration, of which nothing was committed, need not begin.
        """
        if not self._writer.close(seconds, matters=not has_succeeded):
            log.warning("the last checkpoint could not be written within %.1f s", seconds)
        if self.changed:
            log.info("%d items were done again because their input has changed", self.changed)

    @property
    def has_rows(self) -> bool:
        """Whether this try has left any row."""
        return self._writer.rows > 0

    def _finished_try(self) -> int:
        marker = self._store.get(KEY) or {}
        was_cleared = any(marker.get(name) != limit for name, limit in self._limits.items())
        return int(marker.get("finished_try", 0)) if was_cleared else 0

    def _tell(self, items: Sequence[Done]) -> None:
        self._committed(items)

    def _write(self, items: Sequence[Done]) -> None:
        row = pack(items, _compat.to_serde, self._files)
        self._store.set(row_key(self._try, self._writer.rows), msgspec.to_builtins(row))


def mark_finished(context: Mapping[str, Any], retries: int) -> None:
    """
    Say that the iteration is complete: a clear after this starts anew. Blocks.

    :param context: context of the task.
    :param retries: those of the task.
    """
    ti = context["ti"]
    try:
        context["task_state_store"].set(KEY, {"finished_try": ti.try_number, **_limits(ti, retries)})
    except Exception:
        log.warning("the checkpoint stays open: a clear would do nothing again", exc_info=True)


def _limits(ti: Any, retries: int) -> dict[str, int]:
    # A clear sets max_tries to the tries so far and the retries: with fewer retries it may be as before.
    return {"max_tries": getattr(ti, "max_tries", 0), "retries": retries}


def _files(ti: Any) -> ResultFiles | None:
    if not (path := _compat.config_text("checkpoint_path", "")):
        return None
    index = -1 if ti.map_index is None else ti.map_index
    return CheckpointFiles(path, XComPlace(ti.dag_id, ti.task_id, ti.run_id, index), str(ti.id))


class CheckpointFiles:
    """
    Keeps texts in object storage, or any other place that fsspec knows.

    The run is part of each path, for a lifecycle rule of the storage. Nothing here deletes them; ``airflow
    iteration gc`` does.

    :param path: ``[iteration] checkpoint_path``, such as ``s3://conn_id@bucket/checkpoints``.
    :param place: the task instance.
    :param try_id: id of the try.
    """

    def __init__(self, path: str, place: XComPlace, try_id: str) -> None:
        from airflow.sdk import ObjectStoragePath

        self._base = ObjectStoragePath(path)
        self._folder = self._base.joinpath(*folder_names(place), try_id[-8:])
        self._made = False

    def write(self, index: int, text: str) -> str:
        """Write a text, and return its path below the base."""
        if not self._made:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._made = True
        file = self._folder / f"{index}.json"
        file.write_text(text, encoding="utf-8")
        return str(file.relative_to(self._base))

    def read(self, name: str) -> str:
        """Return a text."""
        text: str = (self._base / name).read_text(encoding="utf-8")
        return text
