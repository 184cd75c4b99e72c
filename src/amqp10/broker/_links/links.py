"""The links of one peer: each attach becomes a consumer or a producer of a node, until it ends."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from ...engine import (
    NO_LINK_OWNER,
    Event,
    Link,
    LinkAttached,
    LinkEnded,
    LinkSession,
    LinkTerms,
    OutgoingDelivery,
    ReceiverLink,
    SenderLink,
    Session,
)
from ...errors import EncodeError, LinkDetached, LocalProtocolError, RemoteProtocolError, SessionEnded
from ...messaging import NEWEST_CONNECTION, ONLY_TO_RESUME, Coordinator, Error, Rejected, Source, Target
from ...types import encode
from .._address import QUEUES, exchange_in
from .._errors import Refused
from .._limits import check_count, check_name
from .._log import attempt, notice
from .._management.cbs import CbsLinks
from .._management.http import Management
from .._management.link_pairs import LinkPairs
from .._management.requests import check_owner
from .._queues.node import Node
from .._queues.queue import Queue
from .._queues.stream_offsets import place_in
from .._queues.topic import Topic
from .._retained.links import Direction, LinkKey, ResumableLink, is_resumable
from .._retained.retained import DetachKind, Lifetime
from .._retained.subscriptions import RetainedSubscription
from .attach import ConsumerRequest
from .consumer import ConsumerLink, GetConsumerLink
from .coordinator import CoordinatorLink
from .destinations import AnyDestination, Destination, ExchangeDestination, NodeDestination, QueueDestination
from .producer import ProducerLink
from .terminus import address_of, allows, answer_target, check_dynamic

if TYPE_CHECKING:
    from .._peer import Peer, PeerTerms
    from .._users.users import Action


class PeerLinks:
    """The links of one peer, driven by the events of its engine.

    Attributes:
        consumers: the owners of links on which the broker sends from a queue.
        producers: the owners of links on which it receives, including those to coordinators.
        owned: dynamic nodes, by the link that they live with.
        uses: the action that a link was allowed, and the name of its node.
        pairs: links to the management node.
        cbs: links to the node that takes tokens.
        service: serves other links; None: there are no others.
    """

    def __init__(self, peer: Peer, terms: PeerTerms) -> None:
        self.consumers: dict[SenderLink, ConsumerLink] = {}
        self.producers: dict[ReceiverLink, ProducerLink | CoordinatorLink] = {}
        self.owned: dict[Link, Node] = {}
        self.uses: dict[Link, tuple[Action, str]] = {}
        self._vhost = vhost = peer.vhost
        self.pairs = LinkPairs(peer, Management(peer, terms.connection.container_id))
        self.service = terms.service(peer) if terms.service is not None and vhost.name_space is not None else None
        self.cbs = CbsLinks(peer, self.service)
        self._peer = peer
        self._lasting: dict[Link, RetainedSubscription] = {}  # subscriptions that may outlive their links
        self._resumable: dict[Link, ResumableLink] = {}
        self._late: list[Event] = []  # events that resuming links caused in this pass
        self._octets: dict[Link | Session, int] = {}  # octets that each declares
        self._all_octets = 0

    # The pass

    def late(self) -> list[Event]:
        """Return the events that resuming links caused, to be handled in this pass."""
        late, self._late = self._late, []
        return late

    # Attaching

    def on_attached(self, event: LinkAttached) -> None:
        link = event.link
        if link.terms is not None or link.remote is None:
            return  # it ended before it was answered
        try:
            limits = self._vhost.peers
            check_name("a link's name", link.name, limits.name)
            check_count("links of one connection", self._count, limits.links)
            self._weigh_link(link, link.remote)
            if self.pairs.attach(link) or self.cbs.attach(link):
                return
            if self.service is not None and self.service.attach(link):
                return
            if isinstance(link, SenderLink):
                self._attach_consumer(link, link.remote)
            elif isinstance(link, ReceiverLink):
                self._attach_producer(link, link.remote)
        except Refused as refusal:
            self._refuse(link, refusal.error)
        except (LocalProtocolError, EncodeError) as error:
            # For example an answer that is larger than the peer's frames.
            condition = error.condition if isinstance(error, LocalProtocolError) else None
            self._refuse(link, Error(condition or "amqp:not-allowed", str(error)))

    @property
    def incoming(self) -> Iterable[ReceiverLink]:
        """The links on which messages of transactions may arrive."""
        others = () if self.service is None else self.service.links
        return [*self.producers, *(each for each in others if isinstance(each, ReceiverLink))]

    @property
    def _count(self) -> int:
        """The number of attached links, of all kinds."""
        others = len(self.pairs) + len(self.cbs) + (len(self.service) if self.service is not None else 0)
        return len(self.consumers) + len(self.producers) + others

    def _refuse(self, link: Link, error: Error) -> None:
        self._forget_octets(link)
        self.uses.pop(link, None)
        terminus = None if link.remote is None else link.remote.source if link.is_sender else link.remote.target
        address, user = getattr(terminus, "address", None), self._peer.engine.identity
        who = "" if user is None else f" of {user!r:.80}"
        text = f"a link{who} to {address!r:.200} was refused: {error.condition}: {error.description or '':.500}"
        fields = {"link": link.name, "address": address, "user": user, "condition": str(error.condition)}
        notice("link_refused", logging.INFO, text, **fields)
        link.refuse(error)

    def weigh_session(self, session: Session) -> None:
        """Count the octets that a session declares.

        Raises:
            Refused: the sessions and links of the connection, or of its user, declare too many.
        """
        terms = session.remote
        if terms is not None:
            self._weigh(session, [dict(terms.properties), *terms.offered_capabilities, *terms.desired_capabilities])

    def forget_session(self, session: Session) -> None:
        """Stop counting the octets that a session declared."""
        self._forget_octets(session)

    def forget_sessions(self) -> None:
        """Stop counting the octets that all sessions declared."""
        for each in list(self._octets):
            if isinstance(each, Session):
                self._forget_octets(each)

    def _weigh_link(self, link: Link, remote: LinkTerms) -> None:
        values: list[Any] = [remote.source, remote.target, dict(remote.properties), dict(remote.unsettled or {})]
        self._weigh(link, [*values, *remote.offered_capabilities, *remote.desired_capabilities])

    def _weigh(self, whose: Link | Session, values: list[Any]) -> None:
        """Count the octets that a link or session declares, which are kept until it ends.

        Raises:
            Refused: the sessions and links of the connection, or of its user, declare too many.
        """
        octets = len(encode(values))
        most, account = self._vhost.peers.link_octets, self._peer.maker.account
        what = "octets of what the sessions and links of one connection say of themselves"
        check_count(what, self._all_octets + octets - 1, most)
        if account is not None:
            account.check_declared(octets)
            account.declared += octets
        self._octets[whose] = octets
        self._all_octets += octets

    def _forget_octets(self, whose: Link | Session) -> None:
        octets = self._octets.pop(whose, 0)
        self._all_octets -= octets
        if self._peer.maker.account is not None:
            self._peer.maker.account.declared -= octets

    def _attach_consumer(self, link: SenderLink, remote: LinkTerms) -> None:
        source, key, subscriptions = remote.source, None, self._vhost.subscriptions
        if source is None:
            # The peer only knows the name: it attaches the subscription kept under it, mostly to end it (§2.6.3).
            retained = subscriptions.find(self._peer.owner, link.name, remote.desired_capabilities)
            source, key = retained.source, retained.key
        if not isinstance(source, Source):
            raise Refused("amqp:invalid-field", "a receiving link needs a source")
        node = self._node_of(link, source)
        if node is None:
            raise Refused("amqp:invalid-field", "the source of a receiving link needs an address")
        check_owner(node, self._peer)
        try:
            request = ConsumerRequest.read(remote, source, node, key, self._peer)
            key = request.key
            in_use: Node | None = node
            if isinstance(node, Topic):
                in_use = subscriptions.check(key, node, request.filters) if key is not None else None
            kept_by = self._kept_by(link, source, "out")
            if not request.is_resumable:
                kept_by = None
            before = self._claim(link, kept_by[0]) if kept_by is not None else None
            request.check_admitted(in_use)
            existing: Node | None = node
            if isinstance(node, Topic):
                existing = subscriptions.standing(key, node, request.filters) if key is not None else None
                if existing is None:
                    self._vhost.make_room(node.name)  # for a subscription
            resumed = self._resumed(before, existing, remote)
            lifetime = subscriptions.lifetime(source) if key is not None else kept_by[1] if kept_by else None
            resumable = kept_by is not None and kept_by[0].connection is None
            durable = self._vhost.durability(source, subscription=key is not None, resumable=resumable)
            link.attach(
                request.answer(remote, lifetime, durable), resuming=resumed.deliveries if resumed is not None else None
            )
        except (Refused, LocalProtocolError, EncodeError):
            self._delete_owned(link)
            raise
        lasting = None
        if isinstance(node, Topic) and key is not None:
            lasting = subscriptions.join(key, node, source, request.filters, request.filtering)
        consumer = self._consume(link, request, lasting)
        if kept_by is not None:
            consumer.make_resumable(self._keep(link, *kept_by, consumer.queue, before, resumed, owned=node))
        if lasting is not None:
            self._lasting[link] = lasting
            lasting.links[link] = lambda: self._stolen(link)
        consumer.begin()

    def _consume(
        self, link: SenderLink, request: ConsumerRequest, lasting: RetainedSubscription | None
    ) -> ConsumerLink:
        """Return the consumer of an attached link: for a subscription, a new subscription of a topic, or a queue."""
        queue = lasting.queue if lasting is not None else request.node
        if isinstance(queue, Topic):
            queue = queue.subscribe(request.filtering)
        assert isinstance(queue, Queue)
        kind = GetConsumerLink if request.options.one_shot else ConsumerLink
        consumer = kind(
            self._peer, link, queue, copies=request.copying, settles=request.settles, default_outcome=request.outcome
        )
        consumer.priority, consumer.exclusive = request.options.priority, request.options.exclusive
        # A subscription only holds messages that pass.
        consumer.filtering = request.filtering if queue is request.node else None
        consumer.place, consumer.timeout = request.place, request.options.timeout
        self.consumers[link] = consumer
        if not request.node.for_replies:
            self.uses[link] = "read", request.node.name
        link.owner = consumer
        link.lingers = "resume" in self._peer.engine.capabilities
        return consumer

    # Resumable links

    def _kept_by(self, link: Link, terminus: Source | Target, direction: Direction) -> tuple[LinkKey, Lifetime] | None:
        """Return the key of a resumable link and how long it is kept; None: the link ends when it is detached."""
        if is_resumable(terminus):
            return LinkKey(self._peer.owner, link.name, direction), self._vhost.subscriptions.lifetime(terminus)
        if terminus.expiry_policy == "link-detach" or "resume" not in self._peer.engine.capabilities:
            return None
        return LinkKey(self._peer.owner, link.name, direction, self._peer), Lifetime("session-end")

    def _claim(self, link: Link, key: LinkKey) -> ResumableLink | None:
        """Return what is kept of a link, taken from its current attachment.

        Raises:
            Refused: a newer connection has the link: this attach is a late one of a lost connection.
        """
        newest = link.remote is not None and link.remote.properties.get(NEWEST_CONNECTION)
        if newest and self._vhost.links.is_late(key, self._peer.number):
            raise Refused("amqp:link:stolen", f"a newer connection has taken over the link {link.name!r}")
        return self._vhost.links.claim(key)

    def _resumed(self, before: ResumableLink | None, node: Node | None, remote: LinkTerms) -> ResumableLink | None:
        """Return what was kept of the link if the attach resumes it; otherwise None.

        Raises:
            Refused: the peer only wants to resume, and there is nothing to resume.
        """
        gone = before is None or (before.node is not None and before.node.deleted)
        if not gone and before is not None and before.node is node and remote.unsettled is not None:
            return before
        if remote.properties.get(ONLY_TO_RESUME):
            raise Refused("amqp:not-found", f"the broker has no state of the link {remote.name!r}")
        return None

    def _keep(
        self,
        link: Link,
        key: LinkKey,
        lifetime: Lifetime,
        node: Node | None,
        before: ResumableLink | None,
        resumed: ResumableLink | None,
        *,
        owned: Node | None,
    ) -> ResumableLink:
        """Keep the state of a link; a dynamic node that its last attachment left lives with this link."""
        resumable = resumed if resumed is not None else ResumableLink(key, node, lifetime)
        if before is not None and before.owned is not None and before.owned is owned:
            self.owned[link], before.owned = before.owned, None
        resumable.lifetime, resumable.attached_by = lifetime, self._peer.number
        resumable.steal = lambda: self._stolen(link)
        self._vhost.links.begin(resumable, before)
        self._resumable[link] = resumable
        if resumed is not None:
            # The outcomes in the two unsettled maps are handled in this pass.
            self._late += self._peer.engine.events()
        return resumable

    def _stolen(self, link: Link) -> None:
        """Detach a link whose name another link took (§2.6.1)."""
        link.detach(closed=False, error=Error("amqp:link:stolen", f"another link has the name {link.name!r} now"))
        self.end(link)
        self._peer.wake()

    def _attach_producer(self, link: ReceiverLink, remote: LinkTerms) -> None:
        target = remote.target
        if isinstance(target, Coordinator):
            coordinator = CoordinatorLink(self._peer, link, may_reject=allows(remote.source, Rejected))
            coordinator.begin(remote)
            self.producers[link] = link.owner = coordinator
            return
        if target is not None and not isinstance(target, Target):
            raise Refused("amqp:not-implemented", f"the target has the unsupported type {type(target).__name__}")
        if target is None:
            raise Refused("amqp:invalid-field", "a sending link needs a target")
        address = address_of(target)
        exchange = None if target.dynamic or address is None else exchange_in(address)
        if exchange is not None:
            self._peer.rights.check("write", exchange.exchange)
            self._vhost.topology.find(exchange.exchange, publishing=True)
            node = None
        else:
            node = self._node_of(link, target)
            if self.service is not None and (onward := self.service.destination(link)) is not None:
                rights = self._peer.rights
                node = self._vhost.resolve(onward, (), on_demand=False, receiving=False, rights=rights, action="write")
        before, lifetime = None, None
        durable = self._vhost.durability(target, subscription=False, resumable=is_resumable(target))
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
                    receiver_settle_mode="first"
                    if node is not None and node.settles_at_once
                    else remote.receiver_settle_mode,
                    max_message_size=(node.largest if node is not None else None) or self._peer.max_message_size,
                ),
                resuming=resumed.deliveries if resumed is not None else None,
            )
        except (LocalProtocolError, EncodeError):
            self._delete_owned(link)
            raise
        if exchange is not None and address is not None:
            destination: Destination = ExchangeDestination(self._peer, link, address)
        elif node is None:
            destination = AnyDestination(self._peer, link)
        else:
            kind = QueueDestination if address is not None and address.startswith(QUEUES) else NodeDestination
            destination = kind(self._peer, link, node)
        producer = ProducerLink(self._peer, link, destination)
        self.producers[link] = link.owner = producer
        if exchange is not None:
            self.uses[link] = "write", exchange.exchange
        elif node is not None and not node.for_replies:
            self.uses[link] = "write", node.name
        link.lingers = "resume" in self._peer.engine.capabilities
        if kept_by is not None:
            producer.make_resumable(self._keep(link, *kept_by, node, before, resumed, owned=node))
        destination.begin()

    def _node_of(self, link: Link, terminus: Source | Target) -> Node | None:
        """Return the node of a terminus, created if it is dynamic; None: the terminus has no address."""
        if terminus.dynamic:
            return self._dynamic_node(link, terminus)
        address = address_of(terminus)
        if address is None:
            return None
        on_demand = link.remote is None or link.remote.on_demand
        if isinstance(terminus, Source) and place_in(terminus.filter) is not None:
            on_demand = False  # the filter means a stream, which must be declared
        receiving = isinstance(terminus, Source)
        return self._vhost.resolve(
            address,
            terminus.capabilities,
            on_demand=on_demand,
            receiving=receiving,
            rights=self._peer.rights,
            action="read" if receiving else "write",
        )

    def _dynamic_node(self, link: Link, terminus: Source | Target) -> Node:
        """Return the node of a dynamic terminus: the one from before the link was detached, or a new one (§3.5.3).

        Raises:
            Refused: the terminus also has an address, or asks for an unsupported node.
        """
        if terminus.address is not None:
            raise Refused("amqp:invalid-field", "a dynamic terminus must not have an address, for the broker makes one")
        check_dynamic(terminus)
        kept_by = self._kept_by(link, terminus, "out" if isinstance(terminus, Source) else "in")
        before = self._claim(link, kept_by[0]) if kept_by is not None else None
        if before is not None and before.owned is not None and not before.owned.deleted:
            return before.owned
        node = self.owned[link] = self._vhost.temporary(terminus.capabilities, self._peer, self._peer.rights)
        return node

    def acquire(self, deliveries: Iterable[OutgoingDelivery]) -> tuple[OutgoingDelivery, ...]:
        """Acquire messages that browsers were shown; return the deliveries for which that succeeded."""
        consumers = self.consumers
        return tuple(each for each in deliveries if each.link in consumers and consumers[each.link].acquire(each))

    def on_ended(self, event: LinkEnded) -> None:
        # A link that the broker ended, for a fault or because it was attached elsewhere, was not given up by the peer.
        ours = isinstance(event.error, RemoteProtocolError)
        resumable = self._resumable.get(event.link)
        if resumable is not None and isinstance(event.error, LinkDetached | None):
            resumable.attached_by = 0  # the peer gave the link up
        consumer = self.consumers.get(event.link) if isinstance(event.link, SenderLink) else None
        if consumer is not None and not isinstance(event.error, LinkDetached | SessionEnded | None):
            consumer.connection_lost()
        self.end(event.link, "closed" if event.closed and not ours else "detached")

    def session_resumed(self, session: Session) -> None:
        """Continue sending on a session that is on this connection now."""
        for link, consumer in self.consumers.items():
            if link.session is session:
                consumer.credit_changed()
        self.answer(session)

    def answer(self, session: LinkSession | None = None) -> None:
        """Send the answers that wait, because a session or the output has room again; None: any session's."""
        self.pairs.ready(session)
        self.cbs.ready()
        if self.service is not None:
            self.service.ready(session)

    def check_rights(self) -> Iterator[None]:
        """Detach the links that are no longer allowed; yield after each look, because there may be many links."""
        for producer in self.producers.values():
            if isinstance(producer, ProducerLink):
                producer.destination.rights_changed()
        for link, (action, name) in list(self.uses.items()):
            if link in self.uses:
                try:
                    self._peer.rights.check(action, name)
                except Refused as refusal:
                    link.detach(closed=True, error=refusal.error)
                    self.end(link)
            yield

    # The end

    def take_over(self, before: PeerLinks, session: Session) -> None:
        """Take over the links of a session that was resumed on this connection."""

        def move(these: dict[Any, Any], those: dict[Any, Any]) -> list[Any]:
            """Move what belongs to the session; return the values."""
            moved = [link for link in these if link is session or getattr(link, "session", None) is session]
            those.update((link, these.pop(link)) for link in moved)
            return [those[link] for link in moved]

        for owner in [*move(before.consumers, self.consumers), *move(before.producers, self.producers)]:
            owner.move_to(self._peer)
        for node in move(before.owned, self.owned):
            node.owner = self._peer
        octets = sum(move(before._octets, self._octets))
        before._all_octets -= octets
        self._all_octets += octets
        move(before._resumable, self._resumable)
        move(before._lasting, self._lasting)
        move(before.uses, self.uses)

    def end_all(self, concerned: Callable[[Link], bool]) -> None:
        """End the links that `concerned` selects; producers first, so consumers give back what transactions held."""
        others = () if self.service is None else self.service.links
        for link in [*self.producers, *self.consumers, *others]:
            if concerned(link):
                attempt("the end of a link", self.end, link)

    def end(self, link: Link, how: DetachKind = "detached") -> None:
        self._forget_octets(link)
        self.uses.pop(link, None)
        if not (isinstance(link, SenderLink) and link.lingers):
            link.owner = NO_LINK_OWNER  # a lingering link still gets outcomes for the deliveries that it holds
        if self.pairs.end(link) or self.cbs.end(link) or (self.service is not None and self.service.end(link)):
            return
        resumable = self._resumable.pop(link, None)
        # A link that ends with its session is not worth keeping until that is told to be over.
        over = how == "closed" or (resumable is not None and resumable.ends_with_session and not link.session.begun)
        if resumable is not None and not over:
            resumable.owned = self.owned.pop(link, None)
        if isinstance(link, SenderLink):
            consumer = self.consumers.pop(link, None)
            if consumer is not None:
                held = consumer.suspended() if resumable is not None and not over else []
                consumer.end(held)
                self._suspend(resumable, held, consumer.abandon, link, "closed" if over else how)
        elif isinstance(link, ReceiverLink):
            producer = self.producers.pop(link, None)
            if producer is not None:
                producer.end()
            if isinstance(producer, ProducerLink):
                self._suspend(resumable, producer.suspended() if resumable is not None else [], _nothing, link, how)
        lasting = self._lasting.pop(link, None)
        if lasting is not None:
            self._vhost.subscriptions.leave(lasting, link, how, link.session, self._peer)
        self._delete_owned(link)

    def _suspend(
        self,
        resumable: ResumableLink | None,
        deliveries: list[Any],
        requeue: Callable[[list[Any]], None],
        link: Link,
        how: DetachKind,
    ) -> None:
        if resumable is None:
            return
        if how == "closed":
            self._vhost.links.end(resumable)
        else:

            def end(deliveries: list[Any]) -> None:
                """Give back deliveries that were not resumed, and delete the link's dynamic node."""
                requeue(deliveries)
                if resumable.owned is not None:
                    node, resumable.owned = resumable.owned, None
                    self._vhost.delete(node)

            self._vhost.links.suspend(resumable, deliveries, end, link.session, self._peer)

    def _delete_owned(self, link: Link) -> None:
        node = self.owned.pop(link, None)
        if node is not None:
            self._vhost.delete(node)


def _nothing(deliveries: list[Any]) -> None:
    """Do nothing: a producer has nothing to give back."""
