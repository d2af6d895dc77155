# SPDX-License-Identifier: Apache-2.0
"""Values of every kind that a stream keeps."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

TEXT = st.text(st.characters(codec=None))
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | TEXT | st.binary(max_size=40)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4) | st.tuples(inner, inner)
    ),
    max_leaves=12,
)


def with_types_and_orders(value: Any) -> Any:
    """Return a value with its types and the order of its keys, so that both take part in a comparison."""
    if isinstance(value, dict):
        return [(key, with_types_and_orders(member)) for key, member in value.items()]
    if isinstance(value, (list, tuple)):
        return (type(value), [with_types_and_orders(member) for member in value])
    return (type(value), repr(value))
