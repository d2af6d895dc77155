# SPDX-License-Identifier: Apache-2.0
"""What all tests share: a home for Airflow of their own, XComs in memory."""

from __future__ import annotations

import os
import tempfile

import pytest

from harness.deployment import failed_starts

# Before anything imports Airflow, which makes its home when it is imported.
os.environ["AIRFLOW_HOME"] = tempfile.mkdtemp(prefix="airflow-tests-")
os.environ.setdefault("AIRFLOW__CORE__LOAD_EXAMPLES", "False")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Show each deployment that had to be started once more, with the ends of its logs."""
    for told in failed_starts:
        terminalreporter.section("a deployment did not start, and was started once more")
        terminalreporter.write_line(told)
