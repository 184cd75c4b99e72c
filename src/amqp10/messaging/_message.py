"""The message (§3.2): flat fields with the specification's names, encoded by tables, decoded section by section.

A decoded message keeps its payload, and decodes a section when one of its fields is first read. Encoding it again
copies unchanged sections byte for byte.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from struct import Struct
from typing import Any, ClassVar, Final, Self, TypedDict, TypeVar, Unpack
from uuid import UUID

from .._arguments import instead
from ..errors import DecodeError, EncodeError
from ..types import Timestamp
from ..types.codec import DEFAULT_LIMITS
from ._body import AmqpValue, Data
from ._codec import DATA_HEADS, read_body, wide_data_head, write_body, write_head, write_map
from ._compiled import fast
from ._fields import HEADER_FIELDS, MAPS, PROPERTIES_FIELDS, PROPERTY_WRITERS, FieldsSection
from ._payload import ForeignPayload, SplitPayload
from ._section_index import BODY, DATA, FOOTER, HEADER, MESSAGE_ANNOTATIONS, NAMES, PROPERTIES, SectionSpan, scan

MessageId = int | UUID | bytes | str
SomeMessage = TypeVar("SomeMessage", bound="Message")


class MessageFields(TypedDict, total=False):
    """The keyword arguments of `Message`; None is the same as leaving one out."""

    durable: bool | None
    priority: int | None
    ttl: timedelta | None
    first_acquirer: bool | None
    delivery_count: int | None
    delivery_annotations: Mapping[Any, Any] | None
    message_annotations: Mapping[Any, Any] | None
    message_id: MessageId | None
    user_id: bytes | None
    to: str | None
    subject: str | None
    reply_to: str | None
    correlation_id: MessageId | None
    content_type: str | None
    content_encoding: str | None
    absolute_expiry_time: datetime | Timestamp | None
    creation_time: datetime | Timestamp | None
    group_id: str | None
    group_sequence: int | None
    reply_to_group_id: str | None
    application_properties: Mapping[str, Any] | None
    footer: Mapping[Any, Any] | None


class MessageChanges(MessageFields, total=False):
    """The keyword arguments of `Message.replace`."""

    body: Any


_NAMES: Final = frozenset(MessageFields.__annotations__)
_UNREAD: Final[Any] = object()
_LISTS: Final = {HEADER: HEADER_FIELDS, PROPERTIES: PROPERTIES_FIELDS}
_SECTIONS: Final = {section.name: section for section in MAPS.values()}
# Outside the class, where type checkers would make them turn the fields, which are properties, read-only.
_SLOTS: Final = ("_apart", "_body", "_fields", "_parsed", "_places", "_room", "_source")
_WIDE_DATA: Final = wide_data_head(0)[:4]
_read_wide: Final = Struct(">4sI").unpack_from
_LEVELS: Final = DEFAULT_LIMITS.max_depth
_ELEMENTS: Final = DEFAULT_LIMITS.max_elements
_NO_PLACES: Final[dict[int, SectionSpan]] = {}


def _field(name: str, section: FieldsSection, doc: str) -> Any:
    """Make the property of a field of the header or the properties."""
    if fast is not None:
        return fast.Field(name, section, doc)
    default = section.defaults[name]

    def get(self: Message) -> Any:
        value = self._fields.get(name)
        return self._read_field(name, section, default) if value is None else value

    def put(self: Message, value: Any) -> None:
        self._fields[name] = value

    return property(get, put, doc=doc)


def _map(name: str, doc: str) -> Any:
    """Make the property of a section that is a map."""
    if fast is not None:
        return fast.Map(name, _SECTIONS[name].code, doc)

    def get(self: Message) -> Any:
        value = self._fields.get(name)
        return value if type(value) is dict else self._read_map(name)

    def put(self: Message, value: Any) -> None:
        self._fields[name] = value

    return property(get, put, doc=doc)


if fast is not None:
    fast.use_writers(PROPERTY_WRITERS, write_body)


class Message:
    """A message: a body and the fields of the specification, flat and with its names (§3.2).

    A body of `bytes`, `bytearray` or `memoryview` becomes a data section, any other body an amqp-value section; `Data`,
    `AmqpSequence` and `AmqpValue` choose explicitly. Numbers and text keep their AMQP type when they are decoded and
    encoded again.

    You can set fields at any time; `encode` checks them. Messages with equal fields and bodies are equal.

    The Python types of fields:

    - `ttl` is a `timedelta`, rounded up to whole milliseconds, of at most 49.7 days.
    - `message_id` and `correlation_id` are an int (sent as ulong), `UUID`, bytes or str.
    - `content_type` and `content_encoding` are symbols; a str is converted.
    - Keys of annotations and the footer are symbols or ulongs; a str is sent as a symbol, an int as a ulong. Values are
      of any type.
    - Keys of `application_properties` are str, values of simple types: no list, map or array. A `Described` may have a
      value of a simple type: Azure's SDKs send durations, times and URIs so.
    - A map field is always a dict, empty if the section is absent; an empty dict is not sent.

    Raises:
        TypeError: a keyword is not a field of a message.
    """

    __slots__ = _SLOTS

    _apart: bool  # True or unset: the body was known at once, and is not in `_source`
    _body: Any
    _fields: dict[str, Any]  # values set or read
    _places: dict[int, SectionSpan] | None  # of the payload's sections, once scanned
    _parsed: dict[int, dict[str, Any]]  # the fields of header and properties as they were read
    _room: list[int]  # shared by all sections, once the payload was scanned: see `room_for`
    _source: bytes | ForeignPayload | None  # of a decoded message: the payload, or its parts

    def __init__(self, body: Any = None, **fields: Unpack[MessageFields]) -> None:
        if fields and not fields.keys() <= _NAMES:
            raise _unknown_field(fields)
        self._source = None
        self._body = body
        self._fields = fields  # type: ignore[assignment]

    # Header (§3.2.1)
    durable: bool = _field("durable", HEADER_FIELDS, "Whether the message must survive the loss of its broker.")
    priority: int = _field("priority", HEADER_FIELDS, "0 to 255; higher goes first. 4 unless set.")
    ttl: timedelta | None = _field("ttl", HEADER_FIELDS, "Time to live from now; None for ever.")
    first_acquirer: bool = _field("first_acquirer", HEADER_FIELDS, "Whether no link acquired it before.")
    delivery_count: int = _field("delivery_count", HEADER_FIELDS, "The number of failed deliveries before.")

    # Annotations (§3.2.2, §3.2.3)
    delivery_annotations: dict[Any, Any] = _map("delivery_annotations", "For the next node only.")
    message_annotations: dict[Any, Any] = _map("message_annotations", "For infrastructure, up to the receiver.")

    # Properties (§3.2.4)
    message_id: MessageId | None = _field("message_id", PROPERTIES_FIELDS, "Identifies the message.")
    user_id: bytes | None = _field("user_id", PROPERTIES_FIELDS, "The user who produced the message.")
    to: str | None = _field("to", PROPERTIES_FIELDS, "The address of the destination.")
    subject: str | None = _field("subject", PROPERTIES_FIELDS, "A summary of content and purpose.")
    reply_to: str | None = _field("reply_to", PROPERTIES_FIELDS, "The address for replies.")
    correlation_id: MessageId | None = _field("correlation_id", PROPERTIES_FIELDS, "The message that this one answers.")
    content_type: str | None = _field("content_type", PROPERTIES_FIELDS, "The MIME type of a data body.")
    content_encoding: str | None = _field("content_encoding", PROPERTIES_FIELDS, 'Applied to a data body: "gzip", ...')
    absolute_expiry_time: datetime | Timestamp | None = _field(
        "absolute_expiry_time", PROPERTIES_FIELDS, "The time of expiry, to the millisecond."
    )
    creation_time: datetime | Timestamp | None = _field(
        "creation_time", PROPERTIES_FIELDS, "The time of creation, to the millisecond."
    )
    group_id: str | None = _field("group_id", PROPERTIES_FIELDS, "The group of the message.")
    group_sequence: int | None = _field("group_sequence", PROPERTIES_FIELDS, "The position in the group, 32 bits.")
    reply_to_group_id: str | None = _field("reply_to_group_id", PROPERTIES_FIELDS, "The group for replies.")

    # The rest (§3.2.5, §3.2.9)
    application_properties: dict[str, Any] = _map(
        "application_properties", "The application's own: str to simple types."
    )
    footer: dict[Any, Any] = _map("footer", "Sent after the body: hashes, signatures.")

    @property
    def body(self) -> Any:
        """The body: bytes for one data section, `Data` for several, `AmqpSequence`, or the value of an amqp-value.

        An amqp-value of binary is `AmqpValue(b"...")`, because plain bytes mean a data section. The body is None if the
        message has no body section.

        Raises:
            DecodeError: the payload is malformed.
        """
        body = self._body
        if body is not _UNREAD:
            return body
        payload: Any = self._source  # never `ForeignPayload`, whose body is known
        # A common message is one short data section and nothing else. benchmarks/budget.py, "receive": a third.
        size = len(payload) - 5
        if 0 <= size < 256 and payload.startswith(DATA_HEADS[size]):
            self._body = body = payload[5:]
            return body
        return self._read_body()

    @body.setter
    def body(self, value: Any) -> None:
        self._body = value

    @classmethod
    def decode(cls, payload: bytes | SplitPayload | ForeignPayload) -> Self:
        """Make a message from an encoded payload of message-format 0 (§3.2.16), without decoding any section.

        Reading the first field raises `DecodeError` if sections are missing or out of order, reading any field if its
        section is malformed; `check` decodes everything at once.
        """
        return decoded(cls, payload)

    @property
    def _payload(self) -> bytes | None:
        """The payload to decode, without a body that is already known; None if nothing is left."""
        source = self._source
        if type(source) is ForeignPayload:
            self._source = source = source.head() or None
        return source  # type: ignore[return-value]

    def check(self) -> None:
        """Decode everything that has not been decoded yet.

        Raises:
            DecodeError: something in the payload is malformed.
        """
        if self._source is None:
            return
        if self._body is _UNREAD:
            self._read_body()
            if self._places is None:
                return  # one data section and nothing else
        if fast is not None and fast.read_all(self):
            return
        for code, place in self._scanned().items():
            if code in _LISTS:
                self._list_section(_LISTS[code], place)
            elif code in MAPS:
                name = MAPS[code].name
                if name not in self._fields:
                    self._read_map(name)

    def _scanned(self) -> dict[int, SectionSpan]:
        """Return the places of the payload's sections; {} for a message that was not decoded."""
        places = self._places if self._source is not None else _NO_PLACES
        if places is None:
            payload = self._payload
            if fast is not None and (regular := fast.places_of_message(self)) is not None:
                return regular  # type: ignore[no-any-return]
            places = self._places = _NO_PLACES if payload is None else scan(payload)
            self._parsed = {}
            # `room_for`, without a call (benchmarks/budget.py, "decode").
            self._room = [_LEVELS, _ELEMENTS + (len(payload) >> 3) if payload is not None else 0]
        return places

    def _read_field(self, name: str, section: FieldsSection, default: Any) -> Any:
        """Read a field that was not set from the payload; return `default` without a payload."""
        if self._source is None or name in self._fields:
            return default
        places = self._places
        if places is None:
            places = self._scanned()
        place = places.get(section.code)
        if place is None:
            return default
        self._list_section(section, place)
        return self._fields[name]

    def _list_section(self, section: FieldsSection, place: SectionSpan) -> None:
        """Read all fields of the header or the properties; keep values that were set."""
        if section.code not in self._parsed:
            payload: Any = self._source  # not `ForeignPayload`, since it was scanned
            values = self._parsed[section.code] = section.read_values(payload, place, self._room)
            self._fields = values | self._fields

    def _read_map(self, name: str) -> dict[Any, Any]:
        """Return a map field as a dict, which is decoded or created on first use."""
        fields = self._fields
        if self._source is not None and name not in fields:
            places = self._places
            if places is None:
                places = self._scanned()
            section = _SECTIONS[name]
            place = places.get(section.code)
            if place is not None:
                fields[name] = entries = section.read(self._source, place, self._room)  # type: ignore[arg-type]
                return entries
        value: Any = fields.get(name)
        fields[name] = entries = {} if value is None else dict(value)
        return entries

    def _read_body(self) -> Any:
        payload: Any = self._source
        places = self._places
        if places is None:
            size = len(payload) - 8
            if size >= 0 and _read_wide(payload) == (_WIDE_DATA, size):
                self._body = body = payload[8:]
                return body
        if fast is not None and fast.read_body(self):
            return self._body
        if places is None:
            places = self._scanned()
        for code in BODY:
            place = places.get(code)
            if place is not None:
                self._body = value = read_body(payload, code, place, self._room)
                return value
        self._body = None
        return None

    def encode(self) -> bytes:
        """Encode the message without empty sections; unchanged sections of a decoded message are kept byte for byte.

        Raises:
            EncodeError: a field, which the message names, is of the wrong type or out of range; or the body has no AMQP
                encoding.
            DecodeError: a decoded message was changed, and the rest of its payload is malformed.
        """
        if self._source is not None:
            return self._encode_decoded(self._payload or b"")
        fields = self._fields
        body = self._body
        if not fields and type(body) is bytes:  # the most frequent; benchmarks/budget.py, "send"
            size = len(body)
            return (DATA_HEADS[size] if size < 256 else wide_data_head(size)) + body
        if fast is not None:
            made: bytes | None = fast.encode(fields, body)
            if made is not None:
                return made
        out = bytearray()
        try:
            if fields:
                write_head(out, fields)
            if type(body) is bytes and fields.get("footer") is None:
                # A body that may be long is copied only once.
                size = len(body)
                return b"".join((out, DATA_HEADS[size] if size < 256 else wide_data_head(size), body))
            write_body(out, body)
            if "footer" in fields:
                write_map(out, FOOTER, fields)
        except RecursionError:
            raise EncodeError("the message is nested too deeply, or contains itself") from None
        return bytes(out)

    def _encode_decoded(self, payload: bytes) -> bytes:
        if not self._fields and self._body is _UNREAD:
            return payload
        try:
            sections = [self._section(code, payload) for code in NAMES if code not in BODY]
            sections.insert(-1, self._body_section(payload))
        except RecursionError:
            raise EncodeError("the message is nested too deeply, or contains itself") from None
        return b"".join(sections)

    def _section(self, code: int, payload: bytes) -> bytes:
        """Encode one section of a decoded message in its current state."""
        place = self._scanned().get(code)
        raw = b"" if place is None else payload[place[0] : place[2]]
        out = bytearray()
        if code in MAPS:
            section = MAPS[code]
            if section.name not in self._fields:
                return raw
            write_map(out, code, self._fields)
            # The dict may have changed since it was read; if not, the octets that came are kept.
            if place is not None and raw != out:
                as_read = bytearray()
                section.write(as_read, section.read(payload, place))
                return raw if as_read == out else bytes(out)
            return bytes(out)
        names = _LISTS[code].defaults.keys()
        fields, parsed = self._fields, self._parsed.get(code, {})
        if all(name not in fields or (name in parsed and fields[name] is parsed[name]) for name in names):
            return raw  # nothing was set
        _LISTS[code].write(out, {name: getattr(self, name) for name in names})
        return bytes(out)

    def _body_section(self, payload: bytes) -> bytes:
        places = self._scanned()
        code = next((code for code in BODY if code in places), None)
        if code is None:
            if self._body is _UNREAD or (self._body is None and not getattr(self, "_apart", False)):
                return b""
            raw = b""
        else:
            start, _, end = places[code]
            raw = payload[start:end]
            if self._body is _UNREAD:
                return raw
        out = bytearray()
        write_body(out, self._body)
        if raw != out and code is not None:
            as_read = bytearray()
            write_body(as_read, read_body(payload, code, places[code]))
            return raw if as_read == out else bytes(out)
        return bytes(out)

    def encode_head(self) -> bytes:
        """Encode the sections before the body, to send the body after them in parts (§3.2).

        Raises:
            EncodeError, DecodeError: as for `encode`.
        """
        payload = self._payload
        if payload is None:
            out = bytearray()
            write_head(out, self._fields)
            return bytes(out)
        return b"".join(self._section(code, payload) for code in NAMES if code < DATA)

    def encode_footer(self) -> bytes:
        """Encode the footer; b"" if there is no footer.

        Raises:
            EncodeError, DecodeError: as for `encode`.
        """
        return self._section(FOOTER, self._payload or b"")

    def replace(self, **changes: Unpack[MessageChanges]) -> Self:
        """Return a copy with `changes`; None removes a field.

        The copy has its own dicts, but shares their values and the body.

        Raises:
            TypeError: a keyword is neither `body` nor a field of a message.
        """
        fields: dict[str, Any] = dict(changes)
        body = fields.pop("body", self._body)
        if not fields.keys() <= _NAMES:
            raise _unknown_field(fields)
        copy = type(self).__new__(type(self))
        copy._source = self._payload
        if getattr(self, "_apart", False):
            copy._apart = True
        copy._body = body
        if self._payload is not None:
            copy._places = self._places
            if self._places is not None:
                copy._parsed, copy._room = dict(self._parsed), self._room
        kept = {name: dict(value) if type(value) is dict else value for name, value in self._fields.items()}
        copy._fields = kept | fields
        return copy

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Message):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in MessageFields.__annotations__) and (
            _plain(self.body) == _plain(other.body)
        )

    __hash__: ClassVar[None] = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).decode, (self.encode(),)

    def __repr__(self) -> str:
        try:
            shown = [_short(self.body)]
            for name in MessageFields.__annotations__:
                value = getattr(self, name)
                if value not in (None, {}, _DEFAULTS.get(name)):
                    shown.append(f"{name}={_short(value)}")
        except DecodeError as e:
            return f"<{type(self).__name__} that cannot be decoded: {e}>"
        return f"{type(self).__name__}({', '.join(shown)})"


