"""The ways to a broker, from the command line: WebSocket, proxy, TLS by AMQP's header."""

from __future__ import annotations

import json
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from amqp10.testing import CertificateAuthority

from ..kit.net.connect_proxy import connect_proxy

Commands = Callable[..., Any]
Starter = Callable[..., tuple["subprocess.Popen[str]", str]]


def test_websocket(amqp10: Commands, other_broker: Starter) -> None:
    """`broker --websocket` answers both, and send, receive and probe take ws:// URLs."""
    _, url = other_broker("--websocket")
    socket = url.replace("amqp://", "ws://")
    assert amqp10("send", socket, "q", "over a socket").code == 0
    assert amqp10("receive", url, "q", "-n", "1").out == "over a socket\n"
    result = amqp10("probe", f"{socket}/?token=secret", "--json")
    report = json.loads(result.out)
    assert result.code == 0
    assert report["headers"]["AMQP 1.0 with SASL"] == "spoken"
    assert report["dialect"] == "1.0"
    assert "secret" not in result.out


def test_origins(amqp10: Commands) -> None:
    """Origins without the WebSocket are wrong usage."""
    result = amqp10("broker", "--websocket-origin", "https://app.example")
    assert result.code == 2
    assert "--websocket" in result.err


def test_proxy(amqp10: Commands, broker_url: str) -> None:
    """`--proxy`, with its login; a wrong one is no connection, and is not shown."""
    with connect_proxy("user", "secret") as proxy:
        through = proxy.url.replace("://", "://user:secret@")
        assert amqp10("send", broker_url, "proxied", "x", "--proxy", through, "--allow-insecure").code == 0
        assert proxy.tunnels == 1
        refused = amqp10("send", broker_url, "proxied", "x", "--proxy", through.replace("secret", "hidden"))
    assert refused.code == 3
    assert "407" in refused.err
    assert "hidden" not in refused.err


@pytest.fixture
def only_plain() -> Iterator[str]:
    """A server that offers PLAIN and nothing else, and hears nothing; its URL, with a password."""
    body = b"\0\x53\x40\xc0\x08\x01\xa3\x05PLAIN"
    offer = b"AMQP\3\1\0\0" + (8 + len(body)).to_bytes(4, "big") + b"\2\1\0\0" + body

    def serve() -> None:
        with suppress(OSError):
            while True:
                connection, _ = listener.accept()
                accepted.append(connection)
                connection.recv(8)
                connection.sendall(offer)

    accepted: list[socket.socket] = []
    listener = socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=serve)
    thread.start()
    yield f"amqp://user:secret@127.0.0.1:{listener.getsockname()[1]}"
    listener.shutdown(socket.SHUT_RDWR)
    thread.join(10)
    for each in (listener, *accepted):
        each.close()


@pytest.mark.parametrize(
    ("command", "option"),
    [
        (("send", "URL", "q", "x", "--proxy", "PROXY"), " --allow-insecure"),
        (("receive", "URL", "q", "--proxy", "PROXY"), " --allow-insecure"),
        (("bridge", "--from", "URL", "a", "--from-proxy", "PROXY", "--to", "BROKER", "b"), " --from-allow-insecure"),
        (("bridge", "--from", "BROKER", "a", "--to", "URL", "b", "--to-proxy", "PROXY"), " --to-allow-insecure"),
    ],
)
def test_insecure(amqp10: Commands, broker_url: str, only_plain: str, command: tuple[str, ...], option: str) -> None:
    """Who would send a password readable is told by which option to do it all the same; it is not sent."""
    with connect_proxy() as proxy:  # what lies behind it is not this machine, for all that anybody knows
        names = {"URL": only_plain, "PROXY": proxy.url, "BROKER": broker_url}
        dialects = ("--from-dialect", "1.0", "--to-dialect", "1.0") if command[0] == "bridge" else ()
        result = amqp10(*(names.get(each, each) for each in command), *dialects)
    assert result.code == 4
    assert result.err.rstrip().endswith(f"set{option}")
    assert "secret" not in result.err.replace("a <secret> that others can read", "")  # the word, which is the password


