"""The position where a reader begins, in the selector filter of its source."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from ....types import Described, Symbol
from ..._errors import Refused

if TYPE_CHECKING:
    from ....messaging import Source

SELECTOR: Final = Symbol("apache.org:selector-filter:string")
_DESCRIPTORS: Final = (SELECTOR, 0x0000468C00000004, 0x000000137000000A)
"""Its name, the code that Apache registered for it, and the code that Azure's clients for Rust and Go use."""
_WORDS: Final = re.compile(
    r"\s*amqp\.annotation\.x-opt-(offset|sequence-number|enqueued-time|enqueuedtimeutc)\s*(>=?)\s*"
    r"(?:'([^']*)'|(-?\d+))\s*",
    re.IGNORECASE | re.ASCII,
)
_NUMBER: Final = re.compile(r"-?\d{1,19}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Position:
    """A position: an event, a time, the first event, or the next one to come.

    Attributes:
        value: the number that the reader named; for a time, milliseconds since 1970.
        inclusive: whether an event exactly there is read, too.
    """

    kind: Literal["first", "last", "offset", "sequence", "time"] = "first"
    value: int = -1
    inclusive: bool = False


def position_in(source: Source) -> tuple[Position, dict[Any, Any] | None]:
    """Return the position where a reader begins, by default the first event, and the filter that names it.

    Raises:
        Refused: the filter is not that of a position.
    """
    for name, each in (source.filter or {}).items():
        value = each.value if isinstance(each, Described) else each
        if name == SELECTOR or (isinstance(each, Described) and each.descriptor in _DESCRIPTORS):
            return _read(value), {name: each}
    return Position(), None


def _read(selector: object) -> Position:
    words = _WORDS.fullmatch(selector) if isinstance(selector, str) else None
    if words is None:
        raise _wrong(selector)
    field, inclusive = words[1].casefold(), words[2] == ">="
    value = words[3] if words[3] is not None else words[4]
    if field == "offset" and value == "@latest":
        return Position("last")
    if not _NUMBER.fullmatch(value) or int(value) < -1:
        raise _wrong(selector)
    number = int(value)
    if field == "offset":
        return Position() if number == -1 else Position("offset", number, inclusive)
    if field == "sequence-number":
        return Position() if number == -1 else Position("sequence", number, inclusive)
    return Position("time", number, inclusive)


def _wrong(value: object) -> Refused:
    rule = (
        "is \"amqp.annotation.x-opt-offset > '...'\", or of x-opt-sequence-number or x-opt-enqueued-time, with > or >="
    )
    return Refused("com.microsoft:argument-error", f"the filter {SELECTOR} {rule}, not {value!r:.200}")
