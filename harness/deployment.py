# SPDX-License-Identifier: Apache-2.0
"""A real Airflow: api-server, scheduler, triggerer, dag-processor, with a home and a database of its own."""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self

import httpx

from harness.environment import PARTS, airflow_program, make_environment, own_database
from harness.inspection import Counts, Inspector, TaskInstance
from harness.processes import ManagedProcess, free_port, wait_until

ENDED = ("success", "failed")
START_SECONDS = 90.0

failed_starts: list[str] = []
"""What is known of each deployment of this process that did not start, and was started once more."""


class Deployment:
    """
    An Airflow deployment on free loopback ports. Use it as a context manager.

    Everything that it starts is ended by pid when the block is left, also after a failed start.

    :param dags: Dag files, or directories of Dag files, that are copied into its Dags folder.
    :param database: ``"sqlite"`` or ``"postgresql"``.
    :param home: its AIRFLOW_HOME; None makes a temporary one, which is removed afterwards.
    :param config: settings such as ``{"AIRFLOW__CORE__PARALLELISM": "8"}``.
    :param environment: variables such as ``{"AIRFLOW_CONN_SHOP": "http://127.0.0.1:8080"}``.
    :param python_path: directories from which all of its parts can import.
    """

    def __init__(
        self,
        dags: Sequence[Path],
        *,
        database: str = "sqlite",
        home: Path | None = None,
        config: Mapping[str, str] | None = None,
        environment: Mapping[str, str] | None = None,
        python_path: Sequence[Path] = (),
    ) -> None:
        self._dags = dags
        self._database = database
        self._given_home = home
        self._home: Path | None = None
        self._config = dict(config or {})
        self._environment = dict(environment or {})
        self._python_path = python_path
        self._exit = contextlib.ExitStack()
        self._parts: dict[str, ManagedProcess] = {}

    def __enter__(self) -> Self:
        try:
            self._start()
        except TimeoutError as error:
            # Rarely a part of Airflow hangs as it starts; all tests of a session should not fail for that.
            failed_starts.append("\n".join([str(error), *getattr(error, "__notes__", ())]))
            self._start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._exit.close()

    @property
    def address(self) -> str:
        """Address of the UI and the API."""
        return f"http://127.0.0.1:{self._port}"

    @property
    def triggerer(self) -> ManagedProcess:
        """The first triggerer."""
        return self._parts["triggerer"]

    def part(self, name: str) -> ManagedProcess:
        """Return a part: ``"api-server"``, ``"scheduler"``, ``"triggerer"`` or ``"dag-processor"``."""
        return self._parts[name]

    def start_triggerer(self) -> ManagedProcess:
        """Start another triggerer beside the first."""
        return self._start_part("triggerer", f"triggerer-{len(self._parts)}")

    def trigger(self, dag_id: str, conf: Mapping[str, Any] | None = None) -> str:
        """Start a run of a Dag, and return its id."""
        body = {"logical_date": None, "conf": dict(conf or {})}
        run: str = self._api("POST", f"/dags/{dag_id}/dagRuns", body)["dag_run_id"]
        return run

    def run(self, dag_id: str, conf: Mapping[str, Any] | None = None, seconds: float = 120.0) -> str:
        """Start a run of a Dag, wait until it has succeeded, and return its id."""
        run_id = self.trigger(dag_id, conf)
        state = self.wait(dag_id, run_id, seconds)
        if state != "success":
            raise AssertionError(f"{dag_id} ended as {state}: {self._report(dag_id, run_id)}")
        return run_id

    def wait(self, dag_id: str, run_id: str, seconds: float = 120.0) -> str:
        """Wait until a run has ended, and return its state."""
        self._wait(
            lambda: self.inspect.dag_run_state(dag_id, run_id) in ENDED,
            seconds,
            lambda: f"the end of {self._report(dag_id, run_id)}",
        )
        return str(self.inspect.dag_run_state(dag_id, run_id))

    def wait_task(
        self,
        dag_id: str,
        run_id: str,
        task_id: str,
        states: Sequence[str],
        seconds: float = 60.0,
        *,
        map_index: int = -1,
        try_number: int | None = None,
    ) -> TaskInstance:
        """Wait until a task instance is in one of the states (in a certain try), and return it."""

        def reached() -> bool:
            instance = self.task(dag_id, run_id, task_id, map_index)
            return instance.state in states and try_number in (None, instance.try_number)

        self._wait(reached, seconds, lambda: f"{task_id} in {states}: {self._report(dag_id, run_id)}")
        return self.task(dag_id, run_id, task_id, map_index)

    def wait_for(
        self, dag_id: str, run_id: str, condition: Callable[[], object], what: str, seconds: float = 60.0
    ) -> None:
        """Wait for something that a run brings about, and tell about the run if it does not."""
        self._wait(condition, seconds, lambda: f"{what}: {self._report(dag_id, run_id)}")

    def task(self, dag_id: str, run_id: str, task_id: str, map_index: int = -1) -> TaskInstance:
        """Return one task instance."""
        for instance in self.inspect.task_instances(dag_id, run_id):
            if (instance.task_id, instance.map_index) == (task_id, map_index):
                return instance
        raise KeyError(f"{dag_id} has no task instance {task_id}[{map_index}] in run {run_id}")

    def counts(self, dag_id: str, run_id: str, task_id: str, map_index: int = -1) -> Counts:
        """Return what a task instance cost."""
        return self.inspect.counts(dag_id, run_id, task_id, map_index)

    def clear(self, dag_id: str, run_id: str, task_ids: Sequence[str]) -> None:
        """Clear task instances of a run, and nothing downstream of them."""
        body = {
            "dry_run": False,
            "dag_run_id": run_id,
            "task_ids": list(task_ids),
            "only_failed": False,
            "include_downstream": False,
        }
        self._api("POST", f"/dags/{dag_id}/clearTaskInstances", body)

    def pause(self, dag_id: str, paused: bool = True) -> None:
        """Pause a Dag, or let it go on. Its assets are watched once the file has been parsed anew."""
        self._api("PATCH", f"/dags/{dag_id}", {"is_paused": paused})

    def mark(self, dag_id: str, run_id: str, task_id: str, state: str) -> None:
        """Set the state of a task instance, as the UI does."""
        self._api("PATCH", f"/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}", {"new_state": state})

    def delete_run(self, dag_id: str, run_id: str) -> None:
        """Delete a run, as the UI does."""
        self._http.delete(f"/dags/{dag_id}/dagRuns/{run_id}").raise_for_status()

    def connect(self, conn_id: str, url: str) -> None:
        """Make or replace an HTTP connection that leads to a URL such as ``http://127.0.0.1:8080``."""
        address = httpx.URL(url)
        fields = {"conn_type": "http", "schema": address.scheme, "host": address.host, "port": address.port}
        self.connect_as(conn_id, fields)

    def connect_as(self, conn_id: str, fields: Mapping[str, Any]) -> None:
        """Make or replace a connection; its ``extra`` is a mapping."""
        self._http.delete(f"/connections/{conn_id}")
        extra = {"extra": json.dumps(fields["extra"])} if "extra" in fields else {}
        self._api("POST", "/connections", {"connection_id": conn_id, **fields, **extra})

    def airflow(self, *arguments: str) -> str:
        """Run an ``airflow`` command against this deployment, and return what it prints."""
        done = subprocess.run(
            [airflow_program(), *arguments],
            env=self._variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"airflow {' '.join(arguments)} failed:\n{done.stdout[-3000:]}")
        return done.stdout

    def _start(self) -> None:
        try:
            self._try_to_start()
        except BaseException:
            self._exit.close()
            raise

    def _try_to_start(self) -> None:
        self._home = self._given_home
        if self._home is None:
            self._home = Path(tempfile.mkdtemp(prefix="airflow-"))
            self._exit.callback(shutil.rmtree, self._home, ignore_errors=True)
        self._parts.clear()
        (self._home / "parts").mkdir(parents=True, exist_ok=True)
        self._copy_dags(self._home / "dags")
        self._port = free_port()
        url = self._exit.enter_context(own_database(self._database, self._home))
        self._variables = make_environment(
            self._home,
            url,
            self._port,
            config=self._config,
            environment=self._environment,
            python_path=self._python_path,
        )
        self.airflow("db", "migrate")
        self.inspect = Inspector(self._home, url)
        self._exit.callback(self.inspect.close)
        self._http = self._exit.enter_context(httpx.Client(base_url=f"{self.address}/api/v2", timeout=60.0))
        self._exit.callback(self._end_parts)
        for name in PARTS:
            self._start_part(name, name)
        self._wait(lambda: self._runs() and not self._unhealthy(), START_SECONDS, self._tell_health)
        self._http.headers["Authorization"] = f"Bearer {self._token()}"
        self._wait(
            lambda: self._runs() and not self._unknown_dags(),
            START_SECONDS,
            lambda: f"the Dags are known: {', '.join(self._unknown_dags())} not yet",
        )

    def _copy_dags(self, folder: Path) -> None:
        for source in self._dags:
            if source.is_dir():
                shutil.copytree(source, folder, dirs_exist_ok=True)
            else:
                folder.mkdir(parents=True, exist_ok=True)
                shutil.copy(source, folder)

    def _start_part(self, kind: str, name: str) -> ManagedProcess:
        assert self._home is not None
        log = self._home / "parts" / f"{name}.log"
        part = ManagedProcess(name, [airflow_program(), kind], log, self._variables)
        self._parts[name] = part
        part.start()
        return part

    def _end_parts(self) -> None:
        with ThreadPoolExecutor() as threads:
            list(threads.map(ManagedProcess.end, self._parts.values()))

    def _runs(self) -> bool:
        for part in self._parts.values():
            if not part.is_alive():
                raise RuntimeError(f"{part.name} ended while the deployment started:\n{part.tail()}")
        return True

    def _unhealthy(self) -> list[str]:
        try:
            health = self._http.get("/monitor/health").json()
        except httpx.HTTPError as error:
            return [f"api-server ({type(error).__name__})"]
        return [
            f"{part} {told}"
            for part in _HEALTH_PARTS
            if (told := health.get(part)) is None or told["status"] != "healthy"
        ]

    def _tell_health(self) -> str:
        return f"the deployment is healthy: not {'; '.join(self._unhealthy())}"

    def _unknown_dags(self) -> list[str]:
        errors = self._http.get("/importErrors").json().get("import_errors", [])
        if errors:
            raise RuntimeError(f"a Dag file cannot be imported: {errors[0]['stack_trace']}")
        assert self._home is not None
        files = {path.name for path in (self._home / "dags").glob("*.py")}
        return sorted(files - self.inspect.dag_files())

    def _token(self) -> str:
        token: str = httpx.get(f"{self.address}/auth/token").json()["access_token"]
        return token

    def _api(self, method: str, path: str, body: Mapping[str, Any]) -> Any:
        response = self._http.request(method, path, json=dict(body))
        if response.is_error:
            raise RuntimeError(f"{method} {path} answered {response.status_code}: {response.text[:500]}")
        return response.json()

    def _wait(self, condition: Callable[[], object], seconds: float, what: str | Callable[[], str]) -> None:
        try:
            wait_until(condition, seconds, what)
        except TimeoutError as error:
            for part in self._parts.values():
                alive = "" if part.is_alive() else " (ended)"
                error.add_note(f"--- {part.name}{alive}\n{part.tail()}")
            # Of a long report often only the end is seen.
            error.add_note(f"--- {error}"[:3000])
            raise

    def _report(self, dag_id: str, run_id: str) -> str:
        lines = [f"run {run_id} of {dag_id}"]
        for instance in self.inspect.task_instances(dag_id, run_id):
            lines.append(f"  {instance.task_id}[{instance.map_index}]: {instance.state}")
            if instance.state not in ("success", None):
                log = self.inspect.task_log(dag_id, run_id, instance.task_id, instance.map_index)
                lines.append(log[-3000:])
        return "\n".join(lines)


_HEALTH_PARTS = ("metadatabase", "scheduler", "triggerer", "dag_processor")
