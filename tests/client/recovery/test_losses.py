"""Losses at awkward moments: what the calls of a client say, and that none of them waits for ever."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import anyio
import pytest

from amqp10 import (
    ConnectionLost,
    Error,
    LinkDetached,
    LinkRestored,
    Sender,
    Symbol,
)
from amqp10.broker import Broker
from amqp10.client.internals import sender_delivery
from amqp10.engine import LinkAttached, SessionBegun
from amqp10.messaging import ACCEPTED
from amqp10.testing import FaultProxy

from ...kit.client.hosts import QUICK, Hosts, connecting, detach, forgetful, hosting
from ...kit.client.peer import Peer
from ...kit.inside.client import State
from ...kit.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.in_memory]


async def test_the_outcome_of_a_settled_one_while_it_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sent settled: nobody will ever say more, so nobody waits, though it was not written whole."""
    async with hosting(monkeypatch) as hosts:
        hosts.session_terms = replace(hosts.session_terms, incoming_window=1)
        async with connecting() as connection, connection.sender("q", settle_mode="settled") as sender:
            hosts.peer.stream.shut = True
            delivery = await sender.submit(b"x" * 300_000)
            assert not sender_delivery(delivery).on_wire
            hosts.down = {"a"}
            await hosts.cut()
            await until(lambda: sender._core.interrupted)
            with anyio.fail_after(60):
                assert await delivery.outcome() == ACCEPTED
            hosts.down = set()


