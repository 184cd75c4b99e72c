"""What becomes of deliveries and credit when a receiver's link is lost: resumed, handed out, or stale (§2.6.13)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from ...messaging import TransactionalState
from .._links.events import DeliveriesStale
from .delivery import ReceiverDelivery, Stale, is_taken_back, wake_if_settled, wake_waiter

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ...engine import IncomingDelivery, LinkTerms, ReceiverLink
    from ...errors import AmqpError
    from .._core.connection import ConnectionCore
    from .._links.link import Link
    from .._stores.link_store import LinkStore
    from .consumer import Consumer
    from .credit import Credit


class ResumableReceiver(Protocol):
    """A receiver's core, as its resumption knows it; see `ReceiverCore`."""

    connection: ConnectionCore
    face: Link
    link: ReceiverLink | None
    consumer: Consumer
    credit: Credit
    store: LinkStore | None
    pending: list[Any]
    loss: AmqpError | None
    closed: bool
    resuming: bool

    @property
    def remote(self) -> LinkTerms: ...

    def take_pending(self) -> list[Any]: ...

    def is_untaken(self, delivery: IncomingDelivery) -> bool: ...

    def drop(self, deliveries: Sequence[Any]) -> None: ...


class ReceiverResumption:
    """The deliveries of a receiver whose link was lost; made when first needed: at a loss, or by a store.

    Attributes:
        parts: of the link that was lost: deliveries whose rest may come on the next link.
        undelivered: of the link that was lost: deliveries that nobody took.
        unconsumed: of the link that is restored: deliveries that are resumed, with the credit that they had before.
        consumed: of the link that is restored: deliveries that are resumed, and take a second credit, for they were
            handed out before.
    """

    __slots__ = ("_receiver", "consumed", "parts", "unconsumed", "undelivered")

    def __init__(self, receiver: ResumableReceiver) -> None:
        self._receiver = receiver
        self.parts: list[Any] = []
        self.undelivered: dict[Any, None] = {}
        self.unconsumed: set[Any] = set()
        self.consumed: set[Any] = set()

    def recall(self, store: LinkStore) -> list[ReceiverDelivery]:
        """Return what an earlier connection left in the store."""
        unbound: Any = None  # to a link, until it is attached
        deliveries = []
        for each in store.load():  # it is not known whether the sender has the outcome
            delivery = ReceiverDelivery(unbound, unbound, each.tag, b"", False)
            delivery.state = each.outcome
            deliveries.append(delivery)
        return deliveries

    # The link is lost

    def interrupted(self) -> list[Any]:
        """Take over what the lost link had unsettled; return the deliveries that cannot be resumed."""
        receiver = self._receiver
        link, credit, consumer = receiver.link, receiver.credit, receiver.consumer
        assert link is not None
        if not credit.drain_running:
            # But for what deliveries that were to be resumed would have used: they ask for it again.
            waiting = len(self.consumed) + sum(map(receiver.is_untaken, self.unconsumed))
            credit.granted += max(0, link.credit - waiting)
        # What was sent settled is ours. The rest is handed out when the peer has resumed it, else it comes again.
        known = set(map(id, receiver.pending))
        receiver.pending += [delivery for delivery in link.suspended() if id(delivery) not in known]
        cut_off = [each for each in receiver.pending if getattr(each, "stream", None) is not None]
        self.parts = cut_off if link.keeps_parts else []
        resumable = set(map(id, receiver.pending))
        here = [*consumer.collected, *consumer.incoming]
        away = [delivery for delivery in here if not delivery.local_settled]
        self.undelivered.update((delivery, None) for delivery in away if id(delivery) in resumable)
        credit.granted += len([delivery for delivery in away if id(delivery) not in resumable])
        kept = [delivery for delivery in here if delivery.local_settled]
        consumer.collected.clear()
        consumer.incoming.clear()
        consumer.incoming.extend(kept)
        return [delivery for delivery in link.unsettled.values() if id(delivery) not in resumable]

    def over(self) -> None:
        """Forget all, and say what comes again: the link does not come back, nor can outcomes be told any more."""
        receiver = self._receiver
        pending = receiver.pending
        if pending and (not receiver.closed or has_outcome(pending)):
            receiver.connection.observers.tell(DeliveriesStale(receiver.face, len(pending), receiver.loss))
        self.undelivered.clear()
        pending.clear()

    # The link is attached again

    def attached(self) -> None:
        """Sort the deliveries by what the peer says of them, and count the credit that is to be granted again."""
        theirs = self._receiver.remote.unsettled if self._receiver.resuming else None
        if theirs is None:
            self.resume_none()
        else:
            self._resume_some(theirs)
        self.note_resumed()

    def resume_none(self) -> None:
        """Grant credit for the deliveries that nobody took: they come again."""
        pending = self._receiver.take_pending()
        self._receiver.credit.granted += sum(map(self._receiver.is_untaken, pending))
        self._receiver.drop(pending)

    def _resume_some(self, theirs: Mapping[bytes, object]) -> None:
        """Give the credit of deliveries that nobody took, and that the peer no longer has, to others."""
        receiver = self._receiver
        pending = receiver.take_pending()  # the link's now
        if not receiver.remote.incomplete_unsettled:
            gone = [delivery for delivery in pending if delivery.tag not in theirs]
            receiver.credit.granted += sum(map(receiver.is_untaken, gone))

    def note_resumed(self) -> None:
        """See which deliveries will take a credit again although they were handed out before."""
        receiver = self._receiver
        link, theirs = receiver.link, receiver.remote.unsettled if receiver.resuming else None
        assert link is not None
        again = {delivery for tag, delivery in link.unsettled.items() if theirs and tag in theirs}
        self.unconsumed = {delivery for delivery in again if receiver.is_untaken(delivery)}
        self.consumed = again - self.unconsumed
        if not receiver.credit.automatic:
            receiver.credit.granted += len(self.unconsumed)

    def is_untaken(self, delivery: IncomingDelivery) -> bool:
        """Return whether the user has not seen this delivery yet: resuming it consumes no additional credit then."""
        link = self._receiver.link
        cut_off = link is not None and not link.streaming and getattr(delivery, "stream", None) is not None
        return cut_off or delivery in self.undelivered

    # What the peer says of single deliveries

    def settled(self, deliveries: Sequence[IncomingDelivery]) -> int:
        """Forget these, with which the sender is done; return how many of them were resumed for that alone."""
        wasted = sum(map(self._receiver.is_untaken, self.unconsumed.intersection(deliveries)))
        for delivery in deliveries:
            self.undelivered.pop(delivery, None)  # nobody has seen it
        self._credit_used(deliveries)
        return wasted

    def resumed(self, deliveries: Sequence[Any]) -> bool:
        """Go on with these, which live on; return whether some of them wait to be taken now."""
        for delivery in deliveries:
            wake_if_settled(delivery)  # what was to be said of it until now
        back = [delivery for delivery in deliveries if delivery in self.undelivered]
        for delivery in back:
            del self.undelivered[delivery]
        self._credit_used(deliveries)
        for delivery in back:
            self._receiver.consumer.insert(delivery)
        return bool(back)

    def drop(self, deliveries: Sequence[Any]) -> None:
        """Make these stale: no outcome of them can be written."""
        receiver = self._receiver
        self._credit_used(deliveries)
        if receiver.store is not None:
            receiver.store.given_up(deliveries)
        if deliveries and not receiver.closed:
            cause = None if any(map(is_taken_back, deliveries)) else receiver.loss
            receiver.connection.observers.tell(DeliveriesStale(receiver.face, len(deliveries), cause))
        stale = Stale(receiver)
        for delivery in deliveries:
            self.undelivered.pop(delivery, None)
            delivery.link = stale
            wake_waiter(delivery)

    def _credit_used(self, deliveries: Iterable[IncomingDelivery]) -> None:
        """Record that these have used their credit, or need none now."""
        self.unconsumed.difference_update(deliveries)
        self.consumed.difference_update(deliveries)


def has_outcome(deliveries: Iterable[IncomingDelivery]) -> bool:
    """Return whether one of these was given an outcome outside of a transaction."""
    return any(each.state is not None and not isinstance(each.state, TransactionalState) for each in deliveries)
