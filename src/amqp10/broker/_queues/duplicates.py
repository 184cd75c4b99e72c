"""Messages that were sent before: their senders say an id, in Artemis' words, and each node remembers the last ones.

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
_KINDS: Final = (str, bytes, int, UUID)  # what identifies; not every value can be looked up
_LONGEST: Final = 255  # octets or characters that are remembered as they are
_OCTETS: Final = PROPERTY.encode()


class RecentIds:
    """The ids of the messages that a node took last.

    Args:
        most: how many are remembered.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._ids: dict[Any, None] = {}  # in order of arrival

    def __contains__(self, identity: object) -> bool:
        return identity in self._ids

    def remember(self, identity: object) -> None:
        """Remember the id of a message that was taken."""
        if identity is not None:
            self._ids[identity] = None
            if len(self._ids) > self._most:
                del self._ids[next(iter(self._ids))]


def duplicate_id(entry: QueuedMessage) -> Any:
    """Return the id that a message states in its application properties; None without a valid one."""
    if _OCTETS not in entry.payload or entry.message_format:
        return None
    try:
        identity = Message.decode(entry.payload).application_properties.get(PROPERTY)
    except DecodeError:
        return None
    return remembered(identity) if isinstance(identity, _KINDS) else None


def remembered(identity: object) -> object:
    """Return an id, or the hash of a long one, because it is remembered longer than the message stays."""
    if isinstance(identity, str | bytes) and len(identity) > _LONGEST:
        octets = identity if isinstance(identity, bytes) else identity.encode(errors="surrogatepass")
        return type(identity), sha256(octets).digest()
    return identity
