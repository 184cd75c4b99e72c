"""The frame bodies: each field of each, by name, type and default, and known encodings byte by byte."""

from __future__ import annotations

import pytest

from amqp10.dialects.v1_0.wire import performatives
from amqp10.dialects.v1_0.wire.performatives import (
    Attach,
    Begin,
    Close,
    Detach,
    Disposition,
    End,
    Flow,
    Open,
    SaslChallenge,
    SaslInit,
    SaslMechanisms,
    SaslOutcome,
    SaslResponse,
    Transfer,
)
from amqp10.errors import DecodeError, EncodeError
from amqp10.messaging import ACCEPTED, Error, Source, Target
from amqp10.types import Composite, UInt

KINDS: list[type[Composite]] = [
    each
    for each in vars(performatives).values()
    if isinstance(each, type) and issubclass(each, Composite) and each.__module__ == performatives.__name__
]

# The field tables of §2.7 and §5.3.3: name, primitive type, "!" mandatory, "*" multiple, "=" default.
SPEC = """
0x10 amqp:open:list        container-id string!  hostname string  max-frame-size uint=4294967295
                           channel-max ushort=65535  idle-time-out uint  outgoing-locales symbol*
                           incoming-locales symbol*  offered-capabilities symbol*  desired-capabilities symbol*
                           properties map
0x11 amqp:begin:list       remote-channel ushort  next-outgoing-id uint!  incoming-window uint!
                           outgoing-window uint!  handle-max uint=4294967295  offered-capabilities symbol*
                           desired-capabilities symbol*  properties map
0x12 amqp:attach:list      name string!  handle uint!  role boolean!  snd-settle-mode ubyte=2
                           rcv-settle-mode ubyte=0  source any  target any  unsettled map
                           incomplete-unsettled boolean=False  initial-delivery-count uint  max-message-size ulong
                           offered-capabilities symbol*  desired-capabilities symbol*  properties map
0x13 amqp:flow:list        next-incoming-id uint  incoming-window uint!  next-outgoing-id uint!
                           outgoing-window uint!  handle uint  delivery-count uint  link-credit uint  available uint
                           drain boolean=False  echo boolean=False  properties map
0x14 amqp:transfer:list    handle uint!  delivery-id uint  delivery-tag binary  message-format uint  settled boolean
                           more boolean=False  rcv-settle-mode ubyte  state any  resume boolean=False
                           aborted boolean=False  batchable boolean=False
0x15 amqp:disposition:list role boolean!  first uint!  last uint  settled boolean=False  state any
                           batchable boolean=False
0x16 amqp:detach:list      handle uint!  closed boolean=False  error any
0x17 amqp:end:list         error any
0x18 amqp:close:list       error any
0x40 amqp:sasl-mechanisms:list sasl-server-mechanisms symbol!*
0x41 amqp:sasl-init:list       mechanism symbol!  initial-response binary  hostname string
0x42 amqp:sasl-challenge:list  challenge binary!
0x43 amqp:sasl-response:list   response binary!
0x44 amqp:sasl-outcome:list    code ubyte!  additional-data binary
"""


def declared(kind: type[Composite]) -> list[str]:
    """The words of `SPEC` for a class."""
    words = [f"{kind.descriptor_code:#x}", kind.descriptor_name]
    for each in kind.fields:
        words.append(each.wire_name)
        default = "" if each.default is None else f"={each.default}"
        amqp_type = "any" if each.type == "*" else each.type
        words.append(amqp_type + "!" * each.mandatory + "*" * each.multiple + default)
    return words


@pytest.mark.spec("2.7", "the performatives of the transport: descriptors and fields")
@pytest.mark.spec("5.3.3", "the SASL frames: descriptors and fields")
def test_fields() -> None:
    """Every field is there, in its place, with its type, its default, and whether it may be missing."""
    words: list[str] = [word for kind in KINDS for word in declared(kind)]
    assert words == SPEC.split()
    assert len(KINDS) == 14


def test_names_are_the_specifications() -> None:
    """A field's Python name is its wire name with underscores."""
    assert Transfer.fields[6].name == "rcv_settle_mode"
    assert [each.name for each in Disposition.fields] == ["role", "first", "last", "settled", "state", "batchable"]


