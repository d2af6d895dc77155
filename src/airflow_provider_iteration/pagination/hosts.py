# SPDX-License-Identifier: Apache-2.0
"""Which hosts may see a connection's headers."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from airflow_provider_iteration.exceptions import ForeignHostError

DEFAULT_PORTS = {"http": 80, "https": 443}
# Control characters anywhere; white space and backslashes before the path.
_DOUBTFUL = re.compile(r"[\x00-\x1f\x7f]|^[^/?#]*(?://[^/?#]*)?[\s\\]")


class Origin(NamedTuple):
    """Where a URL leads, in a form that can be compared."""

    scheme: str
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"


def checked_hosts(allowed_hosts: Iterable[str]) -> tuple[str, ...]:
    """
    Check ``allowed_hosts`` where they are written down.

    :raises TypeError: if it is one string, or holds something else than strings.
    :raises ValueError: if one is not of the form that :class:`HostPolicy` takes.
    """
    if not isinstance(allowed_hosts, str):
        allowed_hosts = tuple(allowed_hosts)
    _allowed(allowed_hosts)
    return tuple(allowed_hosts)


class HostPolicy:
    """
    Follow a link only to where the connection's credentials belong.

    Allowed are the connection's own scheme, host and port, the same host by https instead of http (both on
    their default ports), and what ``allowed_hosts`` names. Nothing leads from https down to http. A link
    with a user name in it is refused: ``http://good.example@evil.example/`` leads to ``evil.example``.

    :param base_url: absolute http or https URL of the connection.
    :param allowed_hosts: further hosts: ``"files.example"`` for any port, ``"files.example:8443"`` for one,
        ``"[2001:db8::1]:8443"`` for an IPv6 address. No wildcards.
    :raises TypeError: if ``allowed_hosts`` is one string, or holds something else than strings.
    :raises ValueError: if an argument is not of that form.
    """

    __slots__ = ("_allowed", "_base")

    def __init__(self, base_url: str, allowed_hosts: Iterable[str] = ()) -> None:
        base = _origin(base_url)
        if base is None:
            raise ValueError("base_url: expected an absolute http or https URL with a host")
        self._base = base
        self._allowed = _allowed(allowed_hosts)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._base.scheme}://{self._base})"

    def check(self, url: str, what: str) -> None:
        """
        Refuse a URL that leads elsewhere, before anything is sent to it.

        :param url: the absolute URL to be requested next.
        :param what: what the URL is, for the error, such as ``"the next link of page 3"``.
        :raises ForeignHostError: if it leads to a host that is not allowed, names a user, goes from https
            down to http, or is no http URL.
        """
        target = _origin(url)
        if target is None:
            raise ForeignHostError(f"{what} is not an absolute http or https URL; it was not followed")
        if "@" in urlsplit(url).netloc:
            raise ForeignHostError(
                f"{what} leads to {str(target)!r} with a user name before the host; it was not followed"
            )
        if target == self._base or self._is_upgrade(target):
            return
        if (self._base.scheme, target.scheme) == ("https", "http"):
            raise ForeignHostError(
                f"{what} leads from https to unencrypted http on {str(target)!r}; it was not followed"
            )
        if not self._is_allowed(target):
            raise ForeignHostError(self._refusal(what, target))

    def _refusal(self, what: str, target: Origin) -> str:
        return (
            f"{what} leads to {str(target)!r} by {target.scheme}, but the connection is for "
            f"{str(self._base)!r} by {self._base.scheme}; it was not followed. If that host may see what "
            f"this connection sends, add {str(target)!r} to allowed_hosts"
        )

    def _is_upgrade(self, target: Origin) -> bool:
        before, after = (Origin(scheme, self._base.host, port) for scheme, port in DEFAULT_PORTS.items())
        return (self._base, target) == (before, after)

    def _is_allowed(self, target: Origin) -> bool:
        return not self._allowed.isdisjoint({(target.host, None), (target.host, target.port)})


def _allowed(hosts: Any) -> frozenset[tuple[str, int | None]]:
    if isinstance(hosts, (str, bytes)) or not isinstance(hosts, Iterable):
        raise TypeError("allowed_hosts: expected a list of hosts, such as ['files.example']")
    return frozenset(_allowed_host(host) for host in hosts)


def _allowed_host(entry: Any) -> tuple[str, int | None]:
    if not isinstance(entry, str):
        raise TypeError(f"allowed_hosts: expected host names (str), got {type(entry).__name__}")
    parsed = None if re.search(r"[/?#@*]", entry) else _split(f"http://{entry}")
    if parsed is None:
        raise ValueError(
            "allowed_hosts: expected entries like 'files.example' or 'files.example:8443', without scheme, "
            "path, user or wildcard"
        )
    return parsed


def _origin(url: Any) -> Origin | None:
    parsed = _split(url) if isinstance(url, str) else None
    if parsed is None:
        return None
    scheme = urlsplit(url).scheme
    return Origin(scheme, parsed[0], DEFAULT_PORTS[scheme] if parsed[1] is None else parsed[1])


def _split(url: str) -> tuple[str, int | None] | None:
    """Return host and port of an http URL, or None for anything else or anything doubtful."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return None
    # Parsers disagree about these characters, and the one that sends the request is another one.
    if _DOUBTFUL.search(url) or parts.scheme not in DEFAULT_PORTS:
        return None
    host = _host(parts.netloc.rpartition("@")[2])
    return (host, port) if host else None


def _host(netloc: str) -> str:
    if netloc.startswith("["):
        address, _, port = netloc[1:].partition("]")
        return _address(address) if port == "" or port.startswith(":") else ""
    host = netloc.partition(":")[0].removesuffix(".")
    # Outside of ASCII two libraries may fold the case of two hosts into one; take those as they are.
    return host.lower() if host.isascii() else host


def _address(text: str) -> str:
    try:
        return ipaddress.IPv6Address(text).compressed
    except ValueError:
        return ""
