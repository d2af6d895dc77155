# SPDX-License-Identifier: Apache-2.0
"""What Airflow is told about this provider, and that telling it costs nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import cache
from importlib.metadata import distribution
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import airflow_provider_iteration
from airflow_provider_iteration.get_provider_info import get_provider_info
from scripts import generate_provider_info as generator

PACKAGE = Path(airflow_provider_iteration.__file__).parent
IMPORTS = """\
import json, sys
before = set(sys.modules)
import airflow_provider_iteration, airflow_provider_iteration.get_provider_info as generated
generated.get_provider_info()
new = set(sys.modules) - before
print(json.dumps(sorted(name for name in new if name.partition(".")[0] not in sys.stdlib_module_names)))
"""


@cache
def schema(name: str) -> Any:
    """Return a JSON schema that Airflow ships, found without importing Airflow."""
    spec = find_spec("airflow")
    assert spec is not None
    places = spec.submodule_search_locations or ()
    return next(json.loads(path.read_text()) for place in places if (path := Path(place, name)).is_file())


def listed_modules() -> list[str]:
    info = get_provider_info()
    groups = [*info["operators"], *info["triggers"]]
    return [module for group in groups for module in group["python-modules"]]


def config_options() -> list[Any]:
    options = get_provider_info()["config"]["iteration"]["options"]
    return [pytest.param(option, id=name) for name, option in options.items()]


def test_checked_in_file_is_what_the_source_generates() -> None:
    """A change of provider.yaml without the generated file is noticed."""
    assert generator.render() == generator.TARGET.read_text(encoding="utf-8")


def test_generated_function_returns_the_source() -> None:
    """Writing it as Python loses nothing."""
    assert generator.runtime_info(generator.read_provider()) == get_provider_info()


def test_source_matches_airflows_schema() -> None:
    """provider.yaml is valid by the schema for providers' sources."""
    jsonschema.validate(generator.read_provider(), schema("provider.yaml.schema.json"))


def test_runtime_info_matches_airflows_schema() -> None:
    """A running Airflow accepts the info."""
    jsonschema.validate(get_provider_info(), schema("provider_info.schema.json"))


def test_runtime_schema_knows_every_key() -> None:
    """The runtime schema permits unknown keys, which Airflow then ignores: none is sent."""
    assert set() == set(get_provider_info()) - set(schema("provider_info.schema.json")["properties"])


def test_package_name_is_the_distributions() -> None:
    """Airflow finds a provider's distribution by the name that the info gives."""
    found = distribution(get_provider_info()["package-name"])
    assert airflow_provider_iteration.__version__ == found.version


def test_newest_version_is_this_one() -> None:
    """provider.yaml lists the version being built first."""
    assert airflow_provider_iteration.__version__ == generator.read_provider()["versions"][0]


@pytest.mark.parametrize("module", listed_modules())
def test_listed_module_exists(module: str) -> None:
    """No module is announced that is not there."""
    path = PACKAGE.parent.joinpath(*module.split("."))
    assert path.with_suffix(".py").is_file() or path.joinpath("__init__.py").is_file()


@pytest.mark.parametrize("option", config_options())
def test_option_has_all_keys_and_a_text_as_default(option: dict[str, Any]) -> None:
    """Airflow reads all five keys of an option, and a default only as text."""
    assert {"description", "version_added", "type", "example", "default"} <= set(option)
    assert isinstance(option["default"], str)


def test_discovery_imports_only_the_two_modules_it_needs() -> None:
    """Airflow discovers providers in every process, before its configuration is ready."""
    result = subprocess.run([sys.executable, "-c", IMPORTS], capture_output=True, text=True, check=True)
    expected = ["airflow_provider_iteration", "airflow_provider_iteration.get_provider_info"]
    assert expected == json.loads(result.stdout)


def test_every_public_name_has_a_module() -> None:
    """The lazily loaded names and the announced ones are the same."""
    assert {*airflow_provider_iteration._MODULES, "__version__"} == set(airflow_provider_iteration.__all__)


@pytest.mark.parametrize("name", airflow_provider_iteration.__all__)
def test_public_name_is_listed_and_loads(name: str) -> None:
    """Each public name is there, and in dir()."""
    assert name in dir(airflow_provider_iteration)
    assert getattr(airflow_provider_iteration, name) is not None


def test_unknown_name_is_an_ordinary_error() -> None:
    """A typing error in a name says which name of which module."""
    with pytest.raises(AttributeError, match=r"'airflow_provider_iteration' has no attribute 'streem'"):
        _ = airflow_provider_iteration.streem
