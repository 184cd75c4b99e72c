"""The core of a receiver: its link, the deliveries on it, and the end of the link.

Receiver ─── ReceiverCore ─┬─ Consumer             the task that receives, and what waits for it
                           ├─ Credit               what the peer may send
                           └─ ReceiverResumption   made when first needed
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from ...engine import LinkTerms, ReceiverLink
from ...errors import AmqpError, FilterNotApplied, LocalProtocolError, StaleDelivery, Unsupported
from ...messaging import (
    RELEASED,
    TXN_ID,
    DeliveryState,
    Message,
    TransactionalState,
    only_for_streams,
    outlives_link,
    unapplied_filters,
)
from ...types import Symbol, encode
from .._core.transaction_work import AcquiringReceiver, TransactionCore
from .._links.core import ClientLink
from .._links.events import ReceiverActivity
from .consumer import YIELD_AFTER_MESSAGES, Consumer
from .credit import Credit, checked_credit
from .delivery import (
    AcquiredDelivery,
    NotAcceptedDelivery,
    ReceiverDelivery,
    is_stale,
    is_taken_back,
    listed,
    takes_accepted,
    wake_waiter,
)
from .resumption import ReceiverResumption, has_outcome

if TYPE_CHECKING:
    from ...engine import IncomingDelivery
    from .._core.connection import ConnectionCore, SessionCore

# The link property by which a receiver asks to be the only one, and a broker that has that says that it is.
EXCLUSIVE = Symbol("exclusive")
# The property of its flows by which RabbitMQ says whether the receiver is the single active consumer.
ACTIVE = Symbol("rabbitmq:active")


Processing = Callable[[Sequence[Message]], AbstractContextManager[object]]
"""Makes a block around the handling of deliveries."""


class ReceiverCore(ClientLink, AcquiringReceiver):
    """The core of a receiver.

    Attributes:
        delivery_type: the class of its deliveries.
        derive: what telemetry makes of a class of deliveries.
        processing: what telemetry has around the handling of messages.
        link: the engine's link; None before it is attached.
        consumer: the state of the task that receives.
        credit: what the peer may send.
        resumption: handles the deliveries of lost links; None before the first loss.
        acquirer: the transaction in which messages are acquired.
        unfit: the error for what the peer's answer lacks; None if it lacks nothing.
        active: whether it is the single active consumer, as the peer says; None: it does not say.
    """

    delivery_type: type[ReceiverDelivery] = ReceiverDelivery
    derive: Callable[[type[ReceiverDelivery]], type[ReceiverDelivery]] | None = None
    processing: Processing | None = None
    pending: list[Any]

    def __init__(
        self,
        connection: ConnectionCore,
        session: SessionCore | None,
        terms: LinkTerms,
        credit: int,
        *,
        require_filters: bool = True,
    ) -> None:
        super().__init__("receiver", connection, session, terms)
        self.link: ReceiverLink | None = None
        self.credit: Credit = Credit(self, checked_credit(credit))
        self.consumer: Consumer = Consumer(self, max(1, credit // 2) if credit else 0xFFFF_FFFF)
        self.resumption: ReceiverResumption | None = None
        self.acquirer: TransactionCore | None = None
        self.unfit: AmqpError | None = None
        self.active: bool | None = None
        self._require_filters = require_filters

    @property
    def engine_link(self) -> ReceiverLink | None:
        return self.link

    @property
    def unsettled(self) -> int:
        return len(self.link.unsettled) if self.link is not None else 0

    @property
    def buffered(self) -> int:
        """How many deliveries are here and wait to be received."""
        return len(self.consumer.incoming) + (self.link.unmaterialized if self.link is not None else 0)

    @property
    def address(self) -> str | None:
        """The address of the peer's source."""
        source = self.remote.source
        return None if source is None else source.address

    # Attaching

    def require_capabilities(self) -> None:
        source = self.terms.source
        if source is not None and source.dynamic:
            self.require("dynamic", "dynamic nodes")
        if source is not None and source.filter:
            self.require("stream-filters" if only_for_streams(source.filter) else "filters", "filters")
        if source is not None and source.distribution_mode == "copy":
            self.require("browse", "browsing")
        if outlives_link(source):
            self.require("durable-subscriptions", "sources that outlive their links")
        if self.terms.receiver_settle_mode == "second":
            self.require("settle-second", "receiver settle mode 'second'")

    def attach_to(self, session: SessionCore) -> ReceiverLink:
        parts = self.resumption.parts if self.resumption is not None else []
        resuming = self.pending if self.resuming else parts or None
        self.link = link = session.in_engine.attach_receiver(self.terms, resuming=resuming)
        if self.resuming and not self.ever_attached:
            self.pending = []  # the link's now
        self._set_delivery_type(link, self.delivery_type)
        self.use_transport()
        link.refills = self.credit.automatic > 0
        link.lazy = True
        # The same at every attachment: `receive` holds on to it.
        link.incoming = self.consumer.incoming
        return link

    def _set_delivery_type(self, link: ReceiverLink, kind: type[ReceiverDelivery]) -> None:
        link.delivery_type = kind if self.derive is None else self.derive(kind)

    def on_attached(self) -> None:
        first = not self.ever_attached
        super().on_attached()
        link = self.link
        unchecked = link is not None and self.delivery_type is ReceiverDelivery
        if link is not None and unchecked and not takes_accepted(link.remote, self.connection.profile):
            self._set_delivery_type(link, NotAcceptedDelivery)
        if self.open and first:
            self.unfit = self.examine()
            if self.credit.automatic and self.unfit is None:
                if self.resumption is not None:
                    self.resumption.note_resumed()
                self.credit.grant_anew()

    def examine(self) -> AmqpError | None:
        """Return what the peer's answer lacks, for which the link is given up before any credit is granted."""
        requested, answered = self.terms.source, self.remote.source
        if self._require_filters and requested is not None and requested.filter:
            unapplied = unapplied_filters(requested.filter, answered.filter if answered is not None else None)
            if unapplied:
                names = ", ".join(str(name) for name in unapplied)
                return FilterNotApplied(f"the peer does not apply the filters asked for: {names}", unapplied)
        if self.terms.properties.get(EXCLUSIVE) and not self.remote.properties.get(EXCLUSIVE):
            advice = self.connection.profile.hints.get("no exclusive", "it did not confirm the property 'exclusive'")
            return Unsupported(f"the peer does not let a consumer ask to be exclusive: {advice}")
        return None

    # Credit

    def add_credit(self, credit: int, transaction: TransactionCore | None) -> None:
        """Let the peer send more; see `Receiver.add_credit`."""
        link = self.link
        if link is None or not (self.open or self.interrupted) or self.closed:
            raise self.gone()
        if self.credit.automatic:
            raise LocalProtocolError("the credit of this receiver is automatic; manual credit needs credit=0")
        if self.interrupted and transaction is None:
            self.credit.granted += credit
            return
        if transaction is not self.acquirer:
            self._acquire_in(link, transaction)
        self.credit.flow(link.credit + credit)

    def on_flow(self, drained: bool, wasted: int) -> None:
        self.credit.flow_received(drained, wasted)
        if self.link is not None and self.link.properties:
            active = self.link.properties.get(ACTIVE, self.active)
            if active != self.active:
                self.active = active
                self.connection.observers.tell(ReceiverActivity(self.face, active))

    @property
    def peers_credit(self) -> int:
        """How many deliveries the peer may still send."""
        return self.credit.left

    @property
    def without_credit(self) -> bool:
        """Whether no delivery can arrive before the user adds credit."""
        return not (self.credit.automatic or self.credit.left or self.credit.granted)

    @property
    def taking_again(self) -> int:
        """How many deliveries take a second credit, because they were handed out before and will be resumed."""
        return len(self.resumption.consumed) if self.resumption is not None else 0

    @property
    def undelivered(self) -> Collection[IncomingDelivery]:
        """The deliveries of the lost link that were not received yet."""
        return self.resumption.undelivered if self.resumption is not None else ()

    # Acquiring in a transaction (§4.4.3)

    def _acquire_in(self, link: ReceiverLink, transaction: TransactionCore | None) -> None:
        if transaction is None or self.acquirer is not None:
            raise LocalProtocolError(
                "the receiver acquires in a transaction, and all its credit belongs to that until it ends"
            )
        if link.streaming:
            raise Unsupported("a streaming receiver cannot acquire in a transaction")
        self.credit.flow_properties = {TXN_ID: transaction.acquire(self)}
        self.acquirer = transaction
        self._set_delivery_type(link, AcquiredDelivery)

    async def stop_acquiring(self) -> None:
        if self.credit.drain_running:
            await self.credit.drain_ended()
        elif self.open:
            await self.credit.take_back()

    def acquired_in(self, transaction: TransactionCore) -> None:
        link = self.link
        assert link is not None
        self.acquirer = None
        # Most peers forget the id when the transaction ends. Some do not, so the next flow sends a null id.
        self.credit.flow_properties = {TXN_ID: None}
        if transaction.state != "rolled-back":
            return
        state = TransactionalState(transaction.posted.txn_id)

        def acquired(delivery: IncomingDelivery) -> bool:
            theirs = delivery.remote_state
            return isinstance(theirs, TransactionalState) and theirs.txn_id == state.txn_id

        unsettled = list(link.unsettled.values())  # which brings what waits
        incoming = self.consumer.incoming
        kept = [delivery for delivery in incoming if not acquired(delivery)]
        incoming.clear()
        incoming.extend(kept)
        if not self.over and link.attached:
            for delivery in filter(acquired, unsettled):
                link.settle(delivery, None, settled=True)
            self.wake()

    # What comes

    def take_at_once(self) -> ReceiverDelivery | None:
        """Return a buffered delivery; None without one, or if other tasks should run first."""
        consumer = self.consumer
        incoming = consumer.incoming
        if not incoming:
            consumer.fill(YIELD_AFTER_MESSAGES)
        if not consumer.turn or not incoming:
            consumer.turn = YIELD_AFTER_MESSAGES
            return None
        consumer.turn -= 1
        delivery: ReceiverDelivery = incoming.popleft()
        consumer.taken += 1
        if consumer.taken >= consumer.refill_at:
            self.credit.refill()
        return delivery

    def expect_arrival(self) -> None:
        """Top up the credit, or raise the reason why no delivery can come."""
        if not self.open and (self.closed or not self.interrupted):
            raise self.gone()
        if self.acquirer is not None:
            self.acquirer.check_acquiring(self)
        if self.credit.automatic and self.credit.left <= 0 and self.consumer.taken:
            self.credit.refill()  # after a drain, for one: whoever waits here wants more

    def on_deliveries(self) -> None:
        """Hand out what the engine has put in the deque."""
        self._hand_out()

    def _hand_out(self) -> None:
        """Wake the task that receives; on a closed receiver, release the deliveries."""
        if self.closed:
            self.release_buffered()
        elif self.consumer.waiter is not None:
            self.consumer.waiter.set()

    def on_settlements(self, deliveries: Sequence[IncomingDelivery]) -> None:
        if self.store is not None:
            self.store.settled(deliveries)
        for delivery in deliveries:
            wake_waiter(delivery)
        if self.resumption is not None:
            wasted = self.resumption.settled(deliveries)
            if wasted:  # it resumed them only to be done with them
                self.credit.grant_again(wasted)
        if self.change is not None:
            self.changed()

    # After a loss

    def _resumption(self) -> ReceiverResumption:
        """Return what looks after deliveries of links that were lost; it is made now if need be."""
        if self.resumption is None:
            self.resumption = ReceiverResumption(self)
        return self.resumption

    def recalled(self) -> list[ReceiverDelivery]:
        assert self.store is not None
        return self._resumption().recall(self.store)

    def interrupt(self, error: AmqpError | None) -> None:
        resumption = self._resumption()
        lost = resumption.interrupted()
        self.credit.link_lost()
        super().interrupt(error)
        self.drop(lost)  # part of a transaction: their sender gives them to somebody else
        if not self.may_resume:
            resumption.resume_none()
        if self.acquirer is not None:
            self.credit.granted = 0  # it was credit of a transaction that can only be rolled back
            self.consumer.wake_waiting()
        if self.closed and not self.has_unfinished_work():
            self.end_for_good(error)

    def go_on(self) -> None:
        unfit = self.examine()
        if unfit is not None:  # another host perhaps, which has no such filter
            self.detach(closed=not self.outlives_link())
            self.end_for_good(unfit)
            return
        link, credit = self.link, self.credit
        assert link is not None
        if not link.attached:
            return  # and detached again, which is told next
        self._resumption().attached()
        granted, credit.granted = credit.granted, 0
        if self.closed:  # only what was given an outcome is still to be settled
            granted = 0
        if credit.automatic and not self.closed:
            credit.grant_anew()
        elif granted or self.taking_again:
            link.flow(granted + self.taking_again)
            self.wake()

    def on_resumed(self, deliveries: Sequence[Any]) -> None:
        """Continue with resumed deliveries, and hand out those that were not received yet."""
        if self._resumption().resumed(deliveries):
            self._hand_out()

    def on_unresumed(self, deliveries: Sequence[Any]) -> None:
        """Make deliveries stale that the peer no longer has, or no longer for this link."""
        self.credit.grant_again(self.consumer.withdraw(deliveries))
        before = len(self.undelivered)
        self.drop(deliveries)
        dropped = before - len(self.undelivered)
        if dropped and not self.credit.automatic and self.link is not None and self.open:
            if self.link.attached:
                self.credit.flow(self.link.credit + dropped)
            else:
                self.credit.granted += dropped

    def is_untaken(self, delivery: IncomingDelivery) -> bool:
        """Return whether this delivery of a lost link was not received yet."""
        return self.resumption is not None and self.resumption.is_untaken(delivery)

    def drop(self, deliveries: Sequence[Any]) -> None:
        """Make deliveries stale, as their outcomes can no longer be sent."""
        self._resumption().drop(deliveries)

    def stale(self, delivery: IncomingDelivery) -> StaleDelivery:
        """Return the error for a delivery that the peer took back, or did not resume."""
        if is_taken_back(delivery):
            return StaleDelivery(
                "the peer took the delivery back, as brokers do when its outcome takes too long, and delivers the "
                "message again: settle sooner, or raise the broker's consumer timeout"
            )
        error = StaleDelivery(
            "the link on which the delivery arrived has been lost: the peer delivers the message again"
        )
        error.__cause__ = self.loss
        return error

    def settle_after_loss(self, delivery: ReceiverDelivery, state: DeliveryState, error: LocalProtocolError) -> None:
        """Keep an outcome for the next attach, as the engine has no link to write it on."""
        if is_stale(delivery):
            recovery = self.connection.recovery
            # A transaction is all or nothing: none of its outcomes may be dropped in silence.
            whole = isinstance(state, TransactionalState)
            if whole or recovery is None or recovery.settings.on_stale == "raise":
                raise self.stale(delivery) from None
        elif self.interrupted and not self.closed and not isinstance(state, TransactionalState):
            encode(state)  # what cannot be told is refused here, and does not fail the attach
            delivery.state = state  # the attach tells it
        elif self.open:
            raise error
        else:
            raise self.gone() from None

    # Closing

    def end_for_good(self, error: AmqpError | None) -> None:
        super().end_for_good(error)
        if self.resumption is not None:
            self.resumption.over()

    def wake_all(self) -> None:
        self.consumer.wake_waiting()
        link = self.link
        if link is not None and (self.over or self.closed):
            for delivery in link.unsettled.values():
                wake_waiter(delivery)

    def has_unfinished_work(self) -> bool:
        """Return whether outcomes wait to be sent once the link is resumed."""
        return self.may_resume and has_outcome(self.pending)

    async def drain_work(self) -> None:
        await self.until(lambda: self.over or not self.interrupted)
        self.release_buffered()
        capabilities = self.connection.capabilities
        # Where detaching gives back whatever was sent, nothing has to be fetched for that.
        if "drain" in capabilities and "detach-releases" not in capabilities and not self.credit.drain_running:
            await self.credit.take_back()
        if self.terms.receiver_settle_mode == self.remote.receiver_settle_mode == "second":
            await self.until(lambda: self.over or not self._half_settled())

    def _half_settled(self) -> bool:
        """Return whether the sender has still to settle a delivery that was given an outcome here (§2.6.12)."""
        return self.link is not None and has_outcome(self.link.unsettled.values())

    def before_detach(self) -> None:
        self.release_buffered()
        link = self.link
        if link is not None and link.attached:
            for delivery in list(link.unsettled.values()):
                if isinstance(delivery.state, TransactionalState):
                    # The outcome outlives the link, but at Broker-J only when it is settled.
                    link.settle(delivery, delivery.state, settled=True)
                    self.wake()

    def release_buffered(self) -> None:
        """Release what was not received; settled even in mode "second", as this link gets no answer any more."""
        consumer, link = self.consumer, self.link
        consumer.fill(self.buffered)
        while consumer.incoming:
            delivery = consumer.incoming.popleft()
            if link is not None and link.attached and not delivery.local_settled:
                acquirer, source = self.acquirer, link.remote.source if link.remote is not None else None
                released = listed(RELEASED, source) if acquirer is None else acquirer.released_state
                if released is not None:  # else it goes back with the link
                    link.settle(delivery, released, settled=True)
                    self.wake()
