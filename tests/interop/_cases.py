"""What is sent to every peer: bodies of all kinds, values of all types, and how to tell that they came back whole."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from amqp10 import (
    AmqpSequence,
    AmqpValue,
    Array,
    Byte,
    Char,
    Connection,
    Data,
    Decimal32,
    Decimal64,
    Decimal128,
    Described,
    Float,
    Int,
    Message,
    Short,
    Symbol,
    UByte,
    UInt,
    ULong,
    UShort,
)

MOMENT = datetime(2024, 2, 29, 12, 34, 56, 789000, tzinfo=UTC)

# Every primitive type (§1.6), at its ends where it has some.
PRIMITIVES: dict[str, Any] = {
    "null": None,
    "true": True,
    "false": False,
    "ubyte": UByte(255),
    "ushort": UShort(65535),
    "uint": UInt(2**32 - 1),
    "uint0": UInt(0),
    "ulong": ULong(2**64 - 1),
    "ulong0": ULong(0),
    "byte": Byte(-128),
    "short": Short(-32768),
    "int": Int(-(2**31)),
    "long": -(2**63),
    "smalllong": -1,
    "float": Float(1.5),
    "double": 0.1,
    "decimal32": Decimal32("1.5"),
    "decimal64": Decimal64("-12.25"),
    "decimal128": Decimal128("1234567890.123456789"),
    "char": Char("\N{SNOWMAN}"),
    "timestamp": MOMENT,
    "uuid": uuid.UUID("12345678-1234-5678-1234-567812345678"),
    "binary": bytes(range(256)),
    "binary-long": b"x" * 300,
    "string": "gr\N{LATIN SMALL LETTER U WITH DIAERESIS}n",
    "string-long": "y" * 300,
    "symbol": Symbol("a-symbol"),
}

# All kinds of bodies (§3.2.6-8).
BODIES: dict[str, Any] = {
    "bytes": b"payload",
    "bytes-empty": b"",
    "str": "text",
    "str-empty": "",
    "none": None,
    "list": [1, "two", None, [UInt(3)]],
    "map": {"a": 1, "b": {"c": [b"x"]}, Symbol("s"): UByte(1)},
    "array": Array("int", [Int(1), Int(2), Int(3)]),
    "described": Described(Symbol("example:point"), [1.5, 2.5]),
    "value-of-bytes": AmqpValue(b"a value, not a data section"),
    "data-sections": Data(b"one", b"", b"three"),
    "sequence": AmqpSequence([1, "two", {"three": 3}]),
    "sequences": AmqpSequence([1], [], ["three"]),
    **{f"primitive-{name}": value if name != "binary" else AmqpValue(value) for name, value in PRIMITIVES.items()},
}


# All fields that a broker has to leave as they are.
KEPT: dict[str, Any] = {
    "durable": True,
    "priority": 7,
    "message_id": "message-1",
    "user_id": b"user",
    "subject": "a subject",
    "reply_to": "replies",
    "correlation_id": uuid.UUID(int=7),
    "content_type": Symbol("text/plain"),
    "content_encoding": Symbol("identity"),
    "absolute_expiry_time": datetime(2100, 1, 1, tzinfo=UTC),
    "creation_time": MOMENT,
    "group_id": "group",
    "group_sequence": 2**32 - 4,
    "reply_to_group_id": "other",
    "application_properties": {"n": 1, "text": "x"},
    "footer": {Symbol("x-opt-foot"): b"end"},
}
# Fields that it may change or add to: it counts the time to live down, and annotates.
ANNOTATION = {Symbol("x-opt-test"): [1, {"deep": Symbol("s")}]}


def everything(**changes: Any) -> Message:
    """A message that has all sections and fields, but `to`, by which a broker might route."""
    fields = {**KEPT, "ttl": timedelta(hours=1), "message_annotations": dict(ANNOTATION), **changes}
    return Message(b"body", **fields)


def same(one: Any, other: Any) -> bool:
    """Equal in value and in type, all the way down."""
    if type(one) is not type(other):
        return False
    if isinstance(one, Mapping):
        return len(one) == len(other) and all(
            same(a, b) and same(one[a], other[b]) for a, b in zip(one, other, strict=True)
        )
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, Data | AmqpSequence):
        return same(one.parts, other.parts)
    if isinstance(one, Decimal):
        return str(one) == str(other)
    return bool(one == other)


def body_of(size: int) -> bytes:
    """So many bytes, no two stretches of which are alike."""
    line = b"".join(number.to_bytes(4, "big") for number in range(min(size // 4 + 1, 65536)))
    return (line * (size // len(line) + 1))[:size]


async def exchange(connection: Connection, address: str, *messages: Any, credit: int = 100) -> list[Message]:
    """Send them, then receive and accept as many."""
    async with connection.sender(address) as sender:
        await sender.send_many(messages)
    received = []
    async with connection.receiver(address, credit=min(credit, len(messages))) as receiver:
        for _ in messages:
            with await receiver.receive() as message:
                received.append(message)
    return received
