# SPDX-License-Identifier: Apache-2.0
"""Which links may be followed."""

from __future__ import annotations

import pytest

from airflow_provider_iteration.exceptions import ForeignHostError
from airflow_provider_iteration.pagination import HostPolicy

WHAT = "the next link of page 3"

FOLLOWED = [
    ("https://api.example", "https://api.example/orders?page=2"),
    ("https://api.example", "https://API.Example./orders"),
    ("https://api.example", "HTTPS://api.example/orders"),
    ("https://api.example", "https://api.example:443/orders"),
    ("https://api.example:443", "https://api.example"),
    ("https://api.example/v1/", "https://api.example/v2/orders"),
    ("http://api.example:8080", "http://api.example:8080/orders"),
    ("http://api.example", "https://api.example/orders"),
    ("http://api.example:80", "https://api.example:443/orders"),
    ("http://[::1]:8080", "http://[0:0:0:0:0:0:0:1]:8080/orders"),
    ("https://[2001:DB8::1]", "https://[2001:db8::1]:443/orders"),
    ("https://bücher.example", "https://bücher.example/orders"),
    ("https://user:pw@api.example", "https://api.example/orders"),
    ("https://api.example", "https://api.example/a file@evil.example"),
    ("https://api.example", "https://api.example/?next=https://evil.example/"),
]

FOREIGN = [
    ("https://api.example", "https://evil.example/", "evil.example"),
    ("https://api.example", "https://sub.api.example/", "sub.api.example"),
    ("https://api.example", "https://api.example.evil.example/", "api.example.evil.example"),
    ("https://api.example", "https://api.example:8443/", "api.example:8443"),
    ("https://api.example", "https://api.example@evil.example/", "evil.example"),
    ("https://api.example", "https://api.example:pw@evil.example/", "evil.example"),
    ("https://api.example", "https://user@api.example/", "api.example"),
    ("https://api.example", "http://api.example/", "api.example"),
    ("https://api.example", "http://api.example:443/", "api.example:443"),
    ("http://api.example:8080", "https://api.example:8080/", "api.example:8080"),
    ("http://api.example:8080", "https://api.example/", "api.example"),
    ("https://api.example", "https://127.0.0.1/", "127.0.0.1"),
    ("https://[2001:db8::1]", "https://[2001:db8::2]/", "[2001:db8::2]"),
    ("https://strasse.example", "https://straße.example/", "straße.example"),
    ("https://kelvin.example", "https://\u212aelvin.example/", "\u212aelvin.example"),
]

NO_HTTP = [
    "ftp://api.example/",
    "file:///etc/passwd",
    "javascript:alert(1)",
    "/orders?page=2",
    "//api.example/orders",
    "",
    "https://",
    "https:///orders",
    "https://api.example\\@evil.example/",
    "https://evil.example\\.api.example/",
    "https://api.example\t.evil.example/",
    "https:/\n/api.example/",
    "https://api.example /orders",
    " https://api.example/orders",
    "https://[::1/",
    "https://[::1].evil.example/",
    "https://[api.example]/",
    "https://api.example:port/",
    "https://api.example:99999/",
]


@pytest.mark.parametrize(("base", "url"), FOLLOWED)
def test_follows_the_connections_own_origin(base: str, url: str) -> None:
    """However it is written, the same origin is followed, and so is an upgrade on the default ports."""
    HostPolicy(base).check(url, WHAT)


@pytest.mark.parametrize(("base", "url", "host"), FOREIGN)
def test_refuses_another_origin_and_names_its_host(base: str, url: str, host: str) -> None:
    """A link elsewhere is refused, and the error names the host that it really leads to."""
    with pytest.raises(ForeignHostError) as caught:
        HostPolicy(base).check(url, WHAT)
    assert f"{WHAT} leads" in str(caught.value)
    assert repr(host) in str(caught.value)


@pytest.mark.parametrize("url", NO_HTTP)
def test_refuses_what_is_no_http_url(url: str) -> None:
    """Other schemes, relative links, and URLs that two parsers may read differently are refused."""
    with pytest.raises(ForeignHostError, match="not an absolute http or https URL"):
        HostPolicy("https://api.example").check(url, WHAT)


