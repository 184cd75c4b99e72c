"""The user-id of a message, and whether it is that of its sender.

The user-id "MAY be authenticated by intermediaries" (§3.2.4); brokers of 0-9-1 and 0-10 do so. A sender gives the name
that it logged in with, or none. The check covers every place where a lenient consumer may find a user-id; a message
that leaves doubt is refused.
"""

from __future__ import annotations

from typing import Final

from ...messaging import Error, Message
from ...types import Symbol

_PROPERTIES: Final = 0x73
_NULL: Final = 0x40
_FIXED: Final = {0x40: 1, 0x44: 1, 0x53: 2, 0x80: 9, 0x98: 17}  # constructors of a message-id, and its octets
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
    start, end = _front(payload)
    marked = _marked(payload, 0, start) or _marked(payload, end)
    if not marked and (message_format or _has_usual_sections(payload)):
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
    return Error(Symbol("amqp:unauthorized-access"), reason, {Symbol("reply-code"): 406})


def _marked(payload: bytes, start: int, end: int | None = None) -> bool:
    """Return whether a properties section may begin in that part of the payload."""
    return any(payload.find(mark, start, end) >= 0 for mark in _MARKS)


def _has_usual_sections(payload: bytes) -> bool:
    """Return whether each section has the usual descriptor, a small ulong. Cheap; returns False in doubt.

    Other numbers are not descriptors (§1.2), but some decoders accept an int of the same value.
    """
    at, size = 0, len(payload)
    try:
        while at < size and payload[at] == 0 and payload[at + 1] == 0x53:
            kind = payload[at + 3]
            if kind & 0xFE in (0xC0, 0xA0):
                at += 5 + payload[at + 4]
            elif kind & 0xFE in (0xD0, 0xB0):
                at += 8 + int.from_bytes(payload[at + 4 : at + 8], "big")
            elif kind & 0xF0 == 0x40:
                at += 4
            else:
                return False
    except IndexError:
        return False
    return at == size


def _front(payload: bytes) -> tuple[int, int]:
    """Return where the properties begin and end that are in their place and have no user-id, their second field.

    Cheap; returns (0, 0) in doubt, or if there are no properties.
    """
    at = last = 0
    try:
        while payload[at] == 0 and payload[at + 1] == 0x53 and last < payload[at + 2] <= _PROPERTIES:
            last, kind = payload[at + 2], payload[at + 3]
            if last == _PROPERTIES:
                return _unclaimed(payload, at)
            if kind & 0xFE == 0xC0:  # a list or a map, as all sections before the properties
                at += 5 + payload[at + 4]
            elif kind & 0xFE == 0xD0:
                at += 8 + int.from_bytes(payload[at + 4 : at + 8], "big")
            elif kind == 0x45:
                at += 4
            else:
                break
    except IndexError:
        pass
    return 0, 0


def _unclaimed(payload: bytes, start: int) -> tuple[int, int]:
    """Return the bounds of properties at `start` without a user-id; (0, 0) if they may have one."""
    kind = payload[start + 3]
    if kind == 0x45:
        return start, start + 4
    if kind != 0xC0:
        return 0, 0
    end = start + 5 + payload[start + 4]
    at = start + 6
    if payload[at - 1] > 1:
        first = payload[at]
        at += _FIXED.get(first, 0) or (2 + payload[at + 1] if first in _SHORT else 0)
        if at >= end or payload[at] != _NULL:
            return 0, 0
    return start, end
