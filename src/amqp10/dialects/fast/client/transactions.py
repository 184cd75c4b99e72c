"""Transactions at the client, which plays the coordinator itself: work is kept here until it is to be committed.

A transaction of AMQP/Fast is all that is sent and acknowledged on one transacted channel between two commits. So what
was sent in a transaction is sent when that is committed, on one channel: that of the receiver whose messages were
accepted in it, or one for the purpose. What was accepted of several receivers can not be committed together, nor what
is not next to be acknowledged.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from ....engine import LinkAttached, LinkTerms, OutgoingDelivery
from ....errors import LocalProtocolError
from ....messaging import ACCEPTED, Coordinator, Error, Rejected
from ..._kit.coordinators import ROLLED_BACK, LocalCoordinator, OpenTransactions
from ..link import LinkEndpoint
from ..message.to_head import to_fast
from ..states import Step
from ..wire.commands import ChannelCommit, ChannelRollback, HandleOpen, HandleSend
from ..wire.fragments import fragments
from .channel import ClientChannel
from .handle import ClientHandle, HandleOwner
from .send_window import SenderShare

if TYPE_CHECKING:
    from ....engine import IncomingDelivery
    from .parents import ClientLinkSession, OpenTransaction, TransactedReceiver

LOCAL: Final = ("amqp:local-transactions", "amqp:multi-txns-per-ssn", "amqp:multi-ssns-per-txn")
CREDIT: Final = 100


class ClientTransaction:
    """The messages sent and accepted in one transaction, kept until it is committed."""

    def __init__(self) -> None:
        self.sent: list[tuple[HandleOpen, str, bytes, int]] = []  # where to, the payload, its message-format
        self.accepted: dict[TransactedReceiver, list[IncomingDelivery]] = {}

    def post(self, opening: HandleOpen, to: str, payload: bytes, message_format: int) -> None:
        """Keep a message to send at the commit; `to`: its destination, on a handle without a name."""
        self.sent.append((opening, to, payload, message_format))

    def accept(self, link: TransactedReceiver, delivery: IncomingDelivery) -> None:
        """Keep a delivery to acknowledge at the commit."""
        self.accepted.setdefault(link, []).append(delivery)

    def roll_back(self) -> None:
        """Discard the messages kept to be sent, and give the accepted deliveries back to the server."""
        self.sent.clear()
        for link, deliveries in self.accepted.items():
            for delivery in deliveries:
                link.undo(delivery)
        self.accepted.clear()

    def obstacle(self) -> Error | None:
        """Return why the transaction cannot be committed; None if it can."""
        if len(self.accepted) > 1:
            why = "messages of several receivers can not be accepted in one transaction"
            return Error("amqp:not-implemented", why)
        for link, deliveries in self.accepted.items():
            obstacle = link.obstacle(deliveries)
            if obstacle is not None:
                return obstacle
        return None


class Committing(HandleOwner):
    """One commit, from opening the handles it needs to the server's word."""

    def __init__(self, coordinator: ClientCoordinator, transaction: OpenTransaction, request: OutgoingDelivery) -> None:
        self._coordinator = coordinator
        self._transaction = transaction
        self._request = request
        self._handles: dict[tuple[int, str], ClientHandle] = {}
        self._opening = 0
        # Not states of an endpoint: the commit was sent, and it is decided how the transaction ended.
        self._commit_sent = self._over = False
        self._share = SenderShare(coordinator.session.engine.send_window)
        self._link = next(iter(transaction.accepted), None)
        self._channel = self._link.channel if self._link is not None else coordinator.own_channel()
        self._channel.commits[self.finish] = None

    def begin(self) -> None:
        """Open a handle for each destination; send and commit when all are open."""
        for opening, _, _, _ in self._transaction.sent:
            key = opening.service_type, opening.dest_name
            if key not in self._handles:
                try:
                    handle = self._handles[key] = ClientHandle(self._channel, self)
                except LocalProtocolError as error:
                    self.finish(_no_number(error))
                    return
                self._opening += 1
                again = HandleOpen(service_type=key[0], producer=True, dest_name=key[1])
                handle.open(again, self._on_opened)
        if not self._opening:
            self._do()

    def _on_opened(self, error: Error | None) -> None:
        self._opening -= 1
        if error is not None:
            self.finish(error)
        elif not self._opening and not self._over:
            self._do()

    def _do(self) -> None:
        """Write all messages and acknowledgments at once, and the commit after them."""
        if self._over:
            return
        engine = self._channel.engine
        if self._transaction.sent and engine.send_window.full:
            engine.send_window.wait(self._do)
            return
        obstacle = self._transaction.obstacle()
        if obstacle is not None:
            self.finish(obstacle)
            return
        for opening, to, payload, message_format in self._transaction.sent:
            handle = self._handles[opening.service_type, opening.dest_name]
            max_octets = engine.frame_max
            head, body = to_fast(payload, time.time(), message_format=message_format, max_octets=max_octets)
            self._share.add(len(body), asks=True)
            for content, partial in fragments(head.write(), body, max_octets):
                command = HandleSend(handle_id=handle.id, fragment_size=len(content), partial=partial)
                command.dest_name = "" if partial else to
                engine.write(command, content)
        if self._link is not None:
            self._link.settle_before_commit(self._transaction.accepted[self._link])
        self._commit_sent = True
        self._channel.ask(ChannelCommit(), self.finish)

    def finish(self, error: Error | None) -> None:
        """Settle the discharge: accepted, or rejected with `error` after a rollback."""
        if self._over:
            return
        self._over = True
        self._channel.commits.pop(self.finish, None)
        self._share.give_up()
        if error is not None:
            if self._commit_sent and not self._channel.closing:  # a server may have kept it, for the next commit
                self._channel.ask(ChannelRollback(), _nothing)
            self._transaction.roll_back()
        for handle in self._handles.values():
            handle.close()
        self._coordinator.answer(self._request, ACCEPTED if error is None else Rejected(error))

    def handle_closed(self, handle: ClientHandle, error: Error | None, requested: bool) -> None:
        if not requested:
            self.finish(error or Error(ROLLED_BACK, "the server closed a handle"))


