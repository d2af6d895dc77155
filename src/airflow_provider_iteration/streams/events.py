# SPDX-License-Identifier: Apache-2.0
"""What flows through a stream: pages as a source yields them, events as the writer takes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec


class Page(msgspec.Struct, frozen=True):
    """
    One page, as ``pages(cursor)`` of a streaming trigger yields it.

    :param payload: what was received: JSON values, ``bytes`` and tuples, nested in any way. With
        ``many=True`` a list, each item of which is an element of the stream.
    :param cursor: where to go on *after* this page: any JSON value. A restarted trigger is given the
        cursor of the last committed page. Without cursors a restarted source begins anew, and the
        pages that were already committed are dropped by their index.
    :param many: whether the items of ``payload``, rather than ``payload`` itself, are the elements.
    :param last: whether the source knows that no page follows; it is not asked again then.
    :param size: size of the payload in bytes, where the source knows it; otherwise it is estimated.
    """

    payload: Any
    cursor: Any = None
    many: bool = False
    last: bool = False
    size: int | None = None

    def elements(self) -> Sequence[Any]:
        """Return what this page adds to the stream."""
        return self.payload if self.many else (self.payload,)

    def whole(self) -> Page:
        """Return the page as one element of the stream."""
        return msgspec.structs.replace(self, many=False) if self.many else self

    def __repr__(self) -> str:
        return f"Page(elements={len(self.elements())}, size={self.size})"


class StreamEvent(msgspec.Struct, frozen=True):
    """
    The envelope of a page: who sent it, and its place in the stream.

    The fields are those that AIP-88 asks for. Two events with the same ``trigger_run_id`` and
    ``sequence_index`` are the same event.

    :param trigger_run_id: the task instance's id: new on every retry and clear, the same when a
        triggerer restarts.
    :param sequence_index: number of the page, from 0.
    :param payload: the page: a :class:`Page` on its way to the writer; for a handler what the page holds,
        such as decoded JSON, or the list of items where the source streams items.
    :param is_last: whether the sender knows that no page follows.
    """

    trigger_run_id: str
    sequence_index: int
    payload: Any
    is_last: bool = False

    def __repr__(self) -> str:
        return f"StreamEvent({self.trigger_run_id}#{self.sequence_index}, is_last={self.is_last})"
