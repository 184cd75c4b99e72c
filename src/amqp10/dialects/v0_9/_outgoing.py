"""Messages of AMQP 1.0 in the words of the basic class: where they go, their properties and body (see `_mapping`)."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import cache
from typing import Any

from ...engine import parse_address, route_address
from ...errors import DecodeError, EncodeError
from ...messaging import Data, Message
from ...messaging._codec import DATA_HEADS
from ...types import Int, Timestamp
from ._incoming import Kind, kind_of
from ._mapping import (
    COUNT,
    DEATHS,
    DURABLE,
    EXCHANGE,
    LATIN1,
    LATIN1_HEADERS,
    LOST,
    MOST_ENTRIES,
    MOST_REMEMBERED,
    NATIVE,
    NUMBERS,
    PARTS,
    PLACES,
    PROPERTIES,
    REPLY_TO,
    RESERVED,
    ROUTING_KEY,
    SECTIONS,
    TEXTS,
    Clock,
    near_text,
    near_value,
    queue_of,
    write_sizes,
)
from ._properties import BasicProperties
from ._structured import Content
from ._table import Latin1, Tables, milliseconds

CONTENT_HEADER = 12  # octets of a content header before the properties


class Route:
    """Where a message goes, and what it says.

    Attributes:
        properties: flags and values.
        redelivered: it failed before.
        children: contents within it, in the draft.
        passing: it would be another one later.
        opening: all before the body of the last publish that had one, in one frame; and `opens`, for which it is good:
            whether that was settled, and the size of the body.
    """

    __slots__ = ("children", "exchange", "key", "opening", "opens", "passing", "properties", "redelivered")

    def __init__(
        self, exchange: str, key: str, properties: bytes, redelivered: bool, children: Sequence[Content] = ()
    ) -> None:
        self.children = children
        self.passing = False
        self.opening = b""
        self.opens = (False, -1)
        self.exchange = exchange
        self.key = key
        self.properties = properties
        self.redelivered = redelivered


class Outgoing:
    """Maps the messages of one link.

    Args:
        exchange, key: where they go; `key` None: each message's subject says it.
        anonymous: each message's `to` says where it goes.
        came: of deliveries: the annotations say where the message came from, if they say anything.
        clock: milliseconds since 1970 now, for a peer to which an expiration is a moment, not a time to live (Qpid).
        room: the largest payload that the peer takes in a frame, octets: what a message says of itself fits in one.
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
        room: int = 0xFFFF_FFFF,
    ) -> None:
        self._tables = tables
        self._room = room
        self._clock = clock
        self._came = came
        self._exchange = exchange
        self._key = key
        self._anonymous = anonymous
        self._known: dict[bytes, Route] = {}

    def map(self, payload: bytes) -> tuple[Route, bytes]:
        """Where the message goes and what it says, and its body.

        Raises:
            EncodeError: it says no address, or one that is none; or it says more than a frame can hold.
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
            if len(self._known) >= MOST_ENTRIES:
                self._known.clear()
            try:
                route = self._route(Message.decode(payload), False)
            except DecodeError:
                return self._map_rare(payload)
            if not route.passing and len(head) <= MOST_REMEMBERED:
                self._known[head] = route
        return route, payload[at + (5 if payload[at + 3] == 0xA0 else 8) :]

    def _map_rare(self, payload: bytes) -> tuple[Route, bytes]:
        message = Message.decode(payload)
        try:
            message.check()
            body = message.body
            if isinstance(body, Data):
                return self._route(message, False, write_sizes(body.parts)), b"".join(body.parts)
            sections = not isinstance(body, bytes)
            return self._route(message, sections), Message(body).encode() if sections else body
        except DecodeError:  # no message at all: let it pass as it is
            return self._route(Message(), True), payload

    def _route(self, message: Message, sections: bool, sizes: str | None = None) -> Route:
        exchange, key = self._exchange, self._key
        implied = self._came or key is None  # the key says the subject, so that nothing else need say it
        if self._anonymous:
            if message.to is None:
                raise EncodeError("a message without `to`, on a link that does not say where messages go")
            try:
                address = parse_address(message.to)
            except ValueError as error:
                raise EncodeError(f"to: {error}") from None
            exchange, key, implied = address.exchange, address.key, address.key is None
        if self._came:
            there, known = (message.message_annotations.get(name) for name in (EXCHANGE, ROUTING_KEY))
            if isinstance(there, str) and isinstance(known, str):
                odd = _names(_native(message).get(LATIN1))
                exchange = _as_latin1(there) if "exchange" in odd else there
                key = _as_latin1(known) if "routing-key" in odd else known
        if key is None:
            key = message.subject or ""
        passing = self._clock is not None and message.ttl is not None
        typed = True
        if not sections and _native(message).get("type") == SECTIONS:
            # Whoever wrote that into an annotation may have properties in the body that no server has looked at.
            typed, passing = kind_of(bytes(message.body)) is Kind.OTHER, True
        properties = outgoing_properties(
            message, self._tables, exchange, key, sections, self._clock, sizes, implied=implied, typed=typed
        )
        children = [self._child(each) for each in _children(message)] if self._tables.structured else ()
        said = properties.encode(self._tables)
        if len(said) + CONTENT_HEADER > self._room:
            raise EncodeError(f"properties of {len(said)} octets: the peer's frames take {self._room}, and that is one")
        route = Route(exchange, key, said, message.delivery_count > 0, children)
        route.passing = passing
        return route

    def _child(self, payload: bytes) -> Content:
        """A content within another."""
        route, body = Outgoing(self._tables, room=self._room).map(payload)
        return Content(route.properties, 0, 0, [body], list(route.children))


def as_it_is(payload: bytes, tables: Tables) -> tuple[Route, bytes]:
    """A message that cannot be said: all of its sections are the body."""
    return Route("", "", BasicProperties(type=SECTIONS).encode(tables), False), payload


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
    """What a message says, in the words of the basic class.

    Args:
        typed: the type that it brought along is said, also if that is the one of encoded sections.
        sections: the body is encoded sections.
        sizes: those of the data sections that it is, where it is not one.
        implied: a subject that is the key is not said, for it became that, or was made of it.

    Raises:
        EncodeError: something in it can be said in no way.
    """
    headers: dict[str, Any] = {}
    lost: dict[str, Any] = {}
    said = BasicProperties()
    for name in ("message_id", "correlation_id"):
        _say_text(said, name, getattr(message, name), lost)
    odd = _names(_native(message).get(LATIN1))
    if "user-id" in odd and message.user_id is not None:
        said.user_id = Latin1(message.user_id.decode("latin-1"))
    else:
        _say_text(said, "user_id", message.user_id, lost)
    _say_text(said, "content_type", message.content_type, lost)
    _say_text(said, "content_encoding", message.content_encoding, lost)
    _say_reply_to(said, message, headers, lost)
    if message.creation_time is not None:
        _say_time(said, message.creation_time, lost, tables)
    mode = _native(message).get("delivery-mode")
    if message.durable:
        said.delivery_mode = DURABLE
    elif isinstance(mode, int) and 0 <= mode <= 255 and mode != DURABLE:
        said.delivery_mode = int(mode)
    if message.priority or _native(message).get("priority") == 0:
        said.priority = message.priority
    if message.ttl is not None:
        ttl = -(-message.ttl // timedelta(milliseconds=1))
        said.expiration = str(ttl if clock is None else clock() + ttl)
        if clock is not None:
            lost["ttl"] = message.ttl
    if message.delivery_count:
        headers[COUNT] = Int(min(message.delivery_count, 0x7FFF_FFFF))
    _say_places(message, headers, lost, tables, exchange, key, implied=implied)
    if sections:
        said.type = SECTIONS
    if sizes is not None:
        headers[PARTS] = sizes
    _say_annotations(said, message, headers, lost, tables, arrays=clock is None, typed=typed)
    _say_application(message, headers, lost, tables)
    if message.footer:
        lost["footer"] = message.footer
    if lost:
        rest = Message(**lost)
        data = rest.encode_head() + rest.encode_footer()
        headers[LOST] = data if tables.binary else base64.b64encode(data).decode()
    if headers or _native(message).get("headers") == {}:
        said.headers = {tables.spelled(name) if name in RESERVED else name: headers[name] for name in headers}
    for name in (each.replace("-", "_") for each in odd):
        if name in TEXTS and name != "user_id" and isinstance(getattr(said, name), str):
            setattr(said, name, _as_latin1(getattr(said, name)))
    names = _names(_native(message).get(LATIN1_HEADERS))
    if names and said.headers:
        said.headers = {_as_latin1(name) if name in names else name: value for name, value in said.headers.items()}
    return said


def _native(message: Message) -> dict[Any, Any]:
    """What the message brought along that only these dialects have."""
    found = message.message_annotations.get(NATIVE)
    return found if isinstance(found, dict) else {}


def _names(value: Any) -> list[str]:
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []


def _as_latin1(text: str) -> str:
    try:
        text.encode("latin-1")
    except UnicodeEncodeError:
        return text
    return Latin1(text)


def _say_text(said: BasicProperties, name: str, value: Any, lost: dict[str, Any]) -> None:
    """A property that is a short string; of another kind of value it says what people would read."""
    if value is None:
        return
    text = near_text(value)
    if text is not None:
        setattr(said, name, text)
    if text is None or not isinstance(value, bytes if name == "user_id" else str):
        lost[name] = value


def _say_reply_to(said: BasicProperties, message: Message, headers: dict[str, Any], lost: dict[str, Any]) -> None:
    value = message.reply_to
    if value is None:
        return
    plain = value if _native(message).get("reply-to") == value else queue_of(value)
    if plain != value:
        headers[REPLY_TO] = value
    _say_text(said, "reply_to", plain, lost)
    if "reply_to" in lost:
        lost["reply_to"] = value


def _say_time(said: BasicProperties, value: datetime | Timestamp, lost: dict[str, Any], tables: Tables) -> None:
    try:
        said.timestamp = tables.nearest(value)
    except EncodeError:
        pass
    if said.timestamp != value:
        lost["creation_time"] = value


def _say_places(
    message: Message,
    headers: dict[str, Any],
    lost: dict[str, Any],
    tables: Tables,
    exchange: str,
    key: str,
    *,
    implied: bool,
) -> None:
    for name, header in PLACES.items():
        value = getattr(message, name)
        if value is None:
            continue
        if name == "subject" and ((implied and exchange and value == key) or _came_by(message, subject=True)):
            continue
        if name == "to" and (value == route_address(exchange, key) or _came_by(message)):
            continue
        if name == "absolute_expiry_time":
            value = near_value(milliseconds(value), tables)
        if name == "group_sequence":
            value = near_value(int(value), tables)
        if tables.holds(value) and isinstance(value, int) is (name in NUMBERS):
            headers[header] = value
        else:
            lost[name] = getattr(message, name)


def _came_by(message: Message, *, subject: bool = False) -> bool:
    """Whether `to` was made of where the message came from, now or before it was dead-lettered: nobody said it.

    Args:
        subject: whether the subject, too, was but the routing key of then.
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


