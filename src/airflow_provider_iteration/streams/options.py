# SPDX-License-Identifier: Apache-2.0
"""What a user may set about a stream: frozen, and plain JSON, because it travels to the triggerer."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal, TypeAlias, get_args

import msgspec

from airflow_provider_iteration.exceptions import TooLongToMap

FinishOn: TypeAlias = Literal["auto", "worker", "triggerer"]


class StreamOptions(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """
    :param key: XCom key of the stream.
    :param finish_on: where the task ends: ``"worker"`` after one resume, ``"triggerer"`` without any
        worker, or ``"auto"``: without a worker unless something would be lost.
    :param max_pages: more pages than this are an error; None is no limit.
    :param max_bytes: more bytes than this, in the whole stream, are an error; None is no limit.
    :param max_map_length: more items than this are an error, because mapped tasks expand over the stream;
        None is no limit.
    :param max_uncommitted_pages: how many pages may be fetched but not yet committed: also how many a
        restarted producer asks for again at most.
    :param max_uncommitted_bytes: the same in bytes; one page is always let in.
    :param chunk_bytes: size that a row aims at.
    :param max_chunk_bytes: size beyond which no page is added to a row; a row holds at least one page.
    :param linger: seconds that a page may wait for others, so that live readers see it. They grow with the
        number of rows: after 400 rows they are twice as many, and at most a minute.
    :param min_seconds: how long the trigger runs at least before the task resumes on a worker.
    :param results_key: key of a second stream, of what a handler returns. Each page is then one element of
        the first one, and both are dropped when the task is run again.
    :param handled: how many pages a handler had before the trigger was started.
    :param resume_every_pages: after how many pages, and one more, the trigger hands over to the handler;
        None is at the end.
    :param resume_every_seconds: after how many seconds it does, if there are two pages; None is at the end.
    """

    key: str = "return_value"
    finish_on: FinishOn = "auto"
    max_pages: int | None = None
    max_bytes: int | None = None
    max_map_length: int | None = None
    max_uncommitted_pages: int = 32
    max_uncommitted_bytes: int = 8 * 1024 * 1024
    chunk_bytes: int = 256 * 1024
    max_chunk_bytes: int = 1024 * 1024
    linger: float = 1.0
    min_seconds: float = 0.0
    results_key: str | None = None
    handled: int = 0
    resume_every_pages: int | None = None
    resume_every_seconds: float | None = None

    def __post_init__(self) -> None:
        if self.finish_on not in get_args(FinishOn):
            names = ", ".join(map(repr, get_args(FinishOn)))
            raise ValueError(f"finish_on: expected one of {names}, got {self.finish_on!r}")
        for name in ("max_pages", "max_bytes", "max_map_length", "resume_every_pages"):
            if getattr(self, name) is not None:
                _check_positive(name, getattr(self, name))
        if self.resume_every_seconds is not None:
            check_seconds("resume_every_seconds", self.resume_every_seconds)
        for name in ("max_uncommitted_pages", "max_uncommitted_bytes", "chunk_bytes", "max_chunk_bytes"):
            _check_positive(name, getattr(self, name))

    @property
    def whole_pages(self) -> bool:
        """Whether each page is one element of the stream, also where it brings many items."""
        return self.results_key is not None

    def check_map_length(self, items: int) -> None:
        """
        Stop a stream that mapped tasks cannot expand over.

        :param items: number of its items so far.
        :raises TooLongToMap: if they are too many.
        """
        if self.max_map_length is not None and items > self.max_map_length:
            raise TooLongToMap(self.max_map_length)

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON, without what has its default."""
        options: dict[str, Any] = msgspec.to_builtins(self)
        return options

    @classmethod
    def from_json(cls, options: Mapping[str, Any] | StreamOptions | None) -> StreamOptions:
        """
        Give back what :meth:`to_json` returned.

        :raises ValueError: for an option that is unknown or wrong.
        """
        if isinstance(options, StreamOptions):
            return options
        try:
            return msgspec.convert(dict(options or {}), cls)
        except msgspec.ValidationError as error:
            raise ValueError(f"stream options: {error}") from None


def _check_positive(name: str, value: Any) -> None:
    if type(value) is not int:
        raise TypeError(f"{name}: expected a whole number, got {type(value).__name__}")
    if value < 1:
        raise ValueError(f"{name}: expected at least 1, got {value}")


def check_seconds(name: str, value: Any) -> None:
    """
    Refuse what is no positive number of seconds.

    :param name: the argument, for the error.
    :raises TypeError: for another type.
    :raises ValueError: for 0, less, or no finite number.
    """
    if type(value) not in (int, float):
        raise TypeError(f"{name}: expected a number of seconds, got {type(value).__name__}")
    if not 0 < value < math.inf:
        raise ValueError(f"{name}: expected more than 0 seconds, got {value}")
