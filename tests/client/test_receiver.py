"""Receiving: credit, batches, drain, and what is given back at the end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio
import pytest

from amqp10.client import Receiver
from amqp10.engine import CreditChanged
from amqp10.errors import ConnectionLost, EncodeError, LinkDetached, LocalProtocolError, Unsupported
from amqp10.messaging import RELEASED, Error, Message, Source, Target

pytestmark = pytest.mark.anyio

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


async def test_credit_is_bounded_and_topped_up_at_half(serve: Serve) -> None:
    """What may come and what waits here is never more than `credit`; no credit while the application lags."""
    async with serve() as (peer, connection), connection, connection.receiver("q", credit=10) as receiver:
        flows: list[int] = []

        def on_event(event: Any) -> bool:
            if isinstance(event, CreditChanged):
                flows.append(event.link.credit)
            return False

        peer.on_event = on_event
        await anyio.wait_all_tasks_blocked()
        assert flows == [10]
        peer.send("q", *range(20))
        await anyio.wait_all_tasks_blocked()
        assert receiver.buffered == 10
        assert receiver.credit == 0
        assert flows == [10]  # nothing taken, nothing granted
        for _ in range(4):
            await receiver.receive()
        await anyio.wait_all_tasks_blocked()
        assert flows == [10]
        await receiver.receive()
        await anyio.wait_all_tasks_blocked()
        assert flows == [10, 5]  # five wait here, five may come
        peer.send("q", *range(20))
        await anyio.wait_all_tasks_blocked()
        assert receiver.buffered == 10


async def test_credit_of_one(serve: Serve) -> None:
    """One at a time works on and on."""
    async with serve() as (peer, connection), connection, connection.receiver("q", credit=1) as receiver:
        for n in range(5):
            await anyio.wait_all_tasks_blocked()
            assert len(peer.send("q", n, n + 1)) == 1
            assert (await receiver.receive()).message.body == n


async def test_a_delivery_half_here_counts(serve: Serve) -> None:
    """A large message that is on its way has its credit, and is not granted a second one."""
    async with serve() as (peer, connection), connection, connection.receiver("q", credit=2) as receiver:
        await anyio.wait_all_tasks_blocked()
        peer.send("q", "first")
        link = peer.links["q"]
        payload = Message("second").encode()
        half = link.send(payload[:2], more=True)
        peer.pump.wake()
        await anyio.wait_all_tasks_blocked()
        await receiver.receive()
        await anyio.wait_all_tasks_blocked()
        assert receiver.credit == link.credit == 1
        link.send_more(half, payload[2:])
        peer.pump.wake()
        assert (await receiver.receive()).message.body == "second"
        await anyio.wait_all_tasks_blocked()
        assert receiver.credit == link.credit == 2


async def test_unsettled_deliveries_take_no_credit(serve: Serve) -> None:
    """Credit is about what was sent, not about what is settled (pitfall 4)."""
    async with serve() as (peer, connection), connection, connection.receiver("q", credit=2) as receiver:
        for n in range(8):
            await anyio.wait_all_tasks_blocked()
            peer.send("q", n)
            assert (await receiver.receive()).message.body == n
        assert receiver.unsettled == 8


async def test_aborted_deliveries_cost_no_credit_for_good(serve: Serve) -> None:
    """A delivery that the sender aborts used up credit, and that comes back (§2.7.5)."""
    async with serve() as (peer, connection), connection, connection.receiver("q", credit=1) as receiver:
        await anyio.wait_all_tasks_blocked()
        link = peer.links["q"]
        for _ in range(3):
            link.abort(link.send(b"never whole", more=True))
            peer.pump.wake()
            await anyio.wait_all_tasks_blocked()
        peer.send("q", "whole")
        assert (await receiver.receive()).message.body == "whole"


async def test_aborted_deliveries_cost_no_manual_credit(serve: Serve) -> None:
    """Who asked for three deliveries gets three, however many the sender aborts meanwhile."""
    async with serve() as (peer, connection), connection, connection.receiver("q", credit=0) as receiver:
        receiver.add_credit(3)
        await anyio.wait_all_tasks_blocked()
        link = peer.links["q"]
        for number in range(3):
            link.abort(link.send(b"never whole", more=True))
            peer.pump.wake()
            await anyio.wait_all_tasks_blocked()
            assert receiver.credit == link.credit == 3 - number
            peer.send("q", number)
            assert (await receiver.receive()).message.body == number
        assert receiver.credit == link.credit == 0


@pytest.mark.parametrize("credit", [0, 3])
@pytest.mark.parametrize("answer", ["comes after that", "came before that"])
async def test_a_drain_that_is_cancelled(serve: Serve, credit: int, answer: str) -> None:
    """The credit is the peer's again, also where it gave it back: what is answered crosses our change of mind."""
    async with serve() as (peer, connection), connection, connection.receiver("q", credit=credit) as receiver:
        if not credit:
            receiver.add_credit(3)
        await anyio.wait_all_tasks_blocked()
        link = peer.links["q"]
        scope = anyio.CancelScope()

        def on_event(event: Any) -> bool:
            if answer == "comes after that" and isinstance(event, CreditChanged) and link.drain:
                scope.cancel()
            return False

        def on_flow(drained: bool, wasted: int) -> None:
            Receiver._on_flow(receiver, drained, wasted)
            if answer == "came before that":
                scope.cancel()

        peer.on_event = on_event
        receiver._on_flow = on_flow
        with scope:
            await receiver.drain()
        if answer == "comes after that":
            assert scope.cancelled_caught
        await anyio.wait_all_tasks_blocked()
        # On asyncio what was waited for goes before the cancellation: the drain is done.
        assert receiver.credit == link.credit == (3 if scope.cancelled_caught else 0)


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
        with pytest.raises(ValueError, match="room"):
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
    """What was collected is handed out before the cause is raised."""
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


