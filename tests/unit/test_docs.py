# SPDX-License-Identifier: Apache-2.0
"""What the documentation says stands on tests."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

from airflow.providers.http.operators.http import HttpOperator

ROOT = Path(__file__).parents[2]
AIP = ROOT / "docs" / "reference" / "aip-104.rst"
TABLE = ROOT / "docs" / "howto" / "from-http-operator.rst"


def test_each_row_names_a_test_that_there_is() -> None:
    """H5: the comparison with the stock operator is proved row by row."""
    named = set(re.findall(r"``(test_\w+)``", TABLE.read_text()))
    defined = {
        name
        for path in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"^(?:async )?def (test_\w+)", path.read_text(), re.MULTILINE)
    }
    assert named
    assert named - defined == set()


def test_each_test_on_the_page_about_aip_104_is_there() -> None:
    """The page says what is proved, and by which test of which file."""
    named = set(re.findall(r"``(tests/[\w/.]+)::(\w+)``", AIP.read_text()))
    missing = {
        f"{path}::{name}"
        for path, name in named
        if not re.search(rf"^(async )?def {name}\(", (ROOT / path).read_text(), re.MULTILINE)
    }
    assert len(named) > 100
    assert missing == set()


def test_table_has_every_argument_of_the_stock_operator() -> None:
    """An argument that the stock operator gains must find its row."""
    arguments = set(inspect.signature(HttpOperator.__init__).parameters) - {"self", "kwargs"}
    rows = set(re.findall(r"``(\w+)``", TABLE.read_text()))
    assert arguments - rows == set()


def test_every_page_is_in_the_index() -> None:
    """A page that nobody finds is not documentation."""
    docs = ROOT / "docs"
    listed = "\n".join(path.read_text() for path in (docs / "index.rst", docs / "reference" / "index.rst"))
    pages = {
        path.relative_to(docs).with_suffix("").as_posix().removeprefix("reference/")
        for path in docs.rglob("*.rst")
        if path.name != "index.rst"
    }
    assert {page for page in pages if page not in listed} == set()
