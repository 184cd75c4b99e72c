"""The encoding of the body, and of a message whose sections are all at hand (§3.2)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ..errors import DecodeError, EncodeError
from ..types import decode_from
from ..types.codec import BINARY_HEAD, WRITERS, map_shapes, pack_word, path_to_fault, read_map, room_for, unpack_word
from ._body import AmqpSequence, AmqpValue, Data
from ._fields import HEADER_FIELDS, MAPS, PROPERTIES_FIELDS
from ._section_index import (
    AMQP_SEQUENCE,
    AMQP_VALUE,
    APPLICATION_PROPERTIES,
    DATA,
    DELIVERY_ANNOTATIONS,
    MESSAGE_ANNOTATIONS,
    NAMES,
    SectionSpan,
    section_at,
)

_DATA: Final = bytes((0, 0x53, DATA))
_SEQUENCE: Final = bytes((0, 0x53, AMQP_SEQUENCE))
_VALUE: Final = bytes((0, 0x53, AMQP_VALUE))
# Descriptor and size of a data section, by size.
DATA_HEADS: Final = [_DATA + head for head in BINARY_HEAD]
_DELIVERY_ANNOTATIONS: Final = MAPS[DELIVERY_ANNOTATIONS]
_MESSAGE_ANNOTATIONS: Final = MAPS[MESSAGE_ANNOTATIONS]
_APPLICATION_PROPERTIES: Final = MAPS[APPLICATION_PROPERTIES]
_HEADER_NAMES: Final = frozenset(HEADER_FIELDS.defaults)


def wide_data_head(size: int) -> bytes:
    """Return descriptor and size of a data section of 256 octets or more.

    Raises:
        EncodeError: `size` exceeds the limit of a section.
    """
    if size > 0xFFFF_FFFF:
        raise EncodeError(f"{size} octets do not fit into a data section")
    return _DATA + pack_word(0xB0, size)


def data_head(size: int) -> bytes:
    """Return descriptor and size of a data section (§3.2.6)."""
    return DATA_HEADS[size] if size < 256 else wide_data_head(size)


def write_head(out: bytearray, fields: Mapping[str, Any]) -> None:
    """Append the sections before the body, except empty ones.

    Raises:
        EncodeError: a field is of the wrong type or out of range. The message names the field.
    """
    if not _HEADER_NAMES.isdisjoint(fields):
        HEADER_FIELDS.write(out, fields)
    if (entries := fields.get("delivery_annotations")) is not None:
        _DELIVERY_ANNOTATIONS.write(out, entries)
    if (entries := fields.get("message_annotations")) is not None:
        _MESSAGE_ANNOTATIONS.write(out, entries)
    PROPERTIES_FIELDS.write(out, fields)
    if (entries := fields.get("application_properties")) is not None:
        _APPLICATION_PROPERTIES.write(out, entries)


def write_map(out: bytearray, code: int, fields: Mapping[str, Any]) -> None:
    """Append a map section, unless it is empty.

    Raises:
        EncodeError: a key or a value is of the wrong type or out of range. The message names the section and the key.
    """
    section = MAPS[code]
    entries = fields.get(section.name)
    if entries is not None:
        section.write(out, entries)


def write_body(out: bytearray, body: Any) -> None:
    """Append the body section or sections.

    Raises:
        EncodeError: a value in it has no AMQP encoding. The message names the value.
    """
    python = type(body)
    try:
        if python is Data:
            for part in body.parts:
                write_data(out, part)
        elif python is AmqpSequence:
            for part in body.parts:
                out += _SEQUENCE
                WRITERS[type(part)](out, part)
        elif python is AmqpValue:
            out += _VALUE
            WRITERS[type(body.value)](out, body.value)
        elif issubclass(python, bytes | bytearray | memoryview):
            write_data(out, body)
        else:
            out += _VALUE
            WRITERS[python](out, body)
    except EncodeError as error:
        value = body.parts if python is AmqpSequence else body.value if python is AmqpValue else body
        raise EncodeError(f"body{path_to_fault(value)}: {error}") from None


def write_data(out: bytearray, data: bytes | bytearray | memoryview) -> None:
    """Append one data section (§3.2.6)."""
    out += _DATA
    WRITERS[type(data)](out, data)


def read_body(payload: bytes, code: int, place: SectionSpan, room: list[int] | None = None) -> Any:
    """Decode the body at `place`: bytes for one data section, the plain value of an amqp-value section.

    All sections of the message share `room`.

    Raises:
        DecodeError: a section is malformed, or its value does not have the type of its descriptor.
    """
    _, value_at, end = place
    if code == DATA:
        # Nearly always one section, short or long; of several sections, the first ends before `end`.
        if payload[value_at] == 0xA0 and value_at + 2 + payload[value_at + 1] == end:
            return payload[value_at + 2 : end]
        if payload[value_at] == 0xB0 and value_at + 5 + unpack_word(payload, value_at + 1)[0] == end:
            return payload[value_at + 5 : end]
    room = room or room_for(payload)
    if code == AMQP_VALUE and (known := read_map(map_shapes.readers, payload, value_at, end, room)) is not None:
        return known
    values = []
    wanted = _WANTED[code]
    while True:
        value, stop = decode_from(payload, value_at, room=room)
        if wanted is not None and type(value) is not wanted:
            raise DecodeError(f"a section of {NAMES[code]} holds a {type(value).__name__}")
        values.append(value)
        if stop >= end:
            break
        _, value_at, _ = section_at(payload, stop)
    if stop != end:
        raise DecodeError(f"the {NAMES[code]} section is not as long as it says")
    if code == DATA:
        return values[0] if len(values) == 1 else Data(*values)
    if code == AMQP_SEQUENCE:
        return AmqpSequence(*values)
    # Plain bytes would be encoded as a data section.
    return AmqpValue(values[0]) if type(values[0]) is bytes else values[0]


_WANTED: Final[dict[int, type | None]] = {DATA: bytes, AMQP_SEQUENCE: list, AMQP_VALUE: None}
