# SPDX-License-Identifier: Apache-2.0
"""
The Microsoft Graph operator against the stock one, on PostgreSQL.

Both page through a local Graph with the real Kiota and azure-identity, 6 and 12 pages. Triggers of the
database count what is written: every XCom row with its length, so that a row which is written again counts
again, and every change of a task instance's state. The first run of each is made beforehand, since it pays
for imports in each process. The scheduler may lose the stock operator between two pages; the figures are
then those up to there.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from benchmarks import HERE, publish
from harness.deployment import Deployment
from harness.graph import GraphApi, GraphSettings
from harness.tls import TestAuthority

SHORT, LONG = 6, 12
ITEMS, TEXT = 200, 100
TRIES = 3
OURS, STOCK = "bench_graph_ours", "bench_graph_stock"
COUNTERS = """
CREATE TABLE bench_xcom (run_id text, task_id text, bytes bigint);
CREATE TABLE bench_state (run_id text, task_id text, state text, at timestamptz DEFAULT clock_timestamp());
CREATE FUNCTION bench_count_xcom() RETURNS trigger AS $$ BEGIN
  INSERT INTO bench_xcom VALUES (NEW.run_id, NEW.task_id, octet_length(NEW.value::text)); RETURN NEW;
END $$ LANGUAGE plpgsql;
CREATE FUNCTION bench_count_state() RETURNS trigger AS $$ BEGIN
  INSERT INTO bench_state VALUES (NEW.run_id, NEW.task_id, NEW.state); RETURN NEW;
END $$ LANGUAGE plpgsql;
CREATE TRIGGER bench_xcom AFTER INSERT OR UPDATE ON xcom
  FOR EACH ROW EXECUTE FUNCTION bench_count_xcom();
CREATE TRIGGER bench_state AFTER UPDATE ON task_instance
  FOR EACH ROW WHEN (OLD.state IS DISTINCT FROM NEW.state) EXECUTE FUNCTION bench_count_state();
"""

CHANGES = """
SELECT count(*) FILTER (WHERE state = 'running') AS worker_starts,
  count(*) FILTER (WHERE state = 'deferred') AS trigger_runs,
  count(*) AS transitions,
  extract(epoch FROM max(at) - min(at)) AS seconds
FROM bench_state"""


@dataclass(frozen=True)
class Measured:
    """What one run cost. ``seconds`` is from the first change of the task's state to the last."""

    worker_starts: int
    trigger_runs: int
    transitions: int
    pages_done: int
    seconds: float
    bytes: int
    digest: str | None


def main() -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        GraphApi(TestAuthority(Path(folder)).server()) as graph,
        Deployment([HERE / "dags"], database="postgresql", python_path=[HERE / "lib"]) as airflow,
    ):
        airflow.connect_as("bench_graph", graph.connection())
        bench = Bench(airflow, graph)
        for dag_id in (OURS, STOCK):
            bench.run(dag_id, 1)
        runs = {
            (dag_id, pages): bench.best(dag_id, pages) for dag_id in (OURS, STOCK) for pages in (SHORT, LONG)
        }
    ours, stock = (figures(runs[dag_id, SHORT], runs[dag_id, LONG]) for dag_id in (OURS, STOCK))
    publish(
        "msgraph",
        {
            "pages": LONG,
            "ours": ours,
            "stock": stock,
            "page_s_ratio": round(stock["page_s"] / ours["page_s"], 1),
            "bytes_ratio": round(ours["bytes_12"] / ours["bytes_6"], 2),
            "results_equal": equal(runs),
        },
    )


class Bench:
    """Runs the Dags, and counts in the database."""

    def __init__(self, airflow: Deployment, graph: GraphApi) -> None:
        self._airflow = airflow
        self._graph = graph
        self._engine = sa.create_engine(airflow.inspect.database_url, isolation_level="AUTOCOMMIT")
        with self._engine.connect() as connection:
            connection.exec_driver_sql(COUNTERS)

    def best(self, dag_id: str, pages: int) -> Measured:
        """Run until all pages are done, at most three times; otherwise return the run that came farthest."""
        tries: list[Measured] = []
        while len(tries) < TRIES and not any(done.digest for done in tries):
            tries.append(self.run(dag_id, pages))
        return max(tries, key=lambda done: (done.digest is not None, done.pages_done))

    def run(self, dag_id: str, pages: int) -> Measured:
        """Run a Dag once over so many pages."""
        self._graph.reset(GraphSettings(pages=pages, items=ITEMS, text=TEXT))
        run = self._airflow.trigger(dag_id)
        state = self._airflow.wait(dag_id, run, 600)
        changes = self._rows(CHANGES, run)
        written = self._rows("SELECT coalesce(sum(bytes), 0) FROM bench_xcom", run)
        return Measured(
            changes.worker_starts,
            changes.trigger_runs,
            changes.transitions,
            len({*self._graph.paths()}),
            float(changes.seconds),
            int(written[0]),
            self._airflow.inspect.xcom(dag_id, run, "digest") if state == "success" else None,
        )

    def _rows(self, query: str, run: str) -> Any:
        with self._engine.connect() as connection:
            where = " WHERE run_id = :run AND task_id = 'pages'"
            return connection.execute(sa.text(query + where), {"run": run}).one()


def figures(short: Measured, long: Measured) -> dict[str, Any]:
    """
    Return the figures of one operator; all but ``bytes_6`` are of the long run.

    ``bytes_12`` of a run that did not finish is what was written for its ``pages_done``.
    """
    return {
        "worker_starts": long.worker_starts,
        "trigger_runs": long.trigger_runs,
        "transitions": long.transitions,
        "pages_done": long.pages_done,
        "page_s": round(long.seconds / max(long.pages_done, 1), 3),
        "bytes_6": short.bytes,
        "bytes_12": long.bytes,
        "finished": long.digest is not None,
    }


def equal(runs: dict[tuple[str, int], Measured]) -> bool | None:
    """Compare the results where the stock operator finished; None where it never did."""
    pairs = [(runs[OURS, pages].digest, runs[STOCK, pages].digest) for pages in (SHORT, LONG)]
    finished = [pair for pair in pairs if pair[1] is not None]
    return all(ours == stock for ours, stock in finished) if finished else None


if __name__ == "__main__":
    main()
