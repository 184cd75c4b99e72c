"""The older dialects: how connections open, fall silent and end; where nothing more is to be sent, nothing is."""

from __future__ import annotations

from typing import Any

import pytest

from amqp10 import Plain
from amqp10.dialects.v0_9.wire.frames import FrameReader
from amqp10.dialects.v0_9.wire.method_table import Method
from amqp10.dialects.v0_9.wire.methods import (
    ChannelOpen,
    ChannelOpenOk,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionSecure,
    ConnectionSecureOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
    QueueDeclare,
)
from amqp10.dialects.v0_9.wire.tables import TABLES
from amqp10.dialects.v0_9.wire.variant import V0_9, V0_9_1, V0_9_DRAFT, Variant
from amqp10.dialects.v0_10.wire.controls import ConnectionClose as Close
from amqp10.dialects.v0_10.wire.controls import ConnectionOpen as Open
from amqp10.dialects.v0_10.wire.controls import ConnectionOpenOk as OpenOk
from amqp10.dialects.v0_10.wire.controls import ConnectionStart as Start
from amqp10.dialects.v0_10.wire.controls import ConnectionStartOk as StartOk
from amqp10.dialects.v0_10.wire.controls import ConnectionTune as Tune
from amqp10.dialects.v0_10.wire.controls import ConnectionTuneOk as TuneOk
from amqp10.dialects.v0_10.wire.frames import PROTOCOL_HEADER, encode_control
from amqp10.engine import ConnectionEnded, ConnectionTerms, Engine, dialect
from amqp10.errors import AuthenticationFailed, ConnectionLost
from amqp10.sasl import Anonymous, Authenticator, ScramSha256

from ..kit.broker.older_clients import Client010, Client09
from ..kit.dialects.v0_10.raw_peer import Raw

FAMILY = pytest.mark.parametrize(
    ("name", "variant"), [("0-9-1", V0_9_1), ("0-9", V0_9), ("0-9-draft", V0_9_DRAFT)], ids=["0-9-1", "0-9", "draft"]
)
PASSWORDS = Authenticator({"user": "secret"}, allow_insecure=True)
TOLD = {"capabilities": {"authentication_failure_close": True}}


def frame(variant: Variant, method: Method, channel: int = 0) -> bytes:
    return variant.framing.frame(1, channel, variant.methods.encode(method))


def methods(variant: Variant, octets: bytes) -> list[Any]:
    reader = FrameReader(variant.framing, 1 << 20)
    reader.feed(octets)
    return [variant.methods.decode(payload) for kind, _, payload in reader.frames() if kind == 1]


def why(engine: Engine) -> Any:
    """Why the connection ended."""
    (end,) = [event for event in engine.events() if isinstance(event, ConnectionEnded)]
    return end.error


def client_of(variant: Variant, name: str, idle_timeout: float | None, heartbeat: int) -> Engine:
    """A client's engine, open, whose server asked for that heartbeat."""
    engine = dialect(name).client(ConnectionTerms("client", idle_timeout=idle_timeout), (Anonymous(),), True)
    engine.start()
    engine.open()
    for method in (
        ConnectionStart(mechanisms=b"ANONYMOUS"),
        ConnectionTune(10, 131_072, heartbeat),
        ConnectionOpenOk(),
    ):
        engine.receive_data(frame(variant, method))
    assert engine.opened
    return engine


def server_of(name: str, idle_timeout: float | None, authenticator: Authenticator) -> Engine:
    engine = dialect(name).server(ConnectionTerms("server", idle_timeout=idle_timeout), authenticator)
    engine.start()
    return engine


# Heartbeats


def silent_after(engine: Engine) -> tuple[float, bytes]:
    """Seconds after which an engine gives its silent peer up, and what it says then."""
    engine.events()
    now = 0.0
    while now < 10_000:
        engine.data_to_send()
        engine.tick(now)
        if isinstance(why_or_none(engine), ConnectionLost):
            return now, engine.data_to_send()
        now += 0.5
    return now, b""


def why_or_none(engine: Engine) -> Any:
    return next((event.error for event in engine.events() if isinstance(event, ConnectionEnded)), None)


@pytest.mark.spec("0-9-1 4.2.7", "after two heartbeat intervals without input the peer is given up, without a close")
@pytest.mark.spec("0-9 4.2.7", "after two heartbeat intervals without input the peer is given up, without a close")
@FAMILY
@pytest.mark.parametrize("idle_timeout", [None, 60.0, 4.0])
def test_a_silent_server(name: str, variant: Variant, idle_timeout: float | None) -> None:
    """The interval is the one that was negotiated, whatever longer silence the user would bear."""
    engine = client_of(variant, name, idle_timeout, 5)
    agreed = 2 if idle_timeout == 4.0 else 5
    assert silent_after(engine) == (2.0 * agreed, b"")


