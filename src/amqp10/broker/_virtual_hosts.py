"""Virtual hosts, each with its own queues, topics, exchanges and store, and which of them a client gets."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

import anyio

from .._arguments import checked, without_secrets
from ..messaging import Error
from ._queues.queue import Queue
from ._queues.topic import Topic
from ._snapshots import (
    ExchangeSnapshot,
    QueueSnapshot,
    TopicSnapshot,
    exchange_snapshot,
    queue_snapshot,
    topic_snapshot,
)
from ._virtual_host_core import VirtualHostCore, VirtualHostSettings

if TYPE_CHECKING:
    from ._quarantine import Quarantine

USUAL: Final = "/"
"""The virtual host of every broker, for clients that name no other."""

_PREFIX: Final = "vhost:"
_LISTED: Final = 10
"""The most names that an error lists."""


def virtual_host_of(hostname: str | None, known: Container[str], *, exact: bool) -> str | None:
    """Return the virtual host that a client gets; None: there is no such virtual host.

    Args:
        hostname: the hostname in its open.
        known: the virtual hosts of the broker.
        exact: whether the hostname is always a virtual host's (the capability "virtual-hosts"). Otherwise an unknown
            name counts as the server's own, as in AMQP 1.0 (§2.7.1), and leads to the usual virtual host.
    """
    if not hostname:
        return USUAL
    for name in (hostname, hostname.removeprefix(_PREFIX)):
        if name in known:
            return name
    return None if exact or hostname.startswith(_PREFIX) else USUAL


def not_there(hostname: str | None, *, exact: bool) -> Error:
    """Return the error for a client that asked for an unknown virtual host."""
    condition = "amqp:not-allowed" if exact else "amqp:not-found"  # 530 in 0-9-1
    return Error(condition, f"there is no virtual host {(hostname or '').removeprefix(_PREFIX)!r:.200}")


def store_of(path: str, name: str) -> str:
    """Return the path of a virtual host's store: `path` for the usual one, a file beside it for any other."""
    return path if name == USUAL else f"{path}.{quote(name, safe='')}"


class VirtualHost:
    """A virtual host of a broker, as `Broker.virtual_host` returns it.

    Attributes:
        name: "/" for the usual one.
    """

    def __init__(self, name: str, vhost: VirtualHostCore) -> None:
        self.name = name
        self._vhost = vhost

    def __repr__(self) -> str:
        return f"<VirtualHost {self.name!r}>"

    @property
    def blocked(self) -> str | None:
        """The reason why no messages are taken now; None: they are taken."""
        return self._vhost.admission.blocked

    @property
    def quarantine(self) -> Quarantine:
        """The messages that could not be handled, each with the reason: list, read, release or drop them."""
        return self._vhost.quarantine

    @property
    def queues(self) -> tuple[QueueSnapshot, ...]:
        """All queues, including temporary ones; the queues of subscriptions are with their topics."""
        return tuple(queue_snapshot(node) for node in self._vhost.nodes.values() if isinstance(node, Queue))

    @property
    def topics(self) -> tuple[TopicSnapshot, ...]:
        """All topics."""
        return tuple(topic_snapshot(node) for node in self._vhost.nodes.values() if isinstance(node, Topic))

    @property
    def exchanges(self) -> tuple[ExchangeSnapshot, ...]:
        """All exchanges, including the default one and `amq.direct` and the like."""
        return tuple(exchange_snapshot(exchange) for exchange in self._vhost.topology.exchanges.values())

    @checked
    def queue(self, name: str) -> QueueSnapshot:
        """Return the queue of that name.

        Raises:
            KeyError: no queue has that name.
        """
        node = self._vhost.nodes.get(name)
        if not isinstance(node, Queue):
            raise _unknown("queue", name, [each.name for each in self.queues])
        return queue_snapshot(node)

    @checked
    def topic(self, name: str) -> TopicSnapshot:
        """Return the topic of that name.

        Raises:
            KeyError: no topic has that name.
        """
        node = self._vhost.nodes.get(name)
        if not isinstance(node, Topic):
            raise _unknown("topic", name, [each.name for each in self.topics])
        return topic_snapshot(node)

    @checked
    def exchange(self, name: str) -> ExchangeSnapshot:
        """Return the exchange of that name.

        Raises:
            KeyError: no exchange has that name.
        """
        exchanges = self._vhost.topology.exchanges
        if name not in exchanges:
            raise _unknown("exchange", name, list(filter(None, exchanges)))  # the default exchange has no name
        return exchange_snapshot(exchanges[name])


class VirtualHosts:
    """All virtual hosts of a broker.

    Args:
        names: their names.
        on_alarm: see `VirtualHostCore`.

    Attributes:
        cores: what is in each, by name.
        usual: what is in the usual one.

    Raises:
        ValueError: the usual one is not among them.
    """

    def __init__(self, names: Iterable[str], settings: VirtualHostSettings, on_alarm: Callable[[], None]) -> None:
        self.cores = {name: VirtualHostCore(settings, clock=anyio.current_time, on_alarm=on_alarm) for name in names}
        if USUAL not in self.cores:
            raise ValueError(f"virtual_hosts must be names that include {USUAL!r}, not {without_secrets(names)}")
        self.usual = self.cores[USUAL]
        self._shown = {name: VirtualHost(name, core) for name, core in self.cores.items()}

    def __getitem__(self, name: str) -> VirtualHost:
        """Return the virtual host of that name, as users see it."""
        return self._shown[name]

    def block(self, reason: str | None) -> None:
        """Take no messages in any of them for that reason, or take them again (None), as the user asks."""
        for core in self.cores.values():
            core.admission.block("user", reason)


def _unknown(kind: str, name: str, known: Sequence[str]) -> KeyError:
    """Return the error for a name that nothing of that kind has, with some names that are there."""
    if not known:
        return KeyError(f"there is no {kind} {name!r}: the virtual host has no {kind}s yet")
    listed = [repr(each) for each in known[:_LISTED]] + ["..."] * (len(known) > _LISTED)
    return KeyError(f"there is no {kind} {name!r}; there are {', '.join(listed)}")
