# SPDX-License-Identifier: Apache-2.0
"""Where the Graph operator starts, and what it refuses."""

from __future__ import annotations

import copy
import inspect
import subprocess
import sys
from typing import Any

import pytest
from airflow.providers.microsoft.azure.operators.msgraph import MSGraphAsyncOperator
from airflow.providers.microsoft.azure.triggers.msgraph import ResponseSerializer
from airflow.sdk import DAG

from airflow_provider_iteration.operators.msgraph import MSGraphStreamingOperator
from airflow_provider_iteration.pagination import NextLink
from tests.support.graph_functions import by_skip
from tests.support.triggers import give_task
from tests.unit.msgraph.conftest import Graph

FIELDS = set(inspect.signature(MSGraphAsyncOperator.__init__).parameters) - {"self", "kwargs", "serializer"}


def make(**arguments: Any) -> MSGraphStreamingOperator:
    with DAG("graph", schedule=None):
        return MSGraphStreamingOperator(**{"task_id": "users", "url": "users", **arguments})


def test_it_is_a_stock_operator() -> None:
    """Every argument and template field of the stock operator is one here."""
    arguments = set(inspect.signature(MSGraphAsyncOperator.__init__).parameters) - {"self", "kwargs"}
    operator = make()
    assert isinstance(operator, MSGraphAsyncOperator)
    assert {name for name in arguments if not hasattr(operator, name)} == set()
    assert set(MSGraphAsyncOperator.template_fields) < set(MSGraphStreamingOperator.template_fields)


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"delta": True},
        {"delta_link": "{{ params.link }}"},
        {"result_processor": "shop.ids", "pagination_function": "shop.page"},
        {"query_parameters": {"$filter": "createdDateTime ge {{ ds }}"}},
    ],
)
def test_it_starts_in_the_triggerer(arguments: dict[str, Any]) -> None:
    """Plain arguments need no worker, nor does a delta query."""
    assert make(**arguments).start_from_trigger is True


class OfADagFile(ResponseSerializer):
    """Cannot be imported elsewhere."""


OfADagFile.__module__ = "unusual_prefix_dag"


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"pagination_function": lambda *args: None}, "pagination_function is a callable"),
        ({"serializer": OfADagFile}, "serializer is a callable"),
        ({"method": "POST", "data": b"bytes"}, "data is of type builtins.bytes"),
    ],
)
def test_what_cannot_travel_is_for_the_worker(arguments: dict[str, Any], reason: str) -> None:
    """The worker pages where something cannot be sent, and says why."""
    operator = make(**arguments)
    reasons = list(operator.worker_reasons(operator.make_trigger({})))
    assert operator.start_from_trigger is False
    assert len(reasons) == 1
    assert reasons[0].startswith(reason)


@pytest.mark.parametrize("name", ["path_parameters", "query_parameters", "headers"])
def test_functions_inside_of_data_are_refused(name: str) -> None:
    """A function where no worker could use it either is an error of the Dag."""
    with pytest.raises(TypeError, match=rf"{name}\['a'\] is a callable"):
        make(**{name: {"a": lambda: None}})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"paginator": NextLink(), "pagination_function": "a.b"}, "either it or paginator"),
        ({"paginator": {"type": "next"}}, "unknown type 'next'"),
        ({"paginator": {"type": "offset"}}, "items_path: Offset goes on by the number of items"),
        ({"rate_limit": "often"}, "rate_limit"),
        ({"result_processor": "no path"}, "expected an import path"),
    ],
)
def test_wrong_arguments_are_errors_of_the_dag(arguments: dict[str, Any], message: str) -> None:
    """What is wrong is said when the Dag is parsed."""
    with pytest.raises(ValueError, match=message):
        make(**arguments)


async def test_no_page_is_kept_on_the_operator(graph: Graph) -> None:
    """G2: after all pages the operator is as it was, although its function changes its argument."""
    query = {"$top": 2}
    operator = make(conn_id="graph", url="counted", query_parameters=query, pagination_function=by_skip)
    before = copy.deepcopy({name: value for name, value in vars(operator).items() if name in FIELDS})
    trigger = operator.make_trigger({})
    give_task(trigger)
    operator.prepare_on_worker(trigger, {"ti": trigger.task_instance})
    assert len(await trigger.stream()) == 4
    assert {name: getattr(operator, name) for name in before} == before
    assert "User 0" not in repr(vars(operator))


def test_graph_is_imported_nowhere_else() -> None:
    """Who has not the extra can use everything else."""
    script = (
        "import importlib, pkgutil, sys, airflow_provider_iteration as package\n"
        "for module in pkgutil.walk_packages(package.__path__, package.__name__ + '.'):\n"
        "    if 'msgraph' not in module.name: importlib.import_module(module.name)\n"
        "roots = {name.split('.')[0] for name in sys.modules}\n"
        "print(sorted(roots & {'azure', 'kiota_http', 'kiota_abstractions', 'msgraph_core', 'msal'}))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
