"""Transactions at the client, which plays the coordinator itself: work is kept here until it is to be committed.

A transaction of AMQP/Fast is all that is sent and acknowledged on one transacted channel between two commits. So what
was sent in a transaction is sent when that is committed, on one channel: that of the receiver whose messages were
accepted in it, or one for the purpose. What was accepted of several receivers can not be committed together, nor what
is not next to be acknowledged.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from ...engine import LinkAttached, LinkTerms, OutgoingDelivery, SenderLink
from ...errors import DecodeError, LocalProtocolError
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
)
from ...types import Symbol, as_composite
from ._client_ahead import Share
from ._client_handle import ClientHandle, HandleOwner
from ._client_session import ClientChannel
from ._commands import ChannelCommit, ChannelRollback, HandleOpen, HandleSend
from ._content import fragments
from ._endpoints import FastLink
from ._mapping import to_fast

if TYPE_CHECKING:
    from ...engine import IncomingDelivery
    from ._client_receiver import ClientReceiver
    from ._client_session import ClientSession

LOCAL: Final = ("amqp:local-transactions", "amqp:multi-txns-per-ssn", "amqp:multi-ssns-per-txn")
CREDIT: Final = 100
_ids = itertools.count(1)


class ClientTransaction:
    """What was done in one transaction, and is to happen when it is committed."""

    def __init__(self) -> None:
        self.id = next(_ids).to_bytes(8, "big")
        self.sent: list[tuple[HandleOpen, str, bytes, int]] = []  # where to, the payload, its message-format
        self.accepted: dict[ClientReceiver, list[IncomingDelivery]] = {}

    def post(self, opening: HandleOpen, to: str, payload: bytes, message_format: int) -> None:
        """A message was sent; `to`: on a handle without a name."""
        self.sent.append((opening, to, payload, message_format))

    def accept(self, link: ClientReceiver, delivery: IncomingDelivery) -> None:
        """A message was accepted."""
        self.accepted.setdefault(link, []).append(delivery)

    def roll_back(self) -> None:
        """Nothing of it happens: what was accepted comes again."""
        self.sent.clear()
        for link, deliveries in self.accepted.items():
            for delivery in deliveries:
                link.undo(delivery)
        self.accepted.clear()

    def obstacle(self) -> Error | None:
        """Why it can not be committed."""
        if len(self.accepted) > 1:
            return _error(
                "amqp:not-implemented", "messages of several receivers can not be accepted in one transaction"
            )
        for link, deliveries in self.accepted.items():
            if link.gone or link.handle.closing:
                return _error("amqp:transaction:rollback", "the receiver of what was accepted is gone")
            if not link.acks.reaches(deliveries):
                return _error(
                    "amqp:precondition-failed",
                    "messages are acknowledged in order: one that came before is not settled",
                )
        return None


class Committing(HandleOwner):
    """One commit, from opening the handles it needs to the server's word."""

    def __init__(self, coordinator: ClientCoordinator, transaction: ClientTransaction, asked: OutgoingDelivery) -> None:
        self._coordinator = coordinator
        self._transaction = transaction
        self._asked = asked
        self._handles: dict[tuple[int, str], ClientHandle] = {}
        self._opening = 0
        self._asking = False  # for the commit
        self._over = False
        self._share = Share(coordinator.session.engine.ahead)
        self._link = next(iter(transaction.accepted), None)
        self._channel = self._link.channel if self._link is not None else coordinator.own_channel()
        self._channel.commits[self.finish] = None

    def begin(self) -> None:
        """Open a handle for each destination; the rest when all are open."""
        for opening, _, _, _ in self._transaction.sent:
            key = opening.service_type, opening.dest_name
            if key not in self._handles:
                try:
                    handle = self._handles[key] = ClientHandle(self._channel, self)
                except LocalProtocolError as error:
                    self.finish(_no_room(error))
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
        """Write it all, in one go, and that it is to happen."""
        if self._over:
            return
        engine = self._channel.engine
        if self._transaction.sent and engine.ahead.full:
            engine.ahead.wait(self._do)
            return
        obstacle = self._transaction.obstacle()
        if obstacle is not None:
            self.finish(obstacle)
            return
        for opening, to, payload, message_format in self._transaction.sent:
            handle = self._handles[opening.service_type, opening.dest_name]
            room = engine.frame_max
            head, body = to_fast(payload, time.time(), message_format=message_format, room=room)
            self._share.add(len(body), asks=True)
            for content, partial in fragments(head.write(), body, room):
                command = HandleSend(handle_id=handle.id, fragment_size=len(content), partial=partial)
                command.dest_name = "" if partial else to
                engine.write(command, content)
        if self._link is not None:
            self._link.acks.write()  # what is to be said outside of it
            for delivery in self._transaction.accepted[self._link]:
                self._link.acks.settled(delivery)
            self._link.acks.write(commit=False)
        self._asking = True
        self._channel.ask(ChannelCommit(), self.finish)

    def finish(self, error: Error | None) -> None:
        """It happened, or not."""
        if self._over:
            return
        self._over = True
        self._channel.commits.pop(self.finish, None)
        self._share.give_up()
        if error is not None:
            if self._asking and not self._channel.closing:  # a server may have kept it, for the next commit
                self._channel.ask(ChannelRollback(), _nothing)
            self._transaction.roll_back()
        for handle in self._handles.values():
            handle.close()
        self._coordinator.answer(self._asked, ACCEPTED if error is None else Rejected(error))

    def handle_closed(self, handle: ClientHandle, error: Error | None, asked: bool) -> None:
        if not asked:
            self.finish(error or _error("amqp:transaction:rollback", "the server closed a handle"))