EXAMPLES: list[tuple[Composite, str]] = [
    (Open("c"), "00 53 10 c0 04 01 a1 01 63"),
    (
        Open("c", "h", 512, 7, 1000, properties={"product": "x"}),
        (
            "00 53 10 c0 27 0a a1 01 63 a1 01 68 70 00 00 02 00 60 00 07 70 00 00 03 e8 40 40 40 40"
            "c1 0d 02 a3 07 70 72 6f 64 75 63 74 a1 01 78"
        ),
    ),
    (Open("c", offered_capabilities=("a",)), "00 53 10 c0 10 08 a1 01 63 40 40 40 40 40 40 e0 04 01 a3 01 61"),
    (
        Open("c", desired_capabilities=("a", "bc")),
        "00 53 10 c0 14 09 a1 01 63 40 40 40 40 40 40 40 e0 07 02 a3 01 61 02 62 63",
    ),
    (Begin(None, 1, 2, 300), "00 53 11 c0 0b 04 40 52 01 52 02 70 00 00 01 2c"),
    (Begin(5, 0, 1, 1, 9), "00 53 11 c0 0b 05 60 00 05 43 52 01 52 01 52 09"),
    (
        Attach("l", 0, False, source=Source("q"), target=Target(), initial_delivery_count=0),
        "00 53 12 c0 18 0a a1 01 6c 43 42 40 40 00 53 28 c0 04 01 a1 01 71 00 53 29 45 40 40 43",
    ),
    (Flow(None, 10, 0, 10), "00 53 13 c0 07 04 40 52 0a 43 52 0a"),
    (
        Flow(1, 10, 0, 10, 0, 4, 100, drain=True),
        "00 53 13 c0 0f 09 52 01 52 0a 43 52 0a 43 52 04 52 64 40 41",
    ),
    (Transfer(0, 1, b"\1\2", 0, True), "00 53 14 c0 0a 05 43 52 01 a0 02 01 02 43 41"),
    (Transfer(3, more=True), "00 53 14 c0 08 06 52 03 40 40 40 40 41"),
    (Disposition(True, 1, 300, True, ACCEPTED), "00 53 15 c0 0e 05 41 52 01 70 00 00 01 2c 41 00 53 24 45"),
    (Detach(0, True), "00 53 16 c0 03 02 43 41"),
    (End(), "00 53 17 45"),
    (Close(Error("a:b", "c")), "00 53 18 c0 0f 01 00 53 1d c0 09 02 a3 03 61 3a 62 a1 01 63"),
    (SaslMechanisms(("PLAIN",)), "00 53 40 c0 0b 01 e0 08 01 a3 05 50 4c 41 49 4e"),
    (SaslMechanisms(("A", "B")), "00 53 40 c0 09 01 e0 06 02 a3 01 41 01 42"),
    (SaslInit("PLAIN", b""), "00 53 41 c0 0a 02 a3 05 50 4c 41 49 4e a0 00"),
    (SaslInit("PLAIN", None, "h"), "00 53 41 c0 0c 03 a3 05 50 4c 41 49 4e 40 a1 01 68"),
    (SaslChallenge(b"\0"), "00 53 42 c0 04 01 a0 01 00"),
    (SaslResponse(b""), "00 53 43 c0 03 01 a0 00"),
    (SaslOutcome(1), "00 53 44 c0 03 01 50 01"),
    (SaslOutcome(0, b"v=x"), "00 53 44 c0 08 02 50 00 a0 03 76 3d 78"),
]


@pytest.mark.parametrize(("performative", "digits"), EXAMPLES, ids=[repr(each)[:40] for each, _ in EXAMPLES])
def test_encoding(performative: Composite, digits: str) -> None:
    """The bytes are these, and they are read back as the same."""
    encoded = bytes.fromhex(digits)
    assert performative.encode() == encoded
    assert type(performative).decode(encoded) == performative


SAMPLES = {"string": "s", "uint": UInt(3), "boolean": True, "symbol": "s", "binary": b"b", "ubyte": 1}
OCTETS = {
    "string": b"\xa1\1s",
    "uint": b"\x52\3",
    "boolean": b"\x41",
    "symbol": b"\xa3\1s",
    "binary": b"\xa0\1b",
    "ubyte": b"\x50\1",
}
MANDATORY = [(kind, number) for kind in KINDS for number, each in enumerate(kind.fields) if each.mandatory]


@pytest.mark.parametrize(("kind", "number"), MANDATORY)
def test_mandatory(kind: type[Composite], number: int) -> None:
    """A mandatory field can be left out neither when written nor when read; the error names it."""
    values = {each.name: ("x",) if each.multiple else SAMPLES[each.type] for each in kind.fields if each.mandatory}
    missing = kind.fields[number]
    whole = kind(**values)
    assert kind.decode(whole.encode()) == whole
    with pytest.raises(EncodeError, match=missing.wire_name):
        kind(**values | {missing.name: () if missing.multiple else None}).encode()
    fields = [b"\x40"] * len(kind.fields)
    for index, each in enumerate(kind.fields):
        if each.mandatory and index != number:
            fields[index] = OCTETS[each.type]
    body = b"".join(fields)
    with pytest.raises(DecodeError, match=missing.wire_name):
        kind.decode(bytes((0, 0x53, kind.descriptor_code, 0xC0, len(body) + 1, len(fields))) + body)


@pytest.mark.spec("2.7.9", "the error of a close is an error")
@pytest.mark.parametrize("kind", [Detach, End, Close])
def test_error_is_an_error(kind: type[Composite]) -> None:
    """Another type in the place of the error is refused."""
    before = b"\x43\x41" if kind is Detach else b""
    body = before + ACCEPTED.encode()
    with pytest.raises(DecodeError, match="error"):
        kind.decode(bytes((0, 0x53, kind.descriptor_code, 0xC0, len(body) + 1, len(kind.fields))) + body)


def test_state_is_a_delivery_state() -> None:
    """A source in the place of a delivery state is refused."""
    body = b"\x41\x43\x40\x41" + Source("q").encode()
    with pytest.raises(DecodeError, match="state"):
        Disposition.decode(bytes((0, 0x53, 0x15, 0xC0, len(body) + 1, 5)) + body)
