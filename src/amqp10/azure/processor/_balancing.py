"""Which partitions a processor reads, decided from leases and times alone so that tests can try it.

All processors of a group see the same leases, and each decides for itself. A processor takes partitions without an
owner, up to its share. To get a partition from an owner that has more than its share, it names itself in the lease
(`wanted_by`); it asks for one partition at a time. The owner stops reading, keeps its checkpoint, and hands the lease
over. If more partitions are asked for than it can give, it refuses by naming itself in `wanted_by`. Microsoft's
processors do not know requests and erase them when they renew; the processor that asked then takes the partition with
its next write.

    free ────take──> mine <──given, or taken── another's
     ▲               │ ▲                          │
     └───released────┘ └──── asked for by me <────┘

Shares differ by one at most, and a processor that has the larger share keeps it, so that no partition moves without
need. Everybody counts a requested partition as handed over already. A write takes effect only if nobody else wrote
since the leases were read.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from hashlib import blake2b
from math import inf

from ._leases import Lease

_DUE = 0.5
"""A lease is renewed when this part of the interval has passed since it was last renewed."""
_SOON = 0.1
"""While partitions move, the leases are read again after this part of the interval."""


@dataclass(slots=True)
class _Partition:
    """What this processor knows of one partition.

    Attributes:
        lease: the lease as it was last read or written.
        since: when the lease was last seen to change.
        renewed: when this processor last wrote the lease as its own; None: the partition is not its own.
        leaving: this processor is to stop reading its partition.
        avoided_until: the time before which this processor does not take it.
    """

    lease: Lease
    since: float
    renewed: float | None = None
    leaving: bool = False
    avoided_until: float = -inf

    def lost(self) -> None:
        """Record that the partition is not this processor's."""
        self.renewed, self.leaving = None, False


@dataclass(slots=True)
class _Processor:
    """What this processor knows of another one.

    Attributes:
        wrote: when it was last seen to write; None: never.
        refused: when this processor refused it a partition; None: not within the last interval.
        erases_requests: it erased a request when it renewed, so its partitions are taken without one.
    """

    wrote: float | None = None
    refused: float | None = None
    erases_requests: bool = False


