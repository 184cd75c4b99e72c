"""A message of AMQP 1.0 as head and body of AMQP/Fast, and back.

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
import binascii
import re
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from ....errors import AmqpError, DecodeError
from ....messaging import Data, Message, data_head
from ....types import Symbol, UInt, ULong
from ..wire.commands import MessageHead
from ..wire.values import MAX_SHORTSTR, Seconds, Table, as_text, read_table, write_table
from .header_values import NOTHING, from_header, moment, to_header

SECTIONS: Final = "application/vnd.amqp10; section=amqp-value"
"""The mime-type of a body that is encoded sections of AMQP 1.0."""
WHOLE: Final = "application/vnd.amqp10"
"""The mime-type of a body that is a whole encoded message, because no other form can express it."""

_DATA_SECTION: Final = data_head(0)[:3]
PREFIX: Final = "x-opt-amqp10-"
REST_HEADER: Final = "x-opt-amqp10"
DELIVERY_COUNT: Final = "x-delivery-count"
NATIVE: Final = Symbol("x-opt-fast")
_SUBJECT: Final = "qpid.subject"
_TEXTS: Final = {
    "subject": _SUBJECT,
    "group_id": "JMSXGroupID",
    "to": f"{PREFIX}to",
    "reply_to": f"{PREFIX}reply-to",
    "reply_to_group_id": f"{PREFIX}reply-to-group-id",
}
_MOMENTS: Final = {
    "absolute_expiry_time": f"{PREFIX}absolute-expiry-time",
    "creation_time": f"{PREFIX}creation-time",
}
_GROUP_SEQUENCE: Final = "JMSXGroupSeq"
_USER_ID: Final = f"{PREFIX}user-id"
_CORRELATION_ID: Final = f"{PREFIX}correlation-id"
_CONTENT_TYPE: Final = f"{PREFIX}content-type"
_PRIORITY: Final = f"{PREFIX}priority"
TTL: Final = f"{PREFIX}ttl"
_PARTS: Final = f"{PREFIX}sections"
_FORMAT: Final = f"{PREFIX}message-format"
_RESERVED: Final = frozenset((*_TEXTS.values(), _GROUP_SEQUENCE, DELIVERY_COUNT))
_HOP: Final = frozenset((TTL, _PRIORITY, DELIVERY_COUNT, REST_HEADER, _PARTS))
"""Headers that do not come from the sender's properties."""
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
    headers: Table = {_FORMAT: str(message_format)} if message_format else {}
    return MessageHead(body_size=len(payload), mime_type=WHOLE, headers=headers), payload


def delivery_count_of(head: MessageHead) -> int:
    """Return how many earlier attempts at delivery the head reports."""
    return _sequence(head.headers.get(DELIVERY_COUNT)) or 0


def _written(message: Message, now: float) -> tuple[MessageHead, bytes]:
    head, exact = _readable(message)
    if not exact:
        whole = message.replace(**_NO_HEAD, body=b"").encode()
        head.headers[REST_HEADER] = base64.b64encode(whole).decode()
    body = message.body
    if isinstance(body, bytes):
        octets = body
    elif isinstance(body, Data):
        octets = bytes(body)
        head.headers[_PARTS] = ",".join(str(len(part)) for part in body.parts)
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
        head.headers[_PRIORITY] = message.priority
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


def _readable(message: Message) -> tuple[MessageHead, bool]:
    """Return a head that any reader of AMQP/Fast understands, and whether it holds all properties exactly."""
    head, exact = MessageHead(), message.footer == {}
    headers = head.headers
    identifier, same = _id_text(message.message_id)
    if identifier is not None and _fits(identifier):
        head.identifier = identifier
        exact = exact and same
    else:
        exact = exact and message.message_id is None
    for name, header in _TEXTS.items():
        if (text := getattr(message, name)) is not None:
            headers[header] = text
    correlation, same = _id_text(message.correlation_id)
    if correlation is not None:
        headers[_CORRELATION_ID] = correlation
        exact = exact and same
    if message.user_id is not None:
        headers[_USER_ID] = as_text(message.user_id)
    if message.group_sequence is not None:
        headers[_GROUP_SEQUENCE] = _number(message.group_sequence)
    exact = _write_types(head, message) and exact
    for name, header in _MOMENTS.items():
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
        head.headers[_CONTENT_TYPE] = str(kind)
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
            for name in native.keys() - {_USER_ID}:  # servers have checked the user-id of the properties only
                headers.setdefault(name, native[name])
            continue
        name = str(key)
        theirs = name.startswith("x-") is annotations and not isinstance(key, ULong)
        if _ours(name) or name in headers or not _fits(name or "-"):
            exact = False
            continue
        written, same = to_header(value)
        exact = exact and same and theirs
        # An annotation under another name would be taken for a property of the application.
        if written is not NOTHING and (theirs or not annotations):
            headers[name] = written
    return exact


