"""The user-id of a message, and whether it is that of its sender.

The user-id "MAY be authenticated by intermediaries" (§3.2.4); brokers of 0-9-1 and 0-10 do so. A sender gives the name
that it logged in with, or none. The check covers every place where a lenient consumer may find a user-id; a message
that leaves doubt is refused.
"""

from __future__ import annotations

from typing import Final

from ...messaging import Error, Message

_PROPERTIES: Final = 0x73
_NULL: Final = 0x40
_LIST0, _LIST8 = 0x45, 0xC0
_LISTS_AND_MAPS: Final = frozenset((_LIST0, _LIST8, 0xC1, 0xD0, 0xD1))
_FIXED: Final = {_NULL: 1, 0x44: 1, 0x53: 2, 0x80: 9, 0x98: 17}  # constructors of a message-id, and its octets
_SHORT: Final = (0xA0, 0xA1)

# All beginnings of a properties section (§3.2.4): without any of these no consumer finds one, in whatever order.
_MARKS: Final = (b"\0\x53\x73", b"\x80\0\0\0\0\0\0\0\x73", b"amqp:properties:list")


def check_user_id(payload: bytes, user: str | None, message_format: int = 0) -> Error | None:
    """Return the error for a message whose user-id is not that of its sender; otherwise None.

    Args:
        user: the sender; None: it has no name, and may claim none.
        message_format: a message of another format than 0 must not have properties elsewhere than in their place,
            because its sections cannot be interpreted.

    Raises:
        DecodeError: the message may have properties, and is malformed, out of order or has a section twice.
    """
    start, end, usual = _walk(payload)
    marked = _marked(payload, 0, start) or _marked(payload, end)
    if not marked and (message_format or usual):
        return None  # its only properties, if any, are in their place and have no user-id
    message = Message.decode(payload)
    message.check()
    if message_format:
        return _refusal(f"whose a message of format {message_format:#x} is cannot be told, and this one may say it")
    claimed = message.user_id
    if claimed is None or claimed == (user or "").encode():
        return None
    name = claimed.decode(errors="backslashreplace")
    known = "nobody by name" if user is None else f"'{user:.80}'"
    return _refusal(f"user_id property set to '{name:.80}' but authenticated user was {known}")


def _refusal(reason: str) -> Error:
    return Error("amqp:unauthorized-access", reason, {"reply-code": 406})


def _marked(payload: bytes, start: int, end: int | None = None) -> bool:
    """Return whether a properties section may begin in that part of the payload."""
    return any(payload.find(mark, start, end) >= 0 for mark in _MARKS)


def _walk(payload: bytes) -> tuple[int, int, bool]:
    """Walk over the sections.

    Returns:
        Where the properties begin and end that are in their place and surely have no user-id, or 0 and 0. Then whether
        each section has the usual descriptor, a small ulong, and a usual size. Other numbers are not descriptors
        (§1.2), but some decoders accept an int of the same value.
    """
    at = last = start = end = 0
    in_order, size = True, len(payload)
    try:
        while at < size and payload[at] == 0 and payload[at + 1] == 0x53:
            section, kind = payload[at + 2], payload[at + 3]
            behind = _end_of(payload, at + 3)
            in_order = in_order and last < section and kind in _LISTS_AND_MAPS
            if in_order and section == _PROPERTIES and _unclaimed(payload, at + 3):
                start, end = at, behind
            last, at = section, behind
    except IndexError:
        return start, end, False
    return start, end, at == size


def _end_of(payload: bytes, at: int) -> int:
    """Return where the value of a section ends, by its constructor at `at` (§1.2).

    Raises:
        IndexError: the constructor is not usual, or the payload ends before its size.
    """
    kind = payload[at] & 0xFE
    if kind in (0xC0, 0xA0):
        return at + 2 + payload[at + 1]
    if kind in (0xD0, 0xB0):
        return at + 5 + int.from_bytes(payload[at + 1 : at + 5], "big")
    if kind & 0xF0 == 0x40:
        return at + 1
    raise IndexError


def _unclaimed(payload: bytes, at: int) -> bool:
    """Return whether the fields of properties, whose list is at `at`, surely have no user-id, which is the second."""
    if payload[at] != _LIST8:
        return payload[at] == _LIST0
    end, count, first = at + 2 + payload[at + 1], payload[at + 2], at + 3
    if count <= 1:
        return True
    kind = payload[first]
    second = first + (2 + payload[first + 1] if kind in _SHORT else _FIXED.get(kind, 0))
    return second < end and payload[second] == _NULL
