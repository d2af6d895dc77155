# SPDX-License-Identifier: Apache-2.0
"""What all tests share: a home for Airflow of their own, XComs in memory."""

from __future__ import annotations

import os
import tempfile

# Before anything imports Airflow, which makes its home when it is imported.
os.environ["AIRFLOW_HOME"] = tempfile.mkdtemp(prefix="airflow-tests-")
os.environ.setdefault("AIRFLOW__CORE__LOAD_EXAMPLES", "False")
