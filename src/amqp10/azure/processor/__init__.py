"""Processors that share the partitions of a hub, and remember how far they came: see `EventProcessor`."""

from ._balancing import Balancer as Balancer
from ._blobs import BlobLeases as BlobLeases
from ._leases import Checkpoint as Checkpoint
from ._leases import ConsumerGroup as ConsumerGroup
from ._leases import Lease as Lease
from ._leases import LeaseStore as LeaseStore
from ._memory import MemoryLeases as MemoryLeases
from ._postgresql import PostgreSQLLeases as PostgreSQLLeases
from ._processor import EventProcessor as EventProcessor
from ._sqlite import SQLiteLeases as SQLiteLeases

__all__ = (
    "Balancer",
    "BlobLeases",
    "Checkpoint",
    "ConsumerGroup",
    "EventProcessor",
    "Lease",
    "LeaseStore",
    "MemoryLeases",
    "PostgreSQLLeases",
    "SQLiteLeases",
)


def __dir__() -> tuple[str, ...]:
    return __all__
