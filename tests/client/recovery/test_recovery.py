"""What each call does when the connection, the session or the link is lost and comes back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import anyio
import pytest

from amqp10 import (
    ConnectionLost,
    DeliveryUncertain,
    Reconnect,
    StaleDelivery,
)
from amqp10.client.internals import receiver_delivery
from amqp10.messaging import ACCEPTED, Accepted, Released, TransactionalState

from ...kit.client.hosts import QUICK, connecting, hosting
from ...kit.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.in_memory, pytest.mark.capability("reconnect")]

RAISING = replace(QUICK, on_uncertain="raise")


# Sending


async def test_send_waits_for_credit_through_a_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    """`send` that has no credit goes on waiting, and is sent once on the new link."""
    async with hosting(monkeypatch) as hosts, connecting() as connection, connection.sender("q") as sender:
        hosts.prepare = lambda peer: setattr(peer, "credit", 100)
        hosts.peer.links["q"].flow(0)
        hosts.peer.credit = 0
        hosts.peer.pump.wake()
        async with anyio.create_task_group() as tasks:
            await until(lambda: not (sender.credit))
            for body in range(3):
                tasks.start_soon(sender.send, body)
                await anyio.wait_all_tasks_blocked()
            await hosts.cut()
        assert hosts.peers[0].bodies() == []
        assert sorted(hosts.peers[1].bodies()) == [0, 1, 2]


async def test_send_while_it_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """A `send` that begins when there is no connection waits for the next one."""
    async with hosting(monkeypatch) as hosts, connecting() as connection, connection.sender("q") as sender:
        hosts.down = {"a"}
        await hosts.cut()
        await anyio.wait_all_tasks_blocked()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(sender.send, "x")
            await anyio.wait_all_tasks_blocked()
            assert not sender.open
            hosts.down = set()
        assert hosts.peer.bodies() == ["x"]


async def test_in_flight_is_sent_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A message without an outcome is sent again, ahead of newer ones; the same delivery gets its outcome."""
    async with hosting(monkeypatch) as hosts:
        hosts.prepare = lambda peer: setattr(peer, "outcome", ACCEPTED if len(hosts.peers) else None)
        async with connecting() as connection, connection.sender("q") as sender:
            first, second = await sender.submit(1), await sender.submit(2)
            await until(lambda: len(hosts.peer.received) >= 2)
            await hosts.cut()
            await anyio.wait_all_tasks_blocked()
            third = await sender.submit(3)
            assert [type(await each.outcome()) for each in (first, second, third)] == [Accepted] * 3
            assert sender.unsettled == 0
        assert hosts.peers[1].bodies() == [1, 2, 3]


async def test_in_flight_is_uncertain(monkeypatch: pytest.MonkeyPatch) -> None:
    """With on_uncertain="raise" who waits is told, nothing is sent twice, and the sender goes on."""
    async with hosting(monkeypatch) as hosts:
        hosts.prepare = lambda peer: setattr(peer, "outcome", ACCEPTED if len(hosts.peers) else None)
        async with connecting(reconnect=RAISING) as connection, connection.sender("q") as sender:
            delivery = await sender.submit(1)
            await until(lambda: hosts.peer.received)
            await hosts.cut()
            with pytest.raises(DeliveryUncertain) as caught:
                await delivery.outcome()
            assert isinstance(caught.value.__cause__, ConnectionLost)
            await sender.send(2)
        assert hosts.peers[1].bodies() == [2]


