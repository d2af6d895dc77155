# SPDX-License-Identifier: Apache-2.0
"""
How the next page of an HTTP API is asked for, and when to stop.

A paginator is a frozen spec, written as an object or as a plain dict; :class:`PageState` walks with it.
Nothing here sends a request, and nothing here imports Airflow.
"""

from __future__ import annotations

from airflow_provider_iteration.pagination.base import Paginator, check_items_known
from airflow_provider_iteration.pagination.counting import Offset, PageNumber
from airflow_provider_iteration.pagination.hosts import HostPolicy, checked_hosts
from airflow_provider_iteration.pagination.links import LinkHeader, NextLink
from airflow_provider_iteration.pagination.loading import dump_paginator, load_paginator
from airflow_provider_iteration.pagination.paths import compile_path, find, items_at
from airflow_provider_iteration.pagination.request import (
    PageRequest,
    PageView,
    merge_body,
    merge_query,
    resolve_next,
)
from airflow_provider_iteration.pagination.specs import Cursor, SinglePage
from airflow_provider_iteration.pagination.state import PageState
from airflow_provider_iteration.pagination.stops import (
    AllOf,
    AnyOf,
    EmptyPage,
    HasMore,
    MaxItems,
    MaxPages,
    Progress,
    StopCondition,
    TotalPages,
    TotalReached,
)

__all__ = [
    "AllOf",
    "AnyOf",
    "Cursor",
    "EmptyPage",
    "HasMore",
    "HostPolicy",
    "LinkHeader",
    "MaxItems",
    "MaxPages",
    "NextLink",
    "Offset",
    "PageNumber",
    "PageRequest",
    "PageState",
    "PageView",
    "Paginator",
    "Progress",
    "SinglePage",
    "StopCondition",
    "TotalPages",
    "TotalReached",
    "check_items_known",
    "checked_hosts",
    "compile_path",
    "dump_paginator",
    "find",
    "items_at",
    "load_paginator",
    "merge_body",
    "merge_query",
    "resolve_next",
]
