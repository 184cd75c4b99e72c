"""ANONYMOUS, PLAIN and EXTERNAL, both sides."""

from __future__ import annotations

import pytest

from amqp10.sasl import Anonymous, Challenge, External, Failure, Plain, Success
from amqp10.sasl._plain import AnonymousServer, ExternalServer, PlainServer


def check(user: str, password: str) -> str | None:
    return user if (user, password) == ("tim", "tanstaaftanstaaf") else None


def test_plain_message() -> None:
    """The examples of RFC 4616 section 4."""
    assert Plain("tim", "tanstaaftanstaaf").exchange().initial() == b"\0tim\0tanstaaftanstaaf"
    assert Plain("Kurt", "xipj3plmq", authzid="Ursel").exchange().initial() == b"Ursel\0Kurt\0xipj3plmq"
    assert Plain("Jürgen", "schlüssel").exchange().initial() == "\0Jürgen\0schlüssel".encode()


def test_the_initial_response_again() -> None:
    """A server that ignored the initial response asks for it by an empty challenge."""
    for mechanism in (Plain("u", "p"), External("me"), Anonymous("trace")):
        exchange = mechanism.exchange()
        assert exchange.respond(b"") == exchange.initial()
        exchange.finish(None)


def test_anonymous_and_external_messages() -> None:
    """An empty message is one, and not the absence of one."""
    assert Anonymous().exchange().initial() == b""
    assert Anonymous("sirhc").exchange().initial() == b"sirhc"
    assert External().exchange().initial() == b""
    assert External("fred@example.com").exchange().initial() == b"fred@example.com"


@pytest.mark.parametrize("arguments", [("u\0", "p"), ("u", "p\0"), ("u", "\udcff"), ("", "p")])
def test_plain_refuses(arguments: tuple[str, str]) -> None:
    """Text that PLAIN cannot carry is refused when the mechanism is made, and the error does not quote it."""
    with pytest.raises(ValueError, match=r"must not have NUL|must not be empty"):
        Plain(*arguments)


def test_repr_hides_the_password() -> None:
    """The user may be seen, the password not."""
    assert repr(Plain("tim", "secret")) == "Plain('tim', ...)"
    assert "secret" not in str(Plain("tim", "secret"))
    assert "secret" not in repr(Plain("tim", "secret").exchange())


@pytest.mark.parametrize(
    ("response", "step"),
    [
        (b"\0tim\0tanstaaftanstaaf", Success("tim")),
        (b"tim\0tim\0tanstaaftanstaaf", Success("tim")),
        (b"root\0tim\0tanstaaftanstaaf", Failure()),
        (b"\0tim\0wrong", Failure()),
        (b"\0tim\0", Failure()),
        (b"\0nobody\0tanstaaftanstaaf", Failure()),
        (b"\0tim", Failure()),
        (b"", Failure()),
        (b"\0tim\0tanstaaftanstaaf\0", Failure()),
        (b"\0\xff\0tanstaaftanstaaf", Failure()),
        (None, Challenge(b"")),
    ],
)
def test_plain_server(response: bytes | None, step: object) -> None:
    """Only the right password of that user lets in, and only as that user."""
    assert PlainServer(check).step(response) == step


def test_plain_server_after_an_empty_challenge() -> None:
    """An init without a response is asked for it."""
    server = PlainServer(check)
    assert server.step(None) == Challenge(b"")
    assert server.step(b"\0tim\0tanstaaftanstaaf") == Success("tim")


def test_external_server() -> None:
    """The login is the name of the certificate, and no other; without a certificate it fails."""
    assert ExternalServer("fred").step(b"") == Success("fred")
    assert ExternalServer("fred").step(b"fred") == Success("fred")
    assert ExternalServer("fred").step(b"root") == Failure()
    assert ExternalServer("fred").step(None) == Challenge(b"")
    assert ExternalServer(None).step(b"") == Failure()
    assert ExternalServer(None).step(b"fred") == Failure()


@pytest.mark.parametrize("response", [None, b"", b"trace", b"\xff"])
def test_anonymous_server(response: bytes | None) -> None:
    """Anybody, as nobody."""
    assert AnonymousServer().step(response) == Success(None)
