"""Begins and attaches after a loss that the peer does not answer: whatever led to them, another connection is tried."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import anyio
import pytest

from amqp10 import Error, Symbol
from amqp10.engine import ConnectionTerms, LinkAttached, SessionBegun
from amqp10.messaging import ACCEPTED
from amqp10.profiles import Profile

from ...kit.client.hosts import QUICK, connecting, hosting
from ...kit.client.peer import Peer
from ...kit.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.in_memory]

IMPATIENT = replace(QUICK, attempt_timeout=1.0)


async def test_a_plain_attach_after_a_refused_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """The peer refuses to resume, and says nothing to the attach that follows at once."""
    async with (
        hosting(monkeypatch) as hosts,
        connecting(reconnect=IMPATIENT) as connection,
        connection.sender("q") as sender,
    ):
        hosts.peer.outcome = None
        delivery = await sender.submit("x")
        await until(lambda: hosts.peer.received)
        asked = 0

        def prepare(peer: Peer) -> None:
            def on_event(event: Any) -> bool:
                nonlocal asked
                if not isinstance(event, LinkAttached):
                    return False
                asked += 1
                if asked == 1:
                    event.link.refuse(Error(Symbol("amqp:not-implemented"), "no resuming"))
                return asked < 3

            peer.on_event = on_event

        hosts.prepare = prepare
        await hosts.cut()
        assert await delivery.outcome() == ACCEPTED
        assert (asked, len(hosts.peers)) == (3, 3)


async def test_an_attach_that_says_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    """More is unsettled than one attach can say, and the peer says nothing to the second."""
    async with hosting(monkeypatch) as hosts:
        hosts.terms = ConnectionTerms("peer", max_frame_size=512)
        async with connecting(reconnect=IMPATIENT) as connection, connection.sender("q", name="L") as sender:
            hosts.peer.outcome = None
            deliveries = [await sender.submit(number) for number in range(80)]
            await until(lambda: len(hosts.peer.received) == 80)
            incomplete: list[bool] = []

            def prepare(peer: Peer) -> None:
                def on_event(event: Any) -> bool:
                    if not isinstance(event, LinkAttached) or len(incomplete) == 2:
                        return False
                    remote = event.link.remote
                    assert remote is not None
                    incomplete.append(remote.incomplete_unsettled)
                    if len(incomplete) == 1:
                        event.link.attach(
                            replace(remote, unsettled={}, incomplete_unsettled=False, initial_delivery_count=0)
                        )
                        event.link.flow(200)  # type: ignore[attr-defined]
                    return True

                peer.on_event = on_event

            hosts.prepare = prepare
            await hosts.cut()
            for delivery in deliveries:
                assert await delivery.outcome() == ACCEPTED
            assert (incomplete[0], len(incomplete), len(hosts.peers)) == (True, 2, 3)


async def test_an_attach_in_place_of_a_spoiled_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A link that is left because its peer knows no aborts is followed by one that the peer does not answer."""
    profile = Profile("peer", "Peer", aborts=False)
    async with (
        hosting(monkeypatch) as hosts,
        connecting(reconnect=IMPATIENT, profile=profile) as connection,
        connection.sender("q") as sender,
    ):
        hosts.peer.on_event = lambda event: isinstance(event, LinkAttached)
        with pytest.raises(RuntimeError):
            async with sender.stream() as body:
                await body.send(b"never")
                raise RuntimeError
        await sender.send("x")
        assert len(hosts.peers) == 2


async def test_a_session_without_links(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for its begin, and yet whoever attaches on it later is not to wait in vain."""
    async with hosting(monkeypatch) as hosts, connecting(reconnect=IMPATIENT) as connection:
        async with connection.session() as session:

            def prepare(peer: Peer) -> None:
                silent = len(hosts.peers) == 1
                peer.on_event = lambda event: silent and isinstance(event, SessionBegun | LinkAttached)

            hosts.prepare = prepare
            await hosts.cut()
            await until(lambda: len(hosts.peers) == 2)
            async with session.sender("q") as sender:
                await sender.send("x")
            assert len(hosts.peers) == 3


async def test_a_link_alone_whose_attach_is_not_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    """A link that the peer detached and does not answer any more is seen: another connection is tried."""
    async with (
        hosting(monkeypatch) as hosts,
        connecting(reconnect=IMPATIENT) as connection,
        connection.sender("q") as sender,
    ):
        link = await hosts.link("q")
        link.detach(closed=True, error=Error(Symbol("amqp:link:detach-forced")))
        hosts.peer.answers = False
        hosts.peer.pump.wake()
        await hosts.link("q", of=1)
        await sender.send("x")
        assert hosts.peer.bodies() == ["x"]


async def test_several_that_are_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each has its own time, and one task looks after them all; what is answered in time costs no connection."""
    async with (
        hosting(monkeypatch) as hosts,
        connecting(reconnect=replace(QUICK, attempt_timeout=5)) as connection,
        connection.sender("a") as one,
        connection.sender("b") as other,
    ):
        held: list[Any] = []

        def prepare(peer: Peer) -> None:
            """It answers the open, and nothing else for now."""

            def on_event(event: Any) -> bool:
                if isinstance(event, (SessionBegun, LinkAttached)):
                    held.append(event)
                return isinstance(event, (SessionBegun, LinkAttached))

            peer.on_event = on_event

        hosts.prepare = prepare
        await hosts.cut()
        await until(lambda: len(hosts.peers) == 2 and held and one._core.awaiting_peer and other._core.awaiting_peer)
        assert len(connection._core._scopes) == 1
        hosts.peer.on_event = lambda event: False
        hosts.peer.handle(held)
        hosts.peer.pump.wake()
        await until(lambda: one.open and other.open)
        await until(lambda: not connection._core._scopes)
        with anyio.fail_after(60):
            await one.send("x")
        assert len(hosts.peers) == 2
