"""The coroutines of receivers, cancelled at every one of their checkpoints; see tests/kit/client/cancelling.py."""

from __future__ import annotations

import anyio
import anyio.lowlevel
import pytest

from ...kit.client.cancelling import CancelAt, Serve, at_each_checkpoint, when_blocked, world

pytestmark = [pytest.mark.anyio, pytest.mark.in_memory, pytest.mark.capability("cancellation")]


@pytest.mark.parametrize("max_wait", [None, 3600])
@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize("there", [0, 1, 3, 5])
async def test_receive_batch(serve: Serve, size: int, max_wait: float | None, there: int) -> None:
    """No delivery is lost, doubled or out of order, whatever was here and whatever came."""
    bodies = list(range(6))

    async def trial(cancel: CancelAt) -> None:
        async with world(serve, bodies[:there]) as w:
            w.receiver.add_credit(6)
            await anyio.wait_all_tasks_blocked()

            async def op() -> None:
                w.got += await w.receiver.receive_batch(size, max_wait=max_wait)

            async with when_blocked(*(lambda n=n: w.store.put(n) for n in bodies[there:])):
                await cancel.run(op)
                await anyio.wait_all_tasks_blocked()
            assert bool(w.got) is cancel.finished
            w.store.put(*bodies[there + len(w.store.out) + len(w.store.done) - there :])
            await w.check_store(*bodies)
            await w.check()

    await at_each_checkpoint(trial, 0)


@pytest.mark.usefixtures("short_turns")
@pytest.mark.parametrize("there", [0, 200])
async def test_receive(serve: Serve, there: int) -> None:
    """A cancelled receive takes no delivery with it."""
    bodies = list(range(200))

    async def trial(cancel: CancelAt) -> None:
        async with world(serve, bodies[:there]) as w:
            w.receiver.add_credit(200)
            await anyio.wait_all_tasks_blocked()

            async def op() -> None:
                while len(w.got) < 150:
                    w.got.append(await w.receiver.receive())

            async with when_blocked(lambda: w.store.put(*bodies[there:]) if not there else None):
                await cancel.run(op)
                await anyio.wait_all_tasks_blocked()
            if len(w.store.out) < 200:
                w.store.put(*bodies[len(w.store.out) :])
            await w.check_store(*bodies)
            await w.check()

    await at_each_checkpoint(trial, 2)


async def test_drain(serve: Serve) -> None:
    """Cancelled, the credit is the peer's again or was used; the link is usable."""

    async def trial(cancel: CancelAt) -> None:
        async with world(serve, ["a", "b"]) as w:
            w.receiver.add_credit(10)
            await anyio.wait_all_tasks_blocked()
            await cancel.run(w.receiver.drain)
            await anyio.wait_all_tasks_blocked()
            link = w.peer.links["in"]
            assert w.receiver.credit == link.credit
            assert not link.drain
            if cancel.finished:
                assert w.receiver.credit == 0
                w.receiver.add_credit(10)
            await anyio.wait_all_tasks_blocked()
            w.store.put("c")
            await w.check_store("a", "b", "c")
            await w.check()

    await at_each_checkpoint(trial, 2)


async def test_settled(serve: Serve) -> None:
    """Only the waiting ends; the outcome stands, and the settlement comes."""

    async def trial(cancel: CancelAt) -> None:
        async with world(serve, ["a"], mode="second") as w:
            w.receiver.add_credit(1)
            delivery = await w.receiver.receive()
            delivery.accept()
            await cancel.run(delivery.wait_settled)
            await anyio.wait_all_tasks_blocked()
            await delivery.wait_settled()
            assert w.store.done == ["a"]
            await w.check()

    await at_each_checkpoint(trial, 1)
