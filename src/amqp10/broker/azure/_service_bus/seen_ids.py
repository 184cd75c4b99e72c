"""Ids of recent messages, by which an entity drops duplicates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ....types import decode, encode
from ..._queues.duplicates import remembered

if TYPE_CHECKING:
    from ..._queues.journal import Records

SEEN: Final = "i"
"""The first letter of the key of an id's record."""
MAX_IDS: Final = 100_000
"""The most ids that an entity remembers, however long its window is."""


class SeenIds:
    """The remembered ids, each until its own time; in a store each is a record."""

    def __init__(self) -> None:
        # When each is forgotten, in the order of arrival: ascending, unless the window was shortened meanwhile.
        self._until: dict[object, float] = {}
        self._records: Records | None = None

    def restore(self, content: bytes) -> None:
        """Restore a record, before `keep`.

        Raises:
            Exception: the record is invalid.
        """
        encoded, until = decode(content)
        self._until[_id_in(encoded)] = float(until)

    def keep(self, records: Records) -> None:
        """Record from now on which ids are remembered and forgotten."""
        self._until = dict(sorted(self._until.items(), key=lambda item: item[1]))
        self._records = records

    def seen(self, message_id: object, now: float, window: float | None) -> bool:
        """Return whether an id is remembered; if it is not, remember it for `window` seconds.

        A message without an id, or an entity without a window, has nothing to remember.
        """
        if window is None or message_id is None:
            return False
        remaining = self._until
        while remaining and next(iter(remaining.values())) <= now:
            self._forget_oldest()
        identity = remembered(message_id)
        if remaining.get(identity, now) > now:
            return True
        remaining.pop(identity, None)
        remaining[identity] = until = now + window
        if self._records is not None:
            self._records.put(_key_of(identity), lambda: encode([_encodable(identity), until]))
        if len(remaining) > MAX_IDS:
            self._forget_oldest()
        return False

    def _forget_oldest(self) -> None:
        identity = next(iter(self._until))
        del self._until[identity]
        if self._records is not None:
            self._records.remove(_key_of(identity))


def _encodable(identity: object) -> list[Any]:
    """Return an id as its record has it; of a long one the type and the hash."""
    return [identity[0].__name__, identity[1]] if isinstance(identity, tuple) else ["", identity]


def _id_in(encoded: list[Any]) -> object:
    kind, value = encoded
    return ({"str": str, "bytes": bytes}[kind], value) if kind else value


def _key_of(identity: object) -> str:
    return SEEN + encode(_encodable(identity)).hex()
