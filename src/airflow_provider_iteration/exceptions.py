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


class StopStream(Exception):
    """
    Ends a stream early and successfully, when a handler of its events raises it. It is no error.

    What was handled before stays, and no further page is asked for.
    """


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


class TooLongToMap(LimitExceeded):
    """
    A stream that mapped tasks expand over has more items than they can; it was not read to its end.

    :param allowed: value of ``[core] max_map_length``.
    """

    def __init__(self, allowed: int) -> None:
        super().__init__("max_map_length", allowed)
        self.args = (allowed,)

    def __str__(self) -> str:
        return (
            f"the stream was stopped because a mapped task expands over it, and it has more items than "
            f"[core] max_map_length={self.allowed} allows: use .iterate() instead of .expand(), or raise it"
        )


class StreamStopped(StreamError):
    """
    A task was asked to end while its generator ran; the generator was closed.

    :param items: how many items it had yielded.
    """

    def __init__(self, items: int) -> None:
        super().__init__(items)
        self.items = items

    def __str__(self) -> str:
        return f"the task was asked to end: its generator was closed after {self.items} items"


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
    A message to Airflow got no answer in time.

    :param action: what was asked for, such as ``write``.
    :param key: key of the row that it is about.
    :param seconds: how long it was waited for.
    """

    def __init__(self, action: str, key: str, seconds: float) -> None:
        super().__init__(action, key, seconds)
        self.action = action
        self.key = key
        self.seconds = seconds

    def __str__(self) -> str:
        return (
            f"no answer within {self.seconds:g} s to the {self.action} of {self.key!r}: "
            "is the deployment overloaded? The bound is [iteration] message_timeout"
        )


class PushRefused(IterationError):
    """A trigger that belongs to no running task cannot push an XCom."""


class PushFailed(IterationError):
    """
    A trigger's XCom was not pushed.

    :param key: key of the XCom.
    :param reason: what went wrong, without the value.
    """

    def __init__(self, key: str, reason: str) -> None:
        super().__init__(key, reason)
        self.key = key
        self.reason = reason

    def __str__(self) -> str:
        return f"XCom {self.key!r} was not pushed: {self.reason}"


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


class InputPaused(StreamError):
    """The input of a live consumer cannot be read on for now; it is no failure."""


class Starved(InputPaused):
    """
    The producer of a live stream has written nothing for a while, or has not ended.

    :param seconds: for how long.
    :param items: how many items were read before that.
    :param needs_end: whether no more items are needed, and only the producer's end is waited for.
    """

    def __init__(self, seconds: float, items: int, needs_end: bool = False) -> None:
        super().__init__(seconds, items, needs_end)
        self.seconds = seconds
        self.items = items
        self.needs_end = needs_end

    def __str__(self) -> str:
        if self.needs_end:
            return (
                f"no more than {self.items} items of the live stream are needed, and its producer has not "
                f"ended for {self.seconds:g} s"
            )
        return f"nothing new in the live stream for {self.seconds:g} s; {self.items} items were read"


class ProducerRestarted(InputPaused):
    """
    What was read of a live stream counts for nothing any more, because its producer began anew.

    :param task: the producing task in words.
    :param items: how many items were read before that.
    """

    def __init__(self, task: str, items: int) -> None:
        super().__init__(task, items)
        self.task = task
        self.items = items

    def __str__(self) -> str:
        return f"{self.task} was run again: the {self.items} items that were read of it do not count any more"


class ProducerFailed(StreamError):
    """
    The producer of a live stream has not succeeded, and will not.

    :param task: the producing task in words.
    :param state: how it ended.
    """

    def __init__(self, task: str, state: str) -> None:
        super().__init__(task, state)
        self.task = task
        self.state = state

    def __str__(self) -> str:
        return f"{self.task} ended as {self.state}, so what was read of its stream does not count"


class MissingFile(IterationError):
    """
    The file of a value that the XCom backend has put into object storage is gone.

    :param file: its path below ``[iteration] offload_path``.
    :param task: the task whose value it is, in words.
    """

    def __init__(self, file: str, task: str) -> None:
        super().__init__(file, task)
        self.file = file
        self.task = task

    def __str__(self) -> str:
        return (
            f"a value of {self.task} is gone: there is no file {self.file!r} below [iteration] offload_path. "
            "Was it removed by hand or by a lifecycle rule of the storage, or did the option name another "
            "place when the value was stored? Run that task again"
        )


class ItemLimitExceeded(LimitExceeded):
    """
    The input of an iteration has more items than ``max_items`` allows; none beyond that was run.

    :param allowed: the value of ``max_items``.
    """

    def __init__(self, allowed: int) -> None:
        super().__init__("max_items", allowed)
        self.args = (allowed,)

    def __str__(self) -> str:
        return f"the input has more items than max_items={self.allowed} allows"


class ItemTimeout(IterationError, TimeoutError):
    """
    An attempt at an item took too long.

    :param seconds: what it was given.
    """

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self.seconds = seconds

    def __str__(self) -> str:
        return f"the item took longer than item_timeout={self.seconds:g} s"


class ItemCancelled(IterationError):
    """An item's own code cancelled it."""

    def __str__(self) -> str:
        return "the item was cancelled by its own code"


