# SPDX-License-Identifier: Apache-2.0
"""What the XCom backend stores, gives back, and deletes."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar

import pytest
from airflow.sdk.bases.xcom import BaseXCom
from airflow.sdk.execution_time.xcom import resolve_xcom_backend

from airflow_provider_iteration.exceptions import MissingFile
from airflow_provider_iteration.streams import Extent
from airflow_provider_iteration.streams.xcom_store import XComPlace
from airflow_provider_iteration.xcom import backend
from airflow_provider_iteration.xcom.backend import XComIterableBackend
from airflow_provider_iteration.xcom.iterable import XComIterable
from tests.support.supervisor import MemorySupervisor
from tests.unit.xcom.conftest import Configure

IDS: dict[str, Any] = {"dag_id": "shop", "task_id": "rows", "run_id": "manual__2026-01-01T00:00:00+00:00"}
PLACE = XComPlace(**IDS)
NAME = "airflow_provider_iteration.xcom.backend.XComIterableBackend"
IMPORTS = """\
import importlib, sys
importlib.import_module(sys.argv[1])
from airflow.sdk.execution_time.xcom import XCom
print(XCom.__name__, "airflow_provider_iteration._compat" in sys.modules)
"""


class Marking(BaseXCom):
    """A backend to wrap that leaves its mark, and keeps something elsewhere."""

    kept: ClassVar[list[Any]] = []

    @staticmethod
    def serialize_value(value: Any, **place: Any) -> Any:
        return {"marked": [place["key"], BaseXCom.serialize_value(value)]}

    @staticmethod
    def deserialize_value(result: Any) -> Any:
        return BaseXCom.deserialize_value(backend_row(result.value["marked"][1]))

    @classmethod
    def purge(cls, xcom: Any, *args: Any) -> None:
        cls.kept.append(xcom.value["marked"][1])


def backend_row(value: Any) -> Any:
    from airflow_provider_iteration.xcom.stored import Stored

    return Stored(value)


def stream_of(task_id: str) -> XComIterable:
    place = XComPlace("shop", task_id, IDS["run_id"])
    return XComIterable(place, key="return_value", run="0" * 32, extents=[Extent(1, 5, 2)], pages=2)


def push(value: Any, key: str = "return_value") -> None:
    XComIterableBackend.set(key, value, **IDS)


def pull(key: str = "return_value") -> Any:
    return XComIterableBackend.get_one(key=key, **IDS)


def files(storage: Path) -> list[Path]:
    return sorted(path for path in storage.rglob("*") if path.is_file())


# Importing and configuring.


@pytest.mark.parametrize("module", ["airflow.sdk.definitions.xcom_arg", "airflow.sdk.execution_time.xcom"])
def test_it_can_be_imported_in_the_middle_of_airflow(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Airflow imports it while its own modules are half there; nothing else of this package comes along."""
    monkeypatch.setenv("AIRFLOW__CORE__XCOM_BACKEND", NAME)
    run = subprocess.run([sys.executable, "-c", IMPORTS, module], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["XComIterableBackend", "False"]


def test_airflow_accepts_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """It resolves as `[core] xcom_backend`."""
    monkeypatch.setenv("AIRFLOW__CORE__XCOM_BACKEND", NAME)
    assert resolve_xcom_backend() is XComIterableBackend


@pytest.mark.parametrize("path", [NAME, "airflow.sdk.ObjectStoragePath", "json.dumps"])
def test_what_cannot_be_wrapped_is_refused(path: str, supervisor: Any, configure: Configure) -> None:
    """The error names the option."""
    configure(base_xcom_backend=path)
    with pytest.raises(TypeError, match=r"\[iteration\] base_xcom_backend: .* not an XCom backend to wrap"):
        push(1)


# What it does not touch.


@pytest.mark.parametrize(
    "value", [None, 1, "x" * 9000, [1] * 9000, {"b": 1, "a": (1, 2)}, datetime(2026, 1, 1, tzinfo=UTC)]
)
def test_nothing_changes_by_default(value: Any, supervisor: MemorySupervisor) -> None:
    """Without options every value is stored as Airflow stores it, byte for byte, in one row."""
    push(value)
    push_airflows_own(value, "own")
    assert supervisor.keys == ["own", "return_value"]
    first, second = supervisor.rows.values()
    assert first == second
    assert pull() == value


def push_airflows_own(value: Any, key: str) -> None:
    BaseXCom.set(key, value, **IDS)


def test_values_below_the_thresholds_are_the_wrapped_backends(
    supervisor: MemorySupervisor, configure: Configure, storage: Path
) -> None:
    """The wrapped backend is asked to store, to read and to purge, with everything Airflow says."""
    configure(base_xcom_backend=f"{__name__}.Marking", lazy_list_items=3, offload_bytes=1000)
    push([1, 2, 3])
    assert supervisor.stored("return_value") == {"marked": ["return_value", [1, 2, 3]]}
    assert pull() == [1, 2, 3]
    assert files(storage) == []
    Marking.kept.clear()
    XComIterableBackend.delete(key="return_value", **IDS)
    assert Marking.kept == [[1, 2, 3]]


def test_values_above_the_thresholds_are_the_wrapped_backends_too(
    supervisor: MemorySupervisor, configure: Configure, storage: Path
) -> None:
    """What is in a file is what the wrapped backend made, and it is asked to purge that."""
    configure(base_xcom_backend=f"{__name__}.Marking", offload_bytes=100)
    push("x" * 100)
    (file,) = files(storage)
    assert json.loads(file.read_text()) == {"marked": ["return_value", "x" * 100]}
    assert pull() == "x" * 100
    Marking.kept.clear()
    XComIterableBackend.delete(key="return_value", **IDS)
    assert (Marking.kept, files(storage)) == (["x" * 100], [])


def test_what_the_scheduler_reads_stays_as_it_is(
    supervisor: MemorySupervisor, configure: Configure, storage: Path
) -> None:
    """The scheduler reads which tasks were skipped from the database itself."""
    configure(offload_bytes=1)
    value = {"skipped": [f"task_{number}" for number in range(100)]}
    push(value, "skipmixin_key")
    assert supervisor.stored("skipmixin_key") == value


# References.


def test_references_are_read_without_being_allowed(
    supervisor: MemorySupervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not by the process, not by the deployment."""
    stream = stream_of("other")
    push(stream)
    monkeypatch.setattr("airflow.sdk.serde._extra_allowed", set())
    assert pull() == stream


def test_references_bypass_the_wrapped_backend(supervisor: MemorySupervisor, configure: Configure) -> None:
    """So any backend can be wrapped."""
    push_airflows_own(stream_of("other"), "own")
    configure(base_xcom_backend=f"{__name__}.Marking")
    push(stream_of("other"))
    assert supervisor.stored("return_value") == supervisor.stored("own")
    assert pull() == stream_of("other")


def test_references_within_values_are_read(supervisor: MemorySupervisor) -> None:
    """In lists and mappings."""
    push({"streams": [stream_of("other")]})
    assert pull() == {"streams": [stream_of("other")]}


# Lists.


@pytest.fixture
def lazy(supervisor: MemorySupervisor, configure: Configure) -> MemorySupervisor:
    configure(lazy_list_items=3)
    return supervisor


def test_long_list_comes_back_lazy(lazy: MemorySupervisor) -> None:
    """As a stream, which is read in chunks."""
    push([1, 2, 3, 4])
    value = pull()
    assert isinstance(value, XComIterable)
    assert (len(value), list(value), value[-1]) == (4, [1, 2, 3, 4], 4)


@pytest.mark.parametrize("value", [[], [1, 2, 3], (1, 2, 3, 4), {"a": [1, 2, 3, 4]}, "abcdef"])
def test_other_values_stay(value: Any, lazy: MemorySupervisor) -> None:
    """Short lists, and what is no list."""
    push(value)
    assert (pull(), lazy.keys) == (value, ["return_value"])


def test_large_list_has_several_chunks(lazy: MemorySupervisor) -> None:
    """A row aims at 256 KiB; the reference is written last."""
    push(["x" * 100_000] * 10)
    assert len(lazy.keys) == 5
    assert lazy.messages[-1] == ("SetXCom", "return_value")
    assert list(pull()) == ["x" * 100_000] * 10


def test_items_are_what_they_would_be_in_a_list(lazy: MemorySupervisor) -> None:
    """Types that Airflow knows, and the order of keys."""
    items = [datetime(2026, 1, 1, tzinfo=UTC), (1, 2), {"b": 1, "a": 2}, {3}, stream_of("other")]
    push(items)
    assert list(pull()) == items


def test_list_that_a_stream_cannot_keep_is_left_to_airflow(lazy: MemorySupervisor) -> None:
    """Airflow makes texts of keys; a stream does not."""
    push([{1: "a"}] * 4)
    assert (pull(), lazy.keys) == ([{"1": "a"}] * 4, ["return_value"])


def test_list_that_nobody_can_keep_is_airflows_error(lazy: MemorySupervisor) -> None:
    """And nothing is written before it is found."""
    with pytest.raises(TypeError, match="(?i)cannot serialize"):
        push([1, 2, 3, object()])
    assert lazy.keys == []


def test_length_for_mapped_tasks_is_sent(lazy: MemorySupervisor) -> None:
    """With the reference, not with the chunks."""
    XComIterableBackend.set("return_value", [1, 2, 3, 4], **IDS, _mapped_length=4)
    assert sorted(map(str, lazy.mapped_lengths.values())) == ["4", "None"]


# Files.


@pytest.fixture
def offloading(supervisor: MemorySupervisor, configure: Configure, storage: Path) -> MemorySupervisor:
    configure(offload_bytes=100)
    return supervisor


@pytest.mark.parametrize(
    "value", ["x" * 99, list(range(100)), {"é\ud800\0": (1, 2, float("inf"), "x" * 99)}, "\0" * 99]
)
def test_large_value_is_in_a_file(value: Any, offloading: MemorySupervisor, storage: Path) -> None:
    """X2, X3: the consumer gets the value; the database has a small row."""
    push(value)
    assert pull() == value
    assert len(files(storage)) == 1
    assert len(json.dumps(offloading.stored("return_value"))) < 300


def test_value_at_the_threshold_is_in_the_database(offloading: MemorySupervisor, storage: Path) -> None:
    """Two quotes and 98 letters are 100 bytes."""
    push("x" * 98)
    assert offloading.stored("return_value") == "x" * 98
    assert files(storage) == []


def test_the_run_is_part_of_the_path(offloading: MemorySupervisor, storage: Path) -> None:
    """For a lifecycle rule."""
    XComIterableBackend.set("return_value", "x" * 100, **IDS, map_index=7)
    (file,) = files(storage)
    assert file.relative_to(storage).parts[:-1] == ("shop", IDS["run_id"], "rows", "7")


def test_chunks_of_a_long_list_are_files(
    offloading: MemorySupervisor, storage: Path, configure: Configure
) -> None:
    """Both options together: lazy, and out of the database."""
    configure(lazy_list_items=3)
    push(["x" * 100_000] * 10)
    assert len(files(storage)) == 4
    assert list(pull()) == ["x" * 100_000] * 10


def test_without_a_path_there_is_an_error(supervisor: MemorySupervisor, configure: Configure) -> None:
    """It names the option."""
    configure(offload_bytes=10)
    with pytest.raises(ValueError, match=r"\[iteration\] offload_path is not set"):
        push("x" * 100)


def test_missing_file_is_an_error_that_says_why(offloading: MemorySupervisor, storage: Path) -> None:
    """X2: never the path as the value."""
    push("x" * 100)
    files(storage)[0].unlink()
    with pytest.raises(MissingFile, match=r"a value of shop\.rows in run manual__.* is gone.*lifecycle rule"):
        pull()


@pytest.mark.parametrize(
    "file",
    ["../secret.xcom.json", "shop/r/rows/-1/../../secret.xcom.json", "shop/r/rows/-1/x", "/etc/passwd"],
)
def test_forged_path_is_refused(file: str, offloading: MemorySupervisor) -> None:
    """Rows can be written through the API by people who cannot read the storage."""
    push("x" * 100)
    (place,) = offloading.rows
    row = json.loads(offloading.rows[place])
    row["__data__"]["file"] = file
    offloading.rows[place] = json.dumps(row)
    with pytest.raises(ValueError, match="not one of|not enough values|invalid literal"):
        pull()


def test_without_the_backend_a_file_is_an_error(offloading: MemorySupervisor) -> None:
    """X2: also for a process that lacks it."""
    push("x" * 100)
    with pytest.raises(ImportError, match="OffloadedValue was not found in allow list"):
        BaseXCom.get_one(key="return_value", **IDS)


# Coroutines.


async def test_coroutines_store_and_read(lazy: MemorySupervisor, configure: Configure, storage: Path) -> None:
    """aset and aget_one do the same."""
    configure(offload_bytes=100)
    await XComIterableBackend.aset("list", [1, 2, 3, 4], **IDS)
    await XComIterableBackend.aset("text", "x" * 100, **IDS)
    assert list(await XComIterableBackend.aget_one(key="list", **IDS) or ()) == [1, 2, 3, 4]
    assert await XComIterableBackend.aget_one(key="text", **IDS) == "x" * 100


async def test_files_are_not_written_on_the_loop(
    offloading: MemorySupervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A slow storage holds nobody else up."""
    threads: list[threading.Thread] = []
    original = offloading.send

    def send(msg: Any) -> Any:
        threads.append(threading.current_thread())
        return original(msg)

    monkeypatch.setattr(offloading, "send", send)
    await XComIterableBackend.aset("text", "x" * 100, **IDS)
    assert len(threads) == 1
    assert threads[0] is not threading.current_thread()


# Generators.


def generator() -> Iterator[int]:
    yield 1


async def async_generator() -> AsyncIterator[int]:
    yield 1


def test_lazy_view_is_an_error_that_says_what_to_do(supervisor: MemorySupervisor) -> None:
    """Nothing is read to store it, and nothing is stored; a reference is a small row as ever."""
    with pytest.raises(TypeError, match=r"was returned, of which nothing has been read.*use @task\.stream"):
        push(stream_of("rows").map(str))
    assert supervisor.keys == []


@pytest.mark.parametrize("function", [generator, async_generator])
def test_generator_is_an_error_that_says_what_to_do(function: Any, supervisor: MemorySupervisor) -> None:
    """It names the function, and @task.stream."""
    with pytest.raises(
        TypeError, match=rf"the generator {function.__name__} was returned.*use @task\.stream"
    ):
        push(function())
    assert supervisor.messages == []


# Deleting.


def test_deleting_a_list_deletes_its_chunks(lazy: MemorySupervisor) -> None:
    """The reference first, so that nobody reads one whose rows are going."""
    push(["x" * 100_000] * 10)
    XComIterableBackend.delete(key="return_value", **IDS)
    assert lazy.keys == []
    assert next(key for kind, key in lazy.messages if kind == "DeleteXCom") == "return_value"


def test_deleting_every_key_asks_once_for_each(lazy: MemorySupervisor) -> None:
    """As each try does, which names the chunks too."""
    push(["x" * 100_000] * 10)
    keys = ["return_value", *(key for key in lazy.keys if key != "return_value")]
    lazy.messages.clear()
    for key in keys:
        XComIterableBackend.delete(key=key, **IDS)
    assert len(lazy.messages) == 2 * len(keys)
    assert (lazy.keys, backend._deleted) == ([], set())


def test_a_chunk_that_is_written_again_can_be_deleted_again(supervisor: MemorySupervisor) -> None:
    """What was deleted with its reference is not taken for gone for ever."""
    mine = stream_of("rows")
    push(mine)
    XComIterableBackend.delete(key="return_value", **IDS)
    for key in mine.chunk_keys():
        push({}, key)
        XComIterableBackend.delete(key=key, **IDS)
    assert (supervisor.keys, backend._deleted) == ([], set())


def test_deleting_a_stream_that_was_passed_on_leaves_it(supervisor: MemorySupervisor) -> None:
    """Its rows are another task's."""
    push(stream_of("other"))
    XComIterableBackend.delete(key="return_value", **IDS)
    assert len([kind for kind, _ in supervisor.messages if kind == "DeleteXCom"]) == 1


def test_deleting_a_large_value_deletes_its_file(offloading: MemorySupervisor, storage: Path) -> None:
    """Also if the file is gone already."""
    push("x" * 100)
    push("y" * 100, "gone")
    next(file for file in files(storage) if "y" in file.read_text()).unlink()
    XComIterableBackend.delete(key="return_value", **IDS)
    XComIterableBackend.delete(key="gone", **IDS)
    assert (files(storage), offloading.keys) == ([], [])


def test_deleting_a_list_deletes_the_files_of_its_chunks(
    offloading: MemorySupervisor, storage: Path, configure: Configure
) -> None:
    """Nothing is left of both options together."""
    configure(lazy_list_items=3)
    push(["x" * 100_000] * 10)
    XComIterableBackend.delete(key="return_value", **IDS)
    assert (files(storage), offloading.keys) == ([], [])


def test_deleting_what_is_not_there(supervisor: MemorySupervisor) -> None:
    """Is no error."""
    XComIterableBackend.delete(key="return_value", **IDS)
    assert supervisor.keys == []
