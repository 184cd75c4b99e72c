"""What an address means: a name, and whether it is that of a queue or of a topic.

Addresses in the form that all dialects share (`/queues/NAME`, `/exchanges/NAME/KEY`) say so themselves. All others
follow one rule, close to that of Artemis, ActiveMQ and Broker-J; the first that applies decides:

1. The prefix of `queue://NAME` or `topic://NAME`, which is not part of the name.
2. The capability "queue" or "topic" (or "temporary-queue", "temporary-topic") of the terminus (JMS mapping).
3. The kind of the node that exists under the name.
4. A name that starts with `topic.` is a topic, any other a queue.
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
    """Return the exchange and the routing key that an address means; None: it is the address of a node.

    Raises:
        Refused: the address is malformed, or names the default exchange. Queues are reached by their own addresses,
            which permissions are checked for.
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
    """Split an address into a name and the kind that the address or `capabilities` ask for; None: they ask for no kind.

    Raises:
        Refused: the address is malformed, or is that of an exchange.
    """
    if address.startswith(_EXCHANGES):
        raise Refused(
            "amqp:not-allowed",
            f"{address!r} is an exchange: bind a queue to it and receive from the queue",
        )
    if address.startswith(QUEUES):
        address = "" if address == QUEUES else _parsed(address).key or ""
        return address, next((_CAPABILITIES[word] for word in capabilities if word in _CAPABILITIES), None)
    parsed = prefixed(address)
    if parsed is not None:
        return parsed
    for capability in capabilities:
        if capability in _CAPABILITIES:
            return address, _CAPABILITIES[capability]
    return address, None


def prefixed(name: str) -> tuple[str, Kind] | None:
    """Return the name and the kind of a name with a prefix that says its kind; None for any other name.

    Dialects that have names of queues in place of addresses carry such an address as a name.
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
    """Return the kind of a name when nothing else decides it."""
    return "topic" if name.startswith(_TOPIC_NAMES) else "queue"


def is_made_up(name: str) -> bool:
    """Return whether the broker or our client made up `name` for a node that lasts as long as one link or connection.

    Once such a node is gone, nobody waits for messages to it.
    """
    return _MADE_UP.fullmatch(name) is not None
