# SPDX-License-Identifier: Apache-2.0
"""Operators of other providers, each over a hundred items: sync and deferrable, with failures and skips."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.providers.common.sql.operators.sql import SQLExecuteQueryOperator
from airflow.providers.http.operators.http import HttpOperator
from airflow.providers.standard.operators.bash import BashOperator
from airflow.providers.standard.sensors.date_time import DateTimeSensorAsync
from airflow.providers.standard.sensors.time_delta import TimeDeltaSensor
from airflow.sdk import dag, task
from airflow.sdk.exceptions import AirflowSkipException

from airflow_provider_iteration.decorators.iterate import iterate

ITEMS = 100


@task(trigger_rule="none_failed")
def results(of_items: Any) -> list[Any]:
    return list(of_items)


def check(response: Any) -> bool:
    if response.json()["items"][0]["id"] == 7:
        raise AirflowSkipException
    return True


@dag(schedule=None)
def many_operators() -> None:
    get = iterate(
        HttpOperator.partial(
            task_id="get",
            http_conn_id="many_http",
            method="GET",
            response_check=check,
            response_filter=lambda response: response.json()["items"][0]["id"],
        ),
        max_failed_items=1,
    ).iterate(endpoint=[f"single?page={page}" for page in range(ITEMS)])
    run = iterate(BashOperator.partial(task_id="run"), max_failed_items=2).iterate(
        bash_command=[
            # 99 is the exit code that skips.
            f"echo {number}; exit {99 if number % 10 == 3 else number in (5, 6):d}"
            for number in range(ITEMS)
        ]
    )
    query = iterate(
        SQLExecuteQueryOperator.partial(task_id="query", conn_id="many_sqlite", handler=first_value),
        max_failed_share=0.02,
    ).iterate(sql=[f"SELECT {n} * 2" if n else "SELECT * FROM nowhere" for n in range(ITEMS)])
    wait = iterate(
        TimeDeltaSensor.partial(task_id="wait", deferrable=True), task_concurrency=ITEMS, max_failed_items=1
    ).iterate(delta=[timedelta(milliseconds=n) if n else "no delta" for n in range(ITEMS)])
    until = iterate(
        DateTimeSensorAsync.partial(task_id="until"), task_concurrency=ITEMS, max_failed_items=1
    ).iterate(
        target_time=[
            f"{{{{ macros.datetime.now(macros.dateutil.tz.UTC) + macros.timedelta(seconds={n % 3}) }}}}"
            if n
            else "no time"
            for n in range(ITEMS)
        ]
    )
    for each in (get, run, query, wait, until):
        results.override(task_id=f"results_{each.task_id}")(each.output)


def first_value(cursor: Any) -> Any:
    return cursor.fetchone()[0]


many_operators()
