"""How far a client is ahead of what the server has taken, which is what its senders have for credit.

The server knows no credit for producers. What it has no room for it holds, and when that is too much it reads no more;
what would make room, acknowledgments of this client's own receivers, may be behind that. So the client does not go so
far: beyond a number of octets its senders wait for replies. What is sent settled has none, but for a message now and
then, whose reply says that all before it on its handle was taken as well.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ...engine import Backlog

MOST: Final = 1 << 23
"""Octets that may be on their way; one message comes on top."""
MOST_UNASKED: Final = MOST // 4
"""Of them, those after which no reply was asked for."""


class Ahead:
    """Of one connection.

    Args:
        gained: called when there is room again.
    """

    def __init__(self, gained: Callable[[], None]) -> None:
        self._gained = gained
        self._octets = 0
        self._unasked = 0
        self._waiting: list[Callable[[], None]] = []

    @property
    def full(self) -> bool:
        """Nothing more is to be sent."""
        return self._octets >= MOST

    def wait(self, work: Callable[[], None]) -> None:
        """Do that when there is room."""
        self._waiting.append(work)

    def lessen(self, octets: int) -> None:
        """So much was taken, or is not waited for any more."""
        before = self.full
        self._octets -= octets
        while self._waiting and not self.full:
            self._waiting.pop(0)()
        if before and not self.full:
            self._gained()


class Share:
    """Of one sender in that."""

    def __init__(self, ahead: Ahead) -> None:
        self._ahead = ahead
        self._octets = 0
        self._unasked = 0

    def add(self, octets: int, *, asks: bool) -> int:
        """A message is sent. What its reply will say was taken, with all before it; 0: no reply is needed.

        Args:
            asks: a reply is asked for in any case.
        """
        weight = Backlog.weight(octets)
        self._octets += weight
        self._unasked += weight
        self._ahead._octets += weight
        self._ahead._unasked += weight
        if not asks and self._ahead._unasked < MOST_UNASKED:
            return 0
        covered, self._unasked = self._unasked, 0
        self._ahead._unasked -= covered
        return covered

    def lessen(self, octets: int) -> None:
        """A reply says that so much was taken."""
        self._octets -= octets
        self._ahead.lessen(octets)

    def give_up(self) -> None:
        """No replies come any more."""
        self._ahead._unasked -= self._unasked
        self._unasked = 0
        self.lessen(self._octets)
