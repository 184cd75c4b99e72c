"""Which processor reads which partition, tried out in many lives: each seed is one, without a clock or a network."""

from __future__ import annotations

import heapq
import random
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import replace
from itertools import count
from typing import Any

import pytest

from amqp10.azure.processor import Balancer, ConsumerGroup, Lease, MemoryLeases

from ...kit.counts import LIVES

pytestmark = pytest.mark.capability("Event Hubs processor")

INTERVAL, EXPIRY, DRAIN, LATENCY = 10.0, 30.0, 4.0, 0.5
LONGEST = EXPIRY + INTERVAL + DRAIN + 4 * LATENCY
GROUP = ConsumerGroup("host", "hub", "$Default")


def at_once(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Return the result of a coroutine that waits for nothing."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value
    raise AssertionError("it waited")


class World:
    """Processors that share a store, and the time, which passes from one event to the next.

    Attributes:
        now: the true time, which no processor knows.
        failing: each call of the store fails with this chance; half of those that write have written.
        moves: how often a partition went from a processor that lives to another one.
        outages: when a partition had nobody, from and until; not those that ended while the store failed.
    """

    def __init__(self, seed: int, partitions: int) -> None:
        self.chance = random.Random(seed)
        self.partitions = [str(each) for each in range(partitions)]
        self.store = MemoryLeases()
        self.now = 0.0
        self.failing = 0.0
        self.processors: list[Processor] = []
        self.moves = 0
        self.outages: list[tuple[float, float]] = []
        self._orphans = dict.fromkeys(self.partitions, 0.0)
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = count()
        self._names = count()

    def after(self, seconds: float, do: Callable[[], None]) -> None:
        heapq.heappush(self._events, (self.now + seconds, next(self._numbers), do))

    def run(self, seconds: float) -> None:
        """Let time pass."""
        end = self.now + seconds
        while self._events and self._events[0][0] <= end:
            self.now, _, do = heapq.heappop(self._events)
            do()
            self._check()
        self.now = end

    def start(self) -> Processor:
        processor = Processor(self, f"{self.chance.random()}-{next(self._names)}")
        self.processors.append(processor)
        return processor

    @property
    def alive(self) -> list[Processor]:
        return [each for each in self.processors if not each.crashed and each.paused_until <= self.now]

    def _check(self) -> None:
        """No partition is read by two; and how long is it read by none?"""
        readers = Counter(partition for each in self.alive for partition in each.reading())
        assert not readers or max(readers.values()) == 1, (self.now, readers)
        for partition in self.partitions:
            if not readers[partition]:
                self._orphans.setdefault(partition, self.now)
            elif partition in self._orphans:
                outage = self._orphans.pop(partition), self.now
                if not self.failing:
                    self.outages.append(outage)

    def leases(self) -> dict[str, Lease]:
        return {lease.partition: lease for lease in at_once(self.store.leases(GROUP))}

    def held(self) -> Counter[str]:
        """Return how many partitions each living processor reads."""
        return Counter({each.name: len(each.reading()) for each in self.alive})

    def read(self) -> list[Lease]:
        if self.chance.random() < self.failing:
            raise OSError
        found: list[Lease] = at_once(self.store.leases(GROUP))
        return found

    def write(self, leases: Iterable[Lease]) -> list[Lease]:
        """Write, or fail, before or after it."""
        fails = self.chance.random() < self.failing
        if fails and self.chance.random() < 0.5:
            raise OSError
        before = self.leases()
        names = {each.name for each in self.alive}
        written: list[Lease] = at_once(self.store.write(GROUP, list(leases)))
        for lease in written:
            old = before.get(lease.partition)
            self.moves += old is not None and old.owner in names and lease.owner not in ("", old.owner)
        if fails:
            raise OSError
        return written


class Processor:
    """One that does what `EventProcessor` does, with a clock that may be years off."""

    def __init__(self, world: World, name: str) -> None:
        self.name = name
        self.crashed = False
        self.leaving = False
        self.paused_until = 0.0
        self._world = world
        self._skew = world.chance.uniform(-1e9, 1e9)
        self._stopping: set[str] = set()
        self._balancer = Balancer(name, interval=INTERVAL, expiry=EXPIRY)
        world.after(0, self._look)

    @property
    def clock(self) -> float:
        return self._world.now + self._skew

    def reading(self) -> set[str]:
        return self._balancer.owned(self.clock)

    def _go_on(self, seconds: float, do: Callable[[], None]) -> None:
        """Do something later, if this one lives then, and is not paused."""

        def then() -> None:
            wait = self.paused_until - self._world.now
            if not self.crashed:
                self._go_on(wait, do) if wait > 0 else do()

        self._world.after(seconds, then)

    def _look(self) -> None:
        now, world = self.clock, self._world
        try:
            plan = self._balancer.plan(world.partitions, world.read(), now, leaving=self.leaving)
        except OSError:
            self._go_on(self._balancer.until_next(now), self._look)
        else:
            self._go_on(world.chance.uniform(0, LATENCY), lambda: self._write(plan, now))

    def _write(self, plan: list[Lease], now: float) -> None:
        chance = self._world.chance
        try:
            written = self._world.write(plan)
            self._balancer.note_written(written, now)
        except OSError:
            written = plan
        for partition in sorted(self._balancer.begin_leaving_requested() | (self.reading() if self.leaving else set())):
            if partition not in self._stopping:
                self._stopping.add(partition)
                self._balancer.begin_leaving(partition)
                self._go_on(chance.uniform(0, DRAIN), lambda partition=partition: self._drained(partition))  # type: ignore[misc]
        for partition in self._balancer.unread(self._stopping):
            self._release(partition)
        if self.leaving and not self._stopping and not self._balancer.unread(()):
            self.crashed = True
            return
        again = len(written) < len(plan)  # somebody was faster: look at what it did
        self._go_on(0 if again else self._balancer.until_next(self.clock) * chance.uniform(0.9, 1), self._look)

    def _drained(self, partition: str) -> None:
        self._stopping.discard(partition)
        self._release(partition)

    def _release(self, partition: str) -> None:
        lease = self._balancer.begin_leaving(partition)
        if lease is not None:
            try:
                self._balancer.note_written(self._world.write([lease]), self.clock)
            except OSError:
                pass


def fewest_moves(held: Iterable[int], partitions: int) -> int:
    """Return how many partitions must move until all have as many, or one more."""
    counts = sorted(held, reverse=True)
    share, more = divmod(partitions, len(counts))
    return sum(max(0, share + (place < more) - each) for place, each in enumerate(counts))


def settled(world: World) -> bool:
    held = world.held()
    return sum(held.values()) == len(world.partitions) and max(held.values()) - min(held.values()) <= 1


@pytest.mark.parametrize("block", range(10))
def test_lives(block: int) -> None:
    """Processors come, crash, leave and are paused, and the store fails at times."""
    for seed in range(block, LIVES, 10):
        world = World(seed, partitions := random.Random(seed).choice([1, 2, 4, 8, 16, 32]))
        chance = world.chance
        for _ in range(chance.randint(1, 6)):
            world.start()
        faults = [0.0]  # times
        for _ in range(12):
            world.run(chance.expovariate(1 / 60))
            alive = [each for each in world.alive if not each.leaving]
            match chance.choice(["start", "crash", "leave", "pause", "fail"]):
                case "start" if len(alive) < 10:
                    world.start()
                case "crash" if len(alive) > 1:
                    chance.choice(alive).crashed = True
                case "leave" if len(alive) > 1:
                    chance.choice(alive).leaving = True
                case "pause" if len(alive) > 1:
                    paused = chance.choice(alive)
                    paused.paused_until = world.now + chance.uniform(1, 3 * EXPIRY)
                    faults.append(paused.paused_until)
                case "fail":
                    world.failing = chance.choice([0.1, 0.5, 1.0])
                    world.run(chance.uniform(1, 2 * EXPIRY))
                    world.failing = 0.0
                case _:
                    pass
            faults.append(world.now)
        world.run(20 * INTERVAL + 2 * partitions * INTERVAL)
        assert settled(world), (seed, world.held())
        moves = world.moves
        world.run(50 * INTERVAL)
        assert world.moves == moves, seed
        for begin, end in world.outages:
            since = max([begin, *(each for each in faults if each <= end)])
            assert end - since <= LONGEST, (seed, begin, since, end)


@pytest.mark.parametrize("block", range(10))
def test_moves(block: int) -> None:
    """No more partitions move than must, and one, however many processors come at the same time, or if one goes."""
    for seed in range(block, LIVES, 10):
        world = World(seed, partitions := random.Random(seed).choice([1, 2, 4, 8, 16, 32]))
        chance = world.chance
        for _ in range(chance.randint(1, 5)):
            world.start()
        world.run(20 * INTERVAL + 2 * partitions * INTERVAL)
        for _ in range(3):
            assert settled(world), seed
            if chance.random() < 0.5 or len(world.alive) == 1:
                for _ in range(chance.randint(1, 4)):
                    world.start()
                most = fewest_moves(world.held().values(), partitions) + 1
            else:  # those who have nothing are not seen before they ask for what the others took
                idle = list(world.held().values()).count(0)
                most = min(idle, len(world.alive[0].reading())) + 1
                world.alive[0].leaving = True
            moves = world.moves
            world.run(20 * INTERVAL + 2 * partitions * INTERVAL)
            assert world.moves - moves <= most, (seed, partitions, world.moves - moves, most)


def test_store_fails_at_the_end_of_a_lease() -> None:
    """A store that cannot be read when a lease ends is not asked again at once."""
    balancer = Balancer("mine", interval=INTERVAL, expiry=EXPIRY)
    assert balancer.plan(["0"], [Lease("0", "theirs", "1")], 0.0) == []
    assert balancer.until_next(0.0) == INTERVAL
    assert balancer.until_next(EXPIRY - 5) == 5
    assert balancer.until_next(EXPIRY - 1e-9) == balancer.until_next(EXPIRY + 5) == INTERVAL / 10
    [taken] = balancer.plan(["0"], [Lease("0", "theirs", "1")], EXPIRY)
    assert taken == Lease("0", "mine", "1")


def test_a_partition_is_taken_again_after_a_lost_write() -> None:
    """A partition whose owner erases requests is taken without one, also if the owner wrote just before."""
    balancer, theirs = Balancer("mine", interval=INTERVAL, expiry=EXPIRY), [Lease("0", "theirs"), Lease("1", "theirs")]

    def plan(version: str, now: float) -> list[Lease]:
        return balancer.plan(["0", "1"], [replace(lease, version=version) for lease in theirs], now)

    [request] = plan("1", 0.0)
    assert request.wanted_by == "mine"
    balancer.note_written([replace(request, version="2")], 0.0)
    for version in ("3", "4"):  # the owner renews, and erases the request; then it renews before the write
        [taken] = plan(version, INTERVAL)
        assert taken == Lease(request.partition, "mine", version)
        balancer.note_written([], INTERVAL)
    balancer.note_written([replace(taken, version="5")], INTERVAL)
    theirs = [replace(taken, version="5"), *(lease for lease in theirs if lease.partition != taken.partition)]
    assert plan("5", INTERVAL) == []


@pytest.mark.parametrize("written", [True, False])
def test_a_refused_processor_counts_whatever_became_of_the_write(written: bool) -> None:
    """A processor that was refused counts for an interval even if the store failed at that write, made or not."""
    balancer = Balancer("mine", interval=INTERVAL, expiry=EXPIRY)
    partitions = ["0", "1", "2", "3"]
    theirs = [Lease(partition, "theirs", "1") for partition in partitions[1:]]
    [refusal] = balancer.plan(partitions, [Lease("0", "mine", "1", "new"), *theirs], 0.0)
    assert refusal == Lease("0", "mine", "1", "mine")
    lease = replace(refusal, version="2") if written else Lease("0", "mine", "1", "new")
    again = balancer.plan(partitions, [lease, *theirs], 1.0)  # without a request to the other owner
    assert again == [replace(lease, wanted_by="mine")]
