"""The drain of a link: one basic.get after the other, until the credit is used up or the queue is empty."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .....engine import FlowReceived
from ...wire.methods import BasicGet

if TYPE_CHECKING:
    from .....engine import ReceiverLink
    from ..parents import ClientLinkSession
    from .consumer import Consumer


class Drain:
    """The drain of a link that has no consumer, or one whose messages cannot wait at the peer.

    Attributes:
        on: a drain was asked for and is not over.
        getting: a basic.get has no answer yet.
    """

    __slots__ = ("_consumer", "_link", "_session", "getting", "on")

    def __init__(self, link: ReceiverLink, session: ClientLinkSession, consumer: Consumer) -> None:
        self._link = link
        self._session = session
        self._consumer = consumer
        self.on: bool = False
        self.getting: bool = False

    def step(self) -> BasicGet | None:
        """Return the next get to write if there is credit for it. Without credit, end the drain."""
        link = self._link
        if link.credit > 0 and not self._consumer.gets:
            self.give_back()
        if link.credit > 0:
            if self.getting:
                return None
            self.getting = True
            return BasicGet(queue=self._consumer.queue)
        self.on = False
        link.credit = 0
        self._session.engine.emit(FlowReceived(link, True))
        return None

    def give_back(self) -> None:
        """Set the credit to 0, and report that no message comes for what is left of it."""
        link = self._link
        given_back, link.credit = link.credit, 0
        self._session.engine.emit(FlowReceived(link, False, given_back))
