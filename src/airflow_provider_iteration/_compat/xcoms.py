# SPDX-License-Identifier: Apache-2.0
"""XComs, and the states of runs and tasks: what a worker or a triggerer asks Airflow for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection

SKIPPED_KEY = "skipmixin_key"
"""The one XCom whose stored value the scheduler reads, past the backend (airflow.sdk.bases.skipmixin)."""


def read_xcom(*, key: str, dag_id: str, task_id: str, run_id: str, map_index: int = -1) -> Any:
    """Read one XCom through the configured backend; None if it is missing. Blocks: use a thread."""
    # Resolves [core] xcom_backend when imported, so not at module level. Since 3.0.
    from airflow.sdk.execution_time.xcom import XCom

    return XCom.get_one(key=key, dag_id=dag_id, task_id=task_id, run_id=run_id, map_index=map_index)


def write_xcom(value: Any, *, key: str, dag_id: str, task_id: str, run_id: str, map_index: int = -1) -> None:
    """Write one XCom through the configured backend. Blocks: use a thread."""
    from airflow.sdk.execution_time.xcom import XCom

    XCom.set(key, value, dag_id=dag_id, task_id=task_id, run_id=run_id, map_index=map_index)


def delete_xcom(*, key: str, dag_id: str, task_id: str, run_id: str, map_index: int = -1) -> None:
    """Delete one XCom and what the configured backend keeps for it. Blocks: use a thread."""
    from airflow.sdk.execution_time.xcom import XCom

    XCom.delete(key=key, dag_id=dag_id, task_id=task_id, run_id=run_id, map_index=map_index)


def asset_states(accessors: Any) -> list[Any]:
    """Return the state store of each asset that a watcher watches (``_by_name``, since 3.3)."""
    return list(accessors._by_name.values())


def read_newest_xcom(*, key: str, dag_id: str, task_id: str, run_id: str, map_index: int = -1) -> Any:
    """Read the newest XCom of a run and of those before it; None if there is none. Blocks: use a thread."""
    from airflow.sdk.execution_time.xcom import XCom

    return XCom.get_one(
        key=key,
        dag_id=dag_id,
        task_id=task_id,
        run_id=run_id,
        map_index=map_index,
        include_prior_dates=True,
    )


def dag_run_state(dag_id: str, run_id: str) -> str:
    """Ask for the state of a Dag run, on a worker or in a triggerer. Blocks: use a thread."""
    # Since 3.0 (airflow.sdk.execution_time.task_runner).
    from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

    state: Any = RuntimeTaskInstance.get_dagrun_state(dag_id, run_id)
    return str(getattr(state, "value", state))


def count_dag_runs(dag_id: str, state: str) -> int:
    """Count the runs of a Dag that are in a state, on a worker or in a triggerer. Blocks: use a thread."""
    from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

    return RuntimeTaskInstance.get_dr_count(dag_id, states=[state])


def stored_xcom(*, key: str, dag_id: str, task_id: str, run_id: str, map_index: int = -1) -> Any:
    """Return an XCom as it is stored, with a ``key`` and a ``value``, before a backend reads it. Blocks."""
    # What a backend has for its deletions. Since 3.0.
    from airflow.sdk.bases.xcom import BaseXCom

    return BaseXCom._get_xcom_db_ref(
        key=key, dag_id=dag_id, task_id=task_id, run_id=run_id, map_index=map_index
    )


def delete_stored_xcom(*, key: str, dag_id: str, task_id: str, run_id: str, map_index: int = -1) -> None:
    """Delete the row of an XCom, and nothing else. Blocks."""
    # The message and the channel of ``BaseXCom.delete``. Since 3.0.
    from airflow.sdk.execution_time.comms import DeleteXCom
    from airflow.sdk.execution_time.task_runner import SUPERVISOR_COMMS

    SUPERVISOR_COMMS.send(
        DeleteXCom(key=key, dag_id=dag_id, task_id=task_id, run_id=run_id, map_index=map_index)
    )


def task_states(
    dag_id: str, run_ids: Collection[str], task_ids: Collection[str]
) -> dict[str, dict[str, str | None]]:
    """
    Ask for the states of tasks, on a worker or in a triggerer, in one message. Blocks: use a thread.

    :return: run → task → state; of a mapped task there is one for each instance, as ``<task>_<index>``.
    """
    # Since 3.0 (airflow.sdk.execution_time.task_runner).
    from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

    states = RuntimeTaskInstance.get_task_states(dag_id, task_ids=list(task_ids), run_ids=list(run_ids))
    return {run: dict(tasks) for run, tasks in states.items()}


def is_mapped_output(value: Any) -> bool:
    """Tell whether a value is the lazy sequence of a mapped task's outputs."""
    # Since 3.0 (airflow.sdk.execution_time.lazy_sequence).
    from airflow.sdk.execution_time.lazy_sequence import LazyXComSequence

    return isinstance(value, LazyXComSequence)
