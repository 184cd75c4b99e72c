"""The SASL layer: the order of §5.3.2 at both ends, every frame in every state, and every mechanism through both."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp10.dialects.v1_0.sasl_layer import ClientSasl, ServerSasl
from amqp10.dialects.v1_0.wire.frames import FRAME_SASL, FrameReader
from amqp10.dialects.v1_0.wire.performatives import SaslChallenge, SaslInit, SaslMechanisms, SaslOutcome, SaslResponse
from amqp10.errors import AuthenticationFailed, InsecureTransport, RemoteProtocolError
from amqp10.sasl import (
    MAX_ROUNDS,
    Anonymous,
    Authenticator,
    ClientExchange,
    External,
    Mechanism,
    OAuthBearer,
    Plain,
    ScramSha1,
    ScramSha256,
    ScramSha512,
    XOAuth2,
)
from amqp10.types import Composite


class Scripted(Mechanism, ClientExchange):
    """A mechanism that says what it is told, and notes what it hears."""

    name = "X-SCRIPTED"
    strength = 1

    def __init__(self, initial: bytes | None) -> None:
        self._initial = initial
        self.heard: list[bytes | None] = []

    def exchange(self, hostname: str | None = None) -> ClientExchange:
        return self

    def initial(self) -> bytes | None:
        return self._initial

    def respond(self, challenge: bytes) -> bytes:
        self.heard.append(challenge)
        return b"response %d" % len(self.heard)

    def finish(self, additional: bytes | None) -> None:
        self.heard.append(additional)


def said(layer: ClientSasl | ServerSasl) -> list[Composite]:
    """The frames that the layer wants sent, read back."""
    reader = FrameReader(1 << 16)
    reader.feed(layer.frames())
    found = []
    while (frame := reader.next()) is not None:
        kind, channel, performative, payload = frame
        assert (kind, channel, payload) == (FRAME_SASL, 0, b"")
        assert performative is not None
        found.append(performative)
    assert reader.buffered == 0
    return found


def client(mechanism: Mechanism | None = None, *, secure: bool = True) -> ClientSasl:
    return ClientSasl((mechanism or Plain("user", "secret"),), "server.example", secure)


def server(**settings: Any) -> ServerSasl:
    facts = {"secure": settings.pop("secure", True), "external_identity": settings.pop("external_identity", None)}
    return ServerSasl(Authenticator(**settings or {"users": {"user": "secret"}}).for_connection(**facts))


# Both ends


def verify(user: str | None, token: str) -> str | None:
    return "token's owner" if token == "right" else None


LOGINS: list[tuple[Mechanism, Mechanism | None, dict[str, Any], str | None]] = [
    (Anonymous("trace"), None, {"anonymous": True}, None),
    (Plain("user", "secret"), Plain("user", "wrong"), {}, "user"),
    (ScramSha1("user", "secret"), ScramSha1("user", "wrong"), {}, "user"),
    (ScramSha256("user", "secret"), ScramSha256("stranger", "secret"), {}, "user"),
    (ScramSha512("user", "secret"), ScramSha512("user", ""), {}, "user"),
    (External(), External("somebody else"), {"external": True, "external_identity": "CN=me"}, "CN=me"),
    (XOAuth2("user", "right"), XOAuth2("user", "wrong"), {"tokens": verify}, "token's owner"),
    (OAuthBearer("right"), OAuthBearer("wrong"), {"tokens": verify}, "token's owner"),
]


def log_in(ours: ClientSasl, theirs: ServerSasl) -> None:
    """Pass frames between the two until neither has any."""
    while frames := said(theirs):
        for frame in frames:
            ours.receive(frame)
        for frame in said(ours):
            theirs.receive(frame)


@pytest.mark.spec("5.3.2", "mechanisms, init, any number of challenges and responses, outcome")
@pytest.mark.parametrize(("right", "wrong", "settings", "identity"), LOGINS, ids=lambda each: getattr(each, "name", ""))
def test_every_mechanism(
    right: Mechanism, wrong: Mechanism | None, settings: dict[str, Any], identity: str | None
) -> None:
    """With the right credentials both ends are done and the server knows who it is; with others neither is."""
    ours, theirs = client(right), server(**settings)
    log_in(ours, theirs)
    assert (ours.done, theirs.done, ours.error, theirs.error) == (True, True, None, None)
    assert ours.mechanism == theirs.mechanism == right.name
    assert theirs.identity == identity
    if wrong is not None:
        ours, theirs = client(wrong), server(**settings)
        log_in(ours, theirs)
        assert not ours.done
        assert not theirs.done
        assert theirs.identity is None
        assert isinstance(theirs.error, AuthenticationFailed)
        assert isinstance(ours.error, AuthenticationFailed)
        assert ours.error.code == theirs.error.code == 1


def test_strongest_of_both() -> None:
    """The client takes the strongest mechanism that both have."""
    mechanisms = (Plain("user", "secret"), ScramSha256("user", "secret"), ScramSha1("user", "secret"))
    ours, theirs = ClientSasl(mechanisms, None, True), server()
    log_in(ours, theirs)
    assert theirs.done
    assert theirs.mechanism == "SCRAM-SHA-256"


# The client


@pytest.mark.spec("5.3.3.1", "a list of one mechanism is a symbol or an array")
@pytest.mark.parametrize("field", [b"\xa3\5PLAIN", b"\xb3\0\0\0\5PLAIN", b"\xe0\x08\1\xa3\5PLAIN"])
def test_one_mechanism(field: bytes) -> None:
    """The client understands either form."""
    body = b"\0\x53\x40\xc0" + bytes((1 + len(field), 1)) + field
    reader = FrameReader()
    reader.feed((8 + len(body)).to_bytes(4, "big") + b"\2\1\0\0" + body)
    frame = reader.next()
    assert frame is not None
    assert isinstance(frame[2], SaslMechanisms)
    ours = client()
    ours.receive(frame[2])
    assert said(ours) == [SaslInit("PLAIN", b"\0user\0secret", "server.example")]


@pytest.mark.spec("5.3.3.2", "an initial response that is empty, and one that is not there")
@pytest.mark.parametrize("initial", [None, b"", b"first"])
def test_initial_response(initial: bytes | None) -> None:
    """Nothing is made of nothing: b"" goes out as an empty binary, None as null."""
    ours = client(Scripted(initial))
    ours.receive(SaslMechanisms(("X-SCRIPTED",)))
    (init,) = said(ours)
    assert init == SaslInit("X-SCRIPTED", initial, "server.example")
    assert (b"\xa0\0" in init.encode()) is (initial == b"")


def test_server_first() -> None:
    """A mechanism without an initial response waits for the server's challenge; the outcome's data reaches it."""
    mechanism = Scripted(None)
    ours = client(mechanism)
    ours.receive(SaslMechanisms(("OTHER", "X-SCRIPTED")))
    said(ours)
    for number in (1, 2, 3):
        ours.receive(SaslChallenge(b"challenge %d" % number))
        assert said(ours) == [SaslResponse(b"response %d" % number)]
    ours.receive(SaslOutcome(0, b"last word"))
    assert ours.done
    assert ours.error is None
    assert said(ours) == []
    assert mechanism.heard == [b"challenge 1", b"challenge 2", b"challenge 3", b"last word"]


@pytest.mark.spec("5.3.3.6", "the codes of the outcome")
@pytest.mark.parametrize(
    ("code", "reason"),
    [(1, "credentials"), (2, "of its own"), (3, "for good"), (4, "at the moment"), (5, "unknown"), (255, "unknown")],
)
def test_outcome_codes(code: int, reason: str) -> None:
    """Each but 0 is a failure with that code, and says which mechanism it was."""
    ours = client()
    ours.receive(SaslMechanisms(("PLAIN",)))
    ours.receive(SaslOutcome(code))
    assert not ours.done
    assert isinstance(ours.error, AuthenticationFailed)
    assert ours.error.code == code
    assert reason in str(ours.error)
    assert "PLAIN" in str(ours.error)
    assert "secret" not in str(ours.error)


def test_server_that_proves_nothing() -> None:
    """An outcome of success without the server's signature is no success for SCRAM."""
    for additional in (None, b"", b"v=AAAA"):
        ours = client(ScramSha256("user", "secret"))
        ours.receive(SaslMechanisms(("SCRAM-SHA-256",)))
        ours.receive(SaslOutcome(0, additional))
        assert not ours.done
        assert isinstance(ours.error, AuthenticationFailed)


