"""The sessions of an entity: the receivers that hold them or ask for one, and the states that these keep with them."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING, Final

from ....types import decode, encode
from .groups import Group, SessionReceiver

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..._queues.journal import Records

SESSION: Final = "s"
"""The first letter of the key of a session's record."""


class Sessions:
    """The sessions that have a message, a holder or a state. It knows no time: the entity ends expired locks.

    Attributes:
        askers: the receivers that ask for any session, by numbers that are never used again, in order.
    """

    def __init__(self) -> None:
        self.askers: dict[int, SessionReceiver] = {}
        self._numbers = 0
        self._by_id: dict[str, Group] = {}
        self._offers: list[int] = []  # a heap of the keys of `_offered`, and of some that are gone from there
        self._offered: dict[int, Group] = {}  # by `Group.offered`
        self._records: Records | None = None

    def __iter__(self) -> Iterator[Group]:
        return iter(self._by_id.values())

    def __getitem__(self, session_id: str) -> Group:
        """Return the session of that id, made if it is missing."""
        session = self._by_id.get(session_id)
        if session is None:
            session = self._by_id[session_id] = Group(session_id)
        return session

    def locked(self, session_id: str | None) -> Group | None:
        """Return the session of that id if a receiver has it locked, otherwise None."""
        session = self._by_id.get(session_id) if session_id is not None else None
        return None if session is None or session.holder is None else session

    def drop_if_blank(self, session: Group) -> bool:
        """Drop a session if that loses nothing; return whether it was dropped."""
        if session.id is None or not session.blank:
            return False
        self._by_id.pop(session.id, None)
        self._offered.pop(session.offered, None)
        if session.updated is not None and self._records is not None:
            self._records.remove(SESSION + session.id)
        return True

    def ask(self, receiver: SessionReceiver) -> int:
        """Add a receiver that asks for any session; return its number."""
        self._numbers += 1
        self.askers[self._numbers] = receiver
        return self._numbers

    def offer(self, session: Group, first: int) -> None:
        """Offer a free session to receivers that ask for any; `first`: the number of a message that it has."""
        if session.offered and session.offered <= first:
            return
        self._offered.pop(session.offered, None)
        session.offered = first
        self._offered[first] = session
        if len(self._offers) > 2 * len(self._offered) + 64:
            self._offers = sorted(self._offered)
        else:
            heappush(self._offers, first)

    def next_offer(self) -> tuple[Group, int] | None:
        """Return the session that is offered with the lowest number, and that; it is offered no longer."""
        while self._offers:
            number = heappop(self._offers)
            session = self._offered.pop(number, None)
            if session is not None:
                session.offered = 0
                return session, number
        return None

    def clear(self) -> None:
        """Remove all sessions, and the receivers that ask for one."""
        self._by_id.clear()
        self._offers.clear()
        self._offered.clear()
        self.askers.clear()

    # States

    def set_state(self, session: Group, state: bytes | None, now: float) -> None:
        """Set the state of a session; None or an empty one removes it."""
        session.state, session.updated = state or None, now
        if self._records is not None:
            self._records.put(f"{SESSION}{session.id}", lambda: encode([session.state, session.updated]))

    def restore(self, session_id: str, content: bytes) -> int:
        """Restore a record, before `keep`; return the octets of the state.

        Raises:
            Exception: the record is invalid.
        """
        session = self[session_id]
        session.state, session.updated = decode(content)
        return len(session.state or b"")

    def keep(self, records: Records) -> None:
        """Record states from now on."""
        self._records = records
