"""Messages of AMQP 1.0, as the seam has them, to and from properties, headers and body of the basic class.

    header            delivery-mode 2 (durable), priority, expiration (ttl, ms in decimal digits); redelivered
    properties        message-id, correlation-id, reply-to, user-id, content-type, content-encoding, timestamp
                      to: exchange and routing key; subject: the key, or the header qpid.subject
                      group-id, -sequence: the headers JMSXGroupID, JMSXGroupSeq; the rest: x-opt-amqp10-NAME
    application-properties, and message-annotations x-*: headers of the same name
    body              data: the body; anything else: its sections as they are, and the type "amqp-1.0" (RabbitMQ's)

What finds no place so is not lost. A header `x-opt-amqp10` has it as the sections that it came in, and on the way back
they count if what can be read beside them still says the same. The other way a message annotation, `x-opt-0-9-1`, is a
map of what 1.0 has no field for: type, app-id, cluster-id, and headers that are tables or arrays.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from ...engine import parse_address, route_address
from ...errors import AmqpError, DecodeError, EncodeError
from ...messaging import Data, Message, data_head
from ...types import Int, Symbol, Timestamp
from ._properties import BasicProperties
from ._structured import Content
from ._table import Tables, milliseconds, moment, seconds

Clock = Callable[[], int]

LOST: Final = "x-opt-amqp10"
NATIVE: Final = Symbol("x-opt-0-9-1")
SECTIONS: Final = "amqp-1.0"
EXCHANGE: Final = Symbol("x-exchange")
ROUTING_KEY: Final = Symbol("x-routing-key")
COUNT: Final = "x-delivery-count"
# Fields that have no place of their own, and the headers that they are in.
_PLACES: Final = {
    "subject": "qpid.subject",
    "group_id": "JMSXGroupID",
    "group_sequence": "JMSXGroupSeq",
    "to": f"{LOST}-to",
    "reply_to_group_id": f"{LOST}-reply-to-group-id",
    "absolute_expiry_time": f"{LOST}-absolute-expiry-time",
}
_NUMBERS: Final = ("group_sequence", "absolute_expiry_time")
_REPLY_TO: Final = f"{LOST}-reply-to"
_RESERVED: Final = frozenset((*_PLACES.values(), LOST, _REPLY_TO, COUNT))
_PROPERTIES: Final = ("type", "app_id", "cluster_id")
_SIMPLE: Final = (bool, int, float, str, bytes, datetime, type(None))
_MOST_ENTRIES: Final = 256  # of what is remembered: programs send the same few heads again and again


class Route:
    """Where a message goes, and what it says.

    Attributes:
        properties: flags and values.
        redelivered: it failed before.
        children: contents within it, in the draft.
        passing: it would be another one later.
    """

    __slots__ = ("children", "exchange", "key", "passing", "properties", "redelivered")

    def __init__(
        self, exchange: str, key: str, properties: bytes, redelivered: bool, children: Sequence[Content] = ()
    ) -> None:
        self.children = children
        self.passing = False
        self.exchange = exchange
        self.key = key
        self.properties = properties
        self.redelivered = redelivered


# From 1.0


class Outgoing:
    """Maps the messages of one link.

    Args:
        exchange, key: where they go; `key` None: each message's subject says it.
        anonymous: each message's `to` says where it goes.
        came: of deliveries: the annotations say where the message came from, if they say anything.
        clock: milliseconds since 1970 now, for a peer to which an expiration is a moment, not a time to live (Qpid).
    """

    def __init__(
        self,
        tables: Tables,
        exchange: str = "",
        key: str | None = "",
        *,
        anonymous: bool = False,
        came: bool = False,
        clock: Clock | None = None,
    ) -> None:
        self._tables = tables
        self._clock = clock
        self._came = came
        self._exchange = exchange
        self._key = key
        self._anonymous = anonymous
        self._known: dict[bytes, Route] = {}

    def map(self, payload: bytes) -> tuple[Route, bytes]:
        """Where the message goes and what it says, and its body.

        Raises:
            EncodeError: it says no address, or one that is none.
        """
        at = _body_at(payload)
        if at < 0:
            return self._map_rare(payload)
        head = payload[:at]
        route = self._known.get(head)
        if route is None:
            if len(self._known) >= _MOST_ENTRIES:
                self._known.clear()
            try:
                route = self._route(Message.decode(payload), False)
            except DecodeError:
                return self._map_rare(payload)
            if not route.passing:
                self._known[head] = route
        return route, payload[at + (5 if payload[at + 3] == 0xA0 else 8) :]

    def _map_rare(self, payload: bytes) -> tuple[Route, bytes]:
        message = Message.decode(payload)
        try:
            message.check()
            body = message.body
            if isinstance(body, Data):
                return self._route(message, False), b"".join(body.parts)
            sections = not isinstance(body, bytes)
            return self._route(message, sections), Message(body).encode() if sections else body
        except DecodeError:  # no message at all: let it pass as it is
            return self._route(Message(), True), payload

    def _route(self, message: Message, sections: bool) -> Route:
        exchange, key = self._exchange, self._key
        if self._anonymous:
            if message.to is None:
                raise EncodeError("a message without `to`, on a link that does not say where messages go")
            try:
                address = parse_address(message.to)
            except ValueError as error:
                raise EncodeError(f"to: {error}") from None
            exchange, key = address.exchange, address.key
        if self._came:
            there, known = (message.message_annotations.get(name) for name in (EXCHANGE, ROUTING_KEY))
            if isinstance(there, str) and isinstance(known, str):
                exchange, key = there, known
        if key is None:
            key = message.subject or ""
        passing = self._clock is not None and message.ttl is not None
        properties = outgoing_properties(message, self._tables, exchange, key, sections, self._clock)
        children = [self._child(each) for each in _children(message)] if self._tables.structured else ()
        route = Route(exchange, key, properties.encode(self._tables), message.delivery_count > 0, children)
        route.passing = passing
        return route

    def _child(self, payload: bytes) -> Content:
        """A content within another."""
        route, body = Outgoing(self._tables).map(payload)
        return Content(route.properties, 0, 0, [body], list(route.children))


def _children(message: Message) -> list[bytes]:
    """The payloads of the contents within a message that the draft has brought."""
    native = message.message_annotations.get(NATIVE)
    children = native.get("children") if isinstance(native, dict) else None
    return [each for each in children if isinstance(each, bytes)] if isinstance(children, list) else []


def _body_at(payload: bytes) -> int:
    """Where the one data section is that ends the payload; -1 if it is another kind of message."""
    at, size = 0, len(payload)
    try:
        while payload[at] == 0 and payload[at + 1] == 0x53:
            code, kind = payload[at + 2], payload[at + 3]
            if kind & 0xFE == 0xC0 or kind == 0xA0:
                end = at + 5 + payload[at + 4]
            elif kind & 0xFE == 0xD0 or kind == 0xB0:
                end = at + 8 + int.from_bytes(payload[at + 4 : at + 8], "big")
            elif kind == 0x45:
                end = at + 4
            else:
                return -1
            if code >= 0x75:
                return at if code == 0x75 and end == size and kind in (0xA0, 0xB0) else -1
            at = end
    except IndexError:
        pass
    return -1


def outgoing_properties(
    message: Message, tables: Tables, exchange: str, key: str, sections: bool = False, clock: Clock | None = None
) -> BasicProperties:
    """What a message says, in the words of the basic class.

    Raises:
        EncodeError: something in it can be said in no way.
    """
    headers: dict[str, Any] = {}
    lost: dict[str, Any] = {}
    said = BasicProperties()
    for name in ("message_id", "correlation_id"):
        _say_text(said, name, getattr(message, name), lost)
    _say_text(said, "user_id", message.user_id, lost)
    _say_text(said, "content_type", message.content_type, lost)
    _say_text(said, "content_encoding", message.content_encoding, lost)
    _say_reply_to(said, message.reply_to, headers, lost)
    if message.creation_time is not None:
        _say_time(said, message.creation_time, lost)
    if message.durable:
        said.delivery_mode = 2
    if message.priority != 4:
        said.priority = message.priority
    if message.ttl is not None:
        ttl = -(-message.ttl // timedelta(milliseconds=1))
        said.expiration = str(ttl if clock is None else clock() + ttl)
        if clock is not None:
            lost["ttl"] = message.ttl
    if message.delivery_count:
        headers[COUNT] = Int(min(message.delivery_count, 0x7FFF_FFFF))
    _say_places(message, headers, lost, tables, exchange, key)
    if sections:
        said.type = SECTIONS
    _say_annotations(said, message, headers, lost, tables)
    _say_application(message, headers, lost, tables)
    if message.footer:
        lost["footer"] = message.footer
    if lost:
        rest = Message(**lost)
        data = rest.encode_head() + rest.encode_footer()
        headers[LOST] = data if tables.binary else base64.b64encode(data).decode()
    if headers:
        said.headers = {tables.spelled(name) if name in _RESERVED else name: headers[name] for name in headers}
    return said


def _say_text(said: BasicProperties, name: str, value: Any, lost: dict[str, Any]) -> None:
    """A property that is a short string; of another kind of value it says what people would read."""
    if value is None:
        return
    text = _near_text(value)
    if text is not None:
        setattr(said, name, text)
    if text is None or not isinstance(value, bytes if name == "user_id" else str):
        lost[name] = value


def _near_text(value: Any) -> str | None:
    try:
        text = value.decode() if isinstance(value, bytes) else str(value)
    except UnicodeDecodeError:
        return None
    return text if len(text.encode()) <= 255 else None


def _say_reply_to(said: BasicProperties, value: str | None, headers: dict[str, Any], lost: dict[str, Any]) -> None:
    if value is None:
        return
    plain = _queue_of(value)
    if plain != value:
        headers[_REPLY_TO] = value
    _say_text(said, "reply_to", plain, lost)
    if "reply_to" in lost:
        lost["reply_to"] = value


def _queue_of(address: str) -> str:
    """The name that others know a queue by."""
    if address.startswith("/queues/"):
        try:
            return parse_address(address).key or address
        except ValueError:
            pass
    return address


def _say_time(said: BasicProperties, value: datetime | Timestamp, lost: dict[str, Any]) -> None:
    try:
        said.timestamp = moment(seconds(value))
    except EncodeError:
        pass
    if said.timestamp != value:
        lost["creation_time"] = value


def _say_places(
    message: Message, headers: dict[str, Any], lost: dict[str, Any], tables: Tables, exchange: str, key: str
) -> None:
    for name, header in _PLACES.items():
        value = getattr(message, name)
        if value is None or (name == "subject" and exchange and value == key):
            continue
        if name == "to" and _same_route(value, exchange, key):
            continue
        if name == "absolute_expiry_time":
            value = near_value(milliseconds(value), tables)
        if name == "group_sequence":
            value = near_value(int(value), tables)
        if tables.holds(value) and isinstance(value, int) is (name in _NUMBERS):
            headers[header] = value
        else:
            lost[name] = getattr(message, name)


def _same_route(to: str, exchange: str, key: str) -> bool:
    return to == route_address(exchange, key)


def _say_annotations(
    said: BasicProperties, message: Message, headers: dict[str, Any], lost: dict[str, Any], tables: Tables
) -> None:
    others = {}
    for name, value in message.message_annotations.items():
        if name in (EXCHANGE, ROUTING_KEY):
            continue
        if name == NATIVE and isinstance(value, dict):
            if left := _say_native(said, value, headers, tables):
                others[name] = left
        elif _header_named(name) and tables.holds({str(name): value}):
            headers[str(name)] = value
        else:
            others[name] = value
    if others:
        lost["message_annotations"] = others


def _header_named(key: Any) -> bool:
    """An annotation that is a header of the same name."""
    return isinstance(key, str) and key.startswith("x-") and key not in _RESERVED


def _say_native(
    said: BasicProperties, native: dict[Any, Any], headers: dict[str, Any], tables: Tables
) -> dict[str, Any]:
    """Say what only these dialects have, and brought along; what of it only another one of them has is returned."""
    left = {"children": native["children"]} if "children" in native and not tables.structured else {}
    for name in _PROPERTIES:
        value = native.get(name.replace("_", "-"))
        if isinstance(value, str) and getattr(said, name) is None:
            setattr(said, name, _near_text(value))
    if isinstance(native.get("expiration"), str):
        said.expiration = _near_text(native["expiration"])
    more = native.get("headers")
    if isinstance(more, dict):
        taken = {name: value for name, value in more.items() if tables.takes(name, value)}
        headers.update(taken)
        if len(taken) < len(more):
            left["headers"] = {name: value for name, value in more.items() if name not in taken}
    return left


def _say_application(message: Message, headers: dict[str, Any], lost: dict[str, Any], tables: Tables) -> None:
    others = {}
    for name, value in message.application_properties.items():
        if name in _RESERVED or name in headers or name.startswith("x-") or not tables.names(name):
            others[name] = value
            continue
        near = near_value(value, tables)
        if near is not None or value is None:
            headers[name] = near
        if not (type(near) is type(value) and near == value) and not tables.holds(value):
            others[name] = value
    if others:
        lost["application_properties"] = others


def near_value(value: Any, tables: Tables) -> Any:
    """The value as it is, if a table can have it, or else what comes nearest; None for nothing."""
    if tables.holds(value):
        return value
    if isinstance(value, datetime | Timestamp):
        try:
            return moment(seconds(value))
        except EncodeError:
            return None
    if isinstance(value, int):
        for kind in (int, Int):
            if tables.holds(kind(value)):
                return kind(value)
    return None if isinstance(value, bytes) else str(value)


# To 1.0


class Incoming:
    """Maps what one peer sends."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._known: dict[bytes, tuple[bytes, bytes, bool]] = {}

    def map(self, route: bytes, properties: bytes, body: bytes, children: Sequence[Content] = ()) -> bytes:
        """The payload of a message.

        Args:
            route: the octet `redelivered`, then exchange and routing key as short strings: the end of a deliver.
            properties: of the content header: flags and values.
            children: contents within it.

        Raises:
            DecodeError: one of these is malformed.
        """
        if children:
            return self._map_structured(route, properties, body, children)
        known = route + properties
        found = self._known.get(known)
        if found is None:
            if len(self._known) >= _MOST_ENTRIES:
                self._known.clear()
            exchange, key, end = read_route(route)
            if end != len(route):
                raise DecodeError("octets follow the routing key")
            said = BasicProperties.decode(properties, self._tables)
            found = self._known[known] = incoming_head(said, exchange, key, bool(route[0] & 1), self._tables)
        head, footer, sections = found
        if sections and is_body(body):
            return b"".join((head, body, footer))
        return b"".join((head, data_head(len(body)), body, footer))

    def _map_structured(self, route: bytes, properties: bytes, body: bytes, children: Sequence[Content]) -> bytes:
        within = [self.map(b"\0\0\0", each.properties, each.body, each.children) for each in children]
        exchange, key, _ = read_route(route)
        said = BasicProperties.decode(properties, self._tables)
        head, footer, _ = incoming_head(said, exchange, key, bool(route[0] & 1), self._tables, within)
        return b"".join((head, data_head(len(body)), body, footer))


