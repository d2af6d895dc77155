# SPDX-License-Identifier: Apache-2.0
"""
How far a watcher has come: what is new in pages that it has asked for before.

A watcher's source never ends: it is walked to its last page again and again. Where that page tells no cursor
to go on from, it is asked for anew, and the elements that were there already are passed over by their number.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any

import msgspec

from airflow_provider_iteration.exceptions import StreamError
from airflow_provider_iteration.streams.codec import Foreign, dump_text, load_text
from airflow_provider_iteration.streams.events import Page

FORMAT_VERSION = 1


class WatchState(msgspec.Struct, frozen=True):
    """
    The place of a watcher in its source: everything before it has been recorded.

    :param run: id under which its events are numbered.
    :param incarnation: raised by every start; the highest one owns the place.
    :param index: number of the next event.
    :param cursor: cursor to go on from, as a text of :func:`.codec.dump_text`; None is the beginning.
    :param seen: how many elements after the cursor are recorded.
    :param digest: digest of the last one of these.
    """

    run: str
    incarnation: int = 1
    index: int = 0
    cursor: str | None = None
    seen: int = 0
    digest: str | None = None
    v: int = FORMAT_VERSION

    @property
    def resume_cursor(self) -> Any:
        """The cursor to go on from, or None."""
        return None if self.cursor is None else load_text(self.cursor)

    def reopened(self) -> WatchState:
        """Return the place as the next start of the watcher opens it."""
        return msgspec.structs.replace(self, incarnation=self.incarnation + 1)

    def recorded(self, seen: int, digest: str) -> WatchState:
        """Return the place after one more event, which ends at element ``seen`` after the cursor."""
        return msgspec.structs.replace(self, index=self.index + 1, seen=seen, digest=digest)

    def passed(self, cursor: Any) -> WatchState:
        """Return the place behind a page that tells where to go on; unchanged if it does not."""
        if cursor is None:
            return self
        return msgspec.structs.replace(self, cursor=dump_text(cursor), seen=0, digest=None)

    def to_row(self) -> dict[str, Any]:
        """Return plain JSON."""
        row: dict[str, Any] = msgspec.to_builtins(self)
        return row

    @classmethod
    def from_row(cls, row: object) -> WatchState:
        """
        Read a place.

        :raises ValueError: if the row is none of this package's, or of a newer version of it.
        """
        try:
            state = msgspec.convert(row, cls)
        except msgspec.ValidationError as error:
            raise ValueError(f"not the place of a watcher: {error}") from None
        if state.v > FORMAT_VERSION:
            raise ValueError(f"the watcher's place has format {state.v}, known is up to {FORMAT_VERSION}")
        return state


class NewElement(msgspec.Struct, frozen=True):
    """
    One new element of a source.

    :param index: number of the event that it becomes.
    :param payload: the element.
    :param after: the watcher's place once that event is recorded.
    """

    index: int
    payload: Any
    after: WatchState

    def __repr__(self) -> str:
        return f"NewElement({self.after.run}#{self.index})"


class Walk:
    """
    One walk over a source, from a place to the last page that there is now.

    :param source: called with the cursor to go on from, or None.
    :param state: the place to begin at; ``walk.state`` is the place that was reached.
    :param warn: called with a message where the source seems to be unfit for this.
    :param foreign: makes JSON of values of types that the codec does not know.
    """

    def __init__(
        self,
        source: Callable[[Any], AsyncGenerator[Page, None]],
        state: WatchState,
        *,
        warn: Callable[[str], None],
        foreign: Foreign | None = None,
    ) -> None:
        self.state = state
        self._source = source
        self._warn = warn
        self._foreign = foreign
        self._position = 0

    async def news(self) -> AsyncGenerator[NewElement, None]:
        """
        Yield what is new.

        :raises StreamError: if elements are gone that were recorded before.
        """
        async with aclosing(self._source(self.state.resume_cursor)) as pages:
            async for page in pages:
                for element in self._news_of(page):
                    yield element
                if page.cursor is not None:
                    self.state = self.state.passed(page.cursor)
                    self._position = 0
                if page.last:
                    break
        self._check_length()

    def _news_of(self, page: Page) -> list[NewElement]:
        elements = page.elements()
        first = self._position
        self._position += len(elements)
        known = min(max(self.state.seen - first, 0), len(elements))
        if page.cursor is not None and self._position < self.state.seen:
            self._check_length()
        if known and first + known == self.state.seen and self._changed(elements[known - 1]):
            if not page.many:
                # A whole page has no more than its content to tell it by: a changed one is news.
                known -= 1
            else:
                self._warn(
                    "The last item that was recorded is not the one that stands in its place now. A watcher "
                    "finds new items by their number: the API must list the oldest items first"
                )
        return [
            self._take(element, first + number, page, len(elements) == number)
            for number, element in enumerate(elements[known:], known + 1)
        ]

    def _take(self, element: Any, seen: int, page: Page, ends: bool) -> NewElement:
        index = self.state.index
        self.state = self.state.recorded(seen, self._digest(element))
        return NewElement(index, element, self.state.passed(page.cursor) if ends else self.state)

    def _changed(self, element: Any) -> bool:
        return self._digest(element) != self.state.digest

    def _digest(self, element: Any) -> str:
        text = dump_text(element, self._foreign)
        return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()

    def _check_length(self) -> None:
        if self._position < self.state.seen:
            raise StreamError(
                f"the source has {self._position} elements where {self.state.seen} were recorded before: a "
                "watcher finds new ones by their number, so they must stay. Page by a cursor that is "
                "taken from the items, such as Cursor(path='items[-1].id', param='after')"
            )


def resume(states: list[WatchState], fresh: WatchState) -> WatchState:
    """
    Return the place at which a starting watcher goes on.

    :param states: the places that were kept, one for each asset that had one.
    :param fresh: the place of a watcher that never ran.
    """
    if not states:
        return fresh
    return max(states, key=lambda state: (state.index, state.incarnation)).reopened()
