"""A head and a body of AMQP/Fast as a message of AMQP 1.0: whole, or its front. The table is in `to_head`."""

from __future__ import annotations

import base64
import binascii
import re
import time
from datetime import timedelta
from typing import Any, Final

from ....errors import AmqpError, DecodeError
from ....messaging import Data, Message, data_head
from ....types import Symbol, UInt
from ..._kit.message.mapping import DELIVERY_COUNT, GROUP_SEQUENCE, REST_HEADER, cut
from ..codes import BadContents
from ..wire.commands import MessageHead
from ..wire.fragments import Assembly
from ..wire.values import Seconds, Table, write_table
from .header_names import (
    CONTENT_TYPE,
    CORRELATION_ID,
    FORMAT,
    HOP,
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
from .header_values import NOTHING, from_header, read_moment
from .to_head import readable


def payload_of(
    assembly: Assembly, *, redelivered: bool = False, mime_type: str = "", encoding: str = "", to: str | None = None
) -> tuple[bytes, int]:
    """Return the encoded message and its message-format; the arguments are those of `from_fast`.

    Raises:
        BadContents: the message does not match its head or its hash.
    """
    body = assembly.body()
    try:
        return from_fast(
            assembly.head,
            body,
            time.time(),
            redelivered=redelivered,
            mime_type=mime_type,
            encoding=encoding,
            to=to,
        )
    except AmqpError as error:
        raise BadContents(f"a message whose properties cannot be interpreted: {error}") from None


def stream_front(head: MessageHead, now: float, *, redelivered: bool = False, to: str | None = None) -> bytes:
    """Return the octets before those of the body, for a message whose body is read while it comes in."""
    if head.mime_type == WHOLE:
        return b""
    front = message_of(head, now, redelivered=redelivered, to=to)
    front.body = None
    sections = front.encode_head()
    return sections if head.mime_type == SECTIONS else sections + data_head(head.body_size)


def from_fast(
    head: MessageHead,
    body: bytes,
    now: float,
    *,
    redelivered: bool = False,
    mime_type: str = "",
    encoding: str = "",
    to: str | None = None,
) -> tuple[bytes, int]:
    """Return the encoded message for a head and a body, and its message-format.

    Args:
        now: seconds since 1970.
        redelivered: the message was delivered before.
        mime_type, encoding: those of the handle, used where the head leaves them empty.
        to: the destination, which replaces the one in the headers.
    """
    if head.priority == 4 and not (redelivered or to or mime_type or encoding or _says_something(head)):
        return data_head(len(body)) + body, 0
    if head.mime_type == WHOLE:
        number = head.headers.get(FORMAT)
        return body, int(number) if isinstance(number, str) and number.isdecimal() and len(number) < 10 else 0
    message = message_of(head, now, redelivered=redelivered, mime_type=mime_type, encoding=encoding, to=to)
    if head.mime_type == SECTIONS:
        try:
            sections = Message.decode(body)
            sections.check()
            return message.replace(body=None).encode_head() + body + message.encode_footer(), 0
        except DecodeError:
            message.content_type = SECTIONS
    message.body = _parted(head, body)
    return message.encode(), 0


def _says_something(head: MessageHead) -> bool:
    """Return whether the head holds more than the priority and the size of the body."""
    return bool(
        head.headers or head.persistent or head.expiration or head.mime_type or head.encoding or head.identifier
    )


_SIZES: Final = re.compile(r"[0-9]{0,10}(,[0-9]{0,10})*")


def _parted(head: MessageHead, body: bytes) -> bytes | Data:
    """Cut the body into the data sections whose sizes the head gives; return it whole if the sizes do not fit it."""
    text = head.headers.get(PARTS)
    if not isinstance(text, str) or len(text) > 100_000 or _SIZES.fullmatch(text) is None:
        return body
    data = cut(body, [int(size or 0) for size in text.split(",")])
    return body if data is None else data


def message_of(
    head: MessageHead,
    now: float,
    *,
    redelivered: bool = False,
    mime_type: str = "",
    encoding: str = "",
    to: str | None = None,
) -> Message:
    """Return the message that a head describes; the caller sets the body."""
    message = _believed(head)
    if message is None:
        message = _read(head, mime_type, encoding)
    if to is not None:
        message.to = to
    message.durable = head.persistent
    priority = head.headers.get(PRIORITY)
    message.priority = (
        priority if isinstance(priority, int) and 9 < priority < 256 and head.priority == 9 else head.priority
    )
    message.delivery_count = max(delivery_count_of(head), int(redelivered))
    message.ttl = _ttl(head, now)
    return message


def _ttl(head: MessageHead, now: float) -> timedelta | None:
    text = head.headers.get(TTL)
    ttl = int(text) if isinstance(text, str) and text.isdecimal() and len(text) <= 10 else None
    if head.expiration and not (ttl is None and MOMENTS["absolute_expiry_time"] in head.headers):
        left = max(0, int((head.expiration - now) * 1000))
        ttl = left if ttl is None else min(ttl, left)
    return timedelta(milliseconds=min(ttl, 0xFFFF_FFFF)) if ttl is not None else None


def _believed(head: MessageHead) -> Message | None:
    """Decode the whole message in the header x-opt-amqp10; return None if the readable fields no longer match it."""
    rest = head.headers.get(REST_HEADER)
    if not isinstance(rest, str):
        return None
    try:
        message = Message.decode(base64.b64decode(rest, validate=True))
        message.check()
        if head.mime_type == SECTIONS:
            message.body = None
        expected, _ = readable(message)
    except (AmqpError, binascii.Error, ValueError):
        return None
    if head.mime_type != SECTIONS and expected.mime_type != head.mime_type:
        return None
    if (expected.identifier, expected.encoding) != (head.identifier, head.encoding):
        return None
    there = {name: value for name, value in head.headers.items() if name not in HOP}
    return message if there == {name: value for name, value in expected.headers.items() if name not in HOP} else None


def _read(head: MessageHead, mime_type: str, encoding: str) -> Message:
    headers = dict(head.headers)
    message = Message(message_id=head.identifier or None)
    native: Table = {}
    text = headers.get(CONTENT_TYPE)
    if isinstance(text, str) and text.isascii() and head.mime_type in ("", SECTIONS):
        message.content_type = headers.pop(CONTENT_TYPE)
    elif head.mime_type != SECTIONS and (head.mime_type or mime_type).isascii():
        message.content_type = head.mime_type or mime_type or None
    elif head.mime_type != SECTIONS:
        native["mime-type"] = head.mime_type
    if (head.encoding or encoding).isascii():
        message.content_encoding = head.encoding or encoding or None
    else:
        native["encoding"] = head.encoding
    for name, header in TEXTS.items():
        if isinstance(headers.get(header), str):
            setattr(message, name, headers.pop(header))
    for name, header in MOMENTS.items():
        if (when := read_moment(headers.get(header))) is not None:
            setattr(message, name, when)
            del headers[header]
    if isinstance(headers.get(CORRELATION_ID), str):
        message.correlation_id = headers.pop(CORRELATION_ID)
    if isinstance(headers.get(USER_ID), str | bytes):
        user = headers.pop(USER_ID)
        message.user_id = user.encode() if isinstance(user, str) else user
    if (sequence := _sequence(headers.get(GROUP_SEQUENCE))) is not None:
        message.group_sequence = UInt(sequence)
        del headers[GROUP_SEQUENCE]
    _read_maps(message, {name: value for name, value in headers.items() if name not in HOP}, native)
    return message


def _sequence(value: Any) -> int | None:
    """Return the group-sequence that `_number` wrote as `value`; None if `value` has another form."""
    if isinstance(value, str) and len(value) == 10 and value.isascii() and value.isdecimal():
        return int(value) if 1 << 31 <= int(value) < 1 << 32 else None
    return value if isinstance(value, int) and not isinstance(value, Seconds) and value >= 0 else None


def _read_maps(message: Message, headers: Table, native: Table) -> None:
    annotations: dict[Any, Any] = {}
    properties: dict[str, Any] = {}
    tables: Table = {}
    for name, value in headers.items():
        converted = from_header(value)
        if converted is NOTHING or (name.startswith("x-") and not name.isascii()) or is_reserved(name):
            tables[name] = value
        elif name.startswith("x-"):
            annotations[Symbol(name)] = converted
        else:
            properties[name] = converted
    if tables:
        native["headers"] = tables
    if native:
        annotations[NATIVE] = write_table(native)
    message.message_annotations = annotations
    message.application_properties = properties


def delivery_count_of(head: MessageHead) -> int:
    """Return how many earlier attempts at delivery the head reports."""
    return _sequence(head.headers.get(DELIVERY_COUNT)) or 0
