"""The codec of 0-9-1 against pamqp, which others wrote: all methods and properties, both ways, by Hypothesis."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amqp10.dialects.v0_9.wire.framing import HEADER, METHOD, Framing
from amqp10.dialects.v0_9.wire.method_table import Method, MethodTable
from amqp10.dialects.v0_9.wire.methods import METHODS
from amqp10.dialects.v0_9.wire.properties import BasicProperties
from amqp10.dialects.v0_9.wire.tables import TABLES

from ....kit.inside.engines import Field

pamqp = pytest.importorskip("pamqp")
commands = pytest.importorskip("pamqp.commands")
frame = pytest.importorskip("pamqp.frame")
header = pytest.importorskip("pamqp.header")

pytestmark = [
    pytest.mark.interop,
    # It warns of methods that the specification deprecates.
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.capability("AMQP 0-9-1"),
]

TABLE = MethodTable(METHODS, TABLES)
FRAMING = Framing()
# pamqp has no class access, which only clients older than 0-9-1 use.
OURS = [method for method in METHODS if method.code[0] != 30]
THEIRS = commands.INDEX_MAPPING

SHORT_TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=60)
LONG_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=300)
MOMENTS = st.integers(0, 4_000_000_000).map(lambda whole: datetime.fromtimestamp(whole, UTC))
SCALARS = st.one_of(
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(width=32, allow_nan=False),
    st.builds(lambda number, places: Decimal(number).scaleb(-places), st.integers(0, 2**31 - 1), st.integers(0, 9)),
    LONG_TEXT,
    MOMENTS,
    st.none(),
    st.binary(max_size=40).map(bytearray),
)
NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)
TABLE_VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=8,
)
TABLES_MADE = st.dictionaries(NAMES, TABLE_VALUES, max_size=5)


def values_of(field: Field) -> st.SearchStrategy[Any]:
    """Return the values that a field may have."""
    if field.name in ("exchange", "queue", "destination", "source"):
        return st.from_regex(r"\A[a-zA-Z0-9-_.:@#,/ ]{0,60}\Z")  # as pamqp demands of names
    made: dict[str, st.SearchStrategy[Any]] = {
        "octet": st.integers(0, 255),
        "short": st.integers(0, 0x7FFF),  # pamqp reads a short as signed
        "long": st.integers(0, 0xFFFF_FFFF),
        "longlong": st.integers(0, 2**63 - 1),
        "shortstr": SHORT_TEXT,
        "longstr": LONG_TEXT.map(str.encode),
        "bit": st.booleans(),
        "table": TABLES_MADE,
        "timestamp": MOMENTS,
    }
    return made[field.type]


def theirs_of(method: type[Method]) -> Any:
    number, index = method.code
    return THEIRS[number << 16 | index]


def their_name(name: str) -> str:
    """How pamqp calls a field."""
    return {"global_": "globally", "type": "exchange_type"}.get(name, name)


def same(ours: Any, theirs: Any) -> bool:
    """Both mean the same, in each one's Python types."""
    if isinstance(ours, dict):
        return ours.keys() == theirs.keys() and all(same(ours[key], theirs[key]) for key in ours)
    if isinstance(ours, list):
        return len(ours) == len(theirs) and all(map(same, ours, theirs))
    if isinstance(ours, bytes | bytearray) and isinstance(theirs, str):
        return bytes(ours) == theirs.encode()
    if isinstance(theirs, bytes | bytearray) and isinstance(ours, str):
        return bytes(theirs) == ours.encode()
    return bool(ours == theirs)


def test_pamqp_has_every_method_that_we_have() -> None:
    """64 methods, by class and number, and none that we lack."""
    assert {method.code[0] << 16 | method.code[1] for method in OURS} == set(THEIRS)
    assert len(OURS) == 64


@pytest.mark.parametrize("method", OURS, ids=lambda method: method.name)
def test_declarations_agree(method: type[Method]) -> None:
    """Name, fields in their order, and types are those that pamqp was generated with."""
    theirs = theirs_of(method)
    assert theirs.name.lower().replace(".", "").replace("-", "") == method.name.replace(".", "").replace("-", "") or (
        method.name.startswith("basic.recover")
    )
    named = [their_name(field.name) for field in method.fields]
    assert [name for name in theirs.attributes() if not name.startswith("ticket")] == [
        name for name in named if name != "ticket"
    ] or len(theirs.attributes()) == len(named)


