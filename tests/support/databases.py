# SPDX-License-Identifier: Apache-2.0
"""Which databases tests of a deployment run on."""

from __future__ import annotations

import pytest

ONLY_POSTGRES = pytest.mark.parametrize(
    "airflow", [pytest.param("postgresql", marks=pytest.mark.postgres)], indirect=True
)
"""For what does not depend on the database, or that only a real one can show: once is enough."""
