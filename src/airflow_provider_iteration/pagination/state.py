# SPDX-License-Identifier: Apache-2.0
"""The state of one walk over pages: the only thing here that changes."""

from __future__ import annotations

import msgspec

from airflow_provider_iteration.exceptions import CursorCycleError, PaginationError
from airflow_provider_iteration.pagination.base import Paginator
from airflow_provider_iteration.pagination.paths import last_is_missing, whereabouts
from airflow_provider_iteration.pagination.request import PageRequest, PageView
from airflow_provider_iteration.pagination.stops import Progress


class PageState:
    """
    One walk: which request comes next, what came so far, what was asked before.

    ::

        state = PageState(paginator)
        while (request := state.request) is not None:
            page = ...  # send the request, make a PageView of the response
            state.advance(page)

    A walk is resumed by passing the request that was due and the progress up to it; both are plain JSON.
    Requests from before that are not remembered, so a circle through them is noticed one round later.

    :param paginator: how the next page is asked for.
    :param start: the first request; None is the operator's own.
    :param progress: pages and items that came before the first request.
    """

    __slots__ = ("_begun", "_last_content", "_seen", "paginator", "progress", "request")

    def __init__(
        self,
        paginator: Paginator,
        start: PageRequest | None = None,
        progress: Progress | None = None,
    ) -> None:
        self.paginator = paginator
        self.progress = Progress() if progress is None else progress
        self.request: PageRequest | None = paginator.first() if start is None else start
        self._begun = False
        self._last_content: bytes | None = None
        self._seen = {self.request.digest(): self.progress.pages + 1}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.paginator!r}, request={self.request!r}, {self.progress!r})"

    def advance(self, page: PageView) -> PageRequest | None:
        """
        Take in the page that came for :attr:`request`, and find the next request.

        :param page: the page.
        :return: the next request, which :attr:`request` is from now on, or None at the end.
        :raises PathError: if the page does not have what the paginator or the stop condition reads.
        :raises CursorCycleError: if the next request was made before in this walk.
        :raises RuntimeError: if the walk has ended already.
        """
        asked = self._take_in(page)
        if self._is_stopped(page):
            return None
        if self.progress.pages == 1:
            self.paginator.check_first(page)
        return self._go_on_with(self.paginator.following(page, asked))

    def advance_to(self, page: PageView, following: PageRequest | None) -> PageRequest | None:
        """
        Take in a page whose next request somebody else has found.

        :param page: the page.
        :param following: the request that comes after it, or None.
        :return: the next request, or None at the end.
        :raises CursorCycleError: if the next request was made before in this walk.
        """
        self._take_in(page)
        return None if self._is_stopped(page) else self._go_on_with(following)

    def _take_in(self, page: PageView) -> PageRequest:
        if self.request is None:
            raise RuntimeError("the walk over the pages has ended; there is no page to come")
        asked, self.request = self.request, None
        self.progress = self.progress.counting(page)
        self._refuse_repetition(page)
        self._remember_answer(page, asked)
        return asked

    def _refuse_repetition(self, page: PageView) -> None:
        """Notice an API that takes no notice of a counted parameter: it would be asked for ever."""
        endless = self.paginator.needs_stop and self.paginator.stop is None and page.items > 0
        if endless and page.content is not None and page.content == self._last_content:
            number = self.progress.pages
            raise PaginationError(
                f"page {number} is the same as page {number - 1}: does the API know the parameters of "
                f"{type(self.paginator).__name__}? Correct them; if equal pages are right, give it a stop"
            )
        self._last_content = page.content

    def doubt(self, page: PageView) -> str | None:
        """
        Say what should be looked at in a walk that has ended with its first page.

        :param page: that page.
        :return: a sentence, or None if nothing is odd.
        """
        if self.request is not None or self.progress.pages != 1:
            return None
        stop = self.paginator.stop
        for path in (*self.paginator.looked_for(), *(stop.looked_for() if stop is not None else ())):
            if last_is_missing(path, page.body):
                there = whereabouts(path, page.body)
                return f"page 1 has nothing at {path!r}, so it is taken for the only one; {there}"
        return None

    def _is_stopped(self, page: PageView) -> bool:
        stop = self.paginator.stop
        return stop is not None and stop.met(page, self.progress)

    def _go_on_with(self, following: PageRequest | None) -> PageRequest | None:
        if following is not None:
            self._remember(following)
        self.request = following
        return following

    def _remember(self, request: PageRequest) -> None:
        again = self.progress.pages + 1
        first = self._seen.setdefault(request.digest(), again)
        if first != again:
            raise CursorCycleError(first, again)

    def _remember_answer(self, page: PageView, asked: PageRequest) -> None:
        # The operator's own request has no URL yet, but a link back to it has one.
        if not self._begun and asked.url is None and asked.override is None:
            answered = msgspec.structs.replace(asked, url=page.url, params={})
            self._seen.setdefault(answered.digest(), self.progress.pages)
        self._begun = True
