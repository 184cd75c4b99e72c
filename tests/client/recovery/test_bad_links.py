"""A peer that ends the whole session for one bad link, as RabbitMQ does: the other links of the session go on."""

from __future__ import annotations

from collections import Counter
from contextlib import AsyncExitStack
from typing import Any

import anyio
import pytest

from amqp10 import Error, Receiver, Reconnect, Sender, SessionEnded, Symbol
from amqp10.engine import LinkAttached

from ...kit.client.hosts import Hosts, connecting, hosting
from ...kit.client.peer import Peer
from ...kit.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.in_memory]

NOT_FOUND = Error(Symbol("amqp:not-found"), "no queue")
FORBIDDEN = Error(Symbol("amqp:unauthorized-access"), "no access")


class Harsh:
    """Refuse links as strict peers do.

    Attributes:
        bad: addresses whose links end their session, whatever else is asked for on that.
        refused: how often that was.
    """

    def __init__(self, hosts: Hosts, error: Error) -> None:
        self.bad: set[str] = set()
        self.refused: Counter[str] = Counter()
        self._error = error
        hosts.prepare = self.prepare

    def prepare(self, peer: Peer) -> None:
        ended: list[Any] = []

        def on_event(event: Any) -> bool:
            if not isinstance(event, LinkAttached):
                return False
            link = event.link
            terminus: Any = link.remote.source if link.is_sender else link.remote.target  # type: ignore[union-attr]
            if link.session not in ended and terminus.address in self.bad:
                self.refused[terminus.address] += 1
                ended.append(link.session)
                link.session.end(self._error)
            return link.session in ended

        peer.on_event = on_event


async def attached(stack: AsyncExitStack, place: Any, *addresses: str) -> list[Any]:
    """Links, by turns receivers and senders."""
    links: list[Any] = [
        place.sender(each) if number % 2 else place.receiver(each) for number, each in enumerate(addresses)
    ]
    for link in links:
        await stack.enter_async_context(link)
    return links


async def works(hosts: Hosts, link: Receiver | Sender) -> None:
    """A message passes."""
    await until(lambda: link.open)
    if isinstance(link, Sender):
        await link.send("out")
    else:
        assert link.address is not None
        await hosts.credit(link.address)
        hosts.peer.send(link.address, "in")
        (await link.receive()).accept()


@pytest.mark.parametrize("own", [True, False])
async def test_queues_that_are_deleted(monkeypatch: pytest.MonkeyPatch, own: bool) -> None:
    """Their links are tried alone from then on, and come back when the queues do; the others are away once for each."""
    async with hosting(monkeypatch) as hosts, AsyncExitStack() as stack:
        harsh = Harsh(hosts, NOT_FOUND)
        connection = await stack.enter_async_context(connecting())
        place = await stack.enter_async_context(connection.session()) if own else connection
        links = await attached(stack, place, "a", "bad-1", "b", "c", "bad-2", "d")
        good = [link for link in links if not link.address.startswith("bad")]
        harsh.bad = {"bad-1", "bad-2"}
        for address in sorted(harsh.bad):
            hosts.peer.links[address].detach(closed=True, error=Error(Symbol("amqp:resource-deleted"), "deleted"))
        hosts.peer.pump.wake()
        await until(lambda: min(harsh.refused["bad-1"], harsh.refused["bad-2"]) > 5)
        for link in good:
            assert link._core.generation <= 2
            await works(hosts, link)
        assert len(hosts.peers) == 1
        harsh.bad.clear()
        await until(lambda: all(link.open for link in links))
        for link in links:
            await works(hosts, link)
        # A later loss finds each of them where it is by then.
        await hosts.cut()
        await until(lambda: all(link.open for link in links) and len(hosts.peers) == 2)
        for link in links:
            await works(hosts, link)
        await stack.aclose()
        assert not connection._core.recovery.sessions  # type: ignore[union-attr]
        assert not connection._core.links