class ClientCoordinator(LinkEndpoint, LocalCoordinator["OpenTransaction"]):
    """The link on which the owner declares and discharges; nothing of it is on the wire but commits."""

    session: ClientLinkSession

    def __init__(self, session: ClientLinkSession, terms: LinkTerms) -> None:
        super().__init__(session, terms.name)
        self.terms: LinkTerms = terms
        self.remote: LinkTerms = LinkTerms(terms.name, terms.source, Coordinator(LOCAL), settle_mode="unsettled")
        self.credit = CREDIT
        self.unsettled: dict[bytes, OutgoingDelivery] = {}
        self.frame_room: int = session.engine.frame_max
        self._own_channel: ClientChannel | None = None
        self.advance(Step.ATTACH)
        self.engine.emit(LinkAttached(self))
        self.engine.report_credit(self)

    def own_channel(self) -> ClientChannel:
        """Return the channel for commits that acknowledge no receiver's messages."""
        if self._own_channel is None or self._own_channel.closing:
            self._own_channel = ClientChannel(self.session.engine, self._on_closed, _nothing, transacted=True)
        return self._own_channel

    def _on_closed(self, error: Error | None, requested: bool) -> None:
        self._own_channel = None
        for delivery in list(self.unsettled.values()):
            self.answer(delivery, Rejected(error or Error(ROLLED_BACK, "the server closed the channel")))

    def number(self, count: int) -> int:
        return self.session.give_id()

    @property
    def transactions(self) -> OpenTransactions[OpenTransaction]:
        return self.session.engine.transactions

    def new_work(self, txn_id: bytes) -> ClientTransaction:
        return ClientTransaction()

    def commit(self, delivery: OutgoingDelivery, work: OpenTransaction) -> None:
        obstacle = work.obstacle()
        if obstacle is None and (work.sent or work.accepted):
            try:
                commit = Committing(self, work, delivery)
            except LocalProtocolError as error:
                obstacle = _no_number(error)
            else:
                commit.begin()
                return
        if obstacle is not None:
            work.roll_back()
        self.answer(delivery, ACCEPTED if obstacle is None else Rejected(obstacle))

    def report(self, delivery: OutgoingDelivery) -> None:
        self.engine.report_outcome(self, delivery)

    def detach(self, *, closed: bool = True, error: Error | None = None) -> None:
        self.session_ends()
        self.over(closed, None)

    def session_ends(self) -> None:
        """Roll back all open transactions, because the session ends."""
        self.mark_detached()
        self.transactions.give_up(self)
        if self._own_channel is not None:
            self._own_channel.close()


def _no_number(error: LocalProtocolError) -> Error:
    """Return the error for a commit that found no free channel or handle."""
    return Error("amqp:resource-limit-exceeded", str(error))


def _nothing(error: Error | None) -> None:
    """Ignore the reply: a channel that cannot be opened or rolled back is closed, and the close is handled."""
