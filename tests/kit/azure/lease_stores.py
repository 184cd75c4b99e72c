"""What every store of leases has to do, asked of each in turn."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable

import anyio
import pytest

from amqp10.azure import Checkpoint, ConsumerGroup, Lease, LeaseStore

GROUP = ConsumerGroup("host", "hub", "$Default")
CHANGED = 5
"""How often a lease is changed by each of those who change it at the same time."""


async def keeps_leases(store: LeaseStore) -> None:
    """A lease is written by who knows its last version, and by nobody else; the others of the call are written."""
    assert not await store.leases(GROUP)
    first, second = await store.write(GROUP, [Lease("0", "me"), Lease("1", "me", None, "you")])
    assert (first.owner, first.wanted_by, second.wanted_by) == ("me", "", "you")
    assert sorted(await store.leases(GROUP), key=_partition) == [first, second]
    assert not await store.write(GROUP, [Lease("0", "they")])
    [asked, third] = await store.write(GROUP, [Lease("0", "me", first.version, "they"), Lease("2", "they")])
    assert not await store.write(GROUP, [first])
    assert not await store.write(GROUP, [Lease("3", "me", "1")])
    assert await store.write(GROUP, []) == []
    assert asked.version != first.version
    [released] = await store.write(GROUP, [first, Lease("0", "", asked.version)])
    assert released == Lease("0", "", released.version)
    assert sorted(await store.leases(GROUP), key=_partition) == [released, second, third]


async def keeps_checkpoints(store: LeaseStore) -> None:
    """A checkpoint never goes back, and may have no offset; the largest number of the service has room."""
    assert not await store.checkpoints(GROUP)
    for number in (5, 4, 5):
        await store.save(GROUP, {"0": Checkpoint(number, f"offset {number}"), "1": Checkpoint(10 - number)})
    assert await store.checkpoints(GROUP) == {"0": Checkpoint(5, "offset 5"), "1": Checkpoint(6)}
    await store.save(GROUP, {"1": Checkpoint(2**63 - 1, "offset")})
    await store.save(GROUP, {})
    assert await store.checkpoints(GROUP) == {"0": Checkpoint(5, "offset 5"), "1": Checkpoint(2**63 - 1, "offset")}


async def tells_groups_apart(store: LeaseStore) -> None:
    """What one group has, no other one has; capitals make no other group, for the service does not see them."""
    await store.write(GROUP, [Lease("0", "me")])
    await store.save(GROUP, {"0": Checkpoint(1)})
    for other in (
        ConsumerGroup("other", "hub", "$Default"),
        ConsumerGroup("host", "other", "$Default"),
        ConsumerGroup("host", "hub", "other"),
    ):
        assert not await store.leases(other)
        assert not await store.checkpoints(other)
        assert len(await store.write(other, [Lease("0", "they")])) == 1
    same = ConsumerGroup("HOST", "Hub", "$default")
    assert [lease.owner for lease in await store.leases(same)] == ["me"]
    assert await store.checkpoints(same) == {"0": Checkpoint(1)}


async def counts_each_write(store: LeaseStore) -> None:
    """Of those who change a lease at the same time no change is lost, and none waits for ever."""
    partitions = ["0", "1", "2"]
    await store.write(GROUP, [Lease(each, "0") for each in partitions])
    done: Counter[str] = Counter()

    async def change(order: list[str]) -> None:
        while min(done[each] for each in partitions) < 4 * CHANGED:
            found = {lease.partition: lease for lease in await store.leases(GROUP)}
            wanted = [Lease(each, str(int(found[each].owner) + 1), found[each].version) for each in order]
            for lease in await store.write(GROUP, wanted):
                done[lease.partition] += 1

    async with anyio.create_task_group() as tasks:
        for turn in range(4):
            tasks.start_soon(change, partitions[turn % 3 :] + partitions[: turn % 3])
    assert {lease.partition: int(lease.owner) for lease in await store.leases(GROUP)} == done


def _partition(lease: Lease) -> str:
    return lease.partition


Clause = Callable[[LeaseStore], Awaitable[None]]
CLAUSES: list[Clause] = [keeps_leases, keeps_checkpoints, tells_groups_apart, counts_each_write]
contract = pytest.mark.parametrize("clause", CLAUSES, ids=lambda clause: clause.__name__)
