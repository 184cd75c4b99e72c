"""Bindings of headers exchanges: all, any, with and without x-."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp10.broker._routing.headers_match import NoMatch, header_match, headers_of
from amqp10.types import Int, Symbol, UByte

names = st.sampled_from(["color", "size", "x-kind", "x"])
values: st.SearchStrategy[Any] = st.sampled_from([None, "red", "1", 1, 1.0, True, False, b"red", [1], {"a": 1}])


@given(
    st.sampled_from([None, "all", "any", "all-with-x", "any-with-x"]),
    st.dictionaries(names, values),
    st.dictionaries(names, values),
)
def test_as_defined(kind: str | None, wanted: dict[str, Any], headers: dict[str, Any]) -> None:
    """All or any of the arguments fit: the header is there, and equal unless the argument is void."""
    arguments = {**wanted, "x-match": kind} if kind is not None else wanted
    tests = []
    for name, value in wanted.items():
        if name.startswith("x-") and not (kind or "").endswith("-with-x"):
            continue
        there = name in headers
        found = headers.get(name)
        both_bool = isinstance(found, bool) == isinstance(value, bool)
        tests.append(there and (value is None or (both_bool and found == value)))
    expected = any(tests) if (kind or "all").startswith("any") else all(tests)
    assert header_match(arguments)(headers) is expected


def test_kinds_of_numbers() -> None:
    """A number is equal to the same number of another AMQP type."""
    assert header_match({"n": Int(7)})({"n": UByte(7)})
    assert header_match({"n": 7})({"n": 7.0})
    assert not header_match({"n": 1})({"n": True})
    assert header_match({"s": "a"})({"s": Symbol("a")})


@pytest.mark.parametrize("kind", ["none", 1, ["all"], True])
def test_no_such_match(kind: Any) -> None:
    """Another x-match is refused when it is bound."""
    with pytest.raises(NoMatch, match="x-match must be one of all, any"):
        header_match({"x-match": kind})


def test_headers_of_a_message() -> None:
    """Headers are the application properties, and of the annotations those that begin with x-."""
    assert headers_of({"a": 1}, {Symbol("x-b"): 2, Symbol("c"): 3, 7: 4}) == {"a": 1, "x-b": 2}
    assert headers_of({"a": 1}, {}) == {"a": 1}
    native = {"type": "t", "headers": {"table": {"k": 1}, "array": [1], "a": "other"}}
    expected = {"a": 1, "x-b": 2, "table": {"k": 1}, "array": [1]}
    assert headers_of({"a": 1}, {Symbol("x-b"): 2, Symbol("x-opt-0-9-1"): native}) == expected
    for odd in (5, {"headers": 5}, {}):
        assert headers_of({"a": 1}, {Symbol("x-opt-0-9-1"): odd}) == {"a": 1}
