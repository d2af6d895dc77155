# SPDX-License-Identifier: Apache-2.0
"""Makes the rows of a stream of a list that is there as a whole."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple
from uuid import uuid4

from airflow_provider_iteration.streams.codec import Foreign, estimate_size
from airflow_provider_iteration.streams.head import Head, chunk_key
from airflow_provider_iteration.streams.options import StreamOptions
from airflow_provider_iteration.streams.writer import chunk_row


class SplitList(NamedTuple):
    """
    A list as a stream.

    :param rows: key → row of each chunk.
    :param head: what is in them.
    """

    rows: dict[str, dict[str, Any]]
    head: Head


def split_list(key: str, items: Sequence[Any], foreign: Foreign) -> SplitList:
    """
    Divide a list into chunks.

    :param key: key of the XCom.
    :param items: at least one.
    :param foreign: makes JSON of values of types that the codec does not know.
    :raises TypeError: if a stream cannot keep an item; it names its index.
    """
    options = StreamOptions(key=key)
    # A new id each time: rows of one list are never taken for those of another under the same key.
    head = Head(run=str(uuid4()))
    rows: dict[str, dict[str, Any]] = {}
    for part, size in _parts(items, options.chunk_bytes):
        longer = head.extended(items=len(part), pages=1, size=size, cursor=None)
        rows[chunk_key(key, head.run, head.chunks)] = chunk_row(head, longer, part, foreign)
        head = longer
    return SplitList(rows, head.ended())


def _parts(items: Sequence[Any], chunk_bytes: int) -> Iterator[tuple[list[Any], int]]:
    part: list[Any] = []
    total = 0
    for item in items:
        part.append(item)
        total += estimate_size(item)
        if total >= chunk_bytes:
            yield part, total
            part, total = [], 0
    if part:
        yield part, total
