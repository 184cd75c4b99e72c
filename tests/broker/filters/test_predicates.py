"""`broker/_filters/predicates.py`: bindings and property filters."""

from __future__ import annotations

import re
import uuid
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp10.broker._filters.predicates import (
    Malformed,
    application_properties_filter,
    direct_binding,
    headers_binding,
    properties_filter,
    topic_binding,
    topic_test,
)
from amqp10.messaging import (
    ApplicationPropertiesFilter,
    EndsWith,
    HeadersBinding,
    Message,
    PropertiesFilter,
    StartsWith,
)
from amqp10.types import Byte, Float, Symbol, UInt, ULong, decode, encode

from ...kit.inside.broker import Candidate, QueuedMessage

MOMENT = datetime(2024, 2, 29, tzinfo=UTC)


def on(test: Any, **fields: Any) -> bool:
    """Whether a test lets the message with these fields pass."""
    return test(Candidate(QueuedMessage(Message("x", **fields).encode()))) is True


def wire(value: Any) -> Any:
    """A value as the broker gets it."""
    return decode(encode(value))


def test_direct_binding() -> None:
    """The subject, exactly."""
    test = direct_binding("eu.news")
    assert on(test, subject="eu.news")
    assert not on(test, subject="eu.news.")
    assert not on(test)


@pytest.mark.parametrize(
    ("pattern", "fits", "fits_not"),
    [
        ("*.stock.#", ["usd.stock", "eur.stock.db", "a.stock.b.c"], ["stock.nasdaq", "stock", "a.b.stock"]),
        ("#", ["", "a", "a.b"], []),
        ("a", ["a"], ["", "a.b", "b"]),
        ("*", ["a", ""], ["a.b"]),
        ("#.b", ["b", "a.b", "a.a.b"], ["b.a", ""]),
        ("a.#.b", ["a.b", "a.x.b", "a.x.y.b"], ["a", "b", "a.b.c"]),
        ("#.#", ["", "a.b"], []),
        ("a..b", ["a..b"], ["a.b"]),
    ],
)
def test_topic_binding(pattern: str, fits: list[str], fits_not: list[str]) -> None:
    """The examples of the definition, and its edges."""
    test = topic_binding(pattern)
    assert [subject for subject in (*fits, *fits_not) if on(test, subject=subject)] == fits


def test_without_a_subject() -> None:
    """ "... matches only if the value of the filter is a single #"."""
    assert on(topic_binding("#"))
    assert not on(topic_binding("*"))
    assert not on(topic_binding("#.#"))
    assert not on(topic_binding("*.#"), subject="a." * 200)
    assert on(topic_binding("#"), subject="a." * 200)


words = st.lists(st.sampled_from(["a", "b", "*", "#"]), max_size=6)


@given(words, st.lists(st.sampled_from(["a", "b", "c"]), max_size=6))
def test_topics_as_a_regular_expression_has_it(pattern: list[str], subject: list[str]) -> None:
    """Each word of a pattern is a word of a regular expression over ";"-terminated words."""
    pieces = {"*": "[^;]*;", "#": "(?:[^;]*;)*"}
    expression = "".join(pieces.get(word, f"{word};") for word in pattern)
    assert topic_test(pattern)(subject) is (re.fullmatch(expression, "".join(f"{w};" for w in subject)) is not None)


def test_headers_binding() -> None:
    """All or any of the application properties, whatever their width; None stands for any value."""
    both = headers_binding(wire(HeadersBinding({"a": 1, "b": None, "x-ignored": 5}).value))
    assert on(both, application_properties={"a": Byte(1), "b": "there", "c": 0})
    assert not on(both, application_properties={"a": 1})
    assert not on(both, application_properties={"a": "1", "b": 1})
    either = headers_binding(wire(HeadersBinding({"a": 1, "b": "x"}, "any").value))
    assert on(either, application_properties={"b": "x"})
    assert not on(either, application_properties={"a": 2})
    assert on(headers_binding(wire(HeadersBinding({}).value)))
    assert not on(headers_binding(wire(HeadersBinding({}, "any").value)))


def test_properties_filter() -> None:
    """All fields match, each in its type; a prefix or suffix stands for the rest of a string."""
    given = PropertiesFilter(
        subject=StartsWith("order."),
        to=EndsWith("/eu"),
        message_id=7,
        group_sequence=3,
        content_type="text/plain",
        creation_time=MOMENT,
        user_id=b"me",
        group_id="&literally",
    )
    test = properties_filter(wire(given.value))
    fitting: dict[str, Any] = {
        "subject": "order.created",
        "to": "orders/eu",
        "message_id": 7,
        "group_sequence": 3,
        "content_type": "text/plain",
        "creation_time": MOMENT,
        "user_id": b"me",
        "group_id": "&literally",
    }
    assert on(test, **fitting)
    wrong: dict[str, Any] = {
        "subject": "Order.created",
        "to": "orders/us",
        "message_id": "7",
        "group_sequence": 4,
        "content_type": None,
        "creation_time": None,
        "user_id": b"you",
        "group_id": "literally",
    }
    for name, value in wrong.items():
        assert not on(test, **{**fitting, name: value}), name
    assert on(properties_filter({Symbol("subject"): None}))


def test_identifiers_of_every_type() -> None:
    """Each of the four types equals itself only."""
    identifiers: list[Any] = ["7", 7, b"7", uuid.UUID(int=7)]
    for one in identifiers:
        test = properties_filter(wire(PropertiesFilter(correlation_id=one).value))
        assert [other for other in identifiers if on(test, correlation_id=other)] == [one]


def test_application_properties_filter() -> None:
    """Numbers are equal whatever their type; a missing property matches nothing, not even null."""
    test = application_properties_filter(
        wire(ApplicationPropertiesFilter({"n": 1, "s": StartsWith("a"), "any": None, "flag": True}).value)
    )
    fitting = {"n": Float(1), "s": "abc", "any": 0, "flag": True}
    assert on(test, application_properties=fitting)
    assert on(test, application_properties={**fitting, "n": UInt(1), "any": None})
    for changes in ({"n": 2}, {"n": "1"}, {"n": True}, {"s": "ba"}, {"s": 1}, {"flag": 1}):
        assert not on(test, application_properties={**fitting, **changes})
    for missing in fitting:
        assert not on(test, application_properties={k: v for k, v in fitting.items() if k != missing})


@pytest.mark.parametrize(
    ("make", "value"),
    [
        (direct_binding, 5),
        (direct_binding, "x" * 256),
        (topic_binding, ["a"]),
        (topic_binding, "#." * 200),
        (headers_binding, {"a": 1}),
        (headers_binding, {"x-match": "some"}),
        (headers_binding, {"x-match": "all", 1: 2}),
        (headers_binding, "x"),
        (properties_filter, {"subjekt": "x"}),
        (properties_filter, {"message_id": "x"}),
        (properties_filter, {"subject": "&x:y"}),
        (properties_filter, {"subject": ["a"]}),
        (properties_filter, "x"),
        (application_properties_filter, {"a": {"b": 1}}),
        (application_properties_filter, {"a": "&"}),
        (application_properties_filter, {ULong(1): "a"}),
        (application_properties_filter, {f"p{n}": n for n in range(65)}),
    ],
)
def test_malformed(make: Any, value: Any) -> None:
    """What no filter of the kind can be is not guessed at."""
    with pytest.raises(Malformed):
        make(value)
