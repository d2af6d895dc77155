# SPDX-License-Identifier: Apache-2.0
"""What the XCom backend decides about a value, and about a row; loaded when the first XCom is touched."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator
from typing import Any, NamedTuple

from airflow.sdk.bases.xcom import BaseXCom

from airflow_provider_iteration import _compat
from airflow_provider_iteration.streams.lazy import LazyIterable
from airflow_provider_iteration.streams.xcom_store import XComPlace
from airflow_provider_iteration.xcom.backend import XComIterableBackend
from airflow_provider_iteration.xcom.iterable import XComIterable
from airflow_provider_iteration.xcom.splitting import SplitList, split_list

AIRFLOWS_OWN = "airflow.sdk.execution_time.xcom.BaseXCom"

# References within other values are read by the wrapped backend.
_compat.allow_class(XComIterable)


class Stored(NamedTuple):
    """A row for the wrapped backend, with no more than Airflow itself passes to backends at times."""

    value: Any


def place_of_ids(dag_id: str, task_id: str, run_id: str, map_index: int | None) -> XComPlace:
    """Return the task instance that a backend is told of."""
    return XComPlace(dag_id, task_id, run_id, -1 if map_index is None else map_index)


def wrapped_backend() -> Any:
    """
    Return the backend that ``[iteration] base_xcom_backend`` names.

    :raises TypeError: if it is none that can be wrapped.
    """
    path = _compat.config_text("base_xcom_backend", AIRFLOWS_OWN)
    base = _compat.import_string(path)
    if not (isinstance(base, type) and issubclass(base, BaseXCom)) or issubclass(base, XComIterableBackend):
        raise TypeError(
            f"[iteration] base_xcom_backend: {path} is not an XCom backend to wrap: name a subclass of "
            "airflow.sdk.bases.xcom.BaseXCom other than XComIterableBackend"
        )
    return base


def refuse_unread(value: Any) -> None:
    """
    Say what to do instead of returning what is to be read only later, and has no reference.

    :raises TypeError: for a generator, ordinary or asynchronous, and for a lazy view of items.
    """
    if isinstance(value, LazyIterable) and not isinstance(value, XComIterable):
        raise TypeError(
            f"{value!r} was returned, of which nothing has been read, and which no XCom can hold: return "
            "list() of it, or use @task.stream and yield its items"
        )
    if isinstance(value, (Generator, AsyncGenerator)):
        name = getattr(value, "__qualname__", type(value).__qualname__)
        raise TypeError(
            f"the generator {name} was returned, of which nothing has run, and which no XCom can hold: use "
            "@task.stream, which makes a stream of what is yielded, or return a list"
        )


def is_long_list(key: str, value: Any) -> bool:
    """Tell whether a value is a list that is to be stored as a stream."""
    if type(value) is not list or key == _compat.SKIPPED_KEY:
        return False
    return 0 < _compat.config_int("lazy_list_items") < len(value)


def is_blocking(key: str, value: Any) -> bool:
    """Tell whether storing a value may take more than its one row."""
    return _compat.config_int("offload_bytes") > 0 or is_long_list(key, value)


def split(key: str, value: Any) -> SplitList | None:
    """Return the rows of a list that is to be stored as a stream; None for any other value."""
    if not is_long_list(key, value):
        return None
    try:
        return split_list(key, value, _compat.to_serde)
    except (TypeError, ValueError, RecursionError):
        # Keys that are no texts, of which Airflow makes texts, or what it refuses too: it is left to it.
        return None


def find_reference(stored: Any) -> XComIterable | None:
    """
    Return the stream that a stored value stands for; None if it is another value.

    :raises TypeError: if a newer version of this package wrote it.
    """
    if (parts := _compat.serde_parts(stored)) is None:
        return None
    class_name, version, content = parts
    if class_name != f"{XComIterable.__module__}.{XComIterable.__qualname__}":
        return None
    return XComIterable.deserialize(content, version)


def own_chunks(stored: Any, place: XComPlace, key: str) -> list[str]:
    """Return the keys of a row's chunks: none if it is another task's stream, which was passed on."""
    reference = find_reference(stored)
    if reference is None or (reference.place, reference.key) != (place, key):
        return []
    return reference.chunk_keys()
