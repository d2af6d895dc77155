# SPDX-License-Identifier: Apache-2.0
"""Live pipelines on a real deployment with one worker slot, so that a deadlock would show."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.api import ApiSettings, PagedApi
from harness.deployment import Deployment

pytestmark = [pytest.mark.timeout(900), pytest.mark.postgres]

HERE = Path(__file__).parent
FULL = bool(os.environ.get("FULL"))
TIMES = 10 if FULL else 2


class Stage:
    """
    The deployment, and what its streams are told.

    :param airflow: the deployment.
    :param evidence: the directory that both sides know.
    """

    def __init__(self, airflow: Deployment, evidence: Path) -> None:
        self.airflow = airflow
        self._evidence = evidence

    def tell(self, name: str, **settings: Any) -> None:
        """Say how many pages a stream has, how many are open, their text, and how it ends."""
        path = self._evidence / f"{name}.json"
        new = path.with_suffix(".new")
        new.write_text(json.dumps({"pages": 4, "open": 4, "word": "a", **settings}))
        new.replace(path)

    def lines(self, name: str) -> list[str]:
        """Return what items have left."""
        path = self._evidence / name
        return path.read_text().split() if path.exists() else []

    def forget(self, name: str) -> None:
        """Remove what items have left."""
        (self._evidence / name).unlink(missing_ok=True)

    def wait_lines(self, dag_id: str, run: str, name: str, count: int) -> None:
        """Wait until so many items were handled."""
        self.airflow.wait_for(
            dag_id, run, lambda: len(self.lines(name)) >= count, f"{count} items in {name}", seconds=90
        )


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """A deployment whose only worker slot a waiting task must not hold."""
    evidence = tmp_path_factory.mktemp("live")
    with Deployment(
        [HERE / "live_dags", HERE.parents[1] / "examples" / "live" / "dags"],
        database="postgresql",
        config={"AIRFLOW__CORE__PARALLELISM": "1"},
        environment={"EVIDENCE": str(evidence)},
        python_path=[HERE / "lib"],
    ) as deployment:
        yield Stage(deployment, evidence)


def words(word: str, count: int) -> list[str]:
    """Return the results of an iteration over a stream."""
    return [f"{word}-{number}".upper() for number in range(count)]


def test_consumer_begins_before_its_producer_has_ended(stage: Stage) -> None:
    """Items are handled as their pages come, each once, and the results are in order."""
    stage.forget("followed.seen")
    stage.tell("followed", pages=6, open=3)
    run = stage.airflow.trigger("followed")
    stage.wait_lines("followed", run, "followed.seen", 3)
    assert stage.airflow.task("followed", run, "pages").state == "deferred"
    stage.tell("followed", pages=6, open=6)
    assert stage.airflow.wait("followed", run) == "success"
    assert sorted(stage.lines("followed.seen")) == [f"a-{number}" for number in range(6)]
    assert stage.airflow.inspect.xcom("followed", run, "collected") == words("a", 6)


def test_consumer_with_a_time_limit_starts_on_a_worker(stage: Stage) -> None:
    """It waits in the triggerer all the same."""
    stage.tell("limited", open=0)
    run = stage.airflow.trigger("limited")
    stage.airflow.wait_task("limited", run, "handled", ["deferred"], 60)
    stage.tell("limited")
    assert stage.airflow.wait("limited", run) == "success"
    assert stage.airflow.inspect.xcom("limited", run, "collected") == words("a", 4)


def test_starved_consumer_gives_its_worker_back_and_goes_on(stage: Stage) -> None:
    """Ten times with FULL=1: nothing is done twice, and each result is in its place."""
    stage.forget("followed.seen")
    stage.tell("followed", pages=TIMES + 1, open=1)
    run = stage.airflow.trigger("followed")
    for page in range(1, TIMES + 1):
        stage.wait_lines("followed", run, "followed.seen", page)
        stage.airflow.wait_task("followed", run, "handled", ["deferred"], 60)
        stage.tell("followed", pages=TIMES + 1, open=page + 1)
    assert stage.airflow.wait("followed", run) == "success"
    assert sorted(stage.lines("followed.seen")) == sorted(f"a-{number}" for number in range(TIMES + 1))
    assert stage.airflow.inspect.xcom("followed", run, "collected") == words("a", TIMES + 1)


def test_old_page_is_never_used_after_both_are_cleared(stage: Stage) -> None:
    """Ten times with FULL=1: the data changes before each clear of producer and consumer."""
    stage.tell("followed", word="first")
    run = stage.airflow.run("followed")
    for number in range(TIMES):
        stage.forget("followed.seen")
        stage.tell("followed", word=f"w{number}")
        stage.airflow.clear("followed", run, ["pages", "handled", "collected"])
        assert stage.airflow.wait("followed", run) == "success"
        assert {line.partition("-")[0] for line in stage.lines("followed.seen")} == {f"w{number}"}
        assert stage.airflow.inspect.xcom("followed", run, "collected") == words(f"w{number}", 4)


def test_cleared_consumer_reads_what_is_there(stage: Stage) -> None:
    """Its producer has succeeded, and need not run again."""
    stage.tell("followed", word="kept")
    run = stage.airflow.run("followed")
    stage.tell("followed", word="unseen")
    stage.airflow.clear("followed", run, ["handled", "collected"])
    assert stage.airflow.wait("followed", run) == "success"
    assert stage.airflow.inspect.xcom("followed", run, "collected") == words("kept", 4)


def test_producer_that_is_cleared_alone_makes_its_consumer_begin_anew(stage: Stage) -> None:
    """While it is followed: what was read before does not count."""
    stage.forget("followed.seen")
    stage.tell("followed", word="old", open=2)
    run = stage.airflow.trigger("followed")
    stage.wait_lines("followed", run, "followed.seen", 2)
    stage.tell("followed", word="new")
    stage.airflow.clear("followed", run, ["pages"])
    assert stage.airflow.wait("followed", run) == "success"
    assert stage.airflow.inspect.xcom("followed", run, "collected") == words("new", 4)


def test_run_is_not_green_when_the_producer_fails_in_the_end(stage: Stage) -> None:
    """The consumer has read all pages by then, and is the last task."""
    stage.forget("followed.seen")
    stage.tell("followed", hold=True, fails=True)
    run = stage.airflow.trigger("followed")
    stage.wait_lines("followed", run, "followed.seen", 4)
    stage.tell("followed", fails=True)
    assert stage.airflow.wait("followed", run) == "failed"
    assert stage.airflow.task("followed", run, "handled").state == "failed"


def test_producer_that_is_tried_again_is_followed_again(stage: Stage) -> None:
    """The results are those of its last try, although the first one was read."""
    stage.tell("tried_again", hold=True, fails=True)
    run = stage.airflow.trigger("tried_again")
    stage.wait_lines("tried_again", run, "tried_again.seen", 4)
    stage.tell("tried_again", fails=True)
    stage.airflow.wait_for(
        "tried_again",
        run,
        lambda: stage.airflow.task("tried_again", run, "pages").try_number == 2,
        "a second try",
    )
    stage.tell("tried_again", word="b", pages=3)
    assert stage.airflow.wait("tried_again", run) == "success"
    assert stage.airflow.inspect.xcom("tried_again", run, "collected") == words("b", 3)


def test_consumer_of_a_skipped_task_is_skipped(stage: Stage) -> None:
    """As with the rule that a live consumer stands for."""
    run = stage.airflow.run("skipped_producer")
    assert stage.airflow.task("skipped_producer", run, "handled").state == "skipped"


def test_other_upstreams_count_as_always(stage: Stage) -> None:
    """One of them fails, and nothing is handled."""
    run = stage.airflow.trigger("failed_beside")
    assert stage.airflow.wait("failed_beside", run) == "failed"
    assert stage.airflow.task("failed_beside", run, "handled").state == "failed"
    assert "upstream tasks have failed: fails" in stage.airflow.inspect.task_log(
        "failed_beside", run, "handled"
    )
    assert stage.lines("never") == []


def test_live_iterations_follow_one_another(stage: Stage) -> None:
    """A generator task, an iteration over it, and another one over its results, with one slot for all."""
    run = stage.airflow.run("in_a_row", seconds=300)
    expected = [f"row-{number}".upper() for number in range(20)]
    assert stage.airflow.inspect.xcom("in_a_row", run, "collected") == expected


def test_plain_task_reads_on_its_worker(stage: Stage) -> None:
    """With the rule ``always`` it begins at once."""
    stage.tell("plain_consumer", open=2)
    run = stage.airflow.trigger("plain_consumer")
    stage.wait_lines("plain_consumer", run, "plain.seen", 2)
    assert stage.airflow.task("plain_consumer", run, "pages").state == "deferred"
    stage.tell("plain_consumer")
    assert stage.airflow.wait("plain_consumer", run) == "success"
    assert stage.airflow.inspect.xcom("plain_consumer", run, "reads") == words("a", 4)


def test_pages_of_an_api_are_followed(stage: Stage) -> None:
    """The third page is held until items of the first two were handled."""
    with PagedApi(ApiSettings(pages=5, items=3)) as api:
        stage.airflow.connect("live_shop", api.url)
        api.hold(3)
        run = stage.airflow.trigger("http_followed")
        stage.wait_lines("http_followed", run, "http.seen", 6)
        api.release(3)
        assert stage.airflow.wait("http_followed", run) == "success"
    assert stage.airflow.inspect.xcom("http_followed", run, "collected") == list(range(15))


def test_example_of_the_guide_runs(stage: Stage) -> None:
    """Every other order is enriched and loaded, and all of them are counted."""
    with PagedApi(ApiSettings(pages=5, items=3)) as api:
        stage.airflow.connect("shop", api.url)
        run = stage.airflow.run("following", seconds=200)
    found = [stage.airflow.inspect.xcom("following", run, name) for name in ("count", "total")]
    assert found == [15, sum(len(f"order {number}") for number in range(0, 15, 2))]


def test_what_is_no_stream_is_read_when_it_is_there(stage: Stage) -> None:
    """A list is no error."""
    run = stage.airflow.run("lists_too")
    assert stage.airflow.inspect.xcom("lists_too", run, "collected") == ["A", "B"]


# Pipelines with steps, further inputs, resources and constants: the Dags are in live_dags/steps.py.


def test_iteration_that_needs_few_items_waits_without_a_worker(stage: Stage) -> None:
    """The end of its producer is what it waits for, whose further items wake nobody."""
    stage.forget("shorter.seen")
    stage.tell("shorter", pages=6, open=2)
    run = stage.airflow.trigger("shorter")
    stage.wait_lines("shorter", run, "shorter.seen", 2)
    stage.airflow.wait_task("shorter", run, "labelled", ["deferred"], 60)
    stage.tell("shorter", pages=6, open=6)
    assert stage.airflow.wait("shorter", run) == "success"
    assert stage.airflow.inspect.xcom("shorter", run, "collected") == ["a-0:one", "a-1:two"]
    assert sorted(stage.lines("shorter.seen")) == ["a-0", "a-1"]
    assert stage.airflow.inspect.counts("shorter", run, "labelled").worker_starts == 2


def test_producer_that_is_cleared_meanwhile_changes_only_what_has_changed(stage: Stage) -> None:
    """Items that were read before are done again where their data is new, and only there."""
    stage.forget("shorter.seen")
    stage.tell("shorter", open=2)
    run = stage.airflow.trigger("shorter")
    stage.wait_lines("shorter", run, "shorter.seen", 2)
    stage.airflow.wait_task("shorter", run, "labelled", ["deferred"], 60)
    stage.airflow.clear("shorter", run, ["pages"])
    stage.tell("shorter")
    assert stage.airflow.wait("shorter", run) == "success"
    assert sorted(stage.lines("shorter.seen")) == ["a-0", "a-1"]


def test_cross_product_with_nothing_waits_once(stage: Stage) -> None:
    """There are no items whatever the producer writes, so it is skipped when that has ended."""
    stage.tell("nothing_beside", open=1)
    run = stage.airflow.trigger("nothing_beside")
    stage.airflow.wait_for(
        "nothing_beside",
        run,
        lambda: stage.airflow.inspect.counts("nothing_beside", run, "crossed").worker_starts == 1,
        "a stay on a worker",
        seconds=60,
    )
    stage.airflow.wait_task("nothing_beside", run, "crossed", ["deferred"], 60)
    stage.tell("nothing_beside", open=4)
    assert stage.airflow.wait("nothing_beside", run) == "success"
    assert stage.airflow.task("nothing_beside", run, "crossed").state == "skipped"
    assert stage.airflow.inspect.counts("nothing_beside", run, "crossed").worker_starts == 2


def test_pipeline_of_all_steps_is_followed(stage: Stage) -> None:
    """Its resource commits what was done before each pause, and the rest in the end."""
    stage.forget("transactions")
    stage.tell("all_steps", pages=4, open=3)
    run = stage.airflow.trigger("all_steps")
    stage.wait_lines("all_steps", run, "transactions", 1)
    stage.tell("all_steps", pages=4, open=4)
    assert stage.airflow.wait("all_steps", run) == "success"
    texts = ["a-0+a-0!", "a-2+a-2!", "x+y", "z"]
    assert stage.airflow.inspect.xcom("all_steps", run, "collected") == [f"to open {text}" for text in texts]
    assert set(stage.lines("transactions")) == {"committed"}


def test_operators_follow_a_stream(stage: Stage) -> None:
    """As functions do."""
    stage.tell("commands")
    run = stage.airflow.run("commands")
    assert stage.airflow.inspect.xcom("commands", run, "collected") == [f"a-{number}" for number in range(4)]


def test_branch_that_goes_past_a_waiting_consumer_skips_it(stage: Stage) -> None:
    """Although it has begun to wait."""
    stage.tell("not_chosen")
    run = stage.airflow.run("not_chosen")
    assert stage.airflow.task("not_chosen", run, "crossed").state == "skipped"
