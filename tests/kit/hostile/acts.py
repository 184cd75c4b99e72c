"""What a hostile peer may do on a connection with a session and two links, and what it gets for it.

Before each act there are: channel 0 with a session, handle 0 on which the hostile peer sends, with a credit of 10 and a
window of 16 transfers, and handle 1 on which it receives. Both a client and a broker are treated so.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

from amqp10.dialects.v1_0.wire.frames import encode_frame, encode_sasl_frame
from amqp10.messaging import Source, Target
from amqp10.testing import (
    Attach,
    Begin,
    Close,
    Detach,
    Disposition,
    End,
    Flow,
    Open,
    SaslInit,
    Transfer,
)
from amqp10.types import Composite

CREDIT = 10
WINDOW = 16
CHANNEL_MAX = 7
HANDLE_MAX = 7
MAX_FRAME = 16_384
MAX_MESSAGE = 20_000

NOTHING = b"\x00\x53\x77\x40"  # an amqp-value section with null


def frame(performative: Composite, payload: bytes = b"", channel: int = 0) -> bytes:
    """An AMQP frame."""
    return encode_frame(channel, performative, payload)


def raw(body: bytes, kind: int = 0, offset: int = 2, channel: int = 0) -> bytes:
    """A frame around any bytes."""
    return struct.pack(">IBBH", 8 + len(body), offset, kind, channel) + body


def transfer(number: int, **fields: Any) -> bytes:
    """A message of one frame on the link with credit."""
    return frame(Transfer(**{"handle": 0, "delivery_id": number, "delivery_tag": b"%d" % number, **fields}), NOTHING)


def more(**fields: Any) -> bytes:
    """3,000 bytes more of a message whose end does not come."""
    return frame(Transfer(**{"handle": 0, "more": True, **fields}), b"x" * 3000)


def flow(**fields: Any) -> bytes:
    """A flow of the session."""
    said: dict[str, Any] = {"next_incoming_id": 0, "incoming_window": 10, "next_outgoing_id": 0, "outgoing_window": 10}
    return frame(Flow(**{**said, **fields}))


@dataclass(frozen=True)
class Act:
    """One act.

    Attributes:
        name: what it breaks.
        data: what is written.
        answer: how far up the fault is answered: a detach, an end or a close.
        condition: with what words.
        first: an orderly answer to the orderly part of it, which comes before.
    """

    name: str
    data: bytes
    answer: type[Detach | End | Close]
    condition: str
    first: tuple[type[Detach | End], ...] = ()


BEGIN = Begin(next_outgoing_id=0, incoming_window=1, outgoing_window=1)


def u32(number: int) -> bytes:
    """Four octets."""
    return struct.pack(">I", number)


ARRAY_BOMB = u32(5) + u32(0x7FFFFFFF) + b"\x40"


def nested(depth: int) -> bytes:
    """Lists inside lists."""
    value = b"\x45"
    for _ in range(depth):
        value = b"\xd0" + struct.pack(">II", 4 + len(value), 1) + value
    return value


_LINK = "amqp:link:"
_SESSION = "amqp:session:"
_FRAMING = "amqp:connection:framing-error"
_ILLEGAL = "amqp:illegal-state"
_DECODE = "amqp:decode-error"
_INVALID = "amqp:invalid-field"
_NOT_ALLOWED = "amqp:not-allowed"

ACTS = (
    # Links
    Act("no credit", b"".join(map(transfer, range(CREDIT + 1))), Detach, _LINK + "transfer-limit-exceeded"),
    Act("no delivery-id", transfer(0, delivery_id=None), Detach, _INVALID),
    Act("no delivery-tag", transfer(0, delivery_tag=None), Detach, _INVALID),
    Act("delivery-tag in use", transfer(0) + transfer(1, delivery_tag=b"0"), Detach, _INVALID),
    Act("a new delivery within another", transfer(0, more=True) + transfer(1), Detach, _INVALID),
    Act("another delivery-id within a delivery", transfer(0, more=True) + more(delivery_id=7), Detach, _INVALID),
    Act("another message-format within a delivery", transfer(0, more=True) + more(message_format=7), Detach, _INVALID),
    Act("a message without end", transfer(0, more=True) + more() * 7, Detach, _LINK + "message-size-exceeded"),
    # Sessions
    Act("unknown handle", transfer(0, handle=5), End, _SESSION + "unattached-handle"),
    Act("flow for an unknown handle", flow(handle=5), End, _SESSION + "unattached-handle"),
    Act("detach of an unknown handle", frame(Detach(handle=5)), End, _SESSION + "unattached-handle"),
    Act("delivery-ids with a gap", transfer(0) + transfer(5), End, _INVALID),
    Act("delivery-id again", transfer(0) + transfer(0, delivery_tag=b"other"), End, _INVALID),
    Act("transfer after detach", frame(Detach(handle=0)) + transfer(0), End, _SESSION + "unattached-handle", (Detach,)),
    Act("transfer on our sender", transfer(0, handle=1), End, _NOT_ALLOWED),
    Act("a window beyond what was sent", flow(next_incoming_id=1000), End, _SESSION + "window-violation"),
    Act(
        "handle in use",
        frame(Attach(name="x", handle=0, role=True, source=Source("q"), target=Target("q"))),
        End,
        _SESSION + "handle-in-use",
    ),
    Act(
        "a sender without delivery-count",
        frame(Attach(name="x", handle=3, role=False, source=Source("q"), target=Target("q"))),
        End,
        _INVALID,
    ),
    Act(
        "a settle mode that is not there",
        frame(Attach(name="x", handle=3, role=True, snd_settle_mode=3, source=Source("q"), target=Target("q"))),
        End,
        _INVALID,
    ),
    Act("a range backwards", frame(Disposition(role=True, first=5, last=4, settled=True)), End, _INVALID),
    Act(
        "an unsettled map with keys that are no tags",
        frame(
            Attach(
                name="x",
                handle=3,
                role=True,
                source=Source("q"),
                target=Target("q"),
                unsettled={"text": None},
            )
        ),
        End,
        _INVALID,
    ),
    # Connections
    Act("handle above the limit", frame(Attach(name="x", handle=HANDLE_MAX + 1, role=True)), Close, _FRAMING),
    Act("channel above the limit", frame(BEGIN, channel=CHANNEL_MAX + 1), Close, _FRAMING),
    Act("a channel without session", frame(Detach(handle=0), channel=5), Close, _NOT_ALLOWED),
    Act("end of a channel without session", frame(End(), channel=5), Close, _NOT_ALLOWED),
    Act("begin again", frame(BEGIN), Close, _ILLEGAL),
    Act("transfer after end", frame(End()) + transfer(0), Close, _NOT_ALLOWED, (End,)),
    Act("an answer to no begin", frame(Begin(6, 0, 1, 1), channel=6), Close, _INVALID),
    Act("open again", frame(Open(container_id="again")), Close, _ILLEGAL),
    Act("SASL within AMQP", encode_sasl_frame(SaslInit(mechanism="ANONYMOUS")), Close, _FRAMING),
    Act("frame type 7", raw(b"\x00\x53\x14", kind=7), Close, _FRAMING),
    Act("frame too large", struct.pack(">IBBH", MAX_FRAME + 1, 2, 0, 0), Close, _FRAMING),
    Act("frame of 4 GiB", struct.pack(">IBBH", 0xFFFFFFFF, 2, 0, 0), Close, _FRAMING),
    Act("frame smaller than its header", struct.pack(">IBBH", 4, 2, 0, 0), Close, _FRAMING),
    Act("data offset beyond the frame", struct.pack(">IBBH", 8, 9, 0, 0), Close, _FRAMING),
    Act("data offset within the header", struct.pack(">IBBH", 8, 1, 0, 0), Close, _FRAMING),
    # Encoding
    Act("unknown performative", raw(b"\x00\x53\x99\x45"), Close, _DECODE),
    Act("no performative", raw(b"\x71\x00\x00\x00\x00"), Close, _DECODE),
    Act("list cut short", raw(b"\x00\x53\x13\xc0\xff\x05"), Close, _DECODE),
    Act("list of 2^32", raw(b"\x00\x53\x13\xd0" + u32(8) + u32(0xFFFFFFFF) + b"\x40" * 4), Close, _DECODE),
    Act("array of 2^31 nulls", raw(b"\x00\x53\x17\xd0" + u32(14) + u32(1) + b"\xf0" + ARRAY_BOMB), Close, _DECODE),
    Act("map of 2^31", raw(b"\x00\x53\x17\xd0" + u32(13) + u32(1) + b"\xd1" + u32(4) + u32(1 << 31)), Close, _DECODE),
    Act("nested 1,000 deep", raw(b"\x00\x53\x17" + nested(1000)), Close, _DECODE),
    Act("unknown constructor", raw(b"\x00\x53\x11\xc0\x03\x01\x3f\x00"), Close, _DECODE),
    Act("text that is no UTF-8", raw(b"\x00\x53\x10\xc0\x05\x01\xa1\x02\xff\xfe"), Close, _DECODE),
    Act("too many fields", raw(b"\x00\x53\x17\xc0\x04\x03\x40\x40\x40"), Close, _DECODE),
    Act("wrong type of a field", raw(b"\x00\x53\x16\xc0\x04\x01\xa1\x01x"), Close, _DECODE),
    Act("a delivery-state that is text", raw(b"\x00\x53\x15\xc0\x0a\x05\x41\x43\x43\x41\xa1\x03foo"), Close, _DECODE),
    Act("an open for a state", raw(b"\x00\x53\x15\xc0\x09\x05\x41\x43\x43\x41\x00\x53\x10\x45"), Close, _DECODE),
    Act("bytes behind a performative", raw(b"\x00\x53\x17\x45\x00\x00"), Close, _DECODE),
)  # fmt: skip

# What a peer may say, and what costs as little as it changes.
HARMLESS = {
    "dispositions of 2^31 deliveries": frame(Disposition(role=True, first=0, last=0x7FFFFFFF, settled=True)) * 100,
    "dispositions of what was never sent": b"".join(
        frame(Disposition(role=True, first=n * 1000, last=n * 1000 + 999, settled=True)) for n in range(2000)
    ),
    "settlements of what never came": frame(Disposition(role=False, first=0, last=0x7FFFFFFF, settled=True)) * 100,
    "all the credit there is": frame(
        Flow(
            next_incoming_id=0,
            incoming_window=0xFFFFFFFF,
            next_outgoing_id=0,
            outgoing_window=0,
            handle=1,
            delivery_count=0,
            link_credit=0xFFFFFFFF,
        )
    ),
    "a delivery-tag that is too long": transfer(0, delivery_tag=b"t" * 200),
    "a delivery that is aborted at once": transfer(0, aborted=True),
    "resuming what was never begun": transfer(0, resume=True) + transfer(1, resume=True, settled=True),
    "questions": flow(echo=True) * 2000,
    "empty frames": raw(b"") * 20_000,
    "a map as large as a frame": flow(handle=1, properties={f"key {n}": None for n in range(300)}),
}
