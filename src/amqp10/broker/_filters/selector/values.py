"""The evaluation of selectors in three-valued logic: closures that compute a value of a message, built of closures.

An unknown value is None, and whatever is computed from it is unknown (Jakarta Messaging 3.8.1.2). If a value is of the
wrong kind for an operator, a comparison is false, and arithmetic is unknown. `<>` is the opposite of `=`, as in
Artemis, Broker-J and RabbitMQ: it is true for values of different kinds.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from ....messaging import Message
from ....messaging.sections import APPLICATION_PROPERTIES, MAPS
from ....types import (
    Byte,
    Decimal32,
    Decimal64,
    Decimal128,
    Float,
    Int,
    Short,
    Symbol,
    Timestamp,
    UByte,
    UInt,
    ULong,
    UShort,
)
from ....types.codec import fast
from ..._queues.message import UNREAD, application_properties_at, properties_of, text_in

if TYPE_CHECKING:
    from ..._queues.message import QueuedMessage

MAX_STEPS: Final = 2_000_000
"""The steps that all filters of one link may take in one message for LIKE and for comparing long values: a few
milliseconds.
"""


# The fields of the properties that are strings in most messages, by their place in the list (§3.2.4).
_TEXTS: Final = {
    "message_id": 0,
    "to": 2,
    "subject": 3,
    "reply_to": 4,
    "correlation_id": 5,
    "group_id": 10,
    "reply_to_group_id": 12,
}


class Candidate:
    """A message as filters see it; only what they ask for is decoded.

    Application properties are read without the other sections, and a string in the properties without the other fields.
    So faults in what no filter asks for are not noticed.

    Attributes:
        steps: the steps that are left of `MAX_STEPS`.
        unreadable: whether something that a filter asked for is malformed.
    """

    __slots__ = ("_application_properties", "_message", "_properties", "entry", "steps", "unreadable")

    def __init__(self, entry: QueuedMessage) -> None:
        self.entry: QueuedMessage = entry
        self.steps: int = MAX_STEPS
        self.unreadable: bool = False
        self._application_properties: dict[str, Any] | None = None
        self._message: Message | None = None
        self._properties: tuple[int, int] | None = None  # where they begin and end, once known

    @property
    def message(self) -> Message:
        """The message. One of a format other than 0 has no sections that could be read (§2.7.5)."""
        message = self._message
        if message is None:
            entry = self.entry
            message = self._message = Message.decode(entry.payload) if entry.message_format == 0 else Message()
        return message

    @property
    def application_properties(self) -> dict[str, Any]:
        """The application properties.

        Raises:
            DecodeError: they are malformed.
        """
        found = self._application_properties
        if found is None:
            place = self._place()
            payload = self.entry.payload
            span = None if place is None else application_properties_at(payload, place[1])
            if span is None:
                found = self.message.application_properties
            else:
                found = MAPS[APPLICATION_PROPERTIES].read(payload, span) if span[2] else {}
            self._application_properties = found
        return found

    def field(self, name: str) -> Any:
        """Return a field of the properties.

        Raises:
            DecodeError: the properties are malformed.
        """
        number = _TEXTS.get(name)
        if number is not None and (place := self._place()) is not None:
            text = text_in(self.entry.payload, place[0], place[1], number)
            if text is not UNREAD:
                return text
        return getattr(self.message, name)

    def _place(self) -> tuple[int, int] | None:
        """Return where the properties begin and end; None: read the message."""
        place = self._properties
        # The compiled codec reads a message faster than this finds a part of it.
        if place is None and self._message is None and fast is None and not self.entry.message_format:
            place = self._properties = properties_of(self.entry.payload)
        return place


def plain(value: Any) -> Any:
    """Return a value as the str, int, float or bool that selectors compute with. Other types equal only themselves."""
    convert = _CONVERSIONS.get(type(value))
    return value if convert is None else convert(value)


def _float(value: Decimal) -> float:
    return float(value) if not value.is_snan() else math.nan


def _milliseconds(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)


_CONVERSIONS: Final[dict[type, Callable[[Any], Any]]] = {
    Symbol: str,
    **dict.fromkeys((UByte, UShort, UInt, ULong, Byte, Short, Int, Timestamp), int),
    Float: float,
    **dict.fromkeys((Decimal, Decimal32, Decimal64, Decimal128), _float),
    datetime: _milliseconds,
    timedelta: lambda duration: duration // timedelta(milliseconds=1),
}


# Computes an expression for a message: a str, int, float or bool, a value that equals only itself, or None.
Value = Callable[["Candidate"], Any]

# Limits of LIKE in characters; its time grows with their product.
MAX_PATTERN_LENGTH: Final = 1000
MAX_TEXT_LENGTH: Final = 65_536

MIN_INTEGER: Final = -(1 << 63)
MAX_INTEGER: Final = (1 << 64) - 1
"""The range of whole numbers in messages. Arithmetic beyond it continues with real numbers."""

SHORT: Final = 64
"""If both of two values are longer, in characters, octets or elements, comparing them takes steps."""

ORDERINGS: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class Constant:
    """A literal."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __call__(self, candidate: Candidate) -> Any:
        return self.value


