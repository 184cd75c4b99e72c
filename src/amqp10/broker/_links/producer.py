"""Links on which the broker receives messages; their destinations (`destinations`) say where these go.

An outcome is sent when its message is on the disk: `Connection._before_write` in `_serving.connections` waits for that.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from ...engine import LinkOwner, RoutedDelivery
from ...errors import DecodeError
from ...messaging import ACCEPTED, RELEASED, Error, Rejected, Released, TransactionalState
from ...types import Symbol
from .._errors import Refused
from .._peer import PassIsFull
from .._queues.message import QueuedMessage
from .._queues.topic import Topic
from .terminus import allows
from .user_id import check_user_id

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...engine import IncomingDelivery, ReceiverLink
    from ...messaging import DeliveryState
    from .._peer import Peer
    from .._queues.node import Node
    from .._retained.links import LinkJournal, ResumableLink
    from .._transactions.local import LocalTransaction
    from .destinations import Destination


_UNROUTABLE: Final = Error("amqp:not-found", "no queue takes the message")
_EXCHANGE, _ROUTING_KEY = Symbol("x-exchange"), Symbol("x-routing-key")


class ProducerLink(LinkOwner):
    """Puts the messages of a link into their destination, and sends their outcomes.

    Attributes:
        resumable: the state of the link that may be resumed; None: it ends with the link.
    """

    def __init__(self, peer: Peer, link: ReceiverLink, destination: Destination) -> None:
        self._peer = peer
        self._link = link
        self._origin = peer.number  # does not change: no-local filters identify the connection by it
        self._vhost = vhost = peer.vhost
        self._memory = vhost.admission.memory
        self.destination = destination
        source = link.remote.source if link.remote is not None else None
        self._may_reject = allows(source, Rejected)  # otherwise a refusal ends the link
        self._may_release = allows(source, Released)
        self._checks_user = vhost.check_user_id and not peer.rights.impersonator
        self.resumable: ResumableLink | None = None
        self._journal: LinkJournal | None = None
        link.lazy = True

    def make_resumable(self, resumable: ResumableLink) -> None:
        """Make the link resumable."""
        self.resumable = resumable
        self._journal = self._vhost.links.journal if resumable.key.connection is None else None

    def move_to(self, peer: Peer) -> None:
        """Move to another connection."""
        self._peer = peer
        self.destination.move_to(peer)

    # What the peer sends

    def on_deliveries(self) -> None:
        account = self._peer.maker.account
        if self._memory.refuses:
            self._refuse_all("the broker has no memory left")
        elif account is not None and account.memory.refuses:
            self._refuse_all(account.reason)
        else:
            self._take()
        self.destination.credit_used()

    def on_flow(self, drained: bool, wasted: int) -> None:
        # Aborted deliveries, and those that had arrived already, used credit, too.
        self.destination.credit_used()

    def on_settlements(self, deliveries: Sequence[IncomingDelivery]) -> None:
        if self.resumable is not None and self._journal is not None:
            self._journal.settled(self.resumable, [delivery.tag for delivery in deliveries])
        self.destination.credit_used()

    def _take(self) -> None:
        """Route the messages that arrived, and send their outcomes."""
        link, node = self._link, self.destination.only
        if node is None or not node.takes_runs or self._checks_user:  # each message has to be looked at
            link.materialize(link.unmaterialized)
            if isinstance(node, Topic) and len(node.subscriptions) > 1:
                self._take_some(len(node.subscriptions))
        self._take_each()
        while link.unmaterialized and node is not None:
            run = link.next_run()
            if not link.incoming and not self._take_run(run, node):
                link.materialize(len(run) or link.unmaterialized)
            self._take_each()

    def _take_run(self, run: Sequence[bytes], node: Node) -> bool:
        """Take usual messages as `_take_each` does, up to the first that is unusual; return whether there was any.

        benchmarks/real_brokers.py, "through"
        """
        store, account = self._vhost.store, self._peer.maker.account
        entries = QueuedMessage.read_run(run, self._origin, account, self._vhost.clock())
        if store is not None and node.journal is not None:
            octets = sum([entry.size for entry in entries if entry.durable])
            if octets and not store.fits(octets):
                return False
        if entries:
            node.take_run(entries)
            self._link.accept_run(len(entries))
        return bool(entries)

    def _take_some(self, copies: int) -> None:
        """Take some messages; there will be `copies` of each.

        Raises:
            PassIsFull: the pass has no room for more.
        """
        incoming, peer = self._link.incoming, self._peer
        most = max(1, min(len(incoming), peer.copies_left // copies))
        later = [incoming.pop() for _ in range(len(incoming) - int(most))]
        self._take_each()
        incoming.extend(reversed(later))
        self._count_copies(int(most) * copies)

    def _count_copies(self, copies: int) -> None:
        self._peer.copies_left -= copies
        if self._peer.copies_left <= 0:
            self.destination.credit_used()
            raise PassIsFull(self._link)

    def _take_each(self) -> None:
        """Route the messages in `incoming` one by one."""
        now, origin, account = self._vhost.clock(), self._origin, self._peer.maker.account
        destination, incoming, store = self.destination, self._link.incoming, self._vhost.store
        keeps = destination.only is not None and destination.only.keeps_annotations
        while incoming:
            delivery = incoming.popleft()
            try:
                if self._checks_user and self._refuse_forged(delivery):
                    continue
                route = destination.route(delivery)
                entry = QueuedMessage.read(
                    delivery.payload, delivery.message_format, now, time.time, keep_annotations=keeps
                )
            except Refused as error:
                self._unresolved(delivery, error.error)
                continue
            except DecodeError as error:
                self._reject(delivery, Error("amqp:decode-error", str(error)))
                continue
            entry.origin, entry.account = origin, account
            if route.exchange is not None and destination.annotates:
                entry.annotate({_EXCHANGE: route.exchange.name, _ROUTING_KEY: route.key})
            nodes = route.nodes
            if store is not None:
                octets = entry.size * sum(node.copies_stored(entry.durable) for node in nodes)
                if octets and not store.fits(octets):
                    reason = f"the disk of the store has no room for {octets} octets more"
                    self._reject(delivery, Error("amqp:resource-limit-exceeded", reason))
                    continue
            if len(nodes) == 1 and delivery.remote_state is None:  # nearly all messages
                try:
                    nodes[0].take(entry)
                except Refused as refusal:
                    self._reject(delivery, refusal.error)
                else:
                    self._settle(delivery, ACCEPTED, entry.durable)
                continue
            # Each queue changes its own entry (position, attempts); they share the bytes.
            self._post(delivery, [(node, entry.copy() if place else entry) for place, node in enumerate(nodes)])
            if len(nodes) > 1:
                self._count_copies(len(nodes))

    def _refuse_all(self, description: str) -> None:
        incoming = self._link.incoming
        self._link.materialize(self._link.unmaterialized)
        while incoming:
            self._reject(incoming.popleft(), Error("amqp:resource-limit-exceeded", description))

    def _post(self, delivery: IncomingDelivery, posted: list[tuple[Node, QueuedMessage]]) -> None:
        """Route a message with a state, or post it in the transaction that it names (§4.4.1)."""
        state = delivery.remote_state
        if not isinstance(state, TransactionalState):
            self._put(delivery, posted)
            return
        transaction = self._transaction_of(delivery)
        if transaction is not None:
            try:
                for node, entry in posted:
                    transaction.post(node, entry)
            except Refused as refusal:
                self._reject(delivery, refusal.error)
                return
            if not posted and delivery.local_settled:
                self._drop(delivery)
            elif posted or self._may_release:
                self._settle(delivery, transaction.accepted if posted else TransactionalState(transaction.id, RELEASED))
            else:
                self._reject(delivery, _UNROUTABLE)
        elif delivery.local_settled and self._link.attached:
            reason = "a message for a transaction that is not open"
            self._link.detach(closed=True, error=Error("amqp:transaction:unknown-id", reason))
        else:
            error = Error("amqp:transaction:unknown-id", "the transaction of the message is not open")
            self._reject(delivery, error)

    def _drop(self, delivery: IncomingDelivery) -> None:
        """Drop a message without a queue that was sent settled in a transaction.

        A sender to an exchange accepts that; for any other see `_reject`.
        """
        if isinstance(delivery, RoutedDelivery):
            self._vhost.unroutable += 1
        else:
            self._reject(delivery, _UNROUTABLE)

    def _put(self, delivery: IncomingDelivery, posted: list[tuple[Node, QueuedMessage]]) -> None:
        """Put a message into its nodes; the sender is told if one of them refused it."""
        refused: Error | None = None
        for node, entry in posted:
            try:
                node.take(entry)
            except Refused as refusal:
                refused = refusal.error
        if refused is not None:
            self._reject(delivery, refused)
        elif posted:
            self._settle(delivery, ACCEPTED, posted[0][1].durable)
        elif delivery.local_settled:
            self._vhost.unroutable += 1
        elif self._may_release:
            self._settle(delivery, RELEASED)
        else:
            self._reject(delivery, _UNROUTABLE)

    def _transaction_of(self, delivery: IncomingDelivery) -> LocalTransaction | None:
        state = delivery.remote_state
        return self._peer.transaction(state.txn_id) if isinstance(state, TransactionalState) else None

    def _settle(self, delivery: IncomingDelivery, outcome: DeliveryState, lasts: bool = False) -> None:
        """Send the outcome; `lasts` means that the message is durable, and so its outcome must be, too."""
        if delivery.local_settled:
            return
        link = self._link
        if delivery.state is None and link.settle_like_last(delivery.delivery_id, delivery.tag, outcome):
            delivery.state = outcome  # the same as the outcome before it, like nearly every one
            delivery.local_settled = True
        elif link.attached:
            link.settle(delivery, outcome)
        else:
            # The link ended before its last messages were handled: the sender gets the outcome if it resumes.
            delivery.state = outcome
        if not delivery.local_settled:
            delivery.payload = b""  # from now on only the outcome is needed
        if lasts and self._journal is not None and self.resumable is not None and not delivery.local_settled:
            self._journal.noted(self.resumable, delivery.tag, outcome)

    def suspended(self) -> list[IncomingDelivery]:
        """Return the deliveries to keep for the link: outcomes without their messages, and incomplete messages."""
        deliveries = []
        for delivery in self._link.suspended():
            # A complete message without an outcome was not handled: for the sender it never arrived.
            if delivery.state is not None or getattr(delivery, "stream", None) is not None:
                deliveries.append(delivery)
        return deliveries

    def _refuse_forged(self, delivery: IncomingDelivery) -> bool:
        """Refuse a message with another user's user-id, even if it was sent settled; return whether it was refused.

        Raises:
            DecodeError: the message is malformed.
        """
        error = check_user_id(delivery.payload, self._peer.engine.identity, delivery.message_format)
        if error is None:
            return False
        self._refuse_aloud(delivery, error)
        return True

    def _unresolved(self, delivery: IncomingDelivery, error: Error) -> None:
        """Refuse a message that cannot or may not go to its destination.

        If the message named the destination, the error names the delivery (anonymous terminus, §2.2.2). Older dialects
        have their own ways to tell it.
        """
        if self.destination.by_message and not isinstance(delivery, RoutedDelivery):
            info = {"delivery-tag": delivery.tag}
            self._refuse_aloud(delivery, Error(error.condition, error.description, info))
        elif error.condition == "amqp:unauthorized-access":
            self._refuse_aloud(delivery, error)
        else:
            self._reject(delivery, Error(error.condition, error.description))

    def _refuse_aloud(self, delivery: IncomingDelivery, error: Error) -> None:
        """Refuse a message; if it was sent settled, end the link with the error, because no outcome is sent."""
        silent = delivery.local_settled
        self._refuse(delivery, error)
        if silent:
            self._detach(error)

    def _reject(self, delivery: IncomingDelivery, error: Error) -> None:
        # The map is sent even if empty: azure-servicebus for Python waits forever if the field is missing.
        self._refuse(delivery, Error(error.condition, error.description, error.info or {}))

    def _refuse(self, delivery: IncomingDelivery, error: Error) -> None:
        transaction = self._transaction_of(delivery)
        settled, hears = delivery.local_settled, self._may_reject and not delivery.local_settled
        if hears:
            rejected = Rejected(error)
            self._settle(delivery, TransactionalState(transaction.id, rejected) if transaction else rejected)
        if transaction is not None and (not hears or isinstance(delivery, RoutedDelivery)):
            # The transaction must not be committed without the message (§4.4.4.1): its sender does not see the refusal,
            # or in an older dialect need not see it before it commits.
            transaction.failed = Error("amqp:transaction:rollback", f"{error.condition}: {error.description}")
        elif settled:
            self._vhost.unroutable += 1
        if not (settled or hears):
            self._detach(error)

    def _detach(self, error: Error) -> None:
        """End the link with an error, and drop the messages behind it, whose outcomes would not reach the sender."""
        if self._link.attached:
            self._link.detach(closed=True, error=error)
            self._link.materialize(self._link.unmaterialized)
            self._link.incoming.clear()

    def end(self) -> None:
        """End the link."""
        self.destination.end()
