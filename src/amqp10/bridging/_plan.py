"""The plan of a bridge without moving anything: the ends, and the number of messages at the source."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..client.internals import ask
from ..engine import LINK_PAIR, QueryQueue, parse_address
from ..errors import AmqpError
from ..rabbitmq import management

if TYPE_CHECKING:
    from ..client import Connection
    from ..messaging import Source
    from ._attach import Guarantee

MAX_BROWSED = 10_000
"""The most messages to browse for a count, if the broker does not tell it."""


@dataclass(frozen=True, slots=True)
class PlannedEnd:
    """One end of a bridge.

    Attributes:
        url: the URL, without credentials.
        address: the address; None if each message has its own.
        dialect: the dialect of the connection.
        peer: the server's product and version, as it announces them.
    """

    url: str
    address: str | None
    dialect: str
    peer: str

    def __str__(self) -> str:
        return f"{self.url} {self.address or '(where each message says)'}: {self.peer}, dialect {self.dialect}"


@dataclass(frozen=True, slots=True)
class BridgePlan:
    """What a bridge would move, between which ends, and with which guarantee. Nothing was moved.

    Attributes:
        source, target: the ends, which were both connected and attached.
        guarantee: "at-least-once"; or exactly once, by "resume" of messages in flight, or by "transactions".
        undecoded: whether messages would be passed on without decoding, since both ends speak AMQP 1.0.
        messages: the number of messages at the source; None if it cannot be found without taking messages.
        more: whether there are more than `messages`, because counting ended there.
    """

    source: PlannedEnd
    target: PlannedEnd
    guarantee: Guarantee
    undecoded: bool
    messages: int | None
    more: bool

    def __str__(self) -> str:
        waiting = "an unknown number of" if self.messages is None else f"{self.messages:,}{' or more' * self.more}"
        how = f"{_WORDS[self.guarantee]}, {'as they are' if self.undecoded else 'with their properties mapped'}"
        return f"from {self.source}\nto {self.target}\n{waiting} messages wait; they would be moved {how}"


_WORDS = {
    "at-least-once": "at least once",
    "resume": "exactly once, by resuming what is in flight",
    "transactions": "exactly once, in transactions",
}


def end_of(connection: Connection, address: str | None) -> PlannedEnd:
    """Describe an attached end."""
    properties = connection.remote_properties
    product, version = properties.get("product", "a server that does not say its name"), properties.get("version", "")
    peer = " ".join(f"{product} {version}".split())  # one line, whatever the peer announces
    return PlannedEnd(connection.url, address, connection.dialect, peer)


async def count(connection: Connection, source: Source, max_bytes: int) -> tuple[int | None, bool]:
    """Count the messages at a source, by query or browsing; return the number, and whether there are more.

    Args:
        max_bytes: the limit of bytes to browse.

    Cancelling: no message was taken.
    """
    try:
        known = None if source.filter else await _query(connection, source.address or "")
        if known is not None:
            return known, False
        if "browse" in connection.capabilities and connection.profile.copies:
            return await _browse(connection, source, max_bytes)
    except (AmqpError, ValueError):
        pass  # unknown to this user, or for this kind of node
    return None, False


async def _query(connection: Connection, address: str) -> int | None:
    queue = parse_address(address).queue
    if queue is None:
        return None
    if "requests" in connection.capabilities:
        async with connection.session() as session:
            facts = await ask(session, QueryQueue(queue))
        return facts.messages if facts is not None else None
    if connection.profile.name == "rabbitmq" and LINK_PAIR in connection.offered_capabilities:
        async with management(connection) as node:
            return (await node.queue(queue)).messages
    return None


async def _browse(connection: Connection, source: Source, max_bytes: int) -> tuple[int, bool]:
    seen = size = 0
    async with connection.browser(source) as browser:
        async for delivery in browser:
            if seen >= MAX_BROWSED or size >= max_bytes:
                return seen, True
            seen += 1
            size += len(delivery.payload)
    return seen, False
