# SPDX-License-Identifier: Apache-2.0
"""Write ``get_provider_info.py``, which Airflow reads, from ``provider.yaml``, which people edit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "provider.yaml"
TARGET = ROOT / "src" / "airflow_provider_iteration" / "get_provider_info.py"

RELEASE_KEYS = frozenset({"build-system", "lifecycle", "source-date-epoch", "state", "versions"})
"""What only tools that release providers read; the schema of the running Airflow does not know it."""

TEMPLATE = '''\
# SPDX-License-Identifier: Apache-2.0
"""Generated from ``provider.yaml`` by ``scripts/generate_provider_info.py``: change it there."""

from __future__ import annotations

from typing import Any


def get_provider_info() -> dict[str, Any]:
    """Describe this provider to Airflow."""
    return {info}
'''


def read_provider() -> dict[str, Any]:
    """Return the content of ``provider.yaml``."""
    content: dict[str, Any] = yaml.safe_load(SOURCE.read_text(encoding="utf-8"))
    return content


def runtime_info(provider: dict[str, Any]) -> dict[str, Any]:
    """Return what of ``provider.yaml`` a running Airflow reads."""
    return {key: value for key, value in provider.items() if key not in RELEASE_KEYS}


def as_source(value: Any, indent: str = "    ") -> str:
    """Write a value as Python, one entry a line, the way the formatter leaves it."""
    inner = indent + "    "
    if isinstance(value, dict):
        entries = [f"{as_source(key)}: {as_source(item, inner)}" for key, item in value.items()]
        opening, closing = "{}"
    elif isinstance(value, list):
        entries = [as_source(item, inner) for item in value]
        opening, closing = "[]"
    else:
        return json.dumps(value) if isinstance(value, str) else repr(value)
    lines = "".join(f"{inner}{entry},\n" for entry in entries)
    return f"{opening}\n{lines}{indent}{closing}"


def render() -> str:
    """Return the text of ``get_provider_info.py``."""
    return TEMPLATE.replace("{info}", as_source(runtime_info(read_provider())))


if __name__ == "__main__":
    TARGET.write_text(render(), encoding="utf-8")
    print(f"wrote {TARGET.relative_to(ROOT)}")
