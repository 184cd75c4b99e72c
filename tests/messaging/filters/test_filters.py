"""`messaging/_filters.py` and its siblings: what each filter says on the wire, and what counts as its echo."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from amqp10.messaging import (
    ApplicationPropertiesFilter,
    DirectBinding,
    EndsWith,
    EventPosition,
    Filter,
    HeadersBinding,
    NoLocal,
    PropertiesFilter,
    Selector,
    Source,
    SqlFilter,
    StartsWith,
    StreamFilter,
    StreamMatchUnfiltered,
    StreamOffset,
    TopicBinding,
    unapplied_filters,
)
from amqp10.types import Described, Symbol, UInt, ULong, decode

MOMENT = datetime(2024, 2, 29, 12, 34, 56, 789000, tzinfo=UTC)

# Filter, symbolic and numeric descriptor, name, value.
WIRE: list[tuple[Filter, str, int | None, str, Any]] = [
    (Selector("a = 1"), "apache.org:selector-filter:string", 0x0000468C_00000004, "jms-selector", "a = 1"),
    (NoLocal(), "apache.org:no-local-filter:list", 0x0000468C_00000003, "no-local", []),
    (DirectBinding("k"), "apache.org:legacy-amqp-direct-binding:string", 0x0000468C_00000000, "direct-binding", "k"),
    (TopicBinding("a.#"), "apache.org:legacy-amqp-topic-binding:string", 0x0000468C_00000001, "topic-binding", "a.#"),
    (
        HeadersBinding({"n": 1}, "any"),
        "apache.org:legacy-amqp-headers-binding:map",
        0x0000468C_00000002,
        "headers-binding",
        {"x-match": Symbol("any"), "n": 1},
    ),
    (
        PropertiesFilter(subject=StartsWith("a"), message_id=7, group_sequence=3, content_type="text/plain"),
        "amqp:properties-filter",
        0x173,
        "properties-filter",
        {
            Symbol("subject"): "&p:a",
            Symbol("message-id"): ULong(7),
            Symbol("group-sequence"): UInt(3),
            Symbol("content-type"): Symbol("text/plain"),
        },
    ),
    (
        ApplicationPropertiesFilter({"a": "x", "b": EndsWith("z"), "c": "&p:no prefix", "d": None, "e": True}),
        "amqp:application-properties-filter",
        0x174,
        "application-properties-filter",
        {"a": "x", "b": "&s:z", "c": "&&p:no prefix", "d": None, "e": True},
    ),
    (SqlFilter("p.subject = 'x'"), "amqp:sql-filter", 0x120, "sql-filter", "p.subject = 'x'"),
    (StreamOffset("first"), "rabbitmq:stream-offset-spec", None, "rabbitmq:stream-offset-spec", "first"),
    (StreamOffset(5), "rabbitmq:stream-offset-spec", None, "rabbitmq:stream-offset-spec", ULong(5)),
    (StreamOffset(MOMENT), "rabbitmq:stream-offset-spec", None, "rabbitmq:stream-offset-spec", MOMENT),
    (StreamOffset("10m"), "rabbitmq:stream-offset-spec", None, "rabbitmq:stream-offset-spec", "10m"),
    (
        StreamOffset(timedelta(minutes=1, milliseconds=1)),
        "rabbitmq:stream-offset-spec",
        None,
        "rabbitmq:stream-offset-spec",
        "61s",
    ),
    (StreamFilter("eu", "us"), "rabbitmq:stream-filter", None, "rabbitmq:stream-filter", ["eu", "us"]),
    (StreamMatchUnfiltered(), "rabbitmq:stream-match-unfiltered", None, "rabbitmq:stream-match-unfiltered", True),
    (
        EventPosition.offset("12'3", inclusive=True),
        "apache.org:selector-filter:string",
        0x00000013_7000000A,
        "apache.org:selector-filter:string",
        "amqp.annotation.x-opt-offset >= '12''3'",
    ),
]


@pytest.mark.parametrize(("given", "symbol", "code", "name", "value"), WIRE)
def test_on_the_wire(given: Filter, symbol: str, code: int | None, name: str, value: Any) -> None:
    """Each filter is a described value of its registered descriptor, in AMQP's types, under its usual name."""
    assert (given.descriptor_name, given.descriptor_code) == (symbol, code)
    described = decode(Source("q", filters=[given]).encode())
    ((key, sent),) = described.value[7].items()
    assert type(key) is Symbol
    assert (key, sent) == (name, Described(Symbol(symbol), value))
    assert type(sent.value) is type(value) or isinstance(value, str)
    if isinstance(value, dict):
        assert [(type(k), type(v)) for k, v in sent.value.items()] == [(type(k), type(v)) for k, v in value.items()]


def test_event_positions() -> None:
    """The five ways to say where in a partition to begin, as Azure's own clients say them."""
    said = [
        EventPosition.first(),
        EventPosition.latest(),
        EventPosition.sequence_number(42),
        EventPosition.sequence_number(42, inclusive=True),
        EventPosition.enqueued_time(MOMENT),
    ]
    assert [position.value.removeprefix("amqp.annotation.x-opt-") for position in said] == [
        "offset > '-1'",
        "offset > '@latest'",
        "sequence-number > '42'",
        "sequence-number >= '42'",
        "enqueued-time > '1709210096789'",
    ]


