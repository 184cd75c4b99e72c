"""Messages of AMQP 1.0 in the words of the basic class: where they go, their properties and body (see `places`)."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import cache
from typing import Any

from ....engine import parse_address, route_address
from ....errors import DecodeError, EncodeError
from ....messaging import Data, Message
from ....messaging.sections import DATA_HEADS
from ....types import Int, Timestamp
from ..._kit.message.mapping import DELIVERY_COUNT, EXCHANGE, REST_HEADER, ROUTING_KEY, origin_of
from ..._kit.message.values import milliseconds
from ..wire.draft import Content
from ..wire.properties import BasicProperties
from ..wire.tables import Latin1, Tables
from .from_basic import Kind, kind_of
from .places import (
    ACQUIRED_COUNT,
    DEATHS,
    DURABLE,
    FIELD_HEADERS,
    LATIN1,
    LATIN1_HEADERS,
    MAX_ENTRIES,
    MAX_REMEMBERED,
    NATIVE_ANNOTATION,
    NUMBERS,
    PROPERTIES,
    REPLY_TO,
    RESERVED,
    SECTION_SIZES,
    SECTIONS,
    TEXTS,
    Clock,
    near_text,
    near_value,
    queue_of,
    write_sizes,
)

CONTENT_HEADER = 12  # octets of a content header before the properties


class PublishTemplate:
    """Where a message goes, and its properties.

    Attributes:
        properties: flags and values.
        redelivered: whether it failed before.
        children: contents within it, in the draft.
        time_dependent: whether the time or the body decides about it, so that it is not remembered.
        opening: the octets before the body of the last publish whose body took one frame; `opening_fits` says for which
            publishes they are good: whether settled, and the size of the body.
    """

    __slots__ = (
        "children",
        "exchange",
        "key",
        "opening",
        "opening_fits",
        "properties",
        "redelivered",
        "time_dependent",
    )

    def __init__(
        self, exchange: str, key: str, properties: bytes, redelivered: bool, children: Sequence[Content] = ()
    ) -> None:
        self.children: Sequence[Content] = children
        self.time_dependent: bool = False
        self.opening: bytes = b""
        self.opening_fits: tuple[bool, int] = (False, -1)
        self.exchange: str = exchange
        self.key: str = key
        self.properties: bytes = properties
        self.redelivered: bool = redelivered


class ToBasic:
    """Maps the messages of one link.

    Args:
        exchange, key: where the messages go; `key` None: the subject of each message is its key.
        anonymous: whether each message's `to` says where it goes.
        forwarded: whether the messages are deliveries: their annotations may say where they came from.
        clock: milliseconds since 1970 now, for a peer to which an expiration is a moment, not a time to live (Qpid).
        max_payload: the largest payload that the peer takes in a frame, octets; a message's properties must fit.
    """

    def __init__(
        self,
        tables: Tables,
        exchange: str = "",
        key: str | None = "",
        *,
        anonymous: bool = False,
        forwarded: bool = False,
        clock: Clock | None = None,
        max_payload: int = 0xFFFF_FFFF,
    ) -> None:
        self._tables = tables
        self._max_payload = max_payload
        self._clock = clock
        self._forwarded = forwarded
        self._exchange = exchange
        self._key = key
        self._anonymous = anonymous
        self._known: dict[bytes, PublishTemplate] = {}

    def map(self, payload: bytes) -> tuple[PublishTemplate, bytes]:
        """Return the route of the message, and its body.

        Raises:
            EncodeError: it has no address, or an invalid one; or its properties are larger than a frame.
        """
        size = len(payload) - 5
        if 0 <= size < 256 and payload.startswith(DATA_HEADS[size]) and (plain := self._known.get(b"")) is not None:
            return plain, payload[5:]  # a short body and nothing else. benchmarks/budget.py, "publish_0_9_1"
        at = _body_at(payload)
        if at < 0:
            return self._map_rare(payload)
        head = payload[:at]
        route = self._known.get(head)
        if route is None:
            if len(self._known) >= MAX_ENTRIES:
                self._known.clear()
            try:
                route = self._route(Message.decode(payload), False)
            except DecodeError:
                return self._map_rare(payload)
            if not route.time_dependent and len(head) <= MAX_REMEMBERED:
                self._known[head] = route
        return route, payload[at + (5 if payload[at + 3] == 0xA0 else 8) :]

    def _map_rare(self, payload: bytes) -> tuple[PublishTemplate, bytes]:
        message = Message.decode(payload)
        try:
            message.check()
            body = message.body
            if isinstance(body, Data):
                return self._route(message, False, write_sizes(body.parts)), b"".join(body.parts)
            sections = not isinstance(body, bytes)
            return self._route(message, sections), Message(body).encode() if sections else body
        except DecodeError:  # let it pass as it is
            return self._route(_header_alone(message), True), payload

    def _route(self, message: Message, sections: bool, sizes: str | None = None) -> PublishTemplate:
        exchange, key = self._exchange, self._key
        implied = self._forwarded or key is None  # the key carries the subject, so that nothing else need carry it
        if self._anonymous:
            if message.to is None:
                raise EncodeError("the message has no `to`, and the link has no target address: set one of them")
            try:
                address = parse_address(message.to)
            except ValueError as error:
                raise EncodeError(f"to: {error}") from None
            exchange, key, implied = address.exchange, address.key, address.key is None
        if self._forwarded:
            origin = origin_of(message.message_annotations)
            if origin is not None:
                odd = _names(_native(message).get(LATIN1))
                exchange = _as_latin1(origin[0]) if "exchange" in odd else origin[0]
                key = _as_latin1(origin[1]) if "routing-key" in odd else origin[1]
        if key is None:
            key = message.subject or ""
        time_dependent = self._clock is not None and message.ttl is not None
        typed = True
        if not sections and _native(message).get("type") == SECTIONS:
            # Whoever wrote that into an annotation may have properties in the body that no server has looked at.
            typed, time_dependent = kind_of(bytes(message.body)) is Kind.OTHER, True
        properties = outgoing_properties(
            message, self._tables, exchange, key, sections, self._clock, sizes, implied=implied, typed=typed
        )
        children = [self._child(each) for each in _children(message)] if self._tables.structured else ()
        encoded = properties.encode(self._tables)
        if len(encoded) + CONTENT_HEADER > self._max_payload:
            raise EncodeError(
                f"the properties have {len(encoded)} octets, but must fit one frame of {self._max_payload}"
            )
        again = message.delivery_count > 0 or ACQUIRED_COUNT in message.message_annotations
        route = PublishTemplate(exchange, key, encoded, again, children)
        route.time_dependent = time_dependent
        return route

    def _child(self, payload: bytes) -> Content:
        """Return a content that goes within another."""
        route, body = ToBasic(self._tables, max_payload=self._max_payload).map(payload)
        return Content(route.properties, 0, 0, [body], list(route.children))


def _header_alone(message: Message) -> Message:
    """Return what the header of a message says if the rest of it cannot be read: a server may have to keep it."""
    try:
        return Message(durable=message.durable, priority=message.priority, ttl=message.ttl)
    except DecodeError:
        return Message()


def as_encoded_sections(payload: bytes, tables: Tables) -> tuple[PublishTemplate, bytes]:
    """Return the route and body of a message that the dialect cannot express: all of its sections are the body."""
    return PublishTemplate("", "", BasicProperties(type=SECTIONS).encode(tables), False), payload


def _children(message: Message) -> list[bytes]:
    """Return the payloads of the contents within a message that the draft has brought."""
    native = message.message_annotations.get(NATIVE_ANNOTATION)
    children = native.get("children") if isinstance(native, dict) else None
    return [each for each in children if isinstance(each, bytes)] if isinstance(children, list) else []


def _body_at(payload: bytes) -> int:
    """Return the offset of the one data section that ends the payload; -1 for any other kind of message."""
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
    message: Message,
    tables: Tables,
    exchange: str,
    key: str,
    sections: bool = False,
    clock: Clock | None = None,
    sizes: str | None = None,
    *,
    implied: bool = True,
    typed: bool = True,
) -> BasicProperties:
    """Return the properties of the basic class for a message.

    Args:
        typed: whether to write the type that it brought along, even if that is the type of encoded sections.
        sections: whether the body is encoded sections.
        sizes: the sizes of its data sections; None if it has exactly one, or a body of another kind.
        implied: whether to leave out a subject that is the key, for it became the key, or was made of it.

    Raises:
        EncodeError: something in it cannot be expressed in any way.
    """
    headers: dict[str, Any] = {}
    rest: dict[str, Any] = {}
    properties = BasicProperties()
    for name in ("message_id", "correlation_id"):
        _write_text(properties, name, getattr(message, name), rest)
    odd = _names(_native(message).get(LATIN1))
    if "user-id" in odd and message.user_id is not None:
        properties.user_id = Latin1(message.user_id.decode("latin-1"))
    else:
        _write_text(properties, "user_id", message.user_id, rest)
    _write_text(properties, "content_type", message.content_type, rest)
    _write_text(properties, "content_encoding", message.content_encoding, rest)
    _write_reply_to(properties, message, headers, rest)
    if message.creation_time is not None:
        _write_time(properties, message.creation_time, rest, tables)
    mode = _native(message).get("delivery-mode")
    if message.durable:
        properties.delivery_mode = DURABLE
    elif isinstance(mode, int) and 0 <= mode <= 255 and mode != DURABLE:
        properties.delivery_mode = int(mode)
    if message.priority or _native(message).get("priority") == 0:
        properties.priority = message.priority
    if message.ttl is not None:
        ttl = -(-message.ttl // timedelta(milliseconds=1))
        properties.expiration = str(ttl if clock is None else clock() + ttl)
        if clock is not None:
            rest["ttl"] = message.ttl
    if message.delivery_count:
        headers[DELIVERY_COUNT] = Int(min(message.delivery_count, 0x7FFF_FFFF))
    _write_fields(message, headers, rest, tables, exchange, key, implied=implied)
    if sections:
        properties.type = SECTIONS
    if sizes is not None:
        headers[SECTION_SIZES] = sizes
    _write_annotations(properties, message, headers, rest, tables, arrays=clock is None, typed=typed)
    _write_application(message, headers, rest, tables)
    if message.footer:
        rest["footer"] = message.footer
    if rest:
        kept = Message(**rest)
        data = kept.encode_head() + kept.encode_footer()
        headers[REST_HEADER] = data if tables.binary else base64.b64encode(data).decode()
    if headers or _native(message).get("headers") == {}:
        properties.headers = {tables.spelled(name) if name in RESERVED else name: headers[name] for name in headers}
    for name in (each.replace("-", "_") for each in odd):
        if name in TEXTS and name != "user_id" and isinstance(getattr(properties, name), str):
            setattr(properties, name, _as_latin1(getattr(properties, name)))
    names = _names(_native(message).get(LATIN1_HEADERS))
    if names and properties.headers:
        properties.headers = {
            _as_latin1(name) if name in names else name: value for name, value in properties.headers.items()
        }
    return properties


def _native(message: Message) -> dict[Any, Any]:
    """Return what the message brought along that only these dialects have; empty if it brought nothing."""
    found = message.message_annotations.get(NATIVE_ANNOTATION)
    return found if isinstance(found, dict) else {}


def _names(value: Any) -> list[str]:
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []


def _as_latin1(text: str) -> str:
    try:
        text.encode("latin-1")
    except UnicodeEncodeError:
        return text
    return Latin1(text)


def _write_text(properties: BasicProperties, name: str, value: Any, rest: dict[str, Any]) -> None:
    """Set a property that is a short string; a value of another kind is set as readable text, and kept in `rest`."""
    if value is None:
        return
    text = near_text(value)
    if text is not None:
        setattr(properties, name, text)
    if text is None or not isinstance(value, bytes if name == "user_id" else str):
        rest[name] = value


def _write_reply_to(
    properties: BasicProperties, message: Message, headers: dict[str, Any], rest: dict[str, Any]
) -> None:
    value = message.reply_to
    if value is None:
        return
    plain = value if _native(message).get("reply-to") == value else queue_of(value)
    if plain != value:
        headers[REPLY_TO] = value
    _write_text(properties, "reply_to", plain, rest)
    if "reply_to" in rest:
        rest["reply_to"] = value


def _write_time(properties: BasicProperties, value: datetime | Timestamp, rest: dict[str, Any], tables: Tables) -> None:
    try:
        properties.timestamp = tables.nearest(value)
    except EncodeError:
        pass
    if properties.timestamp != value:
        rest["creation_time"] = value


def _write_fields(
    message: Message,
    headers: dict[str, Any],
    rest: dict[str, Any],
    tables: Tables,
    exchange: str,
    key: str,
    *,
    implied: bool,
) -> None:
    for name, header in FIELD_HEADERS.items():
        value = getattr(message, name)
        if value is None:
            continue
        if name == "subject" and ((implied and exchange and value == key) or _to_is_origin(message, subject=True)):
            continue
        if name == "to" and (value == route_address(exchange, key) or _to_is_origin(message)):
            continue
        if name == "absolute_expiry_time":
            value = near_value(milliseconds(value), tables)
        if name == "group_sequence":
            value = near_value(int(value), tables)
        if tables.holds(value) and isinstance(value, int) is (name in NUMBERS):
            headers[header] = value
        else:
            rest[name] = getattr(message, name)


def _to_is_origin(message: Message, *, subject: bool = False) -> bool:
    """Return whether nobody chose `to`: it is where the message came from, now or before it was dead-lettered.

    Args:
        subject: whether the subject, too, has to be the routing key of that time.
    """
    annotations = message.message_annotations
    ways = [(annotations.get(EXCHANGE), annotations.get(ROUTING_KEY))]
    deaths = annotations.get(DEATHS)
    for death in deaths if isinstance(deaths, list) else ():
        keys = death.get("routing-keys") if isinstance(death, dict) else None
        if isinstance(keys, list) and keys:
            ways.append((death.get("exchange"), keys[0]))
    for exchange, key in ways:
        if isinstance(exchange, str) and isinstance(key, str) and message.to == route_address(exchange, key):
            return not subject or (bool(exchange) and message.subject == key)
    return False


def _write_annotations(
    properties: BasicProperties,
    message: Message,
    headers: dict[str, Any],
    rest: dict[str, Any],
    tables: Tables,
    *,
    arrays: bool,
    typed: bool,
) -> None:
    """Write the message annotations as headers.

    `arrays`: whether arrays and tables may be written. Qpid cannot turn them into 1.0, and arrays into 0-10 make it
    go down.
    """
    others = {}
    for name, value in message.message_annotations.items():
        if name in (EXCHANGE, ROUTING_KEY):
            continue
        if name == NATIVE_ANNOTATION and isinstance(value, dict):
            if remainder := _write_native(properties, value, headers, tables, arrays, typed=typed):
                others[name] = remainder
        elif (
            _header_named(name) and tables.holds({str(name): value}) and (arrays or not isinstance(value, dict | list))
        ):
            headers[str(name)] = value
        elif name != DELIVERY_COUNT or value != message.delivery_count:  # else the header of that name says it
            others[name] = value
    if others:
        rest["message_annotations"] = others


def _header_named(key: Any) -> bool:
    """Return whether an annotation can be a header of the same name."""
    return isinstance(key, str) and key.startswith("x-") and key not in RESERVED


def _has_array(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_has_array, value.values()))
    return isinstance(value, list | tuple)


def _write_native(
    properties: BasicProperties,
    native: dict[Any, Any],
    headers: dict[str, Any],
    tables: Tables,
    arrays: bool,
    *,
    typed: bool,
) -> dict[str, Any]:
    """Write what the message brought along of these dialects; return what only another one of them can express."""
    remainder = {"children": native["children"]} if "children" in native and not tables.structured else {}
    for name in (*PROPERTIES, "content_type", "content_encoding"):
        value = native.get(name.replace("_", "-"))
        if name == "type" and value == SECTIONS and not typed:
            remainder[name] = value
        elif isinstance(value, str) and getattr(properties, name) is None:
            setattr(properties, name, near_text(value))
    if isinstance(native.get("expiration"), str):
        properties.expiration = near_text(native["expiration"])
    more = native.get("headers")
    if isinstance(more, dict):
        more = {name: value for name, value in more.items() if name not in headers}
        fitting = ((name, value) for name, value in more.items() if arrays or not _has_array(value))
        taken = {
            name: value
            for name, value in fitting
            if tables.takes(tables.spelled(name) if name in RESERVED else name, value)
        }
        headers.update(taken)
        if len(taken) < len(more):
            remainder["headers"] = {name: value for name, value in more.items() if name not in taken}
    return remainder


@cache
def _reserved_names(tables: Tables) -> frozenset[str]:
    """Return names that no header of the application may have: ours, also as `tables` spells them, and RabbitMQ's two.

    RabbitMQ takes the headers CC and BCC for lists of further routing keys, and refuses a message in which they are not
    lists.
    """
    return RESERVED | {tables.spelled(name) for name in RESERVED} | {"CC", "BCC"}


def _write_application(message: Message, headers: dict[str, Any], rest: dict[str, Any], tables: Tables) -> None:
    others = {}
    reserved = _reserved_names(tables)
    for name, value in message.application_properties.items():
        if name in reserved or name in headers or name.startswith("x-") or not tables.names(name):
            others[name] = value
            continue
        near = near_value(value, tables)
        if near is not None or value is None:
            headers[name] = near
        if not (type(near) is type(value) and near == value) and not tables.holds(value):
            others[name] = value
    if others:
        rest["application_properties"] = others