def test_nothing_fits() -> None:
    """The client says nothing if it has none of the mechanisms."""
    ours = client()
    ours.receive(SaslMechanisms(("GSSAPI", "ANONYMOUS")))
    assert isinstance(ours.error, AuthenticationFailed)
    assert said(ours) == []


def test_insecure_transport() -> None:
    """No secret goes out where anybody can read it."""
    ours = client(secure=False)
    ours.receive(SaslMechanisms(("PLAIN",)))
    assert isinstance(ours.error, InsecureTransport)
    assert said(ours) == []


# The server


@pytest.mark.spec("5.3.3.1", "the server announces what it supports, at once")
def test_offer() -> None:
    """The offer is there before anything is received."""
    (offer,) = said(server(users={"user": "secret"}, anonymous=True))
    assert isinstance(offer, SaslMechanisms)
    assert offer.sasl_server_mechanisms == ("SCRAM-SHA-512", "SCRAM-SHA-256", "SCRAM-SHA-1", "PLAIN", "ANONYMOUS")


@pytest.mark.spec("5.3.3.1", "the list of mechanisms is never empty")
def test_nothing_to_offer() -> None:
    """A server that has no mechanism for this connection offers one all the same, by which nobody comes in."""
    theirs = server(external=True)
    (offer,) = said(theirs)
    assert isinstance(offer, SaslMechanisms)
    assert offer.sasl_server_mechanisms
    for response in (b"", b"somebody"):
        theirs = server(external=True)
        said(theirs)
        theirs.receive(SaslInit(offer.sasl_server_mechanisms[0], response))
        assert said(theirs) == [SaslOutcome(1)]
        assert not theirs.done