def test_refusal_tells_what_to_do() -> None:
    """The error says what to add to ``allowed_hosts``."""
    with pytest.raises(ForeignHostError) as caught:
        HostPolicy("https://api.example").check("https://files.example:8443/a?token=s3cret#f", WHAT)
    assert str(caught.value) == (
        "the next link of page 3 leads to 'files.example:8443' by https, but the connection is for "
        "'api.example' by https; it was not followed. If that host may see what this connection sends, "
        "add 'files.example:8443' to allowed_hosts"
    )


@pytest.mark.parametrize(
    "url",
    [
        "https://user:s3cret@evil.example/s3cret?token=s3cret",
        "http://api.example/s3cret?token=s3cret",
        "https://evil.example/s3cret?token=s3cret",
        "ftp://evil.example/s3cret?token=s3cret",
    ],
)
def test_refusal_shows_the_host_only(url: str) -> None:
    """Neither user, path nor query of the link is in the error."""
    with pytest.raises(ForeignHostError) as caught:
        HostPolicy("https://api.example").check(url, WHAT)
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    ("allowed", "url"),
    [
        ("files.example", "https://files.example/a"),
        ("files.example", "https://files.example:8443/a"),
        ("Files.Example.", "https://files.example/a"),
        ("files.example:8443", "https://files.example:8443/a"),
        ("files.example:443", "https://files.example/a"),
        ("[2001:db8::1]:8443", "https://[2001:db8:0::1]:8443/a"),
        ("[2001:db8::1]", "https://[2001:db8::1]/a"),
        ("api.example", "https://api.example:8443/a"),
    ],
)
def test_follows_an_allowed_host(allowed: str, url: str) -> None:
    """An entry without a port allows every port, one with a port allows that one."""
    HostPolicy("https://api.example", allowed_hosts=[allowed]).check(url, WHAT)


@pytest.mark.parametrize(
    ("allowed", "url"),
    [
        ("files.example:8443", "https://files.example/a"),
        ("files.example", "https://cdn.files.example/a"),
        ("files.example", "http://files.example/a"),
        ("api.example", "http://api.example/a"),
        ("files.example", "https://me@files.example/a"),
    ],
)
def test_an_allowed_host_allows_no_more_than_itself(allowed: str, url: str) -> None:
    """Other ports, subdomains, unencrypted http after https, and user names stay refused."""
    with pytest.raises(ForeignHostError):
        HostPolicy("https://api.example", allowed_hosts=[allowed]).check(url, WHAT)


def test_allows_another_host_by_http_where_the_connection_is_http_too() -> None:
    """There is nothing to downgrade from where the connection itself is not encrypted."""
    HostPolicy("http://127.0.0.1:8001", ["127.0.0.1:8002"]).check("http://127.0.0.1:8002/", WHAT)


@pytest.mark.parametrize(
    "entry",
    ["https://files.example", "files.example/a", "*.files.example", "me@files.example", "", "a:b", "a b"],
)
def test_refuses_an_allowed_host_of_another_form(entry: str) -> None:
    """An entry that would never match is refused, not ignored."""
    with pytest.raises(ValueError, match="allowed_hosts: expected entries like"):
        HostPolicy("https://api.example", allowed_hosts=[entry])


@pytest.mark.parametrize("hosts", ["files.example", None, 3])
def test_refuses_allowed_hosts_that_is_no_list(hosts: object) -> None:
    """One string would otherwise be read as a list of letters."""
    with pytest.raises(TypeError, match="allowed_hosts: expected a list of hosts"):
        HostPolicy("https://api.example", allowed_hosts=hosts)  # type: ignore[arg-type]


def test_refuses_an_allowed_host_that_is_no_string() -> None:
    """The error names the argument and the type."""
    with pytest.raises(TypeError, match=r"allowed_hosts: expected host names .*, got int"):
        HostPolicy("https://api.example", allowed_hosts=[443])  # type: ignore[list-item]


@pytest.mark.parametrize("base", ["", "api.example", "ftp://api.example", "/v1", None])
def test_refuses_a_base_that_is_no_http_url(base: object) -> None:
    """A connection without scheme or host cannot be compared with."""
    with pytest.raises(ValueError, match="base_url: expected an absolute http or https URL"):
        HostPolicy(base)  # type: ignore[arg-type]


def test_repr_shows_the_origin_only() -> None:
    """The connection's user and password stay out of the repr."""
    assert repr(HostPolicy("https://me:s3cret@api.example/s3cret")) == "HostPolicy(https://api.example)"
