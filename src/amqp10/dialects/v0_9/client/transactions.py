"""A client's transactions. The engine itself is the coordinator that AMQP 1.0 has links to (§4).

Until its discharge nothing of a transaction is written. Then all of it goes out on one channel, followed by tx.commit.
That channel is the one of the receiver whose deliveries are settled, for an ack belongs to the channel of its delivery;
without settlements it is one for transactions alone. A channel that was transactional once stays so; plain acks on it
are committed with each flush.

A message that no queue takes comes back before tx.commit-ok, and the rest is committed all the same. The answer to the
discharge then is `Returned`, with the reply code, for the transaction took effect in part.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from ....engine import CreditChanged, Handlers, LinkAttached, LinkTerms, OutcomesReceived, OutgoingDelivery
from ....errors import AmqpError, LocalProtocolError
from ....messaging import ACCEPTED, Coordinator, DeliveryState, Error
from ..._kit.coordinators import ROLLED_BACK, LocalCoordinator, OpenTransactions, rejected
from ..channel import ChannelUser
from ..link import LinkEndpoint
from ..states import ChannelState, Step
from ..wire.methods import ChannelOpenOk
from .pending_transaction import PendingTransaction
from .transactional_channel import OnDischarged, TransactionalChannel

if TYPE_CHECKING:
    from .parents import ClientLinkSession

CAPABILITIES = ("amqp:local-transactions", "amqp:multi-txns-per-ssn", "amqp:multi-ssns-per-txn")


class CommitUser(ChannelUser):
    """The user of the channel of the transactions that settle nothing."""

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


class ClientCoordinator(LinkEndpoint, LocalCoordinator[PendingTransaction]):
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

    @property
    def transactions(self) -> OpenTransactions[PendingTransaction]:
        return self.session.connection.transactions

    def new_work(self, txn_id: bytes) -> PendingTransaction:
        return PendingTransaction()

    def commit(self, delivery: OutgoingDelivery, work: PendingTransaction) -> None:
        if not (work.publishes or work.settled):
            self.answer(delivery, ACCEPTED)
            return
        obstacle = work.obstacle()
        if obstacle is None:
            try:
                self._write(work, lambda state: self.answer(delivery, state))
                return
            except LocalProtocolError as error:
                obstacle = str(error)
        work.roll_back()
        self.answer(delivery, rejected(ROLLED_BACK, obstacle))

    def _write(self, work: PendingTransaction, done: OnDischarged) -> None:
        """Write all of a transaction, and its commit; call `done` with the answer.

        Raises:
            LocalProtocolError: it cannot be expressed, or no channel is free.
        """
        # Encode all before writing any, for what is written would be committed with the next one.
        channel = work.receiver.channel if work.receiver is not None else self._commit_channel()
        frames = [link.writer.frames(delivery.payload, channel.number) for link, delivery in work.publishes]
        if work.receiver is not None:
            work.receiver.flush_acks()
        channel.select()
        for each in frames:
            channel.write_frames(each)
        if work.receiver is not None:
            work.receiver.settle_all(work.settled)
        channel.commit(work, done)

    def _commit_channel(self) -> TransactionalChannel:
        """Return the channel of the session's transactions that settle nothing.

        Raises:
            LocalProtocolError: it is not open, and all channels are in use.
        """
        channel = self.session.commit_channel
        if channel is None or channel.state is not ChannelState.OPEN:
            channel = self.session.commit_channel = CommitUser(self.session).channel
        return channel

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
            self.transactions.give_up(self)
            self.session.coordinators.remove(self)
        super().end(closed, cause)