@pytest.mark.spec("5.3.3.2", "a mechanism that was not offered is refused")
@pytest.mark.parametrize("name", ["ANONYMOUS", "EXTERNAL", "plain", "", "GSSAPI"])
def test_mechanism_not_offered(name: str) -> None:
    """The outcome is that the authentication failed."""
    theirs = server()
    said(theirs)
    theirs.receive(SaslInit(name, b"\0user\0secret"))
    assert said(theirs) == [SaslOutcome(1)]
    assert isinstance(theirs.error, AuthenticationFailed)
    assert theirs.error.code == 1


def test_empty_challenge_for_no_response() -> None:
    """An init without initial response is asked for it by an empty challenge; an empty one is a response."""
    theirs = server()
    said(theirs)
    theirs.receive(SaslInit("PLAIN"))
    assert said(theirs) == [SaslChallenge(b"")]
    theirs.receive(SaslResponse(b"\0user\0secret"))
    assert said(theirs) == [SaslOutcome(0)]
    assert theirs.done
    theirs = server()
    said(theirs)
    theirs.receive(SaslInit("PLAIN", b""))
    assert said(theirs) == [SaslOutcome(1)]


def test_rounds_are_bounded() -> None:
    """Neither end goes on for ever."""
    ours = client(Scripted(None))
    ours.receive(SaslMechanisms(("X-SCRIPTED",)))
    rounds = 0
    while ours.error is None:
        ours.receive(SaslChallenge(b""))
        rounds += 1
    assert rounds == MAX_ROUNDS + 1
    assert isinstance(ours.error, RemoteProtocolError)

    theirs = server()
    theirs.receive(SaslInit("PLAIN"))
    for _ in range(MAX_ROUNDS + 1):
        theirs.receive(SaslResponse(b"\0user\0wrong"))
    assert not theirs.done
    assert isinstance(theirs.error, AuthenticationFailed)


