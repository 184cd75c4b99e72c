"""The core of a virtual host: which node an address means, when nodes are created, and where unroutable messages go.

It also ends each pass: changed nodes are noted in it, and `flush` runs each of them once. And it keeps the deadlines of
all that ends with time: `alarm` and `expire` (see `_deadlines.py`).
"""

from __future__ import annotations

import itertools
import math
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Protocol

from ..errors import DecodeError
from ..messaging import Error
from ..types import encode
from ._address import Kind, exchange_in, is_made_up, prefixed, split_address, usual_kind
from ._admission import Admission
from ._deadlines import Deadlines
from ._errors import Refused
from ._limits import BrokerLimits, check_count, check_name, check_positive
from ._log import report
from ._quarantine import Quarantine
from ._queues.arguments import Arguments, QueueDeclaration, queue_type
from ._queues.declared import DeclaredQueue
from ._queues.duplicates import RecentIds
from ._queues.message import EMPTY_MESSAGE, QueuedMessage
from ._queues.node import Limits, Node
from ._queues.pending import PendingOutcomes
from ._queues.queue import Queue, QueueSettings
from ._queues.quorum import QuorumQueue
from ._queues.stream import Retention, Stream
from ._queues.topic import Subscription, Topic
from ._retained.links import ResumableLinks
from ._retained.sessions import ResumableSessions
from ._retained.subscriptions import SubscriptionJournal, Subscriptions
from ._routing.dead_letters import DeadLetters
from ._routing.routes import Route
from ._routing.topology import RESERVED, Topology, TopologyJournal, count
from ._transactions.local import TransactionDeadlines
from ._transactions.prepared import BranchJournal, PreparedBranches
from ._users.accounts import Account, Maker
from ._users.users import EVERYTHING, Action, Rights

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..messaging import Source, Target, TerminusDurability
    from ._quarantine import QuarantinedMessage, QuarantineJournal
    from ._queues.journal import QueueJournal, Records
    from ._queues.message import Clock
    from ._retained.links import LinkJournal
    from ._routing.exchanges import Exchange


RETRY = 1.0
"""Seconds until expiring is tried again after an error."""

MANAGEMENT = "$management"
"""The node of the AMQP management draft, which this broker does not have."""

_SEARCH_PAUSE = 1.0
"""The pause between two searches for unused nodes when there is no room for more and few were found."""


class NameSpace(Protocol):
    """The meaning of addresses that are more than names, such as Azure's."""

    def name_of(self, address: str) -> str:
        """Return the name of the node that an address means."""

    def restore(self, owner: str, key: str, content: bytes) -> None:
        """Restore a record from a store; records come in the order of their owners and keys.

        Raises:
            Exception: this object did not write the record, or cannot read it.
        """

    def keep(self, store: Journal) -> None:
        """Keep records in a store from now on."""


class Timed(Protocol):
    """Something that ends or changes with time."""

    def expire(self, now: float) -> float | None:
        """Expire what is due at `now`; return when the next part is due, or None."""


