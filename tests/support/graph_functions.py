# SPDX-License-Identifier: Apache-2.0
"""What a user's own package has for Microsoft Graph: functions given by their import paths."""

from __future__ import annotations

from typing import Any

from airflow.providers.microsoft.azure.triggers.msgraph import ResponseSerializer


def ids(result: Any, **context: Any) -> list[str]:
    return [user["id"] for user in result["value"]]


def count(result: Any, run_id: str) -> dict[str, Any]:
    return {"run": run_id, "users": len(result["value"])}


def with_params(result: Any, params: dict[str, Any]) -> Any:
    return result


def by_links(operator: Any, response: dict[str, Any], **context: Any) -> tuple[Any, Any]:
    return response.get("@odata.nextLink"), operator.query_parameters


def by_skip(operator: Any, response: dict[str, Any], **context: Any) -> tuple[Any, Any]:
    query = operator.query_parameters
    if len(response["value"]) < query["$top"]:
        return None, None
    query["$skip"] = query.get("$skip", 0) + query["$top"]
    return operator.url, query


def not_a_pair(operator: Any, response: dict[str, Any], **context: Any) -> Any:
    return "users"


def unwrapped(event: dict[str, Any], **context: Any) -> Any:
    if event["status"] == "failure":
        raise ValueError(event["message"])
    return event["response"]


def forgiving(event: dict[str, Any], **context: Any) -> Any:
    return event.get("response")


class Shouting(ResponseSerializer):
    """Makes capitals of everything."""

    def serialize(self, response: Any) -> str | None:
        text: str | None = super().serialize(response)
        return None if text is None else text.upper()
