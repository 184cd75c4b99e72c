"""All exchanges of a virtual host: how they come and go, their bindings, and the routes of messages.

Routes are remembered by exchange and routing key, and by the address that a sender gave, until something changes that
they depend on (`routes`). So finding the queues of a message is one lookup, whatever the type of exchange. Only routes
that depend on headers are searched for each message.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Hashable, Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol

from ...engine import RequestRules
from ...messaging import Message
from .._address import split_address
from .._errors import Refused
from .._limits import MAX_KEY_LENGTH, check_name
from .exchanges import KINDS, Binding, DefaultExchange, Exchange, names_of
from .headers_match import Headers, NoMatch, headers_of
from .routes import RememberedRoutes, Route
from .topic_trie import TooManyPlaces

if TYPE_CHECKING:
    from .._queues.node import Node
    from .._users.accounts import Account

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

MAX_KNOWN_LENGTH: Final = 4 * MAX_KEY_LENGTH
"""The most characters of an address whose route is remembered."""


class TopologyJournal(Protocol):
    """Records exchanges and bindings."""

    def add_exchange(self, exchange: Exchange) -> None:
        """Keep an exchange from now on."""

    def add_binding(self, binding: Binding) -> None:
        """Keep a binding from now on, if both of its ends are kept."""

    def drop(self, number: int) -> None:
        """Record that the exchange or binding of that number is gone."""


class Topology:
    """The exchanges of one virtual host.

    Args:
        nodes: the queues and topics, by name.

    Attributes:
        exchanges: by name; "" is the default exchange.
        remembered: the routes that were found. An address for which no node is created is a key of the default
            exchange.
        store: keeps what is durable; None: there is no store.
        binding_count: the number of bindings.
        argument_octets: octets of all arguments that peers gave to queues, exchanges and bindings.
    """

    def __init__(self, nodes: Mapping[str, Node]) -> None:
        self._nodes = nodes
        self.exchanges: dict[str, Exchange] = {"": DefaultExchange(nodes)}
        for name, kind in PREDECLARED.items():
            self.exchanges[name] = KINDS[kind](name, durable=True, predeclared=True)
        self.remembered: RememberedRoutes = RememberedRoutes()
        self.store: TopologyJournal | None = None
        self._to: dict[Node | Exchange, dict[Binding, None]] = {}  # bindings by destination
        self.binding_count: int = 0
        self.argument_octets: int = 0
        # The octets of each, and the account that they count for.
        self._argument_octets: dict[Node | Exchange | Binding, tuple[int, Account | None]] = {}

    def changed(self, node: str) -> None:
        """Forget the remembered routes that depend on a node that came or went."""
        self.remembered.forget(node)

    def _exchange_changed(self, exchange: Exchange) -> None:
        """Forget the remembered routes that depend on an exchange that came or went, or whose bindings changed."""
        self.remembered.forget(exchange)
        self.remembered.forget((ALTERNATE, exchange.name))

    def weigh(self, thing: Node | Exchange | Binding, octets: int, account: Account | None) -> None:
        """Count the octets of arguments that a peer gave to something, until it is gone."""
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
            Refused: no exchange has that name, or it is internal and a sender wants to publish (`publishing`).
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
        """Return an exchange, created if it does not exist.

        Args:
            account: that of the user who declares it.

        Raises:
            Refused: it exists with other terms, its name is reserved, or there is no such type.
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
        check_same(
            f"exchange {name!r}",
            rules,
            ("type", exchange.kind, kind),
            ("durable", exchange.durable, durable),
            ("auto-delete", exchange.auto_delete, auto_delete),
            ("internal", exchange.internal, internal),
            (ALTERNATE, exchange.alternate, alternate),
        )
        return exchange

    def _add(self, exchange: Exchange) -> None:
        self.exchanges[exchange.name] = exchange
        self._exchange_changed(exchange)
        if self.store is not None and exchange.durable:
            self.store.add_exchange(exchange)

    def check_alternate(self, name: str | None, rules: RequestRules) -> None:
        """Check that the alternate exchange `name` exists, if the rules demand it.

        Raises:
            Refused: it does not exist.
        """
        if name is not None and rules.needs_alternate:
            self.find(name)

    def delete(self, name: str, *, if_unused: bool = False, rules: RequestRules = USUAL_RULES) -> None:
        """Delete an exchange with its bindings; a missing one is an error only if the rules say so.

        Raises:
            Refused: it is predeclared, or has bindings although `if_unused` is set, or the rules refuse it.
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
        self._drop(exchange)
        self.forget(exchange)

    def _drop(self, exchange: Exchange) -> None:
        """Remove an exchange with its bindings, except those to it."""
        del self.exchanges[exchange.name]
        if exchange.account is not None:
            exchange.account.exchanges -= 1
        self._exchange_changed(exchange)
        if self.store is not None and exchange.number:
            self.store.drop(exchange.number)
        for same in list(exchange.bindings.values()):
            for binding in list(same):
                self._remove(binding)

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
        """Bind a node or an exchange to an exchange; return the binding, which may have existed before.

        Args:
            account: that of the user who binds.

        Raises:
            Refused: an end is the default exchange, the key is too long, or the arguments are invalid.
        """
        self._check_bindable(exchange, destination, rules=rules)
        check_name("a binding key", key, MAX_KEY_LENGTH)
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
        """Remove a binding, or with arguments None all of that key. Only some rules refuse a missing binding.

        Raises:
            Refused: an end is the default exchange, or the binding is missing and the rules refuse that.
        """
        self._check_bindable(exchange, destination, rules=rules)
        found = exchange.find(destination, key, None if rules.one_per_key else arguments)
        if not found and rules.absent is not None:
            raise Refused(rules.absent, f"{destination.name!r} is not bound to {exchange.name!r} with {key!r}")
        for binding in found:
            self._remove(binding)
        if self._is_unused(exchange):
            self._end(exchange)

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
        """Remove the bindings to a node or an exchange that is gone, and the exchanges that these were the last of."""
        left = [gone]
        while left:  # a loop, because a chain of auto-delete exchanges may be longer than the stack
            gone = left.pop()
            self._weigh_no_more(gone)
            for binding in list(self._to.get(gone, ())):
                self._remove(binding)
                if self._is_unused(binding.exchange):
                    self._drop(binding.exchange)
                    left.append(binding.exchange)

    def _is_unused(self, exchange: Exchange) -> bool:
        return exchange.auto_delete and not exchange.bindings and self.exchanges.get(exchange.name) is exchange

    def count_to(self, destination: Node | Exchange) -> int:
        """Return the number of bindings to a destination."""
        return len(self._to.get(destination, ()))

    def bound_to(self, destination: Node | Exchange) -> list[Binding]:
        """Return the bindings to a destination."""
        return list(self._to.get(destination, ()))

    # Routing

    def route(self, exchange: Exchange, key: str, payload: bytes) -> Route:
        """Route a message that comes to an exchange with a routing key, and count it there.

        Raises:
            Refused: `amqp:resource-limit-exceeded`: the search would take too long.
        """
        way = self.remembered.ways.get((exchange, key))
        if way is None:
            way = self._find_way(exchange, key, payload)
        route = Route(way, exchange, key)
        count(route)
        return route

    def remember(self, address: str, on_demand: bool, route: Route) -> None:
        """Remember the route of messages to that address, unless it depends on headers."""
        # A route to no node is not remembered, because a peer of another dialect may have a node created.
        if route.nodes and len(address) <= MAX_KNOWN_LENGTH:
            names = () if route.exchange is not None else {split_address(address)[0], route.nodes[0].name}
            self.remembered.add_address((address, on_demand), route, names)

    def _find_way(self, exchange: Exchange, key: str, payload: bytes) -> tuple[Node, ...]:
        """Search the nodes for a message: each node once, and each exchange once.

        Raises:
            Refused: see `route`.
        """
        headers = _headers_once(payload)
        found: dict[Node, None] = {}
        waiting, seen = [exchange], {exchange}
        depends_on: dict[Hashable, None] = {}
        for each in waiting:  # grows during the loop
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
        if len(key) <= MAX_KEY_LENGTH and not any(each.by_headers for each in waiting):
            self.remembered.add_way((exchange, key), way, depends_on)
        return way


def check_known(arguments: Mapping[str, Any], known: Container[str], rules: RequestRules) -> None:
    """Check that all arguments are known, if the rules refuse unknown ones.

    Raises:
        Refused: an argument is unknown.
    """
    unknown = [name for name in arguments if name not in known]
    if unknown and rules.unknown_argument is not None:
        raise Refused(rules.unknown_argument, f"unknown argument {unknown[0]!r:.60}")


def check_same(what: str, rules: RequestRules, *terms: tuple[str, object, object]) -> None:
    """Check that what exists is as it is declared again, where the rules compare that.

    Args:
        what: the queue or exchange, for the error.
        terms: the name of each term, its value, and the declared value. A mapping has arguments, each named as such.

    Raises:
        Refused: values differ; it names all of them.
    """
    different: list[tuple[str, object, object]] = []
    for name, value, declared in terms:
        if not rules.differs(name, value, declared):
            continue
        if isinstance(value, Mapping) and isinstance(declared, Mapping):
            both = [(each, value.get(each), declared.get(each)) for each in sorted({*value, *declared})]
            different += [(each, one, other) for each, one, other in both if one != other]
        else:
            different.append((name, value, declared))
    if different:
        words = "; ".join(f"{name} {value!r:.80}, not {declared!r:.80}" for name, value, declared in different)
        raise Refused(rules.different, f"{what} has {words}")


def count(route: Route) -> None:
    """Count a message that took a route, at its exchange."""
    exchange = route.exchange
    if exchange is not None:
        exchange.published += 1
        if not route.nodes:
            exchange.unrouted += 1


def _headers_once(payload: bytes) -> Callable[[], Headers]:
    """Return a function that reads the headers of a message at its first call."""
    read: list[Headers] = []

    def headers() -> Headers:
        if not read:
            message = Message.decode(payload)
            read.append(headers_of(message.application_properties, message.message_annotations))
        return read[0]

    return headers