def read_route(route: bytes) -> tuple[str, str, int]:
    """Exchange and routing key, behind the octet of the bits; and where they end."""
    try:
        start = 2 + route[1]
        end = start + 1 + route[start]
        if end > len(route):
            raise IndexError
        return route[2:start].decode(), route[start + 1 : end].decode(), end
    except IndexError:
        raise DecodeError("the data ends within exchange or routing key") from None
    except UnicodeDecodeError:
        raise DecodeError("exchange or routing key is not UTF-8") from None


def is_body(sections: bytes) -> bool:
    """These octets are a body: data, sequences or a value, and nothing else."""
    message = Message.decode(sections)
    try:
        message.check()
        return bool(sections) and message.encode_head() == b"" and not message.footer
    except AmqpError:
        return False


def incoming_head(
    said: BasicProperties,
    exchange: str,
    key: str,
    redelivered: bool,
    tables: Tables,
    children: Sequence[bytes] = (),
) -> tuple[bytes, bytes, bool]:
    """The sections before the body, those after it, and whether the body is sections of its own."""
    fields: dict[str, Any] = {"to": route_address(exchange, key)}
    annotations: dict[Any, Any] = {EXCHANGE: exchange, ROUTING_KEY: key}
    native: dict[str, Any] = {}
    if exchange:
        fields["subject"] = key
    fields["first_acquirer"] = not redelivered
    if redelivered:
        fields["delivery_count"] = 1
    if said.delivery_mode == 2:
        fields["durable"] = True
    if said.priority is not None:
        fields["priority"] = said.priority
    for name in ("message_id", "correlation_id", "reply_to"):
        fields[name] = getattr(said, name)
    for name in ("content_type", "content_encoding"):
        text = getattr(said, name)
        if text is not None:
            (fields if text.isascii() else native)[name if text.isascii() else name.replace("_", "-")] = text
    fields["creation_time"] = said.timestamp
    if said.user_id is not None:
        fields["user_id"] = said.user_id.encode()
    if said.expiration is not None:
        ttl = _ttl(said.expiration)
        if ttl is None:
            native["expiration"] = said.expiration
        fields["ttl"] = ttl
    sections = said.type == SECTIONS
    for name in _PROPERTIES:
        text = getattr(said, name)
        if text is not None and not (sections and name == "type"):
            native[name.replace("_", "-")] = text
    headers = said.headers or {}
    spelled = {tables.spelled(name): name for name in _RESERVED}
    headers = {spelled.get(name, name): value for name, value in headers.items()}
    application = _read_headers(headers, fields, annotations, native)
    footer = _restore(headers.get(LOST), fields, annotations, application, tables)
    if fields.get("ttl") is not None:
        native.pop("expiration", None)  # a moment, and the time to live was kept beside it
    if children:
        native["children"] = list(children)
    if native:
        before = annotations.get(NATIVE)
        if isinstance(before, dict):
            if isinstance(before.get("headers"), dict):
                native["headers"] = before["headers"] | native.get("headers", {})
            native = before | native
        annotations[NATIVE] = native
    fields["application_properties"] = application
    fields["message_annotations"] = annotations
    try:
        return Message(**fields).encode_head(), footer, sections
    except EncodeError:  # what a table can have and a message can not
        return Message(to=fields["to"], subject=fields.get("subject")).encode_head(), b"", sections


