# SPDX-License-Identifier: Apache-2.0
"""
Iterations: one callable over many items, so many at a time, in one process.

The modules here are pure: they import no Airflow.
"""

from __future__ import annotations

from airflow_provider_iteration.iteration.attempts import Item
from airflow_provider_iteration.iteration.engine import Sink
from airflow_provider_iteration.iteration.options import IterateOptions
from airflow_provider_iteration.iteration.outcomes import FailedItems, Outcome, Status
from airflow_provider_iteration.iteration.policies import (
    FailFast,
    FailurePolicy,
    MaxFailedItems,
    MaxFailedShare,
    RunAll,
    Verdict,
)
from airflow_provider_iteration.iteration.progress import Progress
from airflow_provider_iteration.iteration.retries import (
    FAIL,
    RETRY,
    SKIP,
    Classifier,
    Decision,
    by_type,
    first_of,
    retry_after,
)
from airflow_provider_iteration.iteration.runner import Iteration, Summary

__all__ = [
    "FAIL",
    "RETRY",
    "SKIP",
    "Classifier",
    "Decision",
    "FailFast",
    "FailedItems",
    "FailurePolicy",
    "Item",
    "IterateOptions",
    "Iteration",
    "MaxFailedItems",
    "MaxFailedShare",
    "Outcome",
    "Progress",
    "RunAll",
    "Sink",
    "Status",
    "Summary",
    "Verdict",
    "by_type",
    "first_of",
    "retry_after",
]
