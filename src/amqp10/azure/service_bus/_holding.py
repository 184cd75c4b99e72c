"""What a `Worker` holds of an entity: messages whose locks are renewed, outcomes that the service confirms."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from uuid import UUID

from ...client import Connection, Delivery
from ...errors import AmqpError, DecodeError
from ...messaging import Outcome, Rejected
from ._errors import MessageLockLost
from ._locks import renewed
from ._management import EntityManagement
from ._received import Place, ServiceBusDelivery, dead_letter, settle_all

_TIMEOUT = 60.0
"""Seconds that the service may take to answer."""


class HeldMessages:
    """The messages that one link brings.

    Args:
        address: of the entity.
        link: the name of the link, which is in receiver-settle-mode "second".
        restores: links of the connection come back by themselves.
        clock: the time in seconds since 1970.
        session_id: of the session whose lock its messages have; None: each has its own.
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
        self._place = Place(link, clock, connection.close_timeout, session_id)

    @property
    def of_session(self) -> bool:
        """Whether the messages have the lock of their session."""
        return self._place.session_id is not None

    def hold(self, delivery: Delivery) -> ServiceBusDelivery | None:
        """Return a delivery with its lock; None: it has none, as that of an event hub."""
        if len(delivery.tag) != 16:
            return None
        held = ServiceBusDelivery(delivery.message, self._place, self._node, UUID(bytes_le=delivery.tag), delivery)
        if self.of_session:
            return held
        try:
            return held if held.locked_until is not None else None
        except DecodeError:  # it is locked all the same
            return held

    async def renewed(self, delivery: ServiceBusDelivery) -> AmqpError | None:
        """Renew the lock of a message until it is lost; return why it is."""
        try:
            until = delivery.locked_until
        except DecodeError:
            until = None
        clock = self._place.clock
        return await renewed(delivery.renew_lock, until, clock, MessageLockLost, settled=lambda: delivery.settled)

    async def settle(self, outcomes: Iterable[tuple[ServiceBusDelivery, Outcome]]) -> list[Exception | None]:
        """Settle messages in one go; return for each why the service did not do it."""
        return await settle_all((delivery, _dead(outcome)) for delivery, outcome in outcomes)


def _dead(outcome: Outcome) -> Outcome:
    """Say the reason of a dead letter as Service Bus does."""
    error = outcome.error if isinstance(outcome, Rejected) else None
    return outcome if error is None else dead_letter(str(error.condition), error.description or "")
