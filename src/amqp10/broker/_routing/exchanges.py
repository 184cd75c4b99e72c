"""Exchanges: they hold no messages, but route each by its routing key or headers.

    publisher ──exchange, routing key──> Exchange ──bindings──> queues, and further exchanges

Names of exchanges are separate from those of queues and topics. `topology` follows routes from one exchange to the
next, and remembers them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from .._address import prefixed
from .headers_match import Headers, Test, header_match
from .topic_trie import TopicTrie

if TYPE_CHECKING:
    from .._queues.node import Node
    from .._users.accounts import Account


@dataclass(eq=False, slots=True)
class Binding:
    """A binding of a queue, topic or exchange to an exchange.

    Attributes:
        destination: where matching messages go.
        key: the binding key, which the type of exchange interprets.
        arguments: arguments, which the type of exchange interprets.
        number: its number in the store; 0: it is not kept.
        account: that of the user who made it; None: there is no user.
    """

    exchange: Exchange
    destination: Node | Exchange
    key: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    number: int = 0
    account: Account | None = None


class Exchange(ABC):
    """The base of all types of exchange.

    Attributes:
        kind: "direct", "fanout", "topic" or "headers".
        durable: whether a store keeps it.
        auto_delete: whether it ends with its last binding.
        internal: whether only exchanges may publish to it.
        predeclared: whether it is the broker's own, and cannot be deleted.
        alternate: the exchange for messages without a matching binding; None: there is no such exchange.
        bindings: by destination and key; those of one key differ in their arguments.
        published: messages that ever arrived.
        unrouted: how many of them had no matching binding.
        number: its number in the store; 0: it is not kept.
        account: that of the user who declared it; None: there is no user.
    """

    account: Account | None = None
    kind: str
    by_headers = False

    def __init__(
        self,
        name: str,
        *,
        durable: bool = False,
        auto_delete: bool = False,
        internal: bool = False,
        predeclared: bool = False,
        arguments: Mapping[str, Any] | None = None,
    ) -> None:
        self.name = name
        self.durable = durable
        self.auto_delete = auto_delete
        self.internal = internal
        self.predeclared = predeclared
        self.arguments: Mapping[str, Any] = arguments or {}
        alternate = self.arguments.get("alternate-exchange")
        self.alternate: str | None = alternate if isinstance(alternate, str) else None
        self.bindings: dict[tuple[Node | Exchange, str], list[Binding]] = {}
        self.published = 0
        self.unrouted = 0
        self.number = 0

    def find(self, destination: Node | Exchange, key: str, arguments: Mapping[str, Any] | None) -> list[Binding]:
        """Return the bindings to a destination with that key and those arguments; None: with any arguments."""
        same = self.bindings.get((destination, key), [])
        return [each for each in same if arguments is None or each.arguments == arguments]

    def add(self, binding: Binding) -> None:
        """Add a binding.

        Raises:
            NoMatch: the arguments of the binding are invalid for this exchange.
        """
        self._add(binding)
        self.bindings.setdefault((binding.destination, binding.key), []).append(binding)

    def remove(self, binding: Binding) -> None:
        """Remove a binding."""
        place = (binding.destination, binding.key)
        self.bindings[place].remove(binding)
        if not self.bindings[place]:
            del self.bindings[place]
        self._remove(binding)

    @abstractmethod
    def _add(self, binding: Binding) -> None: ...

    @abstractmethod
    def _remove(self, binding: Binding) -> None: ...

    @abstractmethod
    def matching(self, key: str, headers: Callable[[], Headers]) -> list[Node | Exchange]:
        """Return the destinations of a message; `headers` reads its headers, which only `by_headers` exchanges need."""


class DefaultExchange(Exchange):
    """Routes to the queue or topic whose name is the routing key. It has no other bindings."""

    kind = "direct"

    def __init__(self, nodes: Mapping[str, Node]) -> None:
        super().__init__("", durable=True, predeclared=True)
        self._nodes = nodes

    def _add(self, binding: Binding) -> None:
        raise TypeError("the bindings of the default exchange cannot be changed")

    _remove = _add

    def matching(self, key: str, headers: Callable[[], Headers]) -> list[Node | Exchange]:
        node = next(filter(None, map(self._nodes.get, names_of(key))), None)
        return [] if node is None else [node]


def names_of(key: str) -> list[str]:
    """Return the names that a key of the default exchange may mean; the first one that exists counts."""
    parsed = prefixed(key)
    return [key] if parsed is None else [key, parsed[0]]


class DirectExchange(Exchange):
    """Routes to bindings whose binding key equals the routing key."""

    kind = "direct"

    def __init__(self, name: str, **settings: Any) -> None:
        super().__init__(name, **settings)
        self._by_key: dict[str, list[Binding]] = {}

    def _add(self, binding: Binding) -> None:
        self._by_key.setdefault(binding.key, []).append(binding)

    def _remove(self, binding: Binding) -> None:
        self._by_key[binding.key].remove(binding)
        if not self._by_key[binding.key]:
            del self._by_key[binding.key]

    def matching(self, key: str, headers: Callable[[], Headers]) -> list[Node | Exchange]:
        return [binding.destination for binding in self._by_key.get(key, ())]


class FanoutExchange(Exchange):
    """Routes to all bindings."""

    kind = "fanout"

    def _add(self, binding: Binding) -> None: ...

    def _remove(self, binding: Binding) -> None: ...

    def matching(self, key: str, headers: Callable[[], Headers]) -> list[Node | Exchange]:
        return [destination for destination, _ in self.bindings]


class TopicExchange(Exchange):
    """Routes to bindings whose binding key matches the routing key; `*` and `#` in it stand for words."""

    kind = "topic"

    def __init__(self, name: str, **settings: Any) -> None:
        super().__init__(name, **settings)
        self._patterns: TopicTrie[Binding] = TopicTrie()

    def _add(self, binding: Binding) -> None:
        self._patterns.add(binding.key, binding)

    def _remove(self, binding: Binding) -> None:
        self._patterns.remove(binding.key, binding)

    def matching(self, key: str, headers: Callable[[], Headers]) -> list[Node | Exchange]:
        return [binding.destination for binding in self._patterns.matching(key)]


class HeadersExchange(Exchange):
    """Routes to bindings whose arguments match the headers of the message; keys only distinguish bindings."""

    kind = "headers"
    by_headers = True

    def __init__(self, name: str, **settings: Any) -> None:
        super().__init__(name, **settings)
        self._tests: dict[Binding, Test] = {}

    def _add(self, binding: Binding) -> None:
        self._tests[binding] = header_match(binding.arguments)

    def _remove(self, binding: Binding) -> None:
        del self._tests[binding]

    def matching(self, key: str, headers: Callable[[], Headers]) -> list[Node | Exchange]:
        if not self._tests:
            return []
        found = headers()
        return [binding.destination for binding, test in self._tests.items() if test(found)]


KINDS: Final[dict[str, type[Exchange]]] = {
    kind.kind: kind for kind in (DirectExchange, FanoutExchange, TopicExchange, HeadersExchange)
}
