"""What values cost the plain code, in steps of the interpreter: no kind of values costs many times what its like do."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any

import pytest

from amqp10.errors import EncodeError
from amqp10.types import Array, Described, Symbol, UInt, ULong, _encode, _shapes, decode, encode
from amqp10.types.codec import map_shapes

from ..kit.plain_readers import plain_readers, without_shapes
from ..kit.steps import steps


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Have values written and read by the plain code, which knows no kind of maps at first."""
    monkeypatch.setattr(_encode, "fast", None)
    forget()
    with plain_readers():
        yield
    forget()


def forget() -> None:
    map_shapes.clear()
    _encode.map_plans.clear()


def usual(act: Callable[[], Any]) -> int:
    """Return the steps of a call that came often before."""
    for _ in range(60):
        act()
    return steps(act)


@pytest.mark.parametrize("kind", [str, Symbol, lambda text: text.encode()])
def test_wide_maps(kind: Callable[[str], Any]) -> None:
    """A map of more entries than may have keys of the same hash costs for each entry what a smaller one does."""
    small, large = ({kind(f"key {key}"): 300 for key in range(count)} for count in (64, 128))
    with without_shapes():
        costs = [usual(partial(decode, encode(value))) for value in (small, large)]
    assert costs[1] < 2.5 * costs[0]


def test_maps_of_127_entries_have_shapes_and_plans() -> None:
    """For each entry, a map of 127 entries is read and written for little more than a map of 32."""
    maps: list[dict[str, Any]] = [{f"{each} {size}": 2.5 for each in range(size)} for size in (32, 127)]
    written = [usual(partial(encode, value)) for value in maps]
    read = [usual(partial(decode, encode(value))) for value in maps]
    assert written[1] < 5 * written[0]
    assert read[1] < 5 * read[0]


@pytest.mark.parametrize("kind", [OrderedDict, partial(defaultdict, int)])
def test_what_is_like_a_dict_has_plans(kind: Callable[[dict[str, float]], Any]) -> None:
    """A map of another type whose entries are those of a dict is written for what the dict costs."""
    fields = {f"field {each}": 2.5 for each in range(20)}
    assert encode(kind(fields)) == encode(fields)
    assert usual(partial(encode, kind(fields))) < 1.1 * usual(partial(encode, fields))


def test_subclasses_of_dict_have_their_own_say() -> None:
    """A subclass may give other entries than a dict would: they are written, however often it comes."""

    class Shouting(dict[str, Any]):
        def items(self) -> Any:
            return [(key.upper(), value) for key, value in super().items()]

    for _ in range(60):
        encode({"a": 1})
        assert decode(encode(Shouting(a=1))) == {"A": 1}


@pytest.mark.parametrize("kind", [int, UInt, ULong])
def test_maps_by_number_have_plans(kind: type[int]) -> None:
    """A map whose keys are small numbers is written for what one of texts costs, each type of number as itself."""
    numbered = {kind(each): 2.5 for each in range(20)}
    assert usual(partial(encode, numbered)) < 1.1 * usual(partial(encode, {f"{each}": 2.5 for each in range(20)}))
    for same in (numbered, {float(key): value for key, value in numbered.items()}, {True: 2.5, False: 2.5}):
        assert list(map(type, decode(encode(same)))) == list(map(type, same))


def test_maps_by_large_numbers_have_no_plans() -> None:
    """Numbers beyond one octet are mostly ids: a plan of them would not be used again."""
    for start in range(60):
        encode({1000 + start: 1, 5: 2})
        encode({1000: 1})
    assert not _encode.map_plans.count
    assert not _encode.map_plans._times