class Journal(TopologyJournal, SubscriptionJournal, BranchJournal, Protocol):
    """A store, as its contents see it.

    Attributes:
        quarantine: records the messages in quarantine.
        links: records resumable links.
        failure: the error of the last commit; None: it succeeded.
    """

    failure: Exception | None

    @property
    def quarantine(self) -> QuarantineJournal: ...

    @property
    def links(self) -> LinkJournal: ...

    def add_node(self, node: Node) -> QueueJournal:
        """Keep a queue or a topic from now on."""

    def records(self, owner: str) -> Records:
        """Return the records kept under the unique name `owner`."""

    def fits(self, octets: int) -> bool:
        """Return whether messages of `octets` octets fit; if they do, count them."""

    async def wait_durable(self) -> None:
        """Wait until everything recorded so far is on the disk."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VirtualHostSettings:
    """The arguments of `Broker` that each of its virtual hosts has; see there.

    Attributes:
        limits: those of each queue.
        peers: the limits on what peers use.

    Raises:
        ValueError: a number is out of range.
    """

    limits: Limits = field(default_factory=Limits)
    auto_create: bool = True
    dead_letter: str | None = "dead-letter"
    dead_letter_expired: bool = False
    max_delivery_count: int | None = None
    max_subscription_timeout: int | None = None
    transaction_timeout: float | None = None
    duplicate_ids: int | None = None
    check_user_id: bool = False
    peers: BrokerLimits = field(default_factory=BrokerLimits)

    def __post_init__(self) -> None:
        for name in ("max_delivery_count", "max_subscription_timeout", "duplicate_ids"):
            check_positive(name, getattr(self, name))
        timeout = self.transaction_timeout
        if timeout is not None and timeout <= 0:
            raise ValueError(f"transaction_timeout must be more than 0, or None, not {timeout}")


_DEFAULTS: Final = VirtualHostSettings()


class VirtualHostCore:
    """All nodes of one virtual host.

    Attributes:
        nodes: the nodes by name.
        topology: the exchanges and their bindings.
        auto_create: whether nodes are created on demand.
        queue_settings: what its queues have in common.
        pending: the outcomes that are still to be applied.
        check_user_id: whether messages with another user's user-id are refused.
        unroutable: messages that reached no node and were sent settled, so that their senders could not be told;
            malformed ones included.
        subscriptions: those that outlive their links or are shared.
        peers: the limits on what peers use.
        maker: the connection whose events are being handled; new nodes count as its own. None: the broker itself.
        links: the resumable links.
        transactions: the deadlines of open transactions.
        name_space: the meaning of addresses; None: they are names.
        quarantine: the messages that could not be handled.
        admission: says whether messages are taken, and counts the memory that they take.
        store: keeps what is durable; None: there is no store.
        next_expiry: when the next message, subscription, link or transaction expires; `on_alarm` is called when that
            becomes earlier.
    """

    def __init__(
        self,
        settings: VirtualHostSettings = _DEFAULTS,
        *,
        clock: Clock,
        on_alarm: Callable[[], None] = lambda: None,
    ) -> None:
        self.peers: BrokerLimits = settings.peers
        self.maker: Maker | None = None
        self.admission: Admission = Admission(settings.peers, on_alarm)
        self._look_for_unused = -math.inf
        self.nodes: dict[str, Node] = {}
        self.unroutable = 0
        self.limits: Limits = settings.limits
        self.next_expiry: float | None = None
        self._on_alarm = on_alarm
        self.clock = clock
        self.auto_create: bool = settings.auto_create
        self.check_user_id: bool = settings.check_user_id
        self.topology: Topology = Topology(self.nodes)
        self.quarantine: Quarantine = Quarantine(self._release)
        self._dead_letter_name = settings.dead_letter
        dead_letters = DeadLetters(settings.dead_letter, self.topology, lambda name: self.declare(name, "queue"))
        self._duplicate_ids = settings.duplicate_ids
        self.pending: PendingOutcomes = PendingOutcomes(clock, self.alarm)
        self.queue_settings: QueueSettings = QueueSettings(
            clock=clock,
            limits=settings.limits,
            touch=self.touch,
            alarm=self.alarm,
            set_aside=self._set_aside,
            dead_letter=dead_letters.take,
            dead_letter_expired=settings.dead_letter_expired,
            max_delivery_count=settings.max_delivery_count,
            pending=self.pending,
        )
        self._touched: dict[Node, None] = {}
        self._numbers = itertools.count(1)
        self._deadlines: Deadlines[Timed] = Deadlines()
        self.subscriptions: Subscriptions = Subscriptions(clock, self.alarm, settings.max_subscription_timeout)
        self.links: ResumableLinks = ResumableLinks(clock, self.alarm, self.peers.kept_links)
        self.sessions: ResumableSessions = ResumableSessions(clock, self.alarm)
        self.prepared: PreparedBranches = PreparedBranches()
        self.transactions: TransactionDeadlines = TransactionDeadlines(clock, self.alarm, settings.transaction_timeout)
        self.store: Journal | None = None
        self._counted: set[Node] = set()  # queues, topics and subscriptions
        self.name_space: NameSpace | None = None

    def begin_with(
        self,
        queues: Iterable[str] | Mapping[str, Mapping[str, Any]],
        topics: Iterable[str],
        exchanges: Mapping[str, str],
        bindings: Iterable[tuple[str, str, str]],
    ) -> None:
        """Create the initial queues, topics, exchanges (by type) and bindings (exchange, key, queue).

        Raises:
            Refused: one of them is invalid, or exists as another kind.
        """
        queues = queues if isinstance(queues, Mapping) else tuple(queues)
        topics, bindings = tuple(topics), tuple(bindings)
        for name in itertools.chain(queues, topics, exchanges, *bindings):
            if name.encode(errors="replace").decode() != name:  # no peer can say it, and no store can keep it
                raise Refused(
                    "amqp:invalid-field", f"a name must be Unicode text, without surrogates, not {name!r:.200}"
                )
        for name in itertools.chain(queues, topics, exchanges, *((at, queue) for at, _, queue in bindings)):
            check_name("a name", name, self.peers.name)
        for name in queues:
            arguments = queues[name] if isinstance(queues, Mapping) else {}
            if name and arguments:
                self.declare_queue(name, QueueDeclaration(arguments=dict(arguments)))
            else:
                self.declare(name, "queue")
        for name in topics:
            self.declare(name, "topic")
        for name, kind in exchanges.items():
            self.topology.declare(name, kind, durable=True)
        for exchange, key, name in bindings:
            self.topology.bind(self.topology.find(exchange), self.declare(name, "queue"), key)

    # Addresses

    def declare(self, name: str, kind: Kind) -> Node:
        """Create a node, or return the existing node of that name and kind.

        Raises:
            Refused: a node of the other kind has the name, the name is empty or too long, or there are too many nodes.
        """
        if not name:
            raise Refused("amqp:invalid-field", "an address must not be empty")
        if name == self._dead_letter_name and kind == "topic":
            # A topic keeps nothing, so dead letters would be lost unnoticed.
            raise Refused("amqp:precondition-failed", f"{name!r} is the queue of dead letters, not a topic")
        node = self.nodes.get(name)
        if node is None:
            self.make_room(name)
            node = self._new(name, kind)
            self._add(node)
            if self.store is not None:
                node.journal = self.store.add_node(node)
        elif isinstance(node, Topic) != (kind == "topic"):
            raise Refused("amqp:precondition-failed", f"{name!r} is not a {kind}")
        return node

    def declare_queue(self, name: str, terms: QueueDeclaration, owner: object | None = None) -> Queue:
        """Create a queue that does not exist yet, by the terms of its declaration.

        Raises:
            Refused: its arguments are invalid, or there are too many nodes.
        """
        self.make_room(name)
        settings = self._settings_of(name)
        if queue_type(terms.arguments) == "stream":
            queue: Queue = Stream(name, settings, terms, Retention.read(terms))
        else:
            arguments = Arguments.read(terms.arguments)
            kind = QuorumQueue if queue_type(terms.arguments) == "quorum" else DeclaredQueue
            queue = kind(name, settings, terms, arguments, owner=owner, ended=self.delete)
        self._add(queue)
        if self.store is not None and terms.durable and not terms.exclusive:
            queue.journal = self.store.add_node(queue)
        return queue

    def adopt(self, node: Node) -> None:
        """Add a node that was created elsewhere.

        Raises:
            Refused: another node has the name.
        """
        if node.name in self.nodes:
            raise Refused("amqp:precondition-failed", f"a node {node.name!r} exists already")
        self._add(node, counted=False)

    def resolve(
        self,
        address: str,
        capabilities: Iterable[str] = (),
        *,
        on_demand: bool = True,
        receiving: bool = False,
        rights: Rights = EVERYTHING,
        action: Action | None = None,
    ) -> Node:
        """Return the node that an address means; it is created if it is missing and may be (`on_demand`).

        Only a receiver can create `$management` (AMQP management draft): a sender that created it would believe that
        somebody answers. A missing node under a reserved name, or under the name of a temporary node, is never created:
        it is gone, with its owner.

        Args:
            rights: of the peer; to create a node it needs the right to configure it.
            action: what the peer wants to do with the node. Everybody who knows the address of a node for replies may
                write to it, and only its owner may read from it.

        Raises:
            Refused: the node is missing and not created, or is of another kind than asked for, or the peer lacks the
                right.
        """
        name, kind = split_address(address, capabilities)
        name = self.name_of(name)
        node = self.nodes.get(name)
        if node is None and not on_demand and (parsed := prefixed(name)) is not None:
            name, kind = parsed
            node = self.nodes.get(name)
        if action is not None and not (node is not None and node.for_replies):
            rights.check(action, name)
        if node is None and name == MANAGEMENT and not receiving:
            reason = f"nobody answers requests at {MANAGEMENT!r}; what declares and deletes here is '/management'"
            raise Refused("amqp:not-found", reason)
        if node is None and is_made_up(name):
            raise Refused("amqp:not-found", f"there is no node {name!r}: it was temporary, and is gone")
        if node is None and (name.startswith(RESERVED) or not (self.auto_create and on_demand)):
            raise Refused("amqp:not-found", f"there is no node {name!r}")
        if kind is None:
            if node is not None:
                return node
            kind = "queue" if name == self._dead_letter_name else usual_kind(name)
        if node is None:
            rights.check("configure", name)
        return self.declare(name, kind)

    def temporary(
        self, capabilities: Iterable[str] = (), owner: object | None = None, rights: Rights = EVERYTHING
    ) -> Node:
        """Create a node with a random name, for a dynamic terminus; whoever asked for it deletes it.

        Only the owner may receive from it; others may send to it.

        Raises:
            Refused: the owner may not configure nodes of such a name.
        """
        kind = split_address("", capabilities)[1] or "queue"
        name = f"temporary-{kind}/{uuid.uuid4()}"
        rights.check("configure", name)
        self.make_room(name)
        node = self._new(name, kind, temporary=True)
        node.owner, node.for_replies = owner, True
        self._add(node)
        return node

    def make_room(self, name: str) -> None:
        """Check that a peer may create one more queue, topic or subscription.

        If there is no room, queues and topics that peers created on demand and nobody uses are deleted: they are empty,
        and no link, binding or declaration refers to them.

        Raises:
            Refused: the name is too long, or there is no room.
        """
        maker, limits = self.maker, self.peers
        if maker is None or name == self._dead_letter_name:
            return
        check_name("an address", name, limits.name)
        check_count("queues, topics and subscriptions of one connection", len(maker.nodes), limits.nodes_by_connection)
        if len(self._counted) >= limits.nodes and self.clock() >= self._look_for_unused:
            self._look_for_unused = self._delete_unused(self.nodes.values(), limits.nodes)
        check_count("queues, topics and subscriptions", len(self._counted), limits.nodes)
        account = maker.account
        if account is not None:
            if len(account.nodes) >= account.most_nodes and self.clock() >= account.look_for_unused:
                account.look_for_unused = self._delete_unused(account.nodes, account.most_nodes)
            account.check_nodes()

    def _delete_unused(self, nodes: Iterable[object], most: int) -> float:
        """Delete those of `nodes` that nobody uses; return the time before which it is not worth searching again."""
        unused = [node for node in nodes if isinstance(node, Node) and self._is_unused(node)]
        for node in unused:
            self.delete(node)
        return -math.inf if len(unused) > most // 10 else self.clock() + _SEARCH_PAUSE

    def _is_unused(self, node: Node) -> bool:
        """Return whether a peer created the node on demand and nobody would miss it."""
        if (
            isinstance(node, Subscription)
            or node.maker is None
            or node.temporary
            or node.producers
            or node.reserved
            or self.topology.count_to(node)
        ):
            return False
        if isinstance(node, Topic):
            return not node.subscriptions
        return isinstance(node, Queue) and node.terms is None and not (node.depth or node.consumers)

    def _made(self, node: Node, *, counted: bool = True) -> None:
        if counted:
            self._counted.add(node)
        if self.maker is not None:
            node.maker = self.maker
            self.maker.nodes.add(node)
            if self.maker.account is not None:
                self.maker.account.nodes.add(node)

    def _forget(self, node: Node) -> None:
        """Stop counting, timing and keeping a node that is gone."""
        self._counted.discard(node)
        if isinstance(node, Queue):
            self._deadlines.set(node, None)
        if node.journal is not None:
            node.journal.drop()
        if node.maker is not None:
            node.maker.nodes.discard(node)
            if node.maker.account is not None:
                node.maker.account.nodes.discard(node)
        self.admission.count_no_more(node)

    def _add(self, node: Node, *, counted: bool = True) -> None:
        self.nodes[node.name] = node
        self._made(node, counted=counted)
        if self._duplicate_ids is not None:
            node.recent = RecentIds(self._duplicate_ids)
        self.topology.changed(node.name)

    def keep(self, store: Journal) -> None:
        """Keep all nodes that are not temporary in a store from now on."""
        self.store = self.subscriptions.store = self.topology.store = self.prepared.store = store
        self.quarantine.journal = store.quarantine
        self.links.journal = store.links
        for node in self.nodes.values():
            if node.journal is None and not node.temporary and not node.keeps_records:
                node.journal = store.add_node(node)
        self.topology.keep()
        if self.name_space is not None:
            self.name_space.keep(store)

    def delete(self, node: Node) -> None:
        """Delete a node with its messages; its links are detached with `amqp:resource-deleted`."""
        if self.nodes.get(node.name) is node:
            del self.nodes[node.name]
            self.topology.changed(node.name)
            self.topology.forget(node)
        self._forget(node)
        if isinstance(node, Topic):
            for subscription in node.subscriptions.values():
                self._forget(subscription)
        node.delete(Error("amqp:resource-deleted", f"{node.name!r} was deleted"))

    def _new(self, name: str, kind: Kind, *, temporary: bool = False) -> Node:
        if kind == "queue":
            return Queue(name, self._settings_of(name), temporary=temporary)
        return Topic(
            name, limits=self.limits, touch=self.touch, make_subscription=self._make_subscription, temporary=temporary
        )

    def _make_subscription(self, topic: Topic) -> Subscription:
        name = f"{topic.name}#{next(self._numbers)}"
        subscription = Subscription(name, self.queue_settings, topic, self._end_subscription)
        self._made(subscription)
        return subscription

    def _end_subscription(self, subscription: Subscription) -> None:
        self._forget(subscription)
        subscription.topic.unsubscribe(subscription)

    def _settings_of(self, name: str) -> QueueSettings:
        # The dead-letter queue has no limit of failed attempts, because its messages have nowhere else to go.
        settings = self.queue_settings
        return replace(settings, max_delivery_count=None) if name == self._dead_letter_name else settings

    def durability(self, terminus: Source | Target, *, subscription: bool, resumable: bool) -> TerminusDurability:
        """Return what of a terminus survives the broker (§3.5.5): what its peer asked for, if a store keeps it.

        Args:
            subscription: whether the terminus is that of a kept subscription.
            resumable: whether the unsettled deliveries of its link are kept.

        Raises:
            EncodeError: the source of a subscription cannot be encoded, and so not be kept.
        """
        if self.store is None or terminus.durable == "none":
            return "none"
        if subscription:
            encode(terminus)
        if resumable:
            return terminus.durable
        return "configuration" if subscription else "none"

    def route(self, address: str, payload: bytes, *, on_demand: bool = True, rights: Rights = EVERYTHING) -> Route:
        """Route a message by the address that its sender names: to a node, or through an exchange to several.

        Raises:
            Refused: there is no such exchange or node and it is not created, or nobody may send to it.
            DecodeError: the routing depends on the message, which cannot be read.
        """
        route = self.topology.remembered.by_address.get((address, on_demand))
        if route is not None:
            count(route)
            return route
        topology, parsed = self.topology, exchange_in(address)
        if parsed is not None:
            route = topology.route(topology.find(parsed.exchange, publishing=True), parsed.key or "", payload)
        elif on_demand:
            route = Route((self.resolve(address, rights=rights),), None, "")
        else:
            # In dialects with exchanges a name is a key of the default exchange, which may reach no queue.
            route = topology.route(topology.exchanges[""], split_address(address)[0], payload)
        topology.remember(address, on_demand, route)
        return route

    def name_of(self, name: str) -> str:
        """Return the name of the node that the name in an address means."""
        return name if self.name_space is None else self.name_space.name_of(name)

    def name_by(self, key: str) -> str:
        """Return the name of the queue for a key of the default exchange, which may be a name or an address."""
        parsed = None if key in self.nodes else prefixed(key)
        return key if parsed is None else parsed[0]

    def ways(self, exchange: Exchange | None, key: str, payload: bytes) -> tuple[Node, ...]:
        """Return the nodes for one more routing key of a message; without an exchange, by the default exchange."""
        return self.topology.route(exchange or self.topology.exchanges[""], key, payload).nodes

    def _set_aside(self, queue: Queue, entry: QueuedMessage, error: Exception) -> None:
        self.quarantine.set_aside(
            queue.name, entry.payload, entry.message_format, error, durable=entry.durable, node=queue
        )

    def _release(self, message: QuarantinedMessage, node: Node | None, to: str | None) -> None:
        """Put a message of the quarantine back to where it was, or to the address `to`.

        Raises:
            ValueError: the message cannot go there.
        """
        try:
            entry = QueuedMessage.read(message.payload, message.message_format, self.clock(), keep_annotations=True)
        except DecodeError:
            entry = QueuedMessage(message.payload, message.message_format)
        entry.durable = message.durable
        if to is None:
            if node is None or node.deleted:
                node = self.nodes.get(message.node)
            if node is None:
                raise ValueError(f"the queue {message.node!r} no longer exists: set `to` to the address of another")
            nodes: tuple[Node, ...] = (node,)
        else:
            nodes = self._nodes_for(message, to)
        refused = None
        for place, each in enumerate(nodes):
            try:
                each.put(entry.copy() if place else entry)
            except Refused as refusal:
                refused = refusal
        if refused is not None and len(nodes) == 1:
            raise ValueError(f"{refused}, and refuses the message")
        self.flush()

    def _nodes_for(self, message: QuarantinedMessage, to: str) -> tuple[Node, ...]:
        payload = message.payload if message.message_format == 0 else EMPTY_MESSAGE
        try:
            nodes = self.route(to, payload).nodes
        except (Refused, DecodeError) as error:
            raise ValueError(f"the message cannot go to {to!r}: {error}") from None
        if not nodes:
            raise ValueError(f"the address {to!r} leads to no queue for the message")
        return nodes

    # Passes

    @property
    def account(self) -> Account | None:
        """The account of the user whose connection's events are being handled; None: there is no user."""
        return self.maker.account if self.maker is not None else None

    def touch(self, node: Node) -> None:
        """Run a node at the end of this pass, because it has changed."""
        self._touched[node] = None

    def flush(self) -> None:
        """Run every changed node, including those that change meanwhile.

        An error of one node is logged, and the others go on: this runs in the pass of some connection, or of none.
        """
        touched = self._touched
        while touched:
            node = next(iter(touched))
            del touched[node]
            try:
                node.run()
            except Exception as error:
                report(f"the pass of {node.name!r} failed", error)
            self.admission.count(node)
        self.admission.watch()
        self.pending.begin_pass()

    # Time

    def alarm(self, timed: Timed, deadline: float) -> None:
        """Call `timed.expire` at the time `deadline` of the broker's clock, if not earlier.

        `Broker._keep_time` sleeps until then, and calls `expire` below, which does that.
        """
        self._deadlines.hasten(timed, deadline)
        if self.next_expiry is None or deadline < self.next_expiry:
            self.next_expiry = deadline
            self._on_alarm()

    def expire(self) -> float | None:
        """Expire everything that is due; return when the next thing is due, on the broker's clock, or None.

        Only things that are due are visited, so that the cost does not grow with the number of queues.
        """
        now = self.clock()
        for timed in self._deadlines.take(now):
            following = _expire(timed, now)
            if following is not None:
                self._deadlines.hasten(timed, following)
            if isinstance(timed, Queue):
                self.admission.count(timed)
        self.next_expiry = self._deadlines.first
        return self.next_expiry


def _expire(each: Timed, now: float) -> float | None:
    """Call `expire` of one thing; return when it is due again, a little later if it raised an error."""
    try:
        return each.expire(now)
    except Exception as error:
        report("what was to expire failed", error)
        return now + RETRY
