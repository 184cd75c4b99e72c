"""What peers may take up of a broker, so that none of them keeps the others from it; values only."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Final

from ._address import AddressError

LONGEST_KEY: Final = 255
"""Octets of a routing key or a binding key that is matched: what the older AMQPs can say."""
LOW_WATERMARK: Final = 0.8
"""How much of `memory` may be in use when senders may go on."""
HARD_LIMIT: Final = 1.25
"""How much of `memory` may be in use, by what was on its way when senders were stopped, before messages are refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerLimits:
    """What peers may take up of a broker; what is beyond is refused to who asks for it, and nobody else notices.

    The page "Limits" of the documentation says what peers see of each, in each dialect.

    Attributes:
        handshakes: connections that have not opened yet, TLS and WebSocket handshakes among them; never more than half
            of the file descriptors that the process may have. Of more, the oldest of the address that has the most is
            cut off.
        handshakes_by_address: the same, of one address; those of a Unix socket count as one.
        sessions: sessions (channels) of one connection.
        links: links (consumers, producers) of one connection.
        nodes: queues, topics and subscriptions of the broker.
        nodes_by_connection: of these, those that one connection made and that are still there.
        exchanges: exchanges of the broker.
        bindings: bindings of the broker.
        bindings_by_queue: bindings that lead to one queue, topic or exchange.
        arguments: octets of the encoded arguments of one queue, exchange or binding.
        name: octets of an address, of a link's name and of a container id.
        kept_links: links of one user that can be resumed and are not attached; of more, the one that has waited
            longest ends.
        memory: octets of all messages in memory at which senders are stopped, until a fifth of it is free again; None
            for any number.
        idle_timeout: seconds; who wants to hear something more often is refused.
    """

    handshakes: int = 1000
    handshakes_by_address: int = 500
    sessions: int = 256
    links: int = 4096
    nodes: int = 20_000
    nodes_by_connection: int = 5000
    exchanges: int = 2000
    bindings: int = 50_000
    bindings_by_queue: int = 5000
    arguments: int = 65_536
    name: int = 2048
    kept_links: int = 1000
    memory: int | None = 1_073_741_824
    idle_timeout: float = 0.25

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            least = {"idle_timeout": 0, "sessions": 2}.get(field.name, 1)
            if value is None and field.name == "memory":
                continue
            if not isinstance(value, int | float) or value < least:
                raise ValueError(f"BrokerLimits({field.name}=...) is {least} or more, not {value!r}")
        if self.sessions > 0xFFFF:
            raise ValueError(f"BrokerLimits(sessions=...) is 65535 or less, not {self.sessions}")


class Maker:
    """A connection that makes nodes.

    Attributes:
        nodes: those that it made and that are still there.
    """

    def __init__(self) -> None:
        self.nodes: set[object] = set()


def check_key(key: str) -> None:
    """Refuse a binding key that is longer than any routing key that is matched.

    Raises:
        AddressError: it is.
    """
    octets = len(key.encode(errors="surrogatepass"))
    if octets > LONGEST_KEY:
        raise AddressError("amqp:invalid-field", f"a binding key has {LONGEST_KEY} octets at most, not {octets}")


def check_name(what: str, name: str, most: int) -> None:
    """Refuse a name that is too long.

    Raises:
        AddressError: it is.
    """
    if len(name) * 4 > most and (octets := len(name.encode(errors="surrogatepass"))) > most:
        raise AddressError("amqp:invalid-field", f"{what} has {most} octets at most, not {octets}")


def check_count(what: str, there: int, most: int) -> None:
    """Refuse one more of what there may be `most` of.

    Raises:
        AddressError: `amqp:resource-limit-exceeded`: there are that many. In 0-9-1 it is what RabbitMQ says of its
            limits, which ends the channel and not the connection.
    """
    if there >= most:
        raise AddressError(
            "amqp:resource-limit-exceeded", f"{what}: {most} at most, and {there} are there", reply_code=406
        )