def test_properties_of_every_type() -> None:
    """Identifiers of all four types and moments go as what they are."""
    key = uuid.uuid4()
    given = PropertiesFilter(message_id=key, correlation_id=b"c", creation_time=MOMENT, user_id=b"u", to="&to")
    assert given.value == {
        "message-id": key,
        "correlation-id": b"c",
        "creation-time": MOMENT,
        "user-id": b"u",
        "to": "&&to",
    }


WRONG: list[tuple[Any, type[Exception]]] = [
    (lambda: HeadersBinding({}, "some"), ValueError),  # type: ignore[arg-type]
    (lambda: HeadersBinding({"x-match": "any"}), ValueError),
    (lambda: PropertiesFilter(subjekt="x"), TypeError),  # type: ignore[call-arg]
    (lambda: StreamOffset("soon"), ValueError),
    (lambda: StreamOffset(1.5), TypeError),  # type: ignore[arg-type]
    (lambda: StreamOffset(True), TypeError),
    (lambda: StreamOffset(None), TypeError),  # type: ignore[arg-type]
    (lambda: StreamFilter(["eu", "us"]), TypeError),  # type: ignore[arg-type]
    (lambda: Selector(None), TypeError),  # type: ignore[arg-type]
    (lambda: StreamOffset("10 minutes"), ValueError),
    (lambda: StreamOffset(-1), ValueError),
    (lambda: StreamOffset(timedelta(seconds=-1)), ValueError),
    (lambda: StreamOffset(MOMENT.replace(tzinfo=None)), ValueError),
    (lambda: EventPosition.enqueued_time(MOMENT.replace(tzinfo=None)), ValueError),
    (lambda: StreamFilter(), ValueError),
]


@pytest.mark.parametrize(("make", "error"), WRONG)
def test_what_no_peer_would_understand_is_refused(make: Any, error: type[Exception]) -> None:
    """Mistakes that can be seen here are not sent."""
    with pytest.raises(error):
        make()


def test_filters_of_ones_own() -> None:
    """A subclass with a descriptor and a name is a filter like the others."""

    class Sample(Filter):
        descriptor_name = Symbol("example:sample:float")
        descriptor_code = 0x1234_0000_0001
        usual_name = "sample"

    assert Source("q", filters=[Sample(0.5)]).filter == {"sample": Described(Symbol("example:sample:float"), 0.5)}
    assert (
        unapplied_filters(
            {"sample": Sample(0.5).described}, {Symbol("sample"): Described(ULong(0x1234_0000_0001), 0.5)}
        )
        == {}
    )


def test_equal_and_shown() -> None:
    """Filters are values: equal by what they say, and shown as what makes them."""
    assert Selector("a = 1") == Selector("a = 1") != Selector("a = 2")
    assert Selector("a = 1") != Selector("a = 1").named("other")
    assert Selector("a = 1") != "a = 1"
    assert (repr(Selector("a = 1")), repr(NoLocal())) == ("Selector('a = 1')", "NoLocal()")


SELECTOR = Symbol("apache.org:selector-filter:string")
ASKED = {"s": Described(SELECTOR, "a = 1")}


@pytest.mark.parametrize(
    ("asked", "answer", "missing"),
    [
        pytest.param(ASKED, ASKED, [], id="as asked"),
        pytest.param(ASKED, {"s": Described(ULong(0x0000468C_00000004), "a = 1")}, [], id="by number"),
        pytest.param(ASKED, {"jms": Described(SELECTOR, "a = 1")}, [], id="under another name"),
        pytest.param(ASKED, {"s": Described(SELECTOR, "(a = 1)")}, [], id="in other words"),
        pytest.param(ASKED, {"s": "a = 1"}, [], id="not described, of the name"),
        pytest.param(ASKED, None, ["s"], id="no answer"),
        pytest.param(ASKED, {}, ["s"], id="empty"),
        pytest.param(ASKED, {"s": None}, ["s"], id="null"),
        pytest.param(ASKED, {"other": "a = 1"}, ["s"], id="not described, of another name"),
        pytest.param(ASKED, {"s": Described(Symbol("amqp:sql-filter"), "a = 1")}, ["s"], id="of another kind"),
        pytest.param(
            {"one": Described(SELECTOR, "a = 1"), "two": Described(SELECTOR, "b = 1")},
            {"one": Described(SELECTOR, "a = 1")},
            ["two"],
            id="one of two of a kind",
        ),
        pytest.param(
            {"one": Described(SELECTOR, "a = 1"), "two": Described(SELECTOR, "b = 1")},
            {"x": Described(SELECTOR, "a = 1")},
            ["two"],
            id="one of two, renamed",
        ),
        pytest.param(ASKED, {"x": Described([], "a = 1")}, ["s"], id="described by a list"),
        pytest.param({"s": None}, None, [], id="nothing asked"),
        pytest.param(None, ASKED, [], id="more than asked"),
        pytest.param({"raw": "x"}, {"raw": "y"}, [], id="raw, of the name"),
        pytest.param({"raw": "x"}, {"other": "x"}, ["raw"], id="raw, of another name"),
        pytest.param(
            {"e": EventPosition.first().described}, {"e": Described(ULong(0x00000013_7000000A), "...")}, [], id="azure"
        ),
    ],
)
def test_echo(asked: Any, answer: Any, missing: list[str]) -> None:
    """A filter is applied if the answer has one of its kind, by either descriptor and whatever name; else it is not."""
    assert list(unapplied_filters(asked, answer)) == missing
