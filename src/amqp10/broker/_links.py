"""The links of one peer: each attach becomes a consumer of a node or a producer for one, until it ends."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from ..engine import (
    CreditChanged,
    DeliveriesReceived,
    DeliveriesUnresumed,
    Event,
    FlowReceived,
    Link,
    LinkAttached,
    LinkEnded,
    LinkTerms,
    OutcomesReceived,
    OutgoingDelivery,
    ReceiverLink,
    SenderLink,
    Session,
    SettlementsReceived,
)
from ..errors import EncodeError, LinkDetached, LocalProtocolError, RemoteProtocolError
from ..messaging import NEWEST_CONNECTION, ONLY_TO_RESUME, Coordinator, Error, Rejected, Source, Target
from ..types import Symbol
from ._address import QUEUES, exchange_in
from ._consumer import ConsumerLink, PassingConsumerLink, Wishes
from ._coordinator import CoordinatorLink
from ._faults import attempt
from ._filters import read_filters
from ._limits import check_count, check_name
from ._link_pairs import LinkPairs
from ._management import Management
from ._node import Node
from ._producer import ProducerLink
from ._queue import Queue
from ._requests import check_owner
from ._routed import AnonymousProducerLink, ExchangeProducerLink, QueueProducerLink
from ._router import AddressError, Router
from ._stream import Stream
from ._stream_place import NEXT, place_in, read_stream_filters
from ._subscriptions import Lasting, Leaving, Lifetime, key_of, lasts
from ._suspended import Direction, KeptLink, LinkKey, keeps
from ._terminus import (
    address_of,
    allows,
    answer_source,
    answer_target,
    check_dynamic,
    copies,
    default_outcome,
)
from ._topic import Topic

if TYPE_CHECKING:
    from ._carrier import PeerTerms
    from ._connection import Peer


class PeerLinks:
    """What a peer's engine tells of links is done here.

    Attributes:
        consumers: by their links; a link on which the broker sends takes out of a queue.
        producers: by their links; those to coordinators among them.
        owned: dynamic nodes, by the link that they live with.
        pairs: links to the management node.
        began: a link was attached here; all others were taken over.
    """

    def __init__(self, peer: Peer, router: Router, terms: PeerTerms) -> None:
        self.consumers: dict[SenderLink, ConsumerLink] = {}
        self.producers: dict[ReceiverLink, ProducerLink | CoordinatorLink] = {}
        self.owned: dict[Link, Node] = {}
        self.began = False
        management = Management(router, peer, terms.connection.container_id)
        self.pairs = LinkPairs(peer, management, terms.max_message_size)
        self._peer = peer
        self._router = router
        self._max_message_size = terms.max_message_size
        self._lasting: dict[Link, Lasting] = {}  # subscriptions that may outlive their links
        self._kept: dict[Link, KeptLink] = {}  # links that can be resumed
        self._asked: list[CoordinatorLink] = []  # in this pass
        self._late: list[Event] = []  # what resuming links has brought in this pass

    # Of the pass

    def late(self) -> list[Event]:
        """What resuming links has brought, to be acted on in this pass still."""
        late, self._late = self._late, []
        return late

    def coordinate(self) -> None:
        """Do what transactions asked for: what belongs to them was said before, on other links, and has been seen."""
        if self._asked:
            for coordinator in self._asked:
                coordinator.take()
            self._asked.clear()

    # Attaching

    def on_attached(self, event: LinkAttached) -> None:
        link = event.link
        if link.terms is not None or link.remote is None:
            return  # ended again before we came to answer
        self.began = True
        try:
            limits = self._router.peers
            check_name("a link's name", link.name, limits.name)
            check_count("links of one connection", len(self.consumers) + len(self.producers), limits.links)
            if self.pairs.attach(link):
                return
            if isinstance(link, SenderLink):
                self._attach_consumer(link, link.remote)
            elif isinstance(link, ReceiverLink):
                self._attach_producer(link, link.remote)
        except AddressError as refusal:
            link.refuse(refusal.error)
        except (LocalProtocolError, EncodeError) as error:
            # An answer larger than the peer's frames, for one.
            condition = error.condition if isinstance(error, LocalProtocolError) else None
            link.refuse(_error(condition or "amqp:not-allowed", str(error)))

    def _attach_consumer(self, link: SenderLink, remote: LinkTerms) -> None:
        source, key, subscriptions = remote.source, None, self._router.subscriptions
        if source is None:
            # The peer knows the name only: it is to have what is kept under it, mostly to end it (§2.6.3).
            kept = subscriptions.find(self._peer.owner, link.name, remote.desired_capabilities)
            source, key = kept.source, kept.key
        if not isinstance(source, Source):
            raise AddressError("amqp:invalid-field", "to receive, a link needs a source")
        node = self._node_of(link, source)
        if node is None:
            raise AddressError("amqp:invalid-field", "to receive, a source needs an address")
        check_owner(node, self._peer.proprietor)
        try:
            copying = copies(source, node)
            filters, filtering = read_filters(source.filter, self._peer.number)
            place = NEXT
            if isinstance(node, Stream):
                place, filters, filtering = read_stream_filters(source.filter, filters, filtering)
            outcome = default_outcome(source)
            settles = remote.settle_mode == "settled"
            wishes = Wishes.of(remote, copying=copying)
            if key is None and isinstance(node, Topic) and not source.dynamic and lasts(source):
                key = key_of(self._peer.owner, link.name, source)
            in_use: Node | None = node
            if isinstance(node, Topic):
                in_use = subscriptions.check(key, node, filters) if key is not None else None
            before = None
            kept_by = self._kept_by(link, source, "out")
            unkept = copying or settles or "shared" in source.capabilities
            if (unkept or (isinstance(node, Topic) and key is None)) and not source.dynamic:
                kept_by = None
            if kept_by is not None:
                before = self._claim(link, kept_by[0])
            resumable = kept_by is not None and kept_by[0].connection is None
            lifetime = subscriptions.lifetime(source) if key is not None else kept_by[1] if kept_by else None
            stays = not copying and not wishes.passing
            if isinstance(node, Stream) and wishes.passing:
                reason = f"{node.name!r} is a stream: its messages are not got one by one"
                raise AddressError("amqp:not-implemented", reason, reply_code=540)
            if isinstance(in_use, Queue) and stays and in_use.locked(wishes.exclusive):
                reason = f"a consumer of {node.name!r} is to be the only one"
                raise AddressError("amqp:resource-locked", reason, reply_code=403)
            standing: Node | None = node
            if isinstance(node, Topic):
                standing = subscriptions.standing(key, node, filters) if key is not None else None
                if standing is None:
                    self._router.make_room(node.name)  # for a subscription
            resumed = self._resumed(before, standing, remote)
            link.attach(
                LinkTerms(
                    name=link.name,
                    source=answer_source(
                        source,
                        node,
                        copying=copying,
                        outcome=outcome,
                        dynamic=source.dynamic,
                        filters=filters,
                        lifetime=lifetime,
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
        consumer = kind(self._peer, link, queue, copies=copying, settles=settles, default_outcome=outcome)
        consumer.priority, consumer.exclusive = wishes.priority, wishes.exclusive
        # A subscription has nothing in it that does not pass.
        consumer.filtering = filtering if queue is node else None
        consumer.place = place
        self.consumers[link] = consumer
        link.context = consumer
        link.lingers = "resume" in self._peer.engine.capabilities
        if kept_by is not None:
            consumer.kept_as(self._keep(link, *kept_by, queue, before, resumed, owned=node))
        if lasting is not None:
            self._lasting[link] = lasting
            lasting.links[link] = lambda: self._stolen(link)
        consumer.begin()

    # Links that can be resumed

    def _kept_by(self, link: Link, terminus: Source | Target, direction: Direction) -> tuple[LinkKey, Lifetime] | None:
        """Where a link is found again, and for how long; None for one that ends when it is detached."""
        if keeps(terminus):
            return LinkKey(self._peer.owner, link.name, direction), self._router.subscriptions.lifetime(terminus)
        if terminus.expiry_policy == "link-detach" or "resume" not in self._peer.engine.capabilities:
            return None
        return LinkKey(self._peer.owner, link.name, direction, self._peer), Lifetime("session-end")

    def _claim(self, link: Link, key: LinkKey) -> KeptLink | None:
        """What is kept of it; whoever has it loses it, unless the attach comes late from a connection that was lost."""
        newest = link.remote is not None and link.remote.properties.get(NEWEST_CONNECTION)
        if newest and self._router.links.is_late(key, self._peer.number):
            raise AddressError("amqp:link:stolen", f"a newer connection has the link {link.name!r}")
        return self._router.links.claim(key)

    def _resumed(self, before: KeptLink | None, node: Node | None, remote: LinkTerms) -> KeptLink | None:
        """What was kept of the link, if the attach resumes it."""
        gone = before is None or (before.node is not None and before.node.deleted)
        if not gone and before is not None and before.node is node and remote.unsettled is not None:
            return before
        if remote.properties.get(ONLY_TO_RESUME):
            raise AddressError("amqp:not-found", f"nothing is kept of the link {remote.name!r}")
        return None

    def _keep(
        self,
        link: Link,
        key: LinkKey,
        lifetime: Lifetime,
        node: Node | None,
        before: KeptLink | None,
        resumed: KeptLink | None,
        *,
        owned: Node | None,
    ) -> KeptLink:
        """A link that can be resumed is attached; if one before left it the node `owned`, it lives with this one."""
        kept = resumed if resumed is not None else KeptLink(key, node, lifetime)
        if before is not None and before.owned is not None and before.owned is owned:
            self.owned[link], before.owned = before.owned, None
        kept.lifetime, kept.holder = lifetime, self._peer.number
        kept.steal = lambda: self._stolen(link)
        self._router.links.begin(kept, before)
        self._kept[link] = kept
        if resumed is not None:
            # What the two maps told is to be acted on in this pass.
            self._late += self._peer.engine.events()
        return kept

    def _stolen(self, link: Link) -> None:
        """Another link of that name took what it had (§2.6.1)."""
        link.detach(closed=False, error=_error("amqp:link:stolen", f"another link has the name {link.name!r} now"))
        self.end(link)
        self._peer.wake()

    def _attach_producer(self, link: ReceiverLink, remote: LinkTerms) -> None:
        target = remote.target
        if isinstance(target, Coordinator):
            coordinator = CoordinatorLink(self._peer, link, may_reject=allows(remote.source, Rejected))
            coordinator.begin(remote)
            self.producers[link] = coordinator
            return
        if target is not None and not isinstance(target, Target):
            raise AddressError("amqp:not-implemented", f"a target of type {type(target).__name__}")
        if target is None:
            raise AddressError("amqp:invalid-field", "to send, a link needs a target")
        address = address_of(target)
        exchange = None if target.dynamic or address is None else exchange_in(address)
        if exchange is not None:
            self._peer.rights.check("write", exchange.exchange)
            self._router.topology.find(exchange.exchange, publishing=True)
            node = None
        else:
            node = self._node_of(link, target)
        before, lifetime = None, None
        durable = self._router.durability(target, subscription=False, resumable=keeps(target))
        kept_by = self._kept_by(link, target, "in")
        if kept_by is not None:
            lifetime = kept_by[1]
            before = self._claim(link, kept_by[0])
        resumed = self._resumed(before, node, remote)
        try:
            link.attach(
                LinkTerms(
                    name=link.name,
                    source=remote.source,
                    target=answer_target(target, node, dynamic=target.dynamic, lifetime=lifetime, durable=durable),
                    settle_mode=remote.settle_mode,
                    receiver_settle_mode=remote.receiver_settle_mode,
                    max_message_size=self._max_message_size,
                ),
                resuming=resumed.deliveries if resumed is not None else None,
            )
        except (LocalProtocolError, EncodeError):
            self._delete_owned(link)
            raise
        if exchange is not None and address is not None:
            producer: ProducerLink = ExchangeProducerLink(self._peer, link, self._router, address)
        elif node is None:
            producer = AnonymousProducerLink(self._peer, link, self._router)
        else:
            kind = QueueProducerLink if address is not None and address.startswith(QUEUES) else ProducerLink
            producer = kind(self._peer, link, self._router, node)
        self.producers[link] = producer
        link.context = producer
        link.lingers = "resume" in self._peer.engine.capabilities
        if kept_by is not None:
            producer.kept_as(self._keep(link, *kept_by, node, before, resumed, owned=node))
        producer.begin()

    def _node_of(self, link: Link, terminus: Source | Target) -> Node | None:
        """The node that a terminus means; made for this link if it is dynamic; None if it has no address."""
        if terminus.dynamic:
            return self._dynamic_node(link, terminus)
        address = address_of(terminus)
        if address is None:
            return None
        on_demand = link.remote is None or link.remote.on_demand
        if isinstance(terminus, Source) and place_in(terminus.filter) is not None:
            on_demand = False  # it means a stream, which somebody has to declare
        receiving = isinstance(terminus, Source)
        return self._router.resolve(
            address,
            terminus.capabilities,
            on_demand=on_demand,
            receiving=receiving,
            rights=self._peer.rights,
            action="read" if receiving else "write",
        )

    def _dynamic_node(self, link: Link, terminus: Source | Target) -> Node:
        """The node that a dynamic terminus has: the one from before the link was detached, or a new one (§3.5.3).

        Raises:
            AddressError: it has an address, too, or asks for a node that cannot be.
        """
        if terminus.address is not None:
            raise AddressError(
                "amqp:invalid-field", "a dynamic terminus asks for an address, and cannot have one already"
            )
        check_dynamic(terminus)
        kept_by = self._kept_by(link, terminus, "out" if isinstance(terminus, Source) else "in")
        before = self._claim(link, kept_by[0]) if kept_by is not None else None
        if before is not None and before.owned is not None and not before.owned.deleted:
            return before.owned
        node = self.owned[link] = self._router.temporary(
            terminus.capabilities, self._peer.proprietor, self._peer.rights
        )
        return node

    def on_credit(self, event: CreditChanged) -> None:
        consumer = self.consumers.get(event.link)
        if event.link in self.pairs:
            self.pairs.credit_changed(event.link)
        elif consumer is not None:
            if event.link.properties:
                consumer.flow_properties()
            consumer.credit_changed()

    def on_deliveries(self, event: DeliveriesReceived) -> None:
        producer = self.producers.get(event.link)
        if isinstance(producer, CoordinatorLink):
            self._asked.append(producer)
        elif producer is not None:
            account = self._peer.maker.account
            if self._router.exhausted:
                producer.refuse_all("the broker has no memory left")
            elif account is not None and account.exhausted:
                producer.refuse_all(account.reason)
            else:
                producer.take()
        elif event.link in self.pairs:
            self.pairs.take(event.link)

    def on_outcomes(self, event: OutcomesReceived) -> None:
        consumer = self.consumers.get(event.link)
        if consumer is None and event.link.lingers:  # it is detached, and what it holds is not given back
            consumer = event.link.context
        if consumer is not None:
            consumer.outcomes(event.deliveries)

    def acquire(self, deliveries: Iterable[OutgoingDelivery]) -> tuple[OutgoingDelivery, ...]:
        """Take what browsers were shown; what could be had of it."""
        consumers = self.consumers
        return tuple(each for each in deliveries if each.link in consumers and consumers[each.link].acquire(each))

    def on_flow(self, event: FlowReceived) -> None:
        # Deliveries that were aborted, or were here already, used up credit, too.
        producer = self.producers.get(event.link)
        if isinstance(producer, ProducerLink):
            producer.credit_used()

    def on_unresumed(self, event: DeliveriesUnresumed) -> None:
        # A producer's are the sender's to send again.
        consumer = self.consumers.get(event.link) if isinstance(event.link, SenderLink) else None
        if consumer is not None:
            consumer.unresumed(event.deliveries)  # type: ignore[arg-type]

    def on_settlements(self, event: SettlementsReceived) -> None:
        kept, keeper = self._kept.get(event.link), self._router.links.keeper
        if kept is not None and keeper is not None:
            keeper.settled(kept, [delivery.tag for delivery in event.deliveries])
        producer = self.producers.get(event.link)
        if isinstance(producer, ProducerLink):
            producer.credit_used()

    def on_ended(self, event: LinkEnded) -> None:
        # What we end for a fault, or because the link was attached elsewhere, is no wish of the peer's.
        ours = isinstance(event.error, RemoteProtocolError)
        kept = self._kept.get(event.link)
        if kept is not None and isinstance(event.error, LinkDetached | None):
            kept.holder = 0  # it has let go of it
        self.end(event.link, "closed" if event.closed and not ours else "detached")

    def session_ready(self, session: Session) -> None:
        """A session can take more."""
        for link, consumer in self.consumers.items():
            if link.session is session:
                consumer.credit_changed()
        self.pairs.ready(session)

    # The end

    def take_over(self, before: PeerLinks) -> None:
        """The links of a connection before go on on this one."""
        self.consumers |= before.consumers
        self.producers |= before.producers
        self.owned |= before.owned
        self._kept |= before._kept
        self._lasting |= before._lasting

    def end_all(self, concerned: Callable[[Link], bool]) -> None:
        """End those concerned.

        Producers first, and so coordinators: what their transactions held is the consumers' to give back.
        """
        for link in [*self.producers, *self.consumers]:
            if concerned(link):
                attempt("the end of a link", self.end, link)

    def end(self, link: Link, how: Leaving = "detached") -> None:
        if self.pairs.end(link):
            return
        kept = self._kept.pop(link, None)
        if kept is not None and how != "closed":
            kept.owned = self.owned.pop(link, None)
        if isinstance(link, SenderLink):
            consumer = self.consumers.pop(link, None)
            if consumer is not None:
                held = consumer.suspended() if kept is not None and how != "closed" else []
                consumer.end(held)
                self._suspend(kept, held, consumer.abandon, link, how)
        elif isinstance(link, ReceiverLink):
            producer = self.producers.pop(link, None)
            if producer is not None:
                producer.end()
            if isinstance(producer, ProducerLink):
                self._suspend(kept, producer.suspended() if kept is not None else [], _nothing, link, how)
        lasting = self._lasting.pop(link, None)
        if lasting is not None:
            self._router.subscriptions.leave(lasting, link, how, link.session, self._peer)
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

            def end(deliveries: list[Any]) -> None:
                """Give back what is not resumed; the dynamic node of the link goes with that."""
                give_back(deliveries)
                if kept.owned is not None:
                    node, kept.owned = kept.owned, None
                    self._router.delete(node)

            self._router.links.suspend(kept, deliveries, end, link.session, self._peer)

    def _delete_owned(self, link: Link) -> None:
        node = self.owned.pop(link, None)
        if node is not None:
            self._router.delete(node)


def _nothing(deliveries: list[Any]) -> None:
    """What is kept of a producer ends without a trace."""


def _error(condition: str, description: str) -> Error:
    return Error(Symbol(condition), description)