class TooManyStuck(IterationError):
    """
    So many items went beyond their timeout and do not end that no more are begun.

    :param allowed: how many may be stuck at a time: the ``task_concurrency``.
    """

    def __init__(self, allowed: int) -> None:
        super().__init__(allowed)
        self.allowed = allowed

    def __str__(self) -> str:
        return (
            f"more than {self.allowed} items went beyond item_timeout and still run, because a thread cannot "
            "be interrupted, nor a coroutine that ignores its cancellation: the run was stopped. Give what "
            "they wait for a timeout of its own"
        )


class ItemsFailed(IterationError):
    """
    Items of an iteration failed, more than one of them.

    :param failed: how many.
    :param done: how many items have run, these counted.
    :param kinds: name of an exception class → how many items failed with it.
    :param indexes: places of the failed items in the input, as a short text.
    :param tracebacks: the first tracebacks, as text.
    """

    def __init__(
        self, failed: int, done: int, kinds: dict[str, int], indexes: str, tracebacks: tuple[str, ...] = ()
    ) -> None:
        super().__init__(failed, done, kinds, indexes, tracebacks)
        self.failed = failed
        self.done = done
        self.kinds = kinds
        self.indexes = indexes
        self.tracebacks = tracebacks

    def __str__(self) -> str:
        kinds = ", ".join(f"{count} {kind}" for kind, count in self.kinds.items())
        headline = f"{self.failed} of {self.done} items failed ({kinds}), at index {self.indexes}"
        return "\n\n".join((headline, *self.tracebacks))


class IterationStopped(IterationError):
    """
    An iteration was asked to stop before its end.

    :param done: how many items have run.
    :param unfinished: how many were taken from the input and did not finish.
    """

    def __init__(self, done: int, unfinished: int) -> None:
        super().__init__(done, unfinished)
        self.done = done
        self.unfinished = unfinished

    def __str__(self) -> str:
        return f"the iteration was stopped: {self.done} items are done, {self.unfinished} were cut off"


class ResourceFailed(IterationError):
    """
    A resource of an iteration failed; the cause tells why.

    :param name: its name.
    :param action: ``"entered"`` or ``"left"``.
    :param kind: name of the class of what it raised.
    """

    def __init__(self, name: str, action: str, kind: str) -> None:
        super().__init__(name, action, kind)
        self.name = name
        self.action = action
        self.kind = kind

    def __str__(self) -> str:
        return f"resource {self.name!r} could not be {self.action}: {self.kind}"


def _excerpt(text: str) -> str:
    # Cut before collapsing the whitespace too: an error page can be megabytes long.
    line = " ".join(text[: 4 * BODY_EXCERPT].split())
    return line if len(line) <= BODY_EXCERPT else line[: BODY_EXCERPT - 1] + "…"
