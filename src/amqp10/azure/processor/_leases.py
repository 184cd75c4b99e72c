"""The leases and checkpoints that processors share, and the store that keeps them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from ..._arguments import checked


@checked
@dataclass(frozen=True, slots=True)
class ConsumerGroup:
    """Names the consumer group whose partitions are shared.

    Attributes:
        namespace: the host of the namespace, `NAME.servicebus.windows.net`, or `HOST:PORT` if the URL has a port.
        hub: the name of the event hub.
        group: the name of the consumer group.
    """

    namespace: str
    hub: str
    group: str


@checked
@dataclass(frozen=True, slots=True)
class Lease:
    """Says which processor reads a partition.

    The owner renews a lease by writing it again; without that it expires. A lease holds no time, because the clocks of
    machines differ: each processor counts from when it saw the last change.

    Attributes:
        partition: the id of the partition.
        owner: the name of the processor that reads the partition; "": nobody does.
        version: differs after each write, in a form of the store's own; None: the lease was never written.
        wanted_by: the name of the processor that asks the owner for the partition; "": nobody does; the owner's own
            name: it refused.
    """

    partition: str
    owner: str = ""
    version: str | None = None
    wanted_by: str = ""


@checked
@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Says that this event of a partition and all before it were handled.

    Attributes:
        sequence_number: that of the event.
        offset: that of the event; None: the service named none.
    """

    sequence_number: int
    offset: str | None = None


@runtime_checkable
class LeaseStore(Protocol):
    """Keeps leases and checkpoints where all processors of a consumer group find them.

    Any number of tasks and processes may use a store at once. A call raises StoreError if the store cannot be reached
    or used. It is no error that another processor wrote a lease first.
    """

    async def leases(self, group: ConsumerGroup) -> Sequence[Lease]:
        """Return the leases of all partitions that ever had one, in any order.

        Raises:
            StoreError: the store cannot be used.
        """

    async def write(self, group: ConsumerGroup, leases: Sequence[Lease]) -> Sequence[Lease]:
        """Write each lease whose version is unchanged; return the written leases with their new versions.

        Raises:
            StoreError: the store cannot be used; some leases may be written.
        """

    async def checkpoints(self, group: ConsumerGroup) -> Mapping[str, Checkpoint]:
        """Return the checkpoints by partition id.

        Raises:
            StoreError: the store cannot be used.
        """

    async def save(self, group: ConsumerGroup, checkpoints: Mapping[str, Checkpoint]) -> None:
        """Keep each checkpoint that is ahead of the one kept for its partition.

        Raises:
            StoreError: the store cannot be used; some checkpoints may be kept.
        """
