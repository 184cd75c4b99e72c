"""All exchanges of a broker: how they come and go, what binds them, and which way a message takes.

Ways are remembered (`routes`), by exchange and routing key and by the address that a sender gave, until something
changes that they depend on: finding the queues of a message is then one look into a dict, whatever the type of the
exchange. Only what the headers of a message decide is found anew for each.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Container, Hashable, Mapping
from typing import TYPE_CHECKING, Any, Final

from ...engine import RequestRules
from ...messaging import Message
from .._address import split_address
from .._errors import Refused
from .._limits import LONGEST_KEY, check_key
from .exchanges import KINDS, Binding, DefaultExchange, Exchange, names_of
from .headers_match import Headers, NoMatch, headers_of
from .routes import RememberedRoutes, Route
from .topic_trie import TooManyPlaces

if TYPE_CHECKING:
    from .._limits import Account
    from .._queues.node import Node

PREDECLARED: Final = {
    "amq.direct": "direct",
    "amq.fanout": "fanout",
    "amq.topic": "topic",
    "amq.headers": "headers",
    "amq.match": "headers",
}
RESERVED: Final = "amq."
ALTERNATE: Final = "alternate-exchange"
USUAL_RULES: Final = RequestRules()

LONGEST_KNOWN: Final = 4 * LONGEST_KEY
"""Characters of an address whose way is remembered."""


class TopologyJournal(ABC):
    """Records which exchanges and bindings there are."""

    @abstractmethod
    def add_exchange(self, exchange: Exchange) -> None:
        """Keep an exchange from now on."""

    @abstractmethod
    def add_binding(self, binding: Binding) -> None:
        """Keep a binding from now on, if both of its ends are kept."""

    @abstractmethod
    def drop(self, number: int) -> None:
        """Record that the exchange or binding of that number is gone."""


class Topology:
    """The exchanges of one broker.

    Args:
        nodes: the queues and topics, by name.

    Attributes:
        exchanges: by name; that of the default exchange is empty.
        remembered: the routes that were found. Where nodes are not made for an address on demand, it is a key of the
            default exchange.
        store: where what is durable is kept; None for nowhere.
        binding_count: how many bindings there are.
        argument_octets: those of all arguments that peers have given queues, exchanges and bindings.
    """

    def __init__(self, nodes: Mapping[str, Node]) -> None:
        self._nodes = nodes
        self.exchanges: dict[str, Exchange] = {"": DefaultExchange(nodes)}
        for name, kind in PREDECLARED.items():
            self.exchanges[name] = KINDS[kind](name, durable=True, predeclared=True)
        self.remembered: RememberedRoutes = RememberedRoutes()
        self.store: TopologyJournal | None = None
        self._to: dict[Node | Exchange, dict[Binding, None]] = {}  # bindings, by where they lead
        self.binding_count: int = 0
        self.argument_octets: int = 0
        # The same, by what has them, and whose they are.
        self._argument_octets: dict[Node | Exchange | Binding, tuple[int, Account | None]] = {}

    def changed(self, node: str) -> None:
        """Forget the remembered routes that depend on the node of that name: it came or went."""
        self.remembered.forget(node)

    def _exchange_changed(self, exchange: Exchange) -> None:
        """Forget the remembered routes that depend on an exchange: it came or went, or one of its bindings did."""
        self.remembered.forget(exchange)
        self.remembered.forget((ALTERNATE, exchange.name))

    def weigh(self, thing: Node | Exchange | Binding, octets: int, account: Account | None) -> None:
        """Count the octets of the arguments that a peer has given something, until that is gone."""
        if octets:
            self._weigh_no_more(thing)
            self.argument_octets += octets
            self._argument_octets[thing] = octets, account
            if account is not None:
                account.arguments += octets

    def _weigh_no_more(self, thing: Node | Exchange | Binding) -> None:
        octets, account = self._argument_octets.pop(thing, (0, None))
        self.argument_octets -= octets
        if account is not None:
            account.arguments -= octets

    def keep(self) -> None:
        """Keep durable exchanges and bindings in a store from now on."""
        if self.store is None:
            return
        for exchange in self.exchanges.values():
            if exchange.durable and not exchange.predeclared and not exchange.number:
                self.store.add_exchange(exchange)
        for leading in self._to.values():
            for binding in leading:
                if not binding.number:
                    self.store.add_binding(binding)

    # Exchanges

    def find(self, name: str, *, publishing: bool = False) -> Exchange:
        """Return the exchange of that name.

        Raises:
            Refused: no exchange has that name, or it is internal and a sender means to publish.
        """
        exchange = self.exchanges.get(name)
        if exchange is None:
            raise Refused("amqp:not-found", f"there is no exchange {name!r}")
        if publishing and exchange.internal:
            raise Refused("amqp:unauthorized-access", f"exchange {name!r} is internal")
        return exchange

    def declare(
        self,
        name: str,
        kind: str = "direct",
        *,
        durable: bool = False,
        auto_delete: bool = False,
        internal: bool = False,
        arguments: Mapping[str, Any] | None = None,
        rules: RequestRules = USUAL_RULES,
        account: Account | None = None,
    ) -> Exchange:
        """Make an exchange, or find it if it is there and the same.

        Args:
            account: of the user who asks for it.

        Raises:
            Refused: it is there and another, the name is the broker's, or there is no such type.
        """
        arguments = dict(arguments or {})
        if kind not in KINDS:
            raise Refused(rules.unknown_type, f"unknown exchange type {kind!r:.60}")
        check_known(arguments, {ALTERNATE}, rules)
        alternate = arguments.get(ALTERNATE)
        if alternate is not None and not isinstance(alternate, str):
            raise Refused("amqp:precondition-failed", f"{ALTERNATE} must be the name of an exchange")
        exchange = self.exchanges.get(name)
        if exchange is None:
            if name.startswith(RESERVED):
                raise Refused(rules.reserved, f"names that begin with {RESERVED!r} are reserved")
            self.check_alternate(alternate, rules)
            exchange = KINDS[kind](
                name, durable=durable, auto_delete=auto_delete, internal=internal, arguments=arguments
            )
            if account is not None:
                exchange.account = account
                account.exchanges += 1
            self._add(exchange)
            return exchange
        if exchange.name == "":
            raise Refused(rules.reserved, "the default exchange cannot be declared")
        there = (exchange.kind, exchange.durable, exchange.auto_delete, exchange.internal, exchange.alternate)
        for word, is_so, asked in zip(
            ("type", "durable", "auto-delete", "internal", ALTERNATE),
            there,
            (kind, durable, auto_delete, internal, alternate),
            strict=True,
        ):
            if rules.differs(word, is_so, asked):
                raise Refused(rules.different, f"exchange {name!r} has {word} {is_so!r}, not {asked!r}")
        return exchange

    def _add(self, exchange: Exchange) -> None:
        self.exchanges[exchange.name] = exchange
        self._exchange_changed(exchange)
        if self.store is not None and exchange.durable:
            self.store.add_exchange(exchange)

    def check_alternate(self, name: str | None, rules: RequestRules) -> None:
        """See that the exchange is there that something is to have for its alternate, where that is the rule.

        Raises:
            Refused: it is not.
        """
        if name is not None and rules.needs_alternate:
            self.find(name)

    def delete(self, name: str, *, if_unused: bool = False, rules: RequestRules = USUAL_RULES) -> None:
        """End an exchange with its bindings; one that is not there is gone already, unless the rules refuse that.

        Raises:
            Refused: it is the broker's, it has bindings and is to be deleted only without, or the rules refuse it.
        """
        exchange = self.exchanges.get(name)
        if exchange is None:
            if rules.absent is not None:
                raise Refused(rules.absent, f"there is no exchange {name!r}")
            return
        if exchange.predeclared:
            raise Refused(rules.reserved, f"exchange {name!r} is predeclared, and cannot be deleted")
        if rules.needs_alternate and self._is_alternate(name):
            raise Refused("amqp:not-allowed", f"exchange {name!r} is the alternate exchange of a queue or an exchange")
        if if_unused and exchange.bindings:
            raise Refused("amqp:precondition-failed", f"exchange {name!r} is in use")
        self._end(exchange)

    def _is_alternate(self, name: str) -> bool:
        """Return whether an exchange or a queue names it as its alternate or dead-letter exchange."""
        queues = (getattr(node, "dead_letter_to", None) for node in self._nodes.values())
        return any(each.alternate == name for each in self.exchanges.values()) or any(
            to is not None and to[0] == name for to in queues
        )

    def _end(self, exchange: Exchange) -> None:
        del self.exchanges[exchange.name]
        if exchange.account is not None:
            exchange.account.exchanges -= 1
        self._exchange_changed(exchange)
        if self.store is not None and exchange.number:
            self.store.drop(exchange.number)
        for same in list(exchange.bindings.values()):
            for binding in list(same):
                self._remove(binding)
        self.forget(exchange)

    # Bindings

    def bind(
        self,
        exchange: Exchange,
        destination: Node | Exchange,
        key: str,
        arguments: Mapping[str, Any] | None = None,
        rules: RequestRules = USUAL_RULES,
        account: Account | None = None,
    ) -> Binding:
        """Bind a node or another exchange to an exchange; one that is there already stays as it is.

        Args:
            account: of the user who asks for it.

        Raises:
            Refused: one of them is the default exchange, the key is too long, or the arguments make no sense.
        """
        self._check_bindable(exchange, destination, rules=rules)
        check_key(key)
        arguments = dict(arguments or {})
        if not exchange.by_headers:
            check_known(arguments, (), rules)
        there = exchange.find(destination, key, None if rules.one_per_key else arguments)
        if there:
            return there[0]
        binding = Binding(exchange, destination, key, arguments, account=account)
        try:
            exchange.add(binding)
        except NoMatch as error:
            raise Refused("amqp:precondition-failed", str(error)) from None
        self._to.setdefault(destination, {})[binding] = None
        self.binding_count += 1
        if account is not None:
            account.bindings += 1
        self._exchange_changed(exchange)
        if self.store is not None:
            self.store.add_binding(binding)
        return binding

    def unbind(
        self,
        exchange: Exchange,
        destination: Node | Exchange,
        key: str,
        arguments: Mapping[str, Any] | None = None,
        rules: RequestRules = USUAL_RULES,
    ) -> None:
        """Undo that; without arguments, for all of that key. Where nothing is bound so, nothing happens, as a rule.

        Raises:
            Refused: one of them is the default exchange, or nothing is bound so and the rules refuse that.
        """
        self._check_bindable(exchange, destination, rules=rules)
        found = exchange.find(destination, key, None if rules.one_per_key else arguments)
        if not found and rules.absent is not None:
            raise Refused(rules.absent, f"{destination.name!r} is not bound to {exchange.name!r} with {key!r}")
        for binding in found:
            self._remove(binding)
        self._end_unused(exchange)

    def _check_bindable(self, *ends: Node | Exchange, rules: RequestRules) -> None:
        if self.exchanges[""] in ends:
            raise Refused(rules.reserved, "the bindings of the default exchange cannot be changed")

    def _remove(self, binding: Binding) -> None:
        binding.exchange.remove(binding)
        self._weigh_no_more(binding)
        leading = self._to[binding.destination]
        self.binding_count -= 1
        if binding.account is not None:
            binding.account.bindings -= 1
        del leading[binding]
        if not leading:
            del self._to[binding.destination]
        self._exchange_changed(binding.exchange)
        if self.store is not None and binding.number:
            self.store.drop(binding.number)

    def forget(self, gone: Node | Exchange) -> None:
        """Remove the bindings that lead to a node or an exchange that is gone."""
        self._weigh_no_more(gone)
        for binding in list(self._to.get(gone, ())):
            self._remove(binding)
            self._end_unused(binding.exchange)

    def _end_unused(self, exchange: Exchange) -> None:
        if exchange.auto_delete and not exchange.bindings and self.exchanges.get(exchange.name) is exchange:
            self._end(exchange)

    def count_to(self, destination: Node | Exchange) -> int:
        """Return how many bindings lead there."""
        return len(self._to.get(destination, ()))

    def bound_to(self, destination: Node | Exchange) -> list[Binding]:
        """Return the bindings that lead to a destination."""
        return list(self._to.get(destination, ()))

    # Routing

    def route(self, exchange: Exchange, key: str, payload: bytes) -> Route:
        """Route a message that comes to an exchange with a routing key, and count it there.

        Raises:
            Refused: `amqp:resource-limit-exceeded`: finding that out would take too long.
        """
        way = self.remembered.ways.get((exchange, key))
        if way is None:
            way = self._find_way(exchange, key, payload)
        route = Route(way, exchange, key)
        count(route)
        return route

    def remember(self, address: str, on_demand: bool, route: Route) -> None:
        """Messages to that address go this way, if no headers decide it."""
        # Nowhere is where a node may be made, by who asks in another dialect.
        if route.nodes and len(address) <= LONGEST_KNOWN:
            names = () if route.exchange is not None else {split_address(address)[0], route.nodes[0].name}
            self.remembered.add_address((address, on_demand), route, names)

    def _find_way(self, exchange: Exchange, key: str, payload: bytes) -> tuple[Node, ...]:
        """Collect each node once, however many bindings lead there, and visit each exchange once.

        Raises:
            Refused: as for `route`.
        """
        headers = _headers_once(payload)
        found: dict[Node, None] = {}
        waiting, seen = [exchange], {exchange}
        depends_on: dict[Hashable, None] = {}
        for each in waiting:  # which grows
            try:
                destinations = each.matching(key, headers)
            except TooManyPlaces as error:
                raise Refused("amqp:resource-limit-exceeded", f"exchange {each.name!r}: {error}") from None
            depends_on |= dict.fromkeys(names_of(key) if each is self.exchanges[""] else [each])
            if not destinations and each.alternate is not None:
                depends_on[ALTERNATE, each.alternate] = None
                if each.alternate in self.exchanges:
                    destinations = [self.exchanges[each.alternate]]
            for destination in destinations:
                if not isinstance(destination, Exchange):
                    found[destination] = None
                elif destination not in seen:
                    seen.add(destination)
                    waiting.append(destination)
        way = tuple(found)
        if len(key) <= LONGEST_KEY and not any(each.by_headers for each in waiting):
            self.remembered.add_way((exchange, key), way, depends_on)
        return way


def check_known(arguments: Mapping[str, Any], known: Container[str], rules: RequestRules) -> None:
    """See that arguments mean something here, where the rules refuse those that do not.

    Raises:
        Refused: one of them is not among those that are known.
    """
    unknown = [name for name in arguments if name not in known]
    if unknown and rules.unknown_argument is not None:
        raise Refused(rules.unknown_argument, f"unknown argument {unknown[0]!r:.60}")


def count(route: Route) -> None:
    """Count a message that took a route, at its exchange."""
    exchange = route.exchange
    if exchange is not None:
        exchange.published += 1
        if not route.nodes:
            exchange.unrouted += 1


def _headers_once(payload: bytes) -> Callable[[], Headers]:
    """Return a function that reads the headers of a message once, when they are first asked for."""
    read: list[Headers] = []

    def headers() -> Headers:
        if not read:
            message = Message.decode(payload)
            read.append(headers_of(message.application_properties, message.message_annotations))
        return read[0]

    return headers
