"""What a `Worker` needs of Service Bus: messages whose locks it renews, and outcomes that the service confirms."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from uuid import UUID

from ...client import Connection, Delivery
from ...errors import AmqpError, DecodeError
from ...messaging import Outcome, Rejected
from ._errors import MessageLockLost
from ._locks import renewed
from ._management import EntityManagement
from ._received import ReceiverContext, ServiceBusDelivery, dead_letter, settle_all

_TIMEOUT = 60.0
"""Seconds that the service may take to answer."""


class HeldMessages:
    """The messages of one link.

    Args:
        address: the address of the entity.
        link: the name of the link, which has receiver-settle-mode "second".
        restores: whether links of the connection come back by themselves.
        clock: the time in seconds since 1970.
        session_id: the session whose lock covers the messages; None: each message has its own lock.
    """

    def __init__(
        self,
        connection: Connection,
        address: str,
        link: str,
        *,
        restores: bool,
        clock: Callable[[], float],
        session_id: str | None = None,
    ) -> None:
        self._node = EntityManagement(connection, address, _TIMEOUT, restores=restores)
        self._context = ReceiverContext(link, clock, connection.close_timeout, session_id)

    @property
    def of_session(self) -> bool:
        """Whether the lock of a session covers the messages."""
        return self._context.session_id is not None

    def hold(self, delivery: Delivery) -> ServiceBusDelivery | None:
        """Return a delivery with its lock; None: it has no lock, like those of an event hub."""
        if len(delivery.tag) != 16:
            return None
        held = ServiceBusDelivery(delivery.message, self._context, self._node, UUID(bytes_le=delivery.tag), delivery)
        if self.of_session:
            return held
        try:
            return held if held.locked_until is not None else None
        except DecodeError:  # it is locked although it cannot be decoded
            return held

    async def renewed(self, delivery: ServiceBusDelivery) -> AmqpError | None:
        """Renew the lock of a message until it is lost or the message settled; return why it was lost."""
        try:
            until = delivery.locked_until
        except DecodeError:
            until = None
        clock = self._context.clock
        return await renewed(delivery.renew_lock, until, clock, MessageLockLost, settled=lambda: delivery.settled)

    async def settle(self, outcomes: Iterable[tuple[ServiceBusDelivery, Outcome]]) -> list[Exception | None]:
        """Settle messages together; return for each the reason why the service did not settle it, or None."""
        return await settle_all((delivery, _dead(outcome)) for delivery, outcome in outcomes)


def _dead(outcome: Outcome) -> Outcome:
    """Return a rejected outcome in the form of a dead letter of Service Bus, with its reason; others as they are."""
    error = outcome.error if isinstance(outcome, Rejected) else None
    return outcome if error is None else dead_letter(str(error.condition), error.description or "")
