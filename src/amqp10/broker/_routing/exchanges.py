"""Exchanges: they keep nothing, and say by its routing key or headers where a message goes.

    publisher ──exchange, routing key──> Exchange ──bindings──> queues, and further exchanges

Names of exchanges are apart from those of queues and topics. What leads from one exchange to the next, and what is
remembered of it, is the business of `topology`.
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
    from .._limits import Account
    from .._queues.node import Node


@dataclass(eq=False, slots=True)
class Binding:
    """One way out of an exchange.

    Attributes:
        destination: where messages go by it.
        key: the binding key; what it means is the exchange's.
        arguments: the same.
        number: in the store; 0 where it is not kept.
        account: of the user who made it; None for nobody.
    """

    exchange: Exchange
    destination: Node | Exchange
    key: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    number: int = 0
    account: Account | None = None


class Exchange(ABC):
    """What exchanges of all types share.

    Attributes:
        kind: "direct", "fanout", "topic" or "headers".
        durable: it survives the broker, where there is a store.
        auto_delete: it ends with its last binding.
        internal: nobody publishes to it but other exchanges.
        predeclared: it is the broker's, and stays.
        alternate: the name of the exchange for what this one has no binding for; None for none.
        bindings: by destination and key; several of one key have different arguments.
        published: messages that came so far.
        unrouted: of these, messages that went nowhere.
        number: in the store; 0 where it is not kept.
        account: of the user who declared it; None for nobody.
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
        """Return the bindings to a destination with that key, and with these arguments unless they are None."""
        same = self.bindings.get((destination, key), [])
        return [each for each in same if arguments is None or each.arguments == arguments]

    def add(self, binding: Binding) -> None:
        """Add a binding.

        Raises:
            NoMatch: the arguments of the binding make no sense here.
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
        """Return where a message goes; `headers` are read only if that depends on them (`by_headers`)."""


class DefaultExchange(Exchange):
    """The routing key is the name of a queue (or topic); all are bound by their names, and nothing else is."""

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
    """Return the names that a key of the default exchange may mean: the first one that a node has is meant."""
    said = prefixed(key)
    return [key] if said is None else [key, said[0]]


class DirectExchange(Exchange):
    """The routing key is the binding key."""

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
    """Every binding, whatever the key."""

    kind = "fanout"

    def _add(self, binding: Binding) -> None: ...

    def _remove(self, binding: Binding) -> None: ...

    def matching(self, key: str, headers: Callable[[], Headers]) -> list[Node | Exchange]:
        return [destination for destination, _ in self.bindings]


class TopicExchange(Exchange):
    """The routing key matches the binding key, which may have `*` and `#` for words."""

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
    """The headers of the message match the arguments of the binding; keys only tell bindings apart."""

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
