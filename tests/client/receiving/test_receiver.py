"""Receiving: order, batches, fairness, and what is given back at the end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio
import pytest

from amqp10 import Connection, ReceiverActivity
from amqp10.engine import CreditChanged
from amqp10.errors import ConnectionLost, EncodeError, LinkDetached, LocalProtocolError, Unsupported
from amqp10.messaging import ACCEPTED, RELEASED, Error, Source, Target
from amqp10.testing import Detach, Flow
from amqp10.types import Symbol

from ...kit.client.memory_peer import MemoryPeer

pytestmark = [pytest.mark.anyio, pytest.mark.capability("send and receive")]

Serve = Callable[..., Any]


async def test_receive_in_order(serve: Serve) -> None:
    """Deliveries come in the order of arrival, whether they wait here or are waited for."""
    async with serve() as (peer, connection), connection, connection.receiver("q") as receiver:
        await anyio.wait_all_tasks_blocked()
        peer.send("q", *range(5))
        got = [(await receiver.receive()).message.body for _ in range(5)]
        bodies = []

        async def wait() -> None:
            bodies.append((await receiver.receive()).message.body)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait)
            await anyio.wait_all_tasks_blocked()
            assert bodies == []
            peer.send("q", 5)
        assert [*got, *bodies] == [0, 1, 2, 3, 4, 5]


async def test_async_for(serve: Serve) -> None:
    """`async for` goes on until the link ends, and raises why."""
    async with serve() as (peer, connection), connection, connection.receiver("q") as receiver:
        await anyio.wait_all_tasks_blocked()
        peer.send("q", *range(3))
        peer.links["q"].detach(error=Error("amqp:resource-deleted"))
        bodies = []
        with pytest.raises(LinkDetached) as caught:
            async for delivery in receiver:
                bodies.append(delivery.message.body)
        assert bodies == [0, 1, 2]
        assert caught.value.condition == "amqp:resource-deleted"


async def test_two_tasks_at_once(serve: Serve) -> None:
    """Two tasks in one receive is a mistake that is named."""
    async with serve() as (peer, connection), connection, connection.receiver("q") as receiver:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(receiver.receive)
            await anyio.wait_all_tasks_blocked()
            for call in (receiver.receive(), receiver.receive_batch(1), receiver.receive_batch(1, max_wait=0)):
                with pytest.raises(anyio.BusyResourceError):
                    await call
            peer.send("q", 1)


@pytest.mark.usefixtures("short_turns")
async def test_others_run_while_there_is_much_to_take(serve: Serve) -> None:
    """A receiver that always has something does not starve the other tasks."""
    async with serve() as (peer, connection), connection, connection.receiver("q", credit=500) as receiver:
        await anyio.wait_all_tasks_blocked()
        peer.send("q", *range(500))
        await anyio.wait_all_tasks_blocked()
        turns = 0

        async def other() -> None:
            nonlocal turns
            while True:
                turns += 1
                await anyio.lowlevel.checkpoint()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(other)
            for _ in range(400):
                await receiver.receive()
            tasks.cancel_scope.cancel()
        assert turns >= 5


async def test_batches(serve: Serve) -> None:
    """Without `max_wait`: the first delivery, and what is there with it."""
    async with serve() as (peer, connection), connection, connection.receiver("q", credit=20) as receiver:
        await anyio.wait_all_tasks_blocked()
        peer.send("q", *range(12))
        await anyio.wait_all_tasks_blocked()
        assert [d.message.body for d in await receiver.receive_batch(5)] == [0, 1, 2, 3, 4]
        assert [d.message.body for d in await receiver.receive_batch(500)] == [5, 6, 7, 8, 9, 10, 11]
        batches: list[list[int]] = []

        async def wait() -> None:
            batches.append([d.message.body for d in await receiver.receive_batch(500)])

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait)
            await anyio.wait_all_tasks_blocked()
            assert batches == []
            peer.send("q", 12)
        assert batches == [[12]]
        with pytest.raises(ValueError, match="size must be at least 1, not 0"):
            await receiver.receive_batch(0)


async def test_batches_collect_for_a_while(serve: Serve) -> None:
    """With `max_wait`: until the batch is full, or the time has passed; [] only then."""
    async with serve() as (peer, connection), connection, connection.receiver("q", credit=20) as receiver:
        await anyio.wait_all_tasks_blocked()
        assert await receiver.receive_batch(3, max_wait=0) == []
        assert await receiver.receive_batch(3, max_wait=0.01) == []
        batches: list[list[int]] = []

        async def collect(size: int, max_wait: float) -> None:
            batches.append([d.message.body for d in await receiver.receive_batch(size, max_wait=max_wait)])

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(collect, 3, 3600)
            for n in range(4):
                await anyio.wait_all_tasks_blocked()
                assert batches == ([] if n < 3 else [[0, 1, 2]])
                peer.send("q", n)
        await anyio.wait_all_tasks_blocked()
        assert [d.message.body for d in await receiver.receive_batch(5, max_wait=0.05)] == [3]
        peer.send("q", *range(4, 9))
        await anyio.wait_all_tasks_blocked()
        assert [d.message.body for d in await receiver.receive_batch(2, max_wait=0)] == [4, 5]
        assert [d.message.body for d in await receiver.receive_batch(20, max_wait=0)] == [6, 7, 8]


async def test_a_batch_is_full_when_no_more_can_come(serve: Serve) -> None:
    """A batch never waits for more than the credit allows, and what it held is settled like the rest."""
    async with serve() as (peer, connection), connection, connection.receiver("q", credit=4) as receiver:
        await anyio.wait_all_tasks_blocked()
        peer.send("q", *range(4))
        batch = await receiver.receive_batch(500, max_wait=3600)
        assert [delivery.message.body for delivery in batch] == [0, 1, 2, 3]
        await anyio.wait_all_tasks_blocked()
        assert receiver.credit == 4


async def test_a_batch_on_a_link_that_dies(serve: Serve) -> None:
    """The collected deliveries are handed out before the cause is raised."""
    async with serve() as (peer, connection), connection, connection.receiver("q") as receiver:
        await anyio.wait_all_tasks_blocked()
        peer.send("q", 1, 2)
        batches = []

        async def collect() -> None:
            batches.append(await receiver.receive_batch(500, max_wait=3600))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(collect)
            await anyio.wait_all_tasks_blocked()
            peer.links["q"].detach()
            peer.pump.wake()
        assert [len(batch) for batch in batches] == [2]
        with pytest.raises(LinkDetached):
            await receiver.receive_batch(500, max_wait=3600)


async def test_leaving_releases_what_was_prefetched(serve: Serve) -> None:
    """The credit is drained, and nothing that nobody took stays locked (pitfall 8)."""
    async with serve() as (peer, connection), connection:
        async with connection.receiver("q", credit=10) as receiver:
            await anyio.wait_all_tasks_blocked()
            link = peer.links["q"]

            def answer(event: Any) -> bool:
                if isinstance(event, CreditChanged) and event.link.drain:
                    peer.send("q", "late")  # crosses the drain
                    link.drained()
                return False

            peer.on_event = answer
            sent = peer.send("q", *range(3))
            (await receiver.receive()).accept()
            await anyio.wait_all_tasks_blocked()
        assert [delivery.remote_state for delivery in sent[1:]] == [RELEASED, RELEASED]
        assert [delivery.remote_state for delivery in peer.outcomes][-1] == RELEASED
        assert len(peer.outcomes) == 4
        assert link.unsettled == {}
        assert [event.closed for event in peer.ended] == [True]


async def test_much_that_waits(serve: Serve) -> None:
    """All that is here is counted, comes in batches of any size, and goes back when the receiver is left."""
    async with serve() as (peer, connection), connection:
        async with connection.receiver("q", credit=300) as receiver:
            await anyio.wait_all_tasks_blocked()
            sent = peer.send("q", *range(300))
            await anyio.wait_all_tasks_blocked()
            assert (receiver.buffered, receiver.credit) == (300, 0)
            taken = [await receiver.receive() for _ in range(10)]
            taken += await receiver.receive_batch(100)
            taken += await receiver.receive_batch(50, max_wait=3600)
            assert receiver.buffered == 140
            assert receiver.unsettled == 300
            taken += [await receiver.receive() for _ in range(10)]
            assert [delivery.message.body for delivery in taken] == list(range(170))
            for delivery in taken:
                delivery.accept()
        assert [delivery.remote_state for delivery in sent] == [ACCEPTED] * 170 + [RELEASED] * 130


async def test_leaving_is_bounded(serve: Serve) -> None:
    """A peer that answers neither drain nor detach cannot hold the exit up."""
    async with serve(close_timeout=0.1) as (peer, connection), connection:
        async with connection.receiver("q", credit=10):
            await anyio.wait_all_tasks_blocked()
            peer.stream.shut = True
            left = anyio.current_time()
        assert 0.09 <= anyio.current_time() - left < 4


async def test_leaving_does_not_need_a_reader(serve: Serve) -> None:
    """Another task in `receive` gets ClosedResourceError when the receiver is closed."""
    async with serve() as (peer, connection), connection:
        async with connection.receiver("q") as receiver, anyio.create_task_group() as tasks:

            async def wait(call: Callable[[], Any]) -> None:
                with pytest.raises(anyio.ClosedResourceError):
                    await call()

            tasks.start_soon(wait, receiver.receive)
            await anyio.wait_all_tasks_blocked()
            await receiver.close()
            await wait(receiver.receive)
            await wait(receiver.drain)
            with pytest.raises(anyio.ClosedResourceError):
                receiver.add_credit(1)
        async with connection.receiver("r") as receiver, anyio.create_task_group() as tasks:
            await anyio.wait_all_tasks_blocked()
            sent = peer.send("r", 1, 2)
            tasks.start_soon(wait, lambda: receiver.receive_batch(10, max_wait=3600))
            await anyio.wait_all_tasks_blocked()
            await receiver.close()
        assert [delivery.remote_state for delivery in sent] == [RELEASED, RELEASED]


async def test_buffered_deliveries_survive_the_connection(serve: Serve) -> None:
    """A dead link hands out what it has, then raises the cause (pitfall 9); settling raises it too."""
    async with serve() as (peer, connection), connection, connection.receiver("q") as receiver:
        await anyio.wait_all_tasks_blocked()
        peer.send("q", 1, 2)
        await anyio.wait_all_tasks_blocked()
        await peer.stream.aclose()
        await anyio.wait_all_tasks_blocked()
        first = await receiver.receive()
        assert first.message.body == 1
        with pytest.raises(ConnectionLost):
            first.accept()
        assert len(await receiver.receive_batch(10, max_wait=1)) == 1
        with pytest.raises(ConnectionLost):
            await receiver.receive()
        with pytest.raises(ConnectionLost):
            await receiver.receive_batch(10, max_wait=1)


@pytest.mark.spec("2.6.3", "a refused link: attach with a null terminus, then a detach with the reason")
async def test_refused(serve: Serve) -> None:
    """The peer's reason comes out of `async with`."""
    async with serve() as (peer, connection), connection:
        peer.refusal = Error("amqp:unauthorized-access", "not yours")
        with pytest.raises(LinkDetached, match="not yours") as caught:
            async with connection.receiver("q"):
                pytest.fail("the block must not run")
        assert caught.value.condition == "amqp:unauthorized-access"


