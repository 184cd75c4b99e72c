"""The mapping of a message of AMQP 1.0 to one of 0-10, without loss: properties, headers and body.

Each field of 1.0 goes to the field that means the same. A field without such an equal goes to a header with a name of
its own, and a value without a type in 0-10 goes, encoded, into one common header (`header_values`). A field that once
came from 0-10 and was kept in an annotation goes back where it was.
"""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from ....engine import Address, parse_address, route_address
from ....errors import DecodeError, EncodeError
from ....messaging import AmqpSequence, AmqpValue, Data, Message
from ....messaging.sections import APPLICATION_PROPERTIES, FOOTER, MESSAGE_ANNOTATIONS, write_body, write_map
from ....types import Int, UInt, ULong
from ..._kit.message.mapping import (
    EXCHANGE,
    GROUP_ID,
    GROUP_SEQUENCE,
    PREFIX,
    REST_HEADER,
    ROUTING_KEY,
    SUBJECT,
    origin_of,
)
from ..._kit.message.values import SINCE_1973, milliseconds, text_or_octets
from ..wire.commands import DeliveryProperties, MessageProperties, ReplyTo
from ..wire.values import encode_value, read_map
from .header_values import (
    BODY,
    ENCODED,
    LIST,
    LONG,
    MAP,
    NATIVE_ANNOTATION,
    PARTS,
    TEXT,
    NoEquivalent,
    altered_by_brokers,
    is_application_value,
    to_header,
)

MAX_TTL: Final = 0xFFFF_FFFF
"""Milliseconds from now to the latest expiration that Broker-J gets: 10.1.0 shuts down over a later one, which does not
fit the ttl of AMQP 1.0.
"""
TOP_PRIORITY: Final = 9
_OURS: Final = frozenset((EXCHANGE, ROUTING_KEY, NATIVE_ANNOTATION, REST_HEADER, SUBJECT, GROUP_ID, GROUP_SEQUENCE))
_NOWHERE: Final = Address("", "")
_OWN_BITS: Final = ("discard_unroutable", "immediate")
_KINDS_OF_BODY: Final = frozenset((MAP, LIST, ENCODED))


class WrittenMessage:
    """The content of a transfer to send.

    Attributes:
        exchange: the destination of the transfer.
        header: the header segment.
        body: the body segment.
    """

    __slots__ = ("body", "exchange", "header")

    def __init__(self, exchange: str, header: bytes, body: bytes) -> None:
        self.exchange: str = exchange
        self.header: bytes = header
        self.body: bytes = body


def write_message(
    payload: bytes, address: Address | None, *, fallback: Address | None = None, to_qpid: bool = False
) -> WrittenMessage:
    """Return the content of a transfer for the message in an encoded payload (§3.2).

    Args:
        address: where the message goes; None: its field `to` says that.
        fallback: for a message from a queue: where it went to, unless its annotations say that.
        to_qpid: write for Broker-J, which shuts down over some moments, and does not pass some annotations on to
            clients of AMQP 1.0.

    Raises:
        DecodeError: the payload is not a message.
        EncodeError: the message does not say where it goes, or a text is too long for its field.
    """
    message = Message.decode(payload)
    to = message.to
    if address is None and fallback is not None:
        address = _went(message, fallback)
    if address is None:
        if to is None:
            raise EncodeError("the message has no `to`, and the link has no target address: set one of them")
        try:
            address = parse_address(to)
        except ValueError as error:
            raise EncodeError(str(error)) from None
    writer = _Writer(message, address, to_qpid=to_qpid)
    return WrittenMessage(address.exchange, writer.header(), writer.body)


def as_encoded_sections(payload: bytes, address: Address) -> WrittenMessage:
    """Return the content of a transfer whose body is the whole payload, for a message that cannot be mapped to 0-10."""
    delivery, properties = DeliveryProperties(), MessageProperties()
    delivery.exchange, delivery.routing_key = address.exchange or None, address.key
    properties.content_type, properties.content_length = ENCODED, len(payload)
    return WrittenMessage(address.exchange, delivery.encode_struct32() + properties.encode_struct32(), payload)


def _went(message: Message, fallback: Address) -> Address:
    """Return the exchange and the routing key that the message came with, or `fallback` if it does not say."""
    origin = origin_of(message.message_annotations)
    return Address(*origin) if origin is not None and all(len(each.encode()) < 256 for each in origin) else fallback


def _came_to(message: Message) -> str | None:
    """Return the `to` that the message got on its way in, in another dialect; None if its sender may have set `to`."""
    went = _went(message, _NOWHERE)
    return route_address(went.exchange, went.key) if went is not _NOWHERE else None