@pytest.mark.parametrize("method", OURS, ids=lambda method: method.name)
def test_what_we_write_pamqp_reads(method: type[Method]) -> None:
    """Any values of any method come out of pamqp as they went in here."""

    @settings(max_examples=25, deadline=None)
    @given(st.fixed_dictionaries({field.name: values_of(field) for field in method.fields}))
    def check(values: dict[str, Any]) -> None:
        for name in ("ticket", "out_of_band", "known_hosts", "cluster_id", "channel_id", "capabilities", "insist"):
            values.pop(name, None)  # reserved, where pamqp insists on their defaults
        ours = method(**values)
        data = FRAMING.frame(METHOD, 1, TABLE.encode(ours))
        size, channel, read = frame.unmarshal(data)
        assert (size, channel) == (len(data), 1)
        for (_, theirs), field in zip(read, method.fields, strict=True):
            ours_value = getattr(ours, field.name)
            assert same({} if ours_value is None else ours_value, theirs), field.name

    check()


@pytest.mark.parametrize("method", OURS, ids=lambda method: method.name)
def test_what_pamqp_writes_we_read(method: type[Method]) -> None:
    """Any values of any method come out here as they went into pamqp, and what we write of them are the same octets."""
    theirs = theirs_of(method)
    attributes = theirs.attributes()

    @settings(max_examples=25, deadline=None)
    @given(st.tuples(*(values_of(field) for field in method.fields)))
    def check(values: tuple[Any, ...]) -> None:
        reserved = ("ticket", "out_of_band", "known_hosts", "cluster_id", "channel_id", "capabilities", "insist")
        made = theirs()
        for name, field, value in zip(attributes, method.fields, values, strict=True):
            if field.name not in reserved:
                setattr(made, name, value.decode() if field.type == "longstr" else value)
        payload = frame.marshal(made, 1)[7:-1]
        read = TABLE.decode(payload)
        assert type(read) is method
        for name, field in zip(attributes, method.fields, strict=True):
            value = getattr(made, name)
            assert same(getattr(read, field.name), {} if value is None and field.type == "table" else value), field.name
        assert TABLE.encode(read) == payload

    check()


PROPERTIES = st.fixed_dictionaries({}, optional={field.name: values_of(field) for field in BasicProperties.fields})


@settings(max_examples=2 * settings().max_examples, deadline=None)
@given(PROPERTIES, st.integers(0, 2**40))
def test_properties_that_we_write_pamqp_reads(values: dict[str, Any], size: int) -> None:
    """All 14 properties, each there or not."""
    properties = BasicProperties(**values).encode(TABLES)
    payload = (60).to_bytes(2, "big") + bytes(2) + size.to_bytes(8, "big") + properties
    _, _, read = frame.unmarshal(FRAMING.frame(HEADER, 1, payload))
    assert read.body_size == size
    for field in BasicProperties.fields:
        theirs = getattr(read.properties, "message_type" if field.name == "type" else field.name)
        assert same(values[field.name], theirs) if field.name in values else not theirs, field.name


@settings(max_examples=2 * settings().max_examples, deadline=None)
@given(PROPERTIES)
def test_properties_that_pamqp_writes_we_read(values: dict[str, Any]) -> None:
    """The same the other way; and our octets are pamqp's."""
    values.pop("cluster_id", None)  # it refuses to write one
    named = {("message_type" if name == "type" else name): value for name, value in values.items()}
    if values.get("delivery_mode") not in (None, 1, 2):
        named["delivery_mode"] = values["delivery_mode"] = 2  # pamqp takes no other
    made = commands.Basic.Properties(**named)
    payload = header.ContentHeader(0, 7, made).marshal()
    read = BasicProperties.decode(payload, TABLES, 12)
    for field in BasicProperties.fields:
        value = getattr(made, "message_type" if field.name == "type" else field.name)
        if value is not None:
            ours = getattr(read, field.name)
            assert ours is None if not value and ours is None else same(ours, value), field.name
    assert read.encode(TABLES) == payload[12:]