async def test_what_never_left_whole_is_certain(monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages that the session's window held back were not processed. They are sent under every policy."""
    async with hosting(monkeypatch) as hosts:
        hosts.session_terms = replace(hosts.session_terms, incoming_window=1)
        async with connecting(reconnect=RAISING) as connection, connection.sender("q") as sender:
            hosts.peer.stream.shut = True  # no new window from the peer
            first = await sender.submit(b"x" * 300_000)  # more than one frame
            hosts.session_terms = replace(hosts.session_terms, incoming_window=1000)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(sender.send, "second")
                await anyio.wait_all_tasks_blocked()
                await hosts.cut()
            assert type(await first.outcome()) is Accepted
        assert hosts.peers[1].bodies() == [b"x" * 300_000, "second"]


async def test_an_uncertain_one_that_nobody_waits_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaving the sender says it: no message vanishes without an exception."""
    async with hosting(monkeypatch) as hosts:
        hosts.prepare = lambda peer: setattr(peer, "outcome", ACCEPTED if len(hosts.peers) else None)
        async with connecting(reconnect=RAISING) as connection:
            with pytest.raises(DeliveryUncertain):
                async with connection.sender("q") as sender:
                    await sender.submit(1)
                    await until(lambda: hosts.peer.received)
                    await hosts.cut()
                    await sender.send(2)


async def test_send_many_through_losses(monkeypatch: pytest.MonkeyPatch) -> None:
    """All get there, each of them at least once, and the count is right."""
    async with hosting(monkeypatch) as hosts, connecting() as connection, connection.sender("q") as sender:
        async with anyio.create_task_group() as tasks:

            async def breaker() -> None:
                for _ in range(5):
                    for _ in range(20):
                        await anyio.lowlevel.checkpoint()
                    await hosts.cut()
                    await until(lambda: connection.open)

            tasks.start_soon(breaker)
            assert await sender.send_many(range(5000), window=100) == 5000
        bodies = [body for peer in hosts.peers for body in peer.bodies()]
        assert set(bodies) == set(range(5000))


async def test_send_many_is_uncertain(monkeypatch: pytest.MonkeyPatch) -> None:
    """With on_uncertain="raise" it ends with the first that is uncertain, and the account of all."""
    async with hosting(monkeypatch) as hosts:
        hosts.prepare = lambda peer: setattr(peer, "outcome", ACCEPTED if len(hosts.peers) else None)
        async with connecting(reconnect=RAISING) as connection, connection.sender("q") as sender:
            async with anyio.create_task_group() as tasks:

                async def breaker() -> None:
                    await until(lambda: len(hosts.peer.received) >= 10)
                    await hosts.cut()

                tasks.start_soon(breaker)
                with pytest.raises(DeliveryUncertain) as caught:
                    await sender.send_many(range(20), window=10)
            assert "10 messages sent, 0 accepted, 10 not accepted" in caught.value.__notes__[0]


async def test_leaving_waits_for_outcomes_through_a_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sender that is being left when the connection breaks gets its outcomes on the next one."""
    async with hosting(monkeypatch) as hosts:
        hosts.prepare = lambda peer: setattr(peer, "outcome", ACCEPTED if len(hosts.peers) else None)
        async with connecting() as connection:
            async with anyio.create_task_group() as tasks:
                async with connection.sender("q") as sender:
                    delivery = await sender.submit(1)

                    async def breaker() -> None:
                        await until(lambda: hosts.peer.received)
                        await hosts.cut()

                    tasks.start_soon(breaker)
            assert type(await delivery.outcome()) is Accepted
        assert hosts.peers[1].bodies() == [1]


async def test_a_stream_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    """A message whose body is under way is not sent again: its writer is told, and the sender goes on."""
    async with hosting(monkeypatch) as hosts, connecting() as connection, connection.sender("q") as sender:
        with pytest.raises(ConnectionLost):
            async with sender.stream() as body:
                await body.send(b"x" * 1000)
                await hosts.cut()
                await until(lambda: not (not connection.open or hosts.asked == ["a"]))
                await body.send(b"y")
        await sender.send("next")
        assert hosts.peers[1].bodies() == ["next"]


# Receiving


async def test_receive_waits_through_a_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    """`receive` goes on waiting; the credit is granted anew."""
    async with (
        hosting(monkeypatch) as hosts,
        connecting() as connection,
        connection.receiver("q", credit=7) as receiver,
    ):
        async with anyio.create_task_group() as tasks:

            async def later() -> None:
                await anyio.wait_all_tasks_blocked()
                await hosts.cut()
                link = await hosts.link("q", of=1)
                await until(lambda: link.credit == 7)
                await hosts.credit("q")
                hosts.peer.send("q", "hello")

            tasks.start_soon(later)
            delivery = await receiver.receive()
        assert delivery.message.body == "hello"
        delivery.accept()


async def test_prefetched_is_not_handed_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a loss the peer has the unsettled messages again. Messages that were sent settled stay here."""
    async with hosting(monkeypatch) as hosts, connecting() as connection:
        async with connection.receiver("q", settle_mode="mixed") as receiver:
            await hosts.credit("q")
            hosts.peer.send("q", "gone")
            await hosts.credit("q")
            hosts.peer.send("q", "ours", settled=True)
            await until(lambda: receiver.buffered >= 2)
            await hosts.cut()
            await hosts.link("q", of=1)
            await anyio.wait_all_tasks_blocked()
            await hosts.credit("q")
            hosts.peer.send("q", "new")
            assert [(await receiver.receive()).message.body for _ in range(2)] == ["ours", "new"]


@pytest.mark.parametrize("on_stale", ["raise", "ignore"])
async def test_a_delivery_from_before(monkeypatch: pytest.MonkeyPatch, on_stale: Any) -> None:
    """An outcome for a delivery that the peer has again raises `StaleDelivery`, at once and later, or is ignored."""
    async with hosting(monkeypatch) as hosts:
        async with connecting(reconnect=replace(QUICK, on_stale=on_stale), profile="rabbitmq") as connection:
            async with connection.receiver("q", receiver_settle_mode="second") as receiver:
                await hosts.credit("q")
                hosts.peer.send("q", 1, 2)
                first, second = await receiver.receive(), await receiver.receive()
                first.accept()
                await hosts.cut()
                with pytest.raises(StaleDelivery) as caught:
                    await first.wait_settled()
                assert isinstance(caught.value.__cause__, ConnectionLost)
                if on_stale == "ignore":
                    second.release()
                    state = TransactionalState(b"t", ACCEPTED)
                    with pytest.raises(StaleDelivery):  # what is one of a whole cannot be left out of it
                        receiver_delivery(second)._settle(state)
                else:
                    for settle in (second.accept, second.release, second.reject, second.modify):
                        with pytest.raises(StaleDelivery):
                            settle()
                    with second:  # says nothing of it where the block has raised
                        receiver_delivery(second).state = Released()
                await hosts.link("q", of=1)
                await anyio.wait_all_tasks_blocked()
                assert hosts.peers[1].outcomes == []


async def test_manual_credit_is_granted_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """As much as was out, what was here and is the peer's again, and what was added meanwhile."""
    async with (
        hosting(monkeypatch) as hosts,
        connecting() as connection,
        connection.receiver("q", credit=0) as receiver,
    ):
        receiver.add_credit(5)
        link = hosts.peer.links["q"]
        await until(lambda: link.credit >= 5)
        await hosts.credit("q")
        hosts.peer.send("q", 1, 2)
        await receiver.receive()  # the other one nobody takes
        hosts.down = {"a"}
        await hosts.cut()
        await until(lambda: receiver._core.interrupted)
        receiver.add_credit(10)
        hosts.down = set()
        link = await hosts.link("q", of=1)
        await until(lambda: link.credit)
        assert link.credit == 3 + 1 + 10


async def test_drain_through_a_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    """A drain that the loss cuts off is over: there is no credit any more."""
    async with hosting(monkeypatch) as hosts, connecting() as connection, connection.receiver("q") as receiver:
        hosts.peer.answers = False
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(receiver.drain)
            await anyio.wait_all_tasks_blocked()
            await hosts.cut()
        await hosts.link("q", of=1)
        await hosts.credit("q")
        hosts.peer.send("q", "x")
        assert (await receiver.receive()).message.body == "x"


async def test_a_batch_through_a_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    """`receive_batch` collects on; what it had collected unsettled is the peer's again."""
    async with hosting(monkeypatch) as hosts, connecting() as connection, connection.receiver("q") as receiver:
        async with anyio.create_task_group() as tasks:

            async def later() -> None:
                await hosts.credit("q")
                hosts.peer.send("q", "before")
                await anyio.wait_all_tasks_blocked()
                await hosts.cut()
                await hosts.link("q", of=1)
                await anyio.wait_all_tasks_blocked()
                await hosts.credit("q")
                hosts.peer.send("q", "before", "after")

            tasks.start_soon(later)
            batch = await receiver.receive_batch(2, max_wait=5)
        assert [delivery.message.body for delivery in batch] == ["before", "after"]
        for delivery in batch:
            delivery.accept()


def test_the_settings_are_values() -> None:
    """`Reconnect` can be compared, and changed by `dataclasses.replace`."""
    assert Reconnect() == Reconnect()
    assert replace(Reconnect(), attempts=3) != Reconnect()
