"""URLs: what they lead to, as whom, and that no error shows a password."""

from __future__ import annotations

from urllib.parse import quote

import pytest

from amqp10 import TLS, Proxy
from amqp10.net import Endpoint, TransportOptions, is_loopback, parse_url, same_host


@pytest.mark.parametrize(
    ("url", "endpoint"),
    [
        ("amqp://broker", Endpoint("amqp", "broker", 5672)),
        ("amqps://broker", Endpoint("amqps", "broker", 5671)),
        ("amqp://broker:1234", Endpoint("amqp", "broker", 1234)),
        ("AMQP://Broker.Example/", Endpoint("amqp", "broker.example", 5672)),
        ("amqp://guest:guest@localhost", Endpoint("amqp", "localhost", 5672, "guest", "guest")),
        ("amqp://guest@localhost", Endpoint("amqp", "localhost", 5672, "guest")),
        ("amqp://guest:@localhost", Endpoint("amqp", "localhost", 5672, "guest", "")),
        ("amqp://a%40b:%2F%3A%40%C3%BC@h", Endpoint("amqp", "h", 5672, "a@b", "/:@ü")),
        ("amqp://a:b@c@h", Endpoint("amqp", "h", 5672, "a", "b@c")),
        ("amqp://u:p@[::1]:99/q%20x/y", Endpoint("amqp", "::1", 99, "u", "p", "q x/y")),
        ("amqps://10.0.0.1", Endpoint("amqps", "10.0.0.1", 5671)),
        ("amqp+unix:///run/amqp.sock", Endpoint("amqp+unix", "", 0, path="/run/amqp.sock")),
        ("amqp+unix://u:p@/run/a%20b@c.sock", Endpoint("amqp+unix", "", 0, "u", "p", "/run/a b@c.sock")),
        ("amqp+unix:///run/b@c.sock", Endpoint("amqp+unix", "", 0, path="/run/b@c.sock")),
        ("ws://h", Endpoint("ws", "h", 80, target="/")),
        ("wss://h/", Endpoint("wss", "h", 443, target="/")),
        ("WSS://u:p%40@H:99", Endpoint("wss", "h", 99, "u", "p@", target="/")),
        (
            "wss://h/$servicebus/websocket?a=b%20c&d=%2F",
            Endpoint("wss", "h", 443, path="$servicebus/websocket", target="/$servicebus/websocket?a=b%20c&d=%2F"),
        ),
        ("ws://[::1]/grün x", Endpoint("ws", "::1", 80, path="grün x", target="/gr%C3%BCn%20x")),
    ],
)
def test_parts(url: str, endpoint: Endpoint) -> None:
    """Scheme, host, port, user, password, path; percent-decoded where they are text."""
    assert parse_url(url) == endpoint


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("broker:5672", "must begin with amqp://"),
        ("", "must begin with amqp://"),
        ("http://broker", "scheme 'http'"),
        ("Endpoint=sb://h.servicebus.windows.net/;SharedAccessKeyName=k;SharedAccessKey=secret=", "SasKey"),
        ("Endpoint=sb://h/;SharedAccessKeyName=k;SharedAccessKey=secret/=", "an Azure connection string, not a URL"),
        ("amqp://", "must have a host"),
        ("amqp://:5672", "must have a host"),
        ("amqp://h?heartbeat=5", "must not have a fragment, or a query"),
        ("amqp://h#x", "must not have a fragment"),
        ("ws://h/#x", "must not have a fragment"),
        ("ws://user:1?secret@h", "not a URL"),
        ("wss://:secret@h", "user name in the URL must not be empty"),
        ("wss://", "must have a host"),
        ("amqp://h:port", "not a URL"),
        ("amqp://h:65536", "not a URL"),
        ("amqp://[::1", "not a URL"),
        ("amqp://@h", "user name in the URL must not be empty"),
        ("amqp://:secret@h", "user name in the URL must not be empty"),
        ("amqp+unix://", "path of the Unix socket is missing"),
        ("amqp+unix://host/run/a.sock", "no host"),
        ("amqp://user:secret/1@h", "not a URL"),
        ("amqp://user:1/secret@h", "not a URL"),
        ("amqp://user:secret#1@h", "not a URL"),
        ("amqp://user:1?secret@h", "not a URL"),
        ("amqp://user:sec[ret@h", "not a URL"),
        ("amqp://user:secret\u2100@h", "not a URL"),
    ],
)
def test_refused(url: str, reason: str) -> None:
    """One clear reason; the password is in neither the error nor what led to it."""
    with pytest.raises(ValueError, match=reason) as caught:
        parse_url(url)
    assert "secret" not in repr(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


@pytest.mark.parametrize(
    "url", ["amqp://user:secret@h:1/q", "amqps://user:secret@h", "amqp+unix://user:secret@/a.sock"]
)
def test_no_password_is_shown(url: str) -> None:
    """Neither the repr nor the string has the password; the string is without the user, too."""
    endpoint = parse_url(url)
    assert "secret" not in repr(endpoint)
    assert "secret" not in str(endpoint)
    assert "user" not in str(endpoint)


@pytest.mark.parametrize(
    "url", ["amqp://h:5672", "amqps://h:5671", "amqp://[::1]:5672", "amqp+unix:///run/a.sock", "ws://h:1/a/b"]
)
def test_string(url: str) -> None:
    """The string leads to the same place."""
    assert str(parse_url(url)) == url


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("localhost", True),
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("::ffff:127.0.0.1", True),
        ("::ffff:10.0.0.1", False),
        ("10.0.0.1", False),
        ("0.0.0.0", False),
        ("localhost.example", False),
        ("127.0.0.1.example", False),
        ("", False),
    ],
)
def test_loopback(host: str, loopback: bool) -> None:
    """Addresses of this machine, and the one name that always means it."""
    assert is_loopback(host) is loopback


