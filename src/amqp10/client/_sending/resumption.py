"""What becomes of deliveries that are out when their link is lost (§2.6.13): resumed, sent again, or not known."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from ...errors import AmqpError, DeliveryUncertain, LocalProtocolError, TransactionRolledBack
from ...messaging import TransactionalState
from .._links.events import MessagesRepeated, MessagesUncertain
from .delivery import Repeating, SenderDelivery, Unknown

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ...engine import OutgoingDelivery, SenderLink
    from .._core.connection import ConnectionCore
    from .._links.link import Link
    from .._stores.link_store import LinkStore


class ResumableSender(Protocol):
    """A sender's core, as its resumption knows it; see `SenderCore`."""

    connection: ConnectionCore
    link: SenderLink | None
    last: OutgoingDelivery | None
    pending: list[Any]
    loss: AmqpError | None
    face: Link

    def on_outcomes(self, deliveries: Sequence[Any]) -> None: ...


class SenderResumption:
    """The deliveries of a sender whose link was lost.

    It is made when first needed: at the first loss, when a store brings deliveries back, or when a transaction is
    rolled back before one of its messages was sent.

    `interrupted` gives up those of a transaction. In 1.0, the peer's unsettled map decides first about the others: see
    `sender_step` (dialects/v1_0/unsettled_map.py). Where it does not say what became of a delivery, and in the older
    dialects, `unresumed` decides whether it is sent again. Deliveries sent settled and streamed bodies never are. A
    request is repeated by the task that waits for its reply (`Repeating`).

    Attributes:
        recovered: messages that an earlier connection left.
        unreported: deliveries whose fate will never be known, which nobody was told yet.
    """

    __slots__ = ("_sender", "recovered", "unreported")

    def __init__(self, sender: ResumableSender) -> None:
        self._sender = sender
        self.recovered: tuple[SenderDelivery, ...] = ()
        self.unreported: set[OutgoingDelivery] = set()

    def recall(self, store: LinkStore) -> list[SenderDelivery]:
        """Return what an earlier connection left in the store."""
        unbound: Any = None  # to a link, until it is attached
        deliveries = []
        for each in store.load():  # the peer may have had all of it
            delivery = SenderDelivery(unbound, each.tag, each.payload, False, each.message_format)
            delivery.past = 2
            deliveries.append(delivery)
        self.recovered = tuple(deliveries)
        return deliveries

    def interrupted(self, error: AmqpError | None) -> None:
        """Take over what is out on the link that is lost."""
        sender = self._sender
        link = sender.link
        assert link is not None
        for delivery in list(link.unsettled.values()):
            if isinstance(delivery.state, TransactionalState):
                lost = TransactionRolledBack(description="the connection was lost before the transaction was committed")
                lost.__cause__ = error
                self.lose(delivery, lost)
                self.unreported.discard(delivery)  # its transaction says it
        known = set(map(id, sender.pending))
        sender.pending += [delivery for delivery in link.suspended() if id(delivery) not in known]

    def unresumed(self, deliveries: Iterable[OutgoingDelivery]) -> None:
        """Send these again, or give them up: the peer cannot say what became of them.

        In 1.0 they are what `sender_step` has left (`DeliveriesUnresumed`); in the older dialects, all that were out.
        """
        sender = self._sender
        link, recovery, observers = sender.link, sender.connection.recovery, sender.connection.observers
        assert link is not None
        if not link.attached:
            # The link has ended again, and that event follows. The deliveries wait for the next attachment.
            return
        resend = recovery is None or recovery.settings.on_uncertain == "resend"
        repeated = uncertain = 0
        for delivery in deliveries:
            if delivery.local_settled:  # its outcome came while the link was detached
                continue
            if isinstance(delivery.waiter, Repeating):
                link.forget(delivery)  # the waiter sends a new message itself
                sender.last = None if sender.last is delivery else sender.last
                again = delivery.waiter.repeat(sure=not delivery.handed_over)
                repeated += again is True
                uncertain += again is False
            elif delivery.streamed or (delivery.handed_over and not resend):
                link.forget(delivery)
                error = DeliveryUncertain(
                    "the link was lost before the outcome came: it is not known whether it arrived"
                )
                error.__cause__ = sender.loss
                self.lose(delivery, error)
                uncertain += 1
            else:
                self._resend(link, delivery)
                repeated += 1
        if repeated:
            observers.tell(MessagesRepeated(sender.face, repeated, sender.loss))
        if uncertain:
            observers.tell(MessagesUncertain(sender.face, uncertain, sender.loss))
        sender.connection.wake()

    def _resend(self, link: SenderLink, delivery: OutgoingDelivery) -> None:
        try:
            link.resend(delivery)
        except LocalProtocolError as error:
            if link.attached:  # the peer takes no message of that size any more, for one
                link.forget(delivery)
                self.lose(delivery, DeliveryUncertain(f"it cannot be sent again: {error}"))
            elif link.unsettled.get(delivery.tag) is not delivery:
                self._sender.pending.append(delivery)  # the link has ended again meanwhile, as will be told next

    def lose(self, delivery: OutgoingDelivery, error: AmqpError) -> None:
        """Record that the delivery's outcome will never be known."""
        delivery.remote_state = Unknown(error)  # type: ignore[assignment]
        self.unreported.add(delivery)
        if self._sender.last is delivery:
            self._sender.last = None
        self._sender.on_outcomes((delivery,))
