"""Settings of the way to a peer: what they take, what they refuse, and that they show no secret."""

from __future__ import annotations

import ssl
from typing import Any

import pytest

from amqp10 import Connection
from amqp10.net import TLS, Proxy, TransportOptions, WebSocket, parse_url


@pytest.mark.parametrize(
    ("url", "shown", "authorization"),
    [
        ("http://proxy", "http://proxy:80", None),
        ("https://proxy/", "https://proxy:443", None),
        ("http://proxy:3128", "http://proxy:3128", None),
        ("HTTP://Proxy.Example:3128", "http://proxy.example:3128", None),
        ("http://[::1]:3128", "http://[::1]:3128", None),
        ("http://user:pass%2Fword@proxy:1", "http://proxy:1", "Basic dXNlcjpwYXNzL3dvcmQ="),
        ("http://user@proxy:1", "http://proxy:1", "Basic dXNlcjo="),
    ],
)
def test_proxy(url: str, shown: str, authorization: str | None) -> None:
    """Where it is, whether by TLS, and the login in HTTP's form (RFC 7617)."""
    proxy = Proxy(url)
    assert str(proxy) == shown
    assert proxy.secure is shown.startswith("https")
    assert proxy.authorization == authorization


@pytest.mark.parametrize(
    "url",
    [
        "proxy:3128",
        "socks5://user:secret@proxy",
        "http://",
        "http://user:secret@",
        "http://user:secret@proxy:port",
        "http://user:secret@proxy:99999",
        "http://user:sec/ret@proxy",
        "http://user:secret@proxy/path",
        "http://user:secret@proxy?query",
        "http://user:secret@proxy#fragment",
        "http://user:secret@[::1",
    ],
)
def test_no_proxy(url: str) -> None:
    """What is no proxy's URL is refused when it is given, without its password in the error or behind it."""
    with pytest.raises(ValueError, match="proxy must be http://") as caught:
        Connection("amqp://broker", proxy=url)
    assert "sec" not in str(caught.value).replace("secure", "")
    assert caught.value.__cause__ is None


def test_secrets_are_not_shown() -> None:
    """Neither a login at the proxy nor headers are in a repr or string."""
    proxy = Proxy("http://user:secret@proxy", headers={"X-Token": "secret"})
    websocket = WebSocket(headers={"Authorization": "Bearer secret"})
    assert "secret" not in repr(proxy) + str(proxy) + repr(websocket) + repr(TransportOptions(proxy, False, websocket))


@pytest.mark.parametrize(
    "headers",
    [{"a b": "x"}, {"": "x"}, {"a:": "x"}, {"a": "secret\r\nHost: evil"}, {"a": "secret\0"}, {"a": "\u20ac"}],
)
def test_header_injection(headers: dict[str, str]) -> None:
    """A header that would become two, or something else, is refused at once; the error has not its value."""
    for make in (lambda: WebSocket(headers=headers), lambda: Proxy("http://proxy", headers=headers)):
        with pytest.raises(ValueError, match="not an HTTP header") as caught:
            make()
        assert "secret" not in str(caught.value)


def test_subprotocol_is_a_token() -> None:
    """Nor does a subprotocol break its line."""
    with pytest.raises(ValueError, match="Sec-WebSocket-Protocol"):
        WebSocket("amqp\r\nOrigin: x")


@pytest.mark.parametrize(
    ("url", "settings", "reason"),
    [
        ("amqp+unix:///a.sock", {"tls": TLS()}, "cannot use TLS"),
        ("amqp+unix:///a.sock", {"tls_upgrade": True}, "cannot use TLS"),
        ("amqp+unix:///a.sock", {"proxy": "http://proxy"}, "Unix socket"),
        ("amqps://broker", {"tls_upgrade": True}, "tls_upgrade is for amqp://"),
        ("ws://broker", {"tls_upgrade": True}, "tls_upgrade is for amqp://"),
        ("amqp://broker", {"websocket": WebSocket()}, "ws://"),
        ("amqp://broker", {"proxy": Proxy("https://p", tls=TLS()), "websocket": WebSocket()}, "ws://"),
    ],
)
def test_what_does_not_fit(url: str, settings: dict[str, Any], reason: str) -> None:
    """Settings that contradict the URL are refused when the connection is made."""
    with pytest.raises(ValueError, match=reason):
        Connection(url, **settings)


