"""Which partitions a processor reads: decided from the leases and the time alone, so that it can be tried out.

All processors of a group decide for themselves, from the same leases. A processor takes what nobody reads, up to its
share. What another one has beyond its share it asks for, one partition at a time: it names itself in the lease
(`wanted_by`). The owner stops reading there, keeps its checkpoint, and hands the lease over; or it names itself there,
where too many ask at once. An owner that wipes the request out, as Microsoft's processors do, for they do not know of
it, loses the partition to the next write.

           nobody's ──take──> mine <──given, or taken── another's
              ▲                │ ▲                          │
              └────released────┘ └── asked for by me <──────┘

Shares differ by one at most, and who has one more keeps it: so nothing moves that need not. What is asked for counts
as handed over, for all who see it. A write counts only if nobody else wrote since the leases were read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from hashlib import blake2b

from ._leases import Lease

_DUE = 0.5
"""The part of the interval after which a lease is renewed: leases are looked at more often than that."""
_SOON = 0.1
"""The part of the interval after which one looks again while partitions move."""


@dataclass(slots=True)
class _Seen:
    lease: Lease
    since: float  # when it was last seen to change


class Balancer:
    """What one processor knows of all leases.

    Times are seconds of a clock of its own, which never goes back.

    Args:
        name: of the processor, which no other one has.
        interval: the longest time between two looks at the leases.
        expiry: a lease that was not written for so long is nobody's.
    """

    def __init__(self, name: str, *, interval: float, expiry: float) -> None:
        self.name = name
        self._interval = interval
        self._expiry = expiry
        self._seen: dict[str, _Seen] = {}
        self._signs: dict[str, float] = {}  # when each processor was last seen to write
        self._mine: dict[str, float] = {}  # partitions, and when each was last renewed
        self._leaving: set[str] = set()  # of these, those that are not read any longer
        self._asked: Lease | None = None  # for this one, as it was before
        self._refused: dict[str, float] = {}  # whom this one refused a partition, and when: nobody else sees them
        self._deaf: set[str] = set()  # owners that take requests for nothing
        self._avoided: dict[str, float] = {}  # until when
        self._looked = float("-inf")
        self._moved = float("-inf")  # when a partition was last seen to move

    # What is mine

    def owned(self, now: float) -> set[str]:
        """Return the partitions that are this processor's, and that it may read.

        One whose lease could not be renewed for too long is not among them: by now others take it.
        """
        return {
            partition
            for partition, renewed in self._mine.items()
            if now - renewed < self._expiry and partition not in self._leaving
        }

    def asked_for(self) -> set[str]:
        """Return the partitions to stop reading, as others are to have them: then `release` them."""
        asked = {each for each in self._mine if self._seen[each].lease.wanted_by not in ("", self.name)}
        self._leaving |= asked
        return asked

    def unread(self, running: Collection[str]) -> list[str]:
        """Return the partitions that are to be released, as they are not read any longer: a store failed before."""
        return sorted(self._leaving - set(running))

    def avoid(self, partition: str, until: float) -> None:
        """Take a partition no more before that time."""
        self._avoided[partition] = until

    def release(self, partition: str) -> Lease | None:
        """Return what to write to hand a partition over, or to nobody; None: it is not this processor's."""
        if partition not in self._mine:
            return None
        self._leaving.add(partition)
        lease = self._seen[partition].lease
        return replace(lease, owner=lease.wanted_by if lease.wanted_by != self.name else "", wanted_by="")

    # What to write

    def plan(
        self, partitions: Collection[str], leases: Iterable[Lease], now: float, *, leaving: bool = False
    ) -> list[Lease]:
        """Return what to write, given all leases as they were read just now.

        Args:
            partitions: the ids of those that there are.
            leases: those that were ever written.
            now: the time before they were read.
            leaving: take no more partitions, only keep those that are mine.
        """
        self.look(partitions, leases, now)
        writes = self._renewals(partitions, now, leaving)
        refuses = any(lease.wanted_by == self.name != self._seen[lease.partition].lease.wanted_by for lease in writes)
        return writes if leaving or refuses else writes + self._claims(partitions, now)

    def look(self, partitions: Collection[str], leases: Iterable[Lease], now: float) -> None:
        """Take note of what changed since the last look."""
        if now - self._looked >= self._expiry:
            self._asked = None  # it may have been handed over, and have gone back since
        self._looked = now
        self._refused = {name: when for name, when in self._refused.items() if now - when < self._interval}
        found = {lease.partition: lease for lease in leases}
        for partition in partitions:
            lease = found.get(partition, Lease(partition))
            seen = self._seen.get(partition)
            if seen is None:
                self._seen[partition] = _Seen(lease, now)
            elif seen.lease.version != lease.version:
                # Asking for a partition does not renew its lease: only its owner renews it.
                same = lease.owner == seen.lease.owner
                if not same or lease.wanted_by in ("", lease.owner, seen.lease.wanted_by):
                    seen.since = now
                    if same or lease.owner != seen.lease.wanted_by:  # else it was handed over, perhaps to nobody
                        self._signs[lease.owner] = now
                if (lease.owner, lease.wanted_by) != (seen.lease.owner, seen.lease.wanted_by):
                    self._moved = now
                seen.lease = lease
            if lease.owner != self.name:
                self._mine.pop(partition, None)
                self._leaving.discard(partition)

    def _free_at(self, partition: str) -> float:
        """Return when a partition is nobody's, if it is not written again."""
        seen = self._seen[partition]
        owner = seen.lease.owner
        if not owner:
            return seen.since
        return (
            float("inf") if owner == self.name else max(seen.since, self._signs.get(owner, seen.since)) + self._expiry
        )

    def _is_alive(self, partition: str, now: float) -> bool:
        """Return whether a partition is somebody's."""
        return bool(self._seen[partition].lease.owner) and now < self._free_at(partition)

    def _next_owner(self, partition: str, now: float) -> str:
        """Return who will have a partition when what was asked for is handed over; "": nobody."""
        lease = self._seen[partition].lease
        return (lease.wanted_by or lease.owner) if self._is_alive(partition, now) else ""

    def _shares(self, held: Counter[str], partitions: int) -> dict[str, int]:
        """Return how many partitions each processor is to have.

        Shares differ by one at most. The larger one is for those who own more than the smaller one: they refuse what
        too many ask for at once. Next come those to whom that was promised; else the order of names decides, so that
        all decide alike.
        """
        names = {*held, self.name, *self._refused} - {""}
        share, more = divmod(partitions, len(names))
        owned = Counter(seen.lease.owner for seen in self._seen.values())
        order = sorted(names, key=lambda name: (owned[name] <= share, held[name] <= share, name))
        return {name: share + (place < more) for place, name in enumerate(order)}

    def _renewals(self, partitions: Collection[str], now: float, leaving: bool) -> list[Lease]:
        """Return the leases that are mine and are to be renewed; requests of too many at once are refused."""
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
        """Return what to take, or to ask for, so that I have my share."""
        held = Counter(self._next_owner(partition, now) for partition in partitions)
        waits = self._waits_for_answer(now)
        shares = self._shares(held, len(partitions))
        missing = shares[self.name] - held[self.name]
        wanted = sorted(
            (each for each in partitions if self._avoided.get(each, now) <= now),
            key=lambda partition: blake2b(f"{self.name}/{partition}".encode()).digest(),  # others begin elsewhere
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
                    self._deaf.discard(largest)  # one at a time
                    return [replace(lease, owner=self.name, wanted_by="")]
                return [replace(lease, wanted_by=self.name)]
        return []

    def _waits_for_answer(self, now: float) -> bool:
        """Return whether another one was asked for a partition, and has yet to hand it over."""
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
        """Take note of what was written.

        Args:
            written: with their new versions.
            now: the time before it was written: others see it later, and take the partition later.
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
        """Return the seconds until the next look: at the end of the interval, or when a lease ends before that.

        While partitions move it is soon, so that the next one moves soon. It is never at once: a store that fails at
        the end of a lease would be asked again and again.
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
