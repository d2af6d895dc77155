# SPDX-License-Identifier: Apache-2.0
"""One deployment for each database, shared by all tests of a session."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.deployment import Deployment

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
EXAMPLES = ("demo", "paging", "iterate", "events", "msgraph")


@pytest.fixture(scope="session")
def evidence(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory in which Dags leave files for the tests."""
    return tmp_path_factory.mktemp("evidence")


@pytest.fixture(scope="session", params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def airflow(request: pytest.FixtureRequest, evidence: Path) -> Iterator[Deployment]:
    """A running deployment with the Dags of this directory."""
    database = {"conn_type": "sqlite", "host": str(evidence / "many.db")}
    with Deployment(
        [HERE / "dags", *(ROOT / "examples" / name / "dags" for name in EXAMPLES)],
        database=request.param,
        environment={
            "EVIDENCE": str(evidence),
            "AIRFLOW_CONN_MANY_SQLITE": json.dumps(database),
        },
        python_path=[HERE / "lib"],
    ) as deployment:
        yield deployment
