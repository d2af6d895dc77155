# SPDX-License-Identifier: Apache-2.0
"""
Many items in one Airflow task instance, and many events from one trigger run.

Airflow imports this package in every process before its own configuration is ready, so nothing is imported
here: each public name is loaded from its module when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow_provider_iteration.decorators.iterate import iterate
    from airflow_provider_iteration.exceptions import StopStream
    from airflow_provider_iteration.triggers.xcoms import push_xcom, push_xcoms
    from airflow_provider_iteration.xcom.iterable import XComIterable
    from airflow_provider_iteration.xcom.pipeline import stream

__version__ = "0.1.0"

__all__ = [
    "StopStream",
    "XComIterable",
    "__version__",
    "iterate",
    "push_xcom",
    "push_xcoms",
    "stream",
]

_MODULES = {
    "StopStream": "airflow_provider_iteration.exceptions",
    "XComIterable": "airflow_provider_iteration.xcom.iterable",
    "iterate": "airflow_provider_iteration.decorators.iterate",
    "push_xcom": "airflow_provider_iteration.triggers.xcoms",
    "push_xcoms": "airflow_provider_iteration.triggers.xcoms",
    "stream": "airflow_provider_iteration.xcom.pipeline",
}
"""Where each public name lives. A new one needs a line here, in ``__all__`` and above for type checkers."""


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(_MODULES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
