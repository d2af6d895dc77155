# SPDX-License-Identifier: Apache-2.0
"""A child process with everything that it starts: ended, stopped and continued as a whole, by pid."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import psutil

STOP_SECONDS = 20.0
_LISTENING_PORTS = range(15_000, 32_000)


class ManagedProcess:
    """
    One program of a deployment, with its log file.

    :param name: name for messages.
    :param command: program and arguments.
    :param log: file that stdout and stderr are appended to.
    :param environment: the whole environment of the process.
    """

    def __init__(self, name: str, command: Sequence[str], log: Path, environment: Mapping[str, str]) -> None:
        self.name = name
        self.log = log
        self._command = list(command)
        self._environment = dict(environment)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """Pid of the process."""
        if self._process is None:
            raise RuntimeError(f"{self.name} was not started")
        return self._process.pid

    def start(self) -> None:
        """Start the process in a session of its own, so that signals to the caller do not reach it."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self._environment,
                start_new_session=True,
            )

    def is_alive(self) -> bool:
        """Tell whether the process runs (or is stopped by a signal)."""
        return self._process is not None and self._process.poll() is None

    def tree(self) -> list[psutil.Process]:
        """Return the process and all that it started, parents first."""
        try:
            parent = psutil.Process(self.pid)
            return [parent, *parent.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []

    def kill(self) -> None:
        """SIGKILL the process and all that it started."""
        self._signal(self.tree(), signal.SIGKILL)
        self._wait(STOP_SECONDS)

    def stop(self) -> None:
        """SIGSTOP the process and all that it started."""
        self._signal(self.tree(), signal.SIGSTOP)

    def cont(self) -> None:
        """SIGCONT the process and all that it started."""
        self._signal(self.tree(), signal.SIGCONT)

    def terminate(self, seconds: float = STOP_SECONDS) -> None:
        """SIGTERM the process; SIGKILL what is left of its tree after a while."""
        if not self.is_alive():
            return
        tree = self.tree()
        self._signal(tree[:1], signal.SIGTERM)
        self._wait(seconds)
        self._signal(tree, signal.SIGKILL)
        self._wait(STOP_SECONDS)

    def end(self) -> None:
        """End the process whatever state it is in."""
        self.cont()
        self.terminate()

    def restart(self) -> None:
        """End the process gently and start it again."""
        self.terminate()
        self.start()

    def tail(self, lines: int = 30) -> str:
        """Return the end of the log."""
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        return "\n".join(text.splitlines()[-lines:])

    def _wait(self, seconds: float) -> None:
        if self._process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(seconds)

    @staticmethod
    def _signal(processes: Sequence[psutil.Process], number: signal.Signals) -> None:
        for process in processes:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(number)


def free_port() -> int:
    """
    Return a TCP port of the loopback address that is free now.

    It is none of those that the kernel gives to outgoing connections: one of these could take it before the
    program that it is meant for listens there.
    """
    for port in random.SystemRandom().sample(_LISTENING_PORTS, 50):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise RuntimeError(f"none of 50 ports of {_LISTENING_PORTS} is free")


def wait_until(
    condition: Callable[[], object], seconds: float, what: str | Callable[[], str], every: float = 0.2
) -> None:
    """
    Poll until a condition holds.

    :param condition: called again and again.
    :param seconds: how long to wait at most.
    :param what: what was waited for, for the error.
    :raises TimeoutError: if it did not hold in time.
    """
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {seconds:g} s: {what() if callable(what) else what}")
        time.sleep(every)


def clean_environment() -> dict[str, str]:
    """Return this process's environment without anything that configures an Airflow."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW")}
    # Without byte code every task process would compile Airflow anew.
    kept.pop("PYTHONDONTWRITEBYTECODE", None)
    return kept
