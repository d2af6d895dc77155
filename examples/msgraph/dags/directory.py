# SPDX-License-Identifier: Apache-2.0
"""
The users of a directory, and what has changed of its groups, from Microsoft Graph.

Needs the extra ``msgraph`` and the connection ``msgraph_default``.
"""

from __future__ import annotations

from typing import Any

from airflow.sdk import dag, task

from airflow_provider_iteration.operators.msgraph import MSGraphStreamingOperator


@task
def count(users: Any) -> int:
    """Read the users as they are needed, not all at once."""
    return sum(1 for user in users if user.get("displayName"))


@task
def sort_out(changes: Any) -> dict[str, list[str]]:
    """Tell what is gone from what is new or changed."""
    sorted_out: dict[str, list[str]] = {"gone": [], "changed": []}
    for item in changes:
        sorted_out["gone" if "@removed" in item else "changed"].append(item["id"])
    return sorted_out


@dag(schedule=None, tags=["example"])
def directory() -> None:
    users = MSGraphStreamingOperator(
        task_id="users",
        url="users",
        query_parameters={"$select": "id,displayName", "$top": 999},
        items_path="value",
    )
    count(users.output)
    groups = MSGraphStreamingOperator(
        task_id="groups",
        url="groups/delta",
        query_parameters={"$select": "id,displayName"},
        items_path="value",
        delta=True,
    )
    sort_out(groups.output)


directory()
