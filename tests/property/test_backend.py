# SPDX-License-Identifier: Apache-2.0
"""The XCom backend under random values and thresholds, around Airflow's own backend and object storage."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import pytest
from airflow.providers.common.io.xcom import backend as common_io
from airflow.sdk.bases.xcom import BaseXCom
from airflow.sdk.execution_time import task_runner, xcom
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_iteration.storage import folder_names, place_of
from airflow_provider_iteration.streams.xcom_store import XComPlace
from airflow_provider_iteration.xcom.backend import XComIterableBackend
from airflow_provider_iteration.xcom.iterable import XComIterable
from tests.support.supervisor import MemorySupervisor
from tests.support.values import TEXT

IDS: dict[str, Any] = {"dag_id": "shop", "task_id": "rows", "run_id": "r"}
BASES: dict[str, type[BaseXCom]] = {
    "airflow.sdk.execution_time.xcom.BaseXCom": BaseXCom,
    "airflow.providers.common.io.xcom.backend.XComObjectStorageBackend": common_io.XComObjectStorageBackend,
}
# What Airflow itself keeps.
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**60), 2**60)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT,
    lambda inner: (
        st.lists(inner, max_size=5)
        | st.dictionaries(TEXT.filter(lambda key: not key.startswith("__")), inner, max_size=4)
        | st.tuples(inner, inner)
        | st.sets(st.integers(), max_size=4)
        | st.dates()
    ),
    max_leaves=12,
)


@pytest.fixture(scope="module", autouse=True)
def channel() -> Iterator[Channel]:
    """The other end of the channel of a task that uses the backend, and places for files."""
    memory = MemorySupervisor()
    with (
        tempfile.TemporaryDirectory() as folder,
        mock.patch.object(task_runner, "SUPERVISOR_COMMS", memory, create=True),
        mock.patch.object(xcom, "XCom", XComIterableBackend),
        mock.patch.dict(
            os.environ,
            {
                "AIRFLOW__ITERATION__OFFLOAD_PATH": f"file://{folder}/ours",
                "AIRFLOW__COMMON_IO__XCOM_OBJECTSTORAGE_PATH": f"file://{folder}/theirs",
                "AIRFLOW__COMMON_IO__XCOM_OBJECTSTORAGE_THRESHOLD": "60",
            },
        ),
    ):
        yield Channel(memory, Path(folder))
    common_io._get_base_path.cache_clear()
    common_io._get_threshold.cache_clear()


class Channel(NamedTuple):
    """What is left of pushed values: rows, and files."""

    supervisor: MemorySupervisor
    folder: Path

    def left(self) -> tuple[list[str], list[Path]]:
        return self.supervisor.keys, [path for path in self.folder.rglob("*") if path.is_file()]


def pushed_and_pulled(backend: type[BaseXCom], value: Any) -> Any:
    backend.set("key", value, **IDS)
    return backend.get_one(key="key", **IDS)


def with_types(value: Any) -> Any:
    """Return a value with its types, so that they take part in a comparison."""
    if isinstance(value, dict):
        return {key: with_types(member) for key, member in value.items()}
    if isinstance(value, (list, tuple)):
        return (type(value), [with_types(member) for member in value])
    return (type(value), value)


def options(base: str, items: int, size: int) -> Any:
    return mock.patch.dict(
        os.environ,
        {
            "AIRFLOW__ITERATION__BASE_XCOM_BACKEND": base,
            "AIRFLOW__ITERATION__LAZY_LIST_ITEMS": str(items),
            "AIRFLOW__ITERATION__OFFLOAD_BYTES": str(size),
        },
    )


@pytest.mark.parametrize("base", BASES)
@settings(max_examples=60, deadline=None)
@given(value=VALUES, items=st.integers(0, 4), size=st.sampled_from([0, 1, 20, 200]))
def test_any_value_comes_back_as_from_the_wrapped_backend(
    base: str, channel: Channel, value: Any, items: int, size: int
) -> None:
    """X3: on both sides of both thresholds; and nothing is left when it is deleted."""
    expected = pushed_and_pulled(BASES[base], value)
    BASES[base].delete(key="key", **IDS)
    with options(base, items, size):
        found = pushed_and_pulled(XComIterableBackend, value)
        assert isinstance(found, XComIterable) == (type(value) is list and 0 < items < len(value))
        found = list(found) if isinstance(found, XComIterable) else found
        XComIterableBackend.delete(key="key", **IDS)
    # The object storage backend makes lists of inner tuples; a stream and our files do not.
    assert with_types(found) in (with_types(value), with_types(expected))
    assert channel.left() == ([], [])


@pytest.mark.parametrize("base", BASES)
@settings(max_examples=30, deadline=None)
@given(value=VALUES)
def test_what_is_below_the_thresholds_is_stored_byte_for_byte(
    base: str, channel: Channel, value: Any
) -> None:
    """The row is the one that the wrapped backend writes."""
    rows = []
    for backend in (BASES[base], XComIterableBackend):
        # The object storage backend makes names of its own.
        with options(base, 1000, 1_000_000), mock.patch("uuid.uuid4", return_value="one"):
            backend.set("key", value, **IDS)
            rows.append(channel.supervisor.rows.copy())
            backend.delete(key="key", **IDS)
    assert rows[0] == rows[1]


NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=30)


@given(dag_id=NAMES, task_id=NAMES, run_id=NAMES, map_index=st.integers(-1, 1000))
def test_folders_tell_the_task_instance(dag_id: str, task_id: str, run_id: str, map_index: int) -> None:
    """Whatever its ids are, its folders are plain names, and name it."""
    place = XComPlace(dag_id, task_id, run_id, map_index)
    names = folder_names(place)
    assert not any("/" in name or name in (".", "..", "") for name in names)
    assert place_of(names) == place