# Conditions


def truth(field: Value) -> Value:
    """Make a condition from a field: true if its value is the boolean TRUE."""

    def evaluate(candidate: Candidate) -> bool | None:
        value = field(candidate)
        return None if value is None else value is True

    return evaluate


def conjunction(parts: Sequence[Value]) -> Value:
    """Make AND: false if a part is false, otherwise unknown if a part is unknown."""

    def evaluate(candidate: Candidate) -> bool | None:
        result: bool | None = True
        for part in parts:
            value = part(candidate)
            if value is True:
                continue
            if value is False:
                return False
            result = None
        return result

    return evaluate


def disjunction(parts: Sequence[Value]) -> Value:
    """Make OR: true if a part is true, otherwise unknown if a part is unknown."""

    def evaluate(candidate: Candidate) -> bool | None:
        result: bool | None = False
        for part in parts:
            value = part(candidate)
            if value is True:
                return True
            if value is None:
                result = None
        return result

    return evaluate


def negation(part: Value) -> Value:
    """Make NOT."""

    def evaluate(candidate: Candidate) -> bool | None:
        value = part(candidate)
        return None if value is None else not value

    return evaluate


def is_null(field: Value) -> Value:
    """Make IS NULL, which is never unknown."""
    return lambda candidate: field(candidate) is None


# Comparisons


def _is_number(value: Any) -> bool:
    return type(value) is int or type(value) is float


def alike(one: Any, other: Any) -> bool:
    """Return whether two values are of types that can be compared."""
    return type(one) is type(other) or (_is_number(one) and _is_number(other))


def same(one: Any, other: Any) -> bool:
    """Return whether two values are comparable and equal."""
    return alike(one, other) and bool(one == other)


def has(fields: Mapping[str, Any], name: str, wanted: Any) -> bool:
    """Return whether there is a field of that name whose value is the same as `wanted`; None: it may be any."""
    return name in fields and (wanted is None or same(plain(fields[name]), wanted))


def _affords(candidate: Candidate, left: Any, right: Any) -> bool:
    """Return whether comparing two values, which may be long, is still within the steps of one message."""
    if type(left) is not type(right) or _is_number(left) or type(left) is bool:
        return True
    try:
        longest = min(len(left), len(right))
    except TypeError:
        return True
    nested = type(left) not in (str, bytes)
    if longest <= SHORT and not nested:
        return True
    candidate.steps -= candidate.entry.size if nested else longest
    return candidate.steps >= 0


