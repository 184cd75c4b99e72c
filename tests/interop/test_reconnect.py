"""Connections that break on their way to the real brokers, and come back."""

from __future__ import annotations

import random
from collections import Counter
from contextlib import AsyncExitStack
from typing import Any

import anyio
import pytest

from amqp10 import (
    AuthenticationFailed,
    Connection,
    ConnectionDetails,
    ConnectionRestored,
    EndpointError,
    LinkInterrupted,
    Message,
    Plain,
    Reconnect,
    StaleDelivery,
)
from amqp10.rabbitmq import management, queue_address
from amqp10.testing import FaultProxy

from ._matrix import Peer, fresh_name
from .brokers import Server

pytestmark = [pytest.mark.anyio, pytest.mark.interop, pytest.mark.timeout(600), pytest.mark.capability("reconnect")]

QUICK = Reconnect(initial_delay=0.02, max_delay=0.2)
COUNT = 1500
CUTS = 6


async def exchange(peer: Peer, mode: str) -> tuple[int, set[int]]:
    """Send and receive through a connection that breaks again and again; how many came, and which."""
    rng = random.Random(f"{peer.name} {mode}")
    bodies: list[int] = []
    async with FaultProxy(peer.url()) as proxy, Connection(proxy.url, reconnect=QUICK) as connection:
        address = await peer.queue(connection)
        events = connection.events()

        async def receive() -> None:
            async with connection.receiver(address, receiver_settle_mode=mode) as receiver:  # type: ignore[arg-type]
                async for delivery in receiver:
                    bodies.append(delivery.message.body)
                    try:
                        delivery.accept()
                    except StaleDelivery:
                        pass  # it comes again
                    if len(set(bodies)) == COUNT:
                        return

        async def send() -> None:
            async with connection.sender(address, receiver_settle_mode=mode) as sender:  # type: ignore[arg-type]
                for first in range(0, COUNT, COUNT // CUTS):
                    proxy.cut_after(rng.randrange(4000), rng.choice(("up", "down")))
                    part = range(first, min(COUNT, first + COUNT // CUTS))
                    await sender.send_many((Message(number, durable=True) for number in part), window=100)

        with anyio.fail_after(120):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(receive)
                tasks.start_soon(send)
        assert proxy.cuts >= CUTS // 2
        restored = 0
        with anyio.move_on_after(0):
            async for event in events:
                restored += isinstance(event, ConnectionRestored)
        assert restored >= CUTS // 2
    return len(bodies), set(bodies)


@pytest.mark.matrix("reconnect: nothing is lost through broken connections")
async def test_at_least_once(peer: Peer) -> None:
    """Pitfalls 19 and 20: sender and receiver go on by themselves after each break; every message arrives."""
    _, bodies = await exchange(peer, "first")
    assert bodies == set(range(COUNT))


@pytest.mark.matrix("reconnect: exactly once, by link resume")
async def test_exactly_once(peer: Peer) -> None:
    """With receiver-settle-mode "second" a peer that resumes links has each message once; with others none is lost."""
    async with Connection(peer.url()) as connection:
        profile = connection.profile
        if peer.name == "rabbitmq":
            address = await peer.queue(connection)
            with pytest.raises(peer.refused, match="rcv-settle-mode second not supported"):
                async with connection.receiver(address, receiver_settle_mode="second"):
                    pytest.fail("it has no such mode")
            peer.lacks(f"`{peer.refused.__name__}`")
            return
    count, bodies = await exchange(peer, "second")
    assert bodies == set(range(COUNT))
    if peer.name == "embedded":
        assert count == COUNT
    else:
        assert not profile.resumes
        peer.lacks("at least once")


@pytest.mark.matrix("reconnect: the next host, and credentials anew")
async def test_hosts_and_credentials(peer: Peer) -> None:
    """Pitfalls 19 and 21: a host that is not there is passed over; each attempt asks for its credentials."""
    async with FaultProxy(peer.url()) as gone:
        dead = gone.url
    async with Connection([dead, peer.url()], reconnect=QUICK) as connection:
        address = await peer.queue(connection)
        async with connection.sender(address) as sender:
            await sender.send("x")
    asked = 0

    async with FaultProxy(peer.url()) as proxy:

        async def details() -> ConnectionDetails:
            nonlocal asked
            asked += 1
            return ConnectionDetails(proxy.url)

        async with Connection(details, reconnect=QUICK) as connection:
            async with connection.receiver(address) as receiver:
                events = connection.events()
                proxy.cut()
                while not isinstance(await anext(events), ConnectionRestored):
                    pass
                with await receiver.receive() as message:
                    assert message.body == "x"
    assert asked == 2
    if peer.name == "embedded":
        return  # it lets everyone in
    wrong = Plain("guest", "wrong", allow_insecure=True)
    with pytest.raises(AuthenticationFailed):
        async with Connection(peer.url(), sasl=wrong, reconnect=QUICK):
            pytest.fail("the wrong password was taken")


async def test_a_queue_that_is_made_again(rabbitmq: Server) -> None:
    """RabbitMQ: a queue is deleted under its links and declared again: both go on, though it ends their session."""
    name = fresh_name()
    async with Connection(rabbitmq.url()) as admin, management(admin) as queues:
        await queues.declare_queue(name)
        async with Connection(rabbitmq.url(), reconnect=QUICK) as connection:
            address = queue_address(name)
            async with connection.sender(address) as sender, connection.receiver(address) as receiver:
                events = connection.events()
                await queues.delete_queue(name)
                conditions: list[str | None] = []
                while len(conditions) < 4:
                    event = await anext(events)
                    if isinstance(event, LinkInterrupted):
                        assert isinstance(event.cause, EndpointError)
                        conditions.append(event.cause.condition)
                # A link attached while its queue is going ends the session with an internal error, at times.
                assert "amqp:resource-deleted" in conditions
                assert set(conditions) <= {"amqp:resource-deleted", "amqp:not-found", "amqp:internal-error"}
                await queues.declare_queue(name)
                with anyio.fail_after(60):
                    await sender.send("again")
                    with await receiver.receive() as message:
                        assert message.body == "again"
        await queues.delete_queue(name)


async def test_one_bad_link_among_many(rabbitmq: Server) -> None:
    """RabbitMQ: two queues are deleted and others on the same session go on, as long as it takes."""
    names = [fresh_name() for _ in range(6)]
    lost = {names[1], names[4]}
    async with Connection(rabbitmq.url()) as admin, management(admin) as queues:
        for name in names:
            await queues.declare_queue(name)
        async with Connection(rabbitmq.url(), reconnect=QUICK) as connection, AsyncExitStack() as stack:
            senders = {name: await stack.enter_async_context(connection.sender(queue_address(name))) for name in names}
            receivers = {
                name: await stack.enter_async_context(connection.receiver(queue_address(name))) for name in names
            }
            events = connection.events()
            for name in lost:
                await queues.delete_queue(name)
            away: Counter[Any] = Counter()
            with anyio.fail_after(60):
                async for event in events:
                    if isinstance(event, LinkInterrupted):
                        away[event.link] += 1
                    if min(away[receivers[name]] for name in lost) > 4:
                        break
                for name in names:
                    link = receivers[name]
                    if name in lost:
                        await queues.declare_queue(name)
                    else:
                        assert max(away[link], away[senders[name]]) <= 4  # at most once for each that is bad
                    await senders[name].send(name)
                    with await link.receive() as message:
                        assert message.body == name
        for name in names:
            await queues.delete_queue(name)
