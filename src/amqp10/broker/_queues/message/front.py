"""The front of an encoded message, examined without decoding it: the sections before the application properties.

The broker needs the header, the expiry in the properties, and the end of the delivery annotations. In a front in the
usual encoding they are found by their places, and no section but the header is decoded. Headers are remembered.

The usual encoding, in hexadecimal octets; each of these sections may be missing:

    00 53 70  c0 SIZE COUNT      durable priority ttl ...       header: a list8 (d0: list32; 45: empty list)
    00 53 71  c1 SIZE COUNT      key value ...                  delivery annotations: a map8 (d1: map32)
    00 53 72  c1 SIZE COUNT      key value ...                  message annotations
    00 53 73  c0 SIZE COUNT      message-id ... expiry ...      properties; the expiry is the ninth field
    00 53 74  ...                                               application properties, and then the body (75 to 77)

SIZE and COUNT have one octet in a list8 or map8, and four in a list32 or map32. SIZE counts the octets behind it, COUNT
included. So a list8 at `at`, where its section begins, ends at `at + 5 + SIZE`, and a list32 at `at + 8 + SIZE`.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import Final, NamedTuple

from ....errors import DecodeError
from ....messaging import Header, read_header

APPLICATION_PROPERTIES: Final = 0x74
DESCRIPTOR_SIZE: Final = 3
"""The octets before the value of a section in its usual encoding."""

# The first two octets of a section in its usual encoding: a described value with a smallulong (§1.2, §3.2).
_DESCRIBED = b"\x00\x53"
_HEADER, _DELIVERY_ANNOTATIONS, _MESSAGE_ANNOTATIONS, _PROPERTIES, _FOOTER = 0x70, 0x71, 0x72, 0x73, 0x78
_LIST0, _LIST8, _LIST32, _MAP8, _MAP32 = 0x45, 0xC0, 0xD0, 0xC1, 0xD1
# A valid header in the usual encoding has at most 28 octets. A longer one is not put into the cache of headers.
_SHORT_HEADER = 32
_HEADER_SECTION, _DATA_SECTION = (bytes((*_DESCRIBED, code)) for code in (_HEADER, 0x75))
_HEADER_LIST8 = bytes((*_DESCRIBED, _HEADER, _LIST8))
_DELIVERY_MAP8, _DELIVERY_MAP32, _MESSAGE_MAP8, _MESSAGE_MAP32 = (
    bytes((*_DESCRIBED, code, kind))
    for code in (_DELIVERY_ANNOTATIONS, _MESSAGE_ANNOTATIONS)
    for kind in (_MAP8, _MAP32)
)
_PROPERTIES_LIST0, _PROPERTIES_LIST8, _PROPERTIES_LIST32 = (
    bytes((*_DESCRIBED, _PROPERTIES, kind)) for kind in (_LIST0, _LIST8, _LIST32)
)
_APPLICATION_MAP8, _APPLICATION_MAP32 = (bytes((*_DESCRIBED, APPLICATION_PROPERTIES, kind)) for kind in (_MAP8, _MAP32))
# The usual descriptors of the sections that may follow the header.
_AFTER_HEADER = frozenset(bytes((*_DESCRIBED, code)) for code in range(_DELIVERY_ANNOTATIONS, _FOOTER + 1))
_NULL, _UINT, _TIME, _STRING = 0x40, 0x70, 0x83, 0xA1
# The octets of a value by its constructor (§1.6). Before the ttl there are a boolean and a ubyte.
_BEFORE_TTL = {_NULL: 1, 0x41: 1, 0x42: 1, 0x56: 2, 0x50: 2}
# The same of a field of the properties: a null, a message-id that is a ulong or a uuid, a time, a uint. It is 0 for
# binary, string and symbol with their size in the next octet. Any other leads behind the end of the message.
_WIDTHS = [1 << 62] * 256
for _kind, _width in {_NULL: 1, 0x44: 1, 0x53: 2, 0x80: 9, 0x98: 17, _TIME: 9, 0x43: 1, 0x52: 2, _UINT: 5}.items():
    _WIDTHS[_kind] = _width
for _kind in (0xA0, _STRING, 0xA3):
    _WIDTHS[_kind] = 0
# absolute-expiry-time is the ninth field of properties (§3.2.4): a shorter list cannot have it. The tenth is
# creation-time, a timestamp as well.
_FIELDS_BEFORE_EXPIRY, _FIELDS_TO_CREATION = 8, 10
_long_sizes = struct.Struct(">II").unpack_from  # size and count of a list32 or map32
_time = struct.Struct(">q").unpack_from  # a timestamp, in milliseconds since 1970
_ZERO = bytes(4)  # a ttl
_NO_HEADER = (Header(), None, 0)
_NO_SECTION = (0, 0, 0)

UNREAD: Final = 1 << 63
"""In place of an expiry or a text: it has to be read, with all that may stand before it. No timestamp is as great."""
ODD_TTL: Final = -1
"""In place of the place of a ttl: it has none, because its ttl is not in an encoding of four octets."""


class Front(NamedTuple):
    """What the front of a message contains.

    Attributes:
        header_end: the offset where the header ends; 0: no header; -1: everything has to be read.
        annotations_end: the offset where the delivery annotations behind it end; without any it is `header_end`.
        expiry: the absolute-expiry-time, in milliseconds since 1970; None: the message does not say it.
    """

    header_end: int
    annotations_end: int
    expiry: int | None


PLAIN: Final = Front(0, 0, None)
"""The front of a message with neither header, delivery annotations nor expiry. Each such front is this very object."""
ODD: Final = Front(-1, -1, UNREAD)
"""The front of a message in an unusual encoding."""


def front_of(payload: bytes) -> Front:
    """Examine the front of a message."""
    start = payload[:DESCRIPTOR_SIZE]
    if start == _DATA_SECTION:
        return PLAIN
    try:
        return front_behind(payload, _end_of_header(payload) if start == _HEADER_SECTION else 0)
    except IndexError:
        return ODD


def header_of(payload: bytes, header_end: int) -> tuple[Header, int | None, int]:
    """Return the header of a message whose front has this `header_end`, its ttl, and where the ttl's octets are.

    The ttl in the header itself may be another. The place is 0 if there is no ttl, or `ODD_TTL`.

    Raises:
        DecodeError: the header is malformed.
    """
    if 0 < header_end <= _SHORT_HEADER:
        return _known(payload[:header_end])
    header = read_header(payload)
    return header, header.ttl, 0 if header.ttl is None else ODD_TTL


def header_and_next_section(payload: bytes) -> tuple[Header, int | None, int, int, int] | None:
    """Return what `header_of` does, the offset where the header ends, and the number of the next section.

    None: the header or its ttl is not in the usual encoding, or the next section is not.
    """
    header_end = 0
    try:
        if payload.startswith(_HEADER_SECTION):
            header_end = _end_of_header(payload)
        next_descriptor = payload[header_end : header_end + DESCRIPTOR_SIZE]
        if header_end > _SHORT_HEADER or next_descriptor not in _AFTER_HEADER:
            return None
        header, ttl, ttl_at = _known(payload[:header_end]) if header_end else _NO_HEADER
    except (IndexError, DecodeError):
        return None
    return None if ttl_at == ODD_TTL else (header, ttl, ttl_at, header_end, next_descriptor[-1])


def front_behind(payload: bytes, header_end: int) -> Front:
    """Return the front of a message whose header ends at `header_end`; 0: it has none."""
    at = header_end
    try:
        if payload.startswith(_DELIVERY_MAP8, at):
            at += 5 + payload[at + 4]
        elif payload.startswith(_DELIVERY_MAP32, at):
            at += 8 + _long_sizes(payload, at + 4)[0]
    except (IndexError, struct.error):
        return ODD
    expiry = expiry_behind(payload, at)
    if expiry is None and at == header_end:
        return _plain_but_for(header_end)
    return ODD if expiry == UNREAD else Front(header_end, at, expiry)


def expiry_behind(payload: bytes, at: int) -> int | None:
    """Return the expiry in the properties of a message whose header and delivery annotations end at `at`.

    It knows only the usual sections: message annotations or none, then properties or none. For others it is `UNREAD`.
    benchmarks/budget.py, "broker_fill"
    """
    try:
        if payload.startswith(_MESSAGE_MAP8, at):
            at += 5 + payload[at + 4]
        elif payload.startswith(_MESSAGE_MAP32, at):
            at += 8 + _long_sizes(payload, at + 4)[0]
        if payload.startswith(_PROPERTIES_LIST8, at):
            size, count = payload[at + 4], payload[at + 5]
            end = at + 5 + size
        elif payload.startswith(_PROPERTIES_LIST32, at):
            size, count = _long_sizes(payload, at + 4)
            end = at + 8 + size
        else:
            later = payload.startswith(_DESCRIBED, at) and payload[at + 2] > _PROPERTIES
            return None if later or payload.startswith(_PROPERTIES_LIST0, at) else UNREAD
        # Only a null or a creation time is behind the expiry in most messages. So it is found from the end of the list,
        # but for an octet of a null that may as well be the last one of a time.
        if count == _FIELDS_TO_CREATION and payload[end - 9] == _TIME:
            if payload[end - 10] == _NULL:
                if payload[end - 18] != _TIME:
                    return None
            elif payload[end - 1] != _NULL and payload[end - 18] == _TIME:
                return _time(payload, end - 17)[0]  # type: ignore[no-any-return]
        elif count <= _FIELDS_BEFORE_EXPIRY:
            return None
        return _expiry_in(payload, at, end)
    except (IndexError, struct.error):
        return UNREAD


def _expiry_in(payload: bytes, at: int, end: int) -> int | None:
    """Return the expiry in the properties that begin at `at` and end at `end`; fields before it are skipped.

    Raises:
        IndexError: they are malformed, or a field before it is in an unusual encoding.
    """
    at += 6 if payload[at + DESCRIPTOR_SIZE] == _LIST8 else 12
    for _ in range(_FIELDS_BEFORE_EXPIRY):
        at += _WIDTHS[payload[at]] or 2 + payload[at + 1]
    if payload[at] == _NULL:
        return None
    if payload[at] != _TIME or at + 9 > end:
        return UNREAD
    moment: int = _time(payload, at + 1)[0]
    return moment


def properties_of(payload: bytes) -> tuple[int, int] | None:
    """Return where the properties of a message begin and end: at the same offset if it has none.

    None: a section before them is not in the usual encoding.
    """
    at = 0
    try:
        if payload.startswith(_HEADER_SECTION):
            at = 5 + payload[4] if payload.startswith(_HEADER_LIST8) else _end_of_header(payload)
        if payload.startswith(_MESSAGE_MAP8, at):
            at += 5 + payload[at + 4]
        elif payload.startswith(_MESSAGE_MAP32, at):
            at += 8 + _long_sizes(payload, at + 4)[0]
        if payload.startswith(_PROPERTIES_LIST8, at):
            return at, at + 5 + payload[at + 4]
        if payload.startswith(_PROPERTIES_LIST32, at):
            return at, at + 8 + _long_sizes(payload, at + 4)[0]
        if payload.startswith(_DESCRIBED, at) and _PROPERTIES < payload[at + 2] <= _FOOTER:
            return at, at
    except (IndexError, struct.error):
        pass
    return None


def text_in(payload: bytes, at: int, end: int, number: int) -> str | int | None:
    """Return the field with this place in the list of the properties, which begin at `at` and end at `end`.

    None: it is null or missing. `UNREAD`: it is no string, or it or a field before it is in an unusual encoding.
    """
    if at == end:
        return None
    try:
        if payload[at + DESCRIPTOR_SIZE] == _LIST8:
            count = payload[at + 5]
            at += 6
        else:
            count = _long_sizes(payload, at + 4)[1]
            at += 12
        if number >= count:
            return None
        for _ in range(number):
            at += _WIDTHS[payload[at]] or 2 + payload[at + 1]
        if payload[at] == _STRING:
            stop = at + 2 + payload[at + 1]
            if stop <= end:
                return payload[at + 2 : stop].decode()
        elif payload[at] == _NULL and at < end:
            return None
    except (IndexError, struct.error, UnicodeDecodeError):
        pass
    return UNREAD


def application_properties_at(payload: bytes, at: int) -> tuple[int, int, int] | None:
    """Return where the application properties begin, where their map begins, and where it ends.

    All are 0 in a message without them. None: they are not in the usual encoding, or the payload ends before they do.

    Args:
        at: where the properties end.
    """
    try:
        if payload.startswith(_APPLICATION_MAP8, at):
            end = at + 5 + payload[at + 4]
        elif payload.startswith(_APPLICATION_MAP32, at):
            end = at + 8 + _long_sizes(payload, at + 4)[0]
        else:
            later = payload.startswith(_DESCRIBED, at) and APPLICATION_PROPERTIES < payload[at + 2] <= _FOOTER
            return _NO_SECTION if later else None
    except (IndexError, struct.error):
        return None
    return (at, at + DESCRIPTOR_SIZE, end) if end <= len(payload) else None


@lru_cache(maxsize=64)
def _plain_but_for(header_end: int) -> Front:
    """Return the front of a message that is plain except for a header that ends at `header_end`; `PLAIN` for 0."""
    return Front(header_end, header_end, None) if header_end else PLAIN


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


def _place_of_ttl(octets: bytes) -> int:
    """Return where the four octets of the ttl are in a header; 0: it has none, or not in that encoding."""
    at = {_LIST8: 6, _LIST32: 12}.get(octets[3], 0)
    try:
        if not at or octets[at - 1] < 3:  # the count of its fields; the ttl is the third (§3.2.1)
            return 0
        at += _BEFORE_TTL[octets[at]]
        at += _BEFORE_TTL[octets[at]]
        return at + 1 if octets[at] == _UINT and at + 5 <= len(octets) else 0
    except (IndexError, KeyError):
        return 0


@lru_cache(maxsize=64)
def _known(octets: bytes) -> tuple[Header, int | None, int]:
    """Return what `header_of` does, of a header by itself: mostly it is the same as that of the message before."""
    at = _place_of_ttl(octets)
    if at:
        # Headers that differ in their ttl, as those of a sender with a deadline, are decoded once.
        return _decoded(octets[:at] + _ZERO + octets[at + 4 :]), int.from_bytes(octets[at : at + 4], "big"), at
    header = read_header(octets)
    return header, header.ttl, 0 if header.ttl is None else ODD_TTL


@lru_cache(maxsize=64)
def _decoded(octets: bytes) -> Header:
    return read_header(octets)