@pytest.mark.spec("0-9-1 4.2.7", "a client is given up as well as a server; an interval of 0 means no heartbeats")
@FAMILY
@pytest.mark.parametrize(("idle_timeout", "heartbeat"), [(None, 5), (60.0, 5), (4.0, 5), (60.0, 0)])
def test_a_silent_client(name: str, variant: Variant, idle_timeout: float | None, heartbeat: int) -> None:
    """The limits of the client's tune-ok apply."""
    engine = server_of(name, idle_timeout, Authenticator(anonymous=True))
    start = ConnectionStartOk({}, "ANONYMOUS", b"", "en_US")
    engine.receive_data(
        variant.header + frame(variant, start) + frame(variant, ConnectionTuneOk(9, 131_072, heartbeat))
    )
    engine.receive_data(frame(variant, ConnectionOpen("/")))
    engine.open()
    assert engine.opened
    assert silent_after(engine) == ((10_000.0, b"") if not heartbeat else (2.0 * heartbeat, b""))


@pytest.mark.spec("0-10 connection.heartbeat", "after two intervals without input the peer is given up")
@pytest.mark.parametrize("role", ["client", "server"])
def test_a_silent_peer_in_0_10(role: str) -> None:
    """In both roles, whatever longer silence the user would bear."""
    if role == "client":
        engine = dialect("0-10").client(ConnectionTerms("client", idle_timeout=60.0), None, True)
        engine.start()
        engine.open()
        said: tuple[Any, ...] = Start({}, ["ANONYMOUS"], ["en_US"]), Tune(9, 65_535, 0, 5), OpenOk([])
    else:
        engine = server_of("0-10", 60.0, Authenticator(anonymous=True))
        said = StartOk({}, "ANONYMOUS", b"", "en_US"), TuneOk(9, 65_535, 5), Open("", [])
    engine.receive_data(PROTOCOL_HEADER + b"".join(encode_control(0, each.encode()) for each in said))
    if role == "server":
        engine.open()
    assert engine.opened
    assert silent_after(engine) == (10.0, b"")


# Login


@pytest.mark.spec("0-9-1 connection.start-ok", "a mechanism that was not offered ends it; nothing more is sent")
@pytest.mark.spec("0-9 connection.start-ok", "a mechanism that was not offered ends it; nothing more is sent")
@FAMILY
def test_a_mechanism_that_was_not_offered(name: str, variant: Variant) -> None:
    """Nor is anything to who would understand it."""
    engine = server_of(name, None, PASSWORDS)
    engine.receive_data(variant.header)
    engine.data_to_send()
    told = TOLD if variant.tables.holds(True) else {}
    engine.receive_data(frame(variant, ConnectionStartOk(told, "EXTERNAL", b"", "en_US")))
    assert isinstance(why(engine), AuthenticationFailed)
    assert engine.data_to_send() == b""


@pytest.mark.spec("0-10 connection.start-ok", "a mechanism that was not offered ends it; nothing more is sent")
def test_a_mechanism_that_was_not_offered_in_0_10() -> None:
    raw = Raw(server_of("0-10", None, PASSWORDS))
    raw.put(PROTOCOL_HEADER)
    assert raw.say(StartOk({}, "EXTERNAL", b"", "en_US"), 0) == []
    assert isinstance(why(raw.engine), AuthenticationFailed)


@pytest.mark.spec("0-9-1 2.2.4", "a login that fails ends the connection without another word")
@pytest.mark.deviation(
    "0-9-1 2.2.4",
    "a failed login ends with connection.close 403 for clients with the capability authentication_failure_close",
    "RabbitMQ's extension: without it, a client cannot tell a wrong password from a lost connection",
)
@pytest.mark.parametrize("told", [True, False])
def test_a_failed_login(told: bool) -> None:
    """Whatever comes behind it: nothing is said to that."""
    engine = server_of("0-9-1", None, PASSWORDS)
    engine.receive_data(V0_9_1.header)
    engine.data_to_send()
    start = ConnectionStartOk(TOLD if told else {}, "PLAIN", b"\0user\0wrong", "en_US")
    engine.receive_data(frame(V0_9_1, start) + frame(V0_9_1, ConnectionTuneOk(9, 131_072, 0)))
    engine.receive_data(frame(V0_9_1, ConnectionOpen("/")))
    assert isinstance(why(engine), AuthenticationFailed)
    said = methods(V0_9_1, engine.data_to_send())
    assert [each.reply_code for each in said] == ([403] if told else [])


@pytest.mark.spec("0-9-1 connection.secure", "a login without an initial response is asked for it")
@pytest.mark.spec("0-9 connection.secure", "a login without an initial response is asked for it")
@FAMILY
def test_no_initial_response(name: str, variant: Variant) -> None:
    """PLAIN whose response comes when it is asked for, is let in."""
    engine = server_of(name, None, PASSWORDS)
    engine.receive_data(variant.header)
    engine.data_to_send()
    engine.receive_data(frame(variant, ConnectionStartOk({}, "PLAIN", b"", "en_US")))
    assert methods(variant, engine.data_to_send()) == [ConnectionSecure(b"")]
    engine.receive_data(frame(variant, ConnectionSecureOk(b"\0user\0secret")))
    assert [type(each) for each in methods(variant, engine.data_to_send())] == [ConnectionTune]
    assert engine.identity == "user"


