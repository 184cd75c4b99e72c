"""Streamed deliveries whose end comes early, or that are malformed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio
import pytest

from amqp10.engine import OutcomesReceived
from amqp10.errors import ConnectionLost, DecodeError, DeliveryAborted, LinkDetached
from amqp10.messaging import (
    Error,
    Message,
    Released,
    data_head,
)
from amqp10.profiles import Profile

from ...kit.client.streams import Streams, read, waiting

pytestmark = [pytest.mark.anyio, pytest.mark.in_memory]

Serve = Callable[..., Any]
QUICK = Profile("quick", "Takes outcomes at any time", early_outcomes=True)


async def test_aborted_while_it_is_read(serve: Serve) -> None:
    """The reader hears of it; nothing is to be settled, and the next delivery comes."""
    async with serve() as (peer, connection), connection, anyio.create_task_group() as tasks:
        async with connection.receiver("q", stream=True) as receiver:
            await anyio.wait_all_tasks_blocked()
            streams = Streams(peer)
            sent = streams.begin(data_head(100), b"x")
            delivery = await receiver.receive()
            body = delivery.iter_body()
            assert await body.__anext__() == b"x"
            ended = await waiting(body.__anext__, tasks)
            streams.link.abort(sent)
            peer.pump.wake()
            await anyio.wait_all_tasks_blocked()
            assert isinstance(ended[0], DeliveryAborted)
            with pytest.raises(DeliveryAborted):
                await read(delivery)
            delivery.accept()
            await delivery.wait_settled()
            streams.send(Message(b"next"))
            assert await read(await receiver.receive()) == b"next"


@pytest.mark.parametrize("head", [b"\x00", data_head(100) + b"x"])
async def test_aborted_before_it_is_taken(serve: Serve, head: bytes) -> None:
    """It was never there, whether its head had come or not; the credit it used is granted again."""
    async with serve() as (peer, connection), connection, connection.receiver("q", stream=True) as receiver:
        await anyio.wait_all_tasks_blocked()
        streams = Streams(peer)
        for _ in range(3):
            sent = streams.begin(head)
            await anyio.wait_all_tasks_blocked()
            streams.link.abort(sent)
            peer.pump.wake()
            await anyio.wait_all_tasks_blocked()
            assert receiver.buffered == 0
            assert receiver.credit == streams.link.credit == 1
        streams.send(Message(b"next"))
        assert await read(await receiver.receive()) == b"next"


async def test_the_peer_detaches(serve: Serve) -> None:
    """The part that has arrived can be read; then the reason is raised."""
    async with serve() as (peer, connection), connection, anyio.create_task_group() as tasks:
        receiver = connection.receiver("q", stream=True)
        await receiver.__aenter__()
        await anyio.wait_all_tasks_blocked()
        streams = Streams(peer)
        streams.begin(data_head(100), b"x")
        delivery = await receiver.receive()
        body = delivery.iter_body()
        assert await body.__anext__() == b"x"
        ended = await waiting(body.__anext__, tasks)
        streams.link.detach(error=Error("amqp:resource-deleted", "gone"))
        peer.pump.wake()
        await anyio.wait_all_tasks_blocked()
        # The engine of the peer aborts what it has not sent whole, before it detaches.
        assert isinstance(ended[0], DeliveryAborted | LinkDetached)
        await receiver.__aexit__(None, None, None)
        assert [session.begun for session in peer.sessions] == [False]


async def test_the_connection_is_lost(serve: Serve) -> None:
    """The cause comes to the reader."""
    async with serve() as (peer, connection), connection, anyio.create_task_group() as tasks:
        async with connection.receiver("q", stream=True) as receiver:
            await anyio.wait_all_tasks_blocked()
            Streams(peer).begin(data_head(100) + b"x")
            delivery = await receiver.receive()
            body = delivery.iter_body()
            assert await body.__anext__() == b"x"
            ended = await waiting(body.__anext__, tasks)
            await peer.stream.aclose()
            await anyio.wait_all_tasks_blocked()
            assert isinstance(ended[0], ConnectionLost)
            with pytest.raises(ConnectionLost):
                delivery.accept()


async def test_leaving_in_the_middle(serve: Serve) -> None:
    """It takes no time, though the peer has much more to send; who still reads is told."""
    async with serve(close_timeout=600) as (peer, connection), connection, anyio.create_task_group() as tasks:
        async with connection.receiver("q", stream=True) as receiver:
            await anyio.wait_all_tasks_blocked()
            streams = Streams(peer)
            sent = streams.begin(data_head(2_000_000), *[bytes(1000)] * 1000)
            delivery = await receiver.receive()
            async for _ in delivery.iter_body():
                break
            other = await receiver.receive() if receiver.buffered else delivery
            assert other is delivery
        assert peer.ended[0].link is streams.link
        assert not sent.remote_settled
        with pytest.raises(anyio.ClosedResourceError):
            await read(delivery)
        async with connection.receiver("r", stream=True) as receiver:
            await anyio.wait_all_tasks_blocked()
            Streams(peer, "r").begin(data_head(10))
            delivery = await receiver.receive()
            ended = await waiting(lambda: read(delivery), tasks)
        await anyio.wait_all_tasks_blocked()
        assert isinstance(ended[0], anyio.ClosedResourceError)


@pytest.mark.parametrize("head", [b"\x00", data_head(100) + b"x"])
async def test_leaving_gives_back_what_was_not_taken(serve: Serve, head: bytes) -> None:
    """Deliveries that wait here, whole or not, are released; one that begins in the drain is not waited for."""
    async with serve(close_timeout=600) as (peer, connection), connection:
        released: list[Any] = []

        def on_event(event: Any) -> bool:
            if isinstance(event, OutcomesReceived):
                released.extend(event.deliveries)
            return False

        peer.on_event = on_event
        async with connection.receiver("q", stream=True, credit=10) as receiver:
            await anyio.wait_all_tasks_blocked()
            streams = Streams(peer)
            sent = [streams.send(Message(b"one")), streams.begin(head)]
            await anyio.wait_all_tasks_blocked()
            assert receiver.buffered == (1 if head == b"\x00" else 2)
        assert released == sent
        assert all(delivery.remote_state == Released() for delivery in sent)

        def begin(event: Any) -> bool:
            if type(event).__name__ == "CreditChanged" and event.link.drain:
                sent.append(event.link.send(head, more=True))
                return True
            return on_event(event)

        peer.on_event = begin
        async with connection.receiver("r", stream=True):
            await anyio.wait_all_tasks_blocked()
        assert len(sent) == 3
        assert sent[2].remote_state == Released()


@pytest.mark.parametrize(
    "payload",
    [
        pytest.param(b"\x40", id="no section"),
        pytest.param(Message(application_properties={"x": "y" * 1_100_000}).encode_head(), id="too long a head"),
        pytest.param(Message("x" * 1_100_000).encode(), id="too long a value"),
    ],
)
async def test_a_head_that_is_not_understood(serve: Serve, payload: bytes) -> None:
    """The delivery is handed out, to be settled; its message says what is wrong."""
    async with serve(profile=QUICK) as (peer, connection), connection:
        async with connection.receiver("q", stream=True) as receiver:
            await anyio.wait_all_tasks_blocked()
            streams = Streams(peer)
            sent = streams.begin(payload)
            delivery = await receiver.receive()
            for _ in range(2):
                with pytest.raises(DecodeError):
                    delivery.message.check()
                with pytest.raises(DecodeError):
                    await read(delivery)
            with pytest.raises(DecodeError), delivery:
                pass
            await anyio.wait_all_tasks_blocked()
            assert sent.remote_state.error.condition == "amqp:decode-error"
            streams.more(sent, last=b"")
            streams.send(Message(b"next"))
            assert await read(await receiver.receive()) == b"next"


async def test_a_body_that_is_malformed(serve: Serve) -> None:
    """The valid part comes out, and then each call raises the error."""
    async with serve() as (peer, connection), connection, connection.receiver("q", stream=True) as receiver:
        await anyio.wait_all_tasks_blocked()
        peer.send("q", data_head(3) + b"one" + b"\x00\x53\x75\xa1\x01x")
        delivery = await receiver.receive()
        body = delivery.iter_body()
        assert await body.__anext__() == b"one"
        for _ in range(2):
            with pytest.raises(DecodeError, match="data"):
                await body.__anext__()
        delivery.reject("amqp:decode-error")
