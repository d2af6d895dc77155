# SPDX-License-Identifier: Apache-2.0
"""Benchmarks: each module prints its figures as one line of JSON, and keeps them in ``build/bench``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


def publish(name: str, figures: Mapping[str, Any]) -> None:
    """Write the figures of a benchmark to its file, and print them as the last line."""
    text = json.dumps(figures)
    target = Path("build/bench") / f"{name}.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text + "\n")
    print(text)
