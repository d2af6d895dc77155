# SPDX-License-Identifier: Apache-2.0
"""
How the next page of an HTTP API is asked for, and when to stop.

A paginator is a frozen spec, written as an object or as a plain dict; :class:`PageState` walks with it.
Nothing here sends a request, and nothing here imports Airflow.
"""

from __future__ import annotations

from airflow_provider_iteration.pagination.hosts import HostPolicy
from airflow_provider_iteration.pagination.loading import dump_paginator, load_paginator
from airflow_provider_iteration.pagination.paths import compile_path, find, items_at
from airflow_provider_iteration.pagination.request import PageRequest, PageView, merge_query, resolve_next
from airflow_provider_iteration.pagination.specs import Cursor, NextLink, Paginator, SinglePage
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
    TotalReached,
)

__all__ = [
    "AllOf",
    "AnyOf",
    "Cursor",
    "EmptyPage",
    "HasMore",
    "HostPolicy",
    "MaxItems",
    "MaxPages",
    "NextLink",
    "PageRequest",
    "PageState",
    "PageView",
    "Paginator",
    "Progress",
    "SinglePage",
    "StopCondition",
    "TotalReached",
    "compile_path",
    "dump_paginator",
    "find",
    "items_at",
    "load_paginator",
    "merge_query",
    "resolve_next",
]
