"""The destination of a link's messages: one node, the address in each message, or an exchange."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Final

from ...engine import CopiedDelivery, ImmediateDelivery, RoutedDelivery
from ...messaging import read_annotations, read_properties
from .._address import exchange_in, prefixed, split_address
from .._errors import Refused
from .._queues.message import EMPTY_MESSAGE
from .._routing.routes import Route

if TYPE_CHECKING:
    from ...engine import IncomingDelivery, ReceiverLink
    from ...messaging import Error
    from .._peer import Peer
    from .._queues.node import Node

MAX_ALLOWED: Final = 1000
"""The most addresses that a link remembers as allowed, because the sender chooses them."""

_CC: Final = "x-cc"
_PROPERTIES: Final = b"\x00\x53\x73"  # the first octets of a message with neither header nor annotations
MAX_UNSETTLED: Final = 10_000
"""The most deliveries that a sender with receiver-settle-mode "second" may leave unsettled before it gets no credit."""


def further_keys(payload: bytes) -> list[str]:
    """Return the routing keys of a message besides its first: its annotation `x-cc`, as in RabbitMQ.

    Raises:
        Refused: `x-cc` is not a list of strings.
        DecodeError: the annotations, or the sections before them, are malformed.
    """
    if payload[:3] >= _PROPERTIES and payload[1:2] == _PROPERTIES[1:2]:
        return []
    keys = read_annotations(payload).get(_CC, [])
    if not isinstance(keys, list) or not all(isinstance(key, str) for key in keys):
        raise Refused("amqp:invalid-field", f"the message annotation {_CC} must be a list of strings, not {keys!r:.60}")
    return keys


class Destination(ABC):
    """The destination of a link's messages, and the producer of its nodes, which grant the link its credit.

    Attributes:
        by_message: whether each message names its destination in `to`.
        annotates: whether a message that came to an exchange is annotated with the exchange and its routing key.
        only: the one node to which all messages go; None: each message is looked at.
    """

    only: Node | None = None
    by_message = False
    annotates = False

    def __init__(self, peer: Peer, link: ReceiverLink) -> None:
        self._peer = peer
        self._link = link
        self._vhost = peer.vhost
        self._rights = peer.rights

    def move_to(self, peer: Peer) -> None:
        """Move to another connection."""
        self._peer = peer

    @property
    def credit(self) -> int:
        return self._link.credit

    @property
    def room(self) -> int:
        """How many messages may still come before the sender settles some; 0 while the broker is blocked."""
        return 0 if self._peer.blocked is not None else max(0, MAX_UNSETTLED - len(self._link.unsettled))

    @abstractmethod
    def begin(self) -> None:
        """Grant the first credit for an attached link, at the end of the pass at the latest."""

    @abstractmethod
    def route(self, delivery: IncomingDelivery) -> Route:
        """Return where a message goes.

        Raises:
            Refused: its address is unknown, or the peer may not send there.
            DecodeError: the sections with its address are malformed.
        """

    @abstractmethod
    def credit_used(self) -> None:
        """Grant more credit if it is time, because messages have arrived."""

    def rights_changed(self) -> None:  # noqa: B027  # `check_rights` checks links to one node
        """Check rights anew, because the tokens of the peer have changed."""

    @abstractmethod
    def blocked_or_not(self) -> None:
        """Stop or restart the sender, because the broker was blocked or unblocked."""

    @abstractmethod
    def end(self) -> None:
        """Leave the nodes, because the link has ended."""


class NodeDestination(Destination):
    """One node for all messages."""

    def __init__(self, peer: Peer, link: ReceiverLink, node: Node) -> None:
        super().__init__(peer, link)
        self.only = self._node = node
        self._route = Route((node,), None, "")

    def begin(self) -> None:
        self._node.add_producer(self)

    def route(self, delivery: IncomingDelivery) -> Route:
        return self._route

    def grant(self, node: Node, credit: int) -> None:
        credit = min(credit, self.room)
        if self._link.attached and credit != self._link.credit:
            self._link.flow(credit)
            self._peer.wake()

    def credit_used(self) -> None:
        if self._link.attached:
            self._node.replenish(self)

    def blocked_or_not(self) -> None:
        if self._peer.blocked is not None:
            self.grant(self._node, 0)
        elif not self._node.deleted:
            self._node.rationing = True  # has all credit allocated anew
            self._node.touch()

    def relaxed(self, node: Node) -> None:
        """Stay: a link to one node is its producer as long as the link lives."""

    def node_deleted(self, error: Error) -> None:
        if self._link.attached:
            self._link.detach(closed=True, error=error)
            self._peer.wake()

    def end(self) -> None:
        self._node.remove_producer(self)


class QueueDestination(NodeDestination):
    """A queue by its address in RabbitMQ's form, whose messages may have further routing keys."""

    def __init__(self, peer: Peer, link: ReceiverLink, node: Node) -> None:
        super().__init__(peer, link, node)
        self.only = None

    def route(self, delivery: IncomingDelivery) -> Route:
        payload = delivery.payload
        keys = further_keys(payload) if delivery.message_format == 0 else []
        if not keys:
            return self._route
        for key in keys:
            self._rights.check("write", self._vhost.name_by(key))
        more = (node for key in keys for node in self._vhost.ways(None, key, payload))
        return self._route._replace(nodes=tuple(dict.fromkeys([self._node, *more])))


