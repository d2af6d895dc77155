# SPDX-License-Identifier: Apache-2.0
"""The stock HTTP operator, paging inside one run of a trigger."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from airflow.providers.http.operators.http import HttpOperator
from airflow.providers.http.triggers.http import serialize_auth_type

from airflow_provider_iteration.operators.start import refuse_callables
from airflow_provider_iteration.operators.streaming import StreamingOperator
from airflow_provider_iteration.pagination import Paginator, SinglePage, load_paginator
from airflow_provider_iteration.triggers.http import DEFAULT_PAGE_RETRIES, HttpStreamingTrigger

_REPLACED = {
    "pagination_function": "say how the next page is asked for with paginator=",
    "response_check": "handle the pages in the task that reads them",
    "response_filter": "name the items with items_path=, or filter in the task that reads them",
    "retry_args": "pages are retried: see page_retries=",
}


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

    :param paginator: how the next page is asked for: a spec of
        :mod:`airflow_provider_iteration.pagination`, or its dict; None is one page.
    :param items_path: JMESPath of the list of items in a page; None streams whole pages.
    :param page_retries: how often one page is asked for again after 429, 5xx and connection errors; a
        ``Retry-After`` is kept to.
    :param allowed_hosts: hosts, besides the connection's, that next links and redirects may lead to. They
        are sent the connection's headers.
    """

    def __init__(
        self,
        *,
        paginator: Paginator | Mapping[str, Any] | None = None,
        items_path: str | None = None,
        page_retries: int = DEFAULT_PAGE_RETRIES,
        allowed_hosts: Sequence[str] = (),
        **kwargs: Any,
    ) -> None:
        for name, instead in _REPLACED.items():
            if kwargs.get(name) is not None:
                raise ValueError(f"{name}: HttpStreamingOperator does not take it; {instead}")
        super().__init__(**kwargs)
        self.paginator = SinglePage() if paginator is None else load_paginator(paginator)
        self.items_path = items_path
        self.page_retries = page_retries
        self.allowed_hosts = allowed_hosts
        refuse_callables(
            endpoint=self.endpoint, data=self.data, headers=self.headers, extra_options=self.extra_options
        )

    def make_trigger(self, context: Mapping[str, Any]) -> HttpStreamingTrigger:
        return HttpStreamingTrigger(
            http_conn_id=self.http_conn_id,
            auth_type=serialize_auth_type(self.auth_type),
            method=self.method,
            endpoint=self.endpoint,
            headers=self.headers,
            data=self.data,
            extra_options={**self.extra_options, **self.request_kwargs},
            paginator=self.paginator,
            items_path=self.items_path,
            page_retries=self.page_retries,
            allowed_hosts=self.allowed_hosts,
        )
