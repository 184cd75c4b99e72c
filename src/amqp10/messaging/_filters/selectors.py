"""Filters by SQL conditions, and the safe way to put values into a condition.

A condition joined from text and values is open to injection, like any SQL. So pass values by name:

    Selector("region = :region AND weight > :least", region=region, least=10)
"""

from __future__ import annotations

import math
import re
from datetime import datetime
from typing import Any, ClassVar, Final, Self

from ..._arguments import checked
from ...types import Symbol
from .filters import Filter

# Quoted text, which hides parameters, or a parameter.
_PARAMETER: Final = re.compile(r"'[^']*'|\"[^\"]*\"|\[[^\]]*\]|:([A-Za-z_]\w*)")
_MIN_LONG: Final = -(2**63)
_MAX_LONG: Final = 2**63 - 1


def selector_literal(value: Any) -> str:
    """Return a Python value as a selector literal, quoted safely.

    Takes str, bool, int (64 bits), float, an aware `datetime` (written as ms since 1970, like JMSTimestamp), and for IN
    a list, tuple or set of these (written in parentheses).

    Raises:
        TypeError: the value has another type. For None, write IS NULL in the condition.
        ValueError: an int exceeds 64 bits, a float is not finite, a collection is empty, or a datetime is naive.
    """
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, int):
        if not _MIN_LONG <= value <= _MAX_LONG:
            raise ValueError(f"{value} does not fit the 64 bits of an exact number")
        return _signed(f"{int(value)}")
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"{value} has no literal")
        mantissa, _, exponent = repr(float(value)).partition("e")
        # Some parsers require the point even before an exponent.
        mantissa = mantissa if "." in mantissa else f"{mantissa}.0"
        return _signed(f"{mantissa}E{int(exponent)}" if exponent else mantissa)
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise ValueError("a naive datetime is not a point in time: give it a time zone")
        return _signed(f"{round(value.timestamp() * 1000)}")
    if isinstance(value, list | tuple | set | frozenset):
        if not value:
            raise ValueError("IN needs at least one value")
        return "(" + ", ".join(map(selector_literal, value)) + ")"
    if value is None:
        raise TypeError("nothing equals NULL in SQL: write IS NULL or IS NOT NULL")
    raise TypeError(f"a selector cannot compare with a {type(value).__name__}")


def _signed(digits: str) -> str:
    # In parentheses, because two signs in a row begin a comment in some brokers.
    return f"({digits})" if digits.startswith("-") else digits


def bind(expression: str, values: dict[str, Any]) -> str:
    """Replace each `:name` outside quotes by its literal; return the condition unchanged if there are no values."""
    if not isinstance(expression, str):
        raise TypeError(f"a condition must be a string, not {type(expression).__name__}")  # null would mean no filter
    if not values:
        return expression
    unused = set(values)

    def literal(match: re.Match[str]) -> str:
        name = match[1]
        if name is None:
            return match[0]
        if name not in values:
            raise ValueError(f"the selector's :{name} was given no value")
        unused.discard(name)
        return selector_literal(values[name])

    bound = _PARAMETER.sub(literal, expression)
    if unused:
        raise ValueError(f"the selector does not use :{min(unused)}")
    return bound


@checked
class Selector(Filter):
    """A filter by a message selector of Jakarta Messaging 3.8.1 (`apache.org:selector-filter:string`).

        Selector("region = 'eu' AND weight > 10")
        Selector("region IN :regions AND NOT (note LIKE 'draft%')", regions=["eu", "us"])

    Names are application properties, or one of JMSPriority, JMSTimestamp, JMSMessageID, JMSCorrelationID, JMSType (the
    subject) and JMSDeliveryMode. Artemis, Broker-J, ActiveMQ, the embedded broker and, from 4.3, RabbitMQ's JMS queues
    have it.

    Args:
        expression: the condition. If there are values, `:name` in it stands for a value.
        values: the values by name, quoted by `selector_literal`.

    Raises:
        TypeError, ValueError: from `selector_literal`; ValueError also for a name without a value, or the reverse.
    """

    __slots__ = ()
    descriptor_name: ClassVar[Symbol] = Symbol("apache.org:selector-filter:string")  # as in apache-filters.xml
    descriptor_code: ClassVar[int] = 0x0000_468C_0000_0004
    usual_name = "jms-selector"  # the name in Qpid JMS, which RabbitMQ 4.3 requires: rabbit_amqp_session.erl

    def __init__(self, expression: str, /, **values: Any) -> None:
        super().__init__(bind(expression, values))