def _came_by_key(message: Message) -> bool:
    """Return whether the subject is only the routing key that the message came by: its sender did not set a subject."""
    went = _went(message, _NOWHERE)
    return bool(went.exchange) and message.subject == went.key and message.to == _came_to(message)


class _Writer:
    """One message."""

    def __init__(self, message: Message, address: Address, *, to_qpid: bool) -> None:
        self.message = message
        self.address = address
        self.to_qpid = to_qpid
        self.headers: dict[str, Any] = {}
        self.rest: dict[str, Any] = {}  # fields of a message with the values that 0-10 does not have
        self.redelivered = message.delivery_count > 0
        self.own: dict[Any, Any] = {}
        self.content_type = str(message.content_type) if message.content_type is not None else None
        self.body = self._body()

    # Body

    def _body(self) -> bytes:
        body = self.message.body
        if type(body) is bytes or type(body) is Data:
            if self.content_type in _KINDS_OF_BODY:
                self.headers[BODY] = "data"
            if type(body) is Data and len(body) > 1:
                self.headers[PARTS] = [len(part) for part in body]
            return bytes(body)
        if type(body) is AmqpValue:
            body = body.value
        if type(body) is str and len(body.encode("utf-8", "replace")) == len(body.encode("utf-8", "ignore")):
            self.headers[BODY] = "value" if self.content_type is not None else "text"
            self.content_type = self.content_type if self.content_type is not None else TEXT
            return body.encode()
        if type(body) in (dict, list) and self.content_type is None:
            try:
                code, octets = encode_value(to_header(body))
            except (NoEquivalent, EncodeError):
                pass
            else:
                self.content_type = MAP if code == 0xA8 else LIST
                return octets
        out = bytearray()
        write_body(out, body if isinstance(body, AmqpSequence | Data) else AmqpValue(body))
        if self.content_type is not None:
            self.headers[PREFIX + "content-type"] = self.content_type
        self.content_type = ENCODED
        return bytes(out)

    # Properties

    def header(self) -> bytes:
        """Return the header segment: both structs, encoded."""
        delivery, properties = DeliveryProperties(), MessageProperties()
        self._annotations()
        self._delivery(delivery)
        self._properties(properties)
        self._application_properties()
        self._own(delivery, properties)
        self._rest()
        properties.content_length = len(self.body)
        properties.application_headers = self.headers or None
        return delivery.encode_struct32() + properties.encode_struct32()

    def _delivery(self, delivery: DeliveryProperties) -> None:
        message, address = self.message, self.address
        delivery.delivery_mode = 2 if message.durable else 1
        delivery.priority = min(message.priority, TOP_PRIORITY)
        if message.priority > TOP_PRIORITY:
            self._keep("priority", message.priority)
        if message.ttl is not None:
            delivery.ttl = -(-message.ttl // timedelta(milliseconds=1))
        delivery.redelivered = self.redelivered
        if message.delivery_count > 1:
            self._keep("delivery-count", UInt(message.delivery_count))
        if address.exchange:
            delivery.exchange = address.exchange
        subject = message.subject
        key = address.key if address.key is not None else subject or ""
        if len(key.encode()) > 255:
            raise EncodeError(f"a routing key must have at most 255 octets, not {len(key.encode())}")
        delivery.routing_key = key
        if subject is not None and (subject != key or not address.exchange) and not _came_by_key(message):
            self._text(SUBJECT, subject)
        for name, moment in (("timestamp", message.creation_time), ("expiration", message.absolute_expiry_time)):
            if moment is not None:
                when = milliseconds(moment)
                far = self.to_qpid and name == "expiration" and when - time.time() * 1000 > MAX_TTL
                if not far:
                    setattr(delivery, name, when)
                if far or when < SINCE_1973:
                    self._keep("creation-time" if name == "timestamp" else "absolute-expiry-time", when)
        if message.to not in (None, route_address(address.exchange, key), _came_to(message)):
            self._keep("to", message.to)

    def _properties(self, properties: MessageProperties) -> None:
        message = self.message
        if isinstance(message.message_id, UUID):
            properties.message_id = message.message_id
        elif message.message_id is not None:
            self._keep("message-id", _id(message.message_id))
        if message.correlation_id is not None:
            self._correlation(properties, message.correlation_id)
        if message.user_id is not None:
            if len(message.user_id) <= 0xFFFF:
                properties.user_id = bytes(message.user_id)
            else:
                self._keep("user-id", bytes(message.user_id))
        if message.reply_to is not None:
            self._reply_to(properties, message.reply_to)
        if self.content_type is not None:
            properties.content_type = self._short("content-type", self.content_type)
        if message.content_encoding is not None:
            properties.content_encoding = self._short("content-encoding", str(message.content_encoding))
        if message.group_id is not None:
            self._text(GROUP_ID, message.group_id)
        if message.group_sequence is not None:
            number = message.group_sequence
            self.headers[GROUP_SEQUENCE] = Int(number) if number < 1 << 31 else UInt(number)
        if message.reply_to_group_id is not None:
            self._keep("reply-to-group-id", message.reply_to_group_id)

    def _correlation(self, properties: MessageProperties, value: Any) -> None:
        octets = value if isinstance(value, bytes) else str(value).encode("utf-8", "replace")
        if len(octets) <= 0xFFFF:
            properties.correlation_id = octets
        is_text = isinstance(text_or_octets(octets), str)
        if len(octets) > 0xFFFF or (not isinstance(value, str) and (not isinstance(value, bytes) or is_text)):
            self._keep("correlation-id", _id(value))

    def _reply_to(self, properties: MessageProperties, text: str) -> None:
        try:
            address = parse_address(text)
        except ValueError:
            self._keep("reply-to", text)
            return
        key = address.key
        if max(len(address.exchange.encode()), len((key or "").encode())) > 255:
            self._keep("reply-to", text)
            return
        properties.reply_to = ReplyTo(address.exchange or None, key)
        if route_address(address.exchange, key) != text:
            self._keep("reply-to", text)

    def _short(self, name: str, text: str) -> str | None:
        if not 0 < len(text.encode()) <= 255:  # some programs write "" if there is no text
            self._keep(name, text)
            return None
        return text

    def _text(self, name: str, text: str) -> None:
        """Set the header `name`, which other programs know too."""
        try:
            self.headers[name] = to_header(text)
        except NoEquivalent:
            self._keep(name, text)

    def _keep(self, name: str, value: Any) -> None:
        """Keep a field that 0-10 does not have, in a header of ours."""
        try:
            self.headers[PREFIX + name] = to_header(value)
        except NoEquivalent:
            self.headers[LONG + name] = str(value).encode()

    # Maps

    def _application_properties(self) -> None:
        left = {}
        for key, value in self.message.application_properties.items():
            try:
                if key in _OURS or key.startswith("x-") or len(key.encode()) > 255:
                    raise NoEquivalent
                self.headers[key] = to_header(value)
                if altered_by_brokers(value):
                    left[key] = value
            except NoEquivalent:
                left[key] = value
        if left:
            self.rest["application_properties"] = left

    def _annotations(self) -> None:
        left = {}
        for key, value in self.message.message_annotations.items():
            name = str(key)
            if name == NATIVE_ANNOTATION and isinstance(value, dict):
                self.own = value
            elif name not in (EXCHANGE, ROUTING_KEY):
                try:
                    if not name.startswith("x-") or name.startswith(REST_HEADER) or len(name) > 255:
                        raise NoEquivalent
                    if self.to_qpid and not is_application_value(value):
                        raise NoEquivalent  # Broker-J cannot write it in 1.0, and would not deliver the message
                    self.headers[name] = to_header(value)
                    if altered_by_brokers(value):
                        left[key] = value
                except NoEquivalent:
                    left[key] = value
        if left:
            self.rest["message_annotations"] = left
        if self.message.footer:
            self.rest["footer"] = self.message.footer

    def _own(self, delivery: DeliveryProperties, properties: MessageProperties) -> None:
        """Restore the fields that came from 0-10 and that AMQP 1.0 does not have."""
        for key, value in self.own.items():
            name = str(key)
            if name == "headers" and isinstance(value, bytes):
                try:
                    self.headers = read_map(value[4:]) | self.headers
                except DecodeError:
                    continue  # not written by us
            elif name == "app-id" and isinstance(value, bytes):
                properties.app_id = value
            elif name.replace("-", "_") in _OWN_BITS and value is True:
                setattr(delivery, name.replace("-", "_"), True)
            elif name == "resume-id" and isinstance(value, str):
                delivery.resume_id = value
            elif name in ("ttl", "resume-ttl") and isinstance(value, ULong):
                setattr(delivery, name.replace("-", "_"), int(value))

    def _rest(self) -> None:
        if not self.rest:
            return
        out = bytearray()
        for code in (MESSAGE_ANNOTATIONS, APPLICATION_PROPERTIES, FOOTER):
            write_map(out, code, self.rest)
        self.headers[REST_HEADER] = bytes(out)


def _id(value: Any) -> Any:
    """Return a message-id in a type that a header can have."""
    return ULong(value) if isinstance(value, int) else value
