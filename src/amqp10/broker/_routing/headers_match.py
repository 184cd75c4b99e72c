"""The test of a headers exchange: a message must match all arguments of a binding, or any of them.

`x-match` is "all" (the default), "any", "all-with-x" or "any-with-x"; without `-with-x`, arguments that begin with "x-"
are ignored. An argument without a value only requires that the header exists.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ...types import Symbol
from .._filters.selector.values import has, plain

Headers = Mapping[str, Any]
Test = Callable[[Headers], bool]

_NATIVE = "x-opt-0-9-1"  # holds, by name, the headers of 0-9-1 whose types application-properties cannot have
_MATCHES = {"all": (all, False), "any": (any, False), "all-with-x": (all, True), "any-with-x": (any, True)}


class NoMatch(ValueError):
    """The arguments of a binding are invalid."""


def header_match(arguments: Mapping[str, Any]) -> Test:
    """Make a test of headers from the arguments of a binding.

    Raises:
        NoMatch: `x-match` is not one of the four.
    """
    kind = arguments.get("x-match", "all")
    try:
        combine, with_x = _MATCHES[kind]
    except (KeyError, TypeError):
        raise NoMatch(f"x-match must be one of {', '.join(_MATCHES)}, not {kind!r:.60}") from None
    wanted = [
        (name, plain(value))
        for name, value in arguments.items()
        if name != "x-match" and (with_x or not name.startswith("x-"))
    ]
    return lambda headers: combine(has(headers, name, value) for name, value in wanted)


def headers_of(application_properties: Mapping[str, Any], message_annotations: Mapping[Any, Any]) -> Headers:
    """Return the headers of a message as the older dialects see them.

    In 1.0 a header x-... is an annotation. Another annotation holds tables and arrays, which application-properties
    cannot have.
    """
    annotations = {
        str(name): value
        for name, value in message_annotations.items()
        if isinstance(name, Symbol | str) and name.startswith("x-")
    }
    native = annotations.pop(_NATIVE, None)
    if isinstance(native, dict) and isinstance(native.get("headers"), dict):
        annotations |= native["headers"]
    return {**annotations, **application_properties} if annotations else application_properties
