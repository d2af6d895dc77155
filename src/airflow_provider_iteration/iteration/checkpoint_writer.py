# SPDX-License-Identifier: Apache-2.0
"""
The one thread that writes checkpoints.

Items that end while a row is being written go into the next one together, so a slow store makes rows larger
and not the items slower; an iteration that gets too far ahead has to wait.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple

from tenacity import Retrying, stop_after_attempt, wait_exponential

from airflow_provider_iteration.iteration.checkpoints import ROW_BYTES, Done, size_of
from airflow_provider_iteration.iteration.tasks import until

log = logging.getLogger(__name__)

WRITES_TRIED = 3
MOST_BEHIND = 8
"""How many commits of items the writer may be behind before the iteration waits."""
GROUPED = 4
"""How many times that number may go into one row, where they are there already."""
BYTES_BEHIND = 16 * 1024 * 1024


class _Flush(NamedTuple):
    done: threading.Event
    last: bool = False
    matters: bool = True


class CheckpointWriter:
    """
    Takes items as they end and commits them in the background. Made and closed in one thread, fed from one.

    :param write: writes the items of one row; called in the writer's thread.
    :param committed: called there with the items of each row that was written, or given up.
    :param every: number of items after which a row is due.
    :param seconds: time after which a row is due.
    """

    def __init__(
        self,
        write: Callable[[Sequence[Done]], None],
        committed: Callable[[Sequence[Done]], None],
        *,
        every: int,
        seconds: float,
    ) -> None:
        self._write = write
        self._committed = committed
        self._every = every
        self._seconds = seconds
        # The only thing that both threads touch: unlike locks and events it may also be used by a signal
        # handler that has interrupted a use of it.
        self._inbox: SimpleQueue[Done | _Flush] = SimpleQueue()
        self._batch: list[Done] = []
        self._bytes = 0
        self._due = 0.0
        self._added = 0
        self._settled = 0
        self._taken = 0
        self._bytes_taken = 0
        self.rows = 0
        self.lost = 0
        self._thread: threading.Thread | None = None

    def add(self, item: Done) -> Awaitable[None] | None:
        """
        Take an item; what is returned is to be awaited before the next one.

        :param item: an item that has just ended.
        """
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="iteration-checkpoints", daemon=True)
            self._thread.start()
        self._added += 1
        self._inbox.put(item)
        return until(lambda: not self._is_behind()) if self._is_behind() else None

    def flush(self, seconds: float) -> bool:
        """
        Commit what was taken, and wait for it. Callable from a signal handler.

        :param seconds: how long to wait at most.
        :return: whether it was done in that time.
        """
        return self._ask(_Flush(threading.Event()), seconds)

    def close(self, seconds: float, *, matters: bool = True) -> bool:
        """
        Commit what was taken, and end the thread; otherwise like :meth:`flush`.

        :param matters: whether anybody may need what was taken; if not, it is dropped where no row was
            written so far.
        """
        return self._ask(_Flush(threading.Event(), last=True, matters=matters), seconds)

    def _ask(self, flush: _Flush, seconds: float) -> bool:
        if self._thread is None or not self._thread.is_alive():
            return True
        self._inbox.put(flush)
        return flush.done.wait(seconds)

    def _is_behind(self) -> bool:
        behind = self._added - self._settled
        mean_size = self._bytes_taken / max(self._taken, 1)
        return behind > MOST_BEHIND * self._every or behind * mean_size > BYTES_BEHIND

    # In the writer's thread.

    def _run(self) -> None:
        while True:
            timeout = max(self._due - time.monotonic(), 0.0) if self._batch else None
            try:
                message = self._inbox.get(timeout=timeout)
            except Empty:
                self._commit()
                continue
            if isinstance(message, _Flush):
                self._commit(is_needed=message.matters or self.rows > 0)
                message.done.set()
                if message.last:
                    return
            else:
                self._take(message)

    def _take(self, item: Done) -> None:
        size = size_of(item)
        if self._batch and self._bytes + size > ROW_BYTES:
            self._commit()
        if not self._batch:
            self._due = time.monotonic() + self._seconds
        self._batch.append(item)
        self._bytes += size
        self._taken += 1
        self._bytes_taken += size
        is_due = len(self._batch) >= self._every and self._inbox.empty()
        if is_due or len(self._batch) >= GROUPED * self._every:
            self._commit()

    def _commit(self, *, is_needed: bool = True) -> None:
        batch, self._batch, self._bytes = self._batch, [], 0
        if not batch:
            return
        if is_needed:
            self._write_row(batch)
        self._settled += len(batch)
        try:
            self._committed(batch)
        except Exception:
            # The iteration waits for this thread: it must not end.
            log.exception("What was to be told of a checkpoint failed")

    def _write_row(self, batch: Sequence[Done]) -> None:
        try:
            self._retrying()(self._write, batch)
            self.rows += 1
        except Exception:
            # No item fails for what only spares work later.
            self.lost += len(batch)
            log.warning(
                "%d items are not in the checkpoint: a retry will do them again", len(batch), exc_info=True
            )

    def _retrying(self) -> Any:
        return Retrying(
            stop=stop_after_attempt(WRITES_TRIED), wait=wait_exponential(multiplier=0.2), reraise=True
        )
