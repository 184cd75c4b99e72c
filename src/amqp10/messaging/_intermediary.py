"""Reads and changes the sections of an encoded message that belong to intermediaries (§3.2).

An intermediary must not change the bare message (properties, application-properties, body), only header and
annotations. These functions read or rewrite the front of a payload and keep every octet behind it.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final, TypedDict, Unpack

from ..types import decode_from
from ._fields import HEADER_FIELDS, MAPS, PROPERTIES_FIELDS
from ._section_index import (
    DELIVERY_ANNOTATIONS,
    HEADER,
    MESSAGE_ANNOTATIONS,
    PROPERTIES,
    SectionSpan,
    descriptor_at,
    misplaced,
    section_at,
)
from ._sections import Header, Properties


class HeadChanges(TypedDict, total=False):
    """The keyword arguments of `patch_header`."""

    durable: bool
    priority: int
    ttl: timedelta | None
    first_acquirer: bool
    delivery_count: int
    delivery_annotations: Mapping[Any, Any] | None
    message_annotations: Mapping[Any, Any] | None


def read_header(payload: bytes) -> Header:
    """Read only the header of a payload; return the defaults if the payload has no header.

    Raises:
        DecodeError: no message section begins the payload, or the header is malformed.
    """
    places, _ = _front(payload, HEADER)
    return HEADER_FIELDS.read(payload, places[HEADER]) if HEADER in places else Header()


def read_priority(payload: bytes) -> int | None:
    """Read the priority of a payload; None if it is not set, which means 4 (§3.2.1).

    Raises:
        DecodeError: no message section begins the payload, or the header is malformed.
    """
    places, _ = _front(payload, HEADER)
    fields = decode_from(payload, places[HEADER][1])[0] if HEADER in places else None
    priority = fields[1] if isinstance(fields, list) and len(fields) > 1 else None
    return priority if isinstance(priority, int) else None


def read_properties(payload: bytes) -> Properties:
    """Read the properties of a payload, skipping the sections before them; all are None if it has no properties.

    Raises:
        DecodeError: the properties, or a section before them, are malformed.
    """
    places, _ = _front(payload, PROPERTIES)
    return PROPERTIES_FIELDS.read(payload, places[PROPERTIES]) if PROPERTIES in places else Properties()


def read_annotations(payload: bytes) -> dict[Any, Any]:
    """Read the message annotations of a payload, skipping the sections before them; {} if it has no annotations.

    Raises:
        DecodeError: the annotations, or a section before them, are malformed.
    """
    places, _ = _front(payload, MESSAGE_ANNOTATIONS)
    code = MESSAGE_ANNOTATIONS
    return MAPS[code].read(payload, places[code]) if code in places else {}


def bare_message(payload: bytes) -> bytes:
    """Return the payload without header and annotations: the bare message and the footer (§3.2).

    Raises:
        DecodeError: no message section begins the payload, or the header or annotations are malformed.
    """
    return payload[_front(payload, MESSAGE_ANNOTATIONS)[1] :]


def patch_header(payload: bytes, **changes: Unpack[HeadChanges]) -> bytes:
    """Return the payload with a changed header or annotations, and the same bare message and footer.

    Header fields that are not given keep their values. Given annotations are added and replace those with the same key;
    None removes the whole section.

    Raises:
        DecodeError: the sections to change are malformed.
        EncodeError: a new value is of the wrong type or out of range. The message names the field.
        TypeError: a keyword is not in `HeadChanges`.
    """
    if not changes.keys() <= _CHANGES:
        raise TypeError(f"{min(changes.keys() - _CHANGES)!r} is neither a field of the header nor annotations")
    places, rest = _front(payload, MESSAGE_ANNOTATIONS)
    out = bytearray()
    if not _HEADER_NAMES.isdisjoint(changes):
        header = HEADER_FIELDS.read(payload, places[HEADER]) if HEADER in places else Header()
        fields = {name: getattr(header, name) for name in HEADER_FIELDS.defaults}
        if header.ttl is not None:
            fields["ttl"] = timedelta(milliseconds=header.ttl)
        HEADER_FIELDS.write(out, {**fields, **changes})
    elif HEADER in places:
        out += _octets(payload, places[HEADER])
    for code in (DELIVERY_ANNOTATIONS, MESSAGE_ANNOTATIONS):
        section = MAPS[code]
        added: Any = changes.get(section.name, _NOTHING)
        if added is None:
            continue
        if added:
            section.write(out, {**(section.read(payload, places[code]) if code in places else {}), **added})
        elif code in places:
            out += _octets(payload, places[code])
    return b"".join((out, memoryview(payload)[rest:]))


def _octets(payload: bytes, place: SectionSpan) -> bytes:
    return payload[place[0] : place[2]]


_CHANGES: Final = frozenset(HeadChanges.__annotations__)
_HEADER_NAMES: Final = frozenset(HEADER_FIELDS.defaults)
_NOTHING: Final[Mapping[Any, Any]] = {}


def _front(payload: bytes, last: int) -> tuple[dict[int, SectionSpan], int]:
    """Return the places of the sections up to the code `last`, and where they end."""
    places: dict[int, SectionSpan] = {}
    at = before = 0
    while at < len(payload):
        code, value_at = descriptor_at(payload, at)
        if code > last:
            break
        if code <= before:
            raise misplaced(before, code)
        end = section_at(payload, at)[2]
        places[code] = (at, value_at, end)
        at, before = end, code
    return places, at
