# SPDX-License-Identifier: Apache-2.0
"""The deployment itself, with a Dag that has nothing to do with this package."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from harness import deployment
from harness.deployment import Deployment
from harness.processes import wait_until

pytestmark = pytest.mark.timeout(300)

TINY = """
from airflow.providers.standard.sensors.date_time import DateTimeSensorAsync
from airflow.sdk import dag, task


@dag(schedule=None)
def tiny():
    @task
    def value():
        return {"answer": 42}

    value()


@dag(schedule=None)
def later():
    DateTimeSensorAsync(
        task_id="timer",
        target_time="{{ dag_run.start_date + macros.timedelta(seconds=dag_run.conf['seconds']) }}",
    )


tiny()
later()
"""


def processes_that_write_to(home: Path) -> list[psutil.Process]:
    """Return the processes that have a file of a home open, whoever their parent is now."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if any(Path(file.path).is_relative_to(home) for file in process.open_files()):
                found.append(process)
    return found


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """A deployment of these tests alone, so that they may break it."""
    dags = tmp_path_factory.mktemp("dags")
    (dags / "tiny.py").write_text(TINY)
    with Deployment([dags]) as deployment:
        yield deployment


@pytest.fixture(scope="module")
def finished(tiny: Deployment) -> str:
    """A run of the tiny Dag that has ended."""
    return tiny.run("tiny")


def test_run_of_a_plain_task_succeeds(tiny: Deployment, finished: str) -> None:
    """A run ends, and so does its task, in its first try."""
    value = tiny.task("tiny", finished, "value")
    assert (value.state, value.try_number) == ("success", 1)


def test_returned_value_is_in_the_database(tiny: Deployment, finished: str) -> None:
    """The stored value of an XCom can be read."""
    assert tiny.inspect.xcom("tiny", finished, "value") == {"answer": 42}


def test_missing_xcom_is_an_error_that_names_it(tiny: Deployment, finished: str) -> None:
    """A row that is not there is not the same as None."""
    with pytest.raises(KeyError, match="no XCom 'other'"):
        tiny.inspect.xcom("tiny", finished, "value", "other")


def test_plain_task_is_one_worker_start(tiny: Deployment, finished: str) -> None:
    """A plain task costs one start of a worker, one row, and no trigger."""
    counts = tiny.counts("tiny", finished, "value")
    assert (counts.worker_starts, counts.trigger_runs, counts.xcom_rows) == (1, 0, 1)


def test_requests_of_a_worker_are_counted(tiny: Deployment, finished: str) -> None:
    """A worker that runs a task and returns a value asks the api-server for both."""
    # The api-server writes its log a moment after it has answered.
    wait_until(
        lambda: tiny.counts("tiny", finished, "value").api_requests >= 2, 30, "both requests are in the log"
    )


def test_worker_starts_add_up_over_tries(tiny: Deployment) -> None:
    """A cleared task starts a worker again, under a new id."""
    run_id = tiny.run("tiny")
    before = tiny.task("tiny", run_id, "value").id
    tiny.clear("tiny", run_id, ["value"])
    after = tiny.wait_task("tiny", run_id, "value", ["success"], try_number=2).id
    assert (before == after, tiny.counts("tiny", run_id, "value").worker_starts) == (False, 2)


def test_deferred_task_is_two_worker_starts_and_a_trigger_run(tiny: Deployment) -> None:
    """A start, a trigger, and a start to resume."""
    counts = tiny.counts("later", tiny.run("later", {"seconds": 0}), "timer")
    assert (counts.worker_starts, counts.trigger_runs) == (2, 1)


def test_killed_triggerer_leaves_no_process(tiny: Deployment) -> None:
    """Its runner ends with it, and it can be started again."""
    tree = tiny.triggerer.tree()
    tiny.triggerer.kill()
    alive = psutil.wait_procs(tree, timeout=10)[1]
    tiny.triggerer.start()
    assert (len(tree) > 1, alive) == (True, [])


def test_restarted_triggerer_runs_the_trigger_of_the_killed_one(tiny: Deployment) -> None:
    """A trigger whose triggerer was killed is started once more by the next one."""
    run_id = tiny.trigger("later", {"seconds": 45})
    tiny.wait_task("later", run_id, "timer", ["deferred"])
    wait_until(lambda: tiny.counts("later", run_id, "timer").trigger_runs, 60, "the trigger runs")
    tiny.triggerer.kill()
    tiny.triggerer.start()
    state = tiny.wait("later", run_id)
    assert (state, tiny.counts("later", run_id, "timer").trigger_runs) == ("success", 2)


def test_failed_start_leaves_no_process(tmp_path: Path) -> None:
    """A Dag that cannot be imported is named, and every process that was started ends."""
    (tmp_path / "broken.py").write_text("from airflow.sdk import dag\nraise ValueError('no such Dag')\n")
    home = tmp_path / "home"
    with pytest.raises(RuntimeError, match="no such Dag"), Deployment([tmp_path / "broken.py"], home=home):
        pass
    assert processes_that_write_to(home) == []


def test_start_that_takes_too_long_is_tried_once_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first try is told in the end; the second one fails the tests, and leaves no process either."""
    told: list[str] = []
    monkeypatch.setattr(deployment, "START_SECONDS", 0.5)
    monkeypatch.setattr(deployment, "failed_starts", told)
    (tmp_path / "tiny.py").write_text(TINY)
    home = tmp_path / "home"
    with pytest.raises(TimeoutError, match="healthy: not"), Deployment([tmp_path / "tiny.py"], home=home):
        pass
    assert (len(told), "--- triggerer" in told[0]) == (1, True)
    assert processes_that_write_to(home) == []


def test_part_that_ends_while_the_deployment_starts_is_named(tmp_path: Path) -> None:
    """A start does not wait for an api-server that found its port taken."""
    (tmp_path / "tiny.py").write_text(TINY)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        config = {"AIRFLOW__API__PORT": str(taken.getsockname()[1])}
        with (
            pytest.raises(
                RuntimeError, match=r"api-server ended while the deployment started:\n(.|\n)*in use"
            ),
            Deployment([tmp_path / "tiny.py"], config=config),
        ):
            pass
