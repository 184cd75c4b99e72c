"""Responders: what becomes of requests, and of the senders that replies go through where the peer does not relay."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import anyio
import pytest

from amqp10 import (
    Connection,
    ConnectionInterrupted,
    DecodeError,
    LinkDetached,
    MessageReleased,
    Request,
    Responder,
)
from amqp10.broker import Broker
from amqp10.messaging import RELEASED, Accepted, Error, Message, Modified, Rejected

from ...kit.client.hosts import QUICK, connecting, hosting

pytestmark = [pytest.mark.anyio, pytest.mark.in_memory]

Serve = Callable[..., Any]


@pytest.fixture
async def connection(anyio_backend: str) -> Any:
    async with Broker() as broker, broker.connect() as connection:
        yield connection


async def put(connection: Connection, *bodies: object) -> None:
    async with connection.sender("service") as sender:
        for body in bodies:
            await sender.send(body)


async def test_with_request(connection: Connection) -> None:
    """Accepted at the end without a reply; given back, and counted, after an exception."""
    await put(connection, "no reply wanted", "too hard")
    async with connection.responder("service") as responder:
        with await responder.receive() as message:
            assert message.body == "no reply wanted"
        with pytest.raises(ZeroDivisionError):
            with await responder.receive() as message:
                raise ZeroDivisionError
        with await responder.receive() as message:
            assert (message.body, message.delivery_count) == ("too hard", 1)


async def test_with_request_that_was_answered(connection: Connection) -> None:
    """A reply in the block has accepted it; what goes wrong afterwards does not bring it back."""
    async with connection.responder("service") as responder, connection.requester("service") as requester:
        async with anyio.create_task_group() as tasks:

            async def serve() -> None:
                request = await responder.receive()
                with pytest.raises(ZeroDivisionError), request as message:
                    await request.reply(message.body)
                    raise ZeroDivisionError
                assert request.delivery.state == Accepted()

            tasks.start_soon(serve)
            assert (await requester.request("x")).body == "x"


async def test_with_request_that_is_no_message(serve: Serve) -> None:
    """It is rejected, and said."""
    async with serve() as (peer, connection), connection, connection.responder("service") as responder:
        await anyio.wait_all_tasks_blocked()
        (delivery,) = peer.send("service", b"\x00\x53")
        with pytest.raises(DecodeError):
            with await responder.receive():
                pass
        await anyio.wait_all_tasks_blocked()
        assert type(delivery.remote_state) is Rejected


async def request(peer: Any, responder: Responder, reply_to: str) -> Request:
    """A request that came, with that address for the reply."""
    await anyio.wait_all_tasks_blocked()
    peer.send("service", Message("x", reply_to=reply_to, message_id="m").encode())
    return await responder.receive()


async def test_a_sender_in_use_is_kept(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reply that waits for credit keeps its sender, though there are more than are kept; later the idle ones go."""
    monkeypatch.setattr("amqp10.client._requests.responder.KEPT_SENDERS", 1)
    async with serve() as (peer, connection), connection, connection.responder("service") as responder:
        peer.credit = 0
        async with anyio.create_task_group() as tasks:
            tasks.start_soon((await request(peer, responder, "slow")).reply, "late")
            await anyio.wait_all_tasks_blocked()
            peer.credit = 10
            await (await request(peer, responder, "quick")).reply("soon")
            assert list(responder._senders) == ["slow", "quick"]
            assert peer.bodies() == ["soon"]
            peer.links["slow"].flow(1)
            peer.pump.wake()
        assert peer.bodies() == ["soon", "late"]
        await (await request(peer, responder, "other")).reply("last")
        assert list(responder._senders) == ["other"]
        assert [event.link for event in peer.ended] == [peer.links["slow"], peer.links["quick"]]


async def test_a_sender_that_ended_is_replaced(serve: Serve) -> None:
    """The peer detached it: the next reply attaches anew."""
    async with serve() as (peer, connection), connection, connection.responder("service") as responder:
        await (await request(peer, responder, "replies")).reply(1)
        peer.links["replies"].detach(closed=True, error=Error("amqp:link:detach-forced", "idle"))
        peer.pump.wake()
        await anyio.wait_all_tasks_blocked()
        await (await request(peer, responder, "replies")).reply(2)
        assert peer.bodies() == [1, 2]
        assert len(responder._senders) == 1


async def test_a_reply_that_is_not_taken(serve: Serve) -> None:
    """The outcome is raised, the request is still to be settled, and leaving says nothing more of it."""
    async with serve() as (peer, connection), connection:
        async with connection.responder("service") as responder:
            peer.outcome = RELEASED
            asked = await request(peer, responder, "replies")
            with pytest.raises(MessageReleased):
                await asked.reply("x")
            assert asked.delivery.state is None
            asked.delivery.modify(delivery_failed=True)
            peer.outcome = None
            with anyio.move_on_after(0.01):
                await (await request(peer, responder, "replies")).reply("y")
            connection.close_timeout = 0.05
        assert [type(each.remote_state) for each in peer.outcomes][:1] == [Modified]


async def test_an_address_that_is_refused(serve: Serve) -> None:
    """The peer's reason; the next reply is not concerned."""
    async with serve() as (peer, connection), connection, connection.responder("service") as responder:
        peer.refusal = Error("amqp:not-found", "no such node")
        with pytest.raises(LinkDetached, match="no such node"):
            await (await request(peer, responder, "gone")).reply("x")
        peer.refusal = None
        await (await request(peer, responder, "there")).reply("y")
        assert peer.bodies() == ["y"]


async def test_closed_while_a_reply_attaches(serve: Serve) -> None:
    """The sender that was on its way does not outlive the responder."""
    async with serve(close_timeout=0.1) as (peer, connection), connection, anyio.create_task_group() as tasks:
        async with connection.responder("service") as responder:
            asked = await request(peer, responder, "replies")
            peer.answers = False

            async def reply() -> None:
                with pytest.raises(anyio.ClosedResourceError):
                    await asked.reply("x")

            tasks.start_soon(reply)
            await anyio.wait_all_tasks_blocked()
        peer.answer()
        await anyio.wait_all_tasks_blocked()
        assert not any(link.attached for link in peer.links.values())
        assert peer.bodies() == []


async def test_replies_during_an_outage(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reply waits for the sender that is away and comes back; no other one is attached beside it."""
    reconnect = replace(QUICK, on_stale="ignore")
    async with hosting(monkeypatch) as hosts, connecting(reconnect=reconnect) as connection:
        async with connection.responder("service") as responder:

            async def answer(number: int) -> None:
                await hosts.credit("service")
                hosts.peer.send("service", Message(number, reply_to="replies", correlation_id=number).encode())
                request = await responder.receive()
                if number:
                    return await answered(request)
                await request.reply("first")
                return None

            async def answered(request: Request) -> None:
                hosts.down = {"a"}
                events = connection.events()
                await hosts.cut()
                while type(await anext(events)) is not ConnectionInterrupted:
                    pass
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(request.reply, "second")
                    await anyio.wait_all_tasks_blocked()
                    hosts.down = set()

            await answer(0)
            assert len(responder._senders) == 1
            await answer(1)
            assert "second" in hosts.peer.bodies()
            senders = [link for link in connection._core.links if link.kind == "sender"]
            assert len(senders) == len(responder._senders) == 1
