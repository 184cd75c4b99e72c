"""Links whose messages go to many nodes: each says in `to` where, or the exchange that they go to does."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from ..engine import CopiedDelivery, RoutedDelivery
from ..errors import DecodeError
from ..messaging import ACCEPTED, Error, read_annotations, read_properties
from ..types import Symbol
from ._address import exchange_in, prefixed, split_address
from ._entry import SAYS_NOTHING, Entry
from ._node import NodeFull
from ._producer import ProducerLink
from ._router import AddressError

if TYPE_CHECKING:
    from ..engine import IncomingDelivery, ReceiverLink
    from ._connection import Peer
    from ._node import Node
    from ._router import Router
    from ._topology import Route

MOST_ALLOWED: Final = 1000
"""Addresses of which a link remembers that it may send there; they are the sender's to choose."""

_CC: Final = "x-cc"
_PROPERTIES: Final = b"\x00\x53\x73"  # how a message begins that has neither header nor annotations
_EXCHANGE, _ROUTING_KEY = Symbol("x-exchange"), Symbol("x-routing-key")


def further_keys(payload: bytes) -> list[str]:
    """The routing keys that a message has beside its first: its annotation `x-cc`, as on RabbitMQ.

    Raises:
        AddressError: they are no list of strings.
        DecodeError: the annotations, or what comes before them, are malformed.
    """
    if payload[:3] >= _PROPERTIES and payload[1:2] == _PROPERTIES[1:2]:
        return []
    keys = read_annotations(payload).get(_CC, [])
    if not isinstance(keys, list) or not all(isinstance(key, str) for key in keys):
        raise AddressError("amqp:invalid-field", f"the message annotation {_CC} is a list of strings, not {keys!r:.60}")
    return keys


class QueueProducerLink(ProducerLink):
    """A link to a queue by its address of RabbitMQ's spelling, where messages may have further routing keys."""

    _alone = False

    def _copies(self, payload: bytes, entry: Entry) -> list[tuple[Node, Entry]]:
        keys = further_keys(payload) if entry.message_format == 0 else []
        if not keys:
            return []
        for key in keys:
            self._rights.check("write", self._router.name_by(key))
        nodes = dict.fromkeys(node for key in keys for node in self._router.ways(None, key, payload))
        return [(node, entry.copy()) for node in nodes if node is not self._node]


