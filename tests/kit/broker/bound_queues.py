"""A client of a virtual host with three queues, two of them bound to an exchange."""

from __future__ import annotations

from ..inside.broker import VirtualHostCore
from .wire import Wire


def bound(vhost: VirtualHostCore) -> Wire:
    """A connection to the virtual host with the queues."""
    topology = vhost.topology
    for name, exchange, key in (("one", "amq.topic", "a.*"), ("two", "amq.topic", "a.b"), ("three", "", "")):
        queue = vhost.declare(name, "queue")
        if exchange:
            topology.bind(topology.find(exchange), queue, key)
    return Wire(vhost)


def depths(vhost: VirtualHostCore) -> list[int]:
    """Of the three queues."""
    return [vhost.nodes[name].depth for name in ("one", "two", "three")]  # type: ignore[attr-defined]
