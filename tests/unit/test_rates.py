# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pytest

from airflow_provider_iteration.rates import Rate


@pytest.mark.parametrize(
    ("text", "count", "seconds"),
    [("20/s", 20, 1), ("90/m", 90, 60), ("1000/h", 1000, 3600), (" 0.5 / s ", 0.5, 1)],
)
def test_a_rate_is_read(text: str, count: float, seconds: float) -> None:
    """H9: a rate is a number per second, minute or hour."""
    assert Rate.parse("rate_limit", text) == (count, seconds)


@pytest.mark.parametrize("text", ["20", "0/s", "-1/s", "20/d", "x/s", "20/ss", "", "1e3/s", "٢/s"])
def test_another_text_is_refused_with_the_form(text: str) -> None:
    """An error names the argument and shows what is right."""
    with pytest.raises(ValueError, match=r'rate_limit: expected a text such as "20/s".*got'):
        Rate.parse("rate_limit", text)


@pytest.mark.parametrize("value", [20, 20.0, None, True])
def test_what_is_no_text_is_refused(value: Any) -> None:
    """A bare number says nothing about the period."""
    with pytest.raises(TypeError, match="rate_limit: expected a text"):
        Rate.parse("rate_limit", value)


async def test_starts_are_spaced_evenly() -> None:
    """No window of a period has more starts than the rate allows, the first one included."""
    limiter = Rate.parse("rate_limit", "100/s").limiter()
    loop = asyncio.get_running_loop()
    starts = []
    for _ in range(12):
        async with limiter:
            starts.append(loop.time())
    gaps = [after - before for before, after in itertools.pairwise(starts)]
    assert min(gaps) > 0.008
