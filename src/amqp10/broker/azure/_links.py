"""The links of one connection to the entities of a namespace, to its hubs, and to their management nodes."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from ...engine import LinkTerms, SenderLink
from ...errors import EncodeError, LocalProtocolError
from ...messaging import Error, Source, Target
from ...types import Described, Symbol
from .._address import exchange_in, split_address
from .._errors import Refused
from .._requests.links import RequestLinks
from .._services import LinkService
from ._conditions import ARGUMENT_ERROR, NOT_ALLOWED, TIMEOUT
from ._config import AzureConfig
from ._event_hubs.hub import Hub, Partition
from ._event_hubs.links import HubLinks
from ._namespace import Namespace, path_of
from ._service_bus.entity import Entity
from ._service_bus.management import Management
from ._service_bus.receivers import SESSION_FILTER, EntityReceiver, SessionLink
from ._service_bus.terms import MAX_ID_LENGTH

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ...engine import Link, LinkSession
    from .._peer import Peer

_IDLE: Final = "The link is force detached. Code: {}(link). Details: Amqp{}.IdleTimerExpired: Idle timeout: {}."
_MANAGEMENT = "/$management"
_SEND_VIA: Final = Symbol("com.microsoft:transfer-destination-address")
_USUAL_PATIENCE: Final = 65.0


class NamespaceLinks(LinkService):
    """The links of one connection to entities and management nodes; senders are links of the broker's own.

    Attributes:
        hubs: the links to event hubs.
    """

    def __init__(self, namespace: Namespace, peer: Peer) -> None:
        self._namespace = namespace
        self._peer = peer
        self._receivers: dict[Link, EntityReceiver] = {}
        self._senders: dict[Link, Entity] = {}
        self._requests = RequestLinks(peer)
        self.hubs = HubLinks(namespace.hubs, peer, self._requests)
        namespace.links.add(self)

    def __len__(self) -> int:
        return len(self._receivers) + len(self._requests) + len(self.hubs)

    def end_idle(self, config: AzureConfig) -> float | None:
        """Detach links that were unused for too long; return when the next one will be, or None."""
        ends: list[float] = []
        if config.idle_timeout is not None:
            ends += self._end_unused(self._uses(), config.idle_timeout, "Message")
        if config.hub_idle_timeout is not None:
            ends += self._end_unused(self.hubs.uses(), config.hub_idle_timeout, "EventHub")
        return min(ends, default=None)

    def _end_unused(self, uses: Iterable[tuple[Link, float]], seconds: float, kind: str) -> Iterator[float]:
        """Detach links that were unused for `seconds`; yield when the time of each other link ends."""
        now = self._namespace.clock()
        for link, used in list(uses):
            if used + seconds > now:
                yield used + seconds
                continue
            role = "consumer" if isinstance(link, SenderLink) else "publisher"
            reason = _IDLE.format(role, kind + role.capitalize(), _duration(seconds))
            self.detach(link, Error("amqp:link:detach-forced", reason))

    def detach(self, link: Link, error: Error) -> None:
        """Detach a link to an entity or a hub."""
        self._senders.pop(link, None)
        self._peer.end_link(link, error)

    def of(self, node: Entity | Hub | Partition | None) -> list[Link]:
        """Return the links to an entity, a hub or a partition; with None all links."""
        if isinstance(node, Partition):
            return self.hubs.of(node.hub, node)
        if isinstance(node, Hub):
            return self.hubs.of(node)
        receivers = [link for link, each in self._receivers.items() if node in (None, each.entity)]
        senders = [link for link, each in self._senders.items() if node in (None, each)]
        return [*receivers, *senders, *(self.hubs.of(None) if node is None else ())]

    def pass_time(self, seconds: float) -> None:
        """Let time pass for a peer that has put no token yet."""
        if self._peer.tokens is not None:
            self._peer.tokens.wait_less(seconds)

    def end_tokens(self) -> None:
        """End all tokens of the connection."""
        if self._peer.tokens is not None:
            self._peer.tokens.end_all()

    def _uses(self) -> Iterator[tuple[Link, float]]:
        """Yield each link to an entity, and when it was last used."""
        self._senders = {link: entity for link, entity in self._senders.items() if link.attached}
        for link, receiver in self._receivers.items():
            if link.attached:
                yield link, receiver.used
        for link, entity in self._senders.items():
            yield link, entity.sent.get(self._peer.number, 0.0)

    def _used(self, name: str) -> None:
        """Record that a request uses the link of that name."""
        for link, receiver in self._receivers.items():
            if link.name == name:
                receiver.used = self._namespace.clock()
        for link, entity in self._senders.items():
            if link.name == name:
                entity.sent[self._peer.number] = self._namespace.clock()

    @property
    def links(self) -> Iterable[Link]:
        """The links that are attached, or wait for a session."""
        return (*self._receivers, *self._requests.links, *self.hubs.links)

    def attach(self, link: Link) -> bool:
        """Attach a link that receives from an entity or leads to a management node; return whether it is one.

        Raises:
            Refused: the peer may not receive there, or asks for something unsupported.
        """
        remote = link.remote
        node = None if remote is None else remote.source if isinstance(link, SenderLink) else remote.target
        address = node.address if isinstance(node, Source | Target) else None
        if remote is None or not isinstance(address, str):
            return False
        if exchange_in(address) is not None:
            return False
        address = split_address(address)[0]
        if address == "$cbs":  # otherwise the broker would have attached it
            remedy = "Broker(azure=..., tokens=TokenRules([EMULATOR_RULE]))"
            raise Refused("amqp:not-found", f"there is no node '$cbs': the broker takes no tokens. Make it by {remedy}")
        self._check_onward(remote)
        if self.hubs.attach(link, remote, path_of(address)):
            self._namespace.watch()
            return True
        if address.casefold().endswith(_MANAGEMENT):
            entity = self._namespace.find(address[: -len(_MANAGEMENT)])
            if entity is not None:
                subscription = self._namespace.subscription(entity)
                management = Management(entity, self._peer, subscription, used=self._used, fits=self._namespace.fits)
                self._requests.attach(link, entity.name, management.carry_out)
            return entity is not None
        entity = self._namespace.find(address)
        if entity is None and "$" not in address and not self._namespace.has_node(address):
            # The SDK for JavaScript recognizes this error by its text.
            raise Refused("amqp:not-found", f"The messaging entity {path_of(address)!r:.300} could not be found.")
        self._namespace.watch()
        if entity is not None and not entity.terms.sendable and not isinstance(link, SenderLink):
            raise Refused(NOT_ALLOWED, f"{entity.name!r} accepts no messages from senders: send to its topic or queue")
        if entity is not None:
            entity.check_open("receive" if isinstance(link, SenderLink) else "send")
            entity.check_busy()
        if entity is not None and not isinstance(link, SenderLink):
            self._senders[link] = entity
            entity.sent[self._peer.number] = self._namespace.clock()
        if entity is None or not isinstance(link, SenderLink) or not isinstance(node, Source):
            return False
        self._attach_receiver(link, remote, node, entity)
        return True

    def _check_onward(self, remote: LinkTerms) -> None:
        """Check that the entity exists to which a link sends via another one.

        Raises:
            Refused: the name is not a string or unknown, or the entity is not open.
        """
        if _SEND_VIA not in remote.properties:
            return
        onward = remote.properties[_SEND_VIA]
        target = remote.target
        via = self._namespace.find(target.address) if isinstance(target, Target) and target.address else None
        if not isinstance(onward, str) or via is None:
            raise Refused(ARGUMENT_ERROR, f"{_SEND_VIA} must name an entity other than the one that the link sends to")
        entity = self._namespace.find(onward)
        if entity is None:
            raise Refused("amqp:not-found", f"The messaging entity {path_of(onward)!r:.300} could not be found.")
        entity.check_open("send")
        entity.check_busy()

    def has_entity(self, path: str) -> bool:
        return not path or path.startswith("$") or self._namespace.has_any(path)

    def destination(self, link: Link) -> str | None:
        onward = link.remote.properties.get(_SEND_VIA) if link.remote is not None else None
        return onward if isinstance(onward, str) else None

    def _attach_receiver(self, link: SenderLink, remote: LinkTerms, source: Source, entity: Entity) -> None:
        self._peer.check_use(link, "read", entity.name)
        if self._namespace.is_topic(entity):
            where = f"{entity.name}/Subscriptions/NAME"
            raise Refused(NOT_ALLOWED, f"{entity.name!r} is a topic: receive from its subscriptions: {where!r}")
        if source.distribution_mode == "copy":
            raise Refused(
                "amqp:not-implemented", "this emulator does not browse: peek at messages through the management node"
            )
        locks = remote.settle_mode != "settled"
        if locks and "settle-second" not in self._peer.engine.capabilities:
            raise Refused("amqp:not-implemented", "Service Bus locks messages only for receivers that speak AMQP 1.0")
        asks, session_id = _session_in(source)
        kind = SessionLink if asks else EntityReceiver
        receiver = kind(self._peer, link, entity, locks=locks)
        self._receivers[link] = link.owner = receiver
        try:
            if isinstance(receiver, SessionLink):
                receiver.ask(session_id, _patience_in(remote))
            else:
                receiver.begin()
        except (Refused, LocalProtocolError, EncodeError):
            self.end(link)
            raise

    def ready(self, session: LinkSession | None = None) -> None:
        self._requests.ready(session)

    def end(self, link: Link) -> bool:
        """Remove a link that ended; return whether it was one of these."""
        entity = self._senders.pop(link, None)
        if entity is not None and entity not in self._senders.values():
            entity.sent.pop(self._peer.number, None)
        receiver = self._receivers.pop(link, None)
        if receiver is not None:
            receiver.end()
        return any((self._requests.end(link), self.hubs.end(link), receiver is not None))


def _session_in(source: Source) -> tuple[bool, str | None]:
    """Return whether a receiver asks for a session, and the session's id; id None: the next free session.

    Raises:
        Refused: the id is invalid.
    """
    filters = source.filter or {}
    if SESSION_FILTER not in filters:
        return False, None
    value = filters[SESSION_FILTER]
    session_id = value.value if isinstance(value, Described) else value
    if session_id is not None and not (isinstance(session_id, str) and len(session_id) <= MAX_ID_LENGTH):
        rule = f"a session id must have at most {MAX_ID_LENGTH} characters, and null means the next session"
        raise Refused(ARGUMENT_ERROR, f"{SESSION_FILTER}: {rule}, not {session_id!r:.200}")
    return True, session_id


def _patience_in(remote: LinkTerms) -> float:
    """Return the seconds that a receiver waits for a session."""
    milliseconds = remote.properties.get(TIMEOUT)
    return milliseconds / 1000 if isinstance(milliseconds, int) else _USUAL_PATIENCE


def _duration(seconds: float) -> str:
    """Return a duration in .NET's form."""
    return str(timedelta(seconds=round(seconds))).rjust(8, "0")
