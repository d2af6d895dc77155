# SPDX-License-Identifier: Apache-2.0
"""How a deployment is configured, and its metadata database."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


def config_float(name: str, fallback: float) -> float:
    """Read a number from the section ``[iteration]`` of the configuration."""
    # The SDK's own configuration, which task processes and triggers have too. Since 3.2.
    from airflow.sdk.configuration import conf

    value: float = conf.getfloat("iteration", name, fallback=fallback)
    return value


def config_int(name: str) -> int:
    """Read a whole number from the section ``[iteration]`` of the configuration; 0 if it is not set."""
    from airflow.sdk.configuration import conf

    value: int = conf.getint("iteration", name, fallback=0)
    return value


def message_timeout() -> float:
    """Return the seconds to wait for the answer to one message, as configured."""
    return config_float("message_timeout", 60.0)


def config_text(name: str, fallback: str) -> str:
    """Read a text from the section ``[iteration]`` of the configuration."""
    from airflow.sdk.configuration import conf

    value: str = conf.get("iteration", name, fallback=fallback)
    return value


@contextmanager
def metadata_session() -> Iterator[Any]:
    """Give a session of the metadata database, for a command; connections are looked up there too."""
    # Since 2.0 (airflow.utils.session).
    from airflow.utils.session import create_session

    # How the SDK tells that it is not in a task; the scheduler sets it in the same way. Since 3.1.
    os.environ["_AIRFLOW_PROCESS_CONTEXT"] = "server"
    with create_session() as session:
        yield session


def has_task_listeners() -> bool:
    """Tell whether a plugin of this deployment listens to the ends of task instances."""
    # The SDK's own listener manager; since 3.2 (airflow.sdk.listener).
    from airflow.sdk.listener import get_listener_manager

    hook = get_listener_manager().hook
    return any(
        getattr(hook, name).get_hookimpls()
        for name in ("on_task_instance_running", "on_task_instance_success", "on_task_instance_failed")
    )


def has_triggerer_queues() -> bool:
    """Tell whether triggerers of this deployment take triggers by queue. The option is there since 3.2."""
    from airflow.sdk.configuration import conf

    value: bool = conf.getboolean("triggerer", "queues_enabled", fallback=False)
    return value