def equality(first: Value, rest: Sequence[tuple[bool, Value]]) -> Value:
    """Make a row of = (True) and <>, which compare numbers, or values of one type, from left to right."""
    if len(rest) == 1 and isinstance(rest[0][1], Constant) and type(rest[0][1].value) is str:
        equal, literal = rest[0][0], rest[0][1].value
        if len(literal) <= SHORT:
            return _text_equality(first, equal, literal)

    def evaluate(candidate: Candidate) -> Any:
        left = first(candidate)
        for equal, value in rest:
            if left is None:
                return None
            right = value(candidate)
            if right is None or not _affords(candidate, left, right):
                return None
            left = same(left, right) is equal
        return left

    return evaluate


def _text_equality(first: Value, equal: bool, literal: str) -> Value:
    """Make = or <> with a short string, which most selectors have: comparing it takes no steps."""

    def evaluate(candidate: Candidate) -> bool | None:
        left = first(candidate)
        return None if left is None else (type(left) is str and left == literal) is equal

    return evaluate


def ordering(symbol: str, one: Value, other: Value, *, strings: bool, strict: bool = False) -> Value:
    """Make <, <=, > or >=, which compares numbers, and with `strings` also strings and binaries.

    With `strict` it raises Incomparable for values of different kinds.
    """
    holds = ORDERINGS[symbol]
    if isinstance(other, Constant) and _is_number(other.value) and not strict:
        return _number_ordering(holds, one, other.value)

    def evaluate(candidate: Candidate) -> bool | None:
        left = one(candidate)
        if left is None and not strict:
            return None
        right = other(candidate)
        if left is None or right is None:
            return None
        if strict and not alike(left, right):
            raise Incomparable(f"{left!r:.60} cannot be compared with {right!r:.60}")
        if _is_number(left):
            return _is_number(right) and holds(left, right)
        if not (strings and type(left) is type(right) and type(left) in (str, bytes)):
            return False
        return holds(left, right) if _affords(candidate, left, right) else None

    return evaluate


def _number_ordering(holds: Callable[[Any, Any], bool], one: Value, literal: float) -> Value:
    """Make <, <=, > or >= with a number, which most selectors have."""

    def evaluate(candidate: Candidate) -> bool | None:
        left = one(candidate)
        kind = type(left)
        if kind is int or kind is float:
            return holds(left, literal)
        return None if left is None else False

    return evaluate


class Incomparable(ValueError):
    """Two values cannot be compared, or a value is no number."""


def numeric(one: Value) -> Value:
    """Make a number from a value, or raise Incomparable; unknown stays unknown."""

    def evaluate(candidate: Candidate) -> Any:
        value = one(candidate)
        if value is not None and not _is_number(value):
            raise Incomparable(f"{value!r:.60} is not a number")
        return value

    return evaluate


def membership(one: Value, others: Sequence[Value]) -> Value:
    """Make IN: true if equal to one of the values."""

    def evaluate(candidate: Candidate) -> bool | None:
        value = one(candidate)
        if value is None:
            return None
        for other in others:
            each = other(candidate)
            if each is None:
                continue
            if not _affords(candidate, value, each):
                return None
            if same(value, each):
                return True
        return False

    return evaluate


def string_membership(one: Value, strings: frozenset[str]) -> Value:
    """Make IN for string literals; unknown for other types, as in Artemis and Broker-J."""

    def evaluate(candidate: Candidate) -> bool | None:
        value = one(candidate)
        return value in strings if type(value) is str else None

    return evaluate


def likeness(one: Value, pattern: str, escape: str | None) -> Value:
    """Make LIKE; unknown for a string whose search would take too many steps.

    Raises:
        ValueError: the pattern is too long, or ends with the escape character.
    """
    fits = like(pattern, escape)
    weight = _weight(pattern, escape)

    def evaluate(candidate: Candidate) -> bool | None:
        value = one(candidate)
        if value is None:
            return None
        if type(value) is not str:
            return False
        steps = len(value) * weight
        if len(value) > MAX_TEXT_LENGTH or steps > candidate.steps:
            return None
        candidate.steps -= steps
        return fits(value)

    return evaluate


