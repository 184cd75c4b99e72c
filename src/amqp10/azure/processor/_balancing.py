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

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from hashlib import blake2b

from ._leases import Lease

_DUE = 0.5
"""A lease is renewed when this part of the interval has passed since it was last renewed."""
_SOON = 0.1
"""While partitions move, the leases are read again after this part of the interval."""


@dataclass(slots=True)
class _Seen:
    lease: Lease
    since: float  # when the lease was last seen to change


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
        self._seen: dict[str, _Seen] = {}
        self._signs: dict[str, float] = {}  # when each processor was last seen to write
        self._mine: dict[str, float] = {}  # partitions, and when each was last renewed
        self._leaving: set[str] = set()  # those of `_mine` to stop reading
        self._asked: Lease | None = None  # the lease asked for, as it was before
        # processors that were refused a partition, and when: only this processor knows
        self._refused: dict[str, float] = {}
        self._deaf: set[str] = set()  # owners that erase requests
        self._avoided: dict[str, float] = {}  # partitions not to take, and until when
        self._looked = float("-inf")
        self._moved = float("-inf")  # when a partition was last seen to change its owner

    # What this processor has

    def owned(self, now: float) -> set[str]:
        """Return the partitions that this processor owns and may read; others may have taken those that expired."""
        return {
            partition
            for partition, renewed in self._mine.items()
            if now - renewed < self._expiry and partition not in self._leaving
        }

    def asked_for(self) -> set[str]:
        """Return the partitions to stop reading because others asked for them; `release` them after that."""
        asked = {each for each in self._mine if self._seen[each].lease.wanted_by not in ("", self.name)}
        self._leaving |= asked
        return asked

    def unread(self, running: Collection[str]) -> list[str]:
        """Return the partitions to release that are no longer read: the store failed when they stopped."""
        return sorted(self._leaving - set(running))

    def avoid(self, partition: str, until: float) -> None:
        """Do not take the partition before the time `until`."""
        self._avoided[partition] = until

    def release(self, partition: str) -> Lease | None:
        """Return the lease that gives a partition up or hands it over; None: it is not owned."""
        if partition not in self._mine:
            return None
        self._leaving.add(partition)
        lease = self._seen[partition].lease
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
        refuses = any(lease.wanted_by == self.name != self._seen[lease.partition].lease.wanted_by for lease in writes)
        return writes if leaving or refuses else writes + self._claims(partitions, now)

    def look(self, partitions: Collection[str], leases: Iterable[Lease], now: float) -> None:
        """Record which leases changed since the last look."""
        if now - self._looked >= self._expiry:
            self._asked = None  # the lease may have been handed over and given back meanwhile
        self._looked = now
        self._refused = {name: when for name, when in self._refused.items() if now - when < self._interval}
        found = {lease.partition: lease for lease in leases}
        for partition in partitions:
            lease = found.get(partition, Lease(partition))
            seen = self._seen.get(partition)
            if seen is None:
                self._seen[partition] = _Seen(lease, now)
            elif seen.lease.version != lease.version:
                # A request does not renew the lease: only its owner does.
                same = lease.owner == seen.lease.owner
                if not same or lease.wanted_by in ("", lease.owner, seen.lease.wanted_by):
                    seen.since = now
                    if same or lease.owner != seen.lease.wanted_by:  # otherwise it was handed over, perhaps to nobody
                        self._signs[lease.owner] = now
                if (lease.owner, lease.wanted_by) != (seen.lease.owner, seen.lease.wanted_by):
                    self._moved = now
                seen.lease = lease
            if lease.owner != self.name:
                self._mine.pop(partition, None)
                self._leaving.discard(partition)

    def _free_at(self, partition: str) -> float:
        """Return when a partition has no owner if its lease is not written again."""
        seen = self._seen[partition]
        owner = seen.lease.owner
        if not owner:
            return seen.since
        return (
            float("inf") if owner == self.name else max(seen.since, self._signs.get(owner, seen.since)) + self._expiry
        )

    def _is_alive(self, partition: str, now: float) -> bool:
        """Return whether a partition has an owner."""
        return bool(self._seen[partition].lease.owner) and now < self._free_at(partition)

    def _next_owner(self, partition: str, now: float) -> str:
        """Return who has a partition after all requests are fulfilled; "": nobody."""
        lease = self._seen[partition].lease
        return (lease.wanted_by or lease.owner) if self._is_alive(partition, now) else ""

    def _shares(self, held: Counter[str], partitions: int) -> dict[str, int]:
        """Return the number of partitions that each processor is to have.

        Shares differ by one at most. The larger shares go to processors that own that many partitions already, and that
        refuse further requests; then to those that were promised that many; then by name, so that all processors decide
        alike.
        """
        names = {*held, self.name, *self._refused} - {""}
        share, more = divmod(partitions, len(names))
        owned = Counter(seen.lease.owner for seen in self._seen.values())
        order = sorted(names, key=lambda name: (owned[name] <= share, held[name] <= share, name))
        return {name: share + (place < more) for place, name in enumerate(order)}

    def _renewals(self, partitions: Collection[str], now: float, leaving: bool) -> list[Lease]:
        """Return the leases to renew, with a refusal in each that is asked for but part of this processor's share."""
        held = Counter(self._next_owner(partition, now) for partition in partitions)
        missing = self._shares(held, len(partitions))[self.name] - held[self.name]
        writes = []
        for partition in partitions:
            lease = self._seen[partition].lease
            if lease.owner != self.name or (leaving and partition not in self._mine):
                continue
            refuses = missing > 0 and lease.wanted_by not in ("", self.name) and partition not in self._leaving
            if refuses and not leaving:
                missing -= 1
                self._refused[lease.wanted_by] = now
                writes.append(replace(lease, wanted_by=self.name))
            elif now - self._mine.get(partition, float("-inf")) >= self._interval * _DUE:
                writes.append(lease)
        return writes

    def _claims(self, partitions: Collection[str], now: float) -> list[Lease]:
        """Return the leases to take or to ask for, to reach this processor's share."""
        held = Counter(self._next_owner(partition, now) for partition in partitions)
        waits = self._waits_for_answer(now)
        shares = self._shares(held, len(partitions))
        missing = shares[self.name] - held[self.name]
        wanted = sorted(
            (each for each in partitions if self._avoided.get(each, now) <= now),
            # each processor begins at another partition
            key=lambda partition: blake2b(f"{self.name}/{partition}".encode()).digest(),
        )
        free = [each for each in wanted if not self._is_alive(each, now)]
        if missing <= 0:
            return []
        if free:
            return [replace(self._seen[each].lease, owner=self.name, wanted_by="") for each in free[:missing]]
        beyond = {name: held[name] - shares[name] for name in shares if held[name] > shares[name]}
        if waits or not beyond:
            return []
        largest = max(beyond, key=lambda name: (beyond[name], name))
        for partition in wanted:
            lease = self._seen[partition].lease
            if lease.owner == largest and lease.wanted_by in ("", largest):
                if largest in self._deaf:
                    self._deaf.discard(largest)  # take one partition at a time
                    return [replace(lease, owner=self.name, wanted_by="")]
                return [replace(lease, wanted_by=self.name)]
        return []

    def _waits_for_answer(self, now: float) -> bool:
        """Return whether an owner that was asked for a partition has still to answer."""
        if self._asked is None:
            return False
        lease = self._seen[self._asked.partition].lease
        if lease.owner == self._asked.owner and lease.wanted_by == self.name:
            return self._is_alive(lease.partition, now)
        if lease.owner == self._asked.owner and not lease.wanted_by:
            self._deaf.add(lease.owner)
        self._asked = None
        return False

    def wrote(self, written: Iterable[Lease], now: float) -> None:
        """Record which leases were written.

        Args:
            written: the leases, with their new versions.
            now: the time before the write. Others see the write later, and so take the partition later.
        """
        for lease in written:
            seen = self._seen[lease.partition]
            if lease.owner != seen.lease.owner:
                self._moved = now
            if lease.owner == self.name:
                self._mine[lease.partition] = now
            else:
                self._mine.pop(lease.partition, None)
                self._leaving.discard(lease.partition)
            if lease.owner != self.name and lease.wanted_by == self.name:
                self._asked, self._moved = seen.lease, now
            else:
                seen.since = now
            seen.lease = lease

    def until_next(self, now: float) -> float:
        """Return the seconds until the next look at the leases, which comes early when a lease expires before.

        While partitions move, the next look comes soon. It never comes at once: a store that fails when a lease expires
        would otherwise be asked without a pause.
        """
        wait = self._interval
        soon = wait * _SOON
        if now - self._moved < self._interval:
            wait = soon
        for partition, seen in self._seen.items():
            free_at = self._free_at(partition)
            if seen.lease.owner and free_at > self._looked:
                wait = min(wait, max(soon, free_at - now))
        return wait
