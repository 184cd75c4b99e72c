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

from ...errors import AmqpError, DecodeError
from ...messaging import Data, Message, data_head
from ...types import Symbol, UInt, ULong
from ._commands import MessageHead
from ._headers import NOTHING, from_header, moment, to_header
from ._values import MAX_SHORTSTR, Seconds, Table, as_text, read_table, write_table

SECTIONS: Final = "application/vnd.amqp10; section=amqp-value"
"""The mime-type of a body that is encoded sections of AMQP 1.0."""
WHOLE: Final = "application/vnd.amqp10"
"""That of one that is a whole encoded message, which cannot be said otherwise."""

_DATA_SECTION: Final = data_head(0)[:3]
PREFIX: Final = "x-opt-amqp10-"
REST: Final = "x-opt-amqp10"
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
_HOP: Final = frozenset((TTL, _PRIORITY, DELIVERY_COUNT, REST, _PARTS))
"""Headers that say nothing of what the sender's properties were."""
_NO_HEAD: Final[dict[str, Any]] = dict.fromkeys(
    ("durable", "priority", "ttl", "first_acquirer", "delivery_count", "delivery_annotations")
)


def to_fast(payload: bytes, now: float, *, message_format: int = 0, room: int = 1 << 16) -> tuple[MessageHead, bytes]:
    """Head and body of an encoded message.

    Args:
        now: seconds since 1970, for what expires.
        room: octets that the head may have.
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
            if len(head.write()) <= room:
                return head, body
        except AmqpError:
            pass  # it is none, or has what cannot be said: it goes as it is
    headers: Table = {_FORMAT: str(message_format)} if message_format else {}
    return MessageHead(body_size=len(payload), mime_type=WHOLE, headers=headers), payload


def delivery_count_of(head: MessageHead) -> int:
    """How often it was tried before, as the head says."""
    return _sequence(head.headers.get(DELIVERY_COUNT)) or 0


def _written(message: Message, now: float) -> tuple[MessageHead, bytes]:
    head, exact = _readable(message)
    if not exact:
        whole = message.replace(**_NO_HEAD, body=b"").encode()
        head.headers[REST] = base64.b64encode(whole).decode()
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
    """Whole seconds, rounded up; 0 for never where it is beyond what can be said."""
    seconds = -int(-when // 1)
    return seconds if 0 < seconds < 1 << 32 else 0


def _readable(message: Message) -> tuple[MessageHead, bool]:
    """The properties as they are read without anything of ours, and whether that is all."""
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
    """Content-type and -encoding."""
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
        head.mime_type = kind_of_body  # ours alone say that properties, of whomsoever, are in the body
    head.encoding = head.encoding or native.get("encoding", "")
    return exact


def _fits(text: str) -> bool:
    """It can be said by a short string, whose being empty says that there is none."""
    return 0 < len(text.encode()) <= MAX_SHORTSTR and "\0" not in text


def _number(value: int) -> int | str:
    return int(value) if value < 1 << 31 else str(int(value))


def _id_text(value: Any) -> tuple[str | None, bool]:
    """A message-id as text, and whether it is text."""
    if value is None or type(value) is str:
        return value, True
    if isinstance(value, bytes):
        return value.hex(), False
    return str(value if isinstance(value, UUID) else int(value)), False


def _write_map(headers: Table, entries: dict[Any, Any], *, annotations: bool) -> bool:
    """Annotations, whose headers begin with x-, or application properties, whose do not; False unless all is said."""
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
        said, same = to_header(value)
        exact = exact and same and theirs
        # An annotation under another name would be taken for a property of the application.
        if said is not NOTHING and (theirs or not annotations):
            headers[name] = said
    return exact


def _ours(name: str) -> bool:
    """A header of that name means something else than an annotation or a property."""
    return name in _RESERVED or name.startswith(REST)


def _native(octets: Any) -> Table:
    """What a message annotation keeps that AMQP 1.0 has no place for."""
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
    """The encoded message of a head and a body, and its message-format.

    Args:
        now: seconds since 1970.
        redelivered: it was delivered before.
        mime_type, encoding: those of the handle, for a head that has none.
        to: where it goes, instead of where its headers say.
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
    """There is more in it than the size of the body."""
    return bool(
        head.headers or head.persistent or head.expiration or head.mime_type or head.encoding or head.identifier
    )


_SIZES: Final = re.compile(r"[0-9]{0,10}(,[0-9]{0,10})*")


def _parted(head: MessageHead, body: bytes) -> bytes | Data:
    """The body in the sections that it had."""
    said = head.headers.get(_PARTS)
    if not isinstance(said, str) or len(said) > 100_000 or _SIZES.fullmatch(said) is None:
        return body
    sizes = [int(size or 0) for size in said.split(",")]
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
    """The message of a head, its body still to be set."""
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
    said = head.headers.get(TTL)
    ttl = int(said) if isinstance(said, str) and said.isdecimal() and len(said) <= 10 else None
    if head.expiration and not (ttl is None and _MOMENTS["absolute_expiry_time"] in head.headers):
        left = max(0, int((head.expiration - now) * 1000))
        ttl = left if ttl is None else min(ttl, left)
    return timedelta(milliseconds=min(ttl, 0xFFFF_FFFF)) if ttl is not None else None


def _believed(head: MessageHead) -> Message | None:
    """The message that goes along whole, if what can be read beside it still says the same."""
    rest = head.headers.get(REST)
    if not isinstance(rest, str):
        return None
    try:
        message = Message.decode(base64.b64decode(rest, validate=True))
        message.check()
        if head.mime_type == SECTIONS:
            message.body = None
        said, _ = _readable(message)
    except (AmqpError, binascii.Error, ValueError):
        return None
    if head.mime_type != SECTIONS and said.mime_type != head.mime_type:
        return None
    if (said.identifier, said.encoding) != (head.identifier, head.encoding):
        return None
    there = {name: value for name, value in head.headers.items() if name not in _HOP}
    return message if there == {name: value for name, value in said.headers.items() if name not in _HOP} else None


def _read(head: MessageHead, mime_type: str, encoding: str) -> Message:
    headers = dict(head.headers)
    message = Message(message_id=head.identifier or None)
    native: Table = {}
    said = headers.get(_CONTENT_TYPE)
    if isinstance(said, str) and said.isascii() and head.mime_type in ("", SECTIONS):
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


def _sequence(said: Any) -> int | None:
    """A group-sequence, as `_number` writes it."""
    if isinstance(said, str) and len(said) == 10 and said.isascii() and said.isdecimal():
        return int(said) if 1 << 31 <= int(said) < 1 << 32 else None
    return said if isinstance(said, int) and not isinstance(said, Seconds) and said >= 0 else None


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