async def test_manual_credit(serve: Serve) -> None:
    """With `credit=0` exactly what is granted comes."""
    async with serve() as (peer, connection), connection, connection.receiver("q", credit=0) as receiver:
        await anyio.wait_all_tasks_blocked()
        assert peer.send("q", 1) == []
        receiver.add_credit(2)
        receiver.add_credit(1)
        assert receiver.credit == 3
        await anyio.wait_all_tasks_blocked()
        assert len(peer.send("q", *range(10))) == 3
        assert [(await receiver.receive()).message.body for _ in range(3)] == [0, 1, 2]
        await anyio.wait_all_tasks_blocked()
        assert peer.send("q", 4) == []
        with pytest.raises(ValueError, match="never taken back"):
            receiver.add_credit(-1)


async def test_automatic_credit_is_not_added_to(serve: Serve) -> None:
    """`add_credit` would break the bound that automatic credit promises."""
    async with serve() as (_, connection), connection, connection.receiver("q") as receiver:
        with pytest.raises(LocalProtocolError, match="automatic"):
            receiver.add_credit(1)


@pytest.mark.spec("2.6.7", "drain: the sender uses the credit or gives it back, and the link goes on")
async def test_drain(serve: Serve) -> None:
    """Drain returns when the credit is gone, all that came is here, and the link is usable."""
    async with serve() as (peer, connection), connection, connection.receiver("q", credit=0) as receiver:
        receiver.add_credit(10)
        await anyio.wait_all_tasks_blocked()
        link = peer.links["q"]

        def answer(event: Any) -> bool:
            if isinstance(event, CreditChanged) and event.link.drain:
                peer.send("q", "a", "b")
                link.drained()
            return False

        peer.on_event = answer
        await receiver.drain()
        assert receiver.credit == 0
        assert receiver.buffered == 2
        await receiver.drain()  # nothing to give back: returns at once
        receiver.add_credit(1)
        await anyio.wait_all_tasks_blocked()
        assert len(peer.send("q", "c", "d")) == 1
        assert [(await receiver.receive()).message.body for _ in range(3)] == ["a", "b", "c"]