def decoded(kind: type[SomeMessage], payload: bytes | SplitPayload | ForeignPayload) -> SomeMessage:
    """Decode like `kind.decode`, with one call less, because every received message takes this path."""
    message = kind.__new__(kind)
    message._body = _UNREAD
    if type(payload) is bytes:
        message._source = payload
    elif type(payload) is SplitPayload and (apart := payload.body_apart()) is not None:
        message._source, message._body, message._apart = apart[0] or None, apart[1], True
    elif type(payload) is ForeignPayload:
        message._source, message._body, message._apart = payload, payload[3], True
    else:
        message._source = whole = bytes(payload)
        if type(payload) is SplitPayload:
            payload.buffers = [whole]  # frees the read buffers
    message._fields = {}
    message._places = None
    return message


def may_hold(message: Message, octets: bytes) -> tuple[bool, bool]:
    """Return whether `message` may have a header, and whether its message annotations may contain `octets`.

    Nothing is decoded for that. Both may be, if the message was changed.

    Args:
        octets: the octets to look for, such as the name of an entry.

    Raises:
        DecodeError: the sections of the message cannot be told apart.
    """
    source = message._source
    if message._fields or source is None:
        return True, True
    places = message._places
    if places is None:
        if type(source) is bytes and source.startswith(_DATA_FIRST):
            return False, False
        places = message._scanned()
    annotations = places.get(MESSAGE_ANNOTATIONS)
    if annotations is None:
        return HEADER in places, False
    payload: Any = message._source  # not `ForeignPayload`, since it was scanned
    return HEADER in places, payload.find(octets, annotations[0], annotations[2]) >= 0


