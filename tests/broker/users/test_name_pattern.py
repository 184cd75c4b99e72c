"""Patterns of names: they match what Python's `re` finds, in time in proportion to the name."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp10.broker import Permissions
from amqp10.broker._users.name_pattern import NamePattern

LETTERS = "ab.\\]-^$|{}\nβ"
ATOMS = st.sampled_from(
    ["a", "b", ".", r"\.", r"\w", "[ab]", "[^a]", "[]a]", r"[\]b]", "[a-b-]", "^", "$", "", "{", r"\x61", "β"]
)


def patterns() -> st.SearchStrategy[str]:
    def deeper(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        repeat = st.sampled_from(["*", "+", "?", "*?", "+?", "??", "{2}", "{1,2}", "{,2}", "{1,}", "{0}"])
        return st.one_of(
            st.lists(inner, max_size=3).map("".join),
            st.lists(inner, min_size=1, max_size=3).map(lambda parts: f"({'|'.join(parts)})"),
            inner.map(lambda part: f"(?P<x>{part})" if "?P<" not in part else part),
            st.tuples(inner, st.sampled_from("!="), inner).map(lambda all_: f"^(?{all_[1]}{all_[0]}){all_[2]}"),
            st.tuples(inner, repeat).map(lambda both: f"(?:{both[0]}){both[1]}"),
        )

    return st.recursive(ATOMS, deeper, max_leaves=6)


@given(patterns(), st.text(LETTERS, max_size=6))
def test_like_re(pattern: str, name: str) -> None:
    """Names that end in a line feed aside, before which `$` matches in Python: no permission is for these."""
    try:
        found = re.search(pattern, name.rstrip("\n")) is not None
    except re.error:
        return
    assert NamePattern(pattern).matches(name.rstrip("\n")) is found


@pytest.mark.parametrize(
    "pattern", ["^(a+)+$", "^(a|a)*$", "a*a*a*a*a*a*a*a*b", "(a?){30}a{30}$", "^((a*)*)*b", "^(?!b)(?=(a+)+!)(a+)+$"]
)
def test_hostile_names(pattern: str) -> None:
    """What would take `re` longer than anybody waits."""
    assert not Permissions(read=pattern).allows("read", "a" * 2000 + "!")


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("(", "unterminated subpattern"),
        ("(?!x)", "groups are"),
        ("^a(?!x)", "groups are"),
        ("(?:^|a)(?!x)", "groups are"),
        ("(?=x)", "groups are"),
        ("(?i)x", "groups are"),
        (r"(a)\1", "not supported in patterns of names"),
        (r"\bx", "not supported in patterns of names"),
        ("((a{100}){100}){100}", "must have at most 2000 places"),
        ("(?:" * 3000 + ")" * 3000, "recursion"),
    ],
)
def test_refused(pattern: str, why: str) -> None:
    """With the field, the pattern, and what is wrong with it."""
    with pytest.raises(ValueError, match=rf"^write must be a regular expression, .*{why}"):
        Permissions(write=pattern)
