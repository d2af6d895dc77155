# SPDX-License-Identifier: Apache-2.0
"""A deployment that has the XCom backend configured: it is a setting of all of it, hence one of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from harness.deployment import Deployment

pytestmark = [pytest.mark.timeout(400), pytest.mark.postgres]
HERE = Path(__file__).parent


class Backed(NamedTuple):
    """A deployment with the backend, a finished run of the Dag ``values``, and the storage path."""

    airflow: Deployment
    run: str
    storage: Path

    def xcom(self, task_id: str, key: str = "return_value") -> object:
        return self.airflow.inspect.xcom("values", self.run, task_id, key)

    def files(self, dag_id: str, run: str, folder: str = "xcoms") -> set[Path]:
        """Return the files of a run."""
        return {path for path in (self.storage / folder / dag_id / run).rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def backed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Backed]:
    storage = tmp_path_factory.mktemp("storage")
    config = {
        "AIRFLOW__CORE__XCOM_BACKEND": "airflow_provider_iteration.xcom.backend.XComIterableBackend",
        "AIRFLOW__ITERATION__LAZY_LIST_ITEMS": "3",
        "AIRFLOW__ITERATION__OFFLOAD_BYTES": "1000",
        "AIRFLOW__ITERATION__OFFLOAD_PATH": f"file://{storage}/xcoms",
        "AIRFLOW__ITERATION__CHECKPOINT_PATH": f"file://{storage}/checkpoints",
    }
    with Deployment(
        [HERE / "dags" / "backend.py"],
        database="postgresql",
        config=config,
        environment={"EVIDENCE": str(tmp_path_factory.mktemp("evidence"))},
        python_path=[HERE / "lib"],
    ) as airflow:
        yield Backed(airflow, airflow.run("values", seconds=200), storage)


@pytest.mark.parametrize(
    ("task_id", "expected"),
    [
        ("plain", ["list", 3, 3]),
        ("lazy", ["XComIterable", 5, 10]),
        ("streamed", ["XComIterable", 1000, sum(range(1000))]),
        ("iterated", ["XComIterable", 1000, 2 * sum(range(1000))]),
        ("triggered", ["XComIterable", 100, sum(range(100))]),
        ("inside", ["dict", 980, True]),
        ("outside", ["dict", 100_000, True]),
    ],
)
def test_consumer_gets_the_data(backed: Backed, task_id: str, expected: list[object]) -> None:
    """X2, X3: on both sides of both thresholds, whoever wrote it: a worker, a generator, a trigger."""
    found = backed.xcom(task_id)
    reference = [*backed.airflow.inspect.xcom_rows("values", backed.run, task_id)]
    assert (found, len(reference)) == (expected, 1)


def test_what_is_not_touched_is_stored_as_ever(backed: Backed) -> None:
    """Rows below the thresholds are Airflow's own."""
    assert backed.xcom("short") == [0, 1, 2]
    assert backed.xcom("small") == {"text": "x" * 980}
    assert backed.files("values", backed.run) & set((backed.storage / "xcoms").rglob("small/**/*")) == set()


def test_live_stream_is_followed_through_files(backed: Backed) -> None:
    """Its rows are in storage while it is written; the consumer reads them there before it has ended."""
    run = backed.airflow.run("followed_files")
    lengths = [100 + len(str(number)) for number in range(20)] + [len("last")]
    assert backed.airflow.inspect.xcom("followed_files", run, "summed") == [len(lengths), sum(lengths)]
    assert [path for path in backed.files("followed_files", run) if "/awaited/" in str(path)]


def test_large_rows_are_small(backed: Backed) -> None:
    """The trigger's chunks are in files too."""
    rows = backed.airflow.inspect.xcom_rows("values", backed.run, "pages")
    assert len(rows) > 2
    assert max(row.bytes for row in rows) < 1000
    assert [path for path in backed.files("values", backed.run) if "/pages/" in str(path)]


def test_mapped_tasks_expand_over_a_lazy_list(backed: Backed) -> None:
    """An instance for each item."""
    found = [backed.airflow.inspect.xcom("values", backed.run, "identity", map_index=n) for n in range(4)]
    assert found == [0, 1, 2, 3]


@pytest.fixture(scope="module")
def generators(backed: Backed) -> str:
    """A run of the Dag whose tasks return generators."""
    run = backed.airflow.trigger("generators")
    assert backed.airflow.wait("generators", run) == "failed"
    return run


@pytest.mark.parametrize(
    ("task_id", "name"), [("ordinary", "counted"), ("asynchronous", "generators.<locals>.asynchronous")]
)
def test_returned_generator_is_an_error_in_the_log(
    backed: Backed, generators: str, task_id: str, name: str
) -> None:
    """The message reaches the log of the task, and says what to do."""
    log = backed.airflow.inspect.task_log("generators", generators, task_id)
    assert f"the generator {name} was returned" in log
    assert "use @task.stream" in log


def test_generator_function_is_emptied_by_airflow(backed: Backed, generators: str) -> None:
    """Airflow runs it and drops what it yields, so that no backend hears of it."""
    assert backed.airflow.task("generators", generators, "dropped").state == "success"
    assert backed.airflow.inspect.xcom_rows("generators", generators, "dropped") == []


def test_run_again_leaves_no_file_of_before(backed: Backed) -> None:
    """Neither of a value, nor of a trigger's chunks, nor of a generator's."""
    before = backed.files("values", backed.run)
    tasks = ["large", "pages", "generated"]
    backed.airflow.clear("values", backed.run, tasks)
    for task_id in tasks:
        backed.airflow.wait_task("values", backed.run, task_id, ["success"], try_number=2)
    after = backed.files("values", backed.run)
    again = {path for path in before if {*path.parts} & {*tasks}}
    assert again & after == set()
    assert before - again <= after
    # A mapping is two XComs here: of the task, and of its one key.
    assert len([path for path in after if "large" in path.parts]) == 2


def test_files_of_a_deleted_run_are_collected(backed: Backed) -> None:
    """Of values and of checkpoints; those of other runs, and what is no file of this package, stay."""
    kept, gone = (backed.airflow.run("kept_files") for _ in range(2))
    foreign = backed.storage / "xcoms" / "kept_files" / gone / "notes.txt"
    foreign.touch()
    files = {
        run: backed.files("kept_files", run) | backed.files("kept_files", run, "checkpoints")
        for run in (kept, gone)
    }
    assert {run: len(paths) for run, paths in files.items()} == {kept: 5, gone: 6}
    backed.airflow.delete_run("kept_files", gone)
    assert "removed 0 files" in backed.airflow.airflow("iteration", "gc")
    dry = backed.airflow.airflow("iteration", "gc", "--dry-run", "--min-age", "0")
    assert all(str(path) in dry for path in files[gone] - {foreign})
    assert all(path.exists() for path in files[gone])
    backed.airflow.airflow("iteration", "gc", "--min-age", "0")
    assert {path for path in files[gone] if path.exists()} == {foreign}
    assert all(path.exists() for path in files[kept] | backed.files("values", backed.run))
