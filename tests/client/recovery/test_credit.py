"""Credit after a loss: what is granted anew, and that nothing is granted twice."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import anyio
import pytest

from amqp10.engine import CreditChanged
from amqp10.messaging import Received

from ...kit.client.hosts import connecting, detach, forgetful, hosting
from ...kit.client.peer import Peer
from ...kit.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.in_memory]


async def test_manual_credit_at_a_forgetful_peer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Deliveries that the peer has again give back their credit, even if nothing can be resumed."""
    async with hosting(monkeypatch) as hosts:
        hosts.prepare = forgetful
        async with connecting() as connection, connection.receiver("q", credit=0) as receiver:
            receiver.add_credit(2)
            await hosts.credit("q")
            hosts.peer.send("q", 1, 2)
            await until(lambda: receiver.buffered == 2)
            await receiver.receive()
            await hosts.cut()
            link = await hosts.link("q", of=1)
            await until(lambda: link.credit)
            assert link.credit == 1


async def test_manual_credit_of_an_aborted_delivery(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is granted to the next link if the peer aborts a delivery and detaches with one breath."""
    async with (
        hosting(monkeypatch) as hosts,
        connecting() as connection,
        connection.receiver("q", credit=0) as receiver,
    ):
        receiver.add_credit(3)
        await hosts.credit("q")
        link = hosts.peer.links["q"]
        link.abort(link.send(b"never whole", more=True))
        detach(hosts, "q")
        await until(lambda: hosts.peer.links["q"] is not link)
        await hosts.credit("q")
        assert receiver.credit == hosts.peer.links["q"].credit == 3


async def test_drain_ends_without_credit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Manual credit that was to be drained is not granted anew."""
    async with (
        hosting(monkeypatch) as hosts,
        connecting() as connection,
        connection.receiver("q", credit=0) as receiver,
    ):
        receiver.add_credit(5)
        await hosts.credit("q")
        hosts.peer.answers = False
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(receiver.drain)
            await anyio.wait_all_tasks_blocked()
            await hosts.cut()
        await hosts.link("q", of=1)
        await anyio.wait_all_tasks_blocked()
        assert receiver.credit == 0
        assert hosts.peer.links["q"].credit == 0


async def test_drain_while_the_link_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """Manual credit that is drained during an outage ends at once, and is not granted to the next link."""
    async with (
        hosting(monkeypatch) as hosts,
        connecting() as connection,
        connection.receiver("q", credit=0) as receiver,
    ):
        receiver.add_credit(5)
        await hosts.credit("q")
        hosts.down.add("a")
        await hosts.cut()
        await until(lambda: not connection.open)
        await receiver.drain()
        hosts.down.clear()
        link = await hosts.link("q", of=1)
        await until(lambda: receiver.open)
        await anyio.wait_all_tasks_blocked()
        assert receiver.credit == link.credit == 0
        receiver.add_credit(1)
        await until(lambda: link.credit == 1)


async def test_credit_for_what_is_resumed_is_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A link that is lost again before its deliveries are resumed has no more credit for that."""
    async with hosting(monkeypatch) as hosts:

        def prepare(peer: Peer) -> None:
            attach = peer.attach
            old = list(hosts.peers[0].links["q"].unsettled.values()) if hosts.peers else []

            def resuming(link: Any) -> None:
                if not old:
                    attach(link)
                elif len(hosts.peers) < 4:  # it says what it has, and goes no further
                    unsettled = {delivery.tag: None for delivery in old}
                    link.attach(replace(link.remote, unsettled=unsettled, initial_delivery_count=0))
                else:
                    link.attach(replace(link.remote, unsettled=None, initial_delivery_count=0), resuming=old)
                peer.links["q"] = link

            peer.attach = resuming  # type: ignore[method-assign]

        hosts.prepare = prepare
        async with (
            connecting() as connection,
            connection.receiver("q", credit=0, receiver_settle_mode="second") as receiver,
        ):
            receiver.add_credit(5)
            await hosts.credit("q")
            hosts.peer.send("q", 1, 2, 3)
            await until(lambda: receiver.buffered == 3)
            await receiver.receive()
            for lost in range(1, 5):
                await hosts.cut()
                await hosts.link("q", of=lost)
                await until(lambda: receiver.open)
                await hosts.credit("q")
            await until(lambda: receiver.buffered == 2)
            assert receiver.credit == 2


async def test_what_is_resumed_comes_before_what_is_new(monkeypatch: pytest.MonkeyPatch) -> None:
    """Deliveries that nobody took keep their place, though new ones come in the same pass; and none is too many."""
    async with hosting(monkeypatch) as hosts:

        def prepare(peer: Peer) -> None:
            attach = peer.attach
            old = list(hosts.peer.links["q"].unsettled.values()) if hosts.peers else []

            def resuming(link: Any) -> None:
                if old:
                    link.attach(replace(link.remote, unsettled=None, initial_delivery_count=0), resuming=old)
                    peer.links["q"] = link
                else:
                    attach(link)

            def on_event(event: Any) -> bool:
                if old and isinstance(event, CreditChanged) and not sent:
                    sent.append(event)
                    peer.send("q", 3, 4)
                return False

            peer.attach = resuming  # type: ignore[method-assign]
            peer.on_event = on_event

        sent: list[Any] = []
        hosts.prepare = prepare
        async with (
            connecting() as connection,
            connection.receiver("q", credit=4, receiver_settle_mode="second") as receiver,
        ):
            await hosts.credit("q")
            hosts.peer.send("q", 0, 1, 2)
            await until(lambda: receiver.buffered == 3)
            await hosts.cut()
            await until(lambda: receiver.open and receiver.buffered)
            assert receiver.credit + receiver.buffered <= 4
            bodies = [(await receiver.receive()).message.body for _ in range(4)]
            assert bodies == [0, 1, 2, 3]


@pytest.mark.parametrize("credit", [0, 4])
async def test_a_delivery_that_is_resumed_only_to_be_aborted(monkeypatch: pytest.MonkeyPatch, credit: int) -> None:
    """The part that arrived is thrown away. The credit that it took twice is free again, after the next loss, too."""
    async with hosting(monkeypatch) as hosts:

        def prepare(peer: Peer) -> None:
            attach = peer.attach
            old = list(hosts.peer.links["q"].suspended()) if hosts.peers else []

            def resuming(link: Any) -> None:
                if old:
                    old[0].state = Received(9, 9)
                    link.attach(replace(link.remote, unsettled=None, initial_delivery_count=0), resuming=old)
                    peer.links["q"] = link
                else:
                    attach(link)

            peer.attach = resuming  # type: ignore[method-assign]

        hosts.prepare = prepare
        async with connecting() as connection, connection.receiver("q", credit=credit) as receiver:
            if not credit:
                receiver.add_credit(4)
            await hosts.credit("q")
            half = hosts.peer.links["q"].send(b"never whole", more=True)
            half.past |= 2  # as if the rest had been on the wire
            hosts.peer.pump.wake()
            await until(lambda: receiver.credit == 3)
            for _ in range(2):
                await hosts.cut()
                await until(lambda: receiver.open)
                await anyio.wait_all_tasks_blocked()
                spare = receiver._core.consumer.taken if credit else 0
                assert receiver.credit + spare == 4
                assert receiver.credit == hosts.peer.links["q"].credit
            assert not receiver.unsettled
