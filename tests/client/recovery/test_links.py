"""A link, or a session, that the peer ends comes back alone, on the same connection."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import anyio
import pytest

from amqp10 import (
    Connection,
    ConnectionRestored,
    Error,
    LinkDetached,
    LinkInterrupted,
    LinkRestored,
    Symbol,
)
from amqp10.broker import Broker
from amqp10.engine import LinkAttached
from amqp10.profiles import profile
from amqp10.testing import Attach

from ...kit.client.hosts import QUICK, connecting, hosting
from ...kit.client.memory_peer import MemoryPeer
from ...kit.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.in_memory, pytest.mark.capability("link resume")]


def forced(condition: str = "amqp:link:detach-forced") -> Error:
    return Error(Symbol(condition), "away with you")


async def test_a_link_that_is_detached_comes_back_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """An idle link that the peer detaches is attached again, on the same connection, with its credit."""
    async with hosting(monkeypatch) as hosts, connecting() as connection:
        async with connection.receiver("q", credit=9) as receiver, connection.sender("other") as other:
            events = connection.events()
            old = hosts.peer.links.pop("q")
            old.detach(error=forced())
            hosts.peer.pump.wake()
            assert isinstance(await anext(events), LinkInterrupted)
            restored = await anext(events)
            assert isinstance(restored, LinkRestored)
            assert restored.link is receiver
            assert not restored.resumed
            link = await hosts.link("q")
            await until(lambda: link.credit == 9)
            await hosts.credit("q")
            hosts.peer.send("q", "x")
            (await receiver.receive()).accept()
            await other.send("y")
        assert hosts.asked == ["a"]


async def test_what_the_peer_said_of_a_link_that_is_attached_anew(memory_peer: MemoryPeer) -> None:
    """Until it answers, that is what it said before: whoever logs an address during an outage gets one."""

    async def serve() -> None:
        await memory_peer.accept_receiver()
        await memory_peer.drop()
        await memory_peer.accept()
        await memory_peer.accept_connection()
        await memory_peer.accept_session()
        await memory_peer.expect(Attach)
        asked.set()

    asked = anyio.Event()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(serve)
        async with Connection(memory_peer.url, reconnect=QUICK, close_timeout=0.2) as connection:
            async with connection.receiver("q", credit=10) as receiver:
                await asked.wait()
                assert receiver.address == "q"
                assert receiver.remote.source == receiver.source
                await memory_peer.drop()


async def test_a_link_that_is_detached_keeps_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where nothing is resumed: its unsettled messages stay with the peer's end of that name (§2.6.4, §3.5.6)."""
    embedded = replace(profile("embedded"), resumes=False)
    async with Broker() as broker, Connection(broker.url, reconnect=QUICK, profile=embedded) as connection:
        async with connection.sender("q") as sender, connection.receiver("q") as receiver:
            await sender.send("x")
            await receiver.receive()
            (server,) = broker._manager._opened
            engine: Any = server._engine
            sessions = engine.connection._by_local_channel.values()
            (link,) = [
                each for session in sessions for each in session._by_handle.values() if each.name == receiver.name
            ]
            link.detach(closed=False, error=forced())
            server._pump.wake()
            with anyio.fail_after(60):
                again = await receiver.receive()
            assert (receiver.name, again.message.body) == (link.name, "x")
            again.accept()


async def test_a_queue_that_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """As long as the node is not there the link is refused, and tried again; then it goes on."""
    async with hosting(monkeypatch) as hosts, connecting() as connection, connection.sender("q") as sender:
        refused = 0

        def count(event: Any) -> bool:
            nonlocal refused
            if isinstance(event, LinkAttached):
                refused += 1
                if refused == 3:
                    hosts.peer.refusal = None
            return False

        hosts.peer.on_event = count
        hosts.peer.refusal = forced("amqp:not-found")
        hosts.peer.links["q"].detach(error=forced("amqp:resource-deleted"))
        hosts.peer.pump.wake()
        await sender.send("x")
        assert refused == 3
        recovery = connection._core.recovery
        assert recovery is not None
        assert recovery.attempts_of(sender._core).failures == 3  # each pause was longer than the one before
        assert hosts.peer.bodies() == ["x"]


async def test_a_link_that_does_not_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """When the attempts are used up the link is over, with the peer's last word; the others are not concerned."""
    async with hosting(monkeypatch) as hosts:
        async with connecting(reconnect=replace(QUICK, attempts=2)) as connection, connection.sender("other") as other:
            async with connection.receiver("q") as receiver:
                hosts.peer.refusal = forced("amqp:not-found")
                hosts.peer.links["q"].detach(error=forced())
                hosts.peer.pump.wake()
                with pytest.raises(LinkDetached, match="not-found"):
                    await receiver.receive()
            await other.send("x")


@pytest.mark.parametrize("condition", ["amqp:link:stolen", "amqp:unauthorized-access", "amqp:not-allowed"])
async def test_a_link_that_shall_not_come_back(monkeypatch: pytest.MonkeyPatch, condition: str) -> None:
    """A link that was stolen is not stolen back; what is forbidden stays so."""
    async with hosting(monkeypatch) as hosts, connecting() as connection, connection.receiver("q") as receiver:
        hosts.peer.links["q"].detach(error=forced(condition))
        hosts.peer.pump.wake()
        with pytest.raises(LinkDetached, match=condition):
            await receiver.receive()