def _ttl(expiration: str) -> timedelta | None:
    if expiration.isascii() and expiration.isdigit() and len(expiration) <= 10 and int(expiration) <= 0xFFFF_FFFF:
        return timedelta(milliseconds=int(expiration))
    return None


def _read_headers(
    headers: dict[str, Any], fields: dict[str, Any], annotations: dict[Any, Any], native: dict[str, Any]
) -> dict[str, Any]:
    """Each header where it belongs; what is returned are those of the application."""
    application, others = {}, {}
    for name, value in headers.items():
        if name in _RESERVED:
            continue
        if name.startswith("x-") and name.isascii():
            annotations[Symbol(name)] = value
        elif isinstance(value, _SIMPLE):
            application[name] = value
        else:
            others[name] = value
    for field, name in _PLACES.items():
        value = headers.get(name)
        if field == "absolute_expiry_time" and isinstance(value, int):
            fields[field] = Timestamp(value)
        elif field == "group_sequence" and isinstance(value, int) and 0 <= value <= 0xFFFF_FFFF:
            fields[field] = int(value)
        elif isinstance(value, str) and field not in _NUMBERS:
            fields[field] = value
        elif value is not None:
            others[name] = value
    reply_to = headers.get(_REPLY_TO)
    if isinstance(reply_to, str) and _queue_of(reply_to) == fields.get("reply_to"):
        fields["reply_to"] = reply_to
    count = headers.get(COUNT)
    if isinstance(count, int) and 0 <= count <= 0xFFFF_FFFF:
        fields["delivery_count"] = int(count)
    if others:
        native["headers"] = others
    return application


