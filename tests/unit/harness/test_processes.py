# SPDX-License-Identifier: Apache-2.0
"""Ports of a deployment, and the processes on them."""

from __future__ import annotations

import socket
from pathlib import Path

from harness.processes import free_port

LOCAL_PORTS = Path("/proc/sys/net/ipv4/ip_local_port_range")


def test_free_port_can_be_listened_on() -> None:
    """A port is free when it is returned."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", port := free_port()))
        server.listen()
        assert server.getsockname()[1] == port


def test_free_port_is_none_that_outgoing_connections_get() -> None:
    """No connection can take it before the program listens there."""
    lowest = int(LOCAL_PORTS.read_text().split()[0]) if LOCAL_PORTS.exists() else 32_768
    assert max(free_port() for _ in range(20)) < lowest
