"""What messages come to, made and mutated by chance: the same by the plain code and by the compiled part.

    PYTHONPATH=... python tests/kit/differential.py --count 1000              a line of a message: its checksum
    PYTHONPATH=... python tests/kit/differential.py --begin 17 --count 1 --show   what that message comes to

It runs once with each installation, and the lines are compared (tests/test_compiled.py). The chance of each message is
its own, so that one that differs can be looked at alone. Most messages are malformed. At its end the program sees that
reading and writing kept nothing: no object, no reference to those that are always there, no memory.
"""

from __future__ import annotations

import argparse
import gc
import random
import sys
from collections import OrderedDict
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID
from zlib import crc32
from zoneinfo import ZoneInfo

from amqp10 import AmqpSequence, AmqpValue, Data, Message
from amqp10.errors import DecodeError, EncodeError
from amqp10.types import (
    Array,
    Byte,
    Char,
    Decimal32,
    Described,
    Float,
    Int,
    Map,
    Short,
    Symbol,
    Timestamp,
    UByte,
    UInt,
    ULong,
    UShort,
)


class Color(StrEnum):
    RED = "red"


class Text(str):
    __slots__ = ()


class Number(int):
    __slots__ = ()


class Nothing:
    def __repr__(self) -> str:
        return "Nothing()"


_EAST = timezone(timedelta(hours=9))
_FIRST, _LAST = datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, 999_999, UTC)
_MOMENTS = (_FIRST, _LAST, datetime(2026, 1, 1, 5, tzinfo=_EAST), datetime(1, 1, 1, tzinfo=_EAST), datetime(2026, 1, 1))
_WHOLE = (0, 1, -1, 4, 127, 128, -128, -129, 255, 256, 2**31 - 1, 2**31, -(2**31), 2**32 - 1, 2**32, 2**40)
_WIDE = (2**63 - 1, 2**63, -(2**63), -(2**63) - 1, 2**64 - 1, 2**64, 10**30)
_TEXTS = ("", "a", "Zoë", "\N{SNOWMAN}" * 90, "x" * 255, "x" * 256, "\ud800", "x" * 70, "region", "a\0b")
_ODD: tuple[Any, ...] = (
    *(Text("t"), Color.RED, Number(7), Nothing(), 1j, Decimal("1.5"), Float(0.5), Float("nan"), Char("c"), {1}),
    *(Timestamp(2**60), Array("uint", [1, 2]), Map([(UInt(1), 1), (Int(1), 2)]), (1, "x"), bytearray(b"ab")),
    *(memoryview(b"cd"), Described(Symbol("x:y"), [1]), OrderedDict(a=1), UInt(2**32), UByte(-1), Short(2**15)),
    *({True: 1}, {None: 1}, {b"k": 1}, {2.5: 1}, {(1, 2): 3}, {"x" * 300: 1}, {Symbol("é"): 1}, [[[[[[]]]]]]),
    *(Decimal32("1.5"), Decimal("NaN"), Array("string", ["a", "é"]), Array("list", [[1], []]), Array("null", [None])),
    *({ULong(5): 1, "a": 2}, dict.fromkeys(range(70), 1), [[[[[[[[[[{"a": 1.5}]]]]]]]]]], {1: Decimal(1), UInt(2): 2}),
    *(datetime(2026, 1, 1, tzinfo=ZoneInfo("UTC")), Described(ULong(5), Described(Symbol("a"), Decimal(2)))),
    *(UShort(2**16), Byte(128), Int(2**31), ULong(2**64), UInt(-1), {str(n): n for n in range(70)}, Symbol("é")),
)


def simple(chance: random.Random) -> Any:
    """Return a value of a simple type, most often one that can be encoded."""
    made: tuple[Callable[[], Any], ...] = (
        lambda: chance.choice(_TEXTS),
        lambda: f"text {chance.randrange(1000)}",
        lambda: chance.choice(_WHOLE),
        lambda: chance.randrange(-(10**12), 10**12),
        lambda: chance.choice((0.0, -0.0, 2.5, float("inf"), float("nan"), chance.random())),
        lambda: chance.choice((True, False, None)),
        lambda: datetime(2026, 1, 1, tzinfo=UTC) + timedelta(microseconds=chance.randrange(-(10**15), 10**15)),
        lambda: UUID(int=chance.getrandbits(128)),
        lambda: chance.randbytes(chance.choice((0, 3, 255, 256))),
        lambda: Symbol(chance.choice(("s", "x-opt-a", "y" * 70, ""))),
        lambda: chance.choice((UInt, ULong, UShort, UByte))(chance.choice((0, 1, 200, 255))),
        lambda: chance.choice((Int, Short, Byte))(chance.choice((0, 1, -1, 127, -128))),
        lambda: chance.choice((UInt(2**32 - 1), ULong(2**64 - 1), Int(-(2**31)), Short(-300), UShort(60_000))),
        lambda: chance.choice(_WIDE),
        lambda: chance.choice(_MOMENTS),
        lambda: Described(Symbol("com.microsoft:timespan"), chance.choice(_WHOLE)),
    )
    number = chance.randrange(len(made) + 3)
    if number == len(made):
        return chance.choice(_ODD)
    return made[number if number < len(made) else 1]()