@FAMILY
@pytest.mark.parametrize("asked", [False, True])
@pytest.mark.parametrize(
    ("login", "let_in"),
    [
        ({"LOGIN": "user", "PASSWORD": "secret"}, True),
        ({"LOGIN": "user", "PASSWORD": "wrong"}, False),
        ({"LOGIN": "user\0x", "PASSWORD": "secret"}, False),
        ({"LOGIN": "user", "PASSWORD": 1}, False),
        ({"x": "y"}, False),
    ],
)
def test_amqplain(name: str, variant: Variant, login: dict[str, Any], let_in: bool, asked: bool) -> None:
    """User and password as a table: the first choice of php-amqplib and py-amqp, offered wherever PLAIN is."""
    engine = server_of(name, None, PASSWORDS)
    engine.receive_data(variant.header)
    (start,) = methods(variant, engine.data_to_send())
    assert start.mechanisms.endswith(b"PLAIN AMQPLAIN")
    octets = bytearray()
    TABLES.write(octets, login)
    response = bytes(octets[4:])
    engine.receive_data(frame(variant, ConnectionStartOk({}, "AMQPLAIN", b"" if asked else response, "en_US")))
    if asked:
        assert methods(variant, engine.data_to_send()) == [ConnectionSecure(b"")]
        engine.receive_data(frame(variant, ConnectionSecureOk(response)))
    said = methods(variant, engine.data_to_send())
    assert [type(each) for each in said] == ([ConnectionTune] if let_in else [])
    assert engine.identity == ("user" if let_in else None)


@pytest.mark.spec("0-9-1 connection.secure-ok", "a client answers a challenge, even one that repeats a request")
@pytest.mark.parametrize("mechanism", ["PLAIN", "AMQPLAIN"])
def test_a_client_is_asked_again(mechanism: str) -> None:
    """A server that has not looked at the initial response has it once more."""
    engine = dialect("0-9-1").client(ConnectionTerms("client"), (Plain("user", "secret"), ScramSha256("u", "p")), True)
    engine.start()
    engine.open()
    engine.data_to_send()
    engine.receive_data(frame(V0_9_1, ConnectionStart(mechanisms=mechanism.encode())))
    (start,) = methods(V0_9_1, engine.data_to_send())
    engine.receive_data(frame(V0_9_1, ConnectionSecure(b"")))
    assert methods(V0_9_1, engine.data_to_send()) == [ConnectionSecureOk(start.response)]


@pytest.mark.spec("0-10 connection.open", "a virtual host that is not there: closed by invalid-path, not opened")
def test_no_such_virtual_host_in_0_10() -> None:
    """The close comes in place of open-ok."""
    client = Client010(opens=False, virtual_hosts=["/"])
    (said,) = client.say(Open("vhost:other", []), 0)
    assert isinstance(said, Close)
    assert said.reply_code == 402
    assert "other" in (said.reply_text or "")


# The end


@pytest.mark.spec("0-9-1 4.2.3", "a frame of another type, or without its end, ends it; nothing more is sent")
@pytest.mark.spec("0-9 4.2.3", "a frame of another type, or without its end, ends it; nothing more is sent")
@FAMILY
@pytest.mark.parametrize("broken", ["type", "end"])
@pytest.mark.parametrize("role", ["client", "server"])
def test_what_is_no_frame(name: str, variant: Variant, broken: str, role: str) -> None:
    """No close is said to who does not speak in frames, nor the answers to what it had said before."""
    if role == "client":
        engine = client_of(variant, name, None, 0)
        octets = b""
    else:
        client = Client09(name=name, variant=variant)
        engine = client.engine
        octets = client.encode(QueueDeclare(queue="q"))
    engine.data_to_send()
    good = frame(variant, ChannelOpenOk(), 1)
    bad = b"\x63" + good[1:] if broken == "type" else good[:-1] + b"\xcd"
    engine.receive_data(octets + bad)
    if role == "server":
        client.served.settle_down()
    else:
        assert why(engine).condition == "amqp:connection:framing-error"
    assert engine.data_to_send() == b""


@pytest.mark.spec("0-9-1 connection.close", "after a close, only the answer to the peer's own close is sent")
@FAMILY
@pytest.mark.parametrize("own", [True, False])
def test_nothing_after_a_close(name: str, variant: Variant, own: bool) -> None:
    """The broker's late answer to an earlier request reaches nobody."""
    client = Client09(name=name, variant=variant)
    engine = client.engine
    close = frame(variant, ConnectionClose(200))
    engine.receive_data(client.encode(QueueDeclare(queue="q")) + (b"" if own else close))
    if own:
        engine.close()
        engine.receive_data(client.encode(ChannelOpen(), 2) + close)
    client.served.settle_down()
    said = [type(each) for each in methods(variant, engine.data_to_send())]
    assert said == ([ConnectionClose, ConnectionCloseOk] if own else [ConnectionCloseOk])
