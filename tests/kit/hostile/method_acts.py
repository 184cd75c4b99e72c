"""What a hostile peer of AMQP 0-9-1 and its kin may do on an open connection, and which reply code it gets for it.

Before each act channel 1 is open: at a broker for anything, at a client with a link that sends; there channel 2 has one
that receives.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from amqp10.dialects.v0_9.wire.framing import BODY, HEADER, HEARTBEAT, METHOD, OOB_METHOD
from amqp10.dialects.v0_9.wire.method_table import Method
from amqp10.dialects.v0_9.wire.methods import (
    BasicAck,
    BasicCancelOk,
    BasicConsume,
    BasicDeliver,
    BasicPublish,
    BasicQos,
    ChannelOpen,
    ConfirmSelect,
    ConnectionBlocked,
    ConnectionOpenOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
    ExchangeDeclare,
    QueueDeclareOk,
    TxCommit,
    TxSelect,
)
from amqp10.dialects.v0_9.wire.variant import Variant

FRAME_MAX = 131_072
FAR = 77
"""A channel that is not open."""

Octets = Callable[[Variant], bytes]
Level = Literal["connection", "channel"]


@dataclass(frozen=True)
class Act:
    """One act.

    Attributes:
        name: what it breaks.
        octets: what is written.
        code: the reply code that it gets.
        level: how far up; a fault of a channel leaves the connection alone.
        draft: the code in the draft, where it is another one; 0: the transport ends without a word.
        old: the code in 0-9 final and the draft.
    """

    name: str
    octets: Octets
    code: int
    level: Level = "connection"
    draft: int | None = None
    old: int | None = None

    def code_in(self, variant: Variant) -> int:
        if variant.structured and self.draft is not None:
            return self.draft
        return self.old if variant.name != "0-9-1" and self.old is not None else self.code


# Octets


def raw(kind: int, channel: int, payload: bytes) -> Octets:
    """A frame around any octets."""
    return lambda variant: variant.framing.frame(kind, channel, payload)


def said(channel: int, *methods: Method) -> Octets:
    """Methods in their frames."""
    return lambda variant: b"".join(
        variant.framing.frame(METHOD, channel, variant.methods.encode(method)) for method in methods
    )


def after(first: Octets, *more: Octets) -> Octets:
    return lambda variant: b"".join(each(variant) for each in (first, *more))


def beheaded(kind: int, channel: int, size: int) -> Octets:
    """The head of a frame of that size, and nothing of its payload."""
    return lambda variant: variant.framing.head.pack(kind, channel, size)


def unended(variant: Variant) -> bytes:
    return variant.framing.frame(METHOD, 1, variant.methods.encode(ConfirmSelect()))[:-1] + b"\x00"


def cut(method: Method, octets: int) -> Octets:
    """A method that ends early, its frame not."""
    return lambda variant: variant.framing.frame(METHOD, 1, variant.methods.encode(method)[:-octets])


def coded(method: type[Method], arguments: bytes, channel: int = 1) -> Octets:
    """A method with any octets for its arguments."""

    def octets(variant: Variant) -> bytes:
        number, index = variant.methods.code(method)
        return variant.framing.frame(METHOD, channel, struct.pack(">HH", number, index) + arguments)

    return octets


def table(fields: bytes) -> bytes:
    """An exchange.declare whose table is what it likes."""
    return b"\0\0\1e\6direct\0" + struct.pack(">I", len(fields)) + fields


def nested(depth: int, kind: bytes = b"F") -> bytes:
    """Tables, or arrays, inside each other."""
    value = b""
    for _ in range(depth):
        value = (b"\1a" if kind == b"F" else b"") + kind + struct.pack(">I", len(value)) + value
    return value if kind == b"F" else b"\1a" + value


def header(size: int, class_id: int = 60, weight: int = 0, properties: bytes = b"\0\0", channel: int = 1) -> Octets:
    """A content header."""
    return raw(HEADER, channel, struct.pack(">HHQ", class_id, weight, size) + properties)


BODY_FRAME = raw(BODY, 1, b"x")

# Frames, on whatever side
FRAMES = (
    Act("a frame that is too large", beheaded(METHOD, 1, FRAME_MAX + 1), 501),
    Act("a frame of 4 GiB", beheaded(METHOD, 1, 0xFFFF_FFFF), 501),
    Act("no end of a frame", unended, 0),
    Act("an unknown type of frame", raw(9, 0, b""), 0),
    Act("out of band", raw(OOB_METHOD, 1, b""), 0, draft=540),
    Act("a heartbeat on a channel", raw(HEARTBEAT, 1, b""), 501),
    Act("a header that nothing announced", header(1), 505, old=501),
    Act("a body that nothing announced", BODY_FRAME, 505, old=501),
    Act("content on channel 0", raw(HEADER, 0, b"\0\x3c" + bytes(12)), 504),
    Act("a body on channel 0", raw(BODY, 0, b"x"), 504),
    Act("a channel that is not open", said(FAR, ConfirmSelect()), 504),
    Act("a body on a channel that is not open", raw(BODY, FAR, b"x"), 504),
    Act("the class channel on channel 0", said(0, ChannelOpen()), 503),
    Act("the class connection on a channel", said(1, ConnectionTuneOk(1, 4096, 0)), 503),
    Act("an unknown class", raw(METHOD, 1, struct.pack(">HH", 999, 10)), 540),
    Act("an unknown method", raw(METHOD, 1, struct.pack(">HH", 60, 999)), 540),
    Act("an unknown method of connection", raw(METHOD, 0, struct.pack(">HH", 10, 999)), 540),
    Act("no method in its frame", raw(METHOD, 1, b""), 502),
    Act("half a method in its frame", raw(METHOD, 1, b"\0\x3c"), 502),
)  # fmt: skip

PUBLISH = said(1, BasicPublish(routing_key="q"))

# At a broker
AT_BROKER = (
    *FRAMES,
    Act("a method in the middle of content", after(PUBLISH, said(1, ConfirmSelect())), 505, old=501),
    Act("a method behind a header", after(PUBLISH, header(5), said(1, ConfirmSelect())), 505, old=501),
    Act("a body before its header", after(PUBLISH, BODY_FRAME), 505, old=501),
    Act("a header behind a header", after(PUBLISH, header(5), header(5)), 505, old=501),
    Act("a body longer than said", after(PUBLISH, header(5), raw(BODY, 1, b"123456")), 501),
    Act("content of another class", after(PUBLISH, header(0, class_id=70)), 501),
    Act("a weight that does not fit", after(PUBLISH, header(1, weight=1), BODY_FRAME), 501),
    Act("a header cut short", after(PUBLISH, raw(HEADER, 1, b"\0\x3c\0\0" + bytes(8))), 502),
    Act("a property that there is not", after(PUBLISH, header(0, properties=b"\0\2")), 502),
    Act("properties cut short", after(PUBLISH, header(0, properties=b"\x80\0\x09text")), 502),
    Act("octets behind the properties", after(PUBLISH, header(0, properties=b"\0\0more")), 502),
    Act("headers longer than they are", after(PUBLISH, header(0, properties=b"\x20\0\xff\xff\xff\xff")), 502),
    Act("a publish cut short", coded(BasicPublish, b"\0\0\7ex"), 502),
    Act("an ack cut short", coded(BasicAck, b"\0\0"), 502),
    Act("octets behind a method", coded(TxSelect, b"\0\0"), 502),
    Act("a method cut short", cut(ExchangeDeclare(exchange="e"), 2), 502),
    Act("a table of 4 GiB", coded(ExchangeDeclare, b"\0\0\1e\6direct\0\xff\xff\xff\xff"), 502),
    Act("an array of 4 GiB", coded(ExchangeDeclare, table(b"\1aA\xff\xff\xff\xff")), 502),
    Act("a string beyond its table", coded(ExchangeDeclare, table(b"\1aS\0\0\0\x09x")), 502),
    Act("an unknown type of field", coded(ExchangeDeclare, table(b"\1a?x")), 502),
    Act("tables nested 1,000 deep", coded(ExchangeDeclare, table(nested(1000))), 502),
    Act("arrays nested 1,000 deep", coded(ExchangeDeclare, table(nested(1000, b"A"))), 502),
    Act("a second start-ok", said(0, ConnectionStartOk({}, "PLAIN", b"", "en_US")), 503),
    Act("a second tune-ok", said(0, ConnectionTuneOk(1, 4096, 0)), 503),
    Act("an answer nobody asked for", said(1, QueueDeclareOk("q")), 503),
    Act("a delivery to the broker", said(1, BasicDeliver("c", 1, False, "", "q")), 503),
    Act("a channel above the limit", said(0xFFFF, ChannelOpen()), 504),
    Act("a channel that is open already", said(1, ChannelOpen()), 504),
    Act("immediate", said(1, BasicPublish(routing_key="q", immediate=True)), 540),
    Act("a prefetch in octets", said(1, BasicQos(prefetch_size=1)), 540),
    Act("a consumer's tag in use", said(1, *[BasicConsume(queue="q", consumer_tag="c")] * 2), 530),
    Act("an ack of nothing", said(1, BasicAck(7)), 406, "channel"),
    Act("a commit outside of transactions", said(1, TxCommit()), 406, "channel"),
    Act("confirms in transactions", said(1, TxSelect(), ConfirmSelect()), 406, "channel"),
    Act("a queue that is not there", said(1, BasicConsume(queue="nowhere")), 404, "channel"),
)  # fmt: skip

DELIVER = said(2, BasicDeliver("r", 1, False, "", "q"))

# At a client
AT_CLIENT = (
    *FRAMES,
    Act("a method in the middle of content", after(DELIVER, said(2, BasicCancelOk("r"))), 505, old=501),
    Act("a body before its header", after(DELIVER, raw(BODY, 2, b"x")), 505, old=501),
    Act("a body longer than said", after(DELIVER, header(1, channel=2), raw(BODY, 2, b"12")), 501),
    Act("content of another class", after(DELIVER, header(0, class_id=70, channel=2)), 501),
    Act("properties cut short", after(DELIVER, header(0, properties=b"\x80\0\x09text", channel=2)), 502),
    Act("a delivery without a route", after(coded(BasicDeliver, b"\1r" + bytes(8), 2), header(0, channel=2)), 502),
    Act("a delivery on who sends", said(1, BasicDeliver("r", 1, False, "", "q")), 503),
    Act("a confirm on who receives", said(2, BasicAck(1)), 503),
    Act("a request of a client's", said(1, ExchangeDeclare(exchange="e")), 503),
    Act("a second start", said(0, ConnectionStart()), 503),
    Act("a second tune", said(0, ConnectionTune(1, 4096, 0)), 503),
    Act("a second open-ok", said(0, ConnectionOpenOk()), 503),
    Act("blocked on a channel", raw(METHOD, 1, b"\0\x0a\0\x3c\0"), 503, draft=502),  # there it is a close
    Act("an ack cut short", coded(BasicAck, b"\0\0"), 502),
    Act("a confirm of what was not published", said(1, BasicAck(7)), 406, "channel"),
)  # fmt: skip

BLOCKED = said(0, ConnectionBlocked("memory"))
