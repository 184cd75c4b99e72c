"""The client of one event hub."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final, Unpack

from ..._arguments import checked, hinted, without_secrets
from ...client import ConnectionSettings
from ...messaging import EventPosition, Source
from ...types import Symbol
from .._arguments import partition_id
from .._client import NamespaceClient
from .._namespace import Namespace
from ._properties import HubManagement, HubProperties, PartitionProperties
from ._reader import POSITION, EventReader
from ._sender import EventSender

_SCOPE: Final = "https://eventhubs.azure.net/.default"
_EPOCH: Final = Symbol("com.microsoft:epoch")
_NAME: Final = Symbol("com.microsoft:receiver-name")
_TRACKS: Final = "com.microsoft:enable-receiver-runtime-metric"
_FIRST: Final = EventPosition.first()


@hinted
@checked
class EventHub(NamespaceClient):
    """An event hub of Azure; `async with` opens the connection, and closes it with all its links.

        async with EventHub(connection_string, "telemetry") as hub:
            async with hub.sender() as sender:
                await sender.send(Message(b"21.5"), key="sensor-7")
            async with hub.reader("0") as reader:
                async for event in reader: ...

    A lost connection, sender or reader comes back by itself (`reconnect`). All tasks of a program may share the hub.

    Args:
        where: a connection string, or `NAMESPACE.servicebus.windows.net`, alone or in a URL (`wss://...` for
            WebSockets).
        name: the name of the hub; None: the EntityPath of the connection string.
        credential: a credential of azure-identity, azure-core's AzureNamedKeyCredential or AzureSasCredential, a
            `SasKey`, or any other source of tokens; None: the connection string has the key.
        request_timeout: seconds that the service may take to answer a request.
        clock: the time in seconds since 1970.
        settings: those of `Connection` except tokens and sasl. `reconnect` is on unless you pass None.

    Raises:
        ValueError, TypeError, LookupError: where, name, credential or a setting is invalid. The error contains no
            secret.

    Attributes:
        connection: the AMQP connection, with its events and its health.
        name: the name of the hub.
    """

    _each_message = (EventSender, EventReader)

    def __init__(
        self,
        where: str,
        name: str | None = None,
        credential: Any = None,
        *,
        request_timeout: float = 60.0,
        clock: Callable[[], float] = time.time,
        **settings: Unpack[ConnectionSettings],
    ) -> None:
        # One token for the hub covers all its partitions and its management node.
        namespace = Namespace.read(where, credential, scope=_SCOPE, entity_of=lambda address: self.name, clock=clock)
        hub = name if name is not None else namespace.entity
        if not hub or "/" in hub:
            raise ValueError(
                "hub must be the name of an event hub, for the connection string has no EntityPath, not "
                + without_secrets(hub)
            )
        if namespace.entity is not None and hub.casefold() != namespace.entity.casefold():
            raise ValueError(
                f"the connection string is for {namespace.entity!r} alone (EntityPath), and "
                f"{without_secrets(hub)} is asked for: "
                "leave out the name, or take a connection string of the namespace"
            )
        self.name = hub
        super().__init__(namespace, "event-hubs", request_timeout, settings)
        audience = namespace.tokens.audience
        assert callable(audience)
        self._management = HubManagement(self.connection, hub, namespace.tokens, audience(hub), request_timeout)

    @checked
    def sender(self, *, partition: str | int | None = None, publisher: str | None = None) -> EventSender:
        """Make a sender, to be attached by `async with`.

        Args:
            partition: the id or number of the only partition to send to; None: the key of an event chooses its
                partition, and events without a key go to the partitions in turn.
            publisher: the publisher to send as; its name is the key of all its events.

        Raises:
            TypeError: the partition is neither a str nor an int.
            ValueError: both a partition and a publisher are given, or a name is empty, or the number is negative.
        """
        if (partition is not None and publisher is not None) or publisher == "":
            raise ValueError("a sender can be for a partition or for a publisher, not for both: leave one out")
        address = self.name
        if partition is not None:
            address += f"/Partitions/{partition_id(partition)}"
        if publisher is not None:
            address += f"/Publishers/{publisher}"
        return EventSender(self.connection.sender(address), keyed=address == self.name)

    @checked
    def reader(
        self,
        partition: str | int,
        *,
        group: str = "$Default",
        start: EventPosition = _FIRST,
        owner_level: int | None = None,
        track_last: bool = False,
        prefetch: int = 300,
        name: str | None = None,
    ) -> EventReader:
        """Make a reader of one partition, to be attached by `async with`.

        Args:
            partition: its id or number; `properties` lists the ids.
            group: the consumer group; each group reads all events.
            start: where to begin: `EventPosition.first()`, `.latest()`, `.offset(...)` and others.
            owner_level: read the partition alone, and take it from readers with the same or a lower level, or without
                one. None: share it with up to four other readers.
            track_last: have the service name the partition's last event with each event (`event.last`).
            prefetch: the most events that may be in flight or wait here.
            name: the reader's name, which the service shows to readers that it refuses.

        Raises:
            TypeError: the partition is neither a str nor an int, or `start` is not an `EventPosition`.
            ValueError: a name is empty, or a number is out of range.
        """
        partition = partition_id(partition)
        if not group:
            raise ValueError("group must be the name of a consumer group, such as '$Default', and not empty")
        if owner_level is not None and not 0 <= owner_level < 1 << 63:
            raise ValueError(f"owner_level must be 0 or more, or None, not {owner_level}")
        if prefetch < 1:
            raise ValueError(f"prefetch must be 1 or more, not {prefetch}")
        source = Source(
            f"{self.name}/ConsumerGroups/{group}/Partitions/{partition}", filter={POSITION: start.described}
        )
        properties: dict[Symbol, Any] = {} if owner_level is None else {_EPOCH: owner_level}
        if name is not None:
            properties[_NAME] = name
        receiver = self.connection.receiver(
            source,
            credit=prefetch,
            settle_mode="settled",  # reading removes nothing from the hub
            require_filters=False,
            properties=properties,
            desired_capabilities=[_TRACKS] if track_last else [],
        )
        return EventReader(receiver, partition, source, start, self._management.partition)

    async def properties(self) -> HubProperties:
        """Ask for the name, the age and the partition ids of the hub.

        Raises:
            ManagementError: the service refused: 503, it is busy.
            RemoteProtocolError: the answer lists no partitions.
            LinkDetached: there is no such hub (`amqp:not-found`), or as the next.
            SessionEnded, ConnectionClosed, ConnectionLost, AuthenticationFailed, TimeoutError: the
                service could not be asked.

        Cancelling: nothing has changed.
        """
        return await self._management.hub()

    @checked
    async def partition_properties(self, partition: str | int) -> PartitionProperties:
        """Ask for the first and the last event of a partition, given by its id or number.

        Raises, Cancelling: as for `properties`; a ManagementError 400 means that there is no such partition.
        """
        return await self._management.partition(partition_id(partition))

    def __repr__(self) -> str:
        return f"<EventHub {self.name!r} {self.connection!r}>"
