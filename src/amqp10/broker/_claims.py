"""Whom a message says that it is from, and whether that is who sent it.

The user-id "MAY be authenticated by intermediaries" (§3.2.4); in 0-9-1 and 0-10 brokers do. Who wants to be believed
says the name that he logged in with; who says nothing stays unknown. It is asked of the message as consumers will see
it, whatever part of it they will see that in.
"""

from __future__ import annotations

from typing import Final

from ..messaging import Error, read_properties
from ..types import Symbol

_PROPERTIES: Final = 0x73
_NULL: Final = 0x40
_FIXED: Final = {0x40: 1, 0x44: 1, 0x53: 2, 0x80: 9, 0x98: 17}  # kinds of message-id, and their octets
_SHORT: Final = (0xA0, 0xA1)


def forged(payload: bytes, user: str | None) -> Error | None:
    """What to tell the sender of a message that says it is somebody else's; None for all others.

    Args:
        user: who sent it, None for somebody without a name: who may claim none.

    Raises:
        DecodeError: its properties, or what comes before them, are malformed.
    """
    claimed = read_properties(payload).user_id if _may_claim(payload) else None
    if claimed is None or claimed == (user or "").encode():
        return None
    name = claimed.decode(errors="backslashreplace")
    known = "nobody by name" if user is None else f"'{user:.80}'"
    reason = f"user_id property set to '{name:.80}' but authenticated user was {known}"
    return Error(Symbol("amqp:unauthorized-access"), reason, {Symbol("reply-code"): 406})


def _may_claim(payload: bytes) -> bool:
    """Whether the properties may have a user-id, their second field; cheap, and errs to True."""
    at = 0
    try:
        while payload[at] == 0 and payload[at + 1] == 0x53:
            section, kind = payload[at + 2], payload[at + 3]
            if section >= _PROPERTIES:
                if section > _PROPERTIES or kind == 0x45 or (kind == 0xC0 and payload[at + 5] < 2):
                    return False
                if kind != 0xC0:
                    return True
                at += 6
                first = payload[at]
                at += _FIXED.get(first, 0) or (2 + payload[at + 1] if first in _SHORT else 0)
                return payload[at] != _NULL
            if kind & 0xFE == 0xC0:  # a list or a map, as all sections before it are
                at += 5 + payload[at + 4]
            elif kind & 0xFE == 0xD0:
                at += 8 + int.from_bytes(payload[at + 4 : at + 8], "big")
            elif kind == 0x45:
                at += 4
            else:
                return True
    except IndexError:
        pass
    return True
