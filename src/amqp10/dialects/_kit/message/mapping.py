"""What the mappings of messages to and from those of AMQP 1.0 share in the older dialects.

A field that a dialect has no place for becomes a header: one that others know for it, or one of this package's names.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any, Final

from ....messaging import Data
from ....types import Symbol, ULong

REST_HEADER: Final = "x-opt-amqp10"
"""The header with encoded sections of AMQP 1.0: what a dialect cannot express otherwise."""
PREFIX: Final = f"{REST_HEADER}-"
"""How the headers begin that hold one field each."""
SUBJECT: Final = "qpid.subject"
GROUP_ID: Final = "JMSXGroupID"
GROUP_SEQUENCE: Final = "JMSXGroupSeq"
DELIVERY_COUNT: Final = "x-delivery-count"

EXCHANGE: Final = Symbol("x-exchange")
ROUTING_KEY: Final = Symbol("x-routing-key")
"""The message annotations that say where a message was published."""


def origin_of(annotations: dict[Any, Any]) -> tuple[str, str] | None:
    """Return the exchange and the routing key that a message was published with; None if the annotations lack them."""
    exchange, key = annotations.get(EXCHANGE), annotations.get(ROUTING_KEY)
    return (exchange, key) if isinstance(exchange, str) and isinstance(key, str) else None


def kept_id(value: Any) -> Any:
    """Return a message-id out of a header: whole numbers are ulong there, though some brokers have only signed ones."""
    return ULong(value & 0xFFFF_FFFF_FFFF_FFFF) if isinstance(value, int) else value


def cut(body: bytes, sizes: Sequence[int]) -> Data | None:
    """Return the data sections of these sizes, none of them negative; None if they are not those of `body`."""
    if sum(sizes) != len(body):
        return None
    return Data(*(body[end - size : end] for size, end in zip(sizes, accumulate(sizes), strict=True)))
