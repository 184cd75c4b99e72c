"""A client's transactions. The engine itself is the coordinator that AMQP 1.0 has links to (§4).

Until its discharge nothing of a transaction is written. Then all of it goes out on one channel, followed by tx.commit:
on the channel of the receiver whose deliveries it settles, for acks belong to theirs; else on one for transactions
alone. A channel that was transactional once stays so; plain acks on it are committed with each flush.

A message that no queue takes comes back before tx.commit-ok, and the rest is committed all the same. The answer to the
discharge then is `Returned`, with the reply code: it is not as if nothing had happened, and not as if all had.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, ClassVar

from ...engine import CreditChanged, LinkAttached, LinkEnded, LinkTerms, OutcomesReceived, OutgoingDelivery, SenderLink
from ...errors import AmqpError, DecodeError, LocalProtocolError, RemoteProtocolError
from ...messaging import (
    ACCEPTED,
    Coordinator,
    Declare,
    Declared,
    DeliveryState,
    Discharge,
    Error,
    Message,
    Rejected,
    Returned,
    TransactionalState,
)
from ...types import as_composite
from ._channel import Channel, State
from ._codes import Fault
from ._frames import METHOD
from ._method import Method
from ._methods import BasicReturn, ChannelOpen, ChannelOpenOk, TxCommit, TxCommitOk, TxSelect, TxSelectOk
from ._returns import find_returned, outcome_of

if TYPE_CHECKING:
    from ...engine import IncomingDelivery
    from ._receiver import ReceiverEndpoint
    from ._sender import SenderEndpoint
    from ._session import ClientSession

CAPABILITIES = ("amqp:local-transactions", "amqp:multi-txns-per-ssn", "amqp:multi-ssns-per-txn")
Done = Callable[[DeliveryState], None]
ROLLED_BACK = "amqp:transaction:rollback"


class Work:
    """What one transaction is made of.

    Attributes:
        coordinator: the link that declared it.
        receiver: whose deliveries it settles; None while it settles none.
        returned: what the peer says of each message that came back.
    """

    def __init__(self, coordinator: CoordinatorEndpoint) -> None:
        self.coordinator = coordinator
        self.publishes: list[tuple[SenderEndpoint, OutgoingDelivery]] = []
        self.returned: list[Error] = []
        self.settled: list[tuple[IncomingDelivery, DeliveryState | None]] = []
        self.receiver: ReceiverEndpoint | None = None

    def take_back(self, method: BasicReturn, properties: bytes, body: bytes) -> None:
        """A message of it came back."""
        outcome = outcome_of(method)
        self.returned.append(outcome.error)  # type: ignore[union-attr,arg-type]
        found = find_returned(self.publishes, method, properties, body)
        if found is not None:
            self.publishes = [each for each in self.publishes if each[1] is not found]
            found.remote_state = TransactionalState(found.state.txn_id, outcome)  # type: ignore[union-attr]

    def outcome(self) -> DeliveryState:
        """What the commit came to."""
        if not self.returned:
            return ACCEPTED
        first, count = self.returned[0], len(self.returned)
        if count > 1:
            said = f"{first.description}, the first of {count} messages that came back"
            first = Error(first.condition, said, first.info)
        return Returned(first)

    def roll_back(self) -> None:
        """Nothing of it was written; what it was to settle comes again."""
        if self.receiver is not None:
            self.receiver.give_back([delivery for delivery, _ in self.settled])


class Transactions:
    """Those of one connection."""

    def __init__(self) -> None:
        self._open: dict[bytes, Work] = {}
        self._number = 0

    def declare(self, coordinator: CoordinatorEndpoint) -> Declared:
        self._number += 1
        txn_id = self._number.to_bytes(8, "big")
        self._open[txn_id] = Work(coordinator)
        return Declared(txn_id)

    def give_up(self, coordinator: CoordinatorEndpoint) -> None:
        """Its link is gone: what is not discharged is rolled back."""
        for txn_id, work in list(self._open.items()):
            if work.coordinator is coordinator:
                del self._open[txn_id]
                work.roll_back()

    def post(
        self,
        link: SenderEndpoint,
        payload: bytes,
        settled: bool,
        tag: bytes,
        message_format: int,
        state: DeliveryState,
    ) -> OutgoingDelivery:
        """A message is sent as part of a transaction: it is accepted, if that is committed."""
        work = self._work(state)
        link.check(payload)
        delivery = link.delivery_type(link, tag, payload, True, message_format)
        work.publishes.append((link, delivery))
        delivery.state = state
        delivery.on_wire = delivery.remote_settled = True
        delivery.remote_state = TransactionalState(state.txn_id, ACCEPTED)  # type: ignore[union-attr]
        if not settled:
            link.engine.emit(OutcomesReceived(link, [delivery]))
        return delivery

    def retire(self, link: ReceiverEndpoint, delivery: IncomingDelivery, state: TransactionalState) -> None:
        """A delivery is to be settled as part of a transaction."""
        work = self._work(state)
        if work.receiver not in (None, link):
            raise LocalProtocolError("a transaction of this dialect settles deliveries of one receiver only")
        work.receiver = link
        delivery.state = state
        delivery.local_settled = True
        link.unsettled.pop(delivery.tag, None)
        work.settled.append((delivery, state.outcome))

    def _work(self, state: DeliveryState) -> Work:
        work = self._open.get(state.txn_id) if isinstance(state, TransactionalState) else None
        if work is None:
            raise LocalProtocolError("the transaction is not open")
        return work

    def discharge(self, session: ClientSession, what: Discharge, done: Done) -> None:
        """End a transaction; `done` is told when the peer has committed it, or why it has not."""
        work = self._open.pop(what.txn_id, None)
        if work is None:
            done(rejected("amqp:transaction:unknown-id", "the transaction is not open"))
        elif what.fail or not (work.publishes or work.settled):
            work.roll_back()
            done(ACCEPTED)
        elif any(not link.attached for link, _ in work.publishes) or (work.receiver and not work.receiver.attached):
            work.roll_back()
            done(rejected(ROLLED_BACK, "a link of the transaction is gone"))
        elif work.receiver and any(work.receiver.has_back(delivery) for delivery, _ in work.settled):
            work.roll_back()
            done(rejected(ROLLED_BACK, "the peer has back what the transaction settles, by a recover"))
        else:
            self._commit(session, work, done)

    def _commit(self, session: ClientSession, work: Work, done: Done) -> None:
        channel: Committing
        if work.receiver is not None:
            channel = work.receiver
        else:
            found = session.transaction_channel
            if found is None or found.channel_state is not State.OPEN:
                found = session.transaction_channel = TransactionChannel(session)
            channel = found
        try:  # all of it before any of it is written, for what is written would be committed with the next one
            frames = [link.frames(delivery.payload, channel.number) for link, delivery in work.publishes]
        except LocalProtocolError as error:
            work.roll_back()
            done(rejected(ROLLED_BACK, str(error)))
            return
        channel.select()
        for each in frames:
            channel.write_frames(each)
        if work.receiver is not None:
            work.receiver.settle_all(work.settled)
        channel.commit(work, done)


class Committing(Channel):
    """A channel that can be transactional.

    After a tx.commit nothing more is written to it until the answer comes: RabbitMQ has an error for that (504).
    """

    handlers: ClassVar = {
        TxSelectOk: "receive_selected",
        TxCommitOk: "receive_committed",
        BasicReturn: "receive_return",
    }
    transactional = False
    _committing = False

    def select(self) -> None:
        """From now on."""
        if not self.transactional:
            self.transactional = True
            self._commits: deque[tuple[Work, Done] | None] = deque()  # None: acks alone
            self._later: deque[tuple[bytes, bool]] = deque()  # frames, and whether they commit
            self.write(TxSelect())

    def write(self, method: Method) -> None:
        if not self.transactional:
            super().write(method)
            return
        variant = self.engine.variant
        frame = variant.framing.frame(METHOD, self.number, variant.methods.encode(method))
        self.write_frames(frame, isinstance(method, TxCommit))

    def write_frames(self, frames: bytes, commits: bool = False) -> None:
        """Write them, or as soon as it is time."""
        if self._committing:
            self._later.append((frames, commits))
        else:
            self._committing = commits
            self.engine.write(frames)

    def receive_selected(self, _: TxSelectOk) -> None:
        pass

    def commit(self, work: Work | None = None, done: Done | None = None) -> None:
        self.write(TxCommit())
        self._commits.append(None if work is None or done is None else (work, done))

    def receive_return(self, method: BasicReturn) -> None:
        before = self.properties_octets
        self.expect_content(lambda body: self._returned(method, body, before))

    def _returned(self, method: BasicReturn, body: bytes, before: bytes) -> None:
        properties, self.properties_octets = self.properties_octets, before  # of the last delivery: its place
        committing = self._commits[0] if self.transactional and self._commits else None
        if committing is None:
            raise Fault(503, "a return of what was not published", method.code)
        committing[0].take_back(method, properties, body)

    def receive_committed(self, method: TxCommitOk) -> None:
        if not self.transactional or not self._commits:
            raise RemoteProtocolError("a tx.commit-ok for which nobody asked", "amqp:illegal-state")
        self._committing = False
        while self._later and not self._committing:
            self.write_frames(*self._later.popleft())
        committed = self._commits.popleft()
        if committed is not None:
            work, done = committed
            done(work.outcome())

    def _receive_closing(self, payload: bytes) -> None:
        if self._committing and self.engine.variant.methods.has(payload, TxCommitOk):
            self.check_shape(payload)
            self.receive_committed(TxCommitOk())
        else:
            super()._receive_closing(payload)

    def undo(self, error: Error | None) -> None:
        """The channel is gone, and what was not committed with it."""
        if self.transactional:
            reason = error.description if error is not None else "the channel was closed"
            while self._commits:
                committing = self._commits.popleft()
                if committing is not None:
                    committing[1](rejected(ROLLED_BACK, reason))


def rejected(condition: str, description: str | None) -> Rejected:
    return Rejected(Error(condition, description))


class TransactionChannel(Committing):
    """For transactions that settle nothing."""

    handlers: ClassVar = {ChannelOpenOk: "receive_open"}

    def __init__(self, session: ClientSession) -> None:
        self.session = session
        self.open_channel(session.engine, session.connection.free_channel())
        session.channels.append(self)
        self.write(ChannelOpen())

    def receive_open(self, _: ChannelOpenOk) -> None:
        pass

    def closed(self, error: Error | None) -> None:
        self.undo(error)
        self.session.channel_gone(self)

    def over(self, error: AmqpError | None) -> None:
        pass  # that the answer is not known is told by the end of the coordinator's link


class CoordinatorEndpoint(SenderLink):
    """The link to the coordinator, which is here. See `SenderLink` for the contract."""

    is_sender = True
    session: ClientSession

    def __init__(self, session: ClientSession, terms: LinkTerms) -> None:
        self.session = session
        self.terms = terms
        self.remote: LinkTerms | None = LinkTerms(
            terms.name, terms.source, Coordinator(CAPABILITIES), settle_mode=terms.settle_mode
        )
        self.attached = True
        self.properties: Any = {}
        self.incomplete = False
        self.context: Any = None
        self.delivery_type = OutgoingDelivery
        self.credit = 1000
        self.drain = False
        self.auto_settle = True
        self.unsettled: dict[bytes, OutgoingDelivery] = {}
        self.frame_room = session.engine.room
        self._number = 0
        self._ended = False
        session.engine.emit(LinkAttached(self))
        session.engine.emit(CreditChanged(self))

    @property
    def name(self) -> str:
        return self.terms.name if self.terms is not None else ""

    @property
    def settled_by_sender(self) -> bool:
        return False

    def send(
        self,
        payload: bytes,
        *,
        settled: bool = False,
        tag: bytes | None = None,
        message_format: int = 0,
        state: DeliveryState | None = None,
        batchable: bool = False,
        more: bool = False,
    ) -> OutgoingDelivery:
        if not self.attached:
            raise LocalProtocolError(f"the link {self.name!r} is not attached")
        self._number += 1
        delivery = self.delivery_type(self, self._number.to_bytes(8, "big"), payload, settled)
        delivery.delivery_id = self._number
        delivery.on_wire = True
        self.unsettled[delivery.tag] = delivery
        transactions = self.session.connection.transactions
        try:
            what = as_composite(Message.decode(payload).body)
        except DecodeError:
            what = None
        if isinstance(what, Declare):
            self._answer(delivery, transactions.declare(self))
        elif isinstance(what, Discharge):
            transactions.discharge(self.session, what, lambda state: self._answer(delivery, state))
        else:
            self._answer(delivery, rejected("amqp:not-implemented", "a coordinator declares and discharges"))
        return delivery

    def _answer(self, delivery: OutgoingDelivery, state: DeliveryState) -> None:
        if not self._ended:
            delivery.remote_state = state
            delivery.remote_settled = delivery.local_settled = True
            self.unsettled.pop(delivery.tag, None)
            self.session.engine.emit(OutcomesReceived(self, [delivery]))

    def detach(self, *, closed: bool = True, error: Error | None = None) -> None:
        self._end(True, None)

    def over(self, error: AmqpError | None) -> None:
        """The session, or the connection, is over."""
        self._end(False, error)

    def _end(self, closed: bool, error: AmqpError | None) -> None:
        self.attached = False
        if not self._ended:
            self._ended = True
            self.session.connection.transactions.give_up(self)
            if self in self.session.coordinators:
                self.session.coordinators.remove(self)
            self.session.engine.emit(LinkEnded(self, closed, error))

    def attach(self, terms: LinkTerms, *, resuming: Iterable[Any] | None = None) -> None:
        raise LocalProtocolError(f"the link {self.name!r} does not wait for an answer")

    def refuse(self, error: Error) -> None:
        raise LocalProtocolError(f"the link {self.name!r} does not wait for an answer")

    def suspended(self) -> list[OutgoingDelivery]:
        return []

    def send_more(self, delivery: OutgoingDelivery, payload: bytes, *, more: bool = False) -> None:
        raise LocalProtocolError("no delivery is under way in parts")

    def abort(self, delivery: OutgoingDelivery) -> None:
        raise LocalProtocolError("only a delivery that is not whole on the wire can be aborted")

    def settle(self, delivery: OutgoingDelivery, state: DeliveryState | None = None) -> None:
        delivery.local_settled = True
        self.unsettled.pop(delivery.tag, None)

    def resend(self, delivery: OutgoingDelivery) -> None:
        raise LocalProtocolError("nothing is resumed on a link to the coordinator")

    def forget(self, delivery: OutgoingDelivery) -> None:
        self.settle(delivery)

    def drained(self, available: int = 0) -> None:
        pass  # nobody drains here

    def offer(self, available: int) -> None:
        pass
