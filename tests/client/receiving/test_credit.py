"""Credit: bounded and topped up, by hand, drained."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from amqp10.engine import CreditChanged
from amqp10.errors import LinkDetached, LocalProtocolError
from amqp10.messaging import Error, Message

pytestmark = [pytest.mark.anyio, pytest.mark.in_memory, pytest.mark.capability("credit")]

Serve = Callable[..., Any]


async def test_credit_is_bounded_and_topped_up_at_half(serve: Serve) -> None:
    """Messages on their way and waiting here are never more than `credit`. A slow application grants no credit."""
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
    """A call that asked for three deliveries gets three, however many the sender aborts meanwhile."""
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

        on_peers_flow = receiver._core.on_flow

        def on_flow(drained: bool, wasted: int) -> None:
            on_peers_flow(drained, wasted)
            if answer == "came before that":
                scope.cancel()

        peer.on_event = on_event
        receiver._core.on_flow = on_flow
        with scope:
            await receiver.drain()
        if answer == "comes after that":
            assert scope.cancelled_caught
        await anyio.wait_all_tasks_blocked()
        # On asyncio what was waited for goes before the cancellation: the drain is done.
        assert receiver.credit == link.credit == (3 if scope.cancelled_caught else 0)


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
        with pytest.raises(ValueError, match="credit must not be negative"):
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


async def test_drain_again(serve: Serve) -> None:
    """Each drain has an answer of its own."""
    async with serve() as (peer, connection), connection, connection.receiver("q", credit=0) as receiver:
        for _ in range(2):
            receiver.add_credit(5)
            await anyio.wait_all_tasks_blocked()
            assert peer.links["q"].credit == 5
            await receiver.drain()
            assert receiver.credit == peer.links["q"].credit == 0


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


async def test_what_waits_is_no_answer_to_a_drain(serve: Serve) -> None:
    """Only deliveries that came during a drain may have answered it; those from before are no reason to ask again."""
    async with serve() as (peer, connection), connection, connection.receiver("q", credit=0) as receiver:
        drains: list[int] = []

        def answer(event: Any) -> bool:
            if isinstance(event, CreditChanged) and event.link.drain:
                drains.append(event.link.credit)
                event.link.drained()
            return True

        receiver.add_credit(2)
        await anyio.wait_all_tasks_blocked()
        peer.send("q", "a", "b")
        peer.on_event = answer
        for _ in range(3):
            receiver.add_credit(2)
            await receiver.drain()
        assert (receiver.buffered, drains) == (2, [2, 2, 2])


async def test_aborted_deliveries_in_a_drain_that_is_cancelled(serve: Serve) -> None:
    """The credit of deliveries that were aborted meanwhile is the peer's again, too."""
    async with serve() as (peer, connection), connection, connection.receiver("q", credit=0) as receiver:
        receiver.add_credit(3)
        await anyio.wait_all_tasks_blocked()
        link = peer.links["q"]
        peer.on_event = lambda event: isinstance(event, CreditChanged)  # nothing answers the drain
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(receiver.drain)
            await anyio.wait_all_tasks_blocked()
            for _ in range(2):
                link.abort(link.send(b"never whole", more=True))
                peer.pump.wake()
                await anyio.wait_all_tasks_blocked()
            assert receiver.credit == link.credit == 1
            tasks.cancel_scope.cancel()
        await anyio.wait_all_tasks_blocked()
        assert not link.drain
        assert receiver.credit == link.credit == 3
        peer.on_event = lambda event: False


async def test_a_drain_that_the_peer_overlooks(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pitfall 7: a drain without an answer is asked for again."""
    monkeypatch.setattr("amqp10.client._receiving.credit.DRAIN_AGAIN", 0.01)
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
    """A task that waits for the drain gets the cause."""
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


async def test_waiting_without_credit(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A task that waits with `credit=0` and adds no credit causes one warning, unless it adds credit in time."""
    monkeypatch.setattr("amqp10.client._receiving.consumer.NO_CREDIT", 0.01)
    async with serve() as (peer, connection), connection, connection.receiver("q", credit=0) as receiver:
        with anyio.fail_after(60):
            receiver.add_credit(1)
            await anyio.wait_all_tasks_blocked()
            peer.send("q", 0)
            assert (await receiver.receive()).message.body == 0
            assert not caplog.records
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(receiver.receive)
                while not caplog.records:  # noqa: ASYNC110 - a record is no event
                    await anyio.sleep(0.01)
                await anyio.sleep(0.03)
                receiver.add_credit(1)
                await anyio.wait_all_tasks_blocked()
                peer.send("q", 1)
    (record,) = caplog.records
    assert "none may come: say by add_credit() how many" in record.getMessage()
    assert "'q'" in record.getMessage()
