# SPDX-License-Identifier: Apache-2.0
"""
The Airflow plugin of this package.

Airflow loads it in every process that runs a task, whichever Dag file that task comes from: the place to
allow the references of streams to be deserialised there.
"""

from __future__ import annotations

from airflow.plugins_manager import AirflowPlugin

from airflow_provider_iteration import _compat
from airflow_provider_iteration.xcom.iterable import XComIterable

_compat.allow_class(XComIterable)


class IterationPlugin(AirflowPlugin):
    """Makes streams readable in every process."""

    name = "iteration"