def _say_annotations(
    said: BasicProperties,
    message: Message,
    headers: dict[str, Any],
    lost: dict[str, Any],
    tables: Tables,
    *,
    arrays: bool,
    typed: bool,
) -> None:
    """`arrays`: they may be said, and tables; Qpid cannot turn them into 1.0, and goes down over arrays into 0-10."""
    others = {}
    for name, value in message.message_annotations.items():
        if name in (EXCHANGE, ROUTING_KEY):
            continue
        if name == NATIVE and isinstance(value, dict):
            if left := _say_native(said, value, headers, tables, arrays, typed=typed):
                others[name] = left
        elif (
            _header_named(name) and tables.holds({str(name): value}) and (arrays or not isinstance(value, dict | list))
        ):
            headers[str(name)] = value
        else:
            others[name] = value
    if others:
        lost["message_annotations"] = others


def _header_named(key: Any) -> bool:
    """An annotation that is a header of the same name."""
    return isinstance(key, str) and key.startswith("x-") and key not in RESERVED


def _has_array(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_has_array, value.values()))
    return isinstance(value, list | tuple)


def _say_native(
    said: BasicProperties,
    native: dict[Any, Any],
    headers: dict[str, Any],
    tables: Tables,
    arrays: bool,
    *,
    typed: bool,
) -> dict[str, Any]:
    """Say what only these dialects have, and brought along; what of it only another one of them has is returned."""
    left = {"children": native["children"]} if "children" in native and not tables.structured else {}
    for name in (*PROPERTIES, "content_type", "content_encoding"):
        value = native.get(name.replace("_", "-"))
        if name == "type" and value == SECTIONS and not typed:
            left[name] = value
        elif isinstance(value, str) and getattr(said, name) is None:
            setattr(said, name, near_text(value))
    if isinstance(native.get("expiration"), str):
        said.expiration = near_text(native["expiration"])
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
            left["headers"] = {name: value for name, value in more.items() if name not in taken}
    return left


@cache
def _unsayable(tables: Tables) -> frozenset[str]:
    """Names of headers that are ours, as they are spelled there, too, or RabbitMQ's, which takes the last two for lists
    of further routing keys, and the whole message for wrong if they are none."""
    return RESERVED | {tables.spelled(name) for name in RESERVED} | {"CC", "BCC"}


def _say_application(message: Message, headers: dict[str, Any], lost: dict[str, Any], tables: Tables) -> None:
    others = {}
    unsayable = _unsayable(tables)
    for name, value in message.application_properties.items():
        if name in unsayable or name in headers or name.startswith("x-") or not tables.names(name):
            others[name] = value
            continue
        near = near_value(value, tables)
        if near is not None or value is None:
            headers[name] = near
        if not (type(near) is type(value) and near == value) and not tables.holds(value):
            others[name] = value
    if others:
        lost["application_properties"] = others