@pytest.mark.spec("3.5.3", "a dynamic source: the peer makes the node and names it")
async def test_dynamic(serve: Serve) -> None:
    """The address of a node that the peer made is the receiver's `address`."""
    async with serve() as (_, connection), connection, connection.receiver(dynamic=True) as replies:
        assert replies.address == "dynamic-1"


async def test_an_address_or_dynamic(serve: Serve) -> None:
    """Neither and both are refused before anything is written."""
    async with serve() as (_, connection), connection:
        with pytest.raises(LocalProtocolError, match="address"):
            connection.receiver()
        with pytest.raises(LocalProtocolError, match="address"):
            connection.receiver("q", dynamic=True)
        with pytest.raises(ValueError, match="credit"):
            connection.receiver("q", credit=-1)


async def test_an_attach_that_cannot_be_said(serve: Serve) -> None:
    """A value without an AMQP encoding is the call's error: nothing was written, and the name is free."""
    async with serve() as (_, connection), connection:
        for links in (connection.receiver, connection.sender):
            with pytest.raises(EncodeError):
                async with links("q", name="n", properties={"x": object()}):
                    pytest.fail("the block must not run")
            async with links("q", name="n") as link:
                assert link.open


async def test_presettled(serve: Serve) -> None:
    """Deliveries that were sent settled need no outcome, and giving one does nothing."""
    async with serve() as (peer, connection), connection:
        async with connection.receiver("q", settle_mode="settled") as receiver:
            await anyio.wait_all_tasks_blocked()
            peer.send("q", 1, 2, settled=True)
            delivery = await receiver.receive()
            assert delivery.local_settled
            delivery.accept()
            assert receiver.unsettled == 0
            assert receiver.settle_mode == "settled"