@checked
class SqlFilter(Filter):
    """A filter by an SQL condition of the AMQP filter expressions (`amqp:sql-filter`).

        SqlFilter("properties.subject LIKE 'order.%' AND region IN :regions", regions=["eu", "us"])

    Names are application properties, or fields of a section after `properties.` or `p.`, `header.` or `h.`, with
    underscores for hyphens. RabbitMQ from 4.2 has it for streams; so has the embedded broker.

    Args:
        expression: the condition. If there are values, `:name` in it stands for a value.
        values: the values by name, quoted by `selector_literal`.

    Raises:
        TypeError, ValueError: from `selector_literal`; ValueError also for a name without a value, or the reverse.
    """

    __slots__ = ()
    # AMQP Filter Expressions 1.0, committee specification draft 01, section 6:
    # https://docs.oasis-open.org/amqp/filtex/v1.0/csd01/filtex-v1.0-csd01.html#_Toc67929276
    descriptor_name: ClassVar[Symbol] = Symbol("amqp:sql-filter")
    descriptor_code: ClassVar[int] = 0x120
    usual_name = "sql-filter"  # RabbitMQ requires this name: deps/amqp10_common/include/amqp10_filter.hrl

    def __init__(self, expression: str, /, **values: Any) -> None:
        super().__init__(bind(expression, values))


class EventPosition(Filter):
    """The position in a partition of Azure Event Hubs or IoT Hub at which to begin reading.

    Create it by one of its five methods. With `inclusive`, reading begins at the event itself, not after it.
    """

    # As Azure's clients send it: event_position_selector in azure-sdk-for-python, sdk/eventhub/azure-eventhub/azure/
    # eventhub/_utils.py. Their number differs from a selector's: azeventhubs 0.20.0 (docs.rs), src/amqp/amqp_filter.rs.
    __slots__ = ()
    descriptor_name: ClassVar[Symbol] = Selector.descriptor_name
    descriptor_code: ClassVar[int] = 0x0000_0013_7000_000A
    usual_name = "apache.org:selector-filter:string"

    @classmethod
    def first(cls) -> Self:
        """Begin with the oldest retained event."""
        return cls._at("offset", "-1")

    @classmethod
    def latest(cls) -> Self:
        """Begin with the first event that arrives from now on."""
        return cls._at("offset", "@latest")

    @classmethod
    @checked
    def offset(cls, offset: str | int, *, inclusive: bool = False) -> Self:
        """Begin after the event whose annotation `x-opt-offset` equals `offset`.

        Raises:
            TypeError: `offset` is neither a str nor an int.
        """
        return cls._at("offset", str(offset), inclusive)

    @classmethod
    @checked
    def sequence_number(cls, number: int, *, inclusive: bool = False) -> Self:
        """Begin after the event whose annotation `x-opt-sequence-number` equals `number`; -1 for the oldest event.

        Raises:
            TypeError: `number` is not an int.
            ValueError: `number` is less than -1.
        """
        if number < -1:
            raise ValueError(
                f"number must be -1 (before all events) or more, not {number}: first() begins with the oldest"
            )
        return cls._at("sequence-number", f"{number:d}", inclusive)

    @classmethod
    @checked
    def enqueued_time(cls, moment: datetime, *, inclusive: bool = False) -> Self:
        """Begin after `moment` by the service's clock, to the millisecond.

        Raises:
            TypeError: `moment` is not a datetime.
            ValueError: `moment` is naive.
        """
        if moment.tzinfo is None:
            raise ValueError(f"moment must have a time zone, unlike {moment!r}; datetime.now(UTC) has one")
        return cls._at("enqueued-time", f"{math.floor(moment.timestamp() * 1000)}", inclusive)

    @classmethod
    def _at(cls, field: str, value: str, inclusive: bool = False) -> Self:
        return cls(f"amqp.annotation.x-opt-{field} {'>=' if inclusive else '>'} {selector_literal(value)}")
