"""The leases and checkpoints that processors share, and the store that keeps them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class ConsumerGroup:
    """Whose partitions they are.

    Attributes:
        namespace: the host of the namespace, `NAME.servicebus.windows.net`; `HOST:PORT` where a port was said.
        hub: the name of the event hub.
        group: the name of the consumer group.
    """

    namespace: str
    hub: str
    group: str


@dataclass(frozen=True, slots=True)
class Lease:
    """Says which processor reads a partition.

    A lease is renewed by writing it again: it is over when it was not renewed for some time. When it was written is no
    part of it, for the clocks of machines differ: each processor counts from when it saw the last change.

    Attributes:
        partition: the id of the partition.
        owner: the name of the processor that reads it; "": none does.
        version: another one after each write, of the store's own kind; None: the partition was never written.
        wanted_by: the name of the processor that asks the owner for it; "": none does; the owner: it said no.
    """

    partition: str
    owner: str = ""
    version: str | None = None
    wanted_by: str = ""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """How far a partition was handled: this event, and all before it.

    Attributes:
        sequence_number: of the event.
        offset: of the event; None: the service said none.
    """

    sequence_number: int
    offset: str | None = None


class LeaseStore(Protocol):
    """Keeps leases and checkpoints where all processors of a consumer group find them.

    Any number of tasks and processes may use one at once. Each call raises StoreError where the store cannot be
    reached or used; that a lease was written by another meanwhile is no error.
    """

    async def leases(self, group: ConsumerGroup) -> Sequence[Lease]:
        """Return the leases of all partitions that ever had one, in any order.

        Raises:
            StoreError: the store cannot be used.
        """

    async def write(self, group: ConsumerGroup, leases: Sequence[Lease]) -> Sequence[Lease]:
        """Write each lease whose version is still the one in the store; return those, with their new version.

        Raises:
            StoreError: the store cannot be used; some may be written.
        """

    async def checkpoints(self, group: ConsumerGroup) -> Mapping[str, Checkpoint]:
        """Return the checkpoints, by the ids of their partitions.

        Raises:
            StoreError: the store cannot be used.
        """

    async def save(self, group: ConsumerGroup, checkpoints: Mapping[str, Checkpoint]) -> None:
        """Keep checkpoints, but for those that are behind what is kept.

        Raises:
            StoreError: the store cannot be used; some may be kept.
        """
