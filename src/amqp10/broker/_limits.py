"""How much of a broker peers may use, so that none of them keeps the others from it."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Final

from .._arguments import checked
from ._errors import Refused

SESSIONS: Final = 256
SESSIONS_IN_AZURE: Final = 5000
MAX_KEY_LENGTH: Final = 255
"""The most octets of a routing key or binding key that is matched: what the older dialects can carry."""

_BY_USER: Final = ("connections", "link_octets", "nodes", "exchanges", "bindings", "arguments", "memory")
_OPTIONAL: Final = {"memory", "sessions", *(f"{each}_by_user" for each in _BY_USER)}


@checked
@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerLimits:
    """How much of a broker peers may use. A request beyond a limit is refused, and other peers do not notice.

    The page "Limits" of the documentation says how each dialect tells the peer.

    Attributes:
        handshakes: connections that have not opened yet, including TLS and WebSocket handshakes; never more than half
            of the file descriptors that the process may have. Beyond that, the oldest one from the address with the
            most is cut.
        handshakes_by_address: the same, from one address; all peers of a Unix socket count as one address.
        sessions: sessions (channels) of one connection. None: 256, but with `Broker(azure=...)` 5000, as in Azure,
            because some SDKs use one for each link.
        links: links (consumers, producers) of one connection.
        link_octets: octets that all sessions and links of one connection declare: termini with their filters,
            properties, capabilities, and unsettled maps.
        link_octets_by_user: the same, of all connections of one user; None: four times `link_octets`.
        connections_by_user: open connections of one user; None: 90 % of `Broker(max_connections=...)`.
        nodes: queues, topics and subscriptions of the broker.
        nodes_by_connection: those that one connection created and that still exist.
        nodes_by_user: those that the connections of one user created; None: half of `nodes`.
        exchanges: exchanges of the broker.
        exchanges_by_user: those that one user declared; None: half of `exchanges`.
        bindings: bindings of the broker.
        bindings_by_user: those that one user made; None: half of `bindings`.
        bindings_by_queue: bindings to one queue, topic or exchange.
        arguments: octets of the encoded arguments of one queue, exchange or binding.
        all_arguments: the same, of all that peers declared.
        arguments_by_user: the same, of all that one user declared; None: half of `all_arguments`.
        name: octets of an address, of a link's name and of a container-id.
        kept_links: resumable links of one user that are detached; beyond that, the one that has waited longest ends.
        memory: octets of all messages in memory at which senders are stopped, until a fifth of it is free again; None:
            no limit.
        memory_by_user: octets of the messages that one user sent at which this user's senders are stopped; None: half
            of `memory`.
        disk_free: octets. If the store has less room, on its disk and within its file, senders are stopped until there
            is a tenth more. 0: they are never stopped.
        idle_timeout: seconds; a peer that asks for a shorter idle time-out is refused.
    """

    handshakes: int = 1000
    handshakes_by_address: int = 500
    sessions: int | None = None
    links: int = 4096
    link_octets: int = 4_194_304
    link_octets_by_user: int | None = None
    connections_by_user: int | None = None
    nodes: int = 20_000
    nodes_by_connection: int = 5000
    nodes_by_user: int | None = None
    exchanges: int = 2000
    exchanges_by_user: int | None = None
    bindings: int = 50_000
    bindings_by_user: int | None = None
    bindings_by_queue: int = 5000
    arguments: int = 65_536
    all_arguments: int = 8_388_608
    arguments_by_user: int | None = None
    name: int = 2048
    kept_links: int = 1000
    memory: int | None = 1_073_741_824
    memory_by_user: int | None = None
    disk_free: int = 52_428_800
    idle_timeout: float = 0.25

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            least = {"idle_timeout": 0, "disk_free": 0, "sessions": 2}.get(field.name, 1)
            if value is None and field.name in _OPTIONAL:
                continue
            if not isinstance(value, int | float) or value < least:
                raise ValueError(f"BrokerLimits({field.name}=...) must be {least} or more, not {value!r}")
        if self.sessions is not None and self.sessions > 0xFFFF:
            raise ValueError(f"BrokerLimits(sessions=...) must be 65535 or less, not {self.sessions}")

    def most_sessions(self, azure: bool) -> int:
        """Return the most sessions that one connection may have.

        Args:
            azure: whether the broker emulates Azure.
        """
        if self.sessions is not None:
            return self.sessions
        return SESSIONS_IN_AZURE if azure else SESSIONS


def check_positive(name: str, limit: int | None) -> None:
    """Check that a setting is at least 1, or None.

    Raises:
        ValueError: it is less than 1.
    """
    if limit is not None and limit < 1:
        raise ValueError(f"{name} must be 1 or more, not {limit}")


def check_name(what: str, name: str, most: int) -> None:
    """Check that a name has at most `most` octets.

    Raises:
        Refused: the name is longer.
    """
    if len(name) * 4 > most and (octets := len(name.encode(errors="surrogatepass"))) > most:
        raise Refused("amqp:invalid-field", f"{what} must have at most {most} octets, not {octets}")


def check_count(what: str, there: int, most: int) -> None:
    """Check that there is room for one more of what there may be `most` of.

    Raises:
        Refused: `amqp:resource-limit-exceeded`. In 0-9-1 the reply code is RabbitMQ's for its limits, which ends the
            channel and not the connection.
    """
    if there >= most:
        raise Refused(
            "amqp:resource-limit-exceeded", f"{what}: the limit is {most}, and {there} are in use", reply_code=406
        )
