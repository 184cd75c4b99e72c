"""Leaving while the connection is away, or is lost just then: what can be finished in time is, all in one deadline."""

from __future__ import annotations

from dataclasses import replace

import anyio
import pytest

from amqp10 import ConnectionLost
from amqp10.engine import CreditChanged, Event, LinkAttached
from amqp10.messaging import Accepted

from ...kit.client.hosts import QUICK, connecting, hosting
from ...kit.client.peer import Peer
from ...kit.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.in_memory]

LIMIT = 2.0  # seconds, of close_timeout
SLACK = 1.9  # seconds, for a machine that is busy; a second deadline after the first would take longer
LATER = replace(QUICK, initial_delay=0.1, max_delay=0.1)


async def test_nested_blocks_without_a_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sender waits for the connection to come back, until the deadline, and says what was lost."""
    async with hosting(monkeypatch) as hosts:
        with pytest.raises((TimeoutError, ConnectionLost)):
            async with connecting(close_timeout=LIMIT) as connection, connection.session() as session:
                async with session.receiver("r"), session.sender("q") as sender:
                    hosts.peer.outcome = None
                    await sender.submit("x")
                    await until(lambda: hosts.peer.received)
                    hosts.down = {"a"}
                    await hosts.cut()
                    await until(lambda: sender._core.interrupted)
                    left = anyio.current_time()
        assert anyio.current_time() - left < LIMIT + SLACK


async def test_a_connection_that_is_back_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages in flight are sent again and accepted while the block is being left, so nothing is raised."""
    async with hosting(monkeypatch) as hosts:
        async with connecting(reconnect=LATER, close_timeout=15.0) as connection, connection.sender("q") as sender:
            hosts.peer.outcome = None
            delivery = await sender.submit("x")
            await until(lambda: hosts.peer.received)
            hosts.down = {"a"}
            await hosts.cut()
            await until(lambda: len(hosts.asked) > 2)
            hosts.down = set()
        assert await delivery.outcome() == Accepted()
        assert hosts.peer.bodies() == ["x"]


async def test_a_loss_in_the_middle_of_leaving(monkeypatch: pytest.MonkeyPatch) -> None:
    """The receiver drains, and the connection breaks: the exit ends with that, without a fault."""
    async with hosting(monkeypatch) as hosts:
        async with connecting(close_timeout=LIMIT) as connection:
            drained = anyio.Event()

            def notice(event: Event) -> bool:
                if isinstance(event, CreditChanged) and event.link.drain:
                    drained.set()
                    return True
                return False

            hosts.peer.on_event = notice
            async with anyio.create_task_group() as tasks:

                async def cut() -> None:
                    await drained.wait()
                    await hosts.cut()

                tasks.start_soon(cut)
                async with connection.receiver("r"):
                    await hosts.credit("r")
                    left = anyio.current_time()
                assert anyio.current_time() - left < LIMIT + SLACK
            async with connection.sender("q") as sender:
                await sender.send("x")
        assert len(hosts.peers) == 2


async def test_links_that_are_left_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection that is away is left with all its links within one deadline, and who waits there is told."""
    async with hosting(monkeypatch) as hosts, anyio.create_task_group() as tasks:
        async with connecting(close_timeout=LIMIT) as connection:
            senders = [await connection.sender(f"q{n}").__aenter__() for n in range(5)]
            receiver = await connection.receiver("r").__aenter__()

            async def receive() -> None:
                with pytest.raises((anyio.ClosedResourceError, ConnectionLost)):
                    await receiver.receive()

            tasks.start_soon(receive)
            hosts.peer.outcome = None
            for sender in senders:
                await sender.submit("x")
            hosts.down = {"a"}
            await hosts.cut()
            await until(lambda: receiver._core.interrupted)
            left = anyio.current_time()
        assert anyio.current_time() - left < LIMIT + SLACK
        for sender in senders:
            with pytest.raises((TimeoutError, ConnectionLost)):
                await sender.__aexit__(None, None, None)


@pytest.mark.parametrize("how", ["block", "close", "detach"])
async def test_a_link_that_is_left_while_it_is_attached_again(monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    """The peer's answer comes after the link's end: it is detached there as its owner asked, and stays closed here."""
    async with hosting(monkeypatch) as hosts, connecting() as connection:
        held: list[Event] = []

        def prepare(peer: Peer) -> None:
            """It answers all but the attach, for now."""

            def on_event(event: Event) -> bool:
                if isinstance(event, LinkAttached):
                    held.append(event)
                return isinstance(event, LinkAttached)

            peer.on_event = on_event

        hosts.prepare = prepare
        async with connection.receiver("r") as receiver:
            await hosts.cut()
            await until(lambda: held and receiver._core.awaiting_peer)
            if how == "close":
                await receiver.close()
            elif how == "detach":
                await receiver.detach()
        hosts.peer.on_event = lambda event: False
        hosts.peer.handle(held)
        hosts.peer.pump.wake()
        await until(lambda: hosts.peer.ended)
        assert [event.closed for event in hosts.peer.ended] == [how != "detach"]
        assert (receiver._core.over, receiver._core.interrupted, receiver.open) == (True, False, False)
