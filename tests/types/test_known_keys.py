"""Keys of maps, and maps of the same keys, are known by their octets: in tables that no peer fills for good."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from amqp10.errors import DecodeError
from amqp10.types import Float, Int, Symbol, UInt, ULong, _read_compound, _shapes, decode, encode
from amqp10.types.codec import READERS, Shapes

from ..kit.plain_readers import forget_shapes, plain_readers, quick_shapes, without_shapes


def test_a_key_is_one_object() -> None:
    """The same octets give the same key; a symbol is not the string of the same text."""
    first, again = (next(iter(decode(encode({"some key": 1})))) for _ in range(2))
    assert first is again
    symbol = next(iter(decode(encode({Symbol("some key"): 1}))))
    assert type(symbol) is Symbol
    assert type(first) is str


@pytest.mark.parametrize("kind", [str, Symbol])
def test_the_table_is_bounded(kind: Any) -> None:
    """More keys than it has room for, and long ones, are read as ever; afterwards keys are kept again."""
    for first in range(0, 5000, 50):
        sent = {kind(f"hostile {number}"): number for number in range(first, first + 50)}
        assert decode(encode(sent)) == sent
        assert len(_read_compound._keys) <= _read_compound._KEYS_KEPT
    long = {kind("x" * 200): 1}
    assert decode(encode(long)) == long
    assert max(map(len, _read_compound._keys)) <= _read_compound._KEY_OCTETS
    assert next(iter(decode(encode({"after": 1})))) is next(iter(decode(encode({"after": 1}))))


def test_only_keys_are_kept() -> None:
    """Values are not, nor keys that are no short string or symbol."""
    decode(encode({"kept": "a value that is not", 123456: "x", b"binary": "y"}))
    assert not {b"\xa1\x13a value that is not", b"\xa0\x06binary"} & _read_compound._keys.keys()
    assert b"\xa1\x04kept" in _read_compound._keys


def test_the_shape_of_a_map_is_a_guess() -> None:
    """A map that begins as another did, with as many entries, has its own keys all the same."""
    maps: list[dict[Any, Any]] = [
        {"id": 1, "name": "n", "size": 2},
        {"id": 1, "size": "n", "name": 2},
        {"id": 1, Symbol("name"): "n", "size": 2},
        {"id": 1, 5: "n", "size": 2},
        {"id": 1, "name": "n", "l" * 100: 2},
    ]
    for _ in range(40):
        for sent in maps:
            read = decode(encode(sent))
            assert [(type(key), key, value) for key, value in read.items()] == [
                (type(k), k, v) for k, v in sent.items()
            ]


def test_a_shape_has_no_key_twice() -> None:
    """A map that begins as one that was read, and has a key twice, is refused."""
    good = encode({"first": 1, "second": 2, "thirds": 3})
    for _ in range(40):
        decode(good)
        with pytest.raises(DecodeError, match="a map has the same key twice"):
            decode(good.replace(b"thirds", b"second"))


@pytest.mark.usefixtures("plain")
def test_shapes_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Maps of more kinds than are kept, and of many or long keys, leave no more than there is room for."""
    monkeypatch.setattr(_shapes, "_ENTRIES_KEPT", 1024)
    shapes = _read_compound.map_shapes
    with quick_shapes(before=1):
        for number in range(_shapes._ENTRIES_KEPT // 4 + 100):
            for _ in range(3):
                assert decode(encode({f"only {number}": 1, "b": 2})) == {f"only {number}": 1, "b": 2}
        assert shapes._entries() <= _shapes._ENTRIES_KEPT
        assert len(shapes.readers) == len(shapes._kept) == _shapes._ENTRIES_KEPT // 4
        for number in range(_shapes._WAITING + 100):
            assert decode(encode({f"once {number}": 1, "b": 2})) == {f"once {number}": 1, "b": 2}
            assert len(shapes._waiting) <= _shapes._WAITING
        for sent in ({str(each): each for each in range(128)}, {"a": 1, "l" * 200: 2}, {"l" * 200: 1, "a": 2}):
            for _ in range(4):
                assert decode(encode(sent)) == sent
        kept = shapes.readers
        assert max(map(len, (*shapes._waiting, *shapes._kept))) <= _shapes._OCTETS
        assert not any(beginning[0] > 2 * _read_compound._SHAPE_ENTRIES for beginning in kept)
        for number in range(20):  # keys behind the same first one
            for _ in range(4):
                assert decode(encode({"first": 1, f"then {number}": 2})) == {"first": 1, f"then {number}": 2}
        assert all(len(readers) <= _shapes._VARIANTS for readers in kept.values())
        assert all(len(seen.variants) <= _shapes._VARIANTS for seen in shapes._kept.values())


@pytest.mark.usefixtures("plain")
def test_few_readers_are_written_for_a_flood() -> None:
    """A peer whose maps are always of new kinds has readers written for few of them once it had its fill."""
    shapes = Shapes(_read_compound._entries_of)
    for number in range(3_000):
        sent = encode({f"kind {number}": 1, "b": 2})
        at, stop = 3, 5 + sent[4]
        for _ in range(_shapes._BEFORE + _shapes._LOOKS + 1):
            shapes.note(sent[at - 1 : stop], sent, at, {f"kind {number}": 1, "b": 2})
    noted = 3_000 * (_shapes._BEFORE + _shapes._LOOKS + 1) * 4
    assert 0 < shapes._written <= noted // _shapes._READ_FOR_ONE + _shapes._WRITTEN_AT_ONCE + 4
    assert len(shapes.readers) == shapes._written // 4 < 2_200


@pytest.mark.usefixtures("plain")
def test_a_value_that_comes_to_vary() -> None:
    """A number that grows, or is null at times, is read by the reader that is written next."""
    with quick_shapes():
        for value in (1, 1, 300, None, "text", 300, b"b", [1, {"a": 2}], 1, None):
            for _ in range(2):
                assert decode(encode({"id": 1, "value": value, "on": True})) == {"id": 1, "value": value, "on": True}
        with without_general_readers():
            for changed in (5, 3_000, None, "other", b"c", [{"b": 3}]):
                assert decode(encode({"id": 2, "value": changed, "on": False}))["value"] == changed


@pytest.mark.usefixtures("plain")
@pytest.mark.parametrize("innermost", [b"\x72\x3f\x80\0\0", b"\x72\xff"])
def test_maps_within_maps_are_read_once(innermost: bytes) -> None:
    """However many kinds begin as they do: what is tried in vain at each level costs more than anyone can wait for."""
    looks = []
    read = READERS[0x72]

    def noted(data: bytes, at: int, room: list[int]) -> tuple[Any, int]:
        looks.append(at)
        return read(data, at, room)

    READERS[0x72] = noted  # until `plain` puts back what was there
    with quick_shapes():
        for kind in range(_shapes._VARIANTS):
            for _ in range(5):
                decode(encode({"within": {"x": Float(1)}, f"kind {kind}": True}))
        nested = b"\xc1" + bytes((4 + len(innermost), 2)) + b"\xa1\x01x" + innermost
        for _ in range(5):
            items = b"\xa1\x06within" + nested + b"\xa1\x05other\x41"
            nested = b"\xc1" + bytes((1 + len(items), 4)) + items
        looks.clear()
        outcome(nested)
    assert len(looks) == 1


@pytest.mark.usefixtures("plain")
@pytest.mark.parametrize("message", [{"in": {"x": Float(1)}}, {"in": {"x": [Float(1)]}}, {"in": [{"x": Float(1)}]}])
def test_a_shape_with_maps_in_it(message: dict[str, Any]) -> None:
    """What is in it is read once; if it is malformed, the message is refused in the words of the general reader."""
    looks = []
    read = READERS[0x72]

    def noted(data: bytes, at: int, room: list[int]) -> tuple[Any, int]:
        looks.append(at)
        return read(data, at, room)

    READERS[0x72] = noted  # until `plain` puts back what was there
    good = encode(message | {"a": 1, "on": True})
    with quick_shapes():
        for _ in range(5):
            decode(good)
        with without_general_readers():
            looks.clear()
            assert decode(good) == message | {"a": 1, "on": True}
            assert len(looks) == 1
        for place in range(9, len(good)):
            for octet in (0x00, 0x41, 0x70, 0xC1, 0xFF):
                damaged = good[:place] + bytes((octet,)) + good[place + 1 :]
                looks.clear()
                expected = read_plainly(damaged)
                once = len(looks)
                looks.clear()
                assert outcome(damaged) == expected
                assert len(looks) == once


@contextmanager
def without_general_readers() -> Iterator[None]:
    """Have no map with more than one entry read by the general reader."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_read_compound, "map_shapes", None)  # the general reader notes what it read
        yield


ROW: dict[Any, Any] = {
    "id": 10**9,
    "name": "Zoë",
    "quantity": 7,
    "price": 2.5,
    "paid": True,
    "shipped": False,
    "created": datetime(2026, 11, 23, 1, 2, 3, 4000, UTC),
    "session": UUID(int=2**127 + 5),
    "serial": UInt(70_000),
    Symbol("hops"): UInt(3),
    "offset": Int(-70_000),
    "total": ULong(2**40),
    "weight": Int(-3),
    "part": ULong(4),
    "clicks": -5,
    "nested": {"a": [1, "b"], "c": {"d": 1, "e": "f"}},
    "comment": "",
}
MAP = {"a": [1, "b"]}
OTHERS: tuple[Any, ...] = (None, True, False, 0, -1, 300, 0.5, "text", "x" * 300, UInt(0), UInt(300), b"b", [1], MAP)


def types(value: Any) -> Any:
    """Return the types in a value, in order."""
    if isinstance(value, dict):
        return [(type(key), key, types(each)) for key, each in value.items()]
    return type(value)


@pytest.fixture
def plain() -> Iterator[None]:
    with plain_readers():
        yield


def read_plainly(encoded: bytes) -> Any:
    """Return what a map is read as when no shape is known, with its types; of an error, its text."""
    with without_shapes():
        return outcome(encoded)


def outcome(encoded: bytes) -> Any:
    try:
        value = decode(encoded)
    except DecodeError as error:
        return str(error)
    return repr(value), types(value)


@pytest.mark.usefixtures("plain")
def test_maps_of_a_shape() -> None:
    """Maps of the same keys, whatever their values are, are read as if none of them had come before."""
    chance = random.Random(19)
    forget_shapes()
    for _ in range(1_000):
        row = dict(ROW)
        for key in chance.sample(list(ROW), chance.randrange(3)):
            row[key] = chance.choice(OTHERS)
        encoded = encode(row)
        assert outcome(encoded) == read_plainly(encoded)
        assert decode(encoded) == row


@pytest.mark.usefixtures("plain")
def test_damaged_maps_of_a_shape() -> None:
    """A map with octets changed, put in or cut off is read, or refused in the same words, as if its shape were new."""
    chance = random.Random(23)
    good = encode(ROW)
    refused = 0
    for turn in range(4_000):
        if turn % 500 == 0:
            forget_shapes()
        assert decode(good) == ROW
        octets = bytearray(good)
        for _ in range(chance.randrange(1, 3)):
            at = chance.randrange(9, len(octets))
            octets[at : at + chance.choice((0, 1, 1, 1, 2))] = chance.choice(
                (b"\x40", b"\x41", b"\xa1", b"\x55", b"", bytes((chance.randrange(256),)))
            )
        if chance.random() < 0.1:
            del octets[chance.randrange(10, len(octets)) :]
        expected = read_plainly(bytes(octets))
        refused += type(expected) is str
        assert outcome(bytes(octets)) == expected, bytes(octets)
    assert 400 < refused < 3_950


def test_threads_share_it() -> None:
    """Threads that read and fill it all at once, many times over what it holds, read what was sent."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)

    def read(thread: int) -> int:
        for turn in range(100):
            sent = {f"{(thread * 37 + turn * 11 + number) % 3000}": (thread, turn, number) for number in range(20)}
            expected = {key: list(value) for key, value in sent.items()}
            assert decode(encode(sent)) == expected
        return thread

    def read_shapes(thread: int) -> int:
        for turn in range(150):
            number = turn % 7
            value = (thread, None, "text", 300, 2.5)[(thread + turn) % 5]
            sent = {f"kind {number}": thread, "value": value, f"last {number}": turn}
            assert decode(encode(sent)) == sent
        return thread

    try:
        with ThreadPoolExecutor(8) as threads:
            assert list(threads.map(read, range(8))) == list(range(8))
            with quick_shapes(before=2, looks=2), plain_readers(), pytest.MonkeyPatch.context() as patch:
                patch.setattr(_shapes, "_WAITING", 3)  # they are forgotten all the time
                patch.setattr(_shapes, "_ENTRIES_KEPT", 15)
                assert list(threads.map(read_shapes, range(8))) == list(range(8))
                assert len(_read_compound.map_shapes.readers) <= 3 + 8
    finally:
        sys.setswitchinterval(interval)
    assert len(_read_compound._keys) <= _read_compound._KEYS_KEPT + 8


def test_threads_share_a_beginning() -> None:
    """Threads that read maps that begin alike, and go on in other ways, read what was sent while readers are made."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)

    def read(thread: int) -> int:
        for turn in range(1200):
            sent = {f"kind {turn // 6}": thread, f"other {(thread + turn) % 6}": turn}
            assert decode(encode(sent)) == sent
        return thread

    try:
        with quick_shapes(before=0, looks=1), plain_readers(), ThreadPoolExecutor(8) as threads:
            assert list(threads.map(read, range(8))) == list(range(8))
    finally:
        sys.setswitchinterval(interval)
