"""A client's transactions. The engine itself is the coordinator that AMQP 1.0 has links to (§4).

Until its discharge nothing of a transaction is written. Then all of it goes out on one channel, followed by tx.commit.
That channel is the one of the receiver whose deliveries are settled, for an ack belongs to the channel of its delivery;
without settlements it is one for transactions alone. A channel that was transactional once stays so; plain acks on it
are committed with each flush.

A message that no queue takes comes back before tx.commit-ok, and the rest is committed all the same. The answer to the
discharge then is `Returned`, with the reply code, for the transaction took effect in part.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

from ....engine import CreditChanged, Handlers, LinkAttached, LinkTerms, OutcomesReceived, OutgoingDelivery
from ....errors import AmqpError, LocalProtocolError
from ....messaging import (
    ACCEPTED,
    Coordinator,
    Declare,
    Declared,
    DeliveryState,
    Discharge,
    Error,
    Returned,
    TransactionalState,
)
from ..._kit.coordinators import LocalCoordinator, rejected
from ..channel import ChannelUser
from ..link import LinkEndpoint
from ..states import ChannelState, Step
from ..wire.methods import BasicReturn, ChannelOpenOk
from .returns import Returnable, outcome_of
from .transactional_channel import ROLLED_BACK, OnDischarged, TransactionalChannel

if TYPE_CHECKING:
    from ....engine import IncomingDelivery, SenderLink
    from .parents import ClientLinkSession, SessionCommits, TransactedReceiver, TransactedSender

CAPABILITIES = ("amqp:local-transactions", "amqp:multi-txns-per-ssn", "amqp:multi-ssns-per-txn")


class PendingTransaction:
    """The publishes and settlements of one transaction.

    Attributes:
        coordinator: the link that declared it.
        receiver: the link whose deliveries it settles; None as long as it settles nothing.
        returned: the error of each message that came back.
    """

    def __init__(self, coordinator: SenderLink) -> None:
        self.coordinator = coordinator
        self.publishes: list[tuple[TransactedSender, OutgoingDelivery]] = []
        self.returned: list[Error] = []
        self.settled: list[tuple[IncomingDelivery, DeliveryState | None]] = []
        self.receiver: TransactedReceiver | None = None

    @cached_property
    def _returnable(self) -> Returnable:
        """What may come back, which is complete: nothing comes back before the commit."""
        returnable = Returnable()
        for link, delivery in self.publishes:
            returnable.add(link, delivery)
        return returnable

    def on_return(self, method: BasicReturn, properties: bytes, body: bytes) -> None:
        """Record that a message of the transaction came back."""
        outcome = outcome_of(method)
        self.returned.append(outcome.error)  # type: ignore[union-attr,arg-type]
        found = self._returnable.find(method, properties, body)
        if found is not None:
            found.remote_state = TransactionalState(found.state.txn_id, outcome)  # type: ignore[union-attr]

    def gone(self) -> str | None:
        """Return which link's end keeps the transaction from its commit, and why; None if none does.

        Messages of a sender that this side closed are written all the same: on the channel of the commit.
        """
        for link, _ in self.publishes:
            if link.cause is not None:
                return f"the sender {link.name!r} is gone: {link.cause}"
        if self.receiver is not None and not self.receiver.attached:
            why = self.receiver.cause or "it was closed before the commit, and its deliveries went back with it"
            return f"the receiver {self.receiver.name!r} is gone: {why}"
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


class Transactions:
    """The transactions of one connection."""

    def __init__(self) -> None:
        self._open: dict[bytes, PendingTransaction] = {}
        self._number = 0

    def declare(self, coordinator: SenderLink) -> Declared:
        self._number += 1
        txn_id = self._number.to_bytes(8, "big")
        self._open[txn_id] = PendingTransaction(coordinator)
        return Declared(txn_id)

    def give_up(self, coordinator: SenderLink) -> None:
        """Roll back the open transactions of `coordinator`, whose link is gone."""
        for txn_id, work in list(self._open.items()):
            if work.coordinator is coordinator:
                del self._open[txn_id]
                work.roll_back()

    def publish(self, link: TransactedSender, delivery: OutgoingDelivery, state: DeliveryState) -> None:
        """Keep a message for the commit of its transaction. It counts as accepted, if the transaction is committed."""
        self._work(state).publishes.append((link, delivery))
        delivery.state = state
        delivery.on_wire = delivery.remote_settled = True
        delivery.remote_state = TransactionalState(state.txn_id, ACCEPTED)  # type: ignore[union-attr]

    def retire(self, link: TransactedReceiver, delivery: IncomingDelivery, state: TransactionalState) -> None:
        """Keep a settlement for the commit of its transaction."""
        work = self._work(state)
        if work.receiver not in (None, link):
            raise LocalProtocolError(
                "a transaction of AMQP 0-9-1 settles deliveries of only one receiver: use a transaction for each "
                "receiver"
            )
        work.receiver = link
        link.settled_by_owner(delivery, state)
        work.settled.append((delivery, state.outcome))

    def _work(self, state: DeliveryState) -> PendingTransaction:
        work = self._open.get(state.txn_id) if isinstance(state, TransactionalState) else None
        if work is None:
            raise LocalProtocolError("the transaction is not open")
        return work

    def discharge(self, session: ClientLinkSession, what: Discharge, done: OnDischarged) -> None:
        """End a transaction; call `done` when the peer has committed it, or with the reason why it has not."""
        work = self._open.pop(what.txn_id, None)
        if work is None:
            done(rejected("amqp:transaction:unknown-id", "the transaction is not open"))
        elif what.fail or not (work.publishes or work.settled):
            work.roll_back()
            done(ACCEPTED)
        elif (gone := work.gone()) is not None:
            work.roll_back()
            done(rejected(ROLLED_BACK, gone))
        elif work.receiver and any(work.receiver.has_back(delivery) for delivery, _ in work.settled):
            work.roll_back()
            done(rejected(ROLLED_BACK, "the peer has back what the transaction settles, by a recover"))
        else:
            self._commit(session, work, done)

    def _commit(self, session: ClientLinkSession, work: PendingTransaction, done: OnDischarged) -> None:
        try:  # encode all before writing any, for what is written would be committed with the next one
            channel = work.receiver.channel if work.receiver is not None else self._commit_channel(session)
            frames = [link.frames(delivery.payload, channel.number) for link, delivery in work.publishes]
        except LocalProtocolError as error:
            work.roll_back()
            done(rejected(ROLLED_BACK, str(error)))
            return
        if work.receiver is not None:
            work.receiver.flush_acks()
        channel.select()
        for each in frames:
            channel.write_frames(each)
        if work.receiver is not None:
            work.receiver.settle_all(work.settled)
        channel.commit(work, done)

    def _commit_channel(self, session: ClientLinkSession) -> TransactionalChannel:
        """Return the channel of the session's transactions that settle nothing.

        Raises:
            LocalProtocolError: it is not open, and all channels are in use.
        """
        commits: SessionCommits | None = session.commits
        if commits is None or commits.channel.state is not ChannelState.OPEN:
            commits = session.commits = CommitChannel(session)
        return commits.channel


class CommitChannel(ChannelUser):
    """What has the channel of the transactions that settle nothing."""

    handlers: ClassVar[Handlers] = {ChannelOpenOk: "receive_open"}

    def __init__(self, session: ClientLinkSession) -> None:
        self.session = session
        self.channel: TransactionalChannel = session.open_channel(TransactionalChannel, self)

    def receive_open(self, _: ChannelOpenOk) -> None:
        pass

    def closed(self, error: Error | None) -> None:
        self.session.channel_gone(self.channel)

    def over(self, error: AmqpError | None) -> None:
        pass  # the end of the coordinator's link tells that the answer is unknown


class ClientCoordinator(LinkEndpoint, LocalCoordinator):
    """The link to the coordinator, which this side is itself. See `SenderLink` for the contract."""

    session: ClientLinkSession

    def __init__(self, session: ClientLinkSession, terms: LinkTerms) -> None:
        self.session = session
        self._name = terms.name
        self.terms: LinkTerms = terms
        self.remote: LinkTerms | None = LinkTerms(
            terms.name, terms.source, Coordinator(CAPABILITIES), settle_mode=terms.settle_mode
        )
        self.advance(Step.ATTACH)
        self.credit = 1000
        self.unsettled: dict[bytes, OutgoingDelivery] = {}
        self.frame_room: int = session.engine.max_payload
        session.engine.emit(LinkAttached(self))
        session.engine.emit(CreditChanged(self))

    def declare(self, delivery: OutgoingDelivery, request: Declare) -> None:
        self.answer(delivery, self.session.connection.transactions.declare(self))

    def discharge(self, delivery: OutgoingDelivery, request: Discharge) -> None:
        transactions = self.session.connection.transactions
        transactions.discharge(self.session, request, lambda state: self.answer(delivery, state))

    def answer(self, delivery: OutgoingDelivery, state: DeliveryState) -> None:
        if not self.ended:
            super().answer(delivery, state)

    def report(self, delivery: OutgoingDelivery) -> None:
        self.session.engine.emit(OutcomesReceived(self, [delivery]))

    def detach(self, *, closed: bool = True, error: Error | None = None) -> None:
        self.end(True, None)

    def over(self, error: AmqpError | None) -> None:
        """End the link, because its session or the connection is over."""
        self.end(False, error)

    def end(self, closed: bool, cause: AmqpError | None) -> None:
        if not self.ended:
            self.session.connection.transactions.give_up(self)
            self.session.coordinators.remove(self)
        super().end(closed, cause)
