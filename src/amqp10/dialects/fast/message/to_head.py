"""A message of AMQP 1.0 as head and body of AMQP/Fast.

    durable         persistent                      message-id         identifier
    priority        priority                        content-type       mime-type
    ttl             expiration, in whole seconds    content-encoding   encoding
    subject         header qpid.subject             group-id           header JMSXGroupID, group-sequence JMSXGroupSeq
    annotations     headers x-*                     application-properties   the other headers
    all other fields   headers x-opt-amqp10-*

A body of data is the body. Any other is its encoded sections, with a mime-type that says so (`SECTIONS`). What the
header table cannot hold goes along whole, as an encoded message without body in the header x-opt-amqp10 (base64, for
tables have no octets that are not text); it is believed as long as the readable fields beside it have not been changed.
What AMQP/Fast has and 1.0 does not is kept in the message annotation x-opt-fast.
"""

from __future__ import annotations

import base64
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from ....errors import AmqpError, DecodeError
from ....messaging import Data, Message, data_head
from ....types import ULong
from ..._kit.message.mapping import DELIVERY_COUNT, GROUP_SEQUENCE, REST_HEADER
from ..._kit.message.values import text_or_octets
from ..wire.commands import MessageHead
from ..wire.values import MAX_SHORTSTR, Table, read_table
from .header_names import (
    CONTENT_TYPE,
    CORRELATION_ID,
    FORMAT,
    MOMENTS,
    NATIVE,
    PARTS,
    PRIORITY,
    SECTIONS,
    TEXTS,
    TTL,
    USER_ID,
    WHOLE,
    is_reserved,
)
from .header_values import NOTHING, to_header

_DATA_SECTION: Final = data_head(0)[:3]
_NO_HEAD: Final[dict[str, Any]] = dict.fromkeys(
    ("durable", "priority", "ttl", "first_acquirer", "delivery_count", "delivery_annotations")
)


def to_fast(
    payload: bytes, now: float, *, message_format: int = 0, max_octets: int = 1 << 16
) -> tuple[MessageHead, bytes]:
    """Return the head and the body for an encoded message.

    Args:
        now: seconds since 1970, from which the expiration is computed.
        max_octets: octets that the head may have.
    """
    if message_format == 0:
        if payload[:3] == _DATA_SECTION:
            size = payload[4] if payload[3:4] == b"\xa0" and len(payload) > 4 else int.from_bytes(payload[4:8], "big")
            start = len(data_head(size))
            if start + size == len(payload) and payload.startswith(data_head(size)):  # a body, and nothing else
                return MessageHead(body_size=size), payload[start:]
        try:
            message = Message.decode(payload)
            head, body = _written(message, now)
            if len(head.write()) <= max_octets:
                return head, body
        except AmqpError:
            pass  # not a valid message, or with a value that a head cannot hold: the payload goes unchanged
    headers: Table = {FORMAT: str(message_format)} if message_format else {}
    return MessageHead(body_size=len(payload), mime_type=WHOLE, headers=headers), payload


def _written(message: Message, now: float) -> tuple[MessageHead, bytes]:
    head, exact = readable(message)
    if not exact:
        whole = message.replace(**_NO_HEAD, body=b"").encode()
        head.headers[REST_HEADER] = base64.b64encode(whole).decode()
    body = message.body
    if isinstance(body, bytes):
        octets = body
    elif isinstance(body, Data):
        octets = bytes(body)
        head.headers[PARTS] = ",".join(str(len(part)) for part in body.parts)
    else:
        octets = Message(body).encode()
        head.mime_type = SECTIONS
    head.body_size = len(octets)
    _write_header(head, message, now)
    return head, octets


def _write_header(head: MessageHead, message: Message, now: float) -> None:
    head.persistent = message.durable
    head.priority = min(message.priority, 9)
    if message.priority > 9:
        head.headers[PRIORITY] = message.priority
    if message.ttl is not None:
        ms = message.ttl // timedelta(milliseconds=1)
        head.headers[TTL] = str(ms)
        head.expiration = _expiration(now + ms / 1000)
    elif isinstance(message.absolute_expiry_time, datetime):
        head.expiration = _expiration(message.absolute_expiry_time.timestamp())
    if message.delivery_count:
        head.headers[DELIVERY_COUNT] = _number(message.delivery_count)


