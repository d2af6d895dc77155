# SPDX-License-Identifier: Apache-2.0
"""All arguments of the Microsoft Graph trigger travel."""

from __future__ import annotations

import inspect
import json
from typing import Any

from airflow.sdk import DAG
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_iteration import _compat
from airflow_provider_iteration.http.retries import PageRetries
from airflow_provider_iteration.operators.msgraph import MSGraphStreamingOperator
from airflow_provider_iteration.pagination import Cursor, MaxPages, NextLink, Offset
from airflow_provider_iteration.triggers.msgraph import MSGraphStreamingTrigger
from tests.support.graph_functions import Shouting

texts = st.text(max_size=8)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=5,
)
objects = st.none() | st.dictionaries(texts, json_values, max_size=3)
numbers = st.integers(0, 1000)
paths = st.none() | st.sampled_from(["shop.check", "a.b.C"])
ARGUMENTS: dict[str, st.SearchStrategy[Any]] = {
    "url": texts,
    "response_type": st.none() | texts,
    "path_parameters": objects,
    "url_template": st.none() | texts,
    "method": st.sampled_from(["GET", "POST", "patch"]),
    "query_parameters": objects,
    "headers": st.none() | st.dictionaries(texts, texts, max_size=3),
    "data": objects | texts,
    "conn_id": texts,
    "timeout": st.none() | st.floats(0, 100),
    "proxies": st.none() | st.dictionaries(texts, texts, max_size=2),
    "scopes": st.none() | texts | st.lists(texts, max_size=2),
    "api_version": st.none() | st.just("beta"),
    "serializer": st.just(Shouting) | st.just("tests.support.graph_functions.Shouting"),
    "paginator": st.none()
    | st.sampled_from([NextLink(), Cursor("a", "b", location="body"), Offset(5, stop=MaxPages(3))]),
    "items_path": st.sampled_from(["value", "a.b[]"]),
    "pagination_function": st.none(),
    "result_processor": paths,
    "event_handler": paths,
    "delta": st.just(False),
    "delta_link": st.none() | texts,
    "key": texts,
    "page_retries": numbers | st.builds(PageRetries, numbers, st.just((429, "connection"))),
    "rate_limit": st.none() | st.just("20/s"),
    "allowed_hosts": st.lists(st.sampled_from(["files.example", "a.example:8443"]), max_size=3),
    "warn_on_non_idempotent": st.booleans(),
    "stream": st.none() | st.just({"max_pages": 5, "finish_on": "worker"}),
}

WITHOUT_URL = {name: values for name, values in ARGUMENTS.items() if name != "url"}


def state(trigger: MSGraphStreamingTrigger) -> dict[str, Any]:
    return {name: getattr(trigger, name) for name in ARGUMENTS if name != "stream"} | {
        "stream": trigger.stream_options
    }


def sent(trigger: MSGraphStreamingTrigger) -> MSGraphStreamingTrigger:
    """Serialize a trigger, import its class, and construct it, as a triggerer does."""
    classpath, arguments = trigger.serialize()
    made: MSGraphStreamingTrigger = _compat.import_string(classpath)(**json.loads(json.dumps(arguments)))
    return made


def test_every_argument_is_tried() -> None:
    """A new argument must be added here."""
    assert set(ARGUMENTS) == set(inspect.signature(MSGraphStreamingTrigger).parameters)


@given(st.fixed_dictionaries({"url": ARGUMENTS["url"]}, optional=WITHOUT_URL))
def test_arguments_survive_the_journey(arguments: dict[str, Any]) -> None:
    """H4: serialize, import, construct: equal."""
    arguments.setdefault("items_path", "value")
    trigger = MSGraphStreamingTrigger(**arguments)
    assert state(sent(trigger)) == state(trigger)


def test_operator_sends_all_that_its_trigger_takes() -> None:
    """H5: no argument is left behind on the way from the operator to the trigger."""
    with DAG("d", schedule=None):
        operator = MSGraphStreamingOperator(
            task_id="t",
            url="users",
            path_parameters={"a": "b"},
            url_template="t",
            method="POST",
            query_parameters={"$top": 5},
            headers={"a": "b"},
            data={"c": "d"},
            conn_id="graph",
            timeout=3.5,
            proxies={"https": "http://proxy.example"},
            scopes=["s"],
            api_version="beta",
            serializer=Shouting,
            paginator=Offset(5),
            items_path="value",
            result_processor="a.processor",
            event_handler="a.handler",
            delta=True,
            delta_link="{{ params.link }}",
            key="users",
            page_retries={"attempts": 9},
            rate_limit="3/m",
            allowed_hosts=["h"],
            warn_on_non_idempotent=False,
            max_pages=4,
            max_bytes=5,
            max_uncommitted_pages=6,
            finish_on="worker",
        )
    default = state(MSGraphStreamingTrigger(url=""))
    untouched = {name for name, value in state(operator.make_trigger({})).items() if value == default[name]}
    # These exclude others; the stream's options are laid over it afterwards.
    assert untouched == {"pagination_function", "response_type", "stream"}
    assert operator.start_from_trigger is True
    assert operator.start_trigger_args is not None
    assert (operator.start_trigger_args.trigger_kwargs or {})["stream"] == {
        "finish_on": "worker",
        "max_pages": 4,
        "max_bytes": 5,
        "max_uncommitted_pages": 6,
    }