def _restore(
    lost: Any, fields: dict[str, Any], annotations: dict[Any, Any], application: dict[str, Any], tables: Tables
) -> bytes:
    """Put back what had no place, where what has one still agrees; what is returned is the footer."""
    if not isinstance(lost, bytes | str):
        return b""
    try:
        rest = Message.decode(base64.b64decode(lost, validate=True) if isinstance(lost, str) else lost)
        rest.check()
    except (DecodeError, binascii.Error, ValueError):
        return b""
    for name in ("message_id", "correlation_id", "user_id", "content_type", "content_encoding", "reply_to"):
        value = getattr(rest, name)
        there = fields.get(name)
        if value is not None and (there is None or _near_text(value) == _near_text(there)):
            fields[name] = value
    if rest.ttl is not None and fields.get("ttl") is None:
        fields["ttl"] = rest.ttl
    time = rest.creation_time
    if time is not None and fields.get("creation_time") in (None, near_value(time, tables)):
        fields["creation_time"] = time
    for name in _PLACES:
        value = getattr(rest, name)
        if value is not None and (fields.get(name) is None or name in ("to", "subject")):
            fields[name] = value
    for key, value in rest.message_annotations.items():
        annotations.setdefault(key, value)
    for key, value in rest.application_properties.items():
        if key not in application or application[key] == near_value(value, tables):
            application[key] = value
    return rest.encode_footer()
