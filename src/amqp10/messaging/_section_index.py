"""Finds the sections of an encoded message without decoding them (§3.2).

The sections are described values in a fixed order: header, delivery-annotations, message-annotations, properties,
application-properties, body, footer. All but the body may be absent; the body is one or more data sections, one or more
amqp-sequence sections, or a single amqp-value section.

The specification requires a body. qpid-proton and others omit an empty body, so a message without one is accepted, and
its body reads as None.
"""

from __future__ import annotations

import struct
from typing import Final

from ..errors import DecodeError
from ..types import Symbol, ULong, decode_from, skip
from ..types.codec import CODES, fast, unpack_word

HEADER: Final = 0x70
DELIVERY_ANNOTATIONS: Final = 0x71
MESSAGE_ANNOTATIONS: Final = 0x72
PROPERTIES: Final = 0x73
APPLICATION_PROPERTIES: Final = 0x74
DATA: Final = 0x75
AMQP_SEQUENCE: Final = 0x76
AMQP_VALUE: Final = 0x77
FOOTER: Final = 0x78

NAMES: Final = {
    HEADER: "header",
    DELIVERY_ANNOTATIONS: "delivery-annotations",
    MESSAGE_ANNOTATIONS: "message-annotations",
    PROPERTIES: "properties",
    APPLICATION_PROPERTIES: "application-properties",
    DATA: "data",
    AMQP_SEQUENCE: "amqp-sequence",
    AMQP_VALUE: "amqp-value",
    FOOTER: "footer",
}
BODY: Final = (DATA, AMQP_VALUE, AMQP_SEQUENCE)

# Sections by their symbolic descriptor, which a peer may use instead of the code (§1.2).
_BY_SYMBOL: Final = {
    f"amqp:{name}:{'list' if code in (HEADER, PROPERTIES) else 'map'}": code
    for code, name in NAMES.items()
    if code not in BODY
} | {"amqp:data:binary": DATA, "amqp:amqp-sequence:list": AMQP_SEQUENCE, "amqp:amqp-value:*": AMQP_VALUE}

_REPEATABLE: Final = frozenset((DATA, AMQP_SEQUENCE))

# Constructors of a descriptor: ulong and symbol.
_DESCRIPTORS: Final = frozenset((0x44, 0x53, 0x80, 0xA3, 0xB3))

# The beginnings of sections with a descriptor of one octet and a value with a size of one octet, or of four: binary,
# string, symbol, list or map (§1.6).
_SHORT: Final = frozenset(bytes((0, 0x53, code, kind)) for code in NAMES for kind in (0xA0, 0xA1, 0xA3, 0xC0, 0xC1))
_WIDE: Final = frozenset(bytes((0, 0x53, code, kind)) for code in NAMES for kind in (0xB0, 0xB1, 0xB3, 0xD0, 0xD1))

# The same of values of fixed width, with the octets of the section: a body that is a number, a boolean or null, or an
# empty list.
_FIXED: Final = {
    bytes((0, 0x53, code, kind)): 4 + width for code in NAMES for kind, (_, width) in CODES.items() if kind < 0xA0
}

# The place of a section: where it begins, where its value begins (at the constructor), and where it ends.
SectionSpan = tuple[int, int, int]


def section_at(payload: bytes, at: int) -> tuple[int, int, int]:
    """Return the descriptor code of the section at `at`, and where its value, which is not checked, begins and ends.

    Raises:
        DecodeError: no section begins there, or the payload ends within it.
    """
    try:
        if payload[at] == 0 and payload[at + 1] == 0x53:
            code = payload[at + 2]
            value_at = at + 3
        else:
            code, value_at = _wide_descriptor(payload, at)
        kind = payload[value_at] >> 4
        if kind == 0xC or kind == 0xA:
            end = value_at + 2 + payload[value_at + 1]
        elif kind == 0xD or kind == 0xB:
            end = value_at + 5 + int.from_bytes(payload[value_at + 1 : value_at + 5], "big")
        else:
            end = skip(payload, value_at)
    except IndexError:
        end = len(payload) + 1
    if end > len(payload):
        raise DecodeError(f"the message ends within the section at offset {at}")
    if code not in NAMES:
        raise DecodeError(f"the descriptor 0x{code:02x} at offset {at} does not begin a message section")
    return code, value_at, end


