"""XOAUTH2 and OAUTHBEARER, both sides."""

from __future__ import annotations

import json
import logging

import pytest

from amqp10.errors import AuthenticationFailed
from amqp10.sasl import Challenge, Failure, Mechanism, OAuthBearer, ServerExchange, Success, XOAuth2
from amqp10.sasl._oauth import OAuthBearerServer, XOAuth2Server

pytestmark = pytest.mark.capability("login")

TOKEN = "vF9dft4qmTc2Nvb3RlckBhbHRhdmlzdGEuY29tCg=="


def verify(user: str | None, token: str) -> str | None:
    return (user or "owner") if token == TOKEN else None


def test_messages() -> None:
    """The example of RFC 7628 section 4.1, and Google's form."""
    bearer = OAuthBearer(TOKEN, user="user@example.com", host="server.example.com", port=143)
    assert bearer.exchange().initial() == (
        f"n,a=user@example.com,\1host=server.example.com\1port=143\1auth=Bearer {TOKEN}\1\1".encode()
    )
    assert OAuthBearer(TOKEN).exchange("host").initial() == f"n,,\1host=host\1auth=Bearer {TOKEN}\1\1".encode()
    assert OAuthBearer(TOKEN, user="a=b,c").exchange().initial() == f"n,a=a=3Db=2Cc,\1auth=Bearer {TOKEN}\1\1".encode()
    assert XOAuth2("me", TOKEN).exchange().initial() == f"user=me\1auth=Bearer {TOKEN}\1\1".encode()


@pytest.mark.parametrize(
    ("mechanism", "server", "identity"),
    [
        (XOAuth2("me", TOKEN), XOAuth2Server(verify), "me"),
        (OAuthBearer(TOKEN, user="a=b,c", host="h", port=5671), OAuthBearerServer(verify), "a=b,c"),
        (OAuthBearer(TOKEN), OAuthBearerServer(verify), "owner"),
    ],
)
def test_both_sides(mechanism: Mechanism, server: ServerExchange, identity: str) -> None:
    """The verifier sees user and token, and says who it is; with or without an initial response."""
    exchange = mechanism.exchange("localhost")
    assert server.step(None) == Challenge(b"")
    assert exchange.respond(b"") == exchange.initial()
    assert server.step(exchange.initial()) == Success(identity)
    exchange.finish(None)


@pytest.mark.parametrize(
    ("mechanism", "server", "acknowledgment"),
    [(XOAuth2("me", "old"), XOAuth2Server(verify), b""), (OAuthBearer("old"), OAuthBearerServer(verify), b"\1")],
)
def test_refusal(mechanism: Mechanism, server: ServerExchange, acknowledgment: bytes) -> None:
    """The server says why as a challenge, the client acknowledges, and only then it is over (RFC 7628)."""
    exchange = mechanism.exchange()
    refusal = server.step(exchange.initial())
    assert isinstance(refusal, Challenge)
    assert json.loads(refusal.data) == {"status": "invalid_token"}
    assert exchange.respond(refusal.data) == acknowledgment
    assert server.step(acknowledgment) == Failure()
    with pytest.raises(AuthenticationFailed):
        exchange.finish(None)


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\xff",
        b"n,,",
        b"n,,\1\1",
        f"p=x,,\1auth=Bearer {TOKEN}\1\1".encode(),
        f"n,x,\1auth=Bearer {TOKEN}\1\1".encode(),
        f"n,,\1auth=Bearer {TOKEN}\1".encode(),
        f"n,,\1auth=Basic {TOKEN}\1\1".encode(),
        b"n,,\1auth=Bearer \1\1",
        f"n,,x\1auth=Bearer {TOKEN}\1\1".encode(),
    ],
)
def test_malformed(message: bytes) -> None:
    """A response that is not a message fails at once, and the verifier is not asked."""

    def never(user: str | None, token: str) -> str | None:
        pytest.fail("the verifier was asked")

    assert OAuthBearerServer(never).step(message) == Failure()


def test_verifier_that_raises(caplog: pytest.LogCaptureFixture) -> None:
    """An exception refuses; the log has its kind and not its words, which may quote the token."""

    def broken(user: str | None, token: str) -> str | None:
        raise LookupError(f"cannot parse {token}")

    with caplog.at_level(logging.DEBUG):
        assert isinstance(XOAuth2Server(broken).step(f"user=me\1auth=bearer {TOKEN}\1\1".encode()), Challenge)
    assert "LookupError" in caplog.text
    assert TOKEN not in caplog.text


def test_refused_when_made() -> None:
    """Control characters would end the message early."""
    for make in (lambda: XOAuth2("me\1", TOKEN), lambda: XOAuth2("me", "a\nb"), lambda: OAuthBearer("a\1b")):
        with pytest.raises(ValueError, match="control characters"):
            make()
    with pytest.raises(ValueError, match="empty"):
        XOAuth2("", TOKEN)


def test_repr_hides_the_token() -> None:
    """The user may be seen, the token not."""
    assert repr(XOAuth2("me", TOKEN)) == "XOAuth2('me', ...)"
    assert TOKEN not in repr(OAuthBearer(TOKEN, user="me"))
    assert TOKEN not in repr(OAuthBearer(TOKEN).exchange())