class ClientCoordinator(FastLink, SenderLink):
    """The link on which the owner declares and discharges; nothing of it is on the wire but commits."""

    session: ClientSession
    is_sender = True

    def __init__(self, session: ClientSession, terms: LinkTerms) -> None:
        super().__init__(session, terms.name)
        self.terms = terms
        self.remote = LinkTerms(terms.name, terms.source, Coordinator(LOCAL), settle_mode="unsettled")
        self.credit = CREDIT
        self.drain = False
        self.unsettled: dict[bytes, OutgoingDelivery] = {}
        self.auto_settle = True
        self.delivery_type = OutgoingDelivery
        self.frame_room = session.engine.frame_max
        self._own: ClientChannel | None = None
        self._declared: dict[bytes, ClientTransaction] = {}
        self._next_tag = 0
        self.attached = True
        self.engine.emit(LinkAttached(self))
        self.engine.tell_credit(self)

    def own_channel(self) -> ClientChannel:
        """The channel for what no receiver's has to do with."""
        if self._own is None or self._own.closing:
            self._own = ClientChannel(self.session.engine, self._on_closed, _nothing, transacted=True)
        return self._own

    def _on_closed(self, error: Error | None, asked: bool) -> None:
        self._own = None
        for delivery in list(self.unsettled.values()):
            self.answer(
                delivery, Rejected(error or _error("amqp:transaction:rollback", "the server closed the channel"))
            )

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
        self.check_attached()
        if more or settled:
            raise LocalProtocolError("a declare or discharge is sent whole, and unsettled")
        if tag is None:
            tag = self._next_tag.to_bytes(8, "big")
            self._next_tag += 1
        delivery = self.delivery_type(self, tag, payload, False, message_format)
        delivery.on_wire = True
        delivery.delivery_id = self.session.give_id()
        self.unsettled[tag] = delivery
        try:
            asked = as_composite(Message.decode(payload).body)
        except DecodeError as error:
            asked = None
            self.answer(delivery, Rejected(_error("amqp:decode-error", str(error))))
        if isinstance(asked, Declare):
            self._declare(asked, delivery)
        elif isinstance(asked, Discharge):
            self._discharge(asked, delivery)
        return delivery

    def _declare(self, asked: Declare, delivery: OutgoingDelivery) -> None:
        if asked.global_id is not None:
            self.answer(delivery, Rejected(_error("amqp:not-implemented", "there are no distributed transactions")))
            return
        transaction = ClientTransaction()
        self._declared[transaction.id] = self.session.engine.transactions[transaction.id] = transaction
        self.answer(delivery, Declared(transaction.id))

    def _discharge(self, asked: Discharge, delivery: OutgoingDelivery) -> None:
        transaction = self._forget(asked.txn_id)
        obstacle = transaction.obstacle() if transaction is not None and not asked.fail else None
        if transaction is None:
            obstacle = _error("amqp:transaction:unknown-id", "no such transaction is open")
        elif asked.fail or obstacle is not None:
            transaction.roll_back()
        elif transaction.sent or transaction.accepted:
            try:
                commit = Committing(self, transaction, delivery)
            except LocalProtocolError as error:
                transaction.roll_back()
                obstacle = _no_room(error)
            else:
                commit.begin()
                return
        self.answer(delivery, ACCEPTED if obstacle is None else Rejected(obstacle))

    def answer(self, delivery: OutgoingDelivery, state: DeliveryState) -> None:
        """Tell what became of a declare or a discharge."""
        if self.unsettled.pop(delivery.tag, None) is not None:
            delivery.remote_state = state
            delivery.remote_settled = delivery.local_settled = True
            self.engine.tell_outcome(self, delivery)

    def _forget(self, txn_id: bytes) -> ClientTransaction | None:
        self.session.engine.transactions.pop(txn_id, None)
        return self._declared.pop(txn_id, None)

    # What else a link has

    def attach(self, terms: LinkTerms, *, resuming: Iterable[Any] | None = None) -> None:
        raise LocalProtocolError("the link is attached")

    def refuse(self, error: Error) -> None:
        raise LocalProtocolError("the link is attached")

    def send_more(self, delivery: OutgoingDelivery, payload: bytes, *, more: bool = False) -> None:
        raise LocalProtocolError("a declare or discharge is sent whole")

    def abort(self, delivery: OutgoingDelivery) -> None:
        raise LocalProtocolError("a declare or discharge is sent whole")

    def settle(self, delivery: OutgoingDelivery, state: DeliveryState | None = None) -> None:
        delivery.local_settled = True
        self.unsettled.pop(delivery.tag, None)

    def drained(self, available: int = 0) -> None:
        """Nobody drains it."""

    def offer(self, available: int) -> None:
        """Nobody is told."""

    def resend(self, delivery: OutgoingDelivery) -> None:
        raise LocalProtocolError("what a transaction was asked is not asked again")

    def forget(self, delivery: OutgoingDelivery) -> None:
        self.settle(delivery)

    def suspended(self) -> list[OutgoingDelivery]:
        return []

    def detach(self, *, closed: bool = True, error: Error | None = None) -> None:
        self.session_ends()
        self.over(closed, None)

    def session_ends(self) -> None:
        """The session goes: what was not committed never happens."""
        self.attached = False
        for txn_id in list(self._declared):
            transaction = self._forget(txn_id)
            if transaction is not None:
                transaction.roll_back()
        if self._own is not None:
            self._own.close()


def unknown() -> Rejected:
    """There is no transaction of that id."""
    return Rejected(_error("amqp:transaction:unknown-id", "no such transaction is open"))


def _no_room(error: LocalProtocolError) -> Error:
    """There is no channel or handle for a commit."""
    return _error("amqp:resource-limit-exceeded", str(error))


def _error(condition: str, description: str) -> Error:
    return Error(Symbol(condition), description)


def _nothing(error: Error | None) -> None:
    """A channel that can not be opened, or rolled back, is closed, which says the same."""