async def test_a_late_answer_to_the_drain_before(serve: Serve) -> None:
    """Pitfall 7: a drain that deliveries answered has no claim to a flow; one that comes late does not end the next."""
    async with serve() as (peer, connection), connection, connection.receiver("q", credit=0) as receiver:
        await anyio.wait_all_tasks_blocked()
        link = peer.links["q"]
        drains: list[int] = []

        def answer(event: Any) -> bool:
            if isinstance(event, CreditChanged) and event.link.drain and event.link.credit:
                drains.append(link.credit)
                if len(drains) == 1:
                    peer.send("q", "a", "b")  # all that was asked for; the flow comes when the next drain is asked for
                elif len(drains) == 2:
                    link.drained()
                else:
                    peer.send("q", "c")
                    link.drained()
            return True

        peer.on_event = answer
        receiver.add_credit(2)
        await receiver.drain()
        assert receiver.buffered == 2
        receiver.add_credit(2)
        await receiver.drain()
        assert (receiver.buffered, drains) == (3, [2, 2, 2])
        receiver.add_credit(2)
        await receiver.drain()  # the one before was answered: no reason for doubt
        assert (receiver.buffered, len(drains)) == (4, 4)


async def test_a_drain_that_the_peer_overlooks(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pitfall 7: a drain without an answer is asked for again."""
    monkeypatch.setattr("amqp10.client._receiver.DRAIN_AGAIN", 0.01)
    async with serve() as (peer, connection), connection, connection.receiver("q", credit=0) as receiver:
        await anyio.wait_all_tasks_blocked()
        link = peer.links["q"]
        drains: list[int] = []

        def answer(event: Any) -> bool:
            if isinstance(event, CreditChanged) and event.link.drain:
                drains.append(link.credit)
                if len(drains) > 2:
                    peer.send("q", "a")
                    link.drained()
            return True

        peer.on_event = answer
        receiver.add_credit(5)
        await receiver.drain()
        assert (receiver.buffered, receiver.credit, drains) == (1, 0, [5, 5, 5])


async def test_drain_with_automatic_credit(serve: Serve) -> None:
    """After a drain automatic credit comes back when something is taken or waited for."""
    async with serve() as (peer, connection), connection, connection.receiver("q", credit=10) as receiver:
        peer.on_event = lambda event: isinstance(event, CreditChanged) and event.link.drain and event.link.drained()
        await anyio.wait_all_tasks_blocked()
        await receiver.drain()
        assert receiver.credit == 0
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(receiver.receive)
            await anyio.wait_all_tasks_blocked()
            assert receiver.credit == 10
            peer.send("q", 1)


async def test_drain_is_for_one_task(serve: Serve) -> None:
    """A second drain at the same time is a mistake; one that is cancelled gives the credit back to the peer."""
    async with serve() as (peer, connection), connection, connection.receiver("q", credit=10) as receiver:
        peer.on_event = lambda event: isinstance(event, CreditChanged)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(receiver.drain)
            await anyio.wait_all_tasks_blocked()
            with pytest.raises(anyio.BusyResourceError):
                await receiver.drain()
            assert peer.links["q"].drain
            tasks.cancel_scope.cancel()
        await anyio.wait_all_tasks_blocked()
        assert not peer.links["q"].drain
        assert peer.links["q"].credit == 10
        peer.send("q", 1)
        assert (await receiver.receive()).message.body == 1
        peer.on_event = lambda event: False


async def test_drain_on_a_link_that_dies(serve: Serve) -> None:
    """Who waits for the drain gets the cause."""
    async with serve() as (peer, connection), connection, connection.receiver("q", credit=10) as receiver:
        peer.on_event = lambda event: isinstance(event, CreditChanged)
        async with anyio.create_task_group() as tasks:

            async def drain() -> None:
                with pytest.raises(LinkDetached, match="gone"):
                    await receiver.drain()

            tasks.start_soon(drain)
            await anyio.wait_all_tasks_blocked()
            peer.links["q"].detach(error=Error("amqp:resource-deleted", "gone"))
            peer.pump.wake()
        with pytest.raises(LinkDetached, match="gone"):
            await receiver.drain()


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


async def test_leaving_is_bounded(serve: Serve) -> None:
    """A peer that answers neither drain nor detach cannot hold the exit up."""
    async with serve(close_timeout=0.1) as (peer, connection), connection:
        async with connection.receiver("q", credit=10):
            await anyio.wait_all_tasks_blocked()
            peer.stream.shut = True
            left = anyio.current_time()
        assert 0.09 <= anyio.current_time() - left < 2


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
    """What a dialect does not have raises Unsupported before a byte is written."""
    async with serve() as (peer, connection), connection, connection.receiver("q") as receiver:
        await anyio.wait_all_tasks_blocked()
        monkeypatch.setattr(type(connection), "capabilities", frozenset())
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
