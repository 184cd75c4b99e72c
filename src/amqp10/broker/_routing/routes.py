"""Remembered routes: each is reused until something changes that it depends on.

A way is where a message goes that comes to an exchange with a routing key; it depends on the exchanges that were
visited. A route is the same for the address that a sender gave; it depends on a way, or on the name of a node. A change
forgets only what depends on it, so that peers that come and go cost the others little.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from .._queues.node import Node
    from .exchanges import Exchange

MAX_KNOWN: Final = 10_000
"""The most ways and routes that are remembered, because senders choose the keys."""
MAX_DEPENDENCIES: Final = 16
"""The most things noted that a way or route depends on; one that depends on more is forgotten with any change."""
_ANY: Final = object()


class Route(NamedTuple):
    """Where a message goes.

    Attributes:
        nodes: the nodes; empty: the message cannot be routed.
        exchange, key: the exchange and routing key that it came with; exchange None: the sender named the node.
    """

    nodes: tuple[Node, ...]
    exchange: Exchange | None
    key: str


Way = tuple["Exchange", str]
Address = tuple[str, bool]


class RememberedRoutes:
    """The remembered routes of one virtual host.

    Attributes:
        by_address: routes, by address and by whether missing nodes are created.
        ways: nodes, by exchange and routing key.
    """

    def __init__(self) -> None:
        self.by_address: dict[Address, Route] = {}
        self.ways: dict[Way, tuple[Node, ...]] = {}
        self._dependents: dict[Hashable, dict[Way | Address, None]] = {}
        self._depends_on: dict[Way | Address, tuple[Hashable, ...]] = {}

    def add_way(self, way: Way, nodes: tuple[Node, ...], depends_on: Iterable[Hashable]) -> None:
        """Remember where a way leads."""
        self._make_room()
        self.ways[way] = nodes
        self._depend(way, depends_on)

    def add_address(self, address: Address, route: Route, names: Iterable[str]) -> None:
        """Remember the route of an address: through a known way, or to the node of one of these names."""
        self._make_room()
        if route.exchange is None:
            self.by_address[address] = route
            self._depend(address, names)
        elif (route.exchange, route.key) in self.ways:
            self.by_address[address] = route
            self._depend(address, [(route.exchange, route.key)])

    def forget(self, changed: Hashable) -> None:
        """Forget what depends on something that changed, directly or not."""
        waiting = [changed, _ANY]
        for each in waiting:  # grows during the loop
            for dependent in self._dependents.pop(each, ()):
                for other in self._depends_on.pop(dependent, ()):
                    if other in self._dependents:
                        self._dependents[other].pop(dependent, None)
                        if not self._dependents[other]:
                            del self._dependents[other]
                self.ways.pop(dependent, None)  # type: ignore[arg-type]
                self.by_address.pop(dependent, None)  # type: ignore[arg-type]
                waiting.append(dependent)

    def _depend(self, dependent: Way | Address, depends_on: Iterable[Hashable]) -> None:
        things = tuple(depends_on)
        if len(things) > MAX_DEPENDENCIES:
            things = (_ANY,)
        self._depends_on[dependent] = things
        for each in things:
            self._dependents.setdefault(each, {})[dependent] = None

    def _make_room(self) -> None:
        if len(self._depends_on) >= MAX_KNOWN:
            for each in (self.by_address, self.ways, self._dependents, self._depends_on):
                each.clear()
