"""The sections with named fields, as on the wire (§3.2.1, §3.2.4).

A `Message` has these fields flat; the classes are for reading or writing a single section, as a broker does.
"""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from ..types import Composite, Symbol, Timestamp, composite, field


@composite(0x70, "amqp:header:list", provides=("section",))
class Header(Composite):
    """Standard delivery details of a message, which intermediaries may change (§3.2.1).

    Attributes:
        durable: whether the message must survive the loss of the intermediary that holds it.
        priority: 0 to 255; higher goes first.
        ttl: time to live in milliseconds (`Message.ttl` is a timedelta); None for ever.
        first_acquirer: whether no link acquired the message before.
        delivery_count: the number of failed deliveries before.
    """

    durable: bool = field("boolean", default=False)
    priority: int = field("ubyte", default=4)
    ttl: int | None = field("uint")
    first_acquirer: bool = field("boolean", default=False)
    delivery_count: int = field("uint", default=0)


@composite(0x73, "amqp:properties:list", provides=("section",))
class Properties(Composite):
    """Standard properties of a message, which intermediaries must not change (§3.2.4).

    Attributes:
        message_id: identifies the message: an int (ulong), UUID, bytes or str (§3.2.11-14).
        user_id: the user who produced the message.
        to: the address of the destination.
        subject: a summary of content and purpose.
        reply_to: the address for replies.
        correlation_id: the message-id that this message answers, or a mark of the client's own.
        content_type: the MIME type of the data sections, unset for other bodies.
        content_encoding: the encoding of the data sections, such as "gzip".
        absolute_expiry_time: the time of expiry.
        creation_time: the time of creation.
        group_id: the group of the message.
        group_sequence: the position in the group, a sequence-no of 32 bits (RFC 1982).
        reply_to_group_id: the group for replies.
    """

    message_id: int | UUID | bytes | str | None = field("*", requires="message-id")
    user_id: bytes | None = field("binary")
    # Formally any type that provides an address; the only such type is string (§3.2.15).
    to: str | None = field("string")
    subject: str | None = field("string")
    reply_to: str | None = field("string")
    correlation_id: int | UUID | bytes | str | None = field("*", requires="message-id")
    content_type: Symbol | None = field("symbol")
    content_encoding: Symbol | None = field("symbol")
    absolute_expiry_time: datetime | Timestamp | None = field("timestamp")
    creation_time: datetime | Timestamp | None = field("timestamp")
    group_id: str | None = field("string")
    group_sequence: int | None = field("uint")
    reply_to_group_id: str | None = field("string")
