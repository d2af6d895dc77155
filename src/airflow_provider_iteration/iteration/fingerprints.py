# SPDX-License-Identifier: Apache-2.0
"""Short digests of inputs, by which a later try sees whether an item is still the one that was done."""

from __future__ import annotations

import re
from collections.abc import Callable
from hashlib import blake2b
from typing import Any

import msgspec

from airflow_provider_iteration.streams.lazy import LazyIterable

FINGERPRINT_BYTES = 6
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


class Fingerprinter:
    """
    Makes the same digest of equal values in any process.

    Mappings and sets are taken without their order. A value that is no JSON is taken as what ``foreign``
    makes of it, and where that fails by its repr, without the addresses in it: two objects that look alike
    count as equal.

    :param foreign: makes JSON of values of other types; raises what it likes if it cannot.
    """

    def __init__(self, foreign: Callable[[Any], Any] | None = None) -> None:
        self._foreign = foreign
        self._encode = msgspec.json.Encoder(enc_hook=self._plain, order="deterministic").encode

    def __call__(self, value: Any) -> str:
        """
        Return the fingerprint, 12 hexadecimal digits.

        :param value: anything.
        """
        try:
            text = self._encode(value)
        except (TypeError, ValueError, OverflowError, RecursionError):
            text = _shown(value).encode(errors="backslashreplace")
        return blake2b(text, digest_size=FINGERPRINT_BYTES).hexdigest()

    def _plain(self, value: Any) -> Any:
        if isinstance(value, LazyIterable):
            return value.identity()
        if self._foreign is not None:
            try:
                plain = self._foreign(value)
            except Exception:
                return _shown(value)
            if plain is not value:
                return plain
        return _shown(value)


def _shown(value: Any) -> str:
    return f"{type(value).__qualname__} {_ADDRESS.sub('', repr(value))}"
