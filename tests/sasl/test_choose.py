"""Which mechanism is used: the strongest that the server offers, the credentials allow and the transport may carry."""

from __future__ import annotations

import pytest

from amqp10.errors import AuthenticationFailed, InsecureTransport
from amqp10.sasl import (
    Anonymous,
    External,
    Mechanism,
    OAuthBearer,
    Plain,
    ScramSha1,
    ScramSha1Plus,
    ScramSha256,
    ScramSha256Plus,
    ScramSha512,
    ScramSha512Plus,
    XOAuth2,
    choose,
    from_credentials,
)

USER = from_credentials("user", "secret")
ALL = ["ANONYMOUS", "PLAIN", "SCRAM-SHA-1", "SCRAM-SHA-256", "SCRAM-SHA-512", "EXTERNAL"]


def test_from_credentials() -> None:
    """A user gives SCRAM and PLAIN and never ANONYMOUS; no user gives ANONYMOUS only."""
    scram = ["SCRAM-SHA-512", "SCRAM-SHA-256", "SCRAM-SHA-1"]
    assert [one.name for one in USER] == [*(f"{name}-PLUS" for name in scram), *scram, "PLAIN"]
    assert [one.name for one in from_credentials("user", None)] == [one.name for one in USER]
    assert [one.name for one in from_credentials(None, None)] == ["ANONYMOUS"]


@pytest.mark.parametrize(("user", "password"), [("", "p"), ("", None), (None, "p"), (None, "")])
def test_half_credentials(user: str | None, password: str | None) -> None:
    """Half a login is an error, and not ANONYMOUS."""
    with pytest.raises(ValueError, match="user name must not be empty"):
        from_credentials(user, password)


@pytest.mark.parametrize(
    ("offered", "secure", "chosen"),
    [
        (ALL, True, "SCRAM-SHA-512"),
        (ALL, False, "SCRAM-SHA-512"),
        (["PLAIN", "SCRAM-SHA-1"], True, "SCRAM-SHA-1"),
        (["PLAIN", "SCRAM-SHA-1"], False, "SCRAM-SHA-1"),
        (["PLAIN", "ANONYMOUS", "SCRAM-SHA-256"], True, "SCRAM-SHA-256"),
        (["PLAIN", "ANONYMOUS"], True, "PLAIN"),
    ],
)
def test_strongest(offered: list[str], secure: bool, chosen: str) -> None:
    """SCRAM before PLAIN wherever both are, on any transport; the server's order does not matter."""
    assert choose(offered, USER, secure=secure).name == chosen
    assert choose(reversed(offered), USER[::-1], secure=secure).name == chosen


def test_plain_needs_a_secure_transport() -> None:
    """PLAIN beyond loopback without TLS is an error that names the way out, unless it was allowed."""
    with pytest.raises(InsecureTransport, match=r"PLAIN .*amqps.*allow_insecure"):
        choose(["PLAIN", "ANONYMOUS"], USER, secure=False)
    assert choose(["PLAIN"], [Plain("u", "p", allow_insecure=True)], secure=False).name == "PLAIN"
    allowed = from_credentials("u", "p", allow_insecure=True)
    assert choose(["PLAIN"], allowed, secure=False).name == "PLAIN"
    assert choose(["PLAIN", "SCRAM-SHA-1"], allowed, secure=False).name == "SCRAM-SHA-1"


@pytest.mark.parametrize("mechanism", [XOAuth2("u", "token"), OAuthBearer("token")])
def test_tokens_need_a_secure_transport(mechanism: Mechanism) -> None:
    """So do tokens."""
    with pytest.raises(InsecureTransport):
        choose([mechanism.name], [mechanism], secure=False)
    assert choose([mechanism.name], [mechanism], secure=True) is mechanism
    assert not XOAuth2("u", "t", allow_insecure=True).needs_tls
    assert not OAuthBearer("t", allow_insecure=True).needs_tls


def test_never_anonymous_in_place_of_credentials() -> None:
    """Credentials do not fall back to ANONYMOUS: not when nothing else is offered, nor when the rest is insecure."""
    with pytest.raises(
        AuthenticationFailed,
        match=r"offers ANONYMOUS, and this side can use SCRAM-SHA-512.*PLAIN: .* leave the user out",
    ):
        choose(["ANONYMOUS"], USER, secure=True)
    with pytest.raises(InsecureTransport):
        choose(["ANONYMOUS", "PLAIN"], [Plain("u", "p"), Anonymous()], secure=False)
    assert choose(["ANONYMOUS", "PLAIN"], [Anonymous()], secure=False).name == "ANONYMOUS"


def test_anonymous_last() -> None:
    """With a user and ANONYMOUS both possible, the login names the user."""
    assert choose(["ANONYMOUS", "PLAIN"], [Anonymous(), Plain("u", "p")], secure=True).name == "PLAIN"
    assert choose(["ANONYMOUS"], [Anonymous(), Plain("u", "p")], secure=True).name == "ANONYMOUS"


def test_external_first() -> None:
    """A certificate comes before a password."""
    assert choose(ALL, [*USER, External()], secure=True).name == "EXTERNAL"


def test_order_of_strength() -> None:
    """Longer digests first, PLAIN before nobody."""
    plus = (ScramSha512Plus, ScramSha256Plus, ScramSha1Plus)
    strengths = [one.strength for one in (External, *plus, ScramSha512, ScramSha256, ScramSha1, Plain, Anonymous)]
    assert strengths == sorted(strengths, reverse=True)
    assert Anonymous.strength == 0


@pytest.mark.parametrize("offered", [[], ["GSSAPI"], ["plain"]])
def test_nothing_fits(offered: list[str]) -> None:
    """The error names both lists, and no secret."""
    with pytest.raises(AuthenticationFailed) as caught:
        choose(offered, USER, secure=True)
    assert (offered or ["nothing"])[0] in str(caught.value)
    assert "PLAIN" in str(caught.value)
    assert "secret" not in str(caught.value)
    assert caught.value.code is None