@pytest.mark.parametrize("kind", ["session", "sender", "receiver"])
async def test_what_was_cancelled_while_it_was_opened(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """Nobody has the session or link: after a loss it is over, and not begun or attached again."""
    async with hosting(monkeypatch) as hosts:
        held: list[Any] = []

        def holding(peer: Peer) -> None:
            peer.on_event = lambda event: isinstance(event, SessionBegun | LinkAttached) and not held.append(event)  # type: ignore[func-returns-value]

        hosts.prepare = holding
        async with connecting() as connection:
            made: Any = connection.session() if kind == "session" else getattr(connection, kind)("q")
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(made.__aenter__)
                await until(lambda: held)
                tasks.cancel_scope.cancel()
            states = [made._core.state]
            hosts.prepare = lambda peer: None
            await hosts.cut()
            await until(lambda: connection.health().counts.get("connection_restored"))
            async with connection.sender("other"):
                assert [*states, made._core.state] == [State.ABANDONED, State.CLOSED]
                assert hosts.peer.links.keys() == {"other"}


async def test_an_attach_in_the_moment_of_the_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    """A link that is opened later is not one that the peer has not answered since the reconnect."""
    async with hosting(monkeypatch) as hosts, connecting() as connection, connection.sender("q") as sender:
        held: list[Any] = []

        def holding(peer: Peer) -> None:
            peer.on_event = lambda event: isinstance(event, LinkAttached) and not held.append(event)  # type: ignore[func-returns-value]

        hosts.prepare = holding
        await hosts.cut()
        await until(lambda: held)
        assert len(connection._core._scopes) == 1  # it looks after the one that is not answered yet
        async with anyio.create_task_group() as tasks:
            other = connection.sender("other")
            tasks.start_soon(other.__aenter__)
            await until(lambda: len(held) == 2)
            hosts.peer.act(held[0])
            hosts.peer.pump.wake()
            await until(lambda: sender.open)
            await until(lambda: not connection._core._scopes)  # and after no other
            assert not other.open
            hosts.peer.act(held[1])
            hosts.peer.pump.wake()
        await other.close()
        assert len(hosts.peers) == 2


@pytest.mark.parametrize("error", [OSError("no route"), RuntimeError("503"), ConnectionLost("away")])
async def test_details_that_cannot_be_had(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    """A token service that is away for a while is one more reason to try again."""
    async with hosting(monkeypatch) as hosts:
        calls = 0

        async def details() -> str:
            nonlocal calls
            calls += 1
            if 1 < calls < 4:
                raise error
            return "amqp://a"

        async with connecting(details) as connection, connection.sender("q") as sender:
            await hosts.cut()
            await sender.send("x")
        assert calls == 4


async def test_a_session_that_ends_for_a_resumed_link(monkeypatch: pytest.MonkeyPatch) -> None:
    """A peer that ends the session over what a resuming attach says gets a plain one."""
    async with hosting(monkeypatch) as hosts:

        def prepare(peer: Peer) -> None:
            peer.outcome = None if len(hosts.peers) == 0 else ACCEPTED

            def on_event(event: Any) -> bool:
                if isinstance(event, LinkAttached) and event.link.remote and event.link.remote.unsettled is not None:
                    event.link.session.end(Error(Symbol("amqp:not-implemented"), "no resuming"))
                    return True
                return False

            peer.on_event = on_event

        hosts.prepare = prepare
        async with connecting() as connection, connection.sender("q") as sender:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(sender.send, "x")
                await until(lambda: hosts.peer.received)
                await hosts.cut()
            assert hosts.peer.bodies() == ["x"]


@pytest.mark.parametrize("how", ["leave", "give up"])
async def test_settled_waits_while_it_is_away(monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    """A task that waits for the settlement of a delivery is told if its link does not come back."""
    few = replace(QUICK, attempts=30)
    async with hosting(monkeypatch) as hosts, connecting(reconnect=few) as connection:
        raised: list[Any] = []
        async with anyio.create_task_group() as tasks:
            async with connection.receiver("q", receiver_settle_mode="second") as receiver:
                await hosts.credit("q")
                hosts.peer.links["q"].auto_settle = False
                hosts.peer.send("q", "x")
                delivery = await receiver.receive()
                delivery.accept()

                async def waits() -> None:
                    try:
                        await delivery.wait_settled()
                    except Exception as error:
                        raised.append(error)

                tasks.start_soon(waits)
                await anyio.wait_all_tasks_blocked()
                hosts.down = {"a"}
                await hosts.cut()
                await until(lambda: receiver._core.interrupted)
                if how == "give up":
                    await until(lambda: receiver._core.over)
                    with anyio.fail_after(60):
                        await until(lambda: raised)
            with anyio.fail_after(60):
                await until(lambda: raised)
        assert receiver._core.pending == []
        assert not receiver._core.undelivered


async def test_a_link_that_is_lost_with_messages_that_nobody_waits_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaving the sender says why the link did not come back: no message vanishes without an exception."""
    async with hosting(monkeypatch) as hosts, connecting() as connection:
        hosts.peer.outcome = None
        with pytest.raises(LinkDetached, match="unauthorized"):
            async with connection.sender("q") as sender:
                await sender.submit("x")
                await until(lambda: hosts.peers[0].received)
                hosts.prepare = lambda peer: setattr(peer, "refusal", Error(Symbol("amqp:unauthorized-access")))
                await hosts.cut()
                await until(lambda: sender._core.over)
                assert sender.unsettled == 1


async def leave_a_ghost(hosts: Hosts, sender: Sender) -> None:
    """Lose the connection twice, the second time while the peer has not answered the sender's attach."""

    def prepare(peer: Peer) -> None:
        if len(hosts.peers) == 1:
            peer.on_event = lambda event: isinstance(event, LinkAttached)  # which it does not answer

    hosts.prepare = prepare
    await hosts.cut()
    await until(lambda: len(hosts.peers) == 2 and sender._core.awaiting_peer)
    await hosts.cut()
    await until(lambda: sender.open)


async def test_a_link_that_is_stolen_by_its_own_ghost(monkeypatch: pytest.MonkeyPatch) -> None:
    """An attach on a connection that was lost may reach the peer late: that is no thief, and is robbed in turn."""
    async with hosting(monkeypatch) as hosts, connecting() as connection, connection.sender("q", name="out") as sender:
        await leave_a_ghost(hosts, sender)
        generation = sender._core.generation
        detach(hosts, "q", "amqp:link:stolen")
        await until(lambda: sender._core.generation > generation)  # it is back at once
        await sender.send("x")
        detach(hosts, "q", "amqp:link:stolen")
        with pytest.raises(LinkDetached, match="stolen"):
            while True:
                await sender.send("x")


async def test_a_link_that_has_a_ghost_and_is_not_stolen(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is over for every other cause that does not pass."""
    async with hosting(monkeypatch) as hosts, connecting() as connection, connection.sender("q", name="out") as sender:
        await leave_a_ghost(hosts, sender)
        detach(hosts, "q", "amqp:unauthorized-access")
        with pytest.raises(LinkDetached, match="unauthorized"):
            await until(lambda: not sender.open)
            await sender.send("x")


async def test_a_link_that_was_resumed_and_then_stolen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A link that had been resumed once is no less stolen for that: it is not stolen back."""
    async with hosting(monkeypatch) as hosts, connecting() as connection, connection.receiver("q") as receiver:
        await hosts.cut()
        await hosts.link("q", of=1)
        await until(lambda: receiver.open)
        assert receiver._core.resuming
        detach(hosts, "q", "amqp:link:stolen")
        with pytest.raises(LinkDetached, match="stolen"):
            await receiver.receive()


async def test_a_link_that_was_resumed_and_then_detached() -> None:
    """Unsettled deliveries are resumed after the second loss, too, so exactly once stays exactly once."""
    async with Broker() as broker, FaultProxy(broker.url) as proxy, connecting(proxy.url) as connection:
        async with connection.receiver("q", receiver_settle_mode="second") as receiver:
            events = connection.events()
            async with connection.sender("q") as sender:
                await sender.send("x")
            delivery = await receiver.receive()
            proxy.cut()
            assert (await restored(events, receiver)).resumed
            (server,) = broker._manager._opened
            engine: Any = server._engine
            (link,) = [
                each
                for session in engine.connection._by_local_channel.values()
                for each in session._by_handle.values()
                if each.name == receiver.name
            ]
            link.detach(closed=False, error=Error(Symbol("amqp:link:detach-forced")))
            server._pump.wake()
            assert (await restored(events, receiver)).resumed
            delivery.accept()
            await delivery.wait_settled()


async def restored(events: Any, link: Any) -> LinkRestored:
    async for event in events:
        if isinstance(event, LinkRestored) and event.link is link:
            return event
    raise AssertionError


@pytest.mark.parametrize("keeps", [True, False])
async def test_attached_and_detached_in_one_breath(monkeypatch: pytest.MonkeyPatch, keeps: bool) -> None:
    """The peer's attach and its detach come together: what was to be said on the link is said on the next."""
    async with hosting(monkeypatch) as hosts:
        brief = ["sender", "receiver", "credited", "new"]

        def prepare(peer: Peer) -> None:
            peer.outcome = None if not hosts.peers else ACCEPTED
            if not keeps:
                forgetful(peer)
            attach = peer.attach

            def briefly(link: Any) -> None:
                attach(link)
                name = (link.remote.target if not link.is_sender else link.remote.source).address
                if hosts.peers[1:] and name in brief:
                    brief.remove(name)
                    link.detach(closed=False, error=Error(Symbol("amqp:link:detach-forced")))

            peer.attach = briefly  # type: ignore[method-assign]

        hosts.prepare = prepare
        async with (
            connecting() as connection,
            connection.receiver("receiver") as receiver,
            connection.receiver("credited", credit=0) as credited,
            connection.sender("sender") as sender,
        ):
            credited.add_credit(3)
            await hosts.credit("receiver")
            await hosts.credit("credited")
            hosts.peer.send("receiver", 1)
            hosts.peer.send("credited", 1)
            await until(lambda: receiver.buffered and credited.buffered)
            delivery = await sender.submit("x")
            await until(lambda: hosts.peer.received)
            await hosts.cut()
            assert await delivery.outcome() == ACCEPTED
            async with connection.receiver("new", credit=5) as new:
                await until(lambda: new.credit == 5 and receiver.credit == 100 and credited.credit == 3)
        assert brief == []


async def test_outcomes_are_told_before_a_session_is_left() -> None:
    """Outcomes given while the connection was lost are sent after it is restored, even if the session is being left."""
    async with (
        Broker() as broker,
        FaultProxy(broker.url) as proxy,
        connecting(proxy.url, close_timeout=30.0) as connection,  # the time for leaving is not what is tried here
    ):
        async with connection.sender("q") as sender:
            await sender.send("x")
        async with anyio.create_task_group() as tasks:

            async def later() -> None:
                await until(lambda: session._core.closed)
                proxy.refusing = False

            async with connection.session() as session:
                receiver = await session.receiver("q", receiver_settle_mode="second").__aenter__()
                delivery = await receiver.receive()
                proxy.refusing = True
                proxy.cut()
                await until(lambda: receiver._core.interrupted)
                delivery.accept()
                tasks.start_soon(later)
        await until(lambda: broker.queue("q").dequeued == 1)
        assert broker.queue("q").depth == 0


async def test_leaving_with_an_outcome_out_and_no_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """When the time is over and there is no connection, leaving says why: the loss."""
    async with hosting(monkeypatch) as hosts, connecting(close_timeout=0.1) as connection:
        hosts.peer.outcome = None
        with pytest.raises(ConnectionLost):
            async with connection.sender("q") as sender:
                await sender.submit("x")
                hosts.down = {"a"}
                await hosts.cut()
                await until(lambda: sender._core.interrupted)


async def test_a_fault_of_our_own_while_a_loss_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """The connection is over, and whoever waits is told why: nothing would restore it."""

    def fail(error: Any) -> None:
        raise RuntimeError("a fault")

    async with hosting(monkeypatch) as hosts:
        with pytest.raises(RuntimeError, match="a fault"):
            async with connecting() as connection, connection.receiver("r") as receiver:
                monkeypatch.setattr(receiver._core, "interrupt", fail)
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(hosts.cut)
                    with pytest.raises(ConnectionLost, match="own task failed"), anyio.fail_after(5):
                        await receiver.receive()
