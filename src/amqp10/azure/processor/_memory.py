"""Leases and checkpoints in memory: for the processors of one process, and for tests."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import count

from ._leases import Checkpoint, ConsumerGroup, Lease


class MemoryLeases:
    """Keeps leases and checkpoints in memory, as long as the object is there.

    A program that begins again reads all events again: for one that must not, there are `SQLiteLeases` and
    `BlobLeases`.
    """

    def __init__(self) -> None:
        self._leases: dict[ConsumerGroup, dict[str, Lease]] = defaultdict(dict)
        self._checkpoints: dict[ConsumerGroup, dict[str, Checkpoint]] = defaultdict(dict)
        self._versions = count(1)

    async def leases(self, group: ConsumerGroup) -> Sequence[Lease]:
        """Return all leases."""
        return list(self._leases[_key(group)].values())

    async def write(self, group: ConsumerGroup, leases: Sequence[Lease]) -> Sequence[Lease]:
        """Write leases that nobody else wrote meanwhile, and return them."""
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
        """Keep checkpoints, but for those that are behind what is kept."""
        kept = self._checkpoints[_key(group)]
        for partition, checkpoint in checkpoints.items():
            if partition not in kept or kept[partition].sequence_number < checkpoint.sequence_number:
                kept[partition] = checkpoint


def _key(group: ConsumerGroup) -> ConsumerGroup:
    """Return the group by small letters; the service tells no capitals apart."""
    return ConsumerGroup(group.namespace.lower(), group.hub.lower(), group.group.lower())
