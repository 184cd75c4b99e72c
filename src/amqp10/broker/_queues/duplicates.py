"""Duplicate detection as in Artemis: senders give messages an id, and each node remembers the last ids.

https://activemq.apache.org/components/artemis/documentation/latest/duplicate-detection.html
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from ...errors import DecodeError
from ...messaging import Message

if TYPE_CHECKING:
    from .message import QueuedMessage

PROPERTY: Final = "_AMQ_DUPL_ID"
_KINDS: Final = (str, bytes, int, UUID)  # types of ids; not every value can be looked up
_MAX_ID_LENGTH: Final = 255  # longer ids, in octets or characters, are remembered by their hash
_OCTETS: Final = PROPERTY.encode()


class RecentIds:
    """The ids of the last messages that a node took.

    Args:
        most: how many ids are remembered.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._ids: dict[Any, None] = {}  # in order of arrival

    def __contains__(self, identity: object) -> bool:
        return identity in self._ids

    def remember(self, identity: object) -> None:
        """Remember the id of a message."""
        if identity is not None:
            self._ids[identity] = None
            if len(self._ids) > self._most:
                del self._ids[next(iter(self._ids))]


def duplicate_id(entry: QueuedMessage) -> Any:
    """Return the id in the application properties of a message; None: it has no valid one."""
    if _OCTETS not in entry.payload or entry.message_format:
        return None
    try:
        identity = Message.decode(entry.payload).application_properties.get(PROPERTY)
    except DecodeError:
        return None
    return remembered(identity) if isinstance(identity, _KINDS) else None


def remembered(identity: object) -> object:
    """Return an id, or the hash of a long one: ids are remembered longer than messages stay."""
    if isinstance(identity, str | bytes) and len(identity) > _MAX_ID_LENGTH:
        octets = identity if isinstance(identity, bytes) else identity.encode(errors="surrogatepass")
        return type(identity), sha256(octets).digest()
    return identity