async def test_links_that_are_bad_after_a_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are found one after the other, in the order in which they are attached."""
    async with hosting(monkeypatch) as hosts, AsyncExitStack() as stack:
        harsh = Harsh(hosts, NOT_FOUND)
        connection = await stack.enter_async_context(connecting())
        links = await attached(stack, connection, "bad-1", "a", "bad-2", "b", "c", "bad-3")
        harsh.bad = {"bad-1", "bad-2", "bad-3"}
        await hosts.cut()
        await until(lambda: min(harsh.refused[each] for each in harsh.bad) > 3)
        for link in links:
            if link._core.session is connection._core._default:
                await works(hosts, link)
        assert sum(link.open for link in links) == 3
        harsh.bad.clear()
        await until(lambda: all(link.open for link in links))


async def test_a_link_that_is_forbidden_after_a_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    """It alone is over, though its session is ended for a cause that does not pass."""
    async with hosting(monkeypatch) as hosts, AsyncExitStack() as stack:
        harsh = Harsh(hosts, FORBIDDEN)
        connection = await stack.enter_async_context(connecting())
        good, bad, other = await attached(stack, connection, "a", "bad", "b")
        harsh.bad = {"bad"}
        await hosts.cut()
        with pytest.raises(SessionEnded, match="unauthorized"):
            await bad.send("x")
        for link in (good, other):
            await works(hosts, link)


@pytest.mark.parametrize("error", [NOT_FOUND, FORBIDDEN])
async def test_a_new_link_that_is_bad(monkeypatch: pytest.MonkeyPatch, error: Error) -> None:
    """The task that asked for the link is told. The other links of its session come back."""
    async with hosting(monkeypatch) as hosts, AsyncExitStack() as stack:
        harsh = Harsh(hosts, error)
        connection = await stack.enter_async_context(connecting())
        good = await attached(stack, connection, "a", "b", "c")
        harsh.bad = {"bad"}
        with pytest.raises(SessionEnded):
            await connection.sender("bad").__aenter__()
        for link in good:
            await works(hosts, link)
        assert all(link._core.session is connection._core._default for link in good)


async def test_giving_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """When its attempts are used up it is over alone, and its session with it; nobody else is concerned."""
    settings = Reconnect(initial_delay=0.001, max_delay=0.01, attempts=3)
    async with hosting(monkeypatch) as hosts, AsyncExitStack() as stack:
        harsh = Harsh(hosts, NOT_FOUND)
        connection = await stack.enter_async_context(connecting(reconnect=settings))
        good, bad, other = await attached(stack, connection, "a", "bad", "b")
        harsh.bad = {"bad"}
        hosts.peer.links["bad"].detach(closed=True)
        hosts.peer.pump.wake()
        with pytest.raises(SessionEnded, match="not-found"):
            await until(lambda: not bad.open)
            await bad.send("x")
        for link in (good, other):
            await works(hosts, link)
        await until(lambda: len(connection._core.recovery.sessions) == 1)  # type: ignore[union-attr]


@pytest.mark.parametrize("back", [True, False])
async def test_leaving_the_session(monkeypatch: pytest.MonkeyPatch, back: bool) -> None:
    """The links of it that are on sessions of their own are left with it, and so are those sessions."""
    async with hosting(monkeypatch) as hosts, connecting() as connection:
        harsh = Harsh(hosts, NOT_FOUND)
        async with connection.session() as session, AsyncExitStack() as stack:
            links = await attached(stack, session, "a", "bad", "b")
            stack.pop_all()
            harsh.bad = {"bad"}
            await hosts.cut()
            await until(lambda: harsh.refused["bad"] > 1 and links[0].open and links[2].open)
            if back:
                harsh.bad.clear()
                await until(lambda: links[1].open)
                assert links[1]._core.session is not session
        assert all(link._core.over for link in links)
        await anyio.wait_all_tasks_blocked()
        await until(lambda: not connection._core.recovery.sessions)  # type: ignore[union-attr]
        assert connection.open