def value(chance: random.Random, levels: int = 3) -> Any:
    """Return any value."""
    kind = chance.random()
    if kind < 0.06:
        return chance.choice(_ODD)
    if levels and kind < 0.15:
        return [value(chance, levels - 1) for _ in range(chance.randrange(4))]
    if levels and kind < 0.3:
        return {key(chance): value(chance, levels - 1) for _ in range(chance.choice((0, 1, 2, 3, 20)))}
    return simple(chance)


def key(chance: random.Random) -> Any:
    if chance.random() < 0.05:
        return chance.choice(("\ud800", "é", "k" * 70, "k" * 256, 5, ULong(5), Symbol("s"), Text("t"), None, -1))
    return f"key {chance.randrange(40)}"


def entries(chance: random.Random, one: Callable[[random.Random], Any]) -> Any:
    if chance.random() < 0.02:
        return chance.choice((None, 5, OrderedDict(a=1), [], {"a": object}, {Symbol("s"): 1}))
    return {key(chance): one(chance) for _ in range(chance.choice((0, 1, 2, 6, 70) if chance.random() < 0.3 else (3,)))}


def makers(chance: random.Random) -> dict[str, Callable[[], Any]]:
    """Return what makes a value of each field of a message."""

    def text() -> Any:
        return chance.choice(_TEXTS) if chance.random() < 0.3 else f"text {chance.randrange(50)}"

    def moment() -> Any:
        usual = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(milliseconds=chance.randrange(10**10))
        return usual if chance.random() < 0.9 else chance.choice(_MOMENTS)

    micros = (0, 1, 1000, 10**12, 2**32 * 1000, -1, 2**32 * 1000 - 1000)
    return {
        "durable": lambda: chance.choice((True, False, None)),
        "priority": lambda: chance.choice((0, 4, 9, 255, 256, -1, True, UByte(4))),
        "ttl": lambda: timedelta(microseconds=chance.choice(micros)),
        "first_acquirer": lambda: chance.choice((True, False)),
        "delivery_count": lambda: chance.choice((0, 1, 255, 256, 2**32 - 1, 2**32, -1)),
        "delivery_annotations": lambda: entries(chance, value),
        "message_annotations": lambda: entries(chance, value),
        "message_id": lambda: simple(chance),
        "user_id": lambda: chance.randbytes(4),
        **dict.fromkeys(("to", "subject", "reply_to", "group_id", "reply_to_group_id"), text),
        "correlation_id": lambda: chance.choice((5, 2**64 - 1, "id", b"id", UUID(int=3), ULong(300))),
        "content_type": lambda: chance.choice(("application/json", Symbol("text/plain"), "é", Color.RED)),
        "content_encoding": lambda: "gzip",
        "absolute_expiry_time": moment,
        "creation_time": moment,
        "group_sequence": lambda: chance.choice((0, 1, 256, 2**32 - 1, 2**32, -1)),
        "application_properties": lambda: entries(chance, value if chance.random() < 0.1 else simple),
        "footer": lambda: entries(chance, value),
    }


def fields(chance: random.Random) -> dict[str, Any]:
    """Return arguments of `Message`."""
    makes = makers(chance)
    names = chance.sample(list(makes), chance.randrange(8))
    made = {name: makes[name]() for name in names}
    if names and chance.random() < 0.05:
        made[names[0]] = chance.choice(_ODD)
    return made


def body(chance: random.Random) -> Any:
    kind = chance.randrange(12)
    if kind < 4:
        return chance.randbytes(chance.choice((0, 1, 100, 255, 256, 5000)))
    if kind < 9:
        return value(chance)
    return chance.choice((Data(b"a", b"b"), AmqpSequence([1], ["x"]), AmqpValue(b"x"), AmqpValue({"a": 1}), None))


_CODES = (0, 0x40, 0x41, 0x43, 0x45, 0x50, 0x53, 0x55, 0x56, 0x80, 0x81, 0x83, 0x98, 0xA0, 0xA1, 0xA3, 0xB1, 0xC0, 0xC1)


