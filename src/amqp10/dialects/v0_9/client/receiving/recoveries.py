"""The recovers of a receiving link: the peer takes back all unacked deliveries, and sends them again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .....engine import DeliveriesUnresumed
from ...._kit.requests import WaitingRequests
from ...codes import Fault
from ...wire.methods import BasicRecover, BasicRecoverOk
from ...wire.rare_methods import BasicRecoverSync

if TYPE_CHECKING:
    from .....engine import IncomingDelivery, PendingRequest, ReceiverLink
    from ..parents import ClientLinkSession


class Recoveries:
    """The recovers of a link.

    Attributes:
        pending: the recovers without an answer, oldest first. Meanwhile nothing may be settled.
    """

    __slots__ = ("_link", "_recovered", "_session", "pending")

    def __init__(self, link: ReceiverLink, session: ClientLinkSession) -> None:
        self._link = link
        self._session = session
        self.pending: WaitingRequests = WaitingRequests(session)
        self._recovered = 0  # number of the last delivery when the peer last answered a recover

    def ask(self, pending: PendingRequest[Any]) -> BasicRecover | BasicRecoverSync:
        """Record a recover, and return the method to write."""
        self.pending.add(pending)
        # Qpid's 0-9 has another method for that.
        sync = BasicRecoverSync in self._session.engine.variant.methods and not self._session.connection.capabilities
        return BasicRecoverSync(requeue=True) if sync else BasicRecover(requeue=True)

    def answer(self, last: int, gone: list[IncomingDelivery]) -> None:
        """Answer the oldest recover: the peer has back all unacked deliveries up to number `last`.

        Args:
            gone: the unsettled deliveries that the owner knows.

        Raises:
            Fault: no recover waits for an answer.
        """
        if not self.pending:
            raise Fault(503, "a basic.recover-ok, which was not asked for", BasicRecoverOk.code)
        self._recovered = last
        if gone:
            self._session.engine.emit(DeliveriesUnresumed(self._link, gone))
        self.pending.answer(None)

    def took_back(self, delivery: IncomingDelivery) -> bool:
        """Return whether the peer has the delivery back, or is about to: it must not be settled."""
        return bool(self.pending) or (delivery.delivery_id or 0) <= self._recovered
