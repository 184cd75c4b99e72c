"""The method tables of 0-9 final and of the draft, against those of others."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from amqp10.dialects.v0_9 import DIALECT, DRAFT, FINAL
from amqp10.dialects.v0_9.wire.method_table import Method
from amqp10.dialects.v0_9.wire.methods import METHODS
from amqp10.dialects.v0_9.wire.properties import SETS
from amqp10.dialects.v0_9.wire.variant import V0_9, V0_9_1, V0_9_DRAFT
from amqp10.engine import Dialect, dialects
from amqp10.engine import dialect as find_dialect

TABLES = json.loads((Path(__file__).parent / "methods.json").read_text())
Spec = tuple[str, list[int | list[list[str]]]]


def fields_of(method: type[Method], left_out: tuple[str, ...] = ()) -> list[list[str]]:
    return [[field.name.rstrip("_"), field.type] for field in method.fields if field.name not in left_out]


def spelled(fields: list[list[str]]) -> list[list[str]]:
    return [[name.replace("-", "_"), kind] for name, kind in fields]


@pytest.mark.parametrize("name", TABLES["0-9"])
def test_methods_of_0_9(name: str) -> None:
    """Each of the 101 has its code, its fields and their types."""
    number, index, fields = TABLES["0-9"][name]
    wanted = {"basic.recover": "basic.recover-async"}.get(name, name)  # as 0-9-1 calls it
    method = next(each for each in V0_9.methods if each.name == wanted)
    assert V0_9.methods.code(method) == (number, index)
    ours = fields_of(method)
    theirs = spelled(fields)
    assert [kind for _, kind in ours] == [kind for _, kind in theirs]
    same_octets = ("arguments", "filter")  # of basic.consume: two names for one field
    assert [each for each, _ in ours if each not in same_octets] == [
        each for each, _ in theirs if each not in same_octets
    ]


@pytest.mark.parametrize("name", TABLES["0-8"])
def test_methods_of_the_draft(name: str) -> None:
    """The differences of 0-8 from 0-9: other codes, fewer fields, a class for tests."""
    number, index, fields = TABLES["0-8"][name]
    method = next(each for each in V0_9_DRAFT.methods if each.name == name)
    assert V0_9_DRAFT.methods.code(method) == (number, index)
    encoded = V0_9_DRAFT.methods.encode(method(**{field.name: {} for field in method.fields if field.type == "table"}))
    left_out = tuple({field.name for field in method.fields} - {each for each, _ in spelled(fields)})
    assert [kind for _, kind in fields_of(method, left_out)] == [kind for _, kind in fields]
    assert encoded[:4] == number.to_bytes(2, "big") + index.to_bytes(2, "big")


def test_what_the_draft_lacks() -> None:
    """Methods that 0-8 did not have yet are not known in the draft, but for those that our extensions need."""
    names = {method.name for method in V0_9_DRAFT.methods}
    assert {name for name in TABLES["absent-in-0-8"] if name in names} == {"queue.unbind", "queue.unbind-ok"}
    assert not {"connection.blocked", "connection.unblocked"} & names  # their codes are those of close there


@pytest.mark.parametrize("name", TABLES["properties"])
def test_property_sets(name: str) -> None:
    """All four, in the order of their flags."""
    number, properties = TABLES["properties"][name]
    assert [[field.name, field.type] for field in SETS[number].fields] == spelled(properties)


def test_no_two_methods_have_one_code() -> None:
    """In none of the three."""
    for variant in (V0_9_1, V0_9, V0_9_DRAFT):
        codes = [variant.methods.code(method) for method in variant.methods]
        assert len(codes) == len(set(codes)), variant.name
    assert len(METHODS) == 66


def test_they_are_found_by_name_and_header() -> None:
    """Three dialects, three headers, one engine."""
    headers = [header for each in dialects() for header in each.headers]
    assert len(headers) == len(set(headers))
    for name in ("0-9-1", "0-9", "0-9-draft"):
        assert find_dialect(name).name == name


START = bytes.fromhex("000a000a") + bytes(20)  # connection.start, and some of it
STARTS = {
    "0-9-1": bytes.fromhex("01000000000018") + START,
    "0-9-draft": bytes.fromhex("0100000000000018") + START,
}
"""The first frame of a server: 0-8 has the header of the draft, and frames like those of 0-9-1."""


@pytest.mark.parametrize("server", STARTS)
@pytest.mark.parametrize("dialect", [DIALECT, FINAL, DRAFT], ids=lambda dialect: dialect.name)
def test_who_answers(dialect: Dialect, server: str) -> None:
    """By where connection.start begins, octet by octet, it is seen whose frames these are; and a header is a no."""
    speaks = dialect.name.replace("0-9-1", "0-9") == server.replace("0-9-1", "0-9")
    seen = [dialect.spoken(STARTS[server][:size]) for size in range(20)]
    assert seen[0] is None
    assert seen[-1] is speaks
    assert (not speaks) not in seen
    assert dialect.spoken(b"A") is False