def _ours(name: str) -> bool:
    """Return whether the header `name` has a meaning of its own, so that it is neither an annotation nor a property."""
    return name in _RESERVED or name.startswith(REST_HEADER)


def _native(octets: Any) -> Table:
    """Decode the annotation x-opt-fast, which keeps fields of AMQP/Fast that AMQP 1.0 lacks; {} if it is malformed."""
    try:
        return read_table(octets, 0, len(octets))[0] if isinstance(octets, bytes) else {}
    except DecodeError:
        return {}


# Back


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
        number = head.headers.get(_FORMAT)
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
    text = head.headers.get(_PARTS)
    if not isinstance(text, str) or len(text) > 100_000 or _SIZES.fullmatch(text) is None:
        return body
    sizes = [int(size or 0) for size in text.split(",")]
    if sum(sizes) != len(body):
        return body
    parts, at = [], 0
    for size in sizes:
        parts.append(body[at : at + size])
        at += size
    return Data(*parts)


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
    priority = head.headers.get(_PRIORITY)
    message.priority = (
        priority if isinstance(priority, int) and 9 < priority < 256 and head.priority == 9 else head.priority
    )
    message.delivery_count = max(delivery_count_of(head), int(redelivered))
    message.ttl = _ttl(head, now)
    return message


def _ttl(head: MessageHead, now: float) -> timedelta | None:
    text = head.headers.get(TTL)
    ttl = int(text) if isinstance(text, str) and text.isdecimal() and len(text) <= 10 else None
    if head.expiration and not (ttl is None and _MOMENTS["absolute_expiry_time"] in head.headers):
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
        expected, _ = _readable(message)
    except (AmqpError, binascii.Error, ValueError):
        return None
    if head.mime_type != SECTIONS and expected.mime_type != head.mime_type:
        return None
    if (expected.identifier, expected.encoding) != (head.identifier, head.encoding):
        return None
    there = {name: value for name, value in head.headers.items() if name not in _HOP}
    return message if there == {name: value for name, value in expected.headers.items() if name not in _HOP} else None


def _read(head: MessageHead, mime_type: str, encoding: str) -> Message:
    headers = dict(head.headers)
    message = Message(message_id=head.identifier or None)
    native: Table = {}
    text = headers.get(_CONTENT_TYPE)
    if isinstance(text, str) and text.isascii() and head.mime_type in ("", SECTIONS):
        message.content_type = headers.pop(_CONTENT_TYPE)
    elif head.mime_type != SECTIONS and (head.mime_type or mime_type).isascii():
        message.content_type = head.mime_type or mime_type or None
    elif head.mime_type != SECTIONS:
        native["mime-type"] = head.mime_type
    if (head.encoding or encoding).isascii():
        message.content_encoding = head.encoding or encoding or None
    else:
        native["encoding"] = head.encoding
    for name, header in _TEXTS.items():
        if isinstance(headers.get(header), str):
            setattr(message, name, headers.pop(header))
    for name, header in _MOMENTS.items():
        if (when := moment(headers.get(header))) is not None:
            setattr(message, name, when)
            del headers[header]
    if isinstance(headers.get(_CORRELATION_ID), str):
        message.correlation_id = headers.pop(_CORRELATION_ID)
    if isinstance(headers.get(_USER_ID), str | bytes):
        user = headers.pop(_USER_ID)
        message.user_id = user.encode() if isinstance(user, str) else user
    if (sequence := _sequence(headers.get(_GROUP_SEQUENCE))) is not None:
        message.group_sequence = UInt(sequence)
        del headers[_GROUP_SEQUENCE]
    _read_maps(message, {name: value for name, value in headers.items() if name not in _HOP}, native)
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
        if converted is NOTHING or (name.startswith("x-") and not name.isascii()) or _ours(name):
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
