"""Selectors by the thousand: any text, any tree, any pattern, any value."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amqp10.messaging import Message, Selector, SqlFilter

from ...kit.inside.broker import JMS, SQL, Candidate, Grammar, QueuedMessage, SelectorError, like, parse


def value(text: str, message: Message) -> Any:
    """What a condition comes to: True, False, or None for unknown."""
    return parse(text, JMS)(Candidate(QueuedMessage(message.encode())))


SAMPLE = Message("x", subject="s", application_properties={"a": 1, "d": "x", "o": True})


@given(st.text(max_size=60) | st.text(alphabet="aAnNdDoOrR ()'\"=<>1.%_-+*/,[]xX:$#LIKETRUE", max_size=60))
@settings(max_examples=5 * settings().max_examples)
@pytest.mark.slow
def test_any_text_is_a_condition_or_an_error(text: str) -> None:
    """Whatever is written, parsing ends with a condition or with a `SelectorError`, and a condition with an answer."""
    for grammar in (JMS, SQL):
        try:
            condition = parse(text, grammar)
        except SelectorError:
            continue
        assert condition(Candidate(QueuedMessage(SAMPLE.encode()))) in (True, False, None)


# Against a plain reading of the same tree

NAMES = ["a", "b", "c"]
numbers = st.integers(-5, 5) | st.sampled_from([0.5, -1.5, 2.0])
texts = st.sampled_from(["", "x", "xy", "it's"])
given_values = st.booleans() | numbers | texts
literals = given_values.map(lambda value: ("literal", value))
ORDER = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
ARITHMETIC = {"+": operator.add, "-": operator.sub, "*": operator.mul}
Tree = tuple[Any, ...]


def written(tree: Tree) -> str:
    """A tree as text, in parentheses throughout."""
    kind, *rest = tree
    if kind == "name":
        return str(rest[0])
    if kind == "literal":
        literal = rest[0]
        if isinstance(literal, str):
            return "'" + literal.replace("'", "''") + "'"
        return str(literal).upper()
    if kind in ("AND", "OR"):
        return "(" + f" {kind} ".join(map(written, rest)) + ")"
    if kind == "NOT":
        return f"(NOT {written(rest[0])})"
    if kind == "IS NULL":
        return f"({rest[0]} IS NULL)"
    if kind == "IN":
        return f"({rest[0]} IN ({', '.join(written(('literal', each)) for each in rest[1])}))"
    if kind == "BETWEEN":
        return f"({written(rest[0])} BETWEEN {written(rest[1])} AND {written(rest[2])})"
    return f"({written(rest[0])} {kind} {written(rest[1])})"


def read(tree: Tree, properties: dict[str, Any]) -> Any:
    """What a tree comes to, straight from the words of the specification."""
    kind, *rest = tree
    if kind == "name":
        return properties.get(rest[0])
    if kind == "literal":
        return rest[0]
    if kind in ("AND", "OR", "NOT"):
        parts = [None if (found := read(part, properties)) is None else found is True for part in rest]
        if kind == "NOT":
            return None if parts[0] is None else not parts[0]
        decisive = kind == "OR"
        return decisive if decisive in parts else None if None in parts else not decisive
    if kind == "IS NULL":
        return properties.get(rest[0]) is None
    if kind == "IN":
        found = properties.get(rest[0])
        return found in rest[1] if isinstance(found, str) else None
    if kind == "BETWEEN":
        return read(("AND", (">=", rest[0], rest[1]), ("<=", rest[0], rest[2])), properties)
    one, other = read(rest[0], properties), read(rest[1], properties)
    if one is None or other is None:
        return None
    numeric = all(isinstance(each, int | float) and not isinstance(each, bool) for each in (one, other))
    if kind in ARITHMETIC:
        return ARITHMETIC[kind](one, other) if numeric else None
    same = (numeric or type(one) is type(other)) and one == other
    if kind in ("=", "<>"):
        return same is (kind == "=")
    return numeric and ORDER[kind](one, other)


names = st.sampled_from(NAMES).map(lambda name: ("name", name))
sums: st.SearchStrategy[Tree] = st.recursive(
    names | numbers.map(lambda number: ("literal", number)),
    lambda inner: st.tuples(st.sampled_from("+-*"), inner, inner),
    max_leaves=3,
)
leaves = st.one_of(
    names,
    st.tuples(st.sampled_from(["=", "<>"]), names, literals),
    st.tuples(st.sampled_from(["=", "<>", "<", "<=", ">", ">="]), sums, sums),
    st.tuples(st.just("IS NULL"), st.sampled_from(NAMES)),
    st.tuples(st.just("IN"), st.sampled_from(NAMES), st.lists(texts, min_size=1, max_size=3)),
    st.tuples(st.just("BETWEEN"), sums, sums, sums),
)
trees: st.SearchStrategy[Tree] = st.recursive(
    leaves,
    lambda inner: st.tuples(st.sampled_from(["AND", "OR"]), inner, inner) | st.tuples(st.just("NOT"), inner),
    max_leaves=6,
)


@given(trees, st.fixed_dictionaries({}, optional=dict.fromkeys(NAMES, st.none() | given_values)))
@settings(max_examples=5 * settings().max_examples, deadline=None)
def test_as_the_specification_reads(tree: Tree, properties: dict[str, Any]) -> None:
    """Closures come to what a plain walk over the same tree comes to, for every message."""
    expected = read(("AND", tree), properties)  # a name alone is a condition
    assert value(written(tree), Message(application_properties=properties)) is expected


@given(st.text(max_size=12), st.text(alphabet="ab%_.*\\", max_size=8), st.text(alphabet="ab.*%_\\\n", max_size=12))
@settings(max_examples=5 * settings().max_examples)
def test_like(other: str, pattern: str, text: str) -> None:
    """LIKE agrees with a regular expression that may try everything."""
    pieces = {"%": ".*", "_": "."}
    plain = re.compile("".join(pieces.get(character, re.escape(character)) for character in pattern), re.DOTALL)
    for each in (text, other):
        assert like(pattern, None)(each) is (plain.fullmatch(each) is not None)
    escaped = "".join(f"!{character}" if character in "%_!" else character for character in other)
    assert like(escaped, "!")(other)
    assert like(f"%{escaped}%", "!")(text + other + text)


@given(st.text() | st.integers(-(2**63), 2**63 - 1) | st.booleans() | st.floats(allow_nan=False, allow_infinity=False))
@settings(max_examples=3 * settings().max_examples)
def test_bound_values_are_only_values(bound: Any) -> None:
    """Whatever value goes into a selector, it selects the messages that have that value, and no other."""
    other = "other" if bound != "other" else "another"
    readings: list[tuple[Callable[..., Any], Grammar]] = [(Selector, JMS), (SqlFilter, SQL)]
    for kind, grammar in readings:
        condition = parse(kind("x = :v OR x IN :l", v=bound, l=["no such"]).value, grammar)
        for candidate, selected in ((bound, True), (other, False)):
            message = Message(application_properties={"x": candidate})
            assert (condition(Candidate(QueuedMessage(message.encode()))) is True) is selected