def _weight(pattern: str, escape: str | None) -> int:
    """Return how often LIKE may look at each character of the text."""
    middle, at, length, wild = [], 0, 0, False
    while at < len(pattern):
        character = pattern[at]
        if character == "%":
            middle.append(length if wild else 1)
            length, wild = 0, False
        else:
            wild = wild or character == "_"
            length += 1
            at += character == escape
        at += 1
    # The parts before the first % and behind the last one are only looked for at one place.
    return sum(each for each in middle[1:] if each > 1) + 1


def like(pattern: str, escape: str | None) -> Callable[[str], bool]:
    """Make a test whether a string matches a pattern, in which % matches any characters and _ any one.

    It never backtracks: each part between two % is searched for behind the part before it, and its first match is as
    good as any other. So the time is bounded by the length of the pattern times that of the string.

    Raises:
        ValueError: the pattern is too long, or ends with the escape character.
    """
    if len(pattern) > MAX_PATTERN_LENGTH:
        raise ValueError(f"a pattern of more than {MAX_PATTERN_LENGTH} characters")
    parts: list[list[str]] = [[]]
    characters = iter(pattern)
    for character in characters:
        if character == escape:
            escaped = next(characters, None)
            if escaped is None:
                raise ValueError("the pattern ends with its escape character")
            parts[-1].append(re.escape(escaped))
        elif character == "%":
            parts.append([])
        else:
            parts[-1].append("." if character == "_" else re.escape(character))
    lengths = [len(part) for part in parts]
    first, *rest = (re.compile("".join(part), re.DOTALL) for part in parts)
    if not rest:
        return lambda text: first.fullmatch(text) is not None
    *middle, last = rest
    if not middle and not parts[-1]:
        return lambda text: first.match(text) is not None
    least = sum(lengths)

    def fits(text: str) -> bool:
        if len(text) < least or first.match(text) is None:
            return False
        at = lengths[0]
        for each in middle:
            found = each.search(text, at)
            if found is None:
                return False
            at = found.end()
        tail = len(text) - lengths[-1]
        return tail >= at and last.match(text, tail) is not None

    return fits


# Arithmetic


def minus(one: Value) -> Value:
    """Make the negative of a number."""

    def evaluate(candidate: Candidate) -> Any:
        value = one(candidate)
        return -value if _is_number(value) else None

    return evaluate


def arithmetic(first: Value, rest: Sequence[tuple[str, Value]]) -> Value:
    """Make arithmetic with operators of one precedence, from left to right."""
    steps = [(OPERATIONS[symbol], value) for symbol, value in rest]

    def evaluate(candidate: Candidate) -> Any:
        result = first(candidate)
        if not _is_number(result):
            return None
        for operation, value in steps:
            operand = value(candidate)
            if not _is_number(operand):
                return None
            try:
                result = operation(result, operand)
            except (ArithmeticError, ValueError):
                return None
            if type(result) is int and not MIN_INTEGER <= result <= MAX_INTEGER:
                result = float(result)  # otherwise a few products would give numbers of thousands of digits
        return result

    return evaluate


def _quotient(one: int | float, other: int | float) -> float:
    """Divide as real numbers, also two whole numbers. By zero gives infinity or NaN, as in Artemis and Broker-J."""
    if other:
        return one / other
    return math.copysign(math.inf, one) * math.copysign(1, other) if one else math.nan


def _remainder(one: int | float, other: int | float) -> int | float:
    """Return the remainder with the sign of the dividend, as in Java and RabbitMQ."""
    if not other:
        return math.nan
    if type(one) is int and type(other) is int:
        return abs(one) % abs(other) * (-1 if one < 0 else 1)
    return math.fmod(one, other)


OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": _quotient,
    "%": _remainder,
}
