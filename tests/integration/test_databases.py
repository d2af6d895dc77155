# SPDX-License-Identifier: Apache-2.0
"""What the columns of real databases do to rows."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy.dialects import postgresql

from airflow_provider_iteration.streams.codec import EncodedItems, decode_items, encode_items
from harness.environment import own_database
from tests.support.values import VALUES, with_types_and_orders

ROWS = sa.Table(
    "rows",
    sa.MetaData(),
    sa.Column("id", sa.Integer, primary_key=True),
    # As Airflow declares the column of XComs.
    sa.Column("value", sa.JSON().with_variant(postgresql.JSONB, "postgresql")),
)
EXAMPLES = 2000 if os.environ.get("FULL") else 150


@pytest.fixture(scope="module", params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def engine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[sa.Engine]:
    """A database with a table that holds values as Airflow's XComs do."""
    home: Path = tmp_path_factory.mktemp("database")
    with own_database(request.param, home) as url:
        engine = sa.create_engine(url)
        ROWS.metadata.create_all(engine)
        yield engine
        engine.dispose()


@pytest.mark.timeout(300)
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(items=st.lists(VALUES, max_size=5))
def test_any_row_comes_back_from_a_database(engine: sa.Engine, items: list[object]) -> None:
    """X3: NUL, NaN, lone surrogates, key order, bytes and large numbers survive a real column."""
    encoded = encode_items(items)
    value = {"items": encoded.items, "shapes": encoded.shapes}
    with engine.begin() as connection:
        connection.execute(sa.delete(ROWS))
        connection.execute(sa.insert(ROWS).values(value=value))
        stored = connection.execute(sa.select(ROWS.c.value)).scalar_one()
    decoded = decode_items(EncodedItems(encoded.enc, stored["items"], stored["shapes"]))
    assert with_types_and_orders(decoded) == with_types_and_orders(items)
