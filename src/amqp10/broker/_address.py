"""What an address says: a name, and whether it wants a queue or a topic.

An address of the spelling that all dialects share (`/queues/NAME`, `/exchanges/NAME/KEY`) says what it says. For any
other there is one rule, close to what Artemis, ActiveMQ and Broker-J do:

1. `queue://NAME` and `topic://NAME` say the kind outright; the prefix is not part of the name.
2. Else the terminus may, by the capability "queue" or "topic" (or "temporary-queue", "temporary-topic"; JMS mapping).
3. Else a node that exists under that name is what it is.
4. Else a name that starts with `topic.` is a topic, and any other is a queue.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, Literal

from ..engine import Address, parse_address
from ._errors import Refused

Kind = Literal["queue", "topic"]


_PREFIXES: tuple[tuple[str, Kind], ...] = (("queue://", "queue"), ("topic://", "topic"))
_CAPABILITIES: dict[str, Kind] = {
    "queue": "queue",
    "temporary-queue": "queue",
    "topic": "topic",
    "temporary-topic": "topic",
}
_TOPIC_NAMES = "topic."
_HEX: Final = "[0-9a-f]"
_MADE_UP: Final = re.compile(
    rf"(temporary-(queue|topic)/|amqp10-){_HEX}{{8}}(-{_HEX}{{4}}){{3}}-{_HEX}{{12}}|amqp10\.gen-{_HEX}{{24}}"
)


QUEUES, _EXCHANGES = "/queues/", "/exchanges/"


def exchange_in(address: str) -> Address | None:
    """Return the exchange that an address means, and the routing key; None where it means a node.

    Raises:
        Refused: it is spelled wrong, or names none: queues are reached by their own addresses, and permissions.
    """
    if not address.startswith(_EXCHANGES):
        return None
    parsed = _parsed(address)
    if not parsed.exchange:
        raise Refused(
            "amqp:invalid-field", f"{address!r:.200} does not name an exchange; the address of a queue is /queues/NAME"
        )
    return parsed


def split_address(address: str, capabilities: Iterable[str] = ()) -> tuple[str, Kind | None]:
    """Split an address into a name and the kind that address or capabilities ask for; None if they ask for none.

    Raises:
        Refused: it is spelled wrong, or means an exchange.
    """
    if address.startswith(_EXCHANGES):
        raise Refused(
            "amqp:not-allowed",
            f"{address!r} is an exchange: bind a queue to it and receive from the queue",
        )
    if address.startswith(QUEUES):
        address = "" if address == QUEUES else _parsed(address).key or ""
        return address, next((_CAPABILITIES[word] for word in capabilities if word in _CAPABILITIES), None)
    said = prefixed(address)
    if said is not None:
        return said
    for capability in capabilities:
        if capability in _CAPABILITIES:
            return address, _CAPABILITIES[capability]
    return address, None


def prefixed(name: str) -> tuple[str, Kind] | None:
    """Read a name that begins as an address does which says its kind; return None for any other name.

    Dialects that have names of queues, and no addresses, carry such an address as a name.
    """
    for prefix, kind in _PREFIXES:
        if name.startswith(prefix):
            return name[len(prefix) :], kind
    return None


def _parsed(address: str) -> Address:
    try:
        return parse_address(address)
    except ValueError as error:
        raise Refused("amqp:invalid-field", str(error)) from None


def usual_kind(name: str) -> Kind:
    """Return the kind that a name has when nothing else decides."""
    return "topic" if name.startswith(_TOPIC_NAMES) else "queue"


def is_made_up(name: str) -> bool:
    """Return whether the broker, or our client, made up the name of a node that is there for one link or connection.

    When such a node is gone, nobody waits for a message to it.
    """
    return _MADE_UP.fullmatch(name) is not None
