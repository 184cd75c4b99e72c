"""Reads what can be read of a malformed message: its sections up to the defect, and above all its message-id."""

from __future__ import annotations

from contextlib import suppress
from typing import Final
from uuid import UUID

from ...errors import DecodeError
from ...messaging import Properties
from ...messaging.sections import FOOTER, PROPERTIES, PROPERTIES_FIELDS, SectionSpan, descriptor_at, section_at
from ...types import ULong, decode_from

_FIRST_FIELD: Final = {0xC0: 3, 0xD0: 9}
"""Offset of the first field of a list from its constructor (§1.6.22)."""


def find_sections(payload: bytes) -> dict[int, SectionSpan]:
    """Return the place of the first section of each kind, up to and including the one in which the message ends."""
    places: dict[int, SectionSpan] = {}
    at = 0
    with suppress(DecodeError):
        while at < len(payload):
            code, value_at = descriptor_at(payload, at)
            places.setdefault(code, (at, value_at, len(payload)))
            code, value_at, end = section_at(payload, at)
            if places[code][0] == at:
                places[code] = (at, value_at, end)
            at = end
    return places


def bare_message(payload: bytes) -> bytes:
    """Return the bare message (§3.2), which intermediaries must not change: no header, annotations or footer."""
    begin = at = 0
    end = len(payload)
    with suppress(DecodeError):
        while at < end:
            code, _, following = section_at(payload, at)
            if code == FOOTER:
                end = at
            elif code < PROPERTIES and at == begin:
                begin = following
            at = following
    return payload[begin:end]


def read_properties(payload: bytes, place: SectionSpan) -> Properties:
    """Read the properties; if they are malformed, only the message-id.

    Raises:
        DecodeError: the message-id cannot be read either.
    """
    try:
        return PROPERTIES_FIELDS.read(payload, place)  # type: ignore[no-any-return]
    except DecodeError:
        first = _FIRST_FIELD.get(payload[place[1]]) if place[1] < len(payload) else None
        if first is None:
            raise
        message_id, end = decode_from(payload, place[1] + first)
        if end > place[2] or type(message_id) not in (ULong, UUID, bytes, str):
            raise
        return Properties(message_id=message_id)