def _expiration(when: float) -> int:
    """Round `when` up to whole seconds; return 0, for never, if the field cannot hold the result."""
    seconds = -int(-when // 1)
    return seconds if 0 < seconds < 1 << 32 else 0


def readable(message: Message) -> tuple[MessageHead, bool]:
    """Return a head that any reader of AMQP/Fast understands, and whether it holds all properties exactly."""
    head, exact = MessageHead(), message.footer == {}
    headers = head.headers
    identifier, same = _id_text(message.message_id)
    if identifier is not None and _fits(identifier):
        head.identifier = identifier
        exact = exact and same
    else:
        exact = exact and message.message_id is None
    for name, header in TEXTS.items():
        if (text := getattr(message, name)) is not None:
            headers[header] = text
    correlation, same = _id_text(message.correlation_id)
    if correlation is not None:
        headers[CORRELATION_ID] = correlation
        exact = exact and same
    if message.user_id is not None:
        headers[USER_ID] = text_or_octets(message.user_id)
    if message.group_sequence is not None:
        headers[GROUP_SEQUENCE] = _number(message.group_sequence)
    exact = _write_types(head, message) and exact
    for name, header in MOMENTS.items():
        if (when := getattr(message, name)) is not None:
            value, same = to_header(when)
            exact = exact and same
            if value is not NOTHING:
                headers[header] = value
    exact = _write_map(headers, message.message_annotations, annotations=True) and exact
    return head, _write_map(headers, message.application_properties, annotations=False) and exact


def _write_types(head: MessageHead, message: Message) -> bool:
    """Write content-type and content-encoding into the head; return whether the head holds both exactly."""
    kind, encoding = message.content_type, message.content_encoding
    data = isinstance(message.body, bytes | Data)
    exact = True
    if kind is not None and data and _fits(kind) and not kind.startswith(WHOLE):
        head.mime_type = str(kind)
    elif kind is not None:
        head.headers[CONTENT_TYPE] = str(kind)
    if encoding is not None and _fits(encoding):
        head.encoding = str(encoding)
    elif encoding is not None:
        exact = False
    native = _native(message.message_annotations.get(NATIVE))
    kind_of_body = native.get("mime-type", "")
    if not head.mime_type and isinstance(kind_of_body, str) and not kind_of_body.startswith(WHOLE):
        head.mime_type = kind_of_body  # only our own mime-types may say that properties are in the body
    head.encoding = head.encoding or native.get("encoding", "")
    return exact


def _fits(text: str) -> bool:
    """Return whether a short string can hold `text`. It cannot hold "", because an empty one stands for no value."""
    return 0 < len(text.encode()) <= MAX_SHORTSTR and "\0" not in text


def _number(value: int) -> int | str:
    return int(value) if value < 1 << 31 else str(int(value))


def _id_text(value: Any) -> tuple[str | None, bool]:
    """Return a message-id as text, and whether the message-id itself is text or missing."""
    if value is None or type(value) is str:
        return value, True
    if isinstance(value, bytes):
        return value.hex(), False
    return str(value if isinstance(value, UUID) else int(value)), False


def _write_map(headers: Table, entries: dict[Any, Any], *, annotations: bool) -> bool:
    """Write annotations (headers x-*) or application properties; return whether the headers hold them all exactly."""
    exact = True
    for key, value in entries.items():
        if annotations and key == NATIVE and isinstance(value, bytes):
            native = _native(value).get("headers", {})
            for name in native.keys() - {USER_ID}:  # servers have checked the user-id of the properties only
                headers.setdefault(name, native[name])
            continue
        name = str(key)
        theirs = name.startswith("x-") is annotations and not isinstance(key, ULong)
        if is_reserved(name) or name in headers or not _fits(name or "-"):
            exact = False
            continue
        written, same = to_header(value)
        exact = exact and same and theirs
        # An annotation under another name would be taken for a property of the application.
        if written is not NOTHING and (theirs or not annotations):
            headers[name] = written
    return exact


def _native(octets: Any) -> Table:
    """Decode the annotation x-opt-fast, which keeps fields of AMQP/Fast that AMQP 1.0 lacks; {} if it is malformed."""
    try:
        return read_table(octets, 0, len(octets))[0] if isinstance(octets, bytes) else {}
    except DecodeError:
        return {}