def test_tls_of_a_plain_proxy() -> None:
    """TLS settings of a proxy that has none would be those of the peer, misplaced."""
    with pytest.raises(ValueError, match="the peer's tls is an argument of the connection"):
        Proxy("http://proxy", tls=ssl.create_default_context())


@pytest.mark.parametrize(
    ("settings", "hostname"),
    [
        ({}, "broker"),
        ({"tls": TLS(server_hostname="inside.example")}, "inside.example"),
        ({"tls": TLS(server_hostname="inside.example"), "hostname": "vhost"}, "vhost"),
        ({"hostname": ""}, ""),
    ],
)
def test_the_open_agrees_with_tls(settings: dict[str, Any], hostname: str) -> None:
    """The virtual host of the open is the name that TLS sends, unless it is said (§2.7.1 hostname)."""
    lifeline = Connection("amqps://broker", **settings)._core.supervisor
    assert lifeline.endpoint is not None
    assert lifeline._open(lifeline.endpoint, settings.get("tls")).hostname == hostname
    assert parse_url("amqps://broker").tls


@pytest.mark.parametrize(
    ("url", "settings", "hostname"),
    [
        ("amqp://broker/staging", {}, "vhost:staging"),
        ("amqp://broker/%2F", {}, "vhost:/"),
        ("amqp://broker/", {}, "broker"),
        ("amqp://broker/staging", {"hostname": "other"}, "other"),
        ("amqps://broker/staging", {"tls": TLS(server_hostname="inside.example")}, "vhost:staging"),
        ("ws://broker/amqp", {}, "broker"),
        ("amqp+unix:///run/broker", {}, None),
    ],
)
def test_virtual_host_in_1_0(url: str, settings: dict[str, Any], hostname: str | None) -> None:
    """In 1.0 the path of the URL becomes the hostname that RabbitMQ takes for a virtual host, unless one is given."""
    lifeline = Connection(url, **settings)._core.supervisor
    assert lifeline.endpoint is not None
    assert lifeline._open(lifeline.endpoint, settings.get("tls")).hostname == hostname


@pytest.mark.parametrize(
    ("url", "settings", "virtual_host"),
    [
        ("amqp://broker", {"hostname": "Broker"}, None),
        ("amqp://broker", {"hostname": "other"}, "other"),
        ("amqp://broker", {"hostname": "localhost"}, "localhost"),
        ("amqp://broker/path", {"hostname": "other"}, "path"),
        ("amqp://broker/path", {"hostname": "broker"}, "path"),
        ("amqp://broker", {"hostname": "vhost:broker"}, "broker"),
        ("amqp://broker/path", {"hostname": "vhost:broker"}, "broker"),
        ("amqps://10.0.0.1", {"hostname": "inside", "tls": TLS(server_hostname="inside")}, None),
        ("amqps://10.0.0.1", {"hostname": "10.0.0.1", "tls": TLS(server_hostname="inside")}, None),
        ("amqp://[::1]", {"hostname": "localhost"}, None),
        ("amqp+unix:///run/broker", {"hostname": "localhost"}, None),
        ("amqp+unix:///run/broker", {"hostname": "other"}, "other"),
        ("ws://broker/amqp", {"hostname": "broker"}, None),
        ("ws://broker/amqp", {"hostname": "other"}, "other"),
        ("amqp://broker", {}, None),
        ("amqp://broker", {"hostname": ""}, None),
    ],
)
def test_virtual_hosts(url: str, settings: dict[str, Any], virtual_host: str | None) -> None:
    """Dialects before 1.0 are told the path, or a name that is not just the host's own."""
    lifeline = Connection(url, dialect="0-9-1", **settings)._core.supervisor
    assert lifeline.endpoint is not None
    terms = lifeline._open(lifeline.endpoint, settings.get("tls"))
    assert terms.virtual_host == virtual_host
    assert terms.hostname == settings.get("hostname", "broker")
