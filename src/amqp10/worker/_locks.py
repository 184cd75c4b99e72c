"""Locks of Azure Service Bus: kept while a message is here; an outcome counts when the service has confirmed it."""

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
        held: renews it; None: it is that of a session, which is renewed elsewhere.

    Attributes:
        delivery: what tells its outcome.
        lost: the message comes again, to whomever.
    """

    __slots__ = ("_attempt", "_held", "_renewing", "delivery", "lost")

    def __init__(self, held: HeldMessages | None, delivery: ServiceBusDelivery) -> None:
        self.delivery = delivery
        self.lost = False
        self._held = held
        self._renewing = anyio.CancelScope()
        self._attempt: anyio.CancelScope | None = None

    async def kept(self) -> AmqpError | None:
        """Renew the lock until it is let go, or lost: return why."""
        if self._held is None:
            return None
        with self._renewing:
            return await self._held.renewed(self.delivery)
        return None

    def attempt(self) -> anyio.CancelScope:
        """Return what is cancelled when the lock is lost."""
        self._attempt = anyio.CancelScope()
        return self._attempt

    def lose(self) -> None:
        """Note that the lock is lost; cancel the attempt."""
        self.lost = True
        self.let_go()
        if self._attempt is not None:
            self._attempt.cancel()

    def let_go(self) -> None:
        """Renew it no more."""
        self._renewing.cancel()


class Locks:
    """What a worker has of an entity of Service Bus.

    Messages are asked for when a handler is free for them, so that no lock runs down while one waits here.

    Attributes:
        receiver: the link.
    """

    def __init__(self, receiver: Receiver, held: HeldMessages, prefetch: int) -> None:
        self.receiver = receiver
        self._held = held
        self._prefetch = prefetch
        self._asked = 0  # messages that may come, or that wait here

    def ask_for(self, count: int) -> None:
        """Let as many messages come as there are handlers free, and those to be fetched ahead."""
        more = count + self._prefetch - self._asked
        if more > 0:
            self.receiver.add_credit(more)
            self._asked += more

    def take(self, delivery: Delivery) -> Lock | None:
        """Return the lock of a message that came; None: it has none."""
        self._asked -= 1
        held = self._held.hold(delivery)
        return None if held is None else Lock(None if self._held.of_session else self._held, held)

    async def settle(self, outcomes: Sequence[tuple[Lock, Outcome]]) -> list[Exception | None]:
        """Tell the outcomes of messages; return for each why it does not count."""
        for lock, _ in outcomes:
            lock.let_go()
        return await self._held.settle([(lock.delivery, outcome) for lock, outcome in outcomes])


def locks_of(connection: Connection, address: str | Source, prefetch: int, clock: Callable[[], float]) -> Locks | None:
    """Return what keeps the locks of an address; None where the peer is not Service Bus, or a session has the lock."""
    if connection.dialect != "1.0" or connection.profile.name != "service-bus":
        return None
    from ..azure.internals import SESSION_FILTER, HeldMessages  # only here: others need not load it

    if isinstance(address, Source) and SESSION_FILTER in (address.filter or {}):
        return None
    receiver = connection.receiver(address, credit=0, receiver_settle_mode="second")
    name = address.address if isinstance(address, Source) else address
    held = HeldMessages(connection, str(name), receiver.name, restores=restores(connection), clock=clock)
    return Locks(receiver, held, prefetch)


def locks_of_session(connection: Connection, session: ServiceBusSession, prefetch: int) -> Locks:
    """Return what tells the outcomes of messages of a session, whose lock they have."""
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
