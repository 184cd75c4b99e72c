"""What peers say in the words of the basic class, as messages of AMQP 1.0 (see `places`)."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from enum import Enum
from typing import Any, Final

from ....engine import route_address
from ....errors import AmqpError, DecodeError, EncodeError
from ....messaging import Message, data_head
from ....types import Symbol, Timestamp
from ..._kit.message.mapping import DELIVERY_COUNT, EXCHANGE, REST_HEADER, ROUTING_KEY, kept_id
from ..wire.draft import Content
from ..wire.properties import BasicProperties
from ..wire.tables import Latin1, Tables, octets_of, read_text
from ..wire.well_formed import is_well_formed
from .places import (
    DURABLE,
    FIELD_HEADERS,
    ID_HEADERS,
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
    Sizes,
    near_text,
    near_value,
    queue_of,
    read_sizes,
)

MAX_SECTIONS: Final = 1024  # that a body may have beyond one for each `SECTION` of its octets
SECTION: Final = 16
_BINDING_URL: Final = re.compile(r"(?:direct|topic|fanout|headers)://(.*?)//(?:\?routingkey='(.*)')?", re.DOTALL)
_SIMPLE: Final = (bool, int, float, str, bytes, datetime, type(None))


class FromBasic:
    """Maps what one peer sends.

    Attributes:
        clock: the clock, for a peer to which an expiration is a moment: see `ToBasic`.
        tables: how the peer writes field tables.
    """

    def __init__(self, tables: Tables) -> None:
        self.tables = tables
        self.clock: Clock | None = None
        self._known: dict[bytes, tuple[bytes, bytes, bool | Sizes]] = {}
        self._can_wait = b"\0\0"  # the last properties that can wait

    def map(self, route: bytes, properties: bytes, body: bytes, children: Sequence[Content] = ()) -> bytes:
        """Return the payload of a message.

        Args:
            route: the octet `redelivered`, then exchange and routing key as short strings: the end of a deliver.
            properties: of the content header: flags and values.
            children: the contents within its content.

        Raises:
            DecodeError: one of the arguments is malformed.
        """
        if children:
            return self._map_structured(route, properties, body, children)
        head, footer, sections = self._around(route, properties)
        if sections is True:
            kind = kind_of(body)
            if kind is not Kind.OTHER:
                return b"".join((head, body, footer)) if kind is Kind.BODY else body
            head, footer = self._untyped(route, properties)
        elif sections:
            return b"".join((head, *data_sections(body, sections), footer))
        return b"".join((head, data_head(len(body)), body, footer))

    def can_wait(self, properties: bytes) -> bool:
        """Return whether a message may be mapped later, by `head`, when somebody asks for it.

        It may not if its body may be sections, if the current time counts, or if it may be malformed: for a malformed
        message the peer is blamed, not whoever looks at it. benchmarks/budget.py, "consume_0_9_1".
        """
        if properties != self._can_wait:
            if (
                self.clock is not None
                or self.tables.structured
                or b"amqp" in properties
                or not is_well_formed(properties)
            ):
                return False
            self._can_wait = properties
        return True

    def head(self, route: bytes, properties: bytes) -> bytes:
        """Return the sections before the body, for a message that can wait."""
        return self._around(route, properties)[0]

    def _around(self, route: bytes, properties: bytes) -> tuple[bytes, bytes, bool | Sizes]:
        """Return what `incoming_head` returns; the heads that come again and again are remembered."""
        known = route + properties
        found = self._known.get(known)
        if found is None:
            if len(self._known) >= MAX_ENTRIES:
                self._known.clear()
            exchange, key = read_route(route)
            decoded = BasicProperties.decode(properties, self.tables)
            found = incoming_head(decoded, exchange, key, bool(route[0] & 1), self.tables, clock=self.clock)
            if len(known) <= MAX_REMEMBERED and (self.clock is None or decoded.expiration is None):
                self._known[known] = found
        return found

    def _untyped(self, route: bytes, properties: bytes) -> tuple[bytes, bytes]:
        """Return head and footer of a message whose type looks like ours, and means something else."""
        exchange, key = read_route(route)
        decoded = BasicProperties.decode(properties, self.tables)
        redelivered = bool(route[0] & 1)
        head, footer, _ = incoming_head(decoded, exchange, key, redelivered, self.tables, clock=self.clock, typed=False)
        return head, footer

    def _map_structured(self, route: bytes, properties: bytes, body: bytes, children: Sequence[Content]) -> bytes:
        within = [self.map(b"\0\0\0", each.properties, each.body, each.children) for each in children]
        exchange, key = read_route(route)
        decoded = BasicProperties.decode(properties, self.tables)
        head, footer, sections = incoming_head(decoded, exchange, key, bool(route[0] & 1), self.tables, within)
        return b"".join((head, *data_sections(body, sections), footer))


def data_sections(body: bytes, sizes: bool | Sizes) -> list[bytes]:
    """Return the data sections of `body`, cut by `sizes`; a single one if `sizes` do not fit the body."""
    runs = ((len(body), 1),) if isinstance(sizes, bool) else sizes
    count = sum(count for _, count in runs)
    if sum(size * count for size, count in runs) != len(body) or count > MAX_SECTIONS + len(body) // SECTION:
        runs = ((len(body), 1),)
    found: list[bytes] = []
    at = 0
    for size, count in runs:
        for _ in range(count):
            found += data_head(size), body[at : at + size]
            at += size
    return found


def read_route(route: bytes) -> tuple[str, str]:
    """Return the exchange and the routing key, which follow the octet of the bits.

    Raises:
        DecodeError: the data ends within them, or octets follow them.
    """
    try:
        start = 2 + route[1]
        end = start + 1 + route[start]
    except IndexError:
        end = len(route) + 1
    if end > len(route):
        raise DecodeError("the data ends within exchange or routing key")
    if end < len(route):
        raise DecodeError("unexpected octets after the routing key")
    return read_text(route[2:start]), read_text(route[start + 1 : end])


class Kind(Enum):
    """What the octets of a body of the type "amqp-1.0" are."""

    BODY = "sections that are a body"
    MESSAGE = "all sections of a message"
    OTHER = "something else"


def kind_of(octets: bytes) -> Kind:
    message = Message.decode(octets)
    try:
        message.check()
        if not octets:
            return Kind.OTHER
        return Kind.BODY if message.encode_head() == b"" and not message.footer else Kind.MESSAGE
    except AmqpError:
        return Kind.OTHER


def incoming_head(
    properties: BasicProperties,
    exchange: str,
    key: str,
    redelivered: bool,
    tables: Tables,
    children: Sequence[bytes] = (),
    *,
    clock: Clock | None = None,
    typed: bool = True,
) -> tuple[bytes, bytes, bool | Sizes]:
    """Return the sections before the body, those after it, and what the body is.

    The last is True for encoded sections, the sizes of several data sections, and False for plain octets.

    Args:
        typed: whether to believe a type that says that the body is encoded sections.
    """
    fields: dict[str, Any] = {"to": route_address(exchange, key)}
    annotations: dict[Any, Any] = {EXCHANGE: exchange, ROUTING_KEY: key}
    native: dict[str, Any] = _latin1(properties, exchange, key)
    if exchange:
        fields["subject"] = key
    fields["first_acquirer"] = not redelivered
    if redelivered:
        fields["delivery_count"] = 1
    if properties.delivery_mode == DURABLE:
        fields["durable"] = True
    elif properties.delivery_mode is not None:
        native["delivery-mode"] = properties.delivery_mode
    if properties.headers == {}:
        native["headers"] = {}
    fields["priority"] = properties.priority or 0
    if properties.priority == 0:
        native["priority"] = 0
    for name in ("message_id", "correlation_id", "reply_to"):
        fields[name] = getattr(properties, name)
    for name in ("content_type", "content_encoding"):
        text = getattr(properties, name)
        if text is not None:
            (fields if text.isascii() else native)[name if text.isascii() else name.replace("_", "-")] = text
    fields["creation_time"] = properties.timestamp
    if properties.user_id is not None:
        fields["user_id"] = octets_of(properties.user_id)
    if properties.expiration is not None:
        ttl = _ttl(properties.expiration, clock)
        if ttl is None:
            native["expiration"] = properties.expiration
        fields["ttl"] = ttl
    if clock is not None and properties.reply_to is not None:
        fields["reply_to"] = _out_of_url(properties.reply_to)
    elif properties.reply_to is not None and queue_of(properties.reply_to) != properties.reply_to:
        native["reply-to"] = properties.reply_to  # looks like an address of ours, and yet is what its sender calls it
    sections = typed and properties.type == SECTIONS
    for name in PROPERTIES:
        text = getattr(properties, name)
        if text is not None and not (sections and name == "type"):
            native[name.replace("_", "-")] = text
    headers = properties.headers or {}
    if tables.structured:
        spelled = {tables.spelled(name): name for name in RESERVED}
        headers = {spelled.get(name, name): value for name, value in headers.items()}
    application = _read_headers(headers, fields, annotations, native)
    if exchange and headers.get(FIELD_HEADERS["subject"]) == key:  # else nobody would know that it was there
        native.setdefault("headers", {})[FIELD_HEADERS["subject"]] = key
    footer = _restore(headers.get(REST_HEADER), fields, annotations, application, tables, clock)
    if fields.get("ttl") is not None:
        native.pop("expiration", None)  # a moment, and the time to live was kept beside it
    if children:
        native["children"] = list(children)
    if native:
        before = annotations.get(NATIVE_ANNOTATION)
        if isinstance(before, dict):
            if isinstance(before.get("headers"), dict):
                native["headers"] = before["headers"] | native.get("headers", {})
            native = before | native
        annotations[NATIVE_ANNOTATION] = native
    fields["application_properties"] = application
    fields["message_annotations"] = annotations
    try:
        return Message(**fields).encode_head(), footer, sections or read_sizes(headers.get(SECTION_SIZES)) or False
    except EncodeError:  # what a table can have and a message can not
        return Message(to=fields["to"], subject=fields.get("subject")).encode_head(), b"", sections


def _latin1(decoded: BasicProperties, exchange: str, key: str) -> dict[str, Any]:
    """Return the names of those texts that are not UTF-8, under the keys of the native annotation."""
    texts = [(name.replace("_", "-"), getattr(decoded, name)) for name in TEXTS]
    texts += [("exchange", exchange), ("routing-key", key)]
    properties = [name for name, value in texts if type(value) is Latin1]
    headers = [str(name) for name in decoded.headers or () if type(name) is Latin1]
    found: dict[str, Any] = {LATIN1: properties} if properties else {}
    return found | ({LATIN1_HEADERS: headers} if headers else {})


def _out_of_url(reply_to: str) -> str:
    """Return the address within a binding URL, which Broker-J makes of a reply-to of 0-10; else `reply_to` itself."""
    found = _BINDING_URL.fullmatch(reply_to)
    if found is None:
        return reply_to
    exchange, key = found.groups()
    return route_address(exchange, key) if exchange else key or reply_to


def read_expiration(text: str) -> int | None:
    """Return an expiration in milliseconds; None if it is not a number."""
    digits = text.removeprefix("+")
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) <= 18 else None


def _ttl(expiration: str, clock: Clock | None) -> timedelta | None:
    number = read_expiration(expiration)
    if clock is not None:
        return timedelta(milliseconds=min(max(number - clock(), 0), 0xFFFF_FFFF)) if number else None
    return timedelta(milliseconds=number) if number is not None and number <= 0xFFFF_FFFF else None


def _read_headers(
    headers: dict[str, Any], fields: dict[str, Any], annotations: dict[Any, Any], native: dict[str, Any]
) -> dict[str, Any]:
    """Put each header where it belongs; return the headers of the application."""
    application, others = {}, {}
    for name, value in headers.items():
        if name in RESERVED:
            continue
        if name in (EXCHANGE, ROUTING_KEY):
            others[name] = value
        elif name.startswith("x-") and name.isascii():
            annotations[Symbol(name)] = value
        elif isinstance(value, _SIMPLE):
            application[name] = value
        else:
            others[name] = value
    for field, name in FIELD_HEADERS.items():
        value = headers.get(name)
        if field == "absolute_expiry_time" and isinstance(value, int):
            fields[field] = Timestamp(value)
        elif field == "group_sequence" and isinstance(value, int) and 0 <= value <= 0xFFFF_FFFF:
            fields[field] = int(value)
        elif isinstance(value, str) and field not in NUMBERS:
            fields[field] = value
        elif value is not None:
            others[name] = value
    for field, name in ID_HEADERS.items():
        value = headers.get(name)
        kept = kept_id(value)
        if isinstance(kept, int | str | bytes) and fields[field] in (None, near_text(kept)):
            fields[field] = kept
        elif value is not None:
            others[name] = value
    reply_to = headers.get(REPLY_TO)
    if isinstance(reply_to, str) and queue_of(reply_to) == fields.get("reply_to"):
        fields["reply_to"] = reply_to
    count = headers.get(DELIVERY_COUNT)
    if isinstance(count, int) and 0 <= count <= 0xFFFF_FFFF:
        fields["delivery_count"] = int(count)
    elif DELIVERY_COUNT in headers:
        others[DELIVERY_COUNT] = count
    if others:
        native["headers"] = others
    return application


def _restore(
    lost: Any,
    fields: dict[str, Any],
    annotations: dict[Any, Any],
    application: dict[str, Any],
    tables: Tables,
    clock: Clock | None,
) -> bytes:
    """Put back what had no place, if it agrees with what has one; return the footer."""
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
        if value is None or (there is None and name == "user_id" and near_text(value) is not None):
            continue  # a user-id that has a place is the one there: servers have checked that, and nothing else
        if there is None or near_text(value) == near_text(there):
            fields[name] = value
    if rest.ttl is not None and (fields.get("ttl") is None or clock is not None):
        fields["ttl"] = rest.ttl
    time = rest.creation_time
    if time is not None and fields.get("creation_time") in (None, near_value(time, tables)):
        fields["creation_time"] = time
    for name in FIELD_HEADERS:
        value = getattr(rest, name)
        if value is not None and (fields.get(name) is None or name in ("to", "subject")):
            fields[name] = value
    for key, value in rest.message_annotations.items():
        annotations.setdefault(key, value)
    for key, value in rest.application_properties.items():
        if key not in application or application[key] == near_value(value, tables):
            application[key] = value
    return rest.encode_footer()
