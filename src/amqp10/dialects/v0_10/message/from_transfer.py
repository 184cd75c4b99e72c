"""The mapping of a message of 0-10 to one of AMQP 1.0, the reverse of `to_transfer`."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from ....engine import route_address
from ....errors import DecodeError, EncodeError
from ....messaging import AmqpValue, Message
from ....messaging.sections import BODY as BODY_CODES
from ....messaging.sections import FOOTER, scan, write_body, write_head, write_map
from ....types import Symbol, Timestamp, ULong
from ..._kit.message.mapping import (
    EXCHANGE,
    GROUP_ID,
    GROUP_SEQUENCE,
    PREFIX,
    REST_HEADER,
    ROUTING_KEY,
    SUBJECT,
    cut,
    kept_id,
)
from ..._kit.message.values import SINCE_1973, moment, text_or_octets
from ..wire.commands import DeliveryProperties, MessageProperties, ReplyTo
from ..wire.struct import decode_header
from ..wire.values import encode_map, read_list, read_map
from .header_values import (
    ENCODED,
    LIST,
    LONG,
    MAP,
    NATIVE_ANNOTATION,
    NoEquivalent,
    from_header,
    is_application_value,
)

_UINT: Final = 0xFFFF_FFFF
_TEXTS: Final = ("to", "reply-to", "content-encoding", "reply-to-group-id")


class ReadMessage:
    """The content of a transfer that was received.

    Attributes:
        payload: the message, encoded as AMQP 1.0 (§3.2).
        delivery: its delivery-properties.
    """

    __slots__ = ("delivery", "payload")

    def __init__(self, payload: bytes, delivery: DeliveryProperties) -> None:
        self.payload: bytes = payload
        self.delivery: DeliveryProperties = delivery


def read_message(exchange: str, header: bytes | None, body: bytes) -> ReadMessage:
    """Return the message of a transfer to the destination `exchange`, translated at once into AMQP 1.0's encoding.

    In 1.0 a message stays as it came until a program reads it, and so do the properties of 0-9-1 (`ForeignPayload`).

    Raises:
        DecodeError: the header segment is malformed.
    """
    delivery, properties = DeliveryProperties(), MessageProperties()
    for each in decode_header(header or b""):
        if isinstance(each, DeliveryProperties):
            delivery = each
        elif isinstance(each, MessageProperties):
            properties = each
    reader = _Reader(exchange, delivery, properties)
    try:
        return ReadMessage(reader.payload(body), delivery)
    except EncodeError as error:
        raise DecodeError(f"a message that AMQP 1.0 cannot express: {error}") from error


class _Reader:
    """One message."""

    def __init__(self, exchange: str, delivery: DeliveryProperties, properties: MessageProperties) -> None:
        self.delivery = delivery
        self.properties = properties
        self.exchange = exchange
        self.kept: dict[str, Any] = {}  # fields of AMQP 1.0 that 0-10 does not have, by name
        self.annotations: dict[Any, Any] = {}
        self.application: dict[str, Any] = {}
        self.own: dict[Any, Any] = {}
        self.rest: Message | None = None
        self.subject: str | None = None
        self.fields: dict[str, Any] = {}

    def payload(self, body: bytes) -> bytes:
        """Return the message with the given body, encoded as AMQP 1.0."""
        self._headers(self.properties.application_headers or {})
        self._delivery()
        self._properties()
        content = self._body(body)
        fields = self.fields
        if self.rest is not None:
            self.annotations.update(self.rest.message_annotations)
            self.application.update(self.rest.application_properties)
        if self.own:
            self.annotations[NATIVE_ANNOTATION] = {Symbol(name): value for name, value in self.own.items()}
        if self.annotations:
            fields["message_annotations"] = self.annotations
        if self.application:
            fields["application_properties"] = self.application
        out = bytearray()
        write_head(out, {name: value for name, value in fields.items() if value is not None})
        if content is None:
            out += body
        else:
            write_body(out, content)
        if self.rest is not None and self.rest.footer:
            write_map(out, FOOTER, {"footer": self.rest.footer})
        return bytes(out)

    def _headers(self, headers: dict[str, Any]) -> None:
        left: dict[str, Any] = {}
        for key, value in headers.items():
            if key == REST_HEADER and isinstance(value, bytes):
                try:
                    self.rest = Message.decode(value)
                    self.rest.check()
                except DecodeError:
                    self.rest = None
                    left[key] = value
            elif key.startswith(LONG):
                self.kept[key[len(LONG) :]] = _text(value)
            elif key.startswith(PREFIX):
                self.kept[key[len(PREFIX) :]] = value
            elif key == SUBJECT and isinstance(value, str):
                self.subject = value
                if value == self.delivery.routing_key:
                    left[key] = value  # otherwise the way back could not tell that the header was there
            elif key == GROUP_ID and isinstance(value, str):
                self.fields["group_id"] = value
            elif key == GROUP_SEQUENCE and isinstance(value, int) and 0 <= value <= _UINT:
                self.fields["group_sequence"] = int(value)
            else:
                try:
                    if key.startswith("x-") and key.isascii():
                        self.annotations[Symbol(key)] = from_header(value)
                    elif is_application_value(value):
                        self.application[key] = from_header(value)
                    else:
                        left[key] = value
                except NoEquivalent:
                    left[key] = value
        if left:
            self.own["headers"] = encode_map(left)

    def _delivery(self) -> None:
        delivery, fields = self.delivery, self.fields
        fields["durable"] = delivery.delivery_mode == 2
        priority = self.kept.get("priority")
        fields["priority"] = priority if isinstance(priority, int) and 0 <= priority <= 255 else delivery.priority
        if delivery.ttl is not None and delivery.ttl <= _UINT:
            fields["ttl"] = timedelta(milliseconds=delivery.ttl)
        elif delivery.ttl is not None:
            self.own["ttl"] = ULong(delivery.ttl)
        count = self.kept.get("delivery-count")
        if isinstance(count, int) and 0 <= count <= _UINT and delivery.redelivered:
            fields["delivery_count"] = int(count)
        elif delivery.redelivered:
            fields["delivery_count"] = 1
        exchange = delivery.exchange if delivery.exchange is not None else self.exchange
        key = delivery.routing_key or ""
        if exchange or key:
            fields["to"] = route_address(exchange, key)
            self.annotations[EXCHANGE] = exchange
            self.annotations[ROUTING_KEY] = key
        fields["subject"] = self.subject if self.subject is not None else (key if exchange else None)
        fields["creation_time"] = self._moment("creation-time", delivery.timestamp)
        fields["absolute_expiry_time"] = self._moment("absolute-expiry-time", delivery.expiration)
        for name in ("discard_unroutable", "immediate"):
            if getattr(delivery, name):
                self.own[name.replace("_", "-")] = True
        if delivery.resume_id is not None:
            self.own["resume-id"] = delivery.resume_id
        if delivery.resume_ttl is not None:
            self.own["resume-ttl"] = ULong(delivery.resume_ttl)

    def _moment(self, name: str, value: int | None) -> datetime | Timestamp | None:
        kept = self.kept.get(name)
        if isinstance(kept, int):
            value = int(kept)
        elif not value:
            return None  # 0 means that there is no moment: Broker-J sends it so, and Qpid's clients read it so
        elif abs(value) < SINCE_1973:
            value *= 1000
        return moment(value)

    def _properties(self) -> None:
        properties, fields = self.properties, self.fields
        fields["message_id"] = _id(self.kept.get("message-id"), properties.message_id)
        fields["correlation_id"] = _id(self.kept.get("correlation-id"), _text(properties.correlation_id))
        user = self.kept.get("user-id")
        # Brokers check the property, not the header: believe the header only if its value is too long for the property.
        long = isinstance(user, bytes) and len(user) > 0xFFFF and properties.user_id is None
        fields["user_id"] = user if long else properties.user_id
        long_type = _text(self.kept.get("content-type"))
        fields["content_type"] = properties.content_type or None
        if not properties.content_type and isinstance(long_type, str):
            fields["content_type"] = long_type
        fields["content_encoding"] = properties.content_encoding or None
        if properties.app_id is not None:
            self.own["app-id"] = properties.app_id
        reply_to = properties.reply_to
        if isinstance(reply_to, ReplyTo) and (reply_to.exchange or reply_to.routing_key):
            fields["reply_to"] = route_address(reply_to.exchange or "", reply_to.routing_key)
        for name in _TEXTS:
            value = _text(self.kept.get(name))
            if isinstance(value, str):
                fields[name.replace("-", "_")] = value
        for name, field in ((SUBJECT, "subject"), (GROUP_ID, "group_id")):
            value = _text(self.kept.get(name))  # too long for the header that other programs know
            if isinstance(value, str):
                fields[field] = value

    def _body(self, body: bytes) -> Any:
        """Return the body as a value; None if it is encoded sections already."""
        content_type, fields = self.properties.content_type, self.fields
        marker = self.kept.get("body")
        if content_type == ENCODED and _is_body(body):
            original = _text(self.kept.get("content-type"))
            fields["content_type"] = original if isinstance(original, str) else None
            return None
        parts = self.kept.get("parts")
        data = cut(body, parts) if isinstance(parts, list) and _are_sizes(parts, len(body)) else None
        if data is not None:
            return data
        if marker == "data":
            return body
        try:
            if marker in ("text", "value"):
                value: Any = body.decode()
            elif content_type == MAP and int.from_bytes(body[:4], "big") == len(body) - 4:
                value = from_header(read_map(body[4:]))
            elif content_type == LIST and int.from_bytes(body[:4], "big") == len(body) - 4:
                value = from_header(read_list(body[4:]))
            else:
                return body
        except (UnicodeDecodeError, DecodeError, NoEquivalent):
            return body
        if marker != "value":
            fields["content_type"] = None
        return AmqpValue(value)


def _id(kept: Any, field: Any) -> Any:
    """Return a message-id: `kept`, from a header of ours, if it has a type of message-ids, else `field`."""
    return kept_id(kept) if isinstance(kept, int | UUID | bytes | str) else field


def _text(value: Any) -> Any:
    """Return octets as text if they are UTF-8; any other value as it is."""
    return text_or_octets(value) if isinstance(value, bytes) else value


def _are_sizes(sizes: list[Any], total: int) -> bool:
    """Return whether `sizes` can be the sizes of the parts of a body of `total` octets."""
    return 0 < len(sizes) <= total + 1024 and all(isinstance(size, int) and size >= 0 for size in sizes)


def _is_body(octets: bytes) -> bool:
    """Return whether `octets` are sections of a body, and nothing else."""
    try:
        places = scan(octets)
        Message.decode(octets).check()
    except DecodeError:
        return False
    return places.keys() <= set(BODY_CODES)
