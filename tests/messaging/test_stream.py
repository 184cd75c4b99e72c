"""Messages that are read while they come in: in parts of any size the same as whole, nothing held but what must be."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from amqp10.errors import DecodeError
from amqp10.messaging import AmqpSequence, AmqpValue, Data, Message, Received, StreamDecoder, data_head
from amqp10.testing.strategies import exact_message, messages

EVERYTHING = Message(
    Data(b"a" * 300, b"", b"b" * 20),
    durable=True,
    delivery_annotations={"x-da": 1},
    message_annotations={"x-ma": [1]},
    subject="all sections",
    application_properties={"n": 1},
    footer={"x-foot": b"end"},
)


def cut(payload: bytes, size: int) -> list[bytes]:
    return [payload[at : at + size] for at in range(0, len(payload), size)]


def read(decoder: StreamDecoder, parts: list[bytes]) -> list[bytes]:
    """The pieces of the body; `parts` are fed one by one, each when asked for."""
    left = iter(parts)

    def feed() -> None:
        part = next(left, None)
        if part is None:
            decoder.end()
        else:
            decoder.feed(part)

    while not decoder.read_head():
        feed()
    pieces = []
    while not decoder.finished:
        piece = decoder.read()
        if piece is not None:
            pieces.append(piece)
        elif not decoder.finished:
            feed()
    return pieces


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100, 1000])
def test_in_parts(size: int) -> None:
    """Head, body and footer are those of the whole message, wherever it is cut."""
    decoder = StreamDecoder()
    pieces = read(decoder, cut(EVERYTHING.encode(), size))
    assert b"".join(pieces) == bytes(EVERYTHING.body)
    assert all(pieces)
    assert decoder.message == EVERYTHING.replace(body=None)


@given(messages(), st.integers(1, 200))
def test_any_message(message: Message, size: int) -> None:
    """Any message in any parts is the same as when it is decoded whole."""
    payload = message.encode()
    whole = Message.decode(payload)
    decoder = StreamDecoder()
    pieces = read(decoder, cut(payload, size))
    if isinstance(whole.body, bytes | Data):
        assert decoder.has_data
        assert b"".join(pieces) == bytes(whole.body)
        # As octets: a NaN does not equal itself.
        assert decoder.message.encode_head() == whole.encode_head()
        assert decoder.message.encode_footer() == whole.encode_footer()
    else:
        assert pieces == []
        assert decoder.message.encode() == payload


def test_wide_and_symbolic_descriptors() -> None:
    """A section may be introduced by its symbol, or its number in eight octets (§1.2)."""
    properties = b"\x00\x80" + (0x73).to_bytes(8, "big") + Message(subject="s").encode_head()[3:]
    data = b"\x00\xa3\x10amqp:data:binary\xa0\x02hi"
    data += b"\x00\xb3\x00\x00\x00\x10amqp:data:binary\xb0\x00\x00\x00\x01!"
    for size in (1, 5, 100):
        decoder = StreamDecoder()
        assert b"".join(read(decoder, cut(properties + data, size))) == b"hi!"
        assert decoder.message.subject == "s"


def test_parts_that_are_all_body_are_not_copied() -> None:
    """What a frame brought in the middle of a section is handed on as it is."""
    decoder = StreamDecoder()
    decoder.feed(data_head(1000) + b"x" * 10)
    assert decoder.read_head()
    assert decoder.read() == b"x" * 10
    assert decoder.read() is None
    part = b"y" * 500
    decoder.feed(part)
    assert decoder.read() is part


def test_the_head_comes_before_the_body() -> None:
    """The head is there as soon as the body begins, and the footer only when that has been read."""
    payload = EVERYTHING.encode()
    at = payload.index(b"a" * 300)
    decoder = StreamDecoder()
    decoder.feed(payload[: at - 9])
    assert not decoder.read_head()
    decoder.feed(payload[at - 9 : at])
    assert decoder.read_head()
    assert decoder.message.subject == "all sections"
    decoder.feed(payload[at:])
    decoder.end()
    assert decoder.message.footer == {}
    while decoder.read() is not None:
        pass
    assert decoder.finished
    assert decoder.message.footer == {"x-foot": b"end"}


@pytest.mark.parametrize("body", ["text", {"a": [1]}, AmqpValue(b"bytes"), AmqpSequence([1], [2])])
def test_a_body_that_is_not_data(body: object) -> None:
    """It is in the message, whole."""
    decoder = StreamDecoder()
    assert read(decoder, cut(Message(body, subject="s").encode(), 3)) == []
    assert not decoder.has_data
    assert decoder.message == Message(body, subject="s")


@pytest.mark.parametrize("message", [Message("x" * 2000), Message(b"", application_properties={"x": "y" * 2000})])
def test_what_must_be_held_is_limited(message: Message) -> None:
    """A head or a value that does not end is an error before more than the limit was taken."""
    decoder = StreamDecoder(limit=1000)
    parts = iter(cut(message.encode(), 100))
    taken = 0
    with pytest.raises(DecodeError, match="cannot be streamed"):
        while not decoder.read_head():
            part = next(parts)
            taken += len(part)
            decoder.feed(part)
    assert taken <= 1100


def test_the_footer_is_limited() -> None:
    """A footer is held too."""
    decoder = StreamDecoder(limit=1000)
    decoder.feed(Message(b"body", footer={"x": "y" * 2000}).encode()[:100])
    assert decoder.read_head()
    assert decoder.read() == b"body"
    with pytest.raises(DecodeError, match="cannot be streamed"):
        decoder.read()


def malformed() -> list[tuple[str, bytes]]:
    data = Message(b"x").encode()
    head = Message(subject="s").encode_head()
    footer = Message(footer={"x": 1}).encode_footer()
    return [
        ("empty", b""),
        ("no section", b"\x40"),
        ("unknown section", b"\x00\x53\x10\x45"),
        ("unknown symbol", b"\x00\xa3\x03abc\x45"),
        ("a described descriptor", b"\x00\x00\x53\x75\x45"),
        ("head cut off", head[:-1]),
        ("data cut off", data[:-1]),
        ("data head cut off", data[:4]),
        ("footer cut off", data + footer[:-1]),
        ("a section begun after the end", data + b"\x00"),
        ("head after the body", data + head),
        ("two footers", data + footer + footer),
        ("data after the footer", data + footer + data),
        ("a value after data", data + Message("x").encode()),
        ("a sequence after data", data + Message(AmqpSequence([1])).encode()),
        ("data that is a string", b"\x00\x53\x75\xa1\x01x"),
        ("data that is null", b"\x00\x53\x75\x40"),
        ("a head that is an array", b"\x00\x53\x73\xe0\x02\x00\x40"),
        ("a footer that is a list", data + b"\x00\x53\x78\x45"),
        ("a value cut off", Message("text").encode()[:-1]),
    ]


@pytest.mark.parametrize("size", [1, 3, 1000])
@pytest.mark.parametrize("payload", [pytest.param(payload, id=name) for name, payload in malformed()])
def test_malformed(payload: bytes, size: int) -> None:
    """What no decoder takes whole is not taken in parts either; each time at the latest when all was read."""
    decoder = StreamDecoder()
    with pytest.raises(DecodeError):
        read(decoder, cut(payload, size))
        decoder.message.check()


@given(st.binary(max_size=60), st.integers(1, 20))
@example(b"\x00Su\xa0\x00", 1)
@example(b"\x00Su\xa0\x02ab\x00Su\xa0\x01c", 2)
def test_garbage(payload: bytes, size: int) -> None:
    """Any bytes are read or refused, never anything else."""
    decoder = StreamDecoder()
    try:
        pieces = read(decoder, cut(payload, size))
        decoder.message.check()
    except DecodeError:
        return
    whole = Message.decode(payload)
    if isinstance(whole.body, bytes | Data):
        assert b"".join(pieces) == bytes(whole.body)
        whole.body = None
    assert exact_message(whole) == exact_message(decoder.message)


def test_how_far_it_was_read() -> None:
    """Section number and offset, as a receiver says them of a delivery to be resumed (§3.4.1)."""
    decoder = StreamDecoder()
    head = EVERYTHING.encode_head()
    decoder.feed(head + data_head(300) + b"x" * 100)
    assert decoder.read_head()
    assert decoder.read() == b"x" * 100
    assert decoder.received == Received(5, 8 + 100)


@pytest.mark.parametrize("message", [Message(), EVERYTHING, Message.decode(EVERYTHING.encode())])
def test_encoded_in_parts(message: Message) -> None:
    """Head, data sections and footer, put together, are the message."""
    payload = message.encode_head() + Data(b"1", b"2").parts[0].join((data_head(1), b"")) + message.encode_footer()
    assert Message.decode(payload) == message.replace(body=b"1")
