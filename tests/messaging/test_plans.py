"""Fields and maps are written alike by what is known of others like them, and by nothing but their types."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from enum import StrEnum
from typing import Any
from uuid import UUID

import pytest

from amqp10 import Message
from amqp10.errors import EncodeError
from amqp10.messaging import _message
from amqp10.messaging.sections import MAPS, PROPERTIES_FIELDS
from amqp10.types import Char, Float, Int, Symbol, UByte, UInt, ULong, decode, encode
from amqp10.types.codec import WRITERS, close_compound

from ..kit.inside.codec import encoding, writing_plans


class Color(StrEnum):
    RED = "red"


NAIVE = datetime(2026, 1, 1)
LOCAL = datetime(2026, 1, 1, 3, 4, 5, 678_901, timezone(timedelta(hours=5)))
VALUES: tuple[Any, ...] = (
    *(
        None,
        True,
        False,
        0,
        1,
        127,
        128,
        -128,
        -129,
        2**63 - 1,
        -(2**63),
        2**63,
        1.5,
        float("inf"),
        "",
        "text",
        "é" * 128,
    ),
    *(
        "x" * 255,
        "x" * 256,
        "\ud800",
        Symbol("symbol"),
        Symbol("é"),
        Char("c"),
        Color.RED,
        b"",
        b"x" * 300,
        bytearray(b"y"),
    ),
    *(UUID(int=7), LOCAL, datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC), NAIVE, UInt(5), ULong(2**70), UByte(300)),
    *(Int(-5), Float(2.5), Decimal("1.25"), [1, "a"], {"in": {"side": 1}}, ("t",), {1, 2}, object, memoryview(b"view")),
)
KEYS: tuple[Any, ...] = (
    "a",
    "b",
    "key",
    Symbol("a"),
    Symbol("b"),
    1,
    True,
    2,
    "k" * 100,
    "é",
    Color.RED,
    b"a",
    None,
    1.0,
)


USUAL: tuple[Any, ...] = (None, True, 128, 1.5, "text", b"", Symbol("symbol"), UUID(int=7), LOCAL, UInt(5))


def outcome(write: Callable[[bytearray, Any], None], value: Any) -> str:
    """Return what is written, or what is wrong."""
    out = bytearray(b"before")
    try:
        write(out, value)
    except EncodeError as error:
        return f"EncodeError: {error}"
    return out.hex()


def write_plainly(out: bytearray, value: dict[Any, Any]) -> None:
    """Write a map by the writers of its types alone."""
    start = len(out)
    out += b"\xc1\0\0"
    for key, item in value.items():
        WRITERS[type(key)](out, key)
        (write_plainly if type(item) is dict else WRITERS[type(item)])(out, item)
    close_compound(out, start, 2 * len(value))


def test_maps() -> None:
    """Whatever the keys and values, and whatever keys are known: the same octets, or the same error."""
    chance = random.Random(3)
    failed = 0
    for _ in range(3_000):
        value = {chance.choice(KEYS): chance.choice(VALUES) for _ in range(chance.randrange(4))}
        written = outcome(encoding.write_map, value)
        assert written == outcome(write_plainly, value), value
        failed += written.startswith("EncodeError")
    assert 100 < failed < 2_900


def test_properties() -> None:
    """Whatever the fields, and in whatever order: the same octets, or the same error."""
    chance = random.Random(5)
    names = [*PROPERTIES_FIELDS.defaults, "body", "durable", "application_properties"]
    failed = 0
    for _ in range(3_000):
        chance.shuffle(names)
        fields = {name: chance.choice(VALUES) for name in names[: chance.randrange(5)]}
        written = outcome(PROPERTIES_FIELDS.write, fields)
        assert written == outcome(PROPERTIES_FIELDS._write_by_field, fields), fields
        failed += written.startswith("EncodeError")
    assert 100 < failed < 2_900


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Have a writer made for each kind of maps that comes for the third time, none known at first, none compiled."""
    monkeypatch.setattr(encoding, "fast", None)
    monkeypatch.setattr(_message, "fast", None)
    monkeypatch.setattr(writing_plans, "_BEFORE", 2)
    monkeypatch.setattr(writing_plans, "_WRITTEN_AT_ONCE", 1 << 30)
    for plans in PLANS:
        plans.clear()
    yield
    for plans in PLANS:
        plans.clear()


PLANS = (encoding.map_plans, PROPERTIES_FIELDS.plans, *(section.plans for section in MAPS.values()))