def descriptor_at(payload: bytes, at: int) -> tuple[int, int]:
    """Return the descriptor code of the section at `at`, and where its value begins.

    Raises:
        DecodeError: no section begins there, or the payload ends within its descriptor.
    """
    if payload[at : at + 2] == b"\0\x53" and at + 2 < len(payload) and payload[at + 2] in NAMES:
        return payload[at + 2], at + 3
    try:
        return _wide_descriptor(payload, at)
    except IndexError:
        raise DecodeError(f"the message ends within the section at offset {at}") from None


def _wide_descriptor(payload: bytes, at: int) -> tuple[int, int]:
    if payload[at]:
        raise DecodeError(f"no message section begins at offset {at}, but a value with constructor 0x{payload[at]:02x}")
    if at + 1 >= len(payload):
        raise DecodeError(f"the message ends within the section at offset {at}")
    if payload[at + 1] not in _DESCRIPTORS:
        raise DecodeError(
            f"the descriptor at offset {at} is neither a symbol nor a ulong, so it does not begin a message section"
        )
    descriptor, value_at = decode_from(payload, at + 1)
    code = None
    if type(descriptor) is Symbol:
        code = _BY_SYMBOL.get(descriptor)
    elif type(descriptor) is ULong and descriptor in NAMES:
        code = int(descriptor)
    if code is None:
        raise DecodeError(f"the descriptor {descriptor!r:.80} at offset {at} does not begin a message section")
    return code, value_at


def scan(payload: bytes) -> dict[int, SectionSpan]:
    """Return the place of each section by descriptor code; several data or amqp-sequence sections share one place.

    Raises:
        DecodeError: an unknown or truncated section, sections out of order or twice, bodies of two kinds,
            or no section at all.
    """
    if fast is not None and type(payload) is bytes:
        regular: dict[int, SectionSpan] | None = fast.scan(payload)
        if regular is not None:
            return regular
    # A usual message is scanned without a call for each section. benchmarks/budget.py, "decode_orders".
    places: dict[int, SectionSpan] = {}
    at = last = 0
    size = len(payload)
    try:
        while at < size:
            head = payload[at : at + 4]
            if head in _SHORT:
                end = at + 5 + payload[at + 4]
            elif head in _WIDE:
                end = at + 8 + unpack_word(payload, at + 4)[0]
            elif head in _FIXED:
                end = at + _FIXED[head]
            else:
                break
            code = head[2]
            if last >= code or last >= DATA:
                break
            places[code] = (at, at + 3, end)
            last = code
            at = end
    except (IndexError, struct.error):
        pass
    return places if 0 < at == size else _scan_any(payload)


def _scan_any(payload: bytes) -> dict[int, SectionSpan]:
    """Scan any message."""
    places: dict[int, SectionSpan] = {}
    at = last = 0
    while at < len(payload):
        code, value_at, end = section_at(payload, at)
        if last < DATA and last < code:
            places[code] = (at, value_at, end)
        elif code == last and code in _REPEATABLE:
            first = places[code]
            places[code] = (first[0], first[1], end)
        elif code == FOOTER and last < FOOTER:
            places[code] = (at, value_at, end)
        else:
            raise misplaced(last, code)
        last = code
        at = end
    if not places:
        raise DecodeError("an empty payload is not a message")
    return places


def misplaced(last: int, code: int) -> DecodeError:
    """Return the error for a section that may not follow the section `last`."""
    if code == last:
        return DecodeError(f"a message has the section {NAMES[code]} twice")
    if DATA <= code <= AMQP_VALUE and DATA <= last <= AMQP_VALUE:
        return DecodeError(f"a message has a body of {NAMES[last]} and of {NAMES[code]}")
    return DecodeError(f"the section {NAMES[code]} comes after {NAMES[last]}")
