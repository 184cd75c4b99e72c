"""RabbitMQ's filters for streams: where to begin, and which chunks of the log to skip.

See https://www.rabbitmq.com/docs/stream-filtering, and for the accepted values parse_filters in
rabbitmq/rabbitmq-server:deps/rabbit/src/rabbit_amqp_session.erl. These filters have no numeric descriptor.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, ClassVar, Final

from ..._arguments import check_range, checked, without_secrets
from ...types import Described, Symbol, ULong
from .filters import Filter

_WORDS: Final = ("first", "last", "next")
_INTERVAL: Final = re.compile(r"\d+[YMDhms]")


@checked
class StreamOffset(Filter):
    """The position in a stream at which to begin (`rabbitmq:stream-offset-spec`); without it, at the next message.

    Args:
        where: the "first" retained message; the "last" chunk; the "next" message to arrive; an offset (int), the
            annotation `x-stream-offset` of a message; an aware datetime; or an age: a timedelta, or a number with Y, M,
            D, h, m or s, such as "10m" for ten minutes. The broker rounds a time down to the second and to the
            beginning of a chunk, so older messages may come first.

    Raises:
        ValueError: another word, a negative offset or age, or a naive datetime.
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
                    f"where must be first, last, next, or an interval such as 10m, not {without_secrets(where)}"
                )
        else:
            check_range("where", where, 0)
            where = ULong(where)
        super().__init__(where)


@checked
class StreamFilter(Filter):
    """A filter for messages published with one of `values` (`rabbitmq:stream-filter`).

    A publisher sets its value in the message annotation `x-stream-filter-value`. The broker skips whole chunks by a
    Bloom filter, so messages with other values may still arrive, and the receiver must check.

    Raises:
        ValueError: no value is given.
        TypeError: a value is not a string. Pass several values as several arguments.
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


@checked
class StreamMatchUnfiltered(Filter):
    """Added to a `StreamFilter`: also pass messages without a filter value (`rabbitmq:stream-match-unfiltered`)."""

    __slots__ = ()
    descriptor_name: ClassVar[Symbol] = Symbol("rabbitmq:stream-match-unfiltered")
    usual_name = "rabbitmq:stream-match-unfiltered"

    def __init__(self, match: bool = True) -> None:
        super().__init__(match)


_KINDS: Final = frozenset(each.descriptor_name for each in (StreamOffset, StreamFilter, StreamMatchUnfiltered))


def only_for_streams(filters: Mapping[Any, Any]) -> bool:
    """Return whether `filters` are all of the kinds above."""
    return all(isinstance(each, Described) and each.descriptor in _KINDS for each in filters.values())
