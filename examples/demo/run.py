# SPDX-License-Identifier: Apache-2.0
"""Starts a real Airflow and a paged API, streams 50 pages, and prints what it cost."""

from __future__ import annotations

import os
import time
from pathlib import Path

from harness.api import ApiSettings, PagedApi
from harness.deployment import Deployment

PAGES, ITEMS = 50, 200
HERE = Path(__file__).parent


def main() -> None:
    began = time.monotonic()
    print(f"Starting an API of {PAGES} pages and an Airflow of its own (SQLite) ...", flush=True)
    with PagedApi(ApiSettings(pages=PAGES, items=ITEMS)) as api, Deployment([HERE / "dags"]) as airflow:
        airflow.connect("shop", api.url)
        print(f"Up after {time.monotonic() - began:.0f} s. Running the Dag 'orders' ...", flush=True)
        run = airflow.run("orders")
        report(airflow, run, len(api.requests))
        if os.environ.get("KEEP"):
            keep(airflow)
    print(f"Everything is ended; the demo took {time.monotonic() - began:.0f} s.")


def report(airflow: Deployment, run: str, requests: int) -> None:
    """Print what the run delivered and cost."""
    counts = airflow.counts("orders", run, "pages")
    items = airflow.inspect.xcom("orders", run, "count")
    seconds = airflow.task("orders", run, "pages").seconds or 0.0
    if items != PAGES * ITEMS or counts.worker_starts:
        raise SystemExit(f"the demo went wrong: {items} items, {counts}")
    print(
        f"""
  pages fetched                      {requests}
  items read lazily by a plain task  {items}
  seconds of the streaming task      {seconds:.1f}
  its worker starts                  {counts.worker_starts}
  its trigger runs                   {counts.trigger_runs}
  its XCom rows                      {counts.xcom_rows}
  hops of an operator that defers
  for each page                      {PAGES} trigger runs and {PAGES + 1} worker starts
"""
    )


def keep(airflow: Deployment) -> None:
    """Leave everything up until Ctrl-C."""
    print(f"The UI is at {airflow.address} (no login). Press Ctrl-C to end everything.", flush=True)
    try:
        while True:
            time.sleep(3600)
    except KeyboardInterrupt:
        print()


if __name__ == "__main__":
    main()
