# SPDX-License-Identifier: Apache-2.0
"""
What this package raises.

No message here carries a payload, a header, a token or the query of a URL. Errors whose message is made
from numbers keep these as attributes.
"""

from __future__ import annotations

BODY_EXCERPT = 200
"""How many characters of an error response are kept in :class:`PageFailed`."""


class IterationError(Exception):
    """Base of every error of this package."""


class StreamError(IterationError):
    """A stream cannot go on; what was committed before stays."""


class PaginationError(StreamError):
    """The next page cannot be asked for."""


class PathError(PaginationError):
    """A page does not have, at a configured path, what is needed there."""


class ForeignHostError(PaginationError):
    """A link leads away from the connection's host; nothing was sent to it."""


class CursorCycleError(PaginationError):
    """
    The API asks for a page that was asked for before, so that the paging would never end.

    :param first: number of the page (from 1) for which this request was made first.
    :param again: number of the page for which it came up again.
    """

    def __init__(self, first: int, again: int) -> None:
        super().__init__(first, again)
        self.first = first
        self.again = again

    def __str__(self) -> str:
        return (
            f"the request for page {self.again} is the one already made for page {self.first}: "
            "the paging goes round in a circle, so it was stopped"
        )


class LimitExceeded(StreamError):
    """
    A limit that is an error when reached, as opposed to a stop condition, which is an orderly end.

    :param limit: the argument that sets it, such as ``max_pages`` or ``max_bytes``.
    :param allowed: its value.
    """

    def __init__(self, limit: str, allowed: int) -> None:
        super().__init__(limit, allowed)
        self.limit = limit
        self.allowed = allowed

    def __str__(self) -> str:
        return f"the stream was stopped because it went beyond {self.limit}={self.allowed}"


class PageFailed(StreamError):
    """
    A page failed for good: its retries are used up, or there is no point in any.

    :param page_number: the page, counted from 1.
    :param status: HTTP status, or None where no response came.
    :param reason: what the API or the connection said, in a few words.
    :param body: text of the error response; only its beginning is kept.
    """

    def __init__(self, page_number: int, status: int | None = None, reason: str = "", body: str = "") -> None:
        excerpt = _excerpt(body)
        super().__init__(page_number, status, reason, excerpt)
        self.page_number = page_number
        self.status = status
        self.reason = reason
        self.body = excerpt

    def __str__(self) -> str:
        status = "" if self.status is None else f"HTTP {self.status}"
        why = " ".join(part for part in (status, self.reason) if part) or "no response"
        said = f"; the API said: {self.body}" if self.body else ""
        return f"page {self.page_number} failed: {why}{said}"


class StoreTimeout(StreamError):
    """
    A message about a stream's row got no answer in time.

    :param action: what was asked for, such as ``write``.
    :param key: key of the row.
    :param seconds: how long it was waited for.
    """

    def __init__(self, action: str, key: str, seconds: float) -> None:
        super().__init__(action, key, seconds)
        self.action = action
        self.key = key
        self.seconds = seconds

    def __str__(self) -> str:
        return (
            f"no answer within {self.seconds:g} s to the {self.action} of XCom {self.key!r}: "
            "is the deployment overloaded? The bound is [iteration] message_timeout"
        )


class Fenced(StreamError):
    """Another producer has taken over this stream; this one must stop, and leave everything as it is."""


class MissingChunk(StreamError):
    """
    A row of a stream is gone.

    :param key: key of the missing row.
    :param first: index of the first item in it.
    :param task: the task whose stream it is, in words.
    """

    def __init__(self, key: str, first: int, task: str) -> None:
        super().__init__(key, first, task)
        self.key = key
        self.first = first
        self.task = task

    def __str__(self) -> str:
        return (
            f"items from index {self.first} of the stream of {self.task} are gone (XCom {self.key!r}): "
            "was the task cleared, or were its XComs deleted or cleaned by age? Run that task again"
        )


class CorruptChunk(StreamError):
    """A row of a stream is there but does not belong where it is."""


def _excerpt(text: str) -> str:
    # Cut before collapsing the whitespace too: an error page can be megabytes long.
    line = " ".join(text[: 4 * BODY_EXCERPT].split())
    return line if len(line) <= BODY_EXCERPT else line[: BODY_EXCERPT - 1] + "…"
