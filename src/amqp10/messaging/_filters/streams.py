"""RabbitMQ's filters for streams: where to begin, and which chunks of the log may be skipped.

https://www.rabbitmq.com/docs/stream-filtering; what each takes is in parse_filters of rabbitmq/rabbitmq-server:deps/
rabbit/src/rabbit_amqp_session.erl. They have no numeric descriptor.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, ClassVar, Final

from ...types import Described, Symbol, ULong
from .filters import Filter

_WORDS: Final = ("first", "last", "next")
_INTERVAL: Final = re.compile(r"\d+[YMDhms]")


class StreamOffset(Filter):
    """Where in a stream to begin (`rabbitmq:stream-offset-spec`); without it, a receiver gets what comes from now on.

    Args:
        where: "first" message that is kept; the "last" chunk; the "next" message to come; an offset (int), as the
            annotation `x-stream-offset` of a message says it; an aware datetime; or how long ago: a timedelta, or a
            string of a number and Y, M, D, h, m or s, such as "10m" for ten minutes. A moment is taken to the second,
            and rounded down to the beginning of a chunk, so that older messages can come first.

    Raises:
        ValueError: another word, a negative offset or time, a naive datetime.
        TypeError: a value of another type.
    """

    __slots__ = ()
    descriptor_name: ClassVar[Symbol] = Symbol("rabbitmq:stream-offset-spec")
    usual_name = "rabbitmq:stream-offset-spec"

    def __init__(self, where: str | int | datetime | timedelta) -> None:
        if isinstance(where, timedelta):
            if where < timedelta(0):
                raise ValueError(f"an interval must not be negative, not {where}")
            where = f"{-(-where // timedelta(seconds=1))}s"
        elif isinstance(where, datetime):
            if where.tzinfo is None:
                raise ValueError("a naive datetime is not a point in time: give it a time zone")
        elif isinstance(where, str):
            if where not in _WORDS and not _INTERVAL.fullmatch(where):
                raise ValueError(
                    f"{where!r} is not a position in a stream: use first, last, next, or an interval such as 10m"
                )
        elif isinstance(where, bool) or not isinstance(where, int):
            raise TypeError(f"a position in a stream cannot be a {type(where).__name__}")
        elif where < 0:
            raise ValueError(f"an offset must not be negative, not {where}")
        else:
            where = ULong(where)
        super().__init__(where)


class StreamFilter(Filter):
    """Messages that were published with one of these filter values (`rabbitmq:stream-filter`).

    A publisher says its value in the message annotation `x-stream-filter-value`. The broker skips whole chunks by a
    Bloom filter: messages with other values can still come, and the receiver has to look.

    Raises:
        ValueError: no value.
        TypeError: one that is no string: several are several arguments.
    """

    __slots__ = ()
    descriptor_name: ClassVar[Symbol] = Symbol("rabbitmq:stream-filter")
    usual_name = "rabbitmq:stream-filter"

    def __init__(self, *values: str) -> None:
        if not values:
            raise ValueError("a stream filter must have at least one value")
        for value in values:
            if not isinstance(value, str):
                raise TypeError(f"a value of a stream filter must be a string, not {type(value).__name__}")
        super().__init__(list(values))


class StreamMatchUnfiltered(Filter):
    """Beside a `StreamFilter`: messages without any filter value too (`rabbitmq:stream-match-unfiltered`)."""

    __slots__ = ()
    descriptor_name: ClassVar[Symbol] = Symbol("rabbitmq:stream-match-unfiltered")
    usual_name = "rabbitmq:stream-match-unfiltered"

    def __init__(self, match: bool = True) -> None:
        super().__init__(match)


_KINDS: Final = frozenset(each.descriptor_name for each in (StreamOffset, StreamFilter, StreamMatchUnfiltered))


def only_for_streams(filters: Mapping[Any, Any]) -> bool:
    """Return whether all of these filters are of the kinds above."""
    return all(isinstance(each, Described) and each.descriptor in _KINDS for each in filters.values())
