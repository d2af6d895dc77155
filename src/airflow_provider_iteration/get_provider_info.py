# SPDX-License-Identifier: Apache-2.0
"""Generated from ``provider.yaml`` by ``scripts/generate_provider_info.py``: change it there."""

from __future__ import annotations

from typing import Any


def get_provider_info() -> dict[str, Any]:
    """Describe this provider to Airflow."""
    return {
        "package-name": "airflow-provider-iteration",
        "name": "Iteration",
        "description": "Many items in one task instance, and many events from one trigger run.\n",
        "integrations": [
            {
                "integration-name": "Iteration",
                "external-doc-url": "https://airflow.apache.org/docs/apache-airflow/stable/authoring-and-scheduling/index.html",
                "tags": [
                    "software",
                ],
            },
        ],
        "operators": [
            {
                "integration-name": "Iteration",
                "python-modules": [
                    "airflow_provider_iteration.operators.generator",
                    "airflow_provider_iteration.operators.http",
                    "airflow_provider_iteration.operators.iterable",
                    "airflow_provider_iteration.operators.msgraph",
                    "airflow_provider_iteration.operators.streaming",
                ],
            },
        ],
        "triggers": [
            {
                "integration-name": "Iteration",
                "python-modules": [
                    "airflow_provider_iteration.triggers.events",
                    "airflow_provider_iteration.triggers.http",
                    "airflow_provider_iteration.triggers.msgraph",
                    "airflow_provider_iteration.triggers.streaming",
                ],
            },
        ],
        "task-decorators": [
            {
                "class-name": "airflow_provider_iteration.decorators.iterate.iterate",
                "name": "iterate",
            },
            {
                "class-name": "airflow_provider_iteration.decorators.stream.stream_task",
                "name": "stream",
            },
        ],
        "cli": [
            "airflow_provider_iteration.cli.get_iteration_cli_commands",
        ],
        "config": {
            "iteration": {
                "description": "Options of the package airflow-provider-iteration.",
                "options": {
                    "message_timeout": {
                        "description": "How many seconds a stream waits for the answer to one XCom message. Some messages are never\nanswered in a triggerer, so without a limit a task could stay deferred for ever.\n",
                        "version_added": "0.1.0",
                        "type": "float",
                        "default": "60",
                        "example": "120",
                    },
                    "checkpoint_path": {
                        "description": "Where iterations keep results that are too large for the task state store (above 48 KiB), as a path or\nan address of object storage. Without it they are kept in the store, which warns of large values.\n",
                        "version_added": "0.1.0",
                        "type": "string",
                        "default": "",
                        "example": "s3://conn_id@bucket/checkpoints",
                    },
                    "min_defer_seconds": {
                        "description": "How many seconds a trigger runs at least where its task has been on a worker and will be again. A\nscheduler that is told late of the end of the first start fails a task that is back too soon.\n",
                        "version_added": "0.1.0",
                        "type": "float",
                        "default": "10",
                        "example": "30",
                    },
                    "base_xcom_backend": {
                        "description": "The XCom backend that XComIterableBackend wraps, as an import path. It is used only where [core]\nxcom_backend names airflow_provider_iteration.xcom.backend.XComIterableBackend.\n",
                        "version_added": "0.1.0",
                        "type": "string",
                        "default": "airflow.sdk.execution_time.xcom.BaseXCom",
                        "example": "airflow.providers.common.io.xcom.backend.XComObjectStorageBackend",
                    },
                    "lazy_list_items": {
                        "description": "Lists with more items than this are stored by XComIterableBackend as a stream, and come back as a lazy\nsequence. 0 leaves all lists as they are.\n",
                        "version_added": "0.1.0",
                        "type": "integer",
                        "default": "0",
                        "example": "10000",
                    },
                    "offload_bytes": {
                        "description": "Values of more bytes than this, as JSON, are stored by XComIterableBackend in object storage, at\noffload_path. 0 leaves all values in the database.\n",
                        "version_added": "0.1.0",
                        "type": "integer",
                        "default": "0",
                        "example": "1048576",
                    },
                    "offload_path": {
                        "description": "Where XComIterableBackend keeps values above offload_bytes, as a path or an address of object storage that\nworkers, triggerers and whoever runs `airflow iteration gc` can reach. Not shared with another deployment.\n",
                        "version_added": "0.1.0",
                        "type": "string",
                        "default": "",
                        "example": "s3://conn_id@bucket/xcoms",
                    },
                },
            },
        },
    }