# Every frame in every state

FRAMES: dict[str, Composite] = {
    "mechanisms": SaslMechanisms(("PLAIN", "X-SCRIPTED")),
    "init": SaslInit("PLAIN", b"\0user\0secret"),
    "init without response": SaslInit("PLAIN"),
    "init with another mechanism": SaslInit("OTHER"),
    "challenge": SaslChallenge(b"challenge"),
    "response": SaslResponse(b"\0user\0secret"),
    "wrong response": SaslResponse(b"wrong"),
    "outcome ok": SaslOutcome(0),
    "outcome auth": SaslOutcome(1),
}
# What is taken where; every other pair is out of order. "over" takes everything, and does nothing.
CLIENT = {
    ("waiting for the offer", "mechanisms"): "in the exchange",
    ("in the exchange", "challenge"): "in the exchange",
    ("in the exchange", "outcome ok"): "over",
    ("in the exchange", "outcome auth"): "over",
}
SERVER = {
    ("waiting for the init", "init"): "over",
    ("waiting for the init", "init without response"): "waiting for a response",
    ("waiting for the init", "init with another mechanism"): "over",
    ("waiting for a response", "response"): "over",
    ("waiting for a response", "wrong response"): "over",
}


def clients() -> ClientSasl:
    return client(Scripted(None))


@pytest.mark.spec("5.3.2", "every frame in every order at either end")
@pytest.mark.parametrize(
    ("make", "first", "table"),
    [(clients, "waiting for the offer", CLIENT), (server, "waiting for the init", SERVER)],
    ids=["client", "server"],
)
@given(names=st.lists(st.sampled_from(sorted(FRAMES)), max_size=6))
def test_any_order(
    make: Callable[[], ClientSasl | ServerSasl], first: str, table: dict[tuple[str, str], str], names: list[str]
) -> None:
    """A valid frame moves the layer. An invalid one ends it with an error, and nothing is sent after the end."""
    layer, state = make(), first
    said(layer)
    for name in names:
        layer.receive(FRAMES[name])
        frames = said(layer)
        if state == "over":
            assert frames == []
            continue
        after = table.get((state, name))
        if after is None:
            assert isinstance(layer.error, RemoteProtocolError)
            assert layer.error.condition == "amqp:illegal-state"
            assert frames == []
            state = "over"
        else:
            state = after
        assert (layer.done or layer.error is not None) is (state == "over")
        assert not (layer.done and layer.error is not None)


@pytest.mark.parametrize("name", sorted(FRAMES))
@pytest.mark.parametrize(
    ("make", "before", "table"),
    [
        (clients, [], CLIENT),
        (clients, ["mechanisms"], CLIENT),
        (server, [], SERVER),
        (server, ["init without response"], SERVER),
    ],
    ids=["client before", "client within", "server before", "server within"],
)
def test_every_pair(
    make: Callable[[], ClientSasl | ServerSasl], before: list[str], table: dict[tuple[str, str], str], name: str
) -> None:
    """Each frame in each state, one by one: those of the table are taken, all others are out of order."""
    layer = make()
    for each in before:
        layer.receive(FRAMES[each])
    states = list(dict.fromkeys(state for state, _ in table))
    layer.receive(FRAMES[name])
    if (states[len(before)], name) in table:
        assert not isinstance(layer.error, RemoteProtocolError)
    else:
        assert isinstance(layer.error, RemoteProtocolError)
        assert not layer.done
