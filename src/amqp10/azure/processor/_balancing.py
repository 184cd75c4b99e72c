"""Which partitions a processor reads, decided from leases and times alone so that tests need neither store nor clock.

All processors of a group see the same leases, and each decides for itself. A processor takes partitions without an
owner, up to its share. To get a partition from an owner that has more than its share, it names itself in the lease
(`wanted_by`); it asks for one partition at a time. The owner stops reading, keeps its checkpoint, and hands the lease
over. If more partitions are asked for than it can give, it refuses by naming itself in `wanted_by`. Microsoft's
processors do not know requests and erase them when they renew; the processor that asked then takes the partition with
its next write.

    free ──── take ────> mine ──────── hand over ────────> another's
     ▲ ▲                 │  ▲                                │ │
     │ └──── release ────┘  └── given when asked for, taken ─┘ │
     └────────────────── released, or expired ─────────────────┘

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

_RENEW_AFTER = 0.5
"""A lease is renewed when this part of the interval has passed since it was last renewed."""
_LOOK_AGAIN_AFTER = 0.1
"""While partitions move, the leases are read again after this part of the interval."""


@dataclass(slots=True)
class _Partition:
    """What this processor knows of one partition.

    Attributes:
        lease: the lease as it was last read or written.
        since: when its owner was last seen to write the lease; at first, when the lease was first seen.
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
        last_write: when it was last seen to write; None: never.
        refused: when this processor decided to refuse it a partition; None: not within the last interval.
        erases_requests: it erased a request when it renewed, so its partitions are taken without one.
    """

    last_write: float | None = None
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
        self._request: Lease | None = None  # the lease asked for, as it was before
        self._looked = -inf
        self._moved = -inf  # when a partition was last seen to change its owner

    # What this processor has

    def owned(self, now: float) -> set[str]:
        """Return the partitions that this processor owns and may read.

        A partition whose lease has expired is left out: another processor may have taken it.
        """
        return {
            partition
            for partition, known in self._partitions.items()
            if known.renewed is not None and now - known.renewed < self._expiry and not known.leaving
        }

    def begin_leaving_requested(self) -> set[str]:
        """Begin to leave the partitions that others asked for, and return them.

        Stop reading them, and write what `begin_leaving` returns for each.
        """
        requested = set()
        for partition, known in self._partitions.items():
            if known.renewed is not None and self._is_requested(known.lease):
                known.leaving = True
                requested.add(partition)
        return requested

    def begin_leaving(self, partition: str) -> Lease | None:
        """Begin to leave a partition, and return the lease that gives it up or hands it over; None: it is not owned.

        Stop reading the partition before that lease is written.
        """
        known = self._partitions.get(partition)
        if known is None or known.renewed is None:
            return None
        known.leaving = True
        return replace(
            known.lease, owner=known.lease.wanted_by if self._is_requested(known.lease) else "", wanted_by=""
        )

    def _is_requested(self, lease: Lease) -> bool:
        """Return whether another processor asks for a partition that this one owns."""
        return lease.wanted_by not in ("", self.name)

    def unread(self, running: Collection[str]) -> list[str]:
        """Return the partitions that this processor stopped reading and could not release, because the store failed.

        Args:
            running: the partitions that it still reads.
        """
        return sorted(each for each, known in self._partitions.items() if known.leaving and each not in running)

    def avoid(self, partition: str, until: float) -> None:
        """Do not take the partition before the time `until`."""
        self._partitions[partition].avoided_until = until

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
        refuses = any(self._is_refusal(lease) for lease in writes)
        return writes if leaving or refuses else writes + self._claims(partitions, now)

    def look(self, partitions: Collection[str], leases: Iterable[Lease], now: float) -> None:
        """Record which leases changed since the last look, and whether a request was answered."""
        if now - self._looked >= self._expiry:
            self._request = None  # the lease may have been handed over and given back meanwhile
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
                before = known.lease
                same_owner = lease.owner == before.owner
                # A request does not renew the lease: only its owner does.
                renewed = same_owner and lease.wanted_by in ("", lease.owner, before.wanted_by)
                handed_over = not same_owner and lease.owner == before.wanted_by  # perhaps to nobody
                if renewed or not same_owner:
                    known.since = now
                    if not handed_over:
                        self._processors[lease.owner].last_write = now
                if not same_owner or lease.wanted_by != before.wanted_by:
                    self._moved = now
                known.lease = lease
            if lease.owner != self.name:
                known.lost()
        self._note_answer()

    def _note_answer(self) -> None:
        """Forget the request if it was answered, and record whether its owner erased it."""
        if self._request is None:
            return
        lease = self._partitions[self._request.partition].lease
        if lease.owner != self._request.owner or lease.wanted_by != self.name:
            if lease.owner == self._request.owner and not lease.wanted_by:
                self._processors[lease.owner].erases_requests = True
            self._request = None

    def _free_at(self, partition: str) -> float:
        """Return when a partition has no owner if its lease is not written again."""
        known = self._partitions[partition]
        owner = known.lease.owner
        if not owner:
            return known.since
        if owner == self.name:
            return inf
        last_write = self._processors[owner].last_write
        return (known.since if last_write is None else max(known.since, last_write)) + self._expiry

    def _has_owner(self, partition: str, now: float) -> bool:
        """Return whether a partition has an owner."""
        return bool(self._partitions[partition].lease.owner) and now < self._free_at(partition)

    def _next_owner(self, partition: str, now: float) -> str:
        """Return who has a partition after all requests are fulfilled; "": nobody."""
        lease = self._partitions[partition].lease
        return (lease.wanted_by or lease.owner) if self._has_owner(partition, now) else ""

    def _surplus(self, partitions: Collection[str], now: float) -> dict[str, int]:
        """Return how many partitions each processor has beyond its share; negative: it lacks some.

        A requested partition counts as handed over already.
        """
        held = Counter(self._next_owner(partition, now) for partition in partitions)
        return {name: held[name] - share for name, share in self._shares(held, len(partitions)).items()}

    def _shares(self, held: Counter[str], count: int) -> dict[str, int]:
        """Return the number of partitions that each processor is to have, of `count` in all.

        Shares differ by one at most. Some processors get one more than the smaller share. First those that own more
        than the smaller share already, then those that will when all requests are fulfilled, then by name.
        """
        refused = (name for name, processor in self._processors.items() if processor.refused is not None)
        names = {*held, self.name, *refused} - {""}
        smaller, rest = divmod(count, len(names))
        owned = Counter(known.lease.owner for known in self._partitions.values())
        # False sorts first
        order = sorted(names, key=lambda name: (owned[name] <= smaller, held[name] <= smaller, name))
        return {name: smaller + (place < rest) for place, name in enumerate(order)}

    def _renewals(self, partitions: Collection[str], now: float, leaving: bool) -> list[Lease]:
        """Return the leases to renew, with a refusal in each that is asked for but part of this processor's share."""
        missing = -self._surplus(partitions, now)[self.name]
        writes = []
        for partition in partitions:
            known = self._partitions[partition]
            lease, renewed = known.lease, known.renewed
            if lease.owner != self.name or (leaving and renewed is None):
                continue
            if missing > 0 and self._is_requested(lease) and not known.leaving and not leaving:
                missing -= 1
                # Recorded before the write, because a store that fails may have written. The processor that asked is
                # alive in any case, and so it counts when shares are computed.
                self._processors[lease.wanted_by].refused = now
                writes.append(replace(lease, wanted_by=self.name))
            elif renewed is None or now - renewed >= self._interval * _RENEW_AFTER:
                writes.append(lease)
        return writes

    def _is_refusal(self, lease: Lease) -> bool:
        """Return whether a lease to write refuses a request."""
        return lease.wanted_by == self.name and self._is_requested(self._partitions[lease.partition].lease)

    def _claims(self, partitions: Collection[str], now: float) -> list[Lease]:
        """Return the leases to take or to ask for, to reach this processor's share."""
        surplus = self._surplus(partitions, now)
        missing = -surplus[self.name]
        if missing <= 0:
            return []
        candidates = sorted(
            (each for each in partitions if self._partitions[each].avoided_until <= now),
            # each processor begins at another partition
            key=lambda partition: blake2b(f"{self.name}/{partition}".encode()).digest(),
        )
        free = [each for each in candidates if not self._has_owner(each, now)]
        if free:
            return [replace(self._partitions[each].lease, owner=self.name, wanted_by="") for each in free[:missing]]
        largest = max(surplus, key=lambda name: (surplus[name], name))
        if surplus[largest] <= 0 or (self._request is not None and self._has_owner(self._request.partition, now)):
            return []
        for partition in candidates:
            lease = self._partitions[partition].lease
            if lease.owner == largest and lease.wanted_by in ("", largest):
                if self._processors[largest].erases_requests:
                    return [replace(lease, owner=self.name, wanted_by="")]
                return [replace(lease, wanted_by=self.name)]
        return []

    def note_written(self, written: Iterable[Lease], now: float) -> None:
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
                if known.lease.owner != self.name:
                    # Ask for the next partition again: without a request, one is taken at a time.
                    self._processors[known.lease.owner].erases_requests = False
                known.renewed = now
            else:
                known.lost()
            if lease.owner != self.name and lease.wanted_by == self.name:
                self._request, self._moved = known.lease, now
            else:
                known.since = now
            known.lease = lease

    def until_next(self, now: float) -> float:
        """Return the seconds until the next look at the leases, which comes early when a lease expires before.

        While partitions move, the next look comes soon. It never comes at once: a store that fails when a lease expires
        would otherwise be asked without a pause.
        """
        wait = self._interval
        soon = wait * _LOOK_AGAIN_AFTER
        if now - self._moved < self._interval:
            wait = soon
        for partition, known in self._partitions.items():
            free_at = self._free_at(partition)
            if known.lease.owner and free_at > self._looked:
                wait = min(wait, max(soon, free_at - now))
        return wait
