# SPDX-License-Identifier: Apache-2.0
"""Values as Airflow serialises them."""

from __future__ import annotations

from typing import Any

# Since 3.2 (airflow.sdk.module_loading), which does not say that it exports it.
from airflow.sdk.module_loading import import_string as import_string  # type: ignore[attr-defined]

# Where serialised values are allowed into a process, one class at a time. Since 3.3.
from airflow.sdk.serde import allow_class as allow_class


def to_serde(value: Any) -> Any:
    """Make JSON of a value as Airflow does for its XComs: dates, decimals, pydantic models and others."""
    # Since 3.1 (airflow.sdk.serde).
    from airflow.sdk.serde import serialize

    return serialize(value)


def serde_parts(data: Any) -> tuple[str, int, Any] | None:
    """Return class name, version and content of a serialised object; None for anything else."""
    # Since 3.1 (airflow.sdk.serde).
    from airflow.sdk.serde import decode

    try:
        parts: tuple[str, int, Any] = decode(data)
    except (KeyError, TypeError, ValueError):
        return None
    return parts


def to_serde_parts(class_name: str, version: int, content: Any) -> dict[str, Any]:
    """Return what :func:`serde_parts` takes apart."""
    from airflow.sdk.serde import encode

    data: dict[str, Any] = encode(class_name, version, content)
    return data


def from_serde(data: Any) -> Any:
    """Give back what :func:`to_serde` was given; only classes that the deployment allows."""
    from airflow.sdk.serde import deserialize

    return deserialize(data)
