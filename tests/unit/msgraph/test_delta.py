# SPDX-License-Identifier: Apache-2.0
"""Delta queries over several Dag runs."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from harness.graph import GraphSettings, removed
from tests.unit.msgraph.conftest import Graph, Runs


class Deltas:
    """Runs of a Dag with one delta query."""

    def __init__(self, graph: Graph, runs: Runs) -> None:
        self.graph = graph
        self.runs = runs

    async def run(self, run_id: str, state: str = "success", **arguments: Any) -> list[str]:
        """Make one run that ends in a state; return the ids of what came."""
        self.runs.states[run_id] = "running"
        arguments = {"delta": True, "items_path": "value", **arguments}
        items = await self.graph.stream("users/delta", run_id=run_id, **arguments)
        self.runs.states[run_id] = state
        return ["-" + item["id"] if "@removed" in item else item["id"] for item in items]

    def change(self, *numbers: int) -> None:
        self.graph.api.changes += [removed(number) for number in numbers]

    def clean(self, run_id: str) -> None:
        rows = self.graph.xcoms.rows
        for place in [place for place in rows if place[0] == "delta_link" and run_id in place]:
            del rows[place]


@pytest.fixture
def deltas(graph: Graph, runs: Runs) -> Deltas:
    graph.api.reset(GraphSettings(pages=2, items=1))
    return Deltas(graph, runs)


FULL = ["u0", "u1"]


async def test_second_run_has_what_changed(deltas: Deltas) -> None:
    """The first run is full; the second has the changes, what was removed marked as Graph does."""
    first = await deltas.run("r1")
    deltas.change(1)
    assert (first, await deltas.run("r2")) == (FULL, ["-u1"])


async def test_run_that_failed_is_passed_over(deltas: Deltas) -> None:
    """A run that failed after its own task had succeeded counts for nothing: its changes come again."""
    await deltas.run("r1")
    deltas.change(1)
    await deltas.run("r2", "failed")
    deltas.change(2)
    await deltas.run("r3", "failed")
    assert await deltas.run("r4") == ["-u1", "-u2"]


async def test_run_that_still_runs_is_passed_over(deltas: Deltas) -> None:
    """What an earlier run may still fail to deal with comes again."""
    await deltas.run("r1")
    deltas.change(1)
    await deltas.run("r2", "running")
    assert await deltas.run("r3") == ["-u1"]


async def test_run_that_succeeds_later_counts(deltas: Deltas) -> None:
    """States are those of now: an earlier run that has succeeded in the meantime is gone on from."""
    await deltas.run("r1", "running")
    deltas.change(1)
    await deltas.run("r2", "failed")
    deltas.runs.states["r1"] = "success"
    assert await deltas.run("r3") == ["-u1"]


async def test_retry_begins_where_its_run_began(deltas: Deltas) -> None:
    """A run that is cleared asks for the same changes again, not for those after its own."""
    await deltas.run("r1")
    deltas.change(1)
    await deltas.run("r2")
    assert await deltas.run("r2") == ["-u1"]


async def test_expired_link_is_a_full_run(deltas: Deltas, capsys: pytest.CaptureFixture[str]) -> None:
    """A delta link that Graph has forgotten (410) is a full run, and the log says so."""
    await deltas.run("r1")
    deltas.graph.api.forget_deltas()
    assert await deltas.run("r2") == FULL
    assert "The delta link has expired (HTTP 410): everything is fetched" in capsys.readouterr().out


async def test_cleaned_link_is_a_full_run(deltas: Deltas, caplog: pytest.LogCaptureFixture) -> None:
    """A link whose XCom was cleaned is a full run, and the log says so."""
    await deltas.run("r1")
    deltas.clean("r1")
    with caplog.at_level(logging.WARNING):
        assert await deltas.run("r2") == FULL
    assert "1 runs of this Dag have succeeded, but none before this one has a delta link" in caplog.text


async def test_cleaned_link_behind_a_failed_run(deltas: Deltas, caplog: pytest.LogCaptureFixture) -> None:
    """Neither is there a way past a failed run to a link that was cleaned."""
    await deltas.run("r1")
    await deltas.run("r2", "failed")
    deltas.clean("r1")
    with caplog.at_level(logging.WARNING):
        assert await deltas.run("r3") == FULL
    assert "The delta link of run r1 is gone" in caplog.text


async def test_explicit_link(deltas: Deltas) -> None:
    """A link that is given is where the stream goes on; the next run goes on from its end."""
    deltas.change(1, 2)
    link = f"{deltas.graph.api.url}/v1.0/users/delta?$deltatoken=change-1"
    assert await deltas.run("r1", delta=False, delta_link=link) == ["-u2"]
    deltas.change(3)
    assert await deltas.run("r2") == ["-u3"]


async def test_no_delta_link_at_the_end(deltas: Deltas, capsys: pytest.CaptureFixture[str]) -> None:
    """A URL that is no delta query is said to be none."""
    deltas.runs.states["r1"] = "running"
    await deltas.graph.stream("users", delta=True)
    assert "The last page has no delta link" in capsys.readouterr().out


async def test_foreign_xcom_is_not_used(deltas: Deltas, caplog: pytest.LogCaptureFixture) -> None:
    """An XCom with that key which somebody else wrote leads nowhere."""
    await deltas.run("r1")
    for place in [place for place in deltas.graph.xcoms.rows if place[0] == "delta_link"]:
        deltas.graph.xcoms.rows[place] = '"https://elsewhere.example"'
    with caplog.at_level(logging.WARNING):
        assert await deltas.run("r2") == FULL
    assert "was written by somebody else" in caplog.text


def test_delta_is_json(graph: Graph) -> None:
    """A delta query with a response_type makes no sense."""
    with pytest.raises(ValueError, match="leave response_type out"):
        graph.trigger(delta=True, response_type="bytes")
