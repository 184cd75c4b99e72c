"""Filters that are no expressions: bindings of the older dialects, and fields compared with values.

Bindings follow https://svn.apache.org/repos/asf/qpid/trunk/qpid/specs/apache-filters.xml, property filters the AMQP
filter expressions 1.0, section 4:
https://docs.oasis-open.org/amqp/filtex/v1.0/csd01/filtex-v1.0-csd01.html#_Toc67929266
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

from ...messaging import PropertyValues
from .selector.fields import application_property, section_field
from .selector.values import Candidate, Value, has, plain, same

# Returns True if a message passes; any other result means that it does not.
Test = Callable[[Candidate], object]

# "Impose a limit on the complexity of each filter expression" (AMQP filter expressions, section 7.1).
_MAX_FIELDS: Final = 64
# Routing keys of the older dialects have at most 255 octets.
_MAX_KEY_LENGTH: Final = 255


class Malformed(ValueError):
    """The value of a filter is invalid for its kind."""


# Bindings


def direct_binding(value: Any) -> Test:
    """Make a test whether the subject equals `value`."""
    key = _key(value)
    return lambda candidate: candidate.field("subject") == key


def topic_binding(value: Any) -> Test:
    """Make a test whether the subject matches a pattern. Only "#" matches a missing or overlong subject."""
    pattern = _key(value).split(".")
    fits = topic_test(pattern)

    def test(candidate: Candidate) -> bool:
        subject = candidate.field("subject")
        if subject is None or len(subject) > _MAX_KEY_LENGTH:
            return pattern == ["#"]
        return fits(subject.split("."))

    return test


def _key(value: Any) -> str:
    if not isinstance(value, str) or len(value) > _MAX_KEY_LENGTH:
        raise Malformed(f"a binding must be a string of at most {_MAX_KEY_LENGTH} characters")
    return value


def topic_test(pattern: list[str]) -> Callable[[list[str]], bool]:
    """Make a test whether words match a pattern, in which `*` matches any one word and `#` any number of words.

    Each bit of an int stands for a position in the pattern, the lowest for its beginning; set bits are the positions
    reachable by the words so far. So each word takes a few steps, whatever the pattern is.
    """
    words = [word for at, word in enumerate(pattern) if not (at and word == "#" == pattern[at - 1])]
    hashes = sum(1 << at for at, word in enumerate(words) if word == "#")
    stars = sum(1 << at for at, word in enumerate(words) if word == "*")
    takes = {
        word: stars | sum(1 << at for at, other in enumerate(words) if other == word)
        for word in set(words) - {"*", "#"}
    }
    begin, end = 1 | (hashes & 1) << 1, 1 << len(words)

    def fits(key: list[str]) -> bool:
        reached = begin
        for word in key:
            following = reached & hashes | (reached & takes.get(word, stars)) << 1
            reached = following | (following & hashes) << 1  # a `#` may match no word
            if not reached:
                return False
        return bool(reached & end)

    return fits


def headers_binding(value: Any) -> Test:
    """Make a test whether all, or any, of these application properties exist and have the given values, if any."""
    fields = _map(value)
    match = fields.get("x-match")
    if match not in ("all", "any"):
        raise Malformed('the "x-match" of a headers binding must be all or any')
    tests = [_there(name, plain(wanted)) for name, wanted in fields.items() if not name.startswith("x-")]
    combine = all if match == "all" else any
    return lambda candidate: combine(test(candidate) for test in tests)


def _there(name: str, wanted: Any) -> Test:
    return lambda candidate: has(candidate.application_properties, name, wanted)


# Property filters


def properties_filter(value: Any) -> Test:
    """Make a test whether these fields of the properties match; a reference of None matches any value."""
    tests = []
    for name, wanted in _map(value).items():
        field = name.replace("-", "_")
        if field not in PropertyValues.__annotations__ or "_" in name:
            raise Malformed(f"the properties of a message have no {name!r:.60}")
        if wanted is not None:
            tests.append(_matches(section_field(f"properties.{field}"), wanted))
    return lambda candidate: all(test(candidate) for test in tests)


def application_properties_filter(value: Any) -> Test:
    """Make a test whether these application properties match; a reference of None matches any value."""
    tests = [
        _there(name, None) if wanted is None else _matches(application_property(name), wanted)
        for name, wanted in _map(value).items()
    ]
    return lambda candidate: all(test(candidate) for test in tests)


def _matches(field: Value, wanted: Any) -> Test:
    """Make a test whether a field matches its reference (section 4.1.1)."""
    if type(wanted) is str and wanted.startswith("&"):
        mark, text = wanted[:3], wanted[3:]
        if mark == "&p:":
            return lambda candidate: isinstance(it := field(candidate), str) and it.startswith(text)
        if mark == "&s:":
            return lambda candidate: isinstance(it := field(candidate), str) and it.endswith(text)
        if not wanted.startswith("&&"):
            raise Malformed(f"{wanted!r:.60} begins with an ampersand and is neither prefix nor suffix")
        wanted = wanted[1:]
    plainly = plain(wanted)
    return lambda candidate: same(field(candidate), plainly)


def _map(value: Any) -> dict[str, Any]:
    """Return the value of a filter.

    Raises:
        Malformed: it is not a map from names to simple values, or has too many.
    """
    if not isinstance(value, dict) or not all(isinstance(name, str) for name in value):
        raise Malformed("its value must be a map whose keys are names")
    if len(value) > _MAX_FIELDS:
        raise Malformed(f"it must have at most {_MAX_FIELDS} fields")
    for name, wanted in value.items():
        if not isinstance(wanted, _SIMPLE | None):
            raise Malformed(f"the value of {name!r:.60} must have a simple type")
    return value


_SIMPLE = str | bool | int | float | bytes | Decimal | datetime | UUID
