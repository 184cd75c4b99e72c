"""Links on which the broker receives messages into a node; those into several are in `_routed`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from ..engine import RoutedDelivery
from ..errors import DecodeError
from ..messaging import ACCEPTED, RELEASED, Error, Rejected, Released, TransactionalState
from ..types import Symbol
from ._address import AddressError
from ._claims import forged
from ._entry import Entry
from ._node import NodeFull, Producer
from ._terminus import allows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..engine import IncomingDelivery, ReceiverLink
    from ..messaging import DeliveryState
    from ._connection import Peer
    from ._coordinator import LocalTransaction
    from ._node import Node
    from ._router import Router
    from ._suspended import Keeper, KeptLink


_UNROUTABLE: Final = ("amqp:not-found", "no queue takes the message")
MOST_UNSETTLED = 10_000
"""Outcomes that one sender is told and does not settle (receiver-settle-mode "second"); it gets no credit for more."""


class ProducerLink(Producer):
    """A link to one node."""

    _alone = True  # messages go to the node, and nowhere else

    def __init__(self, peer: Peer, link: ReceiverLink, router: Router, node: Node | None) -> None:
        self._peer = peer
        self._link = link
        self._router = router
        self._node = node
        source = link.remote.source if link.remote is not None else None
        self._may_reject = allows(source, Rejected)  # else the link is what ends
        self._may_release = allows(source, Released)
        self._rights = peer.rights
        self._checks_user = router.check_user_id and not peer.rights.impersonator
        self.kept: KeptLink | None = None
        self._keeper: Keeper | None = None

    def kept_as(self, kept: KeptLink) -> None:
        """The link can be resumed."""
        self.kept = kept
        self._keeper = self._router.links.keeper if kept.key.connection is None else None

    def begin(self) -> None:
        """The link is attached: the node grants it credit when the pass ends."""
        if self._node is not None:
            self._node.add_producer(self)

    # What the node asks for

    @property
    def credit(self) -> int:
        return self._link.credit

    def grant(self, node: Node, credit: int) -> None:
        credit = min(credit, self._room)
        if self._link.attached and credit != self._link.credit:
            self._link.flow(credit)
            self._peer.wake()

    @property
    def _room(self) -> int:
        """How many messages more may come before the sender settles some, unless the broker is blocked."""
        return 0 if self._peer.blocked is not None else max(0, MOST_UNSETTLED - len(self._link.unsettled))

    def blocked_or_not(self) -> None:
        """The broker is blocked, or is not any more."""
        assert self._node is not None
        if self._peer.blocked is not None:
            self.grant(self._node, 0)
        elif not self._node.deleted:
            self._node.tight = True  # deals out all credit anew
            self._node.touch()

    def relaxed(self, node: Node) -> None:
        """It is the node's for as long as the link lives."""

    def node_deleted(self, error: Error) -> None:
        if self._link.attached:
            self._link.detach(closed=True, error=error)
            self._peer.wake()

    # What the peer sends

    def take(self) -> None:
        """Move what came into the node, and say so; once for all messages of a pass."""
        link, node, now = self._link, self._node, self._router.clock()
        assert node is not None
        origin, account, alone = self._peer.number, self._peer.maker.account, self._alone
        incoming = link.incoming
        while incoming:
            delivery = incoming.popleft()
            try:
                if self._checks_user and self._refuse_forged(delivery):
                    continue
                entry = Entry.read(delivery.payload, delivery.message_format, now, time.time)
                copies = () if alone else self._copies(delivery.payload, entry)
            except DecodeError as error:
                self._reject(delivery, "amqp:decode-error", str(error))
                continue
            except AddressError as error:
                self._unresolved(delivery, error.error)
                continue
            entry.origin, entry.account = origin, account
            if delivery.remote_state is None and not copies:
                try:
                    node.take(entry)
                except NodeFull as full:
                    self._reject(delivery, "amqp:resource-limit-exceeded", str(full))
                    continue
                self._settle(delivery, ACCEPTED, entry.durable)
            else:
                self._post(delivery, [(node, entry), *copies])
        self.credit_used()

    def refuse_all(self, description: str) -> None:
        """Take nothing of what came."""
        incoming = self._link.incoming
        while incoming:
            self._reject(incoming.popleft(), "amqp:resource-limit-exceeded", description)
        self.credit_used()

    def _copies(self, payload: bytes, entry: Entry) -> Sequence[tuple[Node, Entry]]:
        """What goes where else; asked only if messages do not go to the node alone.

        Raises:
            AddressError: the message says it in no way that means something.
            DecodeError: it is malformed.
        """
        return ()

    def credit_used(self) -> None:
        """It may be time for more credit."""
        if self._link.attached and self._node is not None:
            self._node.replenish(self)

    def _post(self, delivery: IncomingDelivery, posted: list[tuple[Node, Entry]]) -> None:
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
            except NodeFull as full:
                self._reject(delivery, "amqp:resource-limit-exceeded", str(full))
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
        """No queue takes a message that was sent settled in a transaction.

        Where senders name an exchange, they have said with that that they do not mind; elsewhere, see `_reject`.
        """
        if isinstance(delivery, RoutedDelivery):
            self._router.unroutable += 1
        else:
            self._reject(delivery, *_UNROUTABLE)

    def _put(self, delivery: IncomingDelivery, posted: list[tuple[Node, Entry]]) -> None:
        """Put a message where it goes, copies into several nodes; the sender hears of a node that refused its own."""
        refused: NodeFull | None = None
        for node, entry in posted:
            try:
                node.take(entry)
            except NodeFull as full:
                refused = full
        if refused is not None:
            self._reject(delivery, "amqp:resource-limit-exceeded", str(refused))
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
        if self._link.attached:
            self._link.settle(delivery, outcome)
        else:
            # The link is gone by the time its last messages are looked at: the sender hears of it if it resumes.
            delivery.state = outcome
        if not delivery.local_settled:
            delivery.payload = b""  # the outcome is what is left to be known of it
        if lasts and self._keeper is not None and self.kept is not None and not delivery.local_settled:
            self._keeper.noted(self.kept, delivery.tag, outcome)

    def suspended(self) -> list[IncomingDelivery]:
        """What is to be kept of the link: outcomes without their messages, and what came of a message cut off."""
        kept = []
        for delivery in self._link.suspended():
            # What is whole and has no outcome nobody has looked at: to the sender it never came.
            if delivery.state is not None or getattr(delivery, "stream", None) is not None:
                kept.append(delivery)
        return kept

    def _refuse_forged(self, delivery: IncomingDelivery) -> bool:
        """Not to take what says that it is somebody else's; nor is it dropped without a word, if it was sent settled.

        Raises:
            DecodeError: it is malformed.
        """
        error = forged(delivery.payload, self._peer.engine.identity, delivery.message_format)
        if error is None:
            return False
        self._refuse_aloud(delivery, error)
        return True

    def _unresolved(self, delivery: IncomingDelivery, error: Error) -> None:
        """Refuse a message that cannot go, or may not, where it says, or where the link does."""
        if error.condition == "amqp:unauthorized-access":
            self._refuse_aloud(delivery, error)
        else:
            self._reject(delivery, str(error.condition), error.description or "")

    def _refuse_aloud(self, delivery: IncomingDelivery, error: Error) -> None:
        """Refuse a message; a sender that settled it, and so hears of no outcome, is told by the end of the link."""
        silent = delivery.local_settled
        self._refuse(delivery, error)
        if silent:
            self._detach(error)

    def _reject(self, delivery: IncomingDelivery, condition: str, description: str) -> None:
        self._refuse(delivery, Error(Symbol(condition), description))

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
        """The link is over."""
        if self._node is not None:
            self._node.remove_producer(self)
