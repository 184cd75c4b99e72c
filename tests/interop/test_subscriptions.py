"""Subscriptions, browsers and consumers before others: what each broker has, by the same calls."""

from __future__ import annotations

import secrets
from typing import Any

import anyio
import pytest

from amqp10 import Connection, LinkDetached, Message, Receiver, SessionEnded, Target, Unsupported

from ._matrix import Peer

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.interop,
    pytest.mark.timeout(600),
    # What the brokers do says nothing about our event loop.
    pytest.mark.parametrize("anyio_backend", ["trio"]),
]

SHARING = [(False, False), (True, False), (True, True)]


def fresh_topic(peer: Peer) -> str:
    """A topic that no other test uses; on Broker-J a key of an exchange, for it makes none on demand."""
    prefix = {"broker_j": "amq.topic/", "rabbitmq": "/exchanges/amq.topic/"}.get(peer.name, "topic.")
    return prefix + secrets.token_hex(6)


async def tell(peer: Peer, topic: str, *bodies: object) -> None:
    """Send these to the topic."""
    async with Connection(peer.url()) as connection:
        async with connection.sender(Target(topic, capabilities=("topic",))) as sender:
            for body in bodies:
                await sender.send(Message(body))


async def take(receiver: Receiver, count: int) -> list[object]:
    """That many, accepted; and then there is nothing more."""
    got: list[object] = []
    with anyio.fail_after(20):
        while len(got) < count:
            with await receiver.receive() as message:
                got.append(message.body)
    assert await receiver.receive_batch(1, max_wait=0.2) == []
    return got


async def lacking(peer: Peer, topic: str) -> None:
    """RabbitMQ has no subscriptions over AMQP 1.0."""
    async with Connection(peer.url(), container_id=secrets.token_hex(4)) as connection:
        with pytest.raises(SessionEnded):
            async with connection.subscription(topic, "s"):
                pass
    async with Connection(peer.url()) as connection:
        with pytest.raises(SessionEnded, match="internal-error"):
            await connection.unsubscribe("s")
        assert connection.open
    peer.lacks("`SessionEnded`; declare a queue, bind it to the exchange, and receive from that")


@pytest.mark.matrix("durable subscription, shared and global ones")
@pytest.mark.parametrize(("shared", "global_"), SHARING)
async def test_durable(peer: Peer, shared: bool, global_: bool) -> None:
    """It takes in what comes while nobody is there, and ends by `unsubscribe`."""
    topic, name = fresh_topic(peer), f"s{secrets.token_hex(4)}"
    if peer.name == "rabbitmq":
        await lacking(peer, topic)
        return
    containers = iter([f"c{secrets.token_hex(4)}" for _ in range(9)] if global_ else [f"c{secrets.token_hex(4)}"] * 9)

    async def heard(count: int) -> list[object]:
        async with Connection(peer.url(), container_id=next(containers)) as connection:
            async with connection.subscription(topic, name, shared=shared, global_=global_) as receiver:
                return await take(receiver, count)

    async def unsubscribe() -> None:
        async with Connection(peer.url(), container_id=next(containers)) as connection:
            await connection.unsubscribe(name, shared=shared, global_=global_)

    assert await heard(0) == []
    await tell(peer, topic, 1, 2)
    assert await heard(2) == [1, 2]
    await tell(peer, topic, 3)
    await unsubscribe()
    with pytest.raises(LinkDetached) as caught:
        await unsubscribe()
    assert caught.value.condition == "amqp:not-found"
    assert await heard(0) == []
    await unsubscribe()


@pytest.mark.matrix("receivers share a subscription")
@pytest.mark.parametrize("durable", [False, True])
@pytest.mark.parametrize("global_", [False, True])
async def test_shared(peer: Peer, durable: bool, global_: bool) -> None:
    """Each message goes to one of them."""
    topic, name = fresh_topic(peer), f"s{secrets.token_hex(4)}"
    if peer.name == "rabbitmq":
        await lacking(peer, topic)
        return
    settings: dict[str, Any] = {"shared": True, "durable": durable, "global_": global_}
    container = secrets.token_hex(4)
    async with Connection(peer.url(), container_id=container) as one, Connection(peer.url()) as two:
        second = two if global_ else one
        async with one.subscription(topic, name, **settings) as here:
            async with second.subscription(topic, name, **settings) as there:
                await tell(peer, topic, *range(6))
                got = [*await take(here, 3), *await take(there, 3)]
                assert sorted(got, key=str) == list(range(6))
        if durable:
            await one.unsubscribe(name, shared=True, global_=global_)


@pytest.mark.matrix("closing the receiver ends the subscription")
async def test_closed(peer: Peer) -> None:
    """What comes after `close()` is not kept."""
    topic, container = fresh_topic(peer), f"c{secrets.token_hex(4)}"
    if peer.name == "rabbitmq":
        await lacking(peer, topic)
        return
    async with Connection(peer.url(), container_id=container) as connection:
        async with connection.subscription(topic, "s") as receiver:
            await receiver.close()
        await tell(peer, topic, 1)
        async with connection.subscription(topic, "s") as receiver:
            assert await take(receiver, 0) == []
            await receiver.close()


@pytest.mark.matrix("browse a queue to its end")
async def test_browser(peer: Peer) -> None:
    """The iteration ends when all was seen, and all is still there."""
    async with Connection(peer.url()) as connection:
        address = await peer.queue(connection)
        async with connection.sender(address) as sender:
            await sender.send_many([Message(number) for number in range(250)])
        for _ in range(2):
            with anyio.fail_after(20):
                async with connection.browser(address) as browser:
                    assert [delivery.message.body async for delivery in browser] == list(range(250))
        if peer.name == "rabbitmq":
            peer.note("messages are taken and come back")
        async with connection.receiver(address, credit=300) as receiver:
            assert await take(receiver, 250) == list(range(250))


@pytest.mark.matrix("priority of consumers")
async def test_priority(peer: Peer) -> None:
    """While the one of higher priority has credit, it gets all."""
    async with Connection(peer.url()) as connection:
        address = await peer.queue(connection)
        async with (
            connection.receiver(address, priority=1) as low,
            connection.receiver(address, priority=5) as high,
            connection.sender(address) as sender,
        ):
            await sender.send_many([Message(number) for number in range(20)])
            assert await take(high, 20) == list(range(20))
            assert low.buffered == 0
    if peer.name == "broker_j":
        peer.note("a consumer that names none is before all others")


@pytest.mark.matrix("exclusive consumer")
async def test_exclusive(peer: Peer) -> None:
    """The second is refused; a broker that does not know the wish is not taken to grant it."""
    async with Connection(peer.url()) as connection:
        address = await peer.queue(connection)
        if peer.name != "embedded":
            with pytest.raises(Unsupported, match="exclusive"):
                async with connection.receiver(address, exclusive=True):
                    pass
            peer.lacks("`Unsupported`; the queue can be made so: see the page")
            return
        async with connection.receiver(address, exclusive=True):
            with pytest.raises(LinkDetached, match="resource-locked"):
                async with connection.receiver(address):
                    pass