def mutated(chance: random.Random, payload: bytes) -> bytes:
    """Change, cut, or repeat some octets; now and then none."""
    octets = bytearray(payload)
    for _ in range(chance.choice((0, 1, 1, 1, 2, 3))):
        at = chance.randrange(len(octets) + 1)
        size = chance.choice((1, 1, 2, 8))
        how = chance.randrange(8)
        if how < 4 and at < len(octets):
            octets[at] = chance.choice(
                (*_CODES, chance.randrange(256), (octets[at] + 1) & 0xFF, (octets[at] - 1) & 0xFF)
            )
        elif how == 4:
            del octets[at : at + size]
        elif how == 5:
            octets[at:at] = chance.choice((bytes((chance.choice(_CODES),)), chance.randbytes(size), octets[:size]))
        elif how == 6:
            del octets[at:]
        else:
            octets += octets[at:]
    return bytes(octets)


def attempt(what: Callable[[], Any]) -> Any:
    """Return what it gives, or the error in its words."""
    try:
        return shown(what())
    except (DecodeError, EncodeError, TypeError, ValueError) as error:
        return f"{type(error).__name__}: {error}"


def shown(thing: Any) -> str:
    """Return a text that tells values apart, and their types."""
    if isinstance(thing, dict):
        inner = ", ".join(f"{shown(key)}: {shown(each)}" for key, each in thing.items())
    elif isinstance(thing, list | tuple | Data | AmqpSequence):
        inner = ", ".join(map(shown, thing))
    elif isinstance(thing, AmqpValue):
        inner = shown(thing.value)
    elif isinstance(thing, Described):
        inner = f"{shown(thing.descriptor)}, {shown(thing.value)}"
    else:
        return f"{type(thing).__name__} {thing!r}"
    return f"{type(thing).__name__}({inner})"


def outcome(seed: int, number: int) -> str:
    """Return all that one message comes to: encoded, and decoded after a mutation, by fields in any order."""
    chance = random.Random(f"{seed} {number}")
    arguments, content = fields(chance), body(chance)
    told = [attempt(lambda: Message(content, **arguments).encode())]
    try:
        payload = Message(content, **arguments).encode()
    except EncodeError:
        payload = Message({"a": 1}, subject="s", message_annotations={"b": 2}, application_properties={"c": 3}).encode()
    if chance.random() < 0.1:
        payload = b"\0\x53\x70\x45" + payload  # the header of qpid-proton: an empty list
    octets = mutated(chance, payload)
    names = [*makers(chance), "body"]
    chance.shuffle(names)
    message = Message.decode(octets)
    if chance.random() < 0.2:
        told.append(attempt(message.check))
    told += [attempt(partial(getattr, message, name)) for name in names[: chance.randrange(len(names) + 1)]]
    told.append(attempt(message.check))
    told.append(attempt(message.encode))
    if chance.random() < 0.5:
        changed = names[0]
        new = body(chance) if changed == "body" else fields(chance).get(changed)
        other = attempt(lambda: message.replace(**{changed: new}).encode())
        setattr(message, changed, new)
        told += [other, attempt(message.encode), attempt(message.encode_head), attempt(lambda: message.subject)]
    return "\n".join(told)


def memory() -> int:
    """Return the resident memory in KiB, where the system tells it."""
    status = Path("/proc/self/status")
    return int(status.read_text().split("VmRSS:")[1].split()[0]) if status.exists() else 0


ALWAYS = (None, True, False, UTC, UUID, 0, "")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--begin", type=int, default=0)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--show", action="store_true", help="print what they come to, and no checksums")
    given = parser.parse_args()
    numbers = range(given.begin, given.begin + given.count)
    warm = numbers[len(numbers) // 2] if numbers else 0
    before: tuple[Any, ...] = ()
    for number in numbers:
        if number == warm:
            gc.collect()
            before = sys.getallocatedblocks(), memory(), [sys.getrefcount(each) for each in ALWAYS]
        told = outcome(given.seed, number)
        print(told if given.show else f"{crc32(told.encode('utf-8', 'backslashreplace')):08x}")
    if given.count < 1000:
        return
    del told
    gc.collect()
    after = sys.getallocatedblocks(), memory(), [sys.getrefcount(each) for each in ALWAYS]
    # Tables of keys, shapes and symbols fill; they are bounded.
    assert after[0] - before[0] < 20_000, f"{after[0] - before[0]} blocks are kept"
    assert after[1] - before[1] < 20_000, f"{after[1] - before[1]} KiB are kept"
    kept = [one - other for one, other in zip(after[2], before[2], strict=True)]
    assert all(abs(each) < 5_000 for each in kept), f"references are kept: {kept}"


if __name__ == "__main__":
    main()
