# SPDX-License-Identifier: Apache-2.0
"""All arguments of the HTTP trigger travel."""

from __future__ import annotations

import inspect
import json
from typing import Any

from airflow.sdk import DAG
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_iteration import _compat
from airflow_provider_iteration.http.retries import PageRetries
from airflow_provider_iteration.operators.http import HttpStreamingOperator
from airflow_provider_iteration.pagination import Cursor, LinkHeader, MaxPages, NextLink, Offset, PageNumber
from airflow_provider_iteration.triggers.http import HttpStreamingTrigger

texts = st.text(max_size=8)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=5,
)
objects = st.dictionaries(texts, json_values, max_size=3)
numbers = st.integers(0, 1000)
paths = st.none() | st.sampled_from(["shop.check", "a.b.C"])
ARGUMENTS: dict[str, st.SearchStrategy[Any]] = {
    "http_conn_id": texts,
    "auth_type": st.none() | st.just("requests.auth.HTTPDigestAuth"),
    "method": st.sampled_from(["GET", "POST", "HEAD", "PATCH"]),
    "endpoint": st.none() | texts,
    "headers": st.none() | st.dictionaries(texts, texts, max_size=3),
    "data": st.none() | objects | texts,
    "extra_options": st.none() | objects,
    "paginator": st.none()
    | st.sampled_from(
        [
            NextLink(),
            LinkHeader("more"),
            Cursor("a", "b", location="body"),
            Offset(5, stop=MaxPages(3)),
            PageNumber(start=0),
        ]
    ),
    "items_path": st.sampled_from(["items", "a.b[]"]),
    "response_check": paths,
    "response_filter": paths,
    "pagination_function": st.none(),
    "log_response": st.booleans(),
    "page_retries": numbers | st.builds(PageRetries, numbers, st.just((429, "connection"))),
    "retry_args": st.none(),
    "rate_limit": st.none() | st.just("20/s"),
    "allowed_hosts": st.lists(st.sampled_from(["files.example", "a.example:8443"]), max_size=3),
    "keep_alive": st.tuples(st.booleans(), numbers, numbers, numbers),
    "warn_on_non_idempotent": st.booleans(),
    "stream": st.none() | st.just({"max_pages": 5, "finish_on": "worker"}),
}


def state(trigger: HttpStreamingTrigger) -> dict[str, Any]:
    return {name: getattr(trigger, name) for name in ARGUMENTS if name != "stream"} | {
        "stream": trigger.stream_options
    }


def sent(trigger: HttpStreamingTrigger) -> HttpStreamingTrigger:
    """Serialize a trigger, import its class, and construct it, as a triggerer does."""
    classpath, arguments = trigger.serialize()
    made: HttpStreamingTrigger = _compat.import_string(classpath)(**json.loads(json.dumps(arguments)))
    return made


def test_every_argument_is_tried() -> None:
    """A new argument must be added here."""
    assert set(ARGUMENTS) == set(inspect.signature(HttpStreamingTrigger).parameters)


@given(st.fixed_dictionaries({}, optional=ARGUMENTS))
def test_arguments_survive_the_journey(arguments: dict[str, Any]) -> None:
    """H4: serialize, import, construct: equal."""
    arguments.setdefault("items_path", "items")
    trigger = HttpStreamingTrigger(**arguments)
    assert state(sent(trigger)) == state(trigger)


def test_operator_sends_all_that_its_trigger_takes() -> None:
    """H5: no argument is left behind on the way from the operator to the trigger."""
    with DAG("d", schedule=None):
        operator = HttpStreamingOperator(
            task_id="t",
            http_conn_id="shop",
            auth_type="requests.auth.HTTPDigestAuth",
            method="PUT",
            endpoint="e",
            headers={"a": "b"},
            data={"c": "d"},
            extra_options={"timeout": (1, 2)},
            request_kwargs={"json": {"e": 1}},
            paginator=Offset(5),
            items_path="items",
            response_check="a.check",
            response_filter="a.filter",
            log_response=True,
            page_retries={"attempts": 9},
            rate_limit="3/m",
            allowed_hosts=["h"],
            tcp_keep_alive=False,
            tcp_keep_alive_idle=1,
            tcp_keep_alive_count=2,
            tcp_keep_alive_interval=3,
            warn_on_non_idempotent=False,
            max_pages=4,
            max_bytes=5,
            max_uncommitted_pages=6,
            finish_on="worker",
        )
    untouched = {
        name
        for name, value in state(operator.make_trigger({})).items()
        if value == state(HttpStreamingTrigger())[name]
    }
    # These exclude others; the stream's options are laid over it afterwards.
    assert untouched == {"pagination_function", "retry_args", "stream"}
    assert operator.start_from_trigger is True
    assert operator.start_trigger_args is not None
    assert (operator.start_trigger_args.trigger_kwargs or {})["stream"] == {
        "finish_on": "worker",
        "max_pages": 4,
        "max_bytes": 5,
        "max_uncommitted_pages": 6,
    }
