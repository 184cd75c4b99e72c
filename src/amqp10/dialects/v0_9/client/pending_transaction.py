"""What a transaction publishes and settles, kept until it is committed; see `transactions`."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Protocol

from ....errors import LocalProtocolError
from ....messaging import ACCEPTED, DeliveryState, Error, Returned, TransactionalState
from .sending.returns import Returnable, outcome_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ....engine import IncomingDelivery, OutgoingDelivery
    from ....errors import AmqpError
    from ..wire.methods import BasicReturn
    from .sending.publish_writer import PublishWriter
    from .transactional_channel import TransactionalChannel


class TransactedSender(Protocol):
    """A sender whose messages are part of a transaction."""

    @property
    def name(self) -> str: ...

    @property
    def cause(self) -> AmqpError | None: ...

    @property
    def writer(self) -> PublishWriter: ...


class TransactedReceiver(Protocol):
    """A receiver whose deliveries a transaction settles."""

    @property
    def name(self) -> str: ...

    @property
    def cause(self) -> AmqpError | None: ...

    @property
    def attached(self) -> bool: ...

    @property
    def channel(self) -> TransactionalChannel: ...

    def settled_by_owner(self, delivery: IncomingDelivery, state: DeliveryState | None) -> None: ...

    def has_back(self, delivery: IncomingDelivery) -> bool: ...

    def give_back(self, deliveries: Iterable[IncomingDelivery]) -> None: ...

    def flush_acks(self) -> None: ...

    def settle_all(self, settled: list[tuple[IncomingDelivery, DeliveryState | None]]) -> None: ...


class PendingTransaction:
    """The publishes and settlements of one transaction.

    Attributes:
        receiver: the link whose deliveries it settles; None as long as it settles nothing.
        returned: the error of each message that came back.
    """

    def __init__(self) -> None:
        self.publishes: list[tuple[TransactedSender, OutgoingDelivery]] = []
        self.returned: list[Error] = []
        self.settled: list[tuple[IncomingDelivery, DeliveryState | None]] = []
        self.receiver: TransactedReceiver | None = None

    def publish(self, link: TransactedSender, delivery: OutgoingDelivery, state: TransactionalState) -> None:
        """Keep a message for the commit. It counts as accepted, if the transaction is committed."""
        self.publishes.append((link, delivery))
        delivery.state = state
        delivery.on_wire = delivery.remote_settled = True
        delivery.remote_state = TransactionalState(state.txn_id, ACCEPTED)

    def retire(self, link: TransactedReceiver, delivery: IncomingDelivery, state: TransactionalState) -> None:
        """Keep a settlement for the commit."""
        if self.receiver not in (None, link):
            raise LocalProtocolError(
                "a transaction of AMQP 0-9-1 settles deliveries of only one receiver: use a transaction for each "
                "receiver"
            )
        self.receiver = link
        link.settled_by_owner(delivery, state)
        self.settled.append((delivery, state.outcome))

    @cached_property
    def _returnable(self) -> Returnable:
        """What may come back, which is complete: nothing comes back before the commit."""
        returnable = Returnable()
        for link, delivery in self.publishes:
            returnable.add(link.writer, delivery)
        return returnable

    def on_return(self, method: BasicReturn, properties: bytes, body: bytes) -> None:
        """Record that a message of the transaction came back."""
        outcome = outcome_of(method)
        self.returned.append(outcome.error)  # type: ignore[union-attr,arg-type]
        found = self._returnable.find(method, properties, body)
        if found is not None:
            found.remote_state = TransactionalState(found.state.txn_id, outcome)  # type: ignore[union-attr]

    def obstacle(self) -> str | None:
        """Return why the transaction cannot be committed; None if it can.

        Messages of a sender that this side closed are written all the same: on the channel of the commit.
        """
        for link, _ in self.publishes:
            if link.cause is not None:
                return f"the sender {link.name!r} is gone: {link.cause}"
        if self.receiver is not None and not self.receiver.attached:
            why = self.receiver.cause or "it was closed before the commit, and its deliveries went back with it"
            return f"the receiver {self.receiver.name!r} is gone: {why}"
        if self.receiver is not None and any(self.receiver.has_back(delivery) for delivery, _ in self.settled):
            return "the peer has back what the transaction settles, by a recover"
        return None

    def outcome(self) -> DeliveryState:
        """Return the outcome of the commit."""
        if not self.returned:
            return ACCEPTED
        first, count = self.returned[0], len(self.returned)
        if count > 1:
            description = f"{first.description}, the first of {count} messages that came back"
            first = Error(first.condition, description, first.info)
        return Returned(first)

    def roll_back(self) -> None:
        """Give back the deliveries that were to be settled, so that they come again. No publish was written yet."""
        if self.receiver is not None:
            self.receiver.give_back([delivery for delivery, _ in self.settled])
