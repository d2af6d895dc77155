# SPDX-License-Identifier: Apache-2.0
"""
How requests are sent: proxies, TLS, time-outs, redirects.

What the stock hook's options mean is asked of the library that it sends with (``requests``), so that one
option has one meaning; the sending itself is aiohttp's.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias

import aiohttp
import requests
from requests.utils import select_proxy

_OF_THE_STOCK_HOOK = frozenset(
    {
        "allow_redirects",
        "cert",
        "check_response",
        "max_redirects",
        "proxies",
        "proxy",
        "stream",
        "timeout",
        "trust_env",
        "verify",
        "verify_ssl",
    }
)
OF_THE_REQUEST = frozenset({"auth", "cookies", "files", "hooks", "json", "params"})
"""Options that say what is sent, not how."""

_Certificate: TypeAlias = str | tuple[str, str] | None


class KeepAlive(NamedTuple):
    """
    TCP keep-alive of the connections, as of the stock hook.

    :param enabled: whether probes are sent.
    :param idle: seconds without traffic before the first one.
    :param probes: probes without an answer before the connection is given up.
    :param interval: seconds between probes.
    """

    enabled: bool = True
    idle: int = 120
    probes: int = 20
    interval: int = 30

    def make_socket(self, address: Any) -> socket.socket:
        """Make a socket for an address, as aiohttp's connector asks for it."""
        family, kind, protocol, _, _ = address
        made = socket.socket(family=family, type=kind, proto=protocol)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, int(self.enabled))
        if self.enabled:
            # Not every platform has each of them.
            for name, value in (
                ("TCP_KEEPIDLE", self.idle),
                ("TCP_KEEPCNT", self.probes),
                ("TCP_KEEPINTVL", self.interval),
            ):
                if (option := getattr(socket, name, None)) is not None:
                    made.setsockopt(socket.IPPROTO_TCP, option, value)
        return made


class TlsContexts:
    """
    The TLS contexts of one session. aiohttp keeps a connection only for requests with the same context.
    """

    def __init__(self) -> None:
        self._made: dict[tuple[bool | str, _Certificate], bool | ssl.SSLContext] = {}

    def get(self, verify: bool | str, cert: _Certificate) -> bool | ssl.SSLContext:
        """
        Return a context; aiohttp's own two are True and False.

        :param verify: whether certificates are verified, or the path of a bundle.
        :param cert: path of a client certificate, or of it and its key.
        """
        if (verify, cert) not in self._made:
            self._made[verify, cert] = _tls(verify, cert)
        return self._made[verify, cert]


class Transport(NamedTuple):
    """
    Options of the stock hook, read.

    :param allow_redirects: whether redirects are followed.
    :param max_redirects: how many at most.
    :param check_response: whether a status of 400 and above is a failure.
    :param trust_env: whether proxies, CA bundles and ``.netrc`` of the environment count.
    :param timeout: time-outs; None is aiohttp's default, five minutes in all.
    :param proxies: scheme -> URL of its proxy.
    :param verify: whether certificates are verified, or the path of a bundle.
    :param cert: path of a client certificate, or of it and its key.
    :param others: options of aiohttp's own request, as they are.
    """

    allow_redirects: bool
    max_redirects: int
    check_response: bool
    trust_env: bool
    timeout: aiohttp.ClientTimeout | None
    proxies: dict[str, str]
    verify: bool | str
    cert: _Certificate
    others: dict[str, Any]

    @classmethod
    def of_options(cls, options: Mapping[str, Any]) -> Transport:
        """
        Read the connection's and the operator's options, laid over each other.

        :param options: such as ``timeout``, ``verify``, ``cert``, ``proxies``, ``check_response``.
        """
        ignored = _OF_THE_STOCK_HOOK | OF_THE_REQUEST
        cert = options.get("cert")
        return cls(
            allow_redirects=bool(options.get("allow_redirects", True)),
            max_redirects=int(options.get("max_redirects", requests.models.DEFAULT_REDIRECT_LIMIT)),
            check_response=bool(options.get("check_response", True)),
            trust_env=bool(options.get("trust_env", True)),
            timeout=_timeout(options.get("timeout")),
            proxies=_proxies(options.get("proxies", options.get("proxy"))),
            verify=options.get("verify", options.get("verify_ssl", True)),
            cert=tuple(cert) if isinstance(cert, list) else cert,
            others={name: value for name, value in options.items() if name not in ignored},
        )

    def session(self) -> requests.Session:
        """Return a session that knows these options; nothing is sent with it."""
        session = requests.Session()
        session.trust_env = self.trust_env
        session.proxies.update(self.proxies)
        session.verify = self.verify
        session.cert = self.cert
        return session

    def sending(self, url: str, contexts: TlsContexts) -> dict[str, Any]:
        """
        Give the arguments of aiohttp's request for a URL. Reads files of certificates: use a thread.

        :param url: where the request goes.
        :param contexts: TLS contexts made so far.
        """
        with self.session() as session:
            settings: Mapping[str, Any] = session.merge_environment_settings(
                url, self.proxies, False, self.verify, self.cert
            )
        arguments: dict[str, Any] = {
            "allow_redirects": self.allow_redirects,
            "max_redirects": self.max_redirects,
            # Of plain HTTP too: a redirect may lead to HTTPS.
            "ssl": contexts.get(settings["verify"], settings["cert"]),
        }
        if (proxy := select_proxy(url, settings["proxies"])) is not None:
            arguments["proxy"] = proxy if "://" in proxy else f"http://{proxy}"
        if self.timeout is not None:
            arguments["timeout"] = self.timeout
        return {**arguments, **self.others}


def _timeout(value: Any) -> aiohttp.ClientTimeout | None:
    if value is None or isinstance(value, aiohttp.ClientTimeout):
        return value
    if isinstance(value, (tuple, list)):
        connect, read = value
        return aiohttp.ClientTimeout(total=None, sock_connect=connect, sock_read=read)
    return aiohttp.ClientTimeout(total=None, sock_connect=value, sock_read=value)


def _proxies(value: Any) -> dict[str, str]:
    if isinstance(value, str):
        return {"http": value, "https": value}
    return dict(value or {})


def _tls(verify: bool | str, cert: _Certificate) -> bool | ssl.SSLContext:
    if verify is True and cert is None:
        return True
    if verify is False and cert is None:
        return False
    context = ssl.create_default_context()
    if isinstance(verify, str):
        # As requests does: the bundle given is the only one.
        context = ssl.create_default_context(**_bundle(verify))
    elif not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if cert is not None:
        context.load_cert_chain(*((cert,) if isinstance(cert, str) else cert))
    return context


def _bundle(path: str) -> dict[str, Any]:
    from pathlib import Path

    return {"capath": path} if Path(path).is_dir() else {"cafile": path}
