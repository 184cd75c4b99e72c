"""One peer of the broker: what its engine tells becomes links to nodes. No I/O here, and no queue."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from ..engine import (
    ConnectionEnded,
    ConnectionOpened,
    ConnectionTerms,
    CreditChanged,
    DeliveriesReceived,
    DeliveriesUnresumed,
    Engine,
    Event,
    FlowReceived,
    Link,
    LinkAttached,
    LinkEnded,
    LinkTerms,
    OutcomesReceived,
    ReceiverLink,
    RequestReceived,
    SenderLink,
    Session,
    SessionBegun,
    SessionResumed,
    SessionTerms,
    SessionUnmapped,
    SettlementsReceived,
    WindowOpened,
)
from ..errors import EncodeError, LinkDetached, LocalProtocolError, RemoteProtocolError
from ..messaging import NEWEST_CONNECTION, Coordinator, Error, Source, Target, TransactionalState
from ..types import Symbol
from ._address import exchange_in
from ._consumer import ConsumerLink, PassingConsumerLink, Wishes
from ._coordinator import CoordinatorLink, LocalTransaction
from ._filters import read_filters
from ._kept_sessions import PeerKeeper
from ._node import Node
from ._producer import ProducerLink
from ._queue import Queue
from ._requests import Requests, check_owner
from ._routed import AnonymousProducerLink, ExchangeProducerLink
from ._router import AddressError, Router
from ._subscriptions import Lasting, Leaving, Lifetime, Owner, key_of, lasts
from ._suspended import Direction, KeptLink, LinkKey, keeps
from ._terminus import (
    address_of,
    answer_source,
    answer_target,
    copies,
    default_outcome,
    may_reject,
)
from ._topic import Topic


@dataclass(frozen=True, slots=True)
class PeerTerms:
    """What the broker says to every peer: limits of connections, sessions and links."""

    connection: ConnectionTerms
    session: SessionTerms
    max_message_size: int | None


class Carrier(ABC):
    """Who carries a peer's bytes, seen from the peer."""

    @abstractmethod
    def wake(self) -> None:
        """Write the engine's output soon; called when another peer's doings made some. Cheap."""

    @abstractmethod
    def blocked(self) -> bool:
        """Whether the output is full just now; asked before each message. If so, `Peer.resume` is called in time."""

    @abstractmethod
    def opened(self) -> Error | None:
        """The peer has opened; why it is not taken, or None."""

    @abstractmethod
    def ended(self) -> None:
        """The connection is over; may be said twice."""


class Absent(Carrier):
    """In the place of a connection that was lost, while its sessions are kept."""

    def wake(self) -> None:
        """Nobody writes."""

    def blocked(self) -> bool:
        return True

    def opened(self) -> Error | None:
        return None

    def ended(self) -> None:
        """It has."""


_numbers = itertools.count(1)