class Balancer:
    """Decides for one processor, by what it knows of all leases.

    Times are seconds of a monotonic clock.

    Args:
        name: the unique name of the processor.
        interval: the longest time between two reads of the leases.
        expiry: a lease that was not written for this time has no owner.
    """

    def __init__(self, name: str, *, interval: float, expiry: float) -> None:
        self.name = name
        self._interval = interval
        self._expiry = expiry
        self._partitions: dict[str, _Partition] = {}
        self._processors: defaultdict[str, _Processor] = defaultdict(_Processor)
        self._asked: Lease | None = None  # the lease asked for, as it was before
        self._looked = -inf
        self._moved = -inf  # when a partition was last seen to change its owner

    # What this processor has

    def owned(self, now: float) -> set[str]:
        """Return the partitions that this processor owns and may read; others may have taken those that expired."""
        return {
            partition
            for partition, known in self._partitions.items()
            if known.renewed is not None and now - known.renewed < self._expiry and not known.leaving
        }

    def asked_for(self) -> set[str]:
        """Return the partitions to stop reading because others asked for them; `release` them after that."""
        asked = set()
        for partition, known in self._partitions.items():
            if known.renewed is not None and known.lease.wanted_by not in ("", self.name):
                known.leaving = True
                asked.add(partition)
        return asked

    def unread(self, running: Collection[str]) -> list[str]:
        """Return the partitions to release that are no longer read: the store failed when they stopped."""
        return sorted(each for each, known in self._partitions.items() if known.leaving and each not in running)

    def avoid(self, partition: str, until: float) -> None:
        """Do not take the partition before the time `until`."""
        self._partitions[partition].avoided_until = until

    def release(self, partition: str) -> Lease | None:
        """Return the lease that gives a partition up or hands it over; None: it is not owned."""
        known = self._partitions.get(partition)
        if known is None or known.renewed is None:
            return None
        known.leaving = True
        lease = known.lease
        return replace(lease, owner=lease.wanted_by if lease.wanted_by != self.name else "", wanted_by="")

    # What to write

    def plan(
        self, partitions: Collection[str], leases: Iterable[Lease], now: float, *, leaving: bool = False
    ) -> list[Lease]:
        """Return the leases to write, given all leases as they were just read.

        Args:
            partitions: the ids of all partitions of the hub.
            leases: the leases that were ever written.
            now: the time before the leases were read.
            leaving: take no more partitions, but keep those that this processor has.
        """
        self.look(partitions, leases, now)
        writes = self._renewals(partitions, now, leaving)
        refuses = any(
            lease.wanted_by == self.name != self._partitions[lease.partition].lease.wanted_by for lease in writes
        )
        return writes if leaving or refuses else writes + self._claims(partitions, now)

    def look(self, partitions: Collection[str], leases: Iterable[Lease], now: float) -> None:
        """Record which leases changed since the last look."""
        if now - self._looked >= self._expiry:
            self._asked = None  # the lease may have been handed over and given back meanwhile
        self._looked = now
        for processor in self._processors.values():
            if processor.refused is not None and now - processor.refused >= self._interval:
                processor.refused = None
        found = {lease.partition: lease for lease in leases}
        for partition in partitions:
            lease = found.get(partition, Lease(partition))
            known = self._partitions.get(partition)
            if known is None:
                known = self._partitions[partition] = _Partition(lease, now)
            elif known.lease.version != lease.version:
                # A request does not renew the lease: only its owner does.
                same = lease.owner == known.lease.owner
                if not same or lease.wanted_by in ("", lease.owner, known.lease.wanted_by):
                    known.since = now
                    if same or lease.owner != known.lease.wanted_by:  # otherwise it was handed over, perhaps to nobody
                        self._processors[lease.owner].wrote = now
                if (lease.owner, lease.wanted_by) != (known.lease.owner, known.lease.wanted_by):
                    self._moved = now
                known.lease = lease
            if lease.owner != self.name:
                known.lost()

    def _free_at(self, partition: str) -> float:
        """Return when a partition has no owner if its lease is not written again."""
        known = self._partitions[partition]
        owner = known.lease.owner
        if not owner:
            return known.since
        if owner == self.name:
            return inf
        wrote = self._processors[owner].wrote
        return (known.since if wrote is None else max(known.since, wrote)) + self._expiry

    def _is_alive(self, partition: str, now: float) -> bool:
        """Return whether a partition has an owner."""
        return bool(self._partitions[partition].lease.owner) and now < self._free_at(partition)

    def _next_owner(self, partition: str, now: float) -> str:
        """Return who has a partition after all requests are fulfilled; "": nobody."""
        lease = self._partitions[partition].lease
        return (lease.wanted_by or lease.owner) if self._is_alive(partition, now) else ""

    def _shares(self, held: Counter[str], partitions: int) -> dict[str, int]:
        """Return the number of partitions that each processor is to have.

        Shares differ by one at most. The larger shares go to processors that own that many partitions already, and that
        refuse further requests; then to those that were promised that many; then by name, so that all processors decide
        alike.
        """
        refused = (name for name, processor in self._processors.items() if processor.refused is not None)
        names = {*held, self.name, *refused} - {""}
        share, more = divmod(partitions, len(names))
        owned = Counter(known.lease.owner for known in self._partitions.values())
        order = sorted(names, key=lambda name: (owned[name] <= share, held[name] <= share, name))
        return {name: share + (place < more) for place, name in enumerate(order)}

    def _renewals(self, partitions: Collection[str], now: float, leaving: bool) -> list[Lease]:
        """Return the leases to renew, with a refusal in each that is asked for but part of this processor's share."""
        held = Counter(self._next_owner(partition, now) for partition in partitions)
        missing = self._shares(held, len(partitions))[self.name] - held[self.name]
        writes = []
        for partition in partitions:
            known = self._partitions[partition]
            lease, renewed = known.lease, known.renewed
            if lease.owner != self.name or (leaving and renewed is None):
                continue
            refuses = missing > 0 and lease.wanted_by not in ("", self.name) and not known.leaving
            if refuses and not leaving:
                missing -= 1
                self._processors[lease.wanted_by].refused = now
                writes.append(replace(lease, wanted_by=self.name))
            elif renewed is None or now - renewed >= self._interval * _DUE:
                writes.append(lease)
        return writes

    def _claims(self, partitions: Collection[str], now: float) -> list[Lease]:
        """Return the leases to take or to ask for, to reach this processor's share."""
        held = Counter(self._next_owner(partition, now) for partition in partitions)
        waits = self._waits_for_answer(now)
        shares = self._shares(held, len(partitions))
        missing = shares[self.name] - held[self.name]
        wanted = sorted(
            (each for each in partitions if self._partitions[each].avoided_until <= now),
            # each processor begins at another partition
            key=lambda partition: blake2b(f"{self.name}/{partition}".encode()).digest(),
        )
        free = [each for each in wanted if not self._is_alive(each, now)]
        if missing <= 0:
            return []
        if free:
            return [replace(self._partitions[each].lease, owner=self.name, wanted_by="") for each in free[:missing]]
        beyond = {name: held[name] - shares[name] for name in shares if held[name] > shares[name]}
        if waits or not beyond:
            return []
        largest = max(beyond, key=lambda name: (beyond[name], name))
        for partition in wanted:
            lease = self._partitions[partition].lease
            if lease.owner == largest and lease.wanted_by in ("", largest):
                if self._processors[largest].erases_requests:
                    self._processors[largest].erases_requests = False  # take one partition at a time
                    return [replace(lease, owner=self.name, wanted_by="")]
                return [replace(lease, wanted_by=self.name)]
        return []

    def _waits_for_answer(self, now: float) -> bool:
        """Return whether an owner that was asked for a partition has still to answer."""
        if self._asked is None:
            return False
        lease = self._partitions[self._asked.partition].lease
        if lease.owner == self._asked.owner and lease.wanted_by == self.name:
            return self._is_alive(lease.partition, now)
        if lease.owner == self._asked.owner and not lease.wanted_by:
            self._processors[lease.owner].erases_requests = True
        self._asked = None
        return False

    def wrote(self, written: Iterable[Lease], now: float) -> None:
        """Record which leases were written.

        Args:
            written: the leases, with their new versions.
            now: the time before the write. Others see the write later, and so take the partition later.
        """
        for lease in written:
            known = self._partitions[lease.partition]
            if lease.owner != known.lease.owner:
                self._moved = now
            if lease.owner == self.name:
                known.renewed = now
            else:
                known.lost()
            if lease.owner != self.name and lease.wanted_by == self.name:
                self._asked, self._moved = known.lease, now
            else:
                known.since = now
            known.lease = lease

    def until_next(self, now: float) -> float:
        """Return the seconds until the next look at the leases, which comes early when a lease expires before.

        While partitions move, the next look comes soon. It never comes at once: a store that fails when a lease expires
        would otherwise be asked without a pause.
        """
        wait = self._interval
        soon = wait * _SOON
        if now - self._moved < self._interval:
            wait = soon
        for partition, known in self._partitions.items():
            free_at = self._free_at(partition)
            if known.lease.owner and free_at > self._looked:
                wait = min(wait, max(soon, free_at - now))
        return wait