@pytest.mark.spec("2.6.4", "a durable terminus outlives the link: detach, not close")
async def test_durable_subscriptions_are_detached_from(serve: Serve) -> None:
    """Leaving keeps a durable subscription; `close` ends it."""
    async with serve() as (peer, connection), connection:
        source = Source("events", durable="unsettled-state", expiry_policy="never")
        async with connection.receiver(source, name="sub-1") as receiver:
            assert receiver.name == "sub-1"
            assert receiver.source is not None
            assert receiver.source.durable == "unsettled-state"
        async with connection.receiver(source, name="sub-1") as receiver:
            await receiver.close()
        assert [event.closed for event in peer.ended] == [False, True]


async def test_what_the_dialect_cannot(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """A feature that a dialect lacks raises Unsupported before a byte is written."""
    async with serve() as (peer, connection), connection, connection.receiver("q") as receiver:
        await anyio.wait_all_tasks_blocked()
        monkeypatch.setattr(type(connection._core), "capabilities", frozenset())
        with pytest.raises(Unsupported, match="drain"):
            await receiver.drain()
        for link in (
            connection.receiver(dynamic=True),
            connection.receiver("q", receiver_settle_mode="second"),
            connection.sender(None),
            connection.sender(Target(dynamic=True)),
        ):
            with pytest.raises(Unsupported):
                await link.__aenter__()
        assert len(peer.links) == 1


@pytest.mark.in_memory
async def test_single_active_consumer(memory_peer: MemoryPeer) -> None:
    """A receiver says what the peer's flows say of it, and each change is told: it waits, then it gets the messages."""

    async def serve() -> None:
        await memory_peer.accept_receiver()
        for active in (False, False, True):
            if active:
                await waits.wait()
            state = Flow(
                next_incoming_id=0,
                incoming_window=10,
                next_outgoing_id=0,
                outgoing_window=10,
                handle=0,
                delivery_count=0,
                link_credit=10,
                properties={Symbol("rabbitmq:active"): active},
            )
            await memory_peer.send(state)
        await memory_peer.expect_any(Detach, skip=Flow)
        await memory_peer.drop()

    waits = anyio.Event()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(serve)
        with anyio.fail_after(60):
            async with Connection(memory_peer.url, close_timeout=0.2) as connection:
                events = connection.events()
                async with connection.receiver("q", credit=10) as receiver:
                    for active in (False, True):
                        event = await anext(events)
                        assert isinstance(event, ReceiverActivity)
                        assert (event.link, event.active) == (receiver, active)
                        waits.set()
                    assert receiver.active is True
                    assert connection.health().counts["receiver_activity"] == 2