# What `help` and editors show: the fields by name, and not `**fields`. A compiled class takes no signature.
if fast is None:
    Message.__init__.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD),
            inspect.Parameter("body", inspect.Parameter.POSITIONAL_OR_KEYWORD, default=None, annotation="Any"),
            *(
                inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=hint.__forward_arg__)
                for name, hint in inspect.get_annotations(MessageFields).items()
            ),
        ]
    )

_DATA_FIRST: Final = b"\x00\x53\x75"
_DEFAULTS: Final = HEADER_FIELDS.defaults
_SHOWN: Final = 60


def _plain(body: Any) -> Any:
    """Return a form of the body that is equal for equal messages."""
    if type(body) is Data and len(body) == 1:
        return body.parts[0]
    if type(body) is AmqpValue and not isinstance(body.value, bytes | bytearray | memoryview):
        return body.value
    return body


def _short(value: Any) -> str:
    if isinstance(value, bytes | str) and len(value) > _SHOWN:
        return f"{value[:_SHOWN]!r}... ({len(value)})"
    text = repr(value)
    return text if len(text) <= 4 * _SHOWN else f"{text[: 4 * _SHOWN]}..."


def _unknown_field(fields: Iterable[str]) -> TypeError:
    unknown = min(set(fields) - _NAMES)
    return TypeError(f"a message has no field {unknown!r}: {instead(unknown, ['body', *sorted(_NAMES)])}")
