"""Requesters whose peer ends something in the middle: every waiter gets the cause, once, and nothing else breaks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio
import pytest

from amqp10.client import Connection, Requester
from amqp10.engine import DeliveriesReceived, Event
from amqp10.errors import ConnectionLost, LinkDetached, MessageReleased, SessionEnded
from amqp10.messaging import RELEASED, Error, Message

pytestmark = [pytest.mark.anyio, pytest.mark.in_memory]

Serve = Callable[..., Any]
GONE = Error("test:gone", "the node is gone")


def replying(peer: Any, *then: Callable[[], object], echo: bool = True) -> None:
    """Let the peer reply to each request, and do the rest in the same breath: the client reads it all at once."""

    def on_event(event: Event) -> bool:
        if not isinstance(event, DeliveriesReceived):
            return False
        peer.take(event.link)
        request = Message.decode(peer.received[-1])
        if echo:
            reply = Message(request.body, correlation_id=request.correlation_id)
            peer.links["dynamic-1"].send(reply.encode())
        for act in then:
            act()
        return True

    peer.on_event = on_event


async def ask(requester: Requester, results: list[Any], body: object = "x") -> None:
    try:
        results.append((await requester.request(body)).body)
    except Exception as error:
        results.append(error)


async def works_on(peer: Any, connection: Connection) -> None:
    """The connection is whole: a new requester on it is served."""
    replying(peer)
    async with connection.requester("service") as another:
        assert (await another.request("still here")).body == "still here"


@pytest.mark.parametrize("credit", [1, 100])
async def test_reply_and_detach_at_once(serve: Serve, credit: int) -> None:
    """A reply before the detach of its link, in one read, is a reply; the connection lives on."""
    async with serve() as (peer, connection), connection:
        replying(peer, lambda: peer.links["dynamic-1"].detach(closed=True, error=GONE))
        async with connection.requester("service", credit=credit) as requester:
            assert (await requester.request("x")).body == "x"
            with pytest.raises(LinkDetached, match="test:gone"):
                await requester.request("y")
            assert peer.bodies() == ["x"]
        await works_on(peer, connection)


@pytest.mark.parametrize("which", ["dynamic-1", "service"])
async def test_a_link_ends(serve: Serve, which: str) -> None:
    """Whichever of the two links ends: all who wait get the peer's words, and leaving does not say them again."""
    async with serve(close_timeout=0.1) as (peer, connection), connection:
        peer.outcome = None
        results: list[Any] = []
        async with connection.requester("service") as requester, anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(ask, requester, results)
            await anyio.wait_all_tasks_blocked()
            peer.links[which].detach(closed=True, error=GONE)
            peer.pump.wake()
        assert [type(each) for each in results] == [LinkDetached] * 3
        assert all(each.condition == "test:gone" for each in results)
        assert len({id(each) for each in results}) == 3
        assert requester.pending == 0
        await works_on(peer, connection)


async def test_the_request_link_ends_after_the_request_was_accepted(serve: Serve) -> None:
    """The reply may still come, and does."""
    async with serve() as (peer, connection), connection:
        results: list[Any] = []
        async with connection.requester("service") as requester, anyio.create_task_group() as tasks:
            tasks.start_soon(ask, requester, results)
            await anyio.wait_all_tasks_blocked()
            peer.links["service"].detach(closed=True, error=GONE)
            peer.pump.wake()
            await anyio.wait_all_tasks_blocked()
            assert results == []
            request = Message.decode(peer.received[-1])
            peer.send("dynamic-1", Message("late", correlation_id=request.correlation_id).encode())
        assert results == ["late"]


async def test_the_session_ends(serve: Serve) -> None:
    """The peer's reason for the end of the session."""
    async with serve() as (peer, connection), connection:
        results: list[Any] = []
        async with connection.requester("service") as requester, anyio.create_task_group() as tasks:
            tasks.start_soon(ask, requester, results)
            await anyio.wait_all_tasks_blocked()
            peer.sessions[-1].end(GONE)
            peer.pump.wake()
        assert [type(each) for each in results] == [SessionEnded]
        await works_on(peer, connection)


async def test_the_connection_is_lost(serve: Serve) -> None:
    """The cause, for those who wait and those who come later."""
    async with serve() as (peer, connection):
        results: list[Any] = []
        async with connection, connection.requester("service") as requester:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(ask, requester, results)
                await anyio.wait_all_tasks_blocked()
                await peer.stream.aclose()
            await ask(requester, results)
        assert [type(each) for each in results] == [ConnectionLost] * 2


async def test_closed_here(serve: Serve) -> None:
    """A task that waits when the requester is closed is told so."""
    async with serve() as (_, connection), connection:
        results: list[Any] = []
        async with anyio.create_task_group() as tasks:
            async with connection.requester("service") as requester:
                tasks.start_soon(ask, requester, results)
                await anyio.wait_all_tasks_blocked()
        await ask(requester, results)
        assert [type(each) for each in results] == [anyio.ClosedResourceError] * 2


async def test_a_reply_before_the_outcome_counts(serve: Serve) -> None:
    """Whatever becomes of the request afterwards; leaving waits for it in order."""
    async with serve(close_timeout=0.1) as (peer, connection), connection:
        peer.outcome = None
        replying(peer)
        async with connection.requester("service") as requester:
            assert (await requester.request("x")).body == "x"
            for delivery in list(peer.links["service"].unsettled.values()):
                peer.links["service"].settle(delivery, RELEASED)
            peer.pump.wake()


async def test_released_request(serve: Serve) -> None:
    """A request that comes back raises at once, and the next one may do better."""
    async with serve() as (peer, connection), connection:
        peer.outcome = RELEASED
        async with connection.requester("service") as requester:
            with pytest.raises(MessageReleased):
                await requester.request("x")
            assert requester.pending == 0


async def test_replies_that_are_none(serve: Serve) -> None:
    """A reply with an unknown correlation-id, or that is no message, is counted and settled. It delays no other."""
    async with serve() as (peer, connection), connection:
        async with connection.requester("service", credit=2) as requester:
            for payload in (Message("for nobody", correlation_id="x").encode(), b"\x00\x53", Message("no id").encode()):
                peer.send("dynamic-1", payload)
                await anyio.wait_all_tasks_blocked()
            assert requester.unmatched == 3
            assert [type(each.remote_state).__name__ for each in peer.outcomes] == ["Accepted", "Rejected", "Accepted"]
            replying(peer)
            assert (await requester.request("x")).body == "x"
