# SPDX-License-Identifier: Apache-2.0
"""The stock HTTP operator, paging inside one run of a trigger."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from airflow.providers.http.operators.http import HttpOperator
from airflow.providers.http.triggers.http import serialize_auth_type

from airflow_provider_iteration.http.retries import DEFAULT_PAGE_RETRIES, PageRetriesLike
from airflow_provider_iteration.operators.start import foreign_leaves, refuse_callables
from airflow_provider_iteration.operators.streaming import StreamingOperator
from airflow_provider_iteration.pagination import Paginator, SinglePage, load_paginator
from airflow_provider_iteration.pagination.loading import is_importable
from airflow_provider_iteration.triggers.http import HttpStreamingTrigger
from airflow_provider_iteration.triggers.streaming import StreamingTrigger

# What may be something that cannot be sent to the triggerer; the pages are then fetched on a worker.
_ON_A_WORKER = (
    "auth_type",
    "response_check",
    "response_filter",
    "pagination_function",
    "retry_args",
    "extra_options",
)


class HttpStreamingOperator(StreamingOperator, HttpOperator):  # type: ignore[misc]
    """
    Pages through an HTTP API inside one run of a trigger: no worker start for each page.

    The result is a lazy sequence of items (with ``items_path``) or of pages. A page is decoded JSON, or
    text, or bytes, whatever its content type says. Arguments not named here are those of
    :class:`airflow.providers.http.operators.http.HttpOperator` and of
    :class:`~airflow_provider_iteration.operators.streaming.StreamingOperator`::

        HttpStreamingOperator(
            task_id="orders", http_conn_id="shop", endpoint="orders", method="GET",
            paginator=Cursor("meta.next", param="after"), items_path="orders",
        )

    ``response_check``, ``response_filter`` and ``pagination_function`` are called for one page at a time.
    Given as import paths (``"shop.pages.check"``) they are called in the triggerer; given as functions,
    they cannot be sent there, and the pages are fetched on a worker. The same goes for ``retry_args`` and
    for objects in ``extra_options``.

    :param paginator: how the next page is asked for: a spec of
        :mod:`airflow_provider_iteration.pagination`, or its dict; None is one page.
    :param items_path: JMESPath of the list of items in a page; None streams whole pages.
    :param response_check: says of a response whether it is good; the try fails where it is not.
    :param response_filter: makes of a response what is streamed.
    :param pagination_function: says after a response what to ask for next, as for the stock operator;
        instead of ``paginator``.
    :param page_retries: how often one page is asked for again after 429, 5xx and connection errors, with
        ``Retry-After`` kept to; or a :class:`~airflow_provider_iteration.http.retries.PageRetries`, or its
        dict, to say more.
    :param rate_limit: how many requests may start in which time, such as ``"20/s"``, ``"100/m"``.
    :param allowed_hosts: hosts, besides the connection's, that next links and redirects may lead to. They
        are sent the connection's headers.
    :param warn_on_non_idempotent: whether it is logged that a method may be sent twice that should not.
    """

    def __init__(
        self,
        *,
        paginator: Paginator | Mapping[str, Any] | None = None,
        items_path: str | None = None,
        response_check: Callable[..., Any] | str | None = None,
        response_filter: Callable[..., Any] | str | None = None,
        pagination_function: Callable[..., Any] | str | None = None,
        page_retries: PageRetriesLike = DEFAULT_PAGE_RETRIES,
        rate_limit: str | None = None,
        allowed_hosts: Sequence[str] = (),
        warn_on_non_idempotent: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            response_check=response_check,
            response_filter=response_filter,
            pagination_function=pagination_function,
            **kwargs,
        )
        self.paginator = SinglePage() if paginator is None else load_paginator(paginator)
        self.items_path = items_path
        self.page_retries = page_retries
        self.rate_limit = rate_limit
        self.allowed_hosts = allowed_hosts
        # The stock operator has it since version 6.2 of the http provider.
        self.warn_on_non_idempotent = warn_on_non_idempotent
        if self.retry_args and page_retries != DEFAULT_PAGE_RETRIES:
            raise ValueError("retry_args: give either it or page_retries, not both")
        refuse_callables(endpoint=self.endpoint, data=self.data, headers=self.headers)

    def make_trigger(self, context: Mapping[str, Any]) -> HttpStreamingTrigger:
        return HttpStreamingTrigger(
            http_conn_id=self.http_conn_id,
            auth_type=_sent_auth_type(self.auth_type),
            method=self.method,
            endpoint=self.endpoint,
            headers=self.headers,
            data=self.data,
            extra_options=_plain({**self.extra_options, **self.request_kwargs}),
            paginator=self.paginator,
            items_path=self.items_path,
            response_check=self.response_check,
            response_filter=self.response_filter,
            pagination_function=self.pagination_function,
            log_response=self.log_response,
            page_retries=self.page_retries,
            retry_args=self.retry_args,
            rate_limit=self.rate_limit,
            allowed_hosts=self.allowed_hosts,
            keep_alive=(
                self.tcp_keep_alive,
                self.tcp_keep_alive_idle,
                self.tcp_keep_alive_count,
                self.tcp_keep_alive_interval,
            ),
            warn_on_non_idempotent=self.warn_on_non_idempotent,
        )

    def worker_reasons(self, trigger: StreamingTrigger) -> Iterator[str]:
        _, arguments = trigger.serialize()
        return foreign_leaves({name: arguments[name] for name in _ON_A_WORKER})

    def prepare_on_worker(self, trigger: StreamingTrigger, context: Mapping[str, Any]) -> None:
        super().prepare_on_worker(trigger, context)
        assert isinstance(trigger, HttpStreamingTrigger)
        trigger.context = context


def _sent_auth_type(kind: Any) -> Any:
    """Give the import path of a class; one that has none, as of a Dag file, stays what it is."""
    if isinstance(kind, type) and not is_importable(kind):
        return kind
    return serialize_auth_type(kind)


def _plain(value: Any) -> Any:
    """Write tuples as lists, so that a pair of time-outs or of files can travel."""
    if isinstance(value, dict):
        return {name: _plain(member) for name, member in value.items()}
    return [_plain(member) for member in value] if type(value) in (tuple, list) else value
