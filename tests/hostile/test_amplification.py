"""A few octets of a peer's never become much memory or many steps: measured by `tracemalloc` and by calls, no clock."""

import struct
import sys
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from amqp10.dialects.v1_0._frames import FRAME_AMQP, FRAME_SASL, FrameReader
from amqp10.errors import DecodeError
from amqp10.messaging import Message
from amqp10.types import decode

OCTET = 80
"""Octets of memory that an octet of input may cost at most."""
START = 16_384
"""Octets of memory that any input may cost besides."""

MANY = struct.pack(">BIIB", 0xF0, 5, 65_536, 0x45)
"""An array of 65,536 empty lists, in ten octets."""


def cost(act: Callable[[], Any]) -> tuple[int, int]:
    """The octets of memory and the calls that it takes; what it refuses counts as well."""

    def run() -> None:
        try:
            act()
        except DecodeError:
            pass

    run()  # what is made once is not its doing
    calls = 0

    def count(frame: Any, event: str, argument: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    tracemalloc.start()
    try:
        run()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    before = sys.getprofile()
    sys.setprofile(count)
    try:
        run()
    finally:
        sys.setprofile(before)
    return peak, calls


def is_cheap(data: bytes, act: Callable[[], Any]) -> None:
    memory, calls = cost(act)
    assert memory <= OCTET * len(data) + START
    assert calls <= 8 * len(data) + 100


def frame(kind: int, body: bytes) -> bytes:
    return struct.pack(">IBBH", 8 + len(body), 2, kind, 0) + body


def read(data: bytes) -> Any:
    reader = FrameReader(1 << 20)
    reader.feed(data)
    return reader.next()


def performative(code: int, *fields: bytes) -> bytes:
    content = b"".join(fields)
    return bytes((0, 0x53, code, 0xD0)) + struct.pack(">II", len(content) + 4, len(fields)) + content


def properties(value: bytes) -> bytes:
    content = b"\xa3\1x" + value
    return b"\xd1" + struct.pack(">II", len(content) + 4, 2) + content


def sequence(*values: bytes) -> bytes:
    content = b"".join(values)
    return b"\0\x53\x76\xd0" + struct.pack(">II", len(content) + 4, len(values)) + content


def test_a_body_of_arrays_without_octets() -> None:
    """50 sections, each an array of 65,536 empty lists: they were 226 MiB of 800 octets."""
    payload = sequence(MANY) * 50
    is_cheap(payload, lambda: Message.decode(payload).body)
    with pytest.raises(DecodeError, match="no width"):
        Message.decode(payload).body  # noqa: B018


def test_sections_share_one_allowance() -> None:
    """What a message may have of elements without octets, all its sections have together, whenever they are read."""
    nulls = struct.pack(">BIIB", 0xF0, 5, 100, 0x40)
    annotations = b"\0\x53\x72" + properties(nulls)
    footer = b"\0\x53\x78" + properties(nulls)
    fine = Message.decode(annotations + sequence(nulls))
    assert len(fine.message_annotations["x"]) == len(fine.body.parts[0][0]) == 100
    message = Message.decode(annotations + sequence(nulls) + footer)
    assert len(message.footer["x"]) == len(message.message_annotations["x"]) == 100
    with pytest.raises(DecodeError, match="no width"):
        message.body  # noqa: B018
    # What is encoded again or asked for again counts once.
    fine.message_annotations["x"] = 1
    assert Message.decode(fine.encode()).body == fine.body == fine.replace(subject="s").body


def test_a_flow_with_properties() -> None:
    """It cost 30 ms of CPU for 48 octets."""
    one, nothing = b"\x52\1", b"\x40"
    data = frame(FRAME_AMQP, performative(0x13, one, one, one, one, *[nothing] * 6, properties(MANY)))
    is_cheap(data, lambda: read(data))
    with pytest.raises(DecodeError, match="no width"):
        read(data)


def test_an_attach_keeps_no_more_than_came() -> None:
    """Its properties were kept: 272 MiB for 60 frames of 70 octets."""
    head = (b"\xa1\1l", b"\x43", b"\x42", *[b"\x40"] * 10)
    data = frame(FRAME_AMQP, performative(0x12, *head, properties(MANY)))
    is_cheap(data, lambda: read(data))
    with pytest.raises(DecodeError, match="no width"):
        read(data)


@pytest.mark.parametrize("descriptor", [b"\x53\x99", b"\x44", b"\xa3\4what", MANY, b"\x40"])
@pytest.mark.parametrize("kind", [FRAME_SASL, FRAME_AMQP])
def test_what_an_unknown_descriptor_describes_is_not_read(kind: int, descriptor: bytes) -> None:
    """Before the login, too."""
    data = frame(kind, b"\0" + descriptor + b"\xd0" + struct.pack(">II", 1004, 1000) + b"\x45" * 1000)
    memory, calls = cost(lambda: read(data))
    assert memory < START
    assert calls < 50
    with pytest.raises(DecodeError, match="unknown described value"):
        read(data)


def test_an_unknown_error_is_not_read() -> None:
    """The type of an error is known: there is no other."""
    unknown = b"\0\x53\x99\xd0" + struct.pack(">II", 1004, 1000) + b"\x45" * 1000
    data = frame(FRAME_AMQP, performative(0x18, unknown))
    memory, calls = cost(lambda: read(data))
    assert memory < START
    assert calls < 50
    with pytest.raises(DecodeError, match="close:list error: a described value of an unknown type is no error"):
        read(data)


@pytest.mark.parametrize(
    "item",
    [
        b"\x45",  # list0
        b"\xc0\1\0",
        b"\xc1\1\0",
        b"\xc1\3\2\x40\x45",  # {None: []}
        b"\xc1\3\2\x45\x45",  # a key that no dict holds
        b"\xe0\2\0\x40",
        b"\0\x45\x45",
        b"\xe0\3\x09\x45",
    ],
    ids=bytes.hex,
)
def test_each_constructor_in_a_list(item: bytes) -> None:
    """What costs most memory for its octets, as often as it goes into a list."""
    content = item * (20_000 // len(item))
    data = struct.pack(">BII", 0xD0, len(content) + 4, 20_000 // len(item)) + content
    is_cheap(data, lambda: decode(data))


@pytest.mark.parametrize(
    ("code", "item"),
    [(0xC0, b"\1\0"), (0xC1, b"\3\2\x40\x45"), (0x60, b"\x77\x77"), (0x50, b"\7"), (0xE0, b"\2\0\x40")],
)
def test_each_constructor_in_an_array(code: int, item: bytes) -> None:
    """The same for the elements of an array."""
    content = item * (20_000 // len(item))
    data = struct.pack(">BIIB", 0xF0, len(content) + 5, 20_000 // len(item), code) + content
    is_cheap(data, lambda: decode(data))


def test_keys_within_keys() -> None:
    """A key is compared encoded: at each level anew, so that there are few levels."""
    key = b"\xd0" + struct.pack(">II", 504, 500) + b"\x40" * 500
    for _ in range(3):
        content = key + b"\x40"
        key = b"\xd1" + struct.pack(">II", 4 + len(content), 2) + content
    decode(b"\xd1" + struct.pack(">II", 5 + len(key), 2) + key + b"\x40")
    for _ in range(20):
        content = key + b"\x40"
        key = b"\xd1" + struct.pack(">II", 4 + len(content), 2) + content
    is_cheap(key, lambda: decode(key))
    with pytest.raises(DecodeError, match="nested too deeply"):
        decode(key)