@pytest.mark.usefixtures("quick")
def test_maps_of_a_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Maps of the same keys, whatever their values are: the same octets, or the same error, as without plans."""
    chance = random.Random(13)
    writers: list[Callable[[bytearray, Any], None]] = [encoding.write_map, *(each.write for each in MAPS.values())]
    failed = 0
    for _ in range(60):
        odd = chance.random() < 0.3
        keys = chance.sample(KEYS, chance.choice((3, 4, 6))) if odd else ["a", "key", chance.choice(("b", Symbol("b")))]
        usual = {key: chance.choice(VALUES if odd else USUAL) for key in keys}
        for _ in range(15):
            value = {key: like(chance, each) for key, each in usual.items()}
            if chance.random() < 0.3:
                value[chance.choice(keys)] = chance.choice(VALUES)
            for write in writers:
                written = outcome(write, value)
                with monkeypatch.context() as plain:
                    plain.setattr(writing_plans.Plans, "write", lambda *_: False)
                    assert written == outcome(write, value), value
                failed += written.startswith("EncodeError")
    assert 1_000 < failed < 4_400
    assert all(plans.count for plans in PLANS if plans is not PROPERTIES_FIELDS.plans)


@pytest.mark.usefixtures("quick")
def test_properties_of_a_kind() -> None:
    """Messages of the same fields, whatever their values are: the same octets, or the same error, as without plans."""
    chance = random.Random(17)
    names = [*PROPERTIES_FIELDS.defaults, "body", "durable", "application_properties"]
    failed = 0
    for _ in range(300):
        usual = {name: chance.choice(VALUES) for name in chance.sample(names, chance.randrange(6))}
        for _ in range(6):
            fields = {name: like(chance, each) for name, each in usual.items()}
            written = outcome(PROPERTIES_FIELDS.write, fields)
            assert written == outcome(PROPERTIES_FIELDS._write_by_field, fields), fields
            failed += written.startswith("EncodeError")
    assert 100 < failed < 1_700
    assert PROPERTIES_FIELDS.plans.count > 10


def test_long_and_short_properties() -> None:
    """Fields that come often, with as many octets as fit into a short list, and one more."""
    for size in (*range(240, 260), 300, 65_536):
        for _ in range(2 * writing_plans._BEFORE):
            fields = {"message_id": "m", "to": "t" * size, "subject": "s"}
            assert outcome(PROPERTIES_FIELDS.write, fields) == outcome(PROPERTIES_FIELDS._write_by_field, fields)


def like(chance: random.Random, value: Any) -> Any:
    """Return a value of the same type, its range unchecked."""
    return chance.choice([each for each in VALUES if type(each) is type(value)])


@pytest.mark.usefixtures("quick")
def test_keys_that_are_equal_but_of_another_type() -> None:
    """A map with a writer of its own is one thing, the map with symbols of the same text as keys another."""
    for kind in (str, Symbol, str):
        for _ in range(5):
            read = decode(encode({kind("a"): 1, "b": 2, kind("c"): 3}))
            assert list(map(type, read)) == [kind, str, kind]
            with pytest.raises(EncodeError) if kind is Symbol else nullcontext():
                Message(application_properties={"b": 1, kind("a"): 2, "c": 3}).encode()
    assert encoding.map_plans.count >= 2


def test_few_writers_are_made_for_a_flood(monkeypatch: pytest.MonkeyPatch) -> None:
    """Maps that are always of new kinds, long or wide ones too, leave little, and few of them have writers."""
    plans = encoding.plans_of(b"\xc1", encoding.WRITERS[str], encoding.WRITERS)
    for number in range(2_500):
        for _ in range(writing_plans._BEFORE + 2):
            plans.write(bytearray(), {f"a {number}": 1, "b": 2, "c": 3})
    assert len(plans._times) <= writing_plans._WAITING
    noted = 2_500 * (writing_plans._BEFORE + 2) * 3
    assert 0 < 5 * plans.count <= noted // writing_plans._WRITTEN_FOR_ONE + writing_plans._WRITTEN_AT_ONCE + 5 < 9_000
    monkeypatch.setattr(writing_plans, "_WRITTEN_AT_ONCE", 1 << 30)
    monkeypatch.setattr(writing_plans, "_ENTRIES_KEPT", 500)
    for number in range(200):
        for _ in range(writing_plans._BEFORE + 2):
            plans.write(bytearray(), {f"b {number}": 1, "b": 2, "c": 3})
    assert plans.count == 100
    plans.clear()
    for _ in range(20):
        for entries in (
            {"l" * 100: 1, "b": 2, "c": 3},
            {str(number): number for number in range(128)},
            {1000: 1, 2: 2, 3: 3},
            {"of no type": object(), "b": 2, "c": 3},
        ):
            assert not plans.write(bytearray(), entries)
    assert plans.count == 0


def test_a_symbol_is_not_the_string_that_is_known() -> None:
    """Keys that are equal, but of another type, are written as what they are."""
    for kind in (str, Symbol, str):
        assert type(next(iter(decode(encode({kind("alike"): 1}))))) is kind
    for key in (True, 1, True, 1.0):
        assert type(next(iter(decode(encode({key: 1}))))) is type(key)


def test_what_is_known_is_bounded() -> None:
    """Keys and combinations of fields that come but once are not kept for good, nor are long keys."""
    section = next(each for each in MAPS.values() if each.name == "application_properties")
    names = list(PROPERTIES_FIELDS.defaults)
    chance = random.Random(7)
    for number in range(2_000):
        encode({f"once {number}": 1, "l" * 100 + str(number): 2})
        chance.shuffle(names)
        fields: dict[str, Any] = dict.fromkeys(names[:6])
        Message(b"", application_properties={f"once {number}": 1}, **fields).encode()
    for kept in (encoding._keys, section._known):
        assert len(kept) <= encoding._KEYS_KEPT
        assert max(map(len, kept)) <= encoding._KEY_LENGTH
    assert PROPERTIES_FIELDS.plans.count * (6 + writing_plans._FRAME) <= writing_plans._ENTRIES_KEPT


def test_threads_share_it() -> None:
    """Threads that write other keys and fields at the same time, more than are kept, write what is theirs."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)

    def write(thread: int) -> bool:
        names = list(PROPERTIES_FIELDS.defaults)[2:4]
        for turn in range(100):
            entries = {f"{(thread * 37 + turn * 11 + number) % 2000}": number for number in range(20)}
            fields: dict[str, Any] = dict.fromkeys(names[:: 1 if turn % 2 else -1], f"{thread} {turn}")
            message = Message.decode(Message(entries, application_properties=entries, **fields).encode())
            assert (message.body, message.application_properties) == (entries, entries)
            assert (message.to, message.subject) == (f"{thread} {turn}", f"{thread} {turn}")
        return True

    try:
        with ThreadPoolExecutor(8) as threads:
            assert all(threads.map(write, range(8)))
    finally:
        sys.setswitchinterval(interval)