class Peer:
    """One connection, as the broker sees it.

    Whoever drives the engine gives every batch of events to `handle`, and calls `resume` when output that was held up
    (`full`) has gone.

    `lost` ends what is left, when the driving ends in whatever way.

    Attributes:
        number: no other connection of the process has it.
        transactions: those that are not discharged, by their ids.
        open_transactions: those of all peers, and how long they may take.
        keeper: who is told of links that can be resumed; None for nobody.
    """

    def __init__(self, engine: Engine, router: Router, terms: PeerTerms, carrier: Carrier) -> None:
        self.engine = engine
        self.wake = carrier.wake
        self.number = next(_numbers)
        self._router = router
        self._terms = terms
        self._carrier = carrier
        self._consumers: dict[SenderLink, ConsumerLink] = {}
        self._producers: dict[ReceiverLink, ProducerLink | CoordinatorLink] = {}
        self.transactions: dict[bytes, LocalTransaction] = {}
        self.open_transactions = router.transactions
        self.keeper = router.links.keeper
        self._asked: list[CoordinatorLink] = []  # in this pass
        self._lasting: dict[Link, Lasting] = {}  # subscriptions that may outlive their links
        self._kept: dict[Link, KeptLink] = {}  # links that can be resumed
        self._late: list[Event] = []  # what resuming links has brought in this pass
        self._owned: dict[Link, Node] = {}  # dynamic nodes, by the link that they live with
        self._proprietor: object = self  # whose its exclusive queues are
        self._requests = Requests(router, self)
        self._merged: list[Peer] = []  # of connections before, whose sessions go on on this one
        engine.context = self
        engine.keeper = PeerKeeper(router.sessions, self)

    @property
    def _owner(self) -> Owner:
        """Whose the peer's subscriptions are."""
        return self.engine.identity, self.engine.remote.container_id if self.engine.remote is not None else ""

    @property
    def full(self) -> bool:
        """The peer does not read as fast as there would be messages for it."""
        return self._carrier.blocked()

    def handle(self, events: Iterable[Event]) -> None:
        """Act on what happened; at the end of it all nodes concerned have had their pass."""
        self._act(events)
        while self._late:
            late, self._late = self._late, []
            self._act(late)
        if self._asked:
            # What belongs to a transaction was said before its discharge, on other links, and has been seen by now.
            for coordinator in self._asked:
                coordinator.take()
            self._asked.clear()
        self._router.flush()

    def _act(self, events: Iterable[Event]) -> None:
        for event in events:
            action = _ACTIONS.get(type(event))
            if action is not None:
                action(self, event)

    def resume(self) -> None:
        """The output has room again."""
        for consumer in self._consumers.values():
            consumer.credit_changed()
        self._router.flush()

    def lost(self) -> None:
        """The connection is over, told or not: links end, what they held goes back. Does nothing the second time."""
        # Producers first, and so coordinators: what their transactions held is the consumers' to give back.
        for link in [*self._producers, *self._consumers]:
            if not link.session.suspended:
                self._end_link(link)
        carrier = self._carrier
        if self._router.sessions.connection_lost(self):
            self._carrier = absent = Absent()
            self.wake = absent.wake
        else:
            self._let_go()
        self._router.flush()
        carrier.ended()

    def _let_go(self) -> None:
        """Nothing of the connection is left."""
        for each in (self, *self._merged):
            each._requests.end()
            self._router.subscriptions.connection_ended(each)
            self._router.links.connection_ended(each)

    # Sessions that outlive their connection

    def carried_by(self, carrier: Carrier) -> bool:
        """Whether it is that one: not, when the sessions went on on another connection."""
        return self._carrier is carrier

    def robbed(self, session: Session) -> None:
        """The client takes a session up on another connection: this one has nothing to say any more."""
        session.suspend()
        for link in [*self._producers, *self._consumers]:
            if not link.session.suspended:
                self._end_link(link)
        self.engine.close(_error("amqp:connection:forced", "its session goes on on another connection"))
        self.wake()

    def _on_resumed(self, event: SessionResumed) -> None:
        """A session of a connection before goes on: so does whoever had its links, and takes over what is here."""
        before = self._router.sessions.peer_of(event.session)
        if before is None or before is self:
            return
        before.engine, before._carrier, before.wake = self.engine, self._carrier, self.wake
        self._consumers |= before._consumers
        self._producers |= before._producers
        self._kept |= before._kept
        self._lasting |= before._lasting
        self._owned |= before._owned
        self.transactions |= before.transactions
        before.transactions = self.transactions
        self._proprietor, self._requests = before._proprietor, before._requests
        self._merged += [before, *before._merged]
        self._router.sessions.moved(event.session, self)
        for link, consumer in self._consumers.items():
            if link.session is event.session:
                consumer.credit_changed()

    def session_expired(self, session: Session) -> None:
        """Nobody came back for it."""
        for link in [*self._producers, *self._consumers]:
            if link.session is session:
                self._end_link(link)
        if not self._producers and not self._consumers:
            self._let_go()
        self._router.flush()

    def transaction(self, txn_id: object) -> LocalTransaction | None:
        """The transaction of that id, if it takes work."""
        transaction = self.transactions.get(txn_id) if isinstance(txn_id, bytes) else None
        return None if transaction is None or transaction.expired else transaction

    def posts_in_part(self, txn_id: bytes) -> bool:
        """Whether a message of that transaction is still coming in."""
        states = (link.partial_state for link in self._producers)
        return any(isinstance(state, TransactionalState) and state.txn_id == txn_id for state in states)

    # Connection and sessions

    def _on_opened(self, event: ConnectionOpened) -> None:
        refusal = self._carrier.opened()
        self.engine.open(self._terms.connection)
        if refusal is not None:
            self.engine.close(refusal)

    def _on_session(self, event: SessionBegun) -> None:
        if event.session.terms is None:
            event.session.begin(self._terms.session)

    def _on_session_ended(self, event: SessionUnmapped) -> None:
        self._router.subscriptions.session_ended(event.session)
        self._router.links.session_ended(event.session)
        self._router.sessions.session_ended(event.session)

    def _on_window(self, event: WindowOpened) -> None:
        for link, consumer in self._consumers.items():
            if link.session is event.session:
                consumer.credit_changed()

    def _on_request(self, event: RequestReceived) -> None:
        self._requests.answer(event.request)

    def _on_ended(self, event: ConnectionEnded) -> None:
        self.lost()

    # Links

    def _on_attached(self, event: LinkAttached) -> None:
        link = event.link
        if link.terms is not None or link.remote is None:
            return  # ended again before we came to answer
        try:
            if isinstance(link, SenderLink):
                self._attach_consumer(link, link.remote)
            elif isinstance(link, ReceiverLink):
                self._attach_producer(link, link.remote)
        except AddressError as refusal:
            link.refuse(refusal.error)
        except (LocalProtocolError, EncodeError) as error:
            # An answer larger than the peer's frames, for one.
            link.refuse(_error("amqp:not-allowed", str(error)))

    def _attach_consumer(self, link: SenderLink, remote: LinkTerms) -> None:
        source, key, subscriptions = remote.source, None, self._router.subscriptions
        if source is None:
            # The peer knows the name only: it is to have what is kept under it, mostly to end it (§2.6.3).
            kept = subscriptions.find(self._owner, link.name, remote.desired_capabilities)
            source, key = kept.source, kept.key
        if not isinstance(source, Source):
            raise AddressError("amqp:invalid-field", "to receive, a link needs a source")
        node = self._node_of(link, source)
        if node is None:
            raise AddressError("amqp:invalid-field", "to receive, a source needs an address")
        check_owner(node, self._proprietor)
        try:
            copying = copies(source, node)
            filters, filtering = read_filters(source.filter, self.number)
            outcome = default_outcome(source)
            settles = remote.settle_mode == "settled"
            wishes = Wishes.of(remote, copying=copying)
            if key is None and isinstance(node, Topic) and not source.dynamic and lasts(source):
                key = key_of(self._owner, link.name, source)
            in_use: Node | None = node
            if isinstance(node, Topic):
                in_use = subscriptions.check(key, node, filters) if key is not None else None
            before = None
            resumable = keeps(source) and not copying and not settles and "shared" not in source.capabilities
            if resumable:
                before = self._claim(link, "out")
            stays = not copying and not wishes.passing
            if isinstance(in_use, Queue) and stays and in_use.locked(wishes.exclusive):
                reason = f"a consumer of {node.name!r} is to be the only one"
                raise AddressError("amqp:resource-locked", reason, reply_code=403)
            standing: Node | None = node
            if isinstance(node, Topic):
                standing = subscriptions.standing(key, node, filters) if key is not None else None
            resumed = before if self._goes_on(before, standing, remote) else None
            link.attach(
                LinkTerms(
                    name=link.name,
                    source=answer_source(
                        source,
                        node,
                        copying=copying,
                        outcome=outcome,
                        dynamic=link in self._owned,
                        filters=filters,
                        lifetime=subscriptions.lifetime(source) if key is not None or resumable else None,
                        durable=self._router.durability(source, subscription=key is not None, resumable=resumable),
                    ),
                    target=remote.target,
                    settle_mode="settled" if settles else "unsettled",
                    receiver_settle_mode=remote.receiver_settle_mode,
                    properties=wishes.properties(),
                ),
                resuming=resumed.deliveries if resumed is not None else None,
            )
        except (AddressError, LocalProtocolError, EncodeError):
            self._delete_owned(link)
            raise
        lasting, queue = None, node
        if isinstance(node, Topic) and key is not None:
            lasting = subscriptions.join(key, node, source, filters, filtering)
            queue = lasting.queue
        elif isinstance(node, Topic):
            queue = node.subscribe(filtering)
        assert isinstance(queue, Queue)
        kind = PassingConsumerLink if wishes.passing else ConsumerLink
        consumer = kind(self, link, queue, copies=copying, settles=settles, default_outcome=outcome)
        consumer.priority, consumer.exclusive = wishes.priority, wishes.exclusive
        # A subscription has nothing in it that does not pass.
        consumer.filtering = filtering if queue is node else None
        self._consumers[link] = consumer
        link.context = consumer
        if resumable:
            consumer.kept_as(self._keep(link, "out", queue, subscriptions.lifetime(source), before, resumed))
        if lasting is not None:
            self._lasting[link] = lasting
            lasting.links[link] = lambda: self._stolen(link)
        consumer.begin()

    # Links that can be resumed

    def _link_key(self, link: Link, direction: Direction) -> LinkKey:
        return LinkKey(self._owner, link.name, direction)

    def _claim(self, link: Link, direction: Direction) -> KeptLink | None:
        """What is kept of it; whoever has it loses it, unless the attach comes late from a connection that was lost."""
        key = self._link_key(link, direction)
        newest = link.remote is not None and link.remote.properties.get(NEWEST_CONNECTION)
        if newest and self._router.links.is_late(key, self.number):
            raise AddressError("amqp:link:stolen", f"a newer connection has the link {link.name!r}")
        return self._router.links.claim(key)

    def _goes_on(self, before: KeptLink | None, node: Node | None, remote: LinkTerms) -> bool:
        """Whether an attach resumes what was kept of the link before."""
        gone = before is None or (before.node is not None and before.node.deleted)
        return not gone and before is not None and before.node is node and remote.unsettled is not None

    def _keep(
        self,
        link: Link,
        direction: Direction,
        node: Node | None,
        lifetime: Lifetime,
        before: KeptLink | None,
        resumed: KeptLink | None,
    ) -> KeptLink:
        """A link that can be resumed is attached."""
        kept = resumed if resumed is not None else KeptLink(self._link_key(link, direction), node, lifetime)
        kept.lifetime, kept.holder = lifetime, self.number
        kept.steal = lambda: self._stolen(link)
        self._router.links.begin(kept, before)
        self._kept[link] = kept
        if resumed is not None:
            # What the two maps told is to be acted on in this pass.
            self._late += self.engine.events()
        return kept

    def _stolen(self, link: Link) -> None:
        """Another link of that name took what it had (§2.6.1)."""
        link.detach(closed=False, error=_error("amqp:link:stolen", f"another link has the name {link.name!r} now"))
        self._end_link(link)
        self.wake()

    def _attach_producer(self, link: ReceiverLink, remote: LinkTerms) -> None:
        target = remote.target
        if isinstance(target, Coordinator):
            coordinator = CoordinatorLink(self, link, may_reject=may_reject(remote.source))
            coordinator.begin(remote)
            self._producers[link] = coordinator
            return
        if target is not None and not isinstance(target, Target):
            raise AddressError("amqp:not-implemented", f"a target of type {type(target).__name__}")
        if target is None:
            raise AddressError("amqp:invalid-field", "to send, a link needs a target")
        address = address_of(target)
        exchange = None if target.dynamic or address is None else exchange_in(address)
        if exchange is not None:
            self._router.topology.find(exchange.exchange, publishing=True)
            node = None
        else:
            node = self._node_of(link, target)
        before, lifetime = None, None
        durable = self._router.durability(target, subscription=False, resumable=keeps(target))
        if keeps(target):
            lifetime = self._router.subscriptions.lifetime(target)
            before = self._claim(link, "in")
        resumed = before if self._goes_on(before, node, remote) else None
        try:
            link.attach(
                LinkTerms(
                    name=link.name,
                    source=remote.source,
                    target=answer_target(target, node, dynamic=link in self._owned, lifetime=lifetime, durable=durable),
                    settle_mode=remote.settle_mode,
                    receiver_settle_mode=remote.receiver_settle_mode,
                    max_message_size=self._terms.max_message_size,
                ),
                resuming=resumed.deliveries if resumed is not None else None,
            )
        except (LocalProtocolError, EncodeError):
            self._delete_owned(link)
            raise
        rejects = may_reject(remote.source)
        if exchange is not None and address is not None:
            producer: ProducerLink = ExchangeProducerLink(self, link, self._router, address, may_reject=rejects)
        elif node is None:
            producer = AnonymousProducerLink(self, link, self._router, may_reject=rejects)
        else:
            producer = ProducerLink(self, link, self._router, node, may_reject=rejects)
        self._producers[link] = producer
        link.context = producer
        if lifetime is not None:
            producer.kept = self._keep(link, "in", node, lifetime, before, resumed)
        producer.begin()

    def _node_of(self, link: Link, terminus: Source | Target) -> Node | None:
        """The node that a terminus means; made for this link if it is dynamic; None if it has no address."""
        if terminus.dynamic:
            node = self._owned[link] = self._router.temporary(terminus.capabilities)
            return node
        address = address_of(terminus)
        if address is None:
            return None
        on_demand = link.remote is None or link.remote.on_demand
        return self._router.resolve(address, terminus.capabilities, on_demand=on_demand)

    def _on_credit(self, event: CreditChanged) -> None:
        consumer = self._consumers.get(event.link)
        if consumer is not None:
            if event.link.properties:
                consumer.flow_properties()
            consumer.credit_changed()

    def _on_deliveries(self, event: DeliveriesReceived) -> None:
        producer = self._producers.get(event.link)
        if isinstance(producer, CoordinatorLink):
            self._asked.append(producer)
        elif producer is not None:
            producer.take()

    def _on_outcomes(self, event: OutcomesReceived) -> None:
        consumer = self._consumers.get(event.link)
        if consumer is not None:
            consumer.outcomes(event.deliveries)

    def _on_flow(self, event: FlowReceived) -> None:
        # Deliveries that were aborted, or were here already, used up credit, too.
        producer = self._producers.get(event.link)
        if isinstance(producer, ProducerLink):
            producer.credit_used()

    def _on_unresumed(self, event: DeliveriesUnresumed) -> None:
        # A producer's are the sender's to send again.
        consumer = self._consumers.get(event.link) if isinstance(event.link, SenderLink) else None
        if consumer is not None:
            consumer.unresumed(event.deliveries)  # type: ignore[arg-type]

    def _on_settlements(self, event: SettlementsReceived) -> None:
        kept, keeper = self._kept.get(event.link), self._router.links.keeper
        if kept is not None and keeper is not None:
            keeper.settled(kept, [delivery.tag for delivery in event.deliveries])
        producer = self._producers.get(event.link)
        if isinstance(producer, ProducerLink):
            producer.credit_used()

    def _on_link_ended(self, event: LinkEnded) -> None:
        # What we end for a fault, or because the link was attached elsewhere, is no wish of the peer's.
        ours = isinstance(event.error, RemoteProtocolError)
        kept = self._kept.get(event.link)
        if kept is not None and isinstance(event.error, LinkDetached | None):
            kept.holder = 0  # it has let go of it
        self._end_link(event.link, "closed" if event.closed and not ours else "detached")

    def _end_link(self, link: Link, how: Leaving = "detached") -> None:
        kept = self._kept.pop(link, None)
        if isinstance(link, SenderLink):
            consumer = self._consumers.pop(link, None)
            if consumer is not None:
                held = consumer.suspended() if kept is not None and how != "closed" else []
                consumer.end(held)
                self._suspend(kept, held, consumer.give_back, link, how)
        elif isinstance(link, ReceiverLink):
            producer = self._producers.pop(link, None)
            if producer is not None:
                producer.end()
            if isinstance(producer, ProducerLink):
                self._suspend(kept, producer.suspended() if kept is not None else [], _nothing, link, how)
        lasting = self._lasting.pop(link, None)
        if lasting is not None:
            self._router.subscriptions.leave(lasting, link, how, link.session, self)
        self._delete_owned(link)

    def _suspend(
        self,
        kept: KeptLink | None,
        deliveries: list[Any],
        give_back: Callable[[list[Any]], None],
        link: Link,
        how: Leaving,
    ) -> None:
        if kept is None:
            return
        if how == "closed":
            self._router.links.end(kept)
        else:
            self._router.links.suspend(kept, deliveries, give_back, link.session, self)

    def _delete_owned(self, link: Link) -> None:
        node = self._owned.pop(link, None)
        if node is not None:
            self._router.delete(node)


def _nothing(deliveries: list[Any]) -> None:
    """What is kept of a producer ends without a trace."""


def _error(condition: str, description: str) -> Error:
    return Error(Symbol(condition), description)


_ACTIONS: dict[type[Event], Callable[[Peer, Any], None]] = {
    ConnectionOpened: Peer._on_opened,
    ConnectionEnded: Peer._on_ended,
    RequestReceived: Peer._on_request,
    SessionBegun: Peer._on_session,
    SessionResumed: Peer._on_resumed,
    SessionUnmapped: Peer._on_session_ended,
    WindowOpened: Peer._on_window,
    LinkAttached: Peer._on_attached,
    LinkEnded: Peer._on_link_ended,
    CreditChanged: Peer._on_credit,
    DeliveriesReceived: Peer._on_deliveries,
    OutcomesReceived: Peer._on_outcomes,
    DeliveriesUnresumed: Peer._on_unresumed,
    FlowReceived: Peer._on_flow,
    SettlementsReceived: Peer._on_settlements,
}