async def test_a_link_that_is_refused_at_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call that asks for a node that does not exist raises at once, and not after a day of attempts."""
    async with hosting(monkeypatch) as hosts, connecting() as connection:
        hosts.peer.refusal = forced("amqp:not-found")
        with pytest.raises(LinkDetached, match="not-found"):
            async with connection.sender("q"):
                raise AssertionError


async def test_a_session_comes_back_with_its_links(monkeypatch: pytest.MonkeyPatch) -> None:
    """The peer ends a session: it is begun again, and its links are attached."""
    async with hosting(monkeypatch) as hosts, connecting() as connection:
        async with connection.sender("q") as sender, connection.receiver("r") as receiver:
            hosts.peer.links.clear()
            hosts.peer.sessions[0].end(forced("amqp:internal-error"))
            hosts.peer.pump.wake()
            await sender.send("x")
            await hosts.link("r")
            await until(lambda: hosts.peer.links["r"].credit)
            hosts.peer.send("r", "y")
            assert (await receiver.receive()).message.body == "y"
        assert len(hosts.peer.sessions) == 2
        assert hosts.asked == ["a"]


async def test_a_session_that_both_sides_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not begun again, though the peer ends it for a cause that passes."""
    async with hosting(monkeypatch) as hosts, connecting() as connection:
        async with connection.session():
            begun = len(hosts.peer.sessions)
            hosts.peer.sessions[-1].end(forced("amqp:internal-error"))
        await anyio.sleep(1)
        assert len(hosts.peer.sessions) == begun


async def test_all_come_back_in_their_sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pitfall 20: after a reconnect no consumer is missing: sessions and links are as they were."""
    async with hosting(monkeypatch) as hosts, connecting() as connection:
        async with connection.session(incoming_window=10) as session, session.receiver("a"), connection.receiver("b"):
            async with connection.sender("c"), session.sender("d"):
                await hosts.cut()
                for name in "abcd":
                    await hosts.link(name, of=1)
                peer = hosts.peer
                assert len(peer.sessions) == 2
                assert peer.links["a"].session is peer.links["d"].session
                assert peer.links["b"].session is peer.links["c"].session
                assert peer.links["a"].session.remote.incoming_window == 10


async def test_attaching_when_the_connection_breaks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Attaching goes on over the loss, and so does one that begins while there is no connection."""
    async with hosting(monkeypatch) as hosts, connecting() as connection:
        hosts.peer.answers = False

        async def use(name: str) -> None:
            async with connection.sender(name) as sender:
                await sender.send(name)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(use, "a")
            await anyio.wait_all_tasks_blocked()
            hosts.down = {"a"}
            await hosts.cut()
            await until(lambda: not (connection.open))
            tasks.start_soon(use, "b")
            await anyio.wait_all_tasks_blocked()
            hosts.down = set()
        assert sorted(hosts.peer.bodies()) == ["a", "b"]


async def test_leaving_a_link_that_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """A link that is left while it is away does not come back."""
    async with hosting(monkeypatch) as hosts, connecting() as connection:
        async with connection.receiver("q"), connection.session() as session, session.sender("s"):
            hosts.down = {"a"}
            await hosts.cut()
            await until(lambda: not (connection.open))
        events = connection.events()
        hosts.down = set()
        while type(await anext(events)) is not ConnectionRestored:
            pass
        await anyio.wait_all_tasks_blocked()
        assert hosts.peer.links == {}
        async with connection.sender("new") as sender:
            await sender.send("x")


async def test_a_name_that_was_made_up_is_not_taken_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """At a peer that resumes nothing a link comes back under another name, unless the user gave it one."""
    async with hosting(monkeypatch) as hosts, connecting(profile="broker-j") as connection:
        async with connection.sender("q"), connection.sender("r", name="mine"):
            names = [hosts.peer.links[name].name for name in "qr"]
            await hosts.cut()
            again = [(await hosts.link(name, of=1)).name for name in "qr"]
            assert names[0] != again[0]
            assert names[1] == again[1] == "mine"


async def test_a_peer_that_answers_no_attach(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pitfall 20: a link that hangs after a reconnect is seen: another connection is tried."""
    async with hosting(monkeypatch) as hosts:

        def deaf(peer: Any) -> None:
            peer.on_event = lambda event: isinstance(event, LinkAttached) and len(hosts.peers) == 2

        hosts.prepare = deaf
        async with connecting(reconnect=replace(QUICK, attempt_timeout=0.1)) as connection:
            async with connection.sender("q") as sender:
                await hosts.cut()
                await sender.send("x")
        assert len(hosts.peers) > 2
        assert {body for peer in hosts.peers[2:] for body in peer.bodies()} == {"x"}


async def test_who_attached_has_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """An attach that was cancelled while it came back is not waited for, nor is the connection dropped for it."""
    async with hosting(monkeypatch) as hosts:
        held: list[Any] = []

        def holding(peer: Any) -> None:
            peer.on_event = lambda event: isinstance(event, LinkAttached) and not held.append(event)  # type: ignore[func-returns-value]

        hosts.prepare = holding
        async with connecting() as connection:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(connection.sender("q").__aenter__)
                await until(lambda: len(held) == 1)
                await hosts.cut()
                await until(lambda: len(held) == 2)
                assert connection._core._scopes
                tasks.cancel_scope.cancel()
            await until(lambda: not connection._core._scopes)
            assert connection.open
        assert len(hosts.peers) == 2


async def test_a_receiver_that_is_not_to_be_restored(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is over with its link, and the others come back."""
    async with hosting(monkeypatch) as hosts, connecting() as connection:
        async with connection.receiver("q", restore=False) as receiver, connection.receiver("other") as other:
            hosts.peer.links.pop("q").detach(error=forced())
            hosts.peer.pump.wake()
            with pytest.raises(LinkDetached):
                await receiver.receive()
            hosts.peer.links.pop("other").detach(error=forced())
            hosts.peer.pump.wake()
            await hosts.credit("other")
            hosts.peer.send("other", "x")
            (await other.receive()).accept()