class AnonymousProducerLink(ProducerLink):
    """A link to the anonymous terminus: each message says in `to` where it goes.

    Its credit is a full window, but for the time that nodes it sent to are short of room: it is then one of their
    producers, and has the smallest share that any of them grants it.
    """

    def __init__(self, peer: Peer, link: ReceiverLink, router: Router) -> None:
        super().__init__(peer, link, router, None)
        self._shares: dict[Node, int] = {}
        self._allowed: set[str] = set()  # addresses that the sender may write to, where that is limited
        # What dialects with exchanges send says already which one it came to.
        self._on_demand = link.remote is None or link.remote.on_demand

    def begin(self) -> None:
        self._top_up()

    def grant(self, node: Node, credit: int) -> None:
        self._shares[node] = credit
        self._top_up()

    def blocked_or_not(self) -> None:
        self._top_up()

    def relaxed(self, node: Node) -> None:
        self._leave(node)
        self._top_up()

    def take(self) -> None:
        link, now, origin, account = self._link, self._router.clock(), self._peer.number, self._peer.maker.account
        incoming = link.incoming
        while incoming:
            delivery = incoming.popleft()
            try:
                if self._checks_user and self._refuse_forged(delivery):
                    continue
                route = self._route(delivery)
                entry = Entry.read(delivery.payload, delivery.message_format, now, time.time)
            except AddressError as error:
                self._unresolved(delivery, error.error)
                continue
            except DecodeError as error:
                self._reject(delivery, "amqp:decode-error", str(error))
                continue
            entry.origin, entry.account = origin, account
            if route.exchange is not None and self._on_demand:
                entry.annotate({_EXCHANGE: route.exchange.name, _ROUTING_KEY: route.key})
            nodes = route.nodes
            if len(nodes) == 1 and delivery.remote_state is None:
                self._put_one(delivery, nodes[0], entry)
            else:
                # Each queue changes its own entry (position, attempts); the bytes are one.
                posted = [(node, entry.copy() if place else entry) for place, node in enumerate(nodes)]
                self._post(delivery, posted)
            for node in nodes:
                if node.short and node not in self._shares and link.attached:
                    self._shares[node] = link.credit
                    node.add_producer(self)
        self._top_up()

    def _put_one(self, delivery: IncomingDelivery, node: Node, entry: Entry) -> None:
        try:
            node.take(entry)
        except NodeFull as full:
            self._reject(delivery, "amqp:resource-limit-exceeded", str(full))
        else:
            self._settle(delivery, ACCEPTED, entry.durable)

    def _route(self, delivery: IncomingDelivery) -> Route:
        # A message of another format says nothing that could be understood (§2.7.5): where it goes the link says.
        payload = delivery.payload if delivery.message_format == 0 else SAYS_NOTHING
        if isinstance(delivery, RoutedDelivery):
            if self._rights.limited:
                self._check_all(delivery)
            route = self._router.route(delivery.address, payload, on_demand=False)
            if isinstance(delivery, CopiedDelivery):
                copies = [self._router.route(each, payload, on_demand=False).nodes for each in delivery.also]
                nodes = dict.fromkeys([*route.nodes, *(node for nodes in copies for node in nodes)])
                route = route._replace(nodes=tuple(nodes))
            return route
        address = self._address_of(payload)
        if self._rights.limited:
            self._check(address)
        route = self._router.route(address, payload, on_demand=self._on_demand, rights=self._rights)
        keys = further_keys(payload)
        if keys:
            if route.exchange is None or not route.exchange.name:
                for key in keys:
                    self._rights.check("write", self._router.name_by(key))
            more = (node for key in keys for node in self._router.ways(route.exchange, key, payload))
            route = route._replace(nodes=tuple(dict.fromkeys([*route.nodes, *more])))
        return route

    def _check_all(self, delivery: RoutedDelivery) -> None:
        """The same for all addresses of a delivery."""
        self._check(delivery.address)
        if isinstance(delivery, CopiedDelivery):
            for address in delivery.also:
                self._check(address)

    def _check(self, address: str) -> None:
        """Refuse a message to an address that the sender may not write to.

        Through the default exchange each queue is written to as by its own address. What was allowed once is so as
        long as the link lives.

        Raises:
            AddressError: it may not.
        """
        if address in self._allowed:
            return
        exchange = exchange_in(address)
        if exchange is not None:
            self._rights.check("write", exchange.exchange)
        else:
            key = split_address(address)[0]
            name = self._router.name_by(key)
            node = self._router.nodes.get(name)
            if node is None or not node.for_replies:
                self._rights.check("write", name)
            if prefixed(key) is not None:
                return  # which queue that means changes when one of that name comes or goes
        if len(self._allowed) >= MOST_ALLOWED:
            self._allowed.clear()
        self._allowed.add(address)

    def _address_of(self, payload: bytes) -> str:
        to = read_properties(payload).to
        if not to:
            raise AddressError("amqp:not-found", "the message has no `to`, and the link has no address")
        return to

    def _unresolved(self, delivery: IncomingDelivery, error: Error) -> None:
        """Refuse a message that says no address that can be sent to (anonymous terminus, §2.2.2).

        The error names the delivery. A sender that settled it can only be told by the end of the link.
        """
        if isinstance(delivery, RoutedDelivery):  # its dialect says such things in ways of its own
            super()._unresolved(delivery, error)
            return
        self._refuse_aloud(delivery, Error(error.condition, error.description, {Symbol("delivery-tag"): delivery.tag}))

    def credit_used(self) -> None:
        self._top_up()

    def node_deleted(self, error: Error) -> None:
        """One of many addresses is gone; the link goes on."""
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
        window = self._router.limits.credit
        share = min(min(self._shares.values(), default=window), self._room)
        if link.credit > share or link.credit <= share // 2 < share:
            link.flow(share)
            self._peer.wake()


class ExchangeProducerLink(AnonymousProducerLink):
    """A link to an exchange, with a routing key in its address, or each message's subject for one."""

    def __init__(self, peer: Peer, link: ReceiverLink, router: Router, address: str) -> None:
        super().__init__(peer, link, router)
        self._address = address

    def _address_of(self, payload: bytes) -> str:
        return self._address

    def _unresolved(self, delivery: IncomingDelivery, error: Error) -> None:
        ProducerLink._unresolved(self, delivery, error)
