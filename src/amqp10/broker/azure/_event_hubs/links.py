"""The hubs of a namespace by their addresses, and the links of one connection to them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ....engine import SenderLink
from ....errors import EncodeError, LocalProtocolError
from ....messaging import Source
from ..._errors import Refused
from .._conditions import NOT_ALLOWED
from .._config import AzureConfig, EventHubConfig
from .hub import Hub, Partition
from .management import NOT_FOUND, HubManagement, partition_in
from .readers import PartitionReader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from ....engine import Link, LinkTerms
    from ..._peer import Peer
    from ..._requests.links import RequestLinks
    from ..._virtual_host_core import Journal, VirtualHostCore

MANAGEMENT: Final = "$management"


class Hubs:
    """The event hubs of a namespace.

    Args:
        vhost: gets their nodes.
        clock: the time in seconds since 1970.

    Raises:
        Refused: another node has the name of a hub.
    """

    def __init__(self, config: AzureConfig, vhost: VirtualHostCore, clock: Callable[[], float]) -> None:
        self.clock = clock
        self._hubs: dict[str, Hub] = {}
        for each in config.event_hubs:
            assert isinstance(each, EventHubConfig)
            hub = self._hubs[each.name.casefold()] = Hub(each, clock, vhost)
            vhost.adopt(hub)
            for partition in hub.partitions:
                vhost.adopt(partition)

    def keep(self, store: Journal) -> None:
        """Keep all hubs in a store from now on."""
        for hub in self.all:
            hub.keep_in(store)

    @property
    def all(self) -> Iterable[Hub]:
        """All hubs."""
        return self._hubs.values()

    def find(self, name: str) -> Hub | None:
        """Return the hub of that name, ignoring case, or None."""
        return self._hubs.get(name.casefold())

    def split(self, path: str) -> tuple[Hub | None, list[str]]:
        """Return the hub at the beginning of an address, and the parts of the address after it."""
        name, *rest = path.split("/")
        return self.find(name), rest

    def node(self, path: str) -> Hub | Partition | None:
        """Return the hub or partition that an address means; None: it means neither."""
        hub, rest = self.split(path)
        if hub is None or not rest:
            return hub
        found = [each for each in hub.partitions if rest[0].casefold() == "partitions" and rest[1:] == [each.id]]
        return found[0] if found else None

    def name_of(self, path: str) -> str | None:
        """Return the name of the node that an address means; None: it names no hub."""
        hub, rest = self.split(path)
        if hub is None:
            return None
        words = {"partitions": "Partitions", "publishers": "Publishers"}
        return "/".join([hub.name, *(words.get(part.casefold(), part) for part in rest[:1]), *rest[1:]])


class HubLinks:
    """The links of one connection to hubs; senders are links of the broker's own.

    Args:
        requests: gets the links to management nodes.
    """

    def __init__(self, hubs: Hubs, peer: Peer, requests: RequestLinks) -> None:
        self._hubs = hubs
        self._peer = peer
        self._requests = requests
        self._readers: dict[Link, PartitionReader] = {}
        self._senders: dict[Link, tuple[Hub, str]] = {}

    def __len__(self) -> int:
        return len(self._readers)

    @property
    def links(self) -> Iterable[Link]:
        """The links of readers."""
        return self._readers

    def attach(self, link: Link, remote: LinkTerms, path: str) -> bool:
        """Attach a link that reads a partition or leads to the management node; return whether it is one.

        Raises:
            Refused: the peer may not read there, or asks for something unsupported.
        """
        hub, rest = self._hubs.split(path)
        words = [part.casefold() for part in rest]
        if (hub is not None and words == [MANAGEMENT]) or path.casefold() == MANAGEMENT:
            self._requests.attach(link, MANAGEMENT, HubManagement(self._peer, self._hubs.find).carry_out)
            return True
        reads = len(rest) == 4 and words[::2] == ["consumergroups", "partitions"]
        if hub is None and reads:
            raise Refused(NOT_FOUND, f"there is no event hub {path.split('/')[0]!r:.300}")
        if hub is None:
            return False
        hub.check_busy()
        if isinstance(link, SenderLink):
            if not reads:
                where = f"{hub.name}/ConsumerGroups/GROUP/Partitions/ID"
                raise Refused(NOT_ALLOWED, f"events are read from {where}, not from {path!r:.300}")
            self._attach_reader(link, remote, hub, rest[1], rest[3])
            return True
        match words:
            case []:
                pass
            case ["partitions", _]:
                partition_in(hub, rest[1])
            case ["publishers", _] if rest[1]:
                self._peer.rights.check("write", f"{hub.name}/Publishers/{rest[1]}")
                hub.publisher(rest[1])
            case _:
                reason = f"events are sent to {hub.name}, {hub.name}/Partitions/ID or {hub.name}/Publishers/NAME"
                raise Refused(NOT_FOUND, f"{reason}, not to {path!r:.300}")
        self._senders[link] = (hub, "/".join(words))
        hub.sent[self._peer.number] = self._hubs.clock()
        return False

    def _attach_reader(self, link: SenderLink, remote: LinkTerms, hub: Hub, group: str, partition: str) -> None:
        name = hub.groups.get(group.casefold())
        if name is None:
            raise Refused(NOT_FOUND, f"the event hub {hub.name!r} has no consumer group {group!r:.100}")
        found = partition_in(hub, partition)
        self._peer.check_use(link, "read", f"{hub.name}/ConsumerGroups/{name}/Partitions/{found.id}")
        assert isinstance(remote.source, Source)
        reader = PartitionReader(self._peer, link, found, name, self._hubs.clock)
        self._readers[link] = link.owner = reader
        try:
            reader.begin()
        except (Refused, LocalProtocolError, EncodeError):
            self.end(link)
            raise

    def uses(self) -> Iterator[tuple[Link, float]]:
        """Yield each link that may be idle, and when it was last used."""
        self._forget_detached()
        for link, reader in self._readers.items():
            if link.attached and not reader.waits:
                yield link, reader.used
        for link, (hub, _) in self._senders.items():
            yield link, hub.sent.get(self._peer.number, 0.0)

    def _forget_detached(self) -> None:
        self._senders = {link: place for link, place in self._senders.items() if link.attached}

    def of(self, hub: Hub | None, partition: Partition | None = None) -> list[Link]:
        """Return the links to a hub, or to one partition of it; with None those to all hubs."""
        self._forget_detached()
        wanted = None if partition is None else f"partitions/{partition.id}"
        readers = [
            link
            for link, each in self._readers.items()
            if hub in (None, each.partition.hub) and partition in (None, each.partition)
        ]
        return readers + [
            link for link, (to, way) in self._senders.items() if hub in (None, to) and wanted in (None, way)
        ]

    def end(self, link: Link) -> bool:
        """Remove a link that ended; return whether it was a reader."""
        sender = self._senders.pop(link, None)
        if sender is not None and all(hub is not sender[0] for hub, _ in self._senders.values()):
            sender[0].sent.pop(self._peer.number, None)
        reader = self._readers.pop(link, None)
        if reader is not None:
            reader.end()
        return reader is not None