class AnyDestination(Destination):
    """The anonymous terminus: each message names its destination in `to`.

    Its credit is a full window. Only while nodes that it sent to are short of room, it is one of their producers, and
    its credit is the smallest share that any of them grants.
    """

    by_message = True

    def __init__(self, peer: Peer, link: ReceiverLink) -> None:
        super().__init__(peer, link)
        self._shares: dict[Node, int] = {}
        self._reached: set[Node] = set()  # in this pass
        self._allowed: set[str] = set()  # addresses that the sender may write to, if its rights are limited
        # Messages of dialects with exchanges name their exchange already.
        self.annotates = self._on_demand = link.remote is None or link.remote.on_demand

    def begin(self) -> None:
        self._top_up()

    def rights_changed(self) -> None:
        self._allowed.clear()

    def grant(self, node: Node, credit: int) -> None:
        self._shares[node] = credit
        self._top_up()

    def blocked_or_not(self) -> None:
        self._top_up()

    def relaxed(self, node: Node) -> None:
        self._leave(node)
        self._top_up()

    def route(self, delivery: IncomingDelivery) -> Route:
        route = self._find(delivery)
        self._reached.update(route.nodes)
        return route

    def _find(self, delivery: IncomingDelivery) -> Route:
        # A message of another format cannot be read (§2.7.5): the link says where it goes.
        payload = delivery.payload if delivery.message_format == 0 else EMPTY_MESSAGE
        if isinstance(delivery, RoutedDelivery):
            if self._rights.limited:
                self._check_all(delivery)
            route = self._vhost.route(delivery.address, payload, on_demand=False)
            if type(delivery) is RoutedDelivery:
                return route
            if isinstance(delivery, CopiedDelivery):
                copies = [self._vhost.route(each, payload, on_demand=False).nodes for each in delivery.also]
                nodes = dict.fromkeys([*route.nodes, *(node for nodes in copies for node in nodes)])
                route = Route(tuple(nodes), route.exchange, route.key)
            elif isinstance(delivery, ImmediateDelivery) and not all(node.awaited for node in route.nodes):
                route = Route((), route.exchange, route.key)
            return route
        address = self._address_of(payload)
        if self._rights.limited:
            self._check(address)
        route = self._vhost.route(address, payload, on_demand=self._on_demand, rights=self._rights)
        keys = further_keys(payload)
        if keys:
            if route.exchange is None or not route.exchange.name:
                for key in keys:
                    self._rights.check("write", self._vhost.name_by(key))
            more = (node for key in keys for node in self._vhost.ways(route.exchange, key, payload))
            route = Route(tuple(dict.fromkeys([*route.nodes, *more])), route.exchange, route.key)
        return route

    def _check_all(self, delivery: RoutedDelivery) -> None:
        """Check all addresses of a delivery; see `_check`."""
        self._check(delivery.address)
        if isinstance(delivery, CopiedDelivery):
            for address in delivery.also:
                self._check(address)

    def _check(self, address: str) -> None:
        """Check that the sender may write to an address.

        Writing to a queue through the default exchange needs the same right as writing to its address. An address once
        allowed stays so as long as the link lives and no token expires.

        Raises:
            Refused: it may not.
        """
        if address in self._allowed:
            return
        exchange = exchange_in(address)
        if exchange is not None:
            self._rights.check("write", exchange.exchange)
        else:
            key = split_address(address)[0]
            if self._on_demand:  # it is an address, and not a key of the default exchange
                key = self._vhost.name_of(key)
            name = self._vhost.name_by(key)
            node = self._vhost.nodes.get(name)
            if node is None or not node.for_replies:
                self._rights.check("write", name)
            if prefixed(key) is not None:
                return  # which queue it means changes when queues come and go
        if len(self._allowed) >= MAX_ALLOWED:
            self._allowed.clear()
        self._allowed.add(address)

    def _address_of(self, payload: bytes) -> str:
        to = read_properties(payload).to
        if not to:
            raise Refused("amqp:not-found", "the message has no `to`, and the link has no address")
        return to

    def credit_used(self) -> None:
        for node in self._reached:
            if node.low_on_room and node not in self._shares and self._link.attached:
                self._shares[node] = self._link.credit
                node.add_producer(self)
        self._reached.clear()
        self._top_up()

    def node_deleted(self, error: Error) -> None:
        """Continue without a node that was one of several."""
        for node in [node for node in self._shares if node.deleted]:
            del self._shares[node]
        self._top_up()

    def end(self) -> None:
        for node in list(self._shares):
            self._leave(node)

    def _leave(self, node: Node) -> None:
        self._shares.pop(node, None)
        node.remove_producer(self)

    def _top_up(self) -> None:
        link = self._link
        if not link.attached:
            return
        window = self._vhost.limits.credit
        share = min(min(self._shares.values(), default=window), self.room)
        if link.credit > share or link.credit <= share // 2 < share:
            link.flow(share)
            self._peer.wake()


class ExchangeDestination(AnyDestination):
    """An exchange, with the routing key in its address; without one the key is empty, as on RabbitMQ."""

    by_message = False

    def __init__(self, peer: Peer, link: ReceiverLink, address: str) -> None:
        super().__init__(peer, link)
        self._address = address

    def _address_of(self, payload: bytes) -> str:
        return self._address
