"""How far a client is ahead of what the server has taken; the credit of its senders follows from that.

AMQP/Fast has no credit for producers. A server holds messages that it has no room for, and stops reading when it holds
too many; acknowledgments of this client's own receivers, which would make room, may be behind them. So the client
limits itself: beyond a number of octets its senders wait for replies. A message sent settled asks for no reply, except
for one now and then, whose reply confirms all messages before it on its handle as well.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ..._kit.backlog import Backlog

MAX_UNREPLIED: Final = 1 << 23
"""Octets that may be sent without a reply; one message may exceed this."""
MAX_UNASKED: Final = MAX_UNREPLIED // 4
"""Octets without a request for a reply, after which even a message sent settled asks for one."""


class SendWindow:
    """The octets that one connection has sent and the server has not confirmed.

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
        """Return whether senders must wait before they send more."""
        return self._octets >= MAX_UNREPLIED

    def wait(self, work: Callable[[], None]) -> None:
        """Call `work` when there is room."""
        self._waiting.append(work)

    def acknowledge(self, octets: int) -> None:
        """Take off `octets` that were confirmed, or whose reply will not come; resume senders if that made room."""
        before = self.full
        self._octets -= octets
        while self._waiting and not self.full:
            self._waiting.pop(0)()
        if before and not self.full:
            self._gained()


class SenderShare:
    """The octets of one sender in the window."""

    def __init__(self, send_window: SendWindow) -> None:
        self._ahead = send_window
        self._octets = 0
        self._unasked = 0

    def add(self, octets: int, *, asks: bool) -> int:
        """Record a message that is sent; return how many octets its reply will confirm, or 0 if it needs no reply.

        Args:
            octets: the size of its body.
            asks: ask for a reply in any case.
        """
        weight = Backlog.weight(octets)
        self._octets += weight
        self._unasked += weight
        self._ahead._octets += weight
        self._ahead._unasked += weight
        if not asks and self._ahead._unasked < MAX_UNASKED:
            return 0
        covered, self._unasked = self._unasked, 0
        self._ahead._unasked -= covered
        return covered

    def acknowledge(self, octets: int) -> None:
        """Take off `octets` that a reply has confirmed."""
        self._octets -= octets
        self._ahead.acknowledge(octets)

    def give_up(self) -> None:
        """Take off all octets of this sender, because no more replies will come."""
        self._ahead._unasked -= self._unasked
        self._unasked = 0
        self.acknowledge(self._octets)