def test_keys_of_chosen_hashes_are_looked_at_first() -> None:
    """Numbers as keys become a dict only where few of them have the same hash, however many texts come before."""
    texts = {f"key {key}": key for key in range(100)}
    same: dict[Any, Any] = {(2**61 - 1) * key: key for key in range(-2, 3)}
    many: dict[Any, Any] = {UInt(key): key for key in range(100)}
    for wide in ({**texts, **many}, {**many, **texts}, {**texts, **same}):
        assert type(decode(encode(wide))) is dict
        assert decode(encode(wide)) == wide
    chosen: dict[Any, Any] = {2.0 ** (61 * key): key for key in range(17)}
    assert len({hash(key) for key in chosen}) == 1
    assert type(decode(encode({**texts, **chosen}))) is not dict


def row(kind: int) -> dict[str, Any]:
    """Return a map of ten entries whose keys no other kind has."""
    return {f"{key} of kind {kind}": 2.5 for key in range(10)}


def cost_of(rows: list[dict[str, Any]]) -> tuple[float, float]:
    """Return the steps of writing a row, and of reading one."""
    encoded = [encode(each) for each in rows]
    written = steps(lambda: [encode(each) for each in rows])
    return written / len(rows), steps(lambda: [decode(each) for each in encoded]) / len(rows)


def test_many_kinds() -> None:
    """Maps of 300 kinds by turns cost what those of one kind cost."""
    rows = [row(kind) for kind in range(300)]
    for _ in range(30):
        for each in rows:
            decode(encode(each))
    several = cost_of(rows)
    alone = cost_of([rows[-1]] * 300)
    assert several[0] < 1.2 * alone[0]
    assert several[1] < 1.2 * alone[1]


@pytest.mark.parametrize("times", [1, 30])
def test_beside_a_peer_of_ever_new_kinds(times: int) -> None:
    """The rows of a neighbor cost what they cost alone, beside a peer whose maps are of a new kind every so often."""
    sent = encode(row(0))
    alone = usual(partial(decode, sent))
    for kind in range(1_000):
        hostile = encode({f"hostile {kind}": 1, "b": 2})
        for _ in range(times):
            decode(hostile)
        assert steps(partial(decode, sent)) == alone


def test_what_may_have_no_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    """Maps that are frequent, after as many readers as may be written, are not looked at one by one."""
    monkeypatch.setattr(_shapes, "_WRITTEN_AT_ONCE", -(1 << 30))
    encoded = encode(row(0))
    first = steps(lambda: [decode(encoded) for _ in range(10)])
    for _ in range(50):
        decode(encoded)
    assert steps(lambda: [decode(encoded) for _ in range(40)]) < 1.2 * 4 * first


LINES = [{"sku": f"s{number}", "quantity": number, "price": 2.5} for number in range(5)]


@pytest.mark.parametrize(
    "value", [LINES, {"a": 1, "b": "x"}, [1, 2, 3], Described(Symbol("x:y"), 1), Array("int", [1])]
)
def test_a_nested_value_costs_only_itself(value: Any) -> None:
    """A map with a list, map, array or described value costs what the map and the value cost alone."""
    wide = {f"key {number}": ("text", 5, 2.5, True, None)[number % 5] for number in range(20)}
    alone = usual(partial(encode, wide)) + usual(partial(encode, value))
    assert usual(partial(encode, {**wide, "value": value})) < 1.1 * alone


def test_a_fault_far_within_is_found_at_once() -> None:
    """A fault within nested maps of a frequent kind costs each level once, and is named by its path."""
    costs = []
    for depth in (10, 20):
        value: Any = 1
        for _ in range(depth):
            value = {"a": value, "b": 2}
        for _ in range(20):
            encode(value)
        wrong: Any = ULong(-1)
        for _ in range(depth):
            wrong = {"a": wrong, "b": 2}
        with pytest.raises(EncodeError, match=r"^(\['a'\])+: ULong\(-1\) is out of range for ulong"):
            encode(wrong)
        costs.append(steps(partial(refused, wrong)))
    assert costs[1] < 3 * costs[0]


def refused(value: Any) -> None:
    with suppress(EncodeError):
        _encode.write_map(bytearray(), value)
