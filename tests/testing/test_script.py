from __future__ import annotations

import pytest

from amqp10.engine import ConnectionTerms, Engine, OutcomesReceived, SessionBegun, dialect
from amqp10.messaging import ACCEPTED
from amqp10.sasl import Anonymous, Authenticator, Plain
from amqp10.testing import (
    Begin,
    Close,
    Detach,
    Disposition,
    EngineScript,
    Open,
    PeerMismatch,
    SaslInit,
    SaslMechanisms,
    Transfer,
)

SASL = b"AMQP\3\1\0\0"


@pytest.fixture
def client() -> Engine:
    """A client engine without SASL."""
    return dialect("1.0").client(ConnectionTerms("tested"), None, True)


@pytest.fixture
def server() -> Engine:
    """A server engine that lets anybody in."""
    return dialect("1.0").server(ConnectionTerms("tested"), Authenticator(anonymous=True))


def test_plays_the_server(client: Engine) -> None:
    """From open to settlement against a client engine."""
    script = EngineScript(client)
    assert script.open().container_id == "tested"
    link = script.sender(script.session(), credit=1)
    link.send(b"x")
    assert script.expect_payload(Transfer, delivery_id=0)[1] == b"x"
    script.send(Disposition(role=True, first=0, settled=True, state=ACCEPTED))
    assert script.expect_event(OutcomesReceived).link is link
    script.expect_nothing()


def test_plays_the_client(server: Engine) -> None:
    """From open to a session against a server engine; what the owner has to answer is an event."""
    script = EngineScript(server)
    script.open(container_id="me")
    assert server.remote is not None
    assert server.remote.container_id == "me"
    script.begin(channel=3)
    script.expect_event(SessionBegun).session.begin()
    script.expect(Begin, channel=0, remote_channel=3)


def test_channels_are_mapped(client: Engine) -> None:
    """The script may answer on another channel, and goes on using it for that session."""
    script = EngineScript(client)
    script.open()
    link = script.sender(script.session(channel=12), credit=3)
    assert link.credit == 3
    link.detach()
    script.expect(Detach, channel=0)


def test_mismatch_names_the_fields(client: Engine) -> None:
    """A frame with other fields than expected fails with each of them, and the conversation."""
    script = EngineScript(client)
    script.open()
    client.begin()
    with pytest.raises(PeerMismatch) as failure:
        script.expect(Begin, next_outgoing_id=5, handle_max=lambda handle: handle == 7, channel=1)
    text = str(failure.value)
    assert "channel: 0, expected 1" in text
    assert "next_outgoing_id: 0, expected 5" in text
    assert "handle_max: 1023 does not satisfy <lambda>" in text
    assert "> [0] Open(container_id='script')" in text
    assert "< [0] Begin(" in text


def test_mismatch_names_the_frame(client: Engine) -> None:
    """Another frame, nothing at all, or bytes that are no AMQP: each failure says so."""
    script = EngineScript(client)
    script.open()
    with pytest.raises(PeerMismatch, match="expected Close, got nothing"):
        script.expect(Close)
    client.begin()
    with pytest.raises(PeerMismatch, match=r"expected Close, got \[0\] Begin\("):
        script.expect(Close)
    with pytest.raises(PeerMismatch, match="expected SessionBegun"):
        script.expect_event(SessionBegun)
    with pytest.raises(PeerMismatch, match="the received data is not AMQP"):
        script.transcript.feed(b"\0\0\0\1\2\0\0\0")


def test_unknown_field_is_an_error_of_the_script(client: Engine) -> None:
    """A field that the performative does not have is no mismatch."""
    script = EngineScript(client)
    script.open()
    client.begin()
    with pytest.raises(TypeError, match="no field 'handlemax'"):
        script.expect(Begin, handlemax=3)


def test_headers(client: Engine) -> None:
    """Protocol headers are expected like frames, and told apart from them."""
    script = EngineScript(client)
    client.open()
    with pytest.raises(PeerMismatch, match="expected Open, got the protocol header"):
        script.expect(Open)
    script.expect(Open)
    with pytest.raises(PeerMismatch, match="expected an empty frame, got nothing"):
        script.expect_empty()


def test_secrets_stay_out_of_the_trace() -> None:
    """Pitfall 31: the responses of SASL are not in any failure."""
    engine = dialect("1.0").client(ConnectionTerms("tested"), (Plain("user", "hunter2"), Anonymous()), True)
    script = EngineScript(engine)
    script.send_bytes(SASL)
    script.expect_header(SASL)
    script.send(SaslMechanisms(sasl_server_mechanisms=("PLAIN",)))
    assert b"hunter2" in (script.expect(SaslInit, mechanism="PLAIN").initial_response or b"")
    assert "hunter2" not in script.trace()
    assert "initial_response=<secret>" in script.trace()


def test_long_conversations_are_cut(client: Engine) -> None:
    """A failure shows the last lines and how many there were before."""
    script = EngineScript(client)
    script.open()
    for _ in range(100):
        script.send_empty()
    assert "more before" in script.trace()
    assert len(script.trace().splitlines()) < 60
