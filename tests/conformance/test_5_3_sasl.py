"""The SASL security layer (§5.3) as the engine does it: headers, order, frames, and what comes after."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from amqp10.engine import Authenticated, ConnectionEnded, ConnectionTerms, Engine, dialect
from amqp10.errors import AuthenticationFailed, ConnectionLost, InsecureTransport, RemoteProtocolError
from amqp10.sasl import Anonymous, Authenticator, Mechanism, Plain, ScramSha256
from amqp10.testing import (
    Close,
    EnginePair,
    EngineScript,
    Open,
    SaslChallenge,
    SaslInit,
    SaslMechanisms,
    SaslOutcome,
    SaslResponse,
)
from amqp10.types import Composite

AMQP = b"AMQP\0\1\0\0"
SASL = b"AMQP\3\1\0\0"


def client(*mechanisms: Mechanism, secure: bool = True) -> Engine:
    terms = ConnectionTerms("tested", hostname="server.example")
    return dialect("1.0").client(terms, mechanisms or (Plain("user", "secret"),), secure)


def server(*, secure: bool = True, **rules: Any) -> Engine:
    authenticator = Authenticator(**rules or {"users": {"user": "secret"}}).for_connection(secure=secure)
    return dialect("1.0").server(ConnectionTerms("tested"), authenticator)


def play_client(*mechanisms: Mechanism, secure: bool = True) -> EngineScript:
    """A script against a client whose SASL header was answered."""
    script = EngineScript(client(*mechanisms, secure=secure))
    script.expect_header(SASL)
    script.expect_nothing()
    script.send_bytes(SASL)
    return script


def play_server(**rules: Any) -> EngineScript:
    """A script against a server that has made its offer."""
    script = EngineScript(server(**rules))
    script.expect_nothing()
    script.send_bytes(SASL)
    script.expect_header(SASL)
    script.expect(SaslMechanisms)
    return script


def ended(script: EngineScript) -> BaseException:
    """The error with which the connection is over; nothing is written after that."""
    error = script.expect_event(ConnectionEnded).error
    assert error is not None
    script.send_bytes(AMQP)
    script.expect_nothing()
    return error


@pytest.mark.spec("5.3", "the SASL header, the exchange, then the AMQP header, both ways")
def test_whole_exchange_of_a_client() -> None:
    """A client sends its header, chooses, and goes on with AMQP and the open that it was asked for before."""
    script = play_client()
    script.engine.open()
    script.send(SaslMechanisms(("PLAIN", "ANONYMOUS")))
    script.expect(SaslInit, mechanism="PLAIN", initial_response=b"\0user\0secret", hostname="server.example")
    script.expect_nothing()
    script.send(SaslOutcome(0))
    assert script.expect_event(Authenticated).mechanism == "PLAIN"
    script.expect_header(AMQP)
    script.expect(Open)
    script.send_bytes(AMQP)
    script.send(Open("script"))
    assert script.engine.opened


@pytest.mark.spec("5.3", "the SASL header, the exchange, then the AMQP header, both ways")
def test_whole_exchange_of_a_server() -> None:
    """A server answers the header and offers; it answers the second header only when the exchange is done."""
    script = play_server()
    script.send(SaslInit("PLAIN", b"\0user\0secret"))
    script.expect(SaslOutcome, code=0)
    assert script.expect_event(Authenticated).identity == "user"
    assert script.engine.identity == "user"
    script.expect_nothing()
    script.send_bytes(AMQP)
    script.expect_header(AMQP)
    script.send(Open("script"))
    script.engine.open()
    script.expect(Open)
    assert script.engine.opened


@pytest.mark.spec("5.3.2", "any number of challenges and responses")
@pytest.mark.parametrize("mechanism", [ScramSha256("user", "secret"), Plain("user", "secret")])
def test_both_ends(mechanism: Mechanism) -> None:
    """A client and a server engine agree, with challenges between them or without."""
    authenticator = Authenticator({"user": "secret"}).for_connection(secure=True)
    pair = EnginePair(mechanisms=(mechanism,), authenticator=authenticator)
    pair.open()
    assert pair.client.opened
    assert pair.server.opened
    assert pair.server.identity == "user"


@pytest.mark.spec("5.3.2", "frames that the client pipelines after its init are read after the exchange")
def test_pipelined_behind_the_init() -> None:
    """Header and open in one portion with the init."""
    script = play_server()
    init, opened = SaslInit("PLAIN", b"\0user\0secret").encode(), Open("script").encode()
    script.send_bytes(
        (8 + len(init)).to_bytes(4, "big") + b"\2\1\0\0" + init
        + AMQP
        + (8 + len(opened)).to_bytes(4, "big") + b"\2\0\0\0" + opened
    )  # fmt: skip
    script.expect(SaslOutcome, code=0)
    script.expect_header(AMQP)
    assert script.engine.remote is not None


@pytest.mark.spec("5.3.3.6", "a failed exchange ends the connection")
def test_wrong_password() -> None:
    """The server says so and is over; the client tells the code."""
    script = play_server()
    script.send(SaslInit("PLAIN", b"\0user\0wrong"))
    script.expect(SaslOutcome, code=1)
    assert isinstance(ended(script), AuthenticationFailed)
    script = play_client()
    script.send(SaslMechanisms(("PLAIN",)))
    script.expect(SaslInit)
    script.send(SaslOutcome(4))
    error = ended(script)
    assert isinstance(error, AuthenticationFailed)
    assert error.code == 4


@pytest.mark.spec("5.3.3.2", "the client chooses an offered mechanism, or leaves")
def test_nothing_that_fits() -> None:
    """No init is sent for a mechanism that was not offered, nor one that the transport would show."""
    script = play_client()
    script.send(SaslMechanisms(("ANONYMOUS", "GSSAPI")))
    script.expect_nothing()
    assert isinstance(ended(script), AuthenticationFailed)
    script = play_client(Plain("user", "secret"), secure=False)
    script.send(SaslMechanisms(("PLAIN",)))
    script.expect_nothing()
    assert isinstance(ended(script), InsecureTransport)


@pytest.mark.spec("5.3.2", "frames out of order end the connection")
@pytest.mark.parametrize(
    "frame", [SaslMechanisms(("PLAIN",)), SaslChallenge(b""), SaslResponse(b""), SaslOutcome(0)], ids=repr
)
def test_server_hears_out_of_order(frame: Composite) -> None:
    """Where the init is due, nothing else is taken; nobody is let in."""
    script = play_server()
    script.send(frame)
    script.expect_nothing()
    assert isinstance(ended(script), RemoteProtocolError)
    assert script.engine.identity is None


@pytest.mark.spec("5.3.2", "frames out of order end the connection")
@pytest.mark.parametrize("frame", [SaslInit("PLAIN"), SaslChallenge(b""), SaslResponse(b""), SaslOutcome(0)], ids=repr)
def test_client_hears_out_of_order(frame: Composite) -> None:
    """Where the offer is due, nothing else is taken, and no secret is told."""
    script = play_client()
    script.send(frame)
    script.expect_nothing()
    assert isinstance(ended(script), RemoteProtocolError)


@pytest.mark.spec("5.3.1", "only SASL frames come between the SASL header and the outcome")
@pytest.mark.parametrize("frame", [Open("script"), Close(), None], ids=["open", "close", "empty"])
@pytest.mark.parametrize("play", [play_client, play_server])
def test_amqp_frames_among_sasl(play: Callable[[], EngineScript], frame: Composite | None) -> None:
    """An AMQP frame there ends the connection at either end, an empty one too."""
    script = play()
    if frame is None:
        script.send_empty()
    else:
        script.send(frame, channel=0)
    script.expect_nothing()
    assert isinstance(ended(script), RemoteProtocolError)


@pytest.mark.spec("5.3.1", "the channel of a SASL frame is ignored, and so is its extended header")
def test_channel_and_extended_header() -> None:
    """An init on channel 9 behind an extended header is an init."""
    script = play_server()
    init = SaslInit("PLAIN", b"\0user\0secret").encode()
    script.send_bytes((12 + len(init)).to_bytes(4, "big") + b"\3\1\0\x09\xff\xff\xff\xff" + init)
    script.expect(SaslOutcome, code=0)


@pytest.mark.deviation(
    "5.3.1",
    "SASL frames of more than 512 octets, up to 64 KiB, are accepted",
    "OAuth tokens are larger, and servers that require them accept them",
)
def test_large_sasl_frame() -> None:
    """A response of some kilobytes is taken; one of 64 KiB and more is refused by its header."""
    script = play_server(users={"user": "s" * 4000})
    script.send(SaslInit("PLAIN", b"\0user\0" + b"s" * 4000))
    script.expect(SaslOutcome, code=0)
    script = play_server()
    script.send_bytes((65_537).to_bytes(4, "big") + b"\2\1\0\0")
    script.expect_nothing()
    assert isinstance(ended(script), RemoteProtocolError)


@pytest.mark.spec("5.3.2", "the outcome is followed by the AMQP header")
def test_no_frame_after_the_outcome() -> None:
    """A second outcome in place of the header ends the connection."""
    script = play_client()
    script.send(SaslMechanisms(("PLAIN",)))
    script.expect(SaslInit)
    script.send(SaslOutcome(0))
    script.send(SaslOutcome(0))
    assert script.expect_event(ConnectionEnded).error is not None


@pytest.mark.spec("5.3", "a client does not go on without SASL if the server asks for it")
def test_server_wants_sasl() -> None:
    """The bare header is answered with the SASL header where ANONYMOUS is not allowed, and with AMQP's where it is."""
    script = EngineScript(server())
    script.send_bytes(AMQP)
    script.expect_header(SASL)
    ended(script)
    script = EngineScript(server(anonymous=True))
    script.send_bytes(AMQP)
    script.expect_header(AMQP)
    assert script.take_events() == []


@pytest.mark.spec("5.3", "a client with credentials does not go on without SASL")
def test_client_wants_sasl() -> None:
    """A server that answers the SASL header with the AMQP header gets nothing: no open, no credentials."""
    script = EngineScript(client())
    script.engine.open()
    script.expect_header(SASL)
    script.send_bytes(AMQP)
    script.expect_nothing()
    ended(script)


@pytest.mark.spec("5.3.2", "the transport may end at any point of the exchange")
def test_end_of_stream() -> None:
    """Before the header, before the offer, before the outcome: the connection is lost."""
    for steps in range(3):
        script = EngineScript(client(Anonymous()))
        if steps > 0:
            script.send_bytes(SASL)
        if steps > 1:
            script.send(SaslMechanisms(("ANONYMOUS",)))
        script.end_of_stream()
        assert isinstance(script.expect_event(ConnectionEnded).error, ConnectionLost)
