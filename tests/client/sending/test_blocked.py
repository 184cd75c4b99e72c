"""A broker that takes no messages for a while: who sends waits as without credit, and hears of it (0-9-1)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import anyio
import anyio.lowlevel
import pytest
from anyio.abc import ByteStream

from amqp10 import Connection, ConnectionBlocked, ConnectionUnblocked, Sender
from amqp10.broker.internals import memory_streams
from amqp10.dialects.v0_9.wire.methods import (
    BasicAck,
    BasicPublish,
    ChannelClose,
    ChannelCloseOk,
    ChannelFlow,
    ChannelFlowOk,
    ConnectionClose,
    ConnectionCloseOk,
)
from amqp10.dialects.v0_9.wire.methods import ConnectionBlocked as Blocked
from amqp10.dialects.v0_9.wire.methods import ConnectionUnblocked as Unblocked

from ...kit.dialects.v0_9.method_peer import MethodPeer
from ...kit.inside.client import Observer

pytestmark = [pytest.mark.anyio, pytest.mark.in_memory]


@asynccontextmanager
async def sending(
    here: ByteStream, peer: MethodPeer, broker: Callable[[int], Awaitable[None]]
) -> AsyncIterator[tuple[Sender, Observer]]:
    """A sender at the peer, which then does as `broker` says, and at last closes what there is to close; and what its
    connection tells."""

    async def serve() -> None:
        await peer.accept_connection()
        channel = await peer.accept_sender()
        await broker(channel)
        await peer.expect(ChannelClose)
        await peer.send(channel, ChannelCloseOk())
        await peer.expect(ConnectionClose)
        await peer.send(0, ConnectionCloseOk())

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(serve)
        with anyio.fail_after(60):
            async with Connection.over(here, dialect="0-9-1") as connection:
                events = connection.events()
                async with connection.sender("q") as sender:
                    yield sender, events


@pytest.mark.parametrize("how", ["connection.blocked", "channel.flow"])
async def test_sending_waits(how: str) -> None:
    """Messages sent meanwhile go out when the broker takes messages again, and not before. Nothing is lost."""
    here, there = memory_streams()
    async with MethodPeer.over(there) as peer:
        waiting = anyio.Event()

        async def broker(channel: int) -> None:
            await peer.expect(BasicPublish)
            if how == "channel.flow":
                await peer.send(channel, ChannelFlow(False), BasicAck(1))
                assert not (await peer.expect(ChannelFlowOk)).active
            else:
                await peer.send(0, Blocked("low on memory"))
                await peer.send(channel, BasicAck(1))
            await waiting.wait()
            if how == "channel.flow":
                await peer.send(channel, ChannelFlow(True))
                assert (await peer.expect(ChannelFlowOk)).active  # said before any publish
            else:
                await peer.send(0, Unblocked())
            await peer.expect(BasicPublish)
            await peer.expect(BasicPublish)
            await peer.send(channel, BasicAck(3, True))

        async with sending(here, peer, broker) as (sender, events):
            await sender.send(b"1")  # confirmed while it is blocked
            assert sender.credit == 0
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(sender.send, b"2")
                tasks.start_soon(sender.send, b"3")
                await anyio.wait_all_tasks_blocked()
                waiting.set()
            assert sender.credit > 0
            if how == "connection.blocked":
                assert await anext(events) == ConnectionBlocked("low on memory")
                assert await anext(events) == ConnectionUnblocked()
    assert peer.bodies[0] == b"1"
    assert sorted(peer.bodies[1:]) == [b"2", b"3"]


async def test_cancelled_meanwhile() -> None:
    """A task that stops waiting has sent nothing and leaves nothing behind: the next message is the next one."""
    here, there = memory_streams()
    async with MethodPeer.over(there) as peer:
        cancelled = anyio.Event()

        async def broker(channel: int) -> None:
            await peer.send(0, Blocked(""))
            await cancelled.wait()
            await peer.send(0, Unblocked())
            await peer.expect(BasicPublish)
            await peer.send(channel, BasicAck(1))

        async with sending(here, peer, broker) as (sender, events):
            assert isinstance(await anext(events), ConnectionBlocked)
            with anyio.move_on_after(0.01) as scope:
                await sender.send(b"never")
            assert scope.cancelled_caught
            cancelled.set()
            await sender.send(b"next")
    assert peer.bodies == [b"next"]


async def test_attached_meanwhile() -> None:
    """A link that comes while the broker is blocked waits, too."""
    here, there = memory_streams()
    async with MethodPeer.over(there) as peer:

        async def broker(channel: int) -> None:
            await peer.send(0, Blocked("disk"))
            second = await peer.accept_sender()
            await anyio.lowlevel.checkpoint()
            await peer.send(0, Unblocked())
            await peer.expect(BasicPublish)
            assert peer.channel == second
            await peer.send(second, BasicAck(1))
            await peer.expect(ChannelClose)
            await peer.send(second, ChannelCloseOk())

        async with sending(here, peer, broker) as (sender, events):
            assert isinstance(await anext(events), ConnectionBlocked)
            async with sender.connection.sender("q") as late:
                await late.send(b"m")


async def test_left_while_blocked() -> None:
    """Leaving a blocked connection takes no longer than it may: the broker may not even read its close."""
    here, there = memory_streams()
    async with MethodPeer.over(there) as peer, anyio.create_task_group() as tasks:

        async def serve() -> None:
            await peer.accept_connection()
            await peer.accept_sender()
            await peer.send(0, Blocked("memory"))

        tasks.start_soon(serve)
        with anyio.fail_after(60):
            async with Connection.over(here, dialect="0-9-1", close_timeout=0.1) as connection:
                events = connection.events()
                async with connection.sender("q") as sender:
                    assert await anext(events) == ConnectionBlocked("memory")
                    assert sender.credit == 0