def test_mechanisms(amqp10: Commands, broker_url: str, only_plain: str) -> None:
    """Those that are named are used, and nothing else that the server offers."""
    assert amqp10("send", broker_url, "q", "x", "--sasl", "scram-sha-256,PLAIN").code == 0
    for command in (
        ("send", only_plain, "q", "x", "--sasl", "SCRAM-SHA-256"),
        ("bridge", "--from", only_plain, "a", "--from-sasl", "SCRAM-SHA-256", "--to", broker_url, "b"),
    ):
        result = amqp10(*command, *(("--from-dialect", "1.0", "--to-dialect", "1.0") if command[0] == "bridge" else ()))
        assert result.code == 4
        assert "offers PLAIN, and this side can use SCRAM-SHA-256" in result.err


@pytest.mark.parametrize(
    ("url", "options", "reason"),
    [
        ("amqp://h", ("--proxy", "socks5://user:secret@h"), "proxy must be http://"),
        ("amqps://h", ("--tls-upgrade",), "tls_upgrade is for amqp://"),
        ("amqp+unix:///a", ("--proxy", "http://h"), "Unix socket"),
        ("amqp+unix:///a", ("--tls-no-verify",), "a Unix socket cannot use TLS"),
        ("amqp://h", ("--sasl", "PLAIN,X-OWN"), "'X-OWN' is not one of SCRAM-SHA-512-PLUS, "),
        ("amqp://h", ("--sasl", "PLAIN"), "a login by PLAIN needs a user in the URL"),
    ],
)
def test_wrong_usage(amqp10: Commands, url: str, options: tuple[str, ...], reason: str) -> None:
    """What does not fit together is said before anything is tried."""
    result = amqp10("send", url, "q", "x", *options)
    assert result.code == 2
    assert reason in result.err
    assert "secret" not in result.err


def test_a_certificate_for_another_name(amqp10: Commands, other_broker: Starter, tmp_path: Path) -> None:
    """The error names the option by which the command accepts it."""
    authority = CertificateAuthority(tmp_path)
    files = authority.server("broker.example")
    _, url = other_broker("--tls-certificate", str(files.certificate), "--tls-key", str(files.key))
    trust = ("--tls-ca", str(authority.ca))
    refused = amqp10("send", url, "q", "x", *trust)
    assert refused.code == 3
    assert "name the host that it is for by --tls-server-hostname NAME" in refused.err
    assert amqp10("send", url, "q", "x", *trust, "--tls-server-hostname", "broker.example").code == 0


def test_tls_upgrade(amqp10: Commands, other_broker: Starter, tmp_path: Path) -> None:
    """A broker with TLS takes it by AMQP's header, too; one without is left."""
    authority = CertificateAuthority(tmp_path)
    files = authority.server()
    _, url = other_broker("--tls-certificate", str(files.certificate), "--tls-key", str(files.key))
    plain = url.replace("amqps://", "amqp://")
    assert amqp10("send", plain, "q", "x", "--tls-upgrade", "--tls-ca", str(authority.ca)).code == 0
    _, bare = other_broker()
    refused = amqp10("send", bare, "q", "x", "--tls-upgrade")
    assert refused.code == 1
    assert "does not accept TLS by AMQP's header" in refused.err


def test_dialect(amqp10: Commands, broker_url: str) -> None:
    """`--dialect` names the protocol, or has the server asked; one that is none is wrong usage."""
    assert amqp10("send", broker_url, "in-dialects", "x", "--dialect", "auto").code == 0
    assert amqp10("receive", broker_url, "in-dialects", "-n", "1", "--dialect", "1.0").out == "x\n"
    refused = amqp10("send", broker_url, "in-dialects", "x", "--dialect", "9")
    assert refused.code == 2
    assert "'1.0'" in refused.err


def test_broker_of_one_dialect(amqp10: Commands, other_broker: Starter) -> None:
    """`broker --dialect` speaks those only: who speaks another is refused, and `auto` finds the one."""
    _, url = other_broker("--dialect", "0-9-1")
    assert amqp10("send", url, "q", "x").code != 0
    assert amqp10("send", url, "q", "in its words", "--dialect", "auto").code == 0
    assert amqp10("receive", url, "q", "-n", "1", "--dialect", "0-9-1").out == "in its words\n"
    assert json.loads(amqp10("probe", url, "--json").out)["dialect"] == "0-9-1"
