"""Ids of messages that came a short while ago, by which an entity drops what is sent twice."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ....types import decode, encode
from ..._queues.duplicates import remembered

if TYPE_CHECKING:
    from ..._queues.journal import Records

SEEN: Final = "i"
"""What the key of a record of an id begins with."""
MOST_IDS: Final = 100_000
"""Ids that an entity remembers, of however short a while."""


class SeenIds:
    """The ids that are remembered, each until its own time; in a store they are a record each."""

    def __init__(self) -> None:
        self._until: dict[object, float] = {}  # when each is forgotten, in the order of that
        self._records: Records | None = None

    def restore(self, content: bytes) -> None:
        """Take back a record, before `keep`.

        Raises:
            Exception: it makes no sense.
        """
        said, until = decode(content)
        self._until[_id_in(said)] = float(until)

    def keep(self, records: Records) -> None:
        """Keep in a store what is remembered and forgotten from now on."""
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
        if identity in remaining:
            return True
        remaining[identity] = until = now + window
        if self._records is not None:
            self._records.put(_key_of(identity), lambda: encode([_said(identity), until]))
        if len(remaining) > MOST_IDS:
            self._forget_oldest()
        return False

    def _forget_oldest(self) -> None:
        identity = next(iter(self._until))
        del self._until[identity]
        if self._records is not None:
            self._records.remove(_key_of(identity))


def _said(identity: object) -> list[Any]:
    """Return an id as its record has it: of a long one the kind and the hash."""
    return [identity[0].__name__, identity[1]] if isinstance(identity, tuple) else ["", identity]


def _id_in(said: list[Any]) -> object:
    kind, value = said
    return ({"str": str, "bytes": bytes}[kind], value) if kind else value


def _key_of(identity: object) -> str:
    return SEEN + encode(_said(identity)).hex()
