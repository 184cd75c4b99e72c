"""The sections that are lists of named fields, as they are on the wire (§3.2.1, §3.2.4).

A `Message` has these fields flat; the classes are for who reads or writes one section alone, such as a broker.
"""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from ..types import Composite, Symbol, Timestamp, composite, field


@composite(0x70, "amqp:header:list", provides=("section",))
class Header(Composite):
    """Standard delivery details of the transfer of a message, an intermediary's to change (§3.2.1).

    Attributes:
        durable: the message must survive the loss of the intermediary that holds it.
        priority: 0 to 255, higher goes first.
        ttl: how long the message lives, in milliseconds as on the wire (`Message.ttl` is a timedelta); None for ever.
        first_acquirer: nobody has acquired the message before.
        delivery_count: earlier attempts to deliver it that failed.
    """

    durable: bool = field("boolean", default=False)
    priority: int = field("ubyte", default=4)
    ttl: int | None = field("uint")
    first_acquirer: bool = field("boolean", default=False)
    delivery_count: int = field("uint", default=0)


@composite(0x73, "amqp:properties:list", provides=("section",))
class Properties(Composite):
    """Standard properties of the message, immutable on its way (§3.2.4).

    Attributes:
        message_id: identifies the message; a message-id is an int (ulong), UUID, bytes or str (§3.2.11-14).
        user_id: who produced it.
        to: the node that it is destined for, an address.
        subject: a summary of content and purpose.
        reply_to: the node to send replies to.
        correlation_id: the message-id that this one answers, or a mark of the client's own.
        content_type: the MIME type of the data sections, unset for other bodies.
        content_encoding: what was applied to the data sections, such as "gzip".
        absolute_expiry_time: when it expires.
        creation_time: when it was made.
        group_id: the group that it belongs to.
        group_sequence: its place in the group, an RFC 1982 sequence-no of 32 bits.
        reply_to_group_id: the group that replies should belong to.
    """

    message_id: int | UUID | bytes | str | None = field("*", requires="message-id")
    user_id: bytes | None = field("binary")
    # An address is of any type that provides one, by the letter; the only one there is is a string (§3.2.15).
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
