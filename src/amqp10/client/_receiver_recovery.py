"""What becomes of deliveries and credit when a receiver's link is lost: resumed, handed out, or stale (§2.6.13)."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

import anyio

from ..engine import LinkTerms
from ..errors import AmqpError, LocalProtocolError, StaleDelivery
from ..messaging import TransactionalState
from ..types import encode
from ._delivery import Delivery, Stale, is_stale
from ._receiver_credit import CreditingReceiver

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ..engine import IncomingDelivery
    from ..messaging import DeliveryState
    from ._connection import Connection
    from ._session import Session


class RecoveringReceiver(CreditingReceiver):
    """The part of a receiver that outlives its link."""

    def __init__(self, connection: Connection, session: Session | None, terms: LinkTerms, credit: int) -> None:
        super().__init__(connection, session, terms, credit)
        self._collected: list[Any] = []  # what `receive_batch` has taken aside
        self._waiter: anyio.Event | None = None  # also the mark that a task is in receive
        self._parts: list[Any] = []  # of the link that was lost: what the next may still have the rest of
        # Of the link that was lost: those of its deliveries that nobody took.
        self._hidden: dict[Any, None] = {}
        # Of the link that is restored: those that are resumed, which take the credit that they had before.
        self._again: set[Any] = set()

    @abstractmethod
    def _examine(self) -> AmqpError | None:
        """What the peer's answer lacks."""

    @abstractmethod
    def _arrived(self) -> None:
        """Something is there to be taken."""

    def _on_settlements(self, deliveries: Sequence[IncomingDelivery]) -> None:
        if self._remembered is not None:
            self._remembered.settled(deliveries)
        wasted = sum(map(self._to_come, self._again.intersection(deliveries))) if self._again else 0
        for delivery in deliveries:
            if delivery.waiter is not None:
                delivery.waiter.set()
            self._hidden.pop(delivery, None)  # nobody has seen it, and the sender is done with it
        if self._again or self._spent_again:
            self._resumed(deliveries)
        if wasted:  # it resumed them only to be done with them
            self._grant_again(wasted)
        if self._change is not None:
            self._changed()

    def _recalled(self) -> list[Delivery]:
        assert self._remembered is not None
        return self._remembered.received()

    def _interrupt(self, error: AmqpError | None) -> None:
        link, incoming = self._link, self._incoming
        assert link is not None
        if not self._drain_running:
            # But for what deliveries that were to be resumed would have used: they ask for it again.
            waiting = len(self._spent_again) + sum(map(self._to_come, self._again))
            self._granted += max(0, link.credit - waiting)
        # What was sent settled is ours. The rest is handed out when the peer has resumed it, else it comes again.
        known = set(map(id, self._pending))
        self._pending += [delivery for delivery in link.suspended() if id(delivery) not in known]
        self._parts = [each for each in self._pending if link.keeps_parts and getattr(each, "stream", None) is not None]
        resumable = set(map(id, self._pending))
        here = [*self._collected, *incoming]
        away = [delivery for delivery in here if not delivery.local_settled]
        self._hidden.update((delivery, None) for delivery in away if id(delivery) in resumable)
        self._granted += len([delivery for delivery in away if id(delivery) not in resumable])
        kept = [delivery for delivery in here if delivery.local_settled]
        self._collected.clear()
        incoming.clear()
        incoming.extend(kept)
        self._flow_properties = None
        self._drained = True  # there is no credit any more
        super()._interrupt(error)
        # Part of a transaction: their sender gives them to somebody else.
        self._give_up([delivery for delivery in link.unsettled.values() if id(delivery) not in resumable])
        if not self._may_resume:
            self._resume_none()
        if self._acquirer is not None:
            self._granted = 0  # it was credit of a transaction that can only be rolled back
            if self._waiter is not None:
                self._waiter.set()
        if self._closed and not self._owing():
            self._end_for_good(error)

    def _resume_none(self) -> None:
        """What nobody took comes again, on a credit of its own."""
        pending = self._take_pending()
        self._granted += sum(map(self._to_come, pending))
        self._give_up(pending)

    def _end_for_good(self, error: AmqpError | None) -> None:
        super()._end_for_good(error)
        self._hidden.clear()
        self._pending.clear()

    def _on_restored(self) -> None:
        unfit = self._examine()
        if unfit is not None:  # another host perhaps, which has no such filter
            self._detach(closed=not self._lasting())
            self._end_for_good(unfit)
            return
        link = self._link
        assert link is not None
        if not link.attached:
            return  # and detached again, which is told next
        theirs = self.remote.unsettled if self._resuming else None
        if theirs is None:
            self._resume_none()
        else:
            self._resume_some(theirs)
        self._note_resumed()
        granted, self._granted = self._granted, 0
        if self._closed:  # only what was given an outcome is still to be settled
            granted = 0
        if self._automatic and not self._closed:
            self._taken = self._automatic + len(self._spent_again)
            self._refill()
        elif granted or self._spent_again:
            link.flow(granted + len(self._spent_again))
            self._wake()

    def _resume_some(self, theirs: Mapping[bytes, object]) -> None:
        """What nobody took, and the peer does not have any more, leaves its credit to another."""
        pending = self._take_pending()  # the link's now
        if not self.remote.incomplete_unsettled:
            self._granted += sum(delivery.tag not in theirs and self._to_come(delivery) for delivery in pending)

    def _note_resumed(self) -> None:
        """See which deliveries will take a credit again although they were handed out before."""
        link, theirs = self._link, self.remote.unsettled if self._resuming else None
        assert link is not None
        again = {delivery for tag, delivery in link.unsettled.items() if theirs and tag in theirs}
        self._again = {delivery for delivery in again if self._to_come(delivery)}
        self._spent_again = again - self._again
        if not self._automatic:
            self._granted += len(self._again)

    def _resumed(self, deliveries: Iterable[IncomingDelivery]) -> None:
        """These have taken their credit, or need none any more."""
        self._again.difference_update(deliveries)
        self._spent_again.difference_update(deliveries)

    def _to_come(self, delivery: IncomingDelivery) -> bool:
        """Whether it is still to be handed out when it is resumed: then it uses the credit that it has used before."""
        cut_off = self._link is not None and not self._link.streaming and getattr(delivery, "stream", None) is not None
        return cut_off or delivery in self._hidden

    def _on_unresumed(self, deliveries: Iterable[IncomingDelivery]) -> None:
        """The peer does not have these any more, or not for this link."""
        hidden = len(self._hidden)
        self._give_up(deliveries)
        dropped = hidden - len(self._hidden)
        if dropped and not self._automatic and self._link is not None and self.open:
            if self._link.attached:
                self._flow(self._link.credit + dropped)
            else:
                self._granted += dropped

    def _on_resumed(self, deliveries: Iterable[Any]) -> None:
        """These live on; those that nobody took are handed out now."""
        deliveries = list(deliveries)
        for delivery in deliveries:
            delivery._told()  # what was to be said of it until now
        back = [delivery for delivery in deliveries if delivery in self._hidden]
        for delivery in back:
            del self._hidden[delivery]
        self._resumed(deliveries)
        for delivery in back:
            self._insert(delivery)
        if back:
            self._arrived()

    def _insert(self, delivery: Any) -> None:
        """Among what waits, before the newer ones that came in the same pass."""
        incoming, newer = self._incoming, []
        delivery.link.bring(delivery.link.waiting)
        while incoming and incoming[-1].link is delivery.link and follows(incoming[-1], delivery):
            newer.append(incoming.pop())
        incoming.append(delivery)
        incoming.extend(reversed(newer))

    def _give_up(self, deliveries: Iterable[Any]) -> None:
        """Nothing can be told of these any more."""
        deliveries = list(deliveries)
        self._resumed(deliveries)
        if self._remembered is not None:
            self._remembered.given_up(deliveries)
        stale = Stale(self)
        for delivery in deliveries:
            self._hidden.pop(delivery, None)
            delivery.link = stale
            if delivery.waiter is not None:
                delivery.waiter.set()

    def _stale(self) -> StaleDelivery:
        error = StaleDelivery("the link that the delivery came on was lost since: the peer delivers the message again")
        error.__cause__ = self._loss
        return error

    def _settle_after_loss(self, delivery: Delivery, state: DeliveryState, error: LocalProtocolError) -> None:
        """The engine has no link to say it on."""
        if is_stale(delivery):
            recovery = self.connection._recovery
            # What is one of a whole cannot be left out of it.
            whole = isinstance(state, TransactionalState)
            if whole or recovery is None or recovery.settings.on_stale == "raise":
                raise self._stale() from None
        elif self._interrupted and not self._closed and not isinstance(state, TransactionalState):
            encode(state)  # what cannot be told is refused here, and does not fail the attach
            delivery.state = state  # the attach tells it
        elif self.open:
            raise error
        else:
            raise self._gone() from None

    def _owing(self) -> bool:
        """Outcomes that were given are told when the link is resumed; what nobody took the peer has back anyway."""
        return self._may_resume and has_outcome(self._pending)


def follows(one: IncomingDelivery, other: IncomingDelivery) -> bool:
    """Whether its delivery-id is later in serial arithmetic (§2.8.8)."""
    assert one.delivery_id is not None
    assert other.delivery_id is not None
    return 0 < (one.delivery_id - other.delivery_id) % (1 << 32) < 1 << 31


def has_outcome(deliveries: Iterable[IncomingDelivery]) -> bool:
    """Whether one of these was given an outcome, outside of a transaction."""
    return any(each.state is not None and not isinstance(each.state, TransactionalState) for each in deliveries)
