"""Links on which the broker receives messages; where these go is their destination's to say (`destinations`).

An outcome leaves when its message is on the disk: `Connection._before_write` in `_serving.connections` waits for that.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from ...engine import LinkOwner, RoutedDelivery
from ...errors import DecodeError
from ...messaging import ACCEPTED, RELEASED, Error, Rejected, Released, TransactionalState
from ...types import Symbol
from .._errors import Refused
from .._queues.message import QueuedMessage
from .._queues.node import NotTaken
from .terminus import allows
from .user_id import check_user_id

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...engine import IncomingDelivery, ReceiverLink
    from ...messaging import DeliveryState
    from .._peer import Peer
    from .._queues.node import Node
    from .._retained.links import LinkJournal, ResumableLink
    from .._router import Router
    from .._transactions.local import LocalTransaction
    from .destinations import Destination


_UNROUTABLE: Final = ("amqp:not-found", "no queue takes the message")
_EXCHANGE, _ROUTING_KEY = Symbol("x-exchange"), Symbol("x-routing-key")


class ProducerLink(LinkOwner):
    """Puts the messages of a link where its destination says, and tells their outcomes.

    Attributes:
        kept: the state that is kept of the link, if it can be resumed.
    """

    def __init__(self, peer: Peer, link: ReceiverLink, router: Router, destination: Destination) -> None:
        self._peer = peer
        self._link = link
        self._origin = peer.number  # stays: what excludes the messages of a connection knows it by that
        self._router = router
        self.destination = destination
        source = link.remote.source if link.remote is not None else None
        self._may_reject = allows(source, Rejected)  # else the link is what ends
        self._may_release = allows(source, Released)
        self._checks_user = router.check_user_id and not peer.rights.impersonator
        self.kept: ResumableLink | None = None
        self._journal: LinkJournal | None = None

    def make_resumable(self, kept: ResumableLink) -> None:
        """Make the link resumable."""
        self.kept = kept
        self._journal = self._router.links.journal if kept.key.connection is None else None

    def move_to(self, peer: Peer) -> None:
        """Belong to another connection from now on."""
        self._peer = peer
        self.destination.move_to(peer)

    # What the peer sends

    def on_deliveries(self) -> None:
        account = self._peer.maker.account
        if self._router.exhausted:
            self._refuse_all("the broker has no memory left")
        elif account is not None and account.exhausted:
            self._refuse_all(account.reason)
        else:
            self._take()
        self.destination.credit_used()

    def on_flow(self, drained: bool, wasted: int) -> None:
        # Deliveries that were aborted, or were here already, used up credit, too.
        self.destination.credit_used()

    def on_settlements(self, deliveries: Sequence[IncomingDelivery]) -> None:
        if self.kept is not None and self._journal is not None:
            self._journal.settled(self.kept, [delivery.tag for delivery in deliveries])
        self.destination.credit_used()

    def _take(self) -> None:
        """Put what came where it goes, and tell the outcomes."""
        now, origin, account = self._router.clock(), self._origin, self._peer.maker.account
        destination, incoming, store = self.destination, self._link.incoming, self._router.store
        while incoming:
            delivery = incoming.popleft()
            try:
                if self._checks_user and self._refuse_forged(delivery):
                    continue
                route = destination.route(delivery)
                entry = QueuedMessage.read(delivery.payload, delivery.message_format, now, time.time)
            except Refused as error:
                self._unresolved(delivery, error.error)
                continue
            except DecodeError as error:
                self._reject(delivery, "amqp:decode-error", str(error))
                continue
            entry.origin, entry.account = origin, account
            if route.exchange is not None and destination.annotates:
                entry.annotate({_EXCHANGE: route.exchange.name, _ROUTING_KEY: route.key})
            nodes = route.nodes
            if store is not None:
                octets = entry.size * sum(node.copies_stored(entry.durable) for node in nodes)
                if octets and not store.fits(octets):
                    reason = f"the disk of the store has no room for {octets} octets more"
                    self._reject(delivery, "amqp:resource-limit-exceeded", reason)
                    continue
            if len(nodes) == 1 and delivery.remote_state is None:  # as nearly all messages
                try:
                    nodes[0].take(entry)
                except NotTaken as refusal:
                    self._reject(delivery, refusal.condition, str(refusal), refusal.info)
                else:
                    self._settle(delivery, ACCEPTED, entry.durable)
                continue
            # Each queue changes its own entry (position, attempts); the bytes are one.
            self._post(delivery, [(node, entry.copy() if place else entry) for place, node in enumerate(nodes)])

    def _refuse_all(self, description: str) -> None:
        """Take nothing of what came."""
        incoming = self._link.incoming
        while incoming:
            self._reject(incoming.popleft(), "amqp:resource-limit-exceeded", description)

    def _post(self, delivery: IncomingDelivery, posted: list[tuple[Node, QueuedMessage]]) -> None:
        """Put a message that came with a state where it goes, or into the transaction that it names (§4.4.1)."""
        state = delivery.remote_state
        if not isinstance(state, TransactionalState):
            self._put(delivery, posted)
            return
        transaction = self._transaction_of(delivery)
        if transaction is not None:
            try:
                for node, entry in posted:
                    transaction.post(node, entry)
            except NotTaken as refusal:
                self._reject(delivery, refusal.condition, str(refusal), refusal.info)
                return
            if not posted and delivery.local_settled:
                self._drop(delivery)
            elif posted or self._may_release:
                self._settle(delivery, TransactionalState(state.txn_id, ACCEPTED if posted else RELEASED))
            else:
                self._reject(delivery, *_UNROUTABLE)
        elif delivery.local_settled and self._link.attached:
            reason = "a message for a transaction that is not open"
            self._link.detach(closed=True, error=Error(Symbol("amqp:transaction:unknown-id"), reason))
        else:
            self._reject(delivery, "amqp:transaction:unknown-id", "the transaction of the message is not open")

    def _drop(self, delivery: IncomingDelivery) -> None:
        """Drop a message that no queue takes, and that was sent settled in a transaction.

        Where senders name an exchange, they have said with that that they do not mind; elsewhere, see `_reject`.
        """
        if isinstance(delivery, RoutedDelivery):
            self._router.unroutable += 1
        else:
            self._reject(delivery, *_UNROUTABLE)

    def _put(self, delivery: IncomingDelivery, posted: list[tuple[Node, QueuedMessage]]) -> None:
        """Put a message where it goes, copies into several nodes; the sender hears of a node that refused its own."""
        refused: NotTaken | None = None
        for node, entry in posted:
            try:
                node.take(entry)
            except NotTaken as refusal:
                refused = refusal
        if refused is not None:
            self._reject(delivery, refused.condition, str(refused), refused.info)
        elif posted:
            self._settle(delivery, ACCEPTED, posted[0][1].durable)
        elif delivery.local_settled:
            self._router.unroutable += 1
        elif self._may_release:
            self._settle(delivery, RELEASED)
        else:
            self._reject(delivery, *_UNROUTABLE)

    def _transaction_of(self, delivery: IncomingDelivery) -> LocalTransaction | None:
        state = delivery.remote_state
        return self._peer.transaction(state.txn_id) if isinstance(state, TransactionalState) else None

    def _settle(self, delivery: IncomingDelivery, outcome: DeliveryState, lasts: bool = False) -> None:
        """Tell the outcome. `lasts`: so does the message, and both are to outlive the broker."""
        if delivery.local_settled:
            return
        link = self._link
        if delivery.state is None and link.joins(delivery.delivery_id, delivery.tag, outcome):
            delivery.state = outcome  # as the one before it, which is nearly every message
            delivery.local_settled = True
        elif link.attached:
            link.settle(delivery, outcome)
        else:
            # The link is gone by the time its last messages are looked at: the sender hears of it if it resumes.
            delivery.state = outcome
        if not delivery.local_settled:
            delivery.payload = b""  # the outcome is what is left to be known of it
        if lasts and self._journal is not None and self.kept is not None and not delivery.local_settled:
            self._journal.noted(self.kept, delivery.tag, outcome)

    def suspended(self) -> list[IncomingDelivery]:
        """Return the deliveries to keep for the link: outcomes without their messages, and messages cut off."""
        kept = []
        for delivery in self._link.suspended():
            # What is whole and has no outcome nobody has looked at: to the sender it never came.
            if delivery.state is not None or getattr(delivery, "stream", None) is not None:
                kept.append(delivery)
        return kept

    def _refuse_forged(self, delivery: IncomingDelivery) -> bool:
        """Refuse a message with somebody else's user id, aloud even if it was sent settled; return whether it was one.

        Raises:
            DecodeError: it is malformed.
        """
        error = check_user_id(delivery.payload, self._peer.engine.identity, delivery.message_format)
        if error is None:
            return False
        self._refuse_aloud(delivery, error)
        return True

    def _unresolved(self, delivery: IncomingDelivery, error: Error) -> None:
        """Refuse a message that cannot go, or may not, where it says, or where the link does.

        Where messages say that themselves, the error names the delivery (anonymous terminus, §2.2.2). Older dialects
        have ways of their own to say it.
        """
        if self.destination.by_message and not isinstance(delivery, RoutedDelivery):
            info = {Symbol("delivery-tag"): delivery.tag}
            self._refuse_aloud(delivery, Error(error.condition, error.description, info))
        elif error.condition == "amqp:unauthorized-access":
            self._refuse_aloud(delivery, error)
        else:
            self._reject(delivery, str(error.condition), error.description or "")

    def _refuse_aloud(self, delivery: IncomingDelivery, error: Error) -> None:
        """Refuse a message; a sender that settled it, and so hears of no outcome, is told by the end of the link."""
        silent = delivery.local_settled
        self._refuse(delivery, error)
        if silent:
            self._detach(error)

    def _reject(
        self, delivery: IncomingDelivery, condition: str, description: str, info: dict[Symbol, Any] | None = None
    ) -> None:
        # With a map, though an empty one: azure-servicebus for Python waits for ever when the field is not sent.
        self._refuse(delivery, Error(Symbol(condition), description, info or {}))

    def _refuse(self, delivery: IncomingDelivery, error: Error) -> None:
        transaction = self._transaction_of(delivery)
        settled, hears = delivery.local_settled, self._may_reject and not delivery.local_settled
        if hears:
            rejected = Rejected(error)
            self._settle(delivery, TransactionalState(transaction.id, rejected) if transaction else rejected)
        if transaction is not None and (not hears or isinstance(delivery, RoutedDelivery)):
            # The transaction may not be committed without the message (§4.4.4.1), and its sender does not hear of it,
            # or in an older dialect need not listen before it commits.
            transaction.failed = Error(Symbol("amqp:transaction:rollback"), f"{error.condition}: {error.description}")
        elif settled:
            self._router.unroutable += 1
        if not (settled or hears):
            self._detach(error)

    def _detach(self, error: Error) -> None:
        """End the link for what came on it; what came behind that is not done, for its sender does not hear of it."""
        if self._link.attached:
            self._link.detach(closed=True, error=error)
            self._link.incoming.clear()

    def end(self) -> None:
        """End the link."""
        self.destination.end()
