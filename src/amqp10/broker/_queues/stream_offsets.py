"""Places in a stream: where a reader begins, and the chunk of each time.

The words are RabbitMQ's: the filter `rabbitmq:stream-offset-spec` of AMQP 1.0, the argument `x-stream-offset` of 0-9-1.
"""

from __future__ import annotations

import re
import time
from bisect import bisect_left
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Literal

from ...errors import DecodeError
from ...messaging import StreamFilter, StreamMatchUnfiltered, StreamOffset, read_annotations
from ...types import Described, Symbol, Timestamp
from .._errors import Refused
from .selection import Filtering

if TYPE_CHECKING:
    from .message import QueuedMessage

_INTERVAL: Final = re.compile(r"(\d{1,9})([YMDhms])")
_SECONDS: Final = {"Y": 31_536_000, "M": 2_592_000, "D": 86_400, "h": 3600, "m": 60, "s": 1}
_VALUE: Final = Symbol("x-stream-filter-value")


@dataclass(frozen=True, slots=True)
class StreamPosition:
    """Where to begin: an offset, a time, or a word.

    Attributes:
        offset: that of the first message to read, which may be still to come.
        moment: the time of day in seconds, which means the first chunk at or after it.
    """

    word: Literal["first", "last", "next", "moment"] = "next"
    offset: int | None = None
    moment: float = 0.0

    @classmethod
    def read(cls, value: object) -> StreamPosition:
        """Parse the value that a reader gives.

        Raises:
            ValueError: it is not a place.
        """
        match value:
            case "first" | "last" | "next":
                return cls(value)
            case str():
                return cls("moment", moment=time.time() - seconds(value))
            case datetime():
                return cls("moment", moment=value.timestamp())
            case Timestamp():
                return cls("moment", moment=value / 1000)
            case int() if not isinstance(value, bool) and value >= 0:
                return cls(offset=int(value))
        raise ValueError(f"must be first, last, next, a number, a time or an interval, not {value!r:.60}")


NEXT: Final = StreamPosition()


def seconds(interval: str) -> int:
    """Return the seconds of an interval in RabbitMQ's form, such as "7D" for seven days.

    Raises:
        ValueError: it is not an interval.
    """
    found = _INTERVAL.fullmatch(interval)
    if found is None:
        raise ValueError(f"must be a number and one of Y, M, D, h, m, s, not {interval!r:.60}")
    return int(found[1]) * _SECONDS[found[2]]


class Chunks:
    """The chunks of a stream: for each the time of its messages and its first offset.

    The time of day says which chunk is the one at a moment; it may jump, so another clock says how old a chunk is.
    """

    def __init__(self) -> None:
        self._moments: list[float] = []
        self._begun: list[float] = []
        self._firsts: list[int] = []

    def __bool__(self) -> bool:
        return bool(self._moments)

    def begin(self, moment: float, begun: float, offset: int) -> None:
        """Begin a chunk, at a time of day and one of the other clock; what was set back does not go back here."""
        self._moments.append(max(moment, self.latest) if self._moments else moment)
        self._begun.append(max(begun, self._begun[-1]) if self._begun else begun)
        self._firsts.append(offset)

    def begins_at(self, offset: int) -> None:
        """Drop the chunks before an offset."""
        if len(self._firsts) > 1 and self._firsts[1] <= offset:
            del self._moments[0], self._begun[0], self._firsts[0]

    def move(self, further: int) -> None:
        """Add a number to all offsets."""
        self._firsts = [first + further for first in self._firsts]

    @property
    def oldest(self) -> float:
        """When the first chunk began, on the other clock."""
        return self._begun[0]

    @property
    def latest(self) -> float:
        return self._moments[-1]

    @property
    def last(self) -> int:
        """The first offset of the last chunk."""
        return self._firsts[-1]

    def at(self, moment: float, *, end: int) -> int:
        """Return the first offset of the chunk at or after a moment; `end` if all came before."""
        index = bisect_left(self._moments, moment)
        return self._firsts[index] if index < len(self._firsts) else end


def place_in(requested: Mapping[Any, Any] | None) -> Described | None:
    """Return the offset that a filter set names for a stream; None: it names none."""
    found = (requested or {}).values()
    return next((each for each in found if _is(each, StreamOffset)), None)


def read_stream_filters(
    requested: Mapping[Any, Any] | None, filters: dict[Any, Any] | None, filtering: Filtering | None
) -> tuple[StreamPosition, dict[Any, Any] | None, Filtering | None]:
    """Return the offset that a filter set names, and the applied filters, to which those of streams are added.

    Raises:
        Refused: a filter is malformed.
    """
    place, values, unfiltered = NEXT, None, False
    applied = dict(filters or {})
    for name, each in (requested or {}).items():
        if not isinstance(each, Described):
            continue
        if _is(each, StreamOffset):
            try:
                place = StreamPosition.read(each.value)
            except ValueError as error:
                raise Refused("amqp:invalid-field", f"the filter {name!s:.60}: {error}", reply_code=406) from None
        elif _is(each, StreamFilter):
            values = [each.value] if isinstance(each.value, str) else each.value
            if not isinstance(values, list) or not values or not all(isinstance(value, str) for value in values):
                raise Refused("amqp:invalid-field", f"the filter {name!s:.60} must be one or more strings")
        elif _is(each, StreamMatchUnfiltered):
            unfiltered = each.value is True
        else:
            continue
        applied[name] = each
    if values is None:
        return place, applied or None, filtering
    passes = _with_values(values, unfiltered)
    if filtering is None:
        return place, applied, Filtering(None, passes)
    both = Filtering(None, lambda entry: passes(entry) and filtering.passes(entry), cost=filtering.cost)
    return place, applied, both


def _is(each: object, kind: type[StreamOffset | StreamFilter | StreamMatchUnfiltered]) -> bool:
    return isinstance(each, Described) and each.descriptor == kind.descriptor_name


def _with_values(values: list[str], unfiltered: bool) -> Callable[[QueuedMessage], bool]:
    def passes(entry: QueuedMessage) -> bool:
        try:
            value = read_annotations(entry.payload).get(_VALUE) if entry.message_format == 0 else None
        except DecodeError:
            return False
        return unfiltered if value is None else value in values

    return passes
