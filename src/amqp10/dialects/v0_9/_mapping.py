"""Messages of AMQP 1.0, as the seam has them, to and from properties, headers and body of the basic class.

    header            delivery-mode 2 (durable), priority (none is 0, the lowest, and not 4 as in 1.0), expiration (ttl,
                      ms in decimal digits); redelivered
    properties        message-id, correlation-id, reply-to, user-id, content-type, content-encoding, timestamp
                      to: exchange and routing key; subject: the key, or the header qpid.subject
                      group-id, -sequence: the headers JMSXGroupID, JMSXGroupSeq; the rest: x-opt-amqp10-NAME
    application-properties, and message-annotations x-*: headers of the same name
    body              data: the body; of several sections, with the header x-opt-amqp10-sections: their sizes;
                      anything else: its sections as they are, and the type "amqp-1.0" (RabbitMQ's)

What finds no place so is not lost. A header `x-opt-amqp10` has it as the sections that it came in, and on the way back
they count if what can be read beside them still says the same. The other way a message annotation, `x-opt-0-9-1`, is a
map of what 1.0 has no field for: type, app-id, cluster-id, a delivery-mode that is said and not 2, headers that are
tables or arrays, and what is not UTF-8.

The way out is in `_outgoing`, the way in in `_incoming`; here is what both go by.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import datetime
from itertools import groupby
from typing import Any, Final

from ...engine import parse_address
from ...errors import EncodeError
from ...types import Int, Symbol, Timestamp
from ._table import Tables

Clock = Callable[[], int]
Sizes = tuple[tuple[int, int], ...]
"""Those of the sections of a body: sizes, and how many sections in a row have each."""

DIRECT_REPLY: Final = "amq.rabbitmq.reply-to"
"""RabbitMQ's pseudo-queue for replies; their addresses have this, a dot and more."""
DURABLE: Final = 2  # as delivery-mode
LOST: Final = "x-opt-amqp10"
NATIVE: Final = Symbol("x-opt-0-9-1")
SECTIONS: Final = "amqp-1.0"
EXCHANGE: Final = Symbol("x-exchange")
ROUTING_KEY: Final = Symbol("x-routing-key")
DEATHS: Final = "x-death"
COUNT: Final = "x-delivery-count"
# Fields that have no place of their own, and the headers that they are in.
PLACES: Final = {
    "subject": "qpid.subject",
    "group_id": "JMSXGroupID",
    "group_sequence": "JMSXGroupSeq",
    "to": f"{LOST}-to",
    "reply_to_group_id": f"{LOST}-reply-to-group-id",
    "absolute_expiry_time": f"{LOST}-absolute-expiry-time",
}
NUMBERS: Final = ("group_sequence", "absolute_expiry_time")
REPLY_TO: Final = f"{LOST}-reply-to"
# Where this package's 0-10 says those that its own property has no room for: they come through Broker-J so.
IDS: Final = {"message_id": f"{LOST}-message-id", "correlation_id": f"{LOST}-correlation-id"}
PARTS: Final = f"{LOST}-sections"
RESERVED: Final = frozenset((*PLACES.values(), *IDS.values(), LOST, REPLY_TO, COUNT, PARTS))
PROPERTIES: Final = ("type", "app_id", "cluster_id")
# Of what came as no UTF-8 (see `Latin1`) the native annotation has the names: of properties, and of headers.
LATIN1: Final = "latin-1"
LATIN1_HEADERS: Final = "latin-1-headers"
TEXTS: Final = (
    *("content_type", "content_encoding", "correlation_id", "reply_to", "expiration", "message_id"),
    *("type", "user_id", "app_id", "cluster_id"),
)
_SIZES: Final = re.compile(r"[0-9]{1,10}(\*[0-9]{1,7})?(,[0-9]{1,10}(\*[0-9]{1,7})?)*", re.ASCII)
MOST_ENTRIES: Final = 256  # of what is remembered: programs send the same few heads again and again
MOST_REMEMBERED: Final = 2048  # octets of one of these
MOST_SIZES: Final = 4096  # characters that the sizes of sections may take


def near_value(value: Any, tables: Tables) -> Any:
    """The value as it is, if a table can have it, or else what comes nearest; None for nothing."""
    if tables.holds(value):
        return value
    if isinstance(value, datetime | Timestamp):
        try:
            return tables.nearest(value)
        except EncodeError:
            return None
    if isinstance(value, int):
        for kind in (int, Int):
            if tables.holds(kind(value)):
                return kind(value)
    return None if isinstance(value, bytes) else str(value)


def near_text(value: Any) -> str | None:
    try:
        text = value.decode() if isinstance(value, bytes) else str(value)
    except UnicodeDecodeError:
        return None
    return text if len(text.encode()) <= 255 else None


def write_sizes(parts: Iterable[bytes]) -> str | None:
    """The sizes of sections, "3,0*2,5" for 3, 0, 0 and 5; None for too many different ones."""
    runs = ((size, len(list(run))) for size, run in groupby(map(len, parts)))
    text = ",".join(f"{size}*{count}" if count > 1 else str(size) for size, count in runs)
    return text if len(text) <= MOST_SIZES else None


def read_sizes(text: Any) -> Sizes | None:
    """The way back; None for what says none."""
    if not isinstance(text, str) or len(text) > MOST_SIZES or _SIZES.fullmatch(text) is None:
        return None
    runs = (run.partition("*") for run in text.split(","))
    return tuple((int(size), int(count or 1)) for size, _, count in runs)


def queue_of(address: str) -> str:
    """The name that others know a queue by."""
    if address.startswith("/queues/"):
        try:
            return parse_address(address).key or address
        except ValueError:
            pass
    return address
