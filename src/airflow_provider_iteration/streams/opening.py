# SPDX-License-Identifier: Apache-2.0
"""Who owns a stream: opening its head, taking over from an earlier producer, dropping older runs."""

from __future__ import annotations

from airflow_provider_iteration.exceptions import Fenced
from airflow_provider_iteration.streams.head import ChunkMap, Head, chunk_key, head_key
from airflow_provider_iteration.streams.store import RowStore


def owns(mine: Head, found: Head) -> bool:
    """
    Tell whether the producer of ``mine`` may still write, given the head that it finds.

    Run ids are UUIDv7, so a newer run has the greater one. A head of an *older* run or incarnation is
    what a stalled producer wrote late; it does not matter, because the owner's next commit replaces it.
    """
    if found.run != mine.run:
        return found.run < mine.run
    return found.incarnation <= mine.incarnation


async def open_head(store: RowStore, key: str, fresh: Head, *, anew: bool = False) -> Head:
    """
    Open the head of a run, and return it as written.

    :param store: where the rows are.
    :param key: key of the stream.
    :param fresh: the empty head of the run.
    :param anew: drop what the same run has written before, instead of going on after it.
    :raises Fenced: if the head belongs to a newer run.
    """
    row = await store.get(head_key(key))
    found = None if row is None else Head.from_row(row)
    if found is None:
        opened = fresh
    elif found.run == fresh.run and anew:
        await _drop_run(store, key, found)
        opened = fresh.succeeding(found)
    elif found.run == fresh.run:
        opened = found.reopened(fresh.log)
    elif owns(fresh, found):
        await _drop_run(store, key, found)
        opened = fresh
    else:
        raise Fenced(f"the stream belongs to run {found.run}, which is newer than {fresh.run}")
    await store.set(head_key(key), opened.to_row())
    return opened


async def drop_older(store: RowStore, key: str, run: str) -> None:
    """
    Drop what an older run left of a stream, and nothing of this one.

    :param store: where the rows are.
    :param key: key of the stream.
    :param run: id of the run that is beginning.
    """
    row = await store.get(head_key(key))
    if row is not None and (found := Head.from_row(row)).run < run:
        await _drop_run(store, key, found)
        await store.delete(head_key(key))


async def _drop_run(store: RowStore, key: str, old: Head) -> None:
    # The reference first: a reader never finds one whose rows are going. The head last, by being
    # replaced: whoever is interrupted here finds it again and goes on.
    await store.delete(key)
    chunks = ChunkMap(old.extents)
    for number in range(chunks.chunks):
        await store.delete(chunk_key(key, old.run, number, chunks.incarnation(number)))