def test_facts() -> None:
    """What the scheme says."""
    assert parse_url("amqps://h").tls
    assert not parse_url("amqp://h").tls
    assert parse_url("amqp+unix:///a").unix
    assert parse_url("amqp+unix:///a").loopback
    assert parse_url("amqp://[::1]").loopback
    assert not parse_url("amqp://h").loopback
    assert parse_url("wss://h").tls
    assert parse_url("wss://h").websocket
    assert parse_url("ws://localhost").loopback
    assert not parse_url("ws://h").tls
    assert not parse_url("amqp://h").websocket
    assert parse_url("ws://[::1]").authority == "[::1]:80"


def test_a_query_is_not_shown() -> None:
    """What stands in a query may be a token."""
    endpoint = parse_url("wss://h/p?sig=secret")
    assert endpoint.target == "/p?sig=secret"
    assert "secret" not in repr(endpoint) + str(endpoint)


HOSTILE = [
    "",
    "a b",
    "a\tb",
    "h\r\nX-Injected: yes",
    "h\0",
    "h\x9b",
    "h\u202e",
    "user@h",
    "user:password@h",
    "[::1]",
    "h/path",
    "h?query",
    "h#fragment",
    "h%0d%0a",
    "h,i",
    "a..b",
    ".a",
    "☃.example",
    "a\uff0fb",
    "x" * 64,
    "a." * 127 + "a",
    "ü" * 100_000,
    "::1%",
    "fe80::1%eth0\r\nX: y",
    "fe80::1%e h",
    "::1]:80 HTTP/1.1\r\nX: y",
    "h:80",
]


@pytest.mark.parametrize("host", HOSTILE, ids=range(len(HOSTILE)))
def test_no_host(host: str) -> None:
    """What would mean more than a host in a request, a header, TLS or a log is refused, and shown escaped."""
    for make in (
        lambda: Endpoint("amqp", host, 5672),
        lambda: Endpoint("amqps", "h", 5671, name=host),
        lambda: TLS(server_hostname=host),
        lambda: parse_url("amqp://" + quote(host, safe="")),
        lambda: Proxy("http://" + quote(host, safe="")),
    ):
        with pytest.raises(ValueError, match=r"host|a proxy is") as caught:
            make()
        assert str(caught.value).isprintable()
        assert len(str(caught.value)) < 600


@pytest.mark.parametrize(
    "host",
    ["broker", "b_1.example.com.", "10.0.0.1", "::1", "::ffff:10.0.0.1", "fe80::1%eth0.1", "bücher.example", "x" * 63],
)
def test_hosts(host: str) -> None:
    """Names, addresses of both kinds, and names that are not ASCII."""
    assert Endpoint("amqp", host, 5672).host == host
    assert str(Endpoint("amqp", host, 5672)).isascii()


def test_a_zone() -> None:
    """A zone leads to a link-local address and is told nobody (RFC 9844); a proxy has no use of it."""
    endpoint = parse_url("wss://[fe80::1%25eth0]:99")
    assert (endpoint.host, endpoint.name, endpoint.authority) == ("fe80::1%eth0", "fe80::1", "[fe80::1]:99")
    with pytest.raises(ValueError, match="zone"):
        TransportOptions(Proxy("http://proxy")).check(endpoint, None)


@pytest.mark.parametrize("port", [-1, 0, 65536])
def test_no_port(port: int) -> None:
    """Ports are in 1..65535."""
    with pytest.raises(ValueError, match=f"1..65535, not {port}"):
        Endpoint("amqp", "h", port)


def test_a_socket_with_line_breaks() -> None:
    """A path of the file system may have anything but a NUL; what is shown of it is one line."""
    assert str(parse_url("amqp+unix:///run/a%0ab%e2%80%ae")) == r"amqp+unix:///run/a\nb\u202e"
    with pytest.raises(ValueError, match="NUL"):
        parse_url("amqp+unix:///run/a%00")


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("A.Example", "a.example.", True),
        ("bücher.example", "xn--bcher-kva.example", True),
        ("BÜCHER.example", "bücher.example", True),
        ("::1", "0:0::1", True),
        ("localhost", "127.0.0.1", True),
        ("10.0.0.1", "10.0.0.2", False),
        ("a.example", "b.example", False),
        ("localhost", "localhost.example", False),
    ],
)
def test_same_host(one: str, other: str, same: bool) -> None:
    """Other spellings of one host; no name is looked up."""
    assert same_host(one, other) is same
