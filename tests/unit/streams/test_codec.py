# SPDX-License-Identifier: Apache-2.0
"""The encoding of rows: what stays readable, what becomes text, what is refused."""

from __future__ import annotations

import datetime as dt
import json
import math

import pytest

from airflow_provider_iteration.streams.codec import decode_items, encode_items


@pytest.mark.parametrize(
    "item",
    [{"id": 1, "name": "x", "price": 1.5, "tags": ["a", None], "ok": True}, "text", [], {}, None, 0.0, -1.25],
)
def test_ordinary_json_stays_readable(item: object) -> None:
    """Plain JSON is stored as plain JSON."""
    assert encode_items([item]).enc == "json"


@pytest.mark.parametrize(
    "item",
    [
        "nul \0 inside",
        "lone \ud800 surrogate",
        float("inf"),
        -0.0,
        1e20,
        1e-9,
        2**63,
        b"\x00\xff",
        (1, 2),
        {"__type": "dict"},
        {"__classname__": "x"},
        {"key\0": 1},
    ],
)
def test_what_a_database_would_lose_becomes_text(item: object) -> None:
    """Values that JSON columns refuse or change are kept as one ASCII text."""
    encoded = encode_items([item])
    assert encoded.enc == "text"
    assert encoded.items.isascii()


@pytest.mark.parametrize(
    "item", ["\0", "\ud800", 1e20, 2**80, b"\x00\xff", (1, (2,)), {"$bytes": "no"}, {"$$x": 1}]
)
def test_text_gives_the_value_back(item: object) -> None:
    """Text is lossless, also for data that looks like its tags."""
    encoded = encode_items([item, "\0"])
    assert decode_items(encoded) == [item, "\0"]


def test_nan_comes_back() -> None:
    """NaN is kept."""
    (value,) = decode_items(encode_items([float("nan")]))
    assert math.isnan(value)


def test_negative_zero_keeps_its_sign() -> None:
    """Negative zero, which a numeric column forgets, is kept."""
    (value,) = decode_items(encode_items([-0.0]))
    assert math.copysign(1, value) == -1


def test_order_of_keys_is_restored() -> None:
    """A column that sorts keys does not change their order."""
    encoded = encode_items([{"name": 1, "id": 2, "z": {"bb": 1, "a": 2}}] * 3)
    sorted_by_column = json.loads(json.dumps(encoded.items, sort_keys=True))
    decoded = decode_items(type(encoded)(encoded.enc, sorted_by_column, encoded.shapes))
    assert [list(item) for item in decoded] == [["name", "id", "z"]] * 3
    assert list(decoded[0]["z"]) == ["bb", "a"]


def test_same_keys_in_two_orders_become_text() -> None:
    """Where one order cannot be told from another, the text keeps both."""
    items = [{"a": 1, "b": 2}, {"b": 1, "a": 2}]
    encoded = encode_items(items)
    assert [list(item) for item in decode_items(encoded)] == [["a", "b"], ["b", "a"]]


def test_unknown_type_is_refused_with_its_place() -> None:
    """A value that cannot be kept is named with its index and path."""
    with pytest.raises(TypeError, match=r"item\[1\]\['when'\] is of type datetime\.date"):
        encode_items([{}, {"when": dt.date(2026, 1, 1)}])


def test_unknown_key_type_is_refused() -> None:
    """Keys that JSON would turn into text are refused, not changed."""
    with pytest.raises(TypeError, match="keys must be str"):
        encode_items([{1: "x"}])


def test_unknown_encoding_is_refused() -> None:
    """A row of a newer version is an error, not a wrong value."""
    with pytest.raises(ValueError, match="newer version"):
        decode_items(type(encode_items([]))("zip", []))
