"""Messages of AMQP 1.0, as the seam has them, to and from properties, headers and body of the basic class.

    header            delivery-mode 2 (durable), priority (none is 0, the lowest, and not 4 as in 1.0), expiration (ttl,
                      ms in decimal digits); redelivered
    properties        message-id, correlation-id, reply-to, user-id, content-type, content-encoding, timestamp
                      to: exchange and routing key; subject: the key, or the header qpid.subject
                      group-id, -sequence: the headers JMSXGroupID, JMSXGroupSeq; the rest: x-opt-amqp10-NAME
    application-properties, and message-annotations x-*: headers of the same name
    body              data: the body; of several sections, with the header x-opt-amqp10-sections: their sizes;
                      anything else: its sections as they are, and the type "amqp-1.0" (RabbitMQ's)

What has no place here is not lost. The header `x-opt-amqp10` has it as encoded sections, and on the way back they count
if they agree with what can be read beside them. The other way a message annotation, `x-opt-0-9-1`, is a map of what 1.0
has no field for: type, app-id, cluster-id, a delivery-mode other than 2, headers that are tables or arrays, and what is
not UTF-8.

Refused are only a message without a valid address, and properties larger than a frame
(`ToBasic._route`).

`to_basic` maps outgoing messages, and `from_basic` incoming ones; here is what both need.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import datetime
from itertools import groupby
from typing import Any, Final

from ....engine import parse_address
from ....errors import EncodeError
from ....types import Int, Symbol, Timestamp
from ..._kit.message.mapping import DELIVERY_COUNT, GROUP_ID, GROUP_SEQUENCE, PREFIX, REST_HEADER, SUBJECT
from ..wire.tables import Tables

Clock = Callable[[], int]
Sizes = tuple[tuple[int, int], ...]
"""The sizes of a body's sections: a size, and how many sections in a row have it."""

DIRECT_REPLY: Final = "amq.rabbitmq.reply-to"
"""RabbitMQ's pseudo-queue for replies; their addresses have this, a dot and more."""
DURABLE: Final = 2  # as delivery-mode
NATIVE_ANNOTATION: Final = Symbol("x-opt-0-9-1")
SECTIONS: Final = "amqp-1.0"
DEATHS: Final = "x-death"
ACQUIRED_COUNT: Final = "x-acquired-count"
"""How many consumers of a quorum queue gave the message back, whether it failed or not."""
# Fields that have no place of their own, and the headers that carry them.
FIELD_HEADERS: Final = {
    "subject": SUBJECT,
    "group_id": GROUP_ID,
    "group_sequence": GROUP_SEQUENCE,
    "to": f"{PREFIX}to",
    "reply_to_group_id": f"{PREFIX}reply-to-group-id",
    "absolute_expiry_time": f"{PREFIX}absolute-expiry-time",
}
NUMBERS: Final = ("group_sequence", "absolute_expiry_time")
REPLY_TO: Final = f"{PREFIX}reply-to"
# The headers for ids that do not fit the property, as this package's 0-10 writes them; they come through Broker-J so.
ID_HEADERS: Final = {"message_id": f"{PREFIX}message-id", "correlation_id": f"{PREFIX}correlation-id"}
SECTION_SIZES: Final = f"{PREFIX}sections"
RESERVED: Final = frozenset(
    (*FIELD_HEADERS.values(), *ID_HEADERS.values(), REST_HEADER, REPLY_TO, DELIVERY_COUNT, SECTION_SIZES)
)
PROPERTIES: Final = ("type", "app_id", "cluster_id")
# Keys of the native annotation: the names of the properties, and of the headers, that came as no UTF-8 (see `Latin1`).
LATIN1: Final = "latin-1"
LATIN1_HEADERS: Final = "latin-1-headers"
TEXTS: Final = (
    *("content_type", "content_encoding", "correlation_id", "reply_to", "expiration", "message_id"),
    *("type", "user_id", "app_id", "cluster_id"),
)
_SIZES: Final = re.compile(r"[0-9]{1,10}(\*[0-9]{1,7})?(,[0-9]{1,10}(\*[0-9]{1,7})?)*", re.ASCII)
MAX_ENTRIES: Final = 256  # heads that are remembered: programs send the same few again and again
MAX_REMEMBERED: Final = 2048  # octets of a head that is remembered
MAX_SIZES: Final = 4096  # characters that the sizes of sections may take


def near_value(value: Any, tables: Tables) -> Any:
    """Return `value` if a table can have it, else the nearest value that a table can have; None if no value is near."""
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
    """Return the sizes of sections as text, "3,0*2,5" for 3, 0, 0 and 5; None if they are too many different ones."""
    runs = ((size, len(list(run))) for size, run in groupby(map(len, parts)))
    text = ",".join(f"{size}*{count}" if count > 1 else str(size) for size, count in runs)
    return text if len(text) <= MAX_SIZES else None


def read_sizes(text: Any) -> Sizes | None:
    """Return the sizes that a text of `write_sizes` says; None for any other value."""
    if not isinstance(text, str) or len(text) > MAX_SIZES or _SIZES.fullmatch(text) is None:
        return None
    runs = (run.partition("*") for run in text.split(","))
    return tuple((int(size), int(count or 1)) for size, _, count in runs)


def queue_of(address: str) -> str:
    """Return the name by which others know the queue at `address`."""
    if address.startswith("/queues/"):
        try:
            return parse_address(address).key or address
        except ValueError:
            pass
    return address
