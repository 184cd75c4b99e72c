"""The first octets of a connection: which dialect they choose, and what is answered to others."""

from __future__ import annotations

import pytest

from amqp10.engine import Dialect, Negotiation, _negotiation, dialect

SASL = b"AMQP\3\1\0\0"
OLD = b"AMQP\0\0\x09\1"


def make(name: str, *headers: bytes, later: bool = False) -> Dialect:
    """A dialect of which only the headers are asked for."""
    model = dialect("1.0")
    return Dialect(name, headers, frozenset(), model.client, model.server, model.tracer, later=later)


@pytest.fixture(autouse=True)
def spoken(monkeypatch: pytest.MonkeyPatch) -> None:
    """All that there ever were."""
    all_ = [
        make("1.0", SASL, b"AMQP\0\1\0\0"),
        make("0-10", b"AMQP\1\1\0\x0a"),
        make("0-9-1", OLD),
        make("0-9", b"AMQP\1\1\0\x09"),
        make("0-9-draft", b"AMQP\1\1\x09\1"),
        make("fast", b"\x80\1", later=True),
    ]
    monkeypatch.setattr(_negotiation, "dialects", lambda: all_)


@pytest.mark.parametrize(
    ("header", "name"),
    [
        (SASL, "1.0"),
        (b"AMQP\0\1\0\0", "1.0"),
        (b"AMQP\1\1\0\x0a", "0-10"),
        (OLD, "0-9-1"),
        (b"AMQP\1\1\0\x09", "0-9"),
        (b"AMQP\1\1\x09\1", "0-9-draft"),
        (b"\x80\1", "fast"),
        (b"\x80\xff", "fast"),
    ],
)
@pytest.mark.parametrize("portion", [1, 3, 100])
def test_each_dialect(header: bytes, name: str, portion: int) -> None:
    """In whatever portions it comes, and whatever follows, the header chooses; nothing of what came is lost."""
    choice = Negotiation()
    for start in range(0, len(header), portion):
        assert choice.dialect is None
        chosen = choice.receive_data(header[start : start + portion])
    assert chosen
    assert choice.dialect is not None
    assert choice.dialect.name == name
    at_once = Negotiation()
    assert at_once.receive_data(header + b"\x01rest")
    assert at_once.dialect is choice.dialect
    assert at_once.received == header + b"\x01rest"


@pytest.mark.parametrize(
    ("octets", "answer", "after"),
    [
        (b"GET / HTTP/1.1", SASL, 1),
        (b"\x16\x03\x01", SASL, 1),
        (b"AMQP\2\1\0\0", SASL, 5),
        (b"AMQP\0\2\0\0", SASL, 6),
        (b"AMQP\0\0\x09\2", OLD, 8),
        (b"AMQP\0\0\x08\0", OLD, 7),
        (b"AMQP\1\1\x08\0", OLD, 7),
        (b"AMQP\1\1\0\x0b", OLD, 8),
        (b"\x80\0", SASL, 2),
    ],
)
def test_refused(octets: bytes, answer: bytes, after: int) -> None:
    """What cannot be any header is refused with its first wrong octet, in the words of its family."""
    choice = Negotiation()
    for number in range(after - 1):
        assert not choice.receive_data(octets[number : number + 1])
    assert choice.receive_data(octets[after - 1 : after])
    assert (choice.dialect, choice.refusal) == (None, answer)
