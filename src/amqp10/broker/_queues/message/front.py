"""The front of an encoded message, examined without decoding it: the sections before the application properties.

Few messages have an expiry or delivery annotations. The first octets of their sections show that most have neither, so
that the broker decodes no section of them. A front in an unusual encoding counts as one that may have both.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import Final, NamedTuple

from ....errors import DecodeError
from ....messaging import Header, read_header
from ....types import skip

APPLICATION_PROPERTIES: Final = 0x74
DESCRIPTOR_SIZE: Final = 3
"""The octets before the value of a section in its usual encoding."""

# The first two octets of a section in its usual encoding: a described value with a smallulong (§1.2, §3.2).
_DESCRIBED = b"\x00\x53"
_HEADER, _DELIVERY_ANNOTATIONS, _PROPERTIES, _FOOTER = 0x70, 0x71, 0x73, 0x78
_LIST0, _LIST8, _LIST32, _MAP8, _MAP32 = 0x45, 0xC0, 0xD0, 0xC1, 0xD1
# A valid header in the usual encoding has at most 28 octets. A longer one is not put into the cache of headers.
_SHORT_HEADER = 32
_HEADER_SECTION, _DATA_SECTION = (bytes((*_DESCRIBED, code)) for code in (_HEADER, 0x75))
_ANNOTATIONS_MAP8, _ANNOTATIONS_MAP32 = (bytes((*_DESCRIBED, 0x72, kind)) for kind in (_MAP8, _MAP32))
_PROPERTIES_LIST8, _PROPERTIES_LIST32 = (bytes((*_DESCRIBED, _PROPERTIES, kind)) for kind in (_LIST8, _LIST32))
# The usual descriptors of the sections that may follow the header.
_AFTER_HEADER = frozenset(bytes((*_DESCRIBED, code)) for code in range(_DELIVERY_ANNOTATIONS, _FOOTER + 1))
_NULL, _TIME = 0x40, 0x83
_SHORT = frozenset((0xA0, 0xA1, 0xA3))  # binary, string and symbol with their size in the next octet (§1.6)
# absolute-expiry-time is the ninth field of properties (§3.2.4): a shorter list cannot have it. The tenth is
# creation-time, a timestamp as well.
_FIELDS_BEFORE_EXPIRY, _FIELDS_TO_CREATION = 8, 10
_NULL_AND_TIME = bytes((_NULL, _TIME))
_long_sizes = struct.Struct(">II").unpack_from  # size and count of a list32 or map32


class Front(NamedTuple):
    """What the front of a message may contain.

    Attributes:
        header_end: the offset where the header ends; 0: no header; `_UNKNOWN`: it has to be read.
        annotated: whether there may be delivery annotations.
        may_expire: whether the properties may have an expiry.
    """

    header_end: int
    annotated: bool
    may_expire: bool


PLAIN: Final = Front(0, annotated=False, may_expire=False)
"""The front of a message with neither header, delivery annotations nor expiry. Each such front is this very object."""
_UNKNOWN: Final = -1
_ODD: Final = Front(_UNKNOWN, annotated=True, may_expire=True)


def front_of(payload: bytes) -> Front:
    """Examine the front of a message."""
    start = payload[:DESCRIPTOR_SIZE]
    if start == _DATA_SECTION:
        return PLAIN
    try:
        return front_behind(payload, _end_of_header(payload) if start == _HEADER_SECTION else 0)
    except IndexError:
        return _ODD


def header_of(payload: bytes, header_end: int) -> Header:
    """Return the header of a message whose front has this `header_end`.

    Raises:
        DecodeError: the header is malformed.
    """
    return _decoded(payload[:header_end]) if 0 < header_end <= _SHORT_HEADER else read_header(payload)


def header_and_next_section(payload: bytes) -> tuple[Header, int, int] | None:
    """Return the header, the offset where it ends, and the number of the next section.

    None: the header has a ttl, or is not in the usual encoding, or the next section is not.
    """
    header_end = 0
    try:
        if payload.startswith(_HEADER_SECTION):
            header_end = _end_of_header(payload)
        next_descriptor = payload[header_end : header_end + DESCRIPTOR_SIZE]
        if header_end > _SHORT_HEADER or next_descriptor not in _AFTER_HEADER:
            return None
        header = _decoded(payload[:header_end]) if header_end else Header()
    except (IndexError, DecodeError):
        return None
    return None if header.ttl is not None else (header, header_end, next_descriptor[-1])


def front_behind(payload: bytes, header_end: int) -> Front:
    """Return the front of a message whose header ends at `header_end`; 0: it has none."""
    if is_plain_behind(payload, header_end):
        return _plain_but_for(header_end)
    try:
        return _front_by_sections(payload, header_end)
    except IndexError:
        return _ODD


def is_plain_behind(payload: bytes, header_end: int) -> bool:
    """Return whether a message whose header ends at `header_end` surely has no delivery annotations and no expiry.

    It knows only the usual sections: message annotations or none, then properties. benchmarks/real_brokers.py
    """
    at = header_end
    try:
        if payload.startswith(_ANNOTATIONS_MAP32, at):
            at += 8 + _long_sizes(payload, at + 4)[0]
        elif payload.startswith(_ANNOTATIONS_MAP8, at):
            at += 5 + payload[at + 4]
        if payload.startswith(_PROPERTIES_LIST32, at):
            size, count = _long_sizes(payload, at + 4)
            end = at + 8 + size
        elif payload.startswith(_PROPERTIES_LIST8, at):
            size, count = payload[at + 4], payload[at + 5]
            end = at + 5 + size
        else:
            return False
        # A null before the creation time is either a missing expiry, or the last octet of one. That one would begin at
        # `end - 18`, with 0x83.
        return count <= _FIELDS_BEFORE_EXPIRY or (
            count == _FIELDS_TO_CREATION
            and payload[end - 10 : end - 8] == _NULL_AND_TIME
            and payload[end - 18] != _TIME
        )
    except (IndexError, struct.error):
        return False


@lru_cache(maxsize=64)
def _plain_but_for(header_end: int) -> Front:
    """Return the front of a message that is plain except for a header that ends at `header_end`; `PLAIN` for 0."""
    return Front(header_end, annotated=False, may_expire=False) if header_end else PLAIN


def _front_by_sections(payload: bytes, header_end: int) -> Front:
    """Examine the sections behind the header one by one.

    Raises:
        IndexError: the payload ends within them.
    """
    annotated, at = False, header_end
    while payload[at] == 0 and payload[at + 1] == _DESCRIBED[1]:
        section, kind = payload[at + 2], payload[at + 3]
        if section < _HEADER:  # not a section: it will be read, and refused
            break
        if section >= _PROPERTIES:
            may_expire = section == _PROPERTIES and _may_have_expiry(payload, at + DESCRIPTOR_SIZE)
            return Front(header_end, annotated, may_expire) if annotated or may_expire else _plain_but_for(header_end)
        annotated = annotated or (section == _DELIVERY_ANNOTATIONS and at == header_end)
        if kind & 0xFE == _LIST8:  # or a map of that size
            at += 5 + payload[at + 4]
        elif kind & 0xFE == _LIST32:
            at += 8 + int.from_bytes(payload[at + 4 : at + 8], "big")
        else:
            break
    return _ODD


def _end_of_header(payload: bytes) -> int:
    """Return where the header at the beginning of the payload ends; the payload's end if no usual section follows.

    Raises:
        IndexError: the payload ends before that.
    """
    kind = payload[3]
    if kind == _LIST8:
        end = 5 + payload[4]
    elif kind == _LIST32:
        end = 8 + int.from_bytes(payload[4:8], "big")
    else:
        end = 4 if kind == _LIST0 else len(payload)
    return end if payload[end : end + DESCRIPTOR_SIZE] in _AFTER_HEADER else len(payload)


@lru_cache(maxsize=64)
def _decoded(octets: bytes) -> Header:
    """Decode a header by itself: mostly it is the same as that of the message before."""
    return read_header(octets)


def _may_have_expiry(payload: bytes, at: int) -> bool:
    """Return whether the properties whose list is at `at` may have an expiry; fields before it are skipped."""
    try:
        kind = payload[at]
        if kind == _LIST32:
            count = _long_sizes(payload, at + 1)[1]
            at += 9
        elif kind == _LIST8:
            count = payload[at + 2]
            at += 3
        else:
            return True
        if count <= _FIELDS_BEFORE_EXPIRY:
            return False
        for _ in range(_FIELDS_BEFORE_EXPIRY):
            kind = payload[at]
            if kind == _NULL:
                at += 1
            elif kind in _SHORT:
                at += 2 + payload[at + 1]
            else:
                at = skip(payload, at)
        return payload[at] != _NULL
    except (IndexError, DecodeError, struct.error):
        return True
