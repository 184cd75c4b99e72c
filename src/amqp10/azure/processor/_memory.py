"""Leases and checkpoints in memory: for the processors of one process, and for tests."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import count

from ._leases import Checkpoint, ConsumerGroup, Lease


class MemoryLeases:
    """Keeps leases and checkpoints in memory, as long as this object lives.

    A program that starts again reads all events again. To avoid that, use `SQLiteLeases`, `PostgreSQLLeases` or
    `BlobLeases`.
    """

    def __init__(self) -> None:
        self._leases: dict[ConsumerGroup, dict[str, Lease]] = defaultdict(dict)
        self._checkpoints: dict[ConsumerGroup, dict[str, Checkpoint]] = defaultdict(dict)
        self._versions = count(1)

    def __repr__(self) -> str:
        return f"<MemoryLeases of {len(self._leases)} consumer groups>"

    async def leases(self, group: ConsumerGroup) -> Sequence[Lease]:
        """Return all leases."""
        return list(self._leases[_key(group)].values())

    async def write(self, group: ConsumerGroup, leases: Sequence[Lease]) -> Sequence[Lease]:
        """Write the leases that nobody else wrote meanwhile, and return them."""
        kept, written = self._leases[_key(group)], []
        for lease in leases:
            found = kept.get(lease.partition)
            if (found.version if found is not None else None) == lease.version:
                kept[lease.partition] = replace(lease, version=str(next(self._versions)))
                written.append(kept[lease.partition])
        return written

    async def checkpoints(self, group: ConsumerGroup) -> Mapping[str, Checkpoint]:
        """Return all checkpoints."""
        return dict(self._checkpoints[_key(group)])

    async def save(self, group: ConsumerGroup, checkpoints: Mapping[str, Checkpoint]) -> None:
        """Keep each checkpoint that is ahead of the one kept for its partition."""
        kept = self._checkpoints[_key(group)]
        for partition, checkpoint in checkpoints.items():
            if partition not in kept or kept[partition].sequence_number < checkpoint.sequence_number:
                kept[partition] = checkpoint


def _key(group: ConsumerGroup) -> ConsumerGroup:
    """Return the group in lowercase, because the service ignores case."""
    return ConsumerGroup(group.namespace.lower(), group.hub.lower(), group.group.lower())
