"""Locks of Azure Service Bus: renewed while a message is here. An outcome counts once the service has confirmed it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import time
from typing import TYPE_CHECKING

import anyio

from ..client import Connection, Delivery, Receiver
from ..client.internals import restores
from ..errors import AmqpError
from ..messaging import Outcome, Source

if TYPE_CHECKING:
    from ..azure import ServiceBusDelivery, ServiceBusSession
    from ..azure.internals import HeldMessages


class Lock:
    """The lock of one message.

    Args:
        held: renews the lock; None for the lock of a session, which is renewed elsewhere.

    Attributes:
        delivery: settles the message.
        lost: whether the lock is lost, so that the message arrives again somewhere.
    """

    __slots__ = ("_attempt", "_held", "_renewing", "delivery", "lost")

    def __init__(self, held: HeldMessages | None, delivery: ServiceBusDelivery) -> None:
        self.delivery = delivery
        self.lost = False
        self._held = held
        self._renewing = anyio.CancelScope()
        self._attempt: anyio.CancelScope | None = None

    async def kept(self) -> AmqpError | None:
        """Renew the lock until it is released or lost; return the error of a loss."""
        if self._held is None:
            return None
        with self._renewing:
            return await self._held.renewed(self.delivery)
        return None

    def attempt(self) -> anyio.CancelScope:
        """Return a cancel scope that is cancelled when the lock is lost."""
        self._attempt = anyio.CancelScope()
        return self._attempt

    def lose(self) -> None:
        """Record that the lock is lost, and cancel the attempt."""
        self.lost = True
        self.let_go()
        if self._attempt is not None:
            self._attempt.cancel()

    def let_go(self) -> None:
        """Stop renewing the lock."""
        self._renewing.cancel()


class Locks:
    """The locks that a worker holds of an entity of Service Bus.

    Messages are requested only for free handlers, so that no lock runs down while a message waits here.

    Attributes:
        receiver: the link.
    """

    def __init__(self, receiver: Receiver, held: HeldMessages, prefetch: int) -> None:
        self.receiver = receiver
        self._held = held
        self._prefetch = prefetch
        self._granted = 0  # messages that may arrive, or wait here

    def ask_for(self, count: int) -> None:
        """Request messages for `count` free handlers, and those to prefetch."""
        more = count + self._prefetch - self._granted
        if more > 0:
            self.receiver.add_credit(more)
            self._granted += more

    def take(self, delivery: Delivery) -> Lock | None:
        """Return the lock of a message that arrived, or None."""
        self._granted -= 1
        held = self._held.hold(delivery)
        return None if held is None else Lock(None if self._held.of_session else self._held, held)

    async def settle(self, outcomes: Sequence[tuple[Lock, Outcome]]) -> list[Exception | None]:
        """Settle messages; return for each the error if its outcome does not count, or None."""
        for lock, _ in outcomes:
            lock.let_go()
        return await self._held.settle([(lock.delivery, outcome) for lock, outcome in outcomes])


def locks_of(connection: Connection, address: str | Source, prefetch: int, clock: Callable[[], float]) -> Locks | None:
    """Return the locks of an address; None if the peer is not Service Bus, or a session has the lock."""
    if "settle-second" not in connection.capabilities or connection.profile.name != "service-bus":
        return None
    from ..azure.internals import SESSION_FILTER, HeldMessages  # loaded only for Service Bus

    if isinstance(address, Source) and SESSION_FILTER in (address.filter or {}):
        return None
    receiver = connection.receiver(address, credit=0, receiver_settle_mode="second")
    name = address.address if isinstance(address, Source) else address
    held = HeldMessages(connection, str(name), receiver.name, restores=restores(connection), clock=clock)
    return Locks(receiver, held, prefetch)


def locks_of_session(connection: Connection, session: ServiceBusSession, prefetch: int) -> Locks:
    """Return the locks of messages that share the lock of a session."""
    from ..azure.internals import HeldMessages

    receiver = session.receiver
    held = HeldMessages(
        *(connection, receiver.address or "", receiver.name),
        restores=restores(connection),
        clock=time,
        session_id=session.session_id,
    )
    return Locks(receiver, held, prefetch)


def is_lost(failure: Exception) -> bool:
    """Return whether an outcome does not count because the lock was lost."""
    from ..azure import MessageLockLost, MessageNotFound, SessionLockLost

    return isinstance(failure, MessageLockLost | MessageNotFound | SessionLockLost)
