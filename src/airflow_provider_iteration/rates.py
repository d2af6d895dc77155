# SPDX-License-Identifier: Apache-2.0
"""Rates as text, such as ``"20/s"``, and the limiters that keep to them. Imports no Airflow."""

from __future__ import annotations

import re
from typing import Any, NamedTuple, Self

from aiolimiter import AsyncLimiter

_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0}
_RATE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*/\s*([smh])\s*", re.ASCII)
_FORM = 'expected a text such as "20/s", "100/m" or "1000/h"'


class Rate(NamedTuple):
    """
    So many starts in so many seconds.

    :param starts: how many, above 0.
    :param seconds: length of the period, in seconds.
    """

    starts: float
    seconds: float

    @classmethod
    def parse(cls, argument_name: str, value: Any) -> Self:
        """
        Read a rate.

        :param argument_name: the argument to name in an error.
        :param value: ``"N/s"``, ``"N/m"`` or ``"N/h"``.
        :raises TypeError: if it is no text.
        :raises ValueError: if it is another text, or the number is 0.
        """
        if not isinstance(value, str):
            raise TypeError(f"{argument_name}: {_FORM}, got {type(value).__name__}")
        found = _RATE.fullmatch(value)
        if found is None or float(found[1]) == 0:
            raise ValueError(f"{argument_name}: {_FORM}, got {value!r}")
        return cls(float(found[1]), _SECONDS[found[2]])

    def limiter(self) -> AsyncLimiter:
        """
        Make a limiter for the running event loop that spaces starts evenly.

        A bucket that starts full would let twice the number through within its first period.
        """
        return AsyncLimiter(1, self.seconds / self.starts)
