# SPDX-License-Identifier: Apache-2.0
"""The Dags that one deployment of the tests has."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[2]
FILES = [*ROOT.glob("tests/integration/dags/*.py"), *ROOT.glob("examples/*/dags/*.py")]


def test_ids_are_unique() -> None:
    """Of two Dags with one id, Airflow runs now the one and now the other."""
    ids = Counter(
        name or other
        for file in FILES
        for name, other in re.findall(r"@dag\([^@]*?\)\ndef (\w+)|\bDAG\(\s*\"(\w+)\"", file.read_text())
    )
    assert len(ids) > 20
    assert [dag_id for dag_id, count in ids.items() if count > 1] == []
