"""The headers of AMQP/Fast that fields of AMQP 1.0 go to."""

from __future__ import annotations

from typing import Final

from ....types import Symbol
from ..._kit.message.mapping import DELIVERY_COUNT, GROUP_ID, GROUP_SEQUENCE, PREFIX, REST_HEADER, SUBJECT

SECTIONS: Final = "application/vnd.amqp10; section=amqp-value"
"""The mime-type of a body that is encoded sections of AMQP 1.0."""
WHOLE: Final = "application/vnd.amqp10"
"""The mime-type of a body that is a whole encoded message, because no other form can express it."""

NATIVE: Final = Symbol("x-opt-fast")
TEXTS: Final = {
    "subject": SUBJECT,
    "group_id": GROUP_ID,
    "to": f"{PREFIX}to",
    "reply_to": f"{PREFIX}reply-to",
    "reply_to_group_id": f"{PREFIX}reply-to-group-id",
}
MOMENTS: Final = {
    "absolute_expiry_time": f"{PREFIX}absolute-expiry-time",
    "creation_time": f"{PREFIX}creation-time",
}
USER_ID: Final = f"{PREFIX}user-id"
CORRELATION_ID: Final = f"{PREFIX}correlation-id"
CONTENT_TYPE: Final = f"{PREFIX}content-type"
PRIORITY: Final = f"{PREFIX}priority"
TTL: Final = f"{PREFIX}ttl"
PARTS: Final = f"{PREFIX}sections"
FORMAT: Final = f"{PREFIX}message-format"
_RESERVED: Final = frozenset((*TEXTS.values(), GROUP_SEQUENCE, DELIVERY_COUNT))
HOP: Final = frozenset((TTL, PRIORITY, DELIVERY_COUNT, REST_HEADER, PARTS))
"""Headers that do not come from the sender's properties."""


def is_reserved(name: str) -> bool:
    """Return whether the header `name` has a meaning of its own, so that it is neither an annotation nor a property."""
    return name in _RESERVED or name.startswith(REST_HEADER)
