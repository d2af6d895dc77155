# SPDX-License-Identifier: Apache-2.0
"""The stock Microsoft Graph operator, paging inside one run of a trigger. Needs the extra ``msgraph``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from airflow.providers.microsoft.azure.operators.msgraph import MSGraphAsyncOperator

from airflow_provider_iteration.http.retries import DEFAULT_PAGE_RETRIES, PageRetriesLike
from airflow_provider_iteration.operators.start import foreign_leaves, refuse_callables
from airflow_provider_iteration.operators.streaming import StreamingOperator
from airflow_provider_iteration.pagination import Paginator, load_paginator
from airflow_provider_iteration.triggers.msgraph import RESULT_KEY, MSGraphStreamingTrigger
from airflow_provider_iteration.triggers.streaming import StreamingTrigger

# What may be something that cannot be sent to the triggerer; the pages are then fetched on a worker.
_ON_A_WORKER = (
    "pagination_function",
    "result_processor",
    "event_handler",
    "serializer",
    "data",
    "proxies",
)


class MSGraphStreamingOperator(StreamingOperator, MSGraphAsyncOperator):  # type: ignore[misc]
    """
    Pages through Microsoft Graph inside one run of a trigger: no worker start for each page.

    Arguments not named here are those of
    :class:`airflow.providers.microsoft.azure.operators.msgraph.MSGraphAsyncOperator` and of
    :class:`~airflow_provider_iteration.operators.streaming.StreamingOperator`::

        MSGraphStreamingOperator(
            task_id="users", conn_id="msgraph", url="users/delta", delta=True,
            query_parameters={"$select": "id,displayName"}, items_path="value",
        )

    The result is a lazy sequence of what the stock operator gathers in a list: its pages, or the items of
    what ``result_processor`` returns for each. It is a sequence also where there is one page.

    ``pagination_function``, ``result_processor`` and ``event_handler`` are called for one page at a time.
    Given as import paths (``"shop.graph.ids"``) they are called in the triggerer; given as functions, they
    cannot be sent there, and the pages are fetched on a worker. The same goes for a ``serializer`` that
    cannot be imported, and for ``data`` that is not JSON.

    :param paginator: how the next page is asked for: a spec of
        :mod:`airflow_provider_iteration.pagination`, or its dict; None follows ``@odata.nextLink``, and
        where a page has none but an ``@odata.count``, counts by ``$skip`` and ``$top``.
    :param items_path: JMESPath of the list of items in a page, such as ``"value"``; None streams whole
        pages.
    :param pagination_function: says after a page what to ask for next, as for the stock operator; instead
        of ``paginator``. In the triggerer its ``operator`` has the arguments of the request only.
    :param result_processor: makes of a page what is streamed; a list adds its items.
    :param event_handler: gets the event that the stock trigger would send for a page, and returns the page
        in it; for a page that failed it may raise, or end the stream with what it returns.
    :param delta: go on from the delta link of the newest earlier Dag run that has succeeded as a whole,
        and keep one for the next.
    :param delta_link: delta link to go on from (templated).
    :param page_retries: how often one page is asked for again after 429, 5xx and connection errors, with
        ``Retry-After`` kept to; or a :class:`~airflow_provider_iteration.http.retries.PageRetries`, or its
        dict, to say more. Kiota's own retries are off.
    :param rate_limit: how many requests may start in which time, such as ``"20/s"``, ``"100/m"``.
    :param allowed_hosts: hosts, besides the connection's, that next links and redirects may lead to.
    :param warn_on_non_idempotent: whether it is logged that a method may be sent twice that should not.
    """

    template_fields: Sequence[str] = (*MSGraphAsyncOperator.template_fields, "delta_link")

    def __init__(
        self,
        *,
        paginator: Paginator | Mapping[str, Any] | None = None,
        items_path: str | None = None,
        pagination_function: Callable[..., Any] | str | None = None,
        result_processor: Callable[..., Any] | str | None = None,
        event_handler: Callable[..., Any] | str | None = None,
        delta: bool = False,
        delta_link: str | None = None,
        page_retries: PageRetriesLike = DEFAULT_PAGE_RETRIES,
        rate_limit: str | None = None,
        allowed_hosts: Sequence[str] = (),
        warn_on_non_idempotent: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.paginator = None if paginator is None else load_paginator(paginator)
        self.items_path = items_path
        # The stock operator's own defaults are functions, which could not be sent.
        self.pagination_function: Any = pagination_function
        self.result_processor: Any = result_processor
        self.event_handler: Any = event_handler
        self.delta = delta
        self.delta_link = delta_link
        self.page_retries = page_retries
        self.rate_limit = rate_limit
        self.allowed_hosts = allowed_hosts
        self.warn_on_non_idempotent = warn_on_non_idempotent
        refuse_callables(
            url=self.url,
            path_parameters=self.path_parameters,
            query_parameters=self.query_parameters,
            headers=self.headers,
        )

    def make_trigger(self, context: Mapping[str, Any]) -> MSGraphStreamingTrigger:
        return MSGraphStreamingTrigger(
            url=self.url,
            response_type=self.response_type,
            path_parameters=self.path_parameters,
            url_template=self.url_template,
            method=self.method,
            query_parameters=self.query_parameters,
            headers=self.headers,
            data=self.data,
            conn_id=self.conn_id,
            timeout=self.timeout,
            proxies=self.proxies,
            scopes=self.scopes,
            api_version=self.api_version,
            serializer=type(self.serializer),
            paginator=self.paginator,
            items_path=self.items_path,
            pagination_function=self.pagination_function,
            result_processor=self.result_processor,
            event_handler=self.event_handler,
            delta=self.delta,
            delta_link=self.delta_link,
            key=self.key if self.do_xcom_push else RESULT_KEY,
            page_retries=self.page_retries,
            rate_limit=self.rate_limit,
            allowed_hosts=self.allowed_hosts,
            warn_on_non_idempotent=self.warn_on_non_idempotent,
        )

    def worker_reasons(self, trigger: StreamingTrigger) -> Iterator[str]:
        _, arguments = trigger.serialize()
        return foreign_leaves({name: arguments[name] for name in _ON_A_WORKER})

    def prepare_on_worker(self, trigger: StreamingTrigger, context: Mapping[str, Any]) -> None:
        super().prepare_on_worker(trigger, context)
        assert isinstance(trigger, MSGraphStreamingTrigger)
        trigger.context = context
        trigger.operator = self
