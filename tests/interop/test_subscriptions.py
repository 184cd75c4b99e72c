"""Subscriptions, browsers and consumers before others: what each broker has, by the same calls."""

from __future__ import annotations

import secrets
from typing import Any

import anyio
import pytest

from amqp10 import (
    Connection,
    LinkDetached,
    LocalProtocolError,
    Message,
    Receiver,
    Selector,
    Target,
    Unsupported,
)

from ._matrix import Peer

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.interop,
    pytest.mark.timeout(600),
    # What the brokers do says nothing about our event loop.
    pytest.mark.parametrize("anyio_backend", ["trio"]),
    pytest.mark.capability("subscriptions"),
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
    with anyio.fail_after(60):
        while len(got) < count:
            with await receiver.receive() as message:
                got.append(message.body)
    assert await receiver.receive_batch(1, max_wait=0.2) == []
    return got


async def lacking(peer: Peer, topic: str) -> None:
    """RabbitMQ has no subscriptions over AMQP 1.0."""
    async with Connection(peer.url(), container_id=secrets.token_hex(4)) as connection:
        with pytest.raises(peer.refused):
            async with connection.subscription(topic, "s"):
                pass
    async with Connection(peer.url()) as connection:
        with pytest.raises(peer.refused):
            await connection.unsubscribe("s")
        assert connection.open
    peer.lacks(f"`{peer.refused.__name__}`; declare a queue, bind it to the exchange, and receive from that")


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
    settings: dict[str, Any] = {"shared": True, "durable": durable, "global_": global_, "credit": 0}
    container = secrets.token_hex(4)
    async with Connection(peer.url(), container_id=container) as one, Connection(peer.url()) as two:
        second = two if global_ else one
        async with one.subscription(topic, name, **settings) as here:
            async with second.subscription(topic, name, **settings) as there:
                here.add_credit(3)
                there.add_credit(3)
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


@pytest.mark.matrix("a second receiver of the same subscription")
async def test_second(peer: Peer) -> None:
    """The same container again, and a subscription that is not shared: it is stolen, or the second is refused."""
    topic, container = fresh_topic(peer), f"c{secrets.token_hex(4)}"
    if peer.name == "rabbitmq":
        await lacking(peer, topic)
        return
    async with (
        Connection(peer.url(), container_id=container) as one,
        Connection(peer.url(), container_id=container) as two,
        one.subscription(topic, "s", credit=0) as first,
    ):
        await tell(peer, topic, 1)
        if peer.name == "artemis":
            with pytest.raises(LinkDetached, match="Maximum Consumer Limit"):
                async with two.subscription(topic, "s"):
                    pass
            peer.note("refused with `amqp:internal-error`")
            first.add_credit(1)
            assert await take(first, 1) == [1]
        else:
            async with two.subscription(topic, "s") as second:
                with pytest.raises(LinkDetached, match="amqp:link:stolen"):
                    await first.receive()
                kept = [] if peer.name == "broker_j" else [1]
                assert await take(second, len(kept)) == kept
                await tell(peer, topic, 2)
                assert await take(second, 1) == [2]
            peer.note("it takes over: `amqp:link:stolen`" + ("" if kept else ", and what waited is dropped"))
    async with Connection(peer.url(), container_id=container) as connection:
        await connection.unsubscribe("s")


@pytest.mark.matrix("unsubscribing while it is in use")
async def test_unsubscribe_in_use(peer: Peer) -> None:
    """Here it is refused before a byte is sent; whether by another connection is the broker's decision."""
    topic, container = fresh_topic(peer), f"c{secrets.token_hex(4)}"
    if peer.name == "rabbitmq":
        await lacking(peer, topic)
        return
    async with (
        Connection(peer.url(), container_id=container) as one,
        Connection(peer.url(), container_id=container) as two,
        one.subscription(topic, "s") as receiver,
    ):
        with pytest.raises(LocalProtocolError, match="in use by this connection"):
            await one.unsubscribe("s")
        if peer.name == "broker_j":
            await two.unsubscribe("s")
            with pytest.raises(LinkDetached, match="amqp:link:stolen"):
                await receiver.receive()
            peer.note("by another connection of the container it ends, under its receiver")
            return
        with pytest.raises(LinkDetached, match="Maximum Consumer Limit" if peer.name == "artemis" else "in use"):
            await two.unsubscribe("s")
        await tell(peer, topic, 1)
        assert await take(receiver, 1) == [1]
        await receiver.close()


@pytest.mark.matrix("closing one of several receivers that share")
async def test_one_of_several_closes(peer: Peer) -> None:
    """The subscription is there as long as another has it."""
    topic = fresh_topic(peer)
    if peer.name == "rabbitmq":
        await lacking(peer, topic)
        return
    async with Connection(peer.url(), container_id=f"c{secrets.token_hex(4)}") as connection:
        async with connection.subscription(topic, "s", shared=True) as stays:
            async with connection.subscription(topic, "s", shared=True) as goes:
                await goes.close()
            with pytest.raises(LocalProtocolError):
                await connection.unsubscribe("s", shared=True)
            await tell(peer, topic, 1)
            assert await take(stays, 1) == [1]
        await connection.unsubscribe("s", shared=True)


@pytest.mark.matrix("another filter: the subscription begins anew")
async def test_replaced(peer: Peer) -> None:
    """What waited by the old filter is gone, what comes is chosen by the new one."""
    topic = fresh_topic(peer)
    if peer.name == "rabbitmq":
        await lacking(peer, topic)
        return
    async with Connection(peer.url(), container_id=f"c{secrets.token_hex(4)}") as connection:
        async with connection.sender(Target(topic, capabilities=("topic",))) as sender:
            async with connection.subscription(topic, "s", filters=[Selector("n = 1")]):
                pass
            await sender.send(Message("old", application_properties={"n": 1}))
            async with connection.subscription(topic, "s", filters=[Selector("n = 2")]) as receiver:
                for number in (1, 2):
                    await sender.send(Message(number, application_properties={"n": number}))
                assert await take(receiver, 1) == [2]
        await connection.unsubscribe("s")


async def kept_over(connection: Connection, topic: str, pause: float) -> bool:
    """Return whether a subscription with a timeout of a second is still there after a pause; it is not afterwards."""
    async with connection.subscription(topic, "s", timeout=1):
        pass
    await anyio.sleep(pause)
    try:
        await connection.unsubscribe("s")
    except LinkDetached as error:
        if error.condition != "amqp:not-found":
            raise
        return False
    return True


@pytest.mark.matrix("a subscription with a timeout")
async def test_timeout(peer: Peer) -> None:
    """It ends in time where it is kept so long; who would end it at once is found out, by its answer or its profile."""
    topic = fresh_topic(peer)
    if peer.name == "rabbitmq":
        await lacking(peer, topic)
        return
    async with Connection(peer.url(), container_id=f"c{secrets.token_hex(4)}") as connection:
        if peer.name != "embedded":
            with pytest.raises(Unsupported, match="does not keep"):
                async with connection.subscription(topic, "s", timeout=60):
                    pass
            peer.lacks("`Unsupported`: it would end at once")
            return
        pause = 1.0
        with anyio.fail_after(180):
            while await kept_over(connection, topic, pause):
                pause *= 2


@pytest.mark.matrix("browse a queue to its end")
async def test_browser(peer: Peer) -> None:
    """The iteration ends when all was seen, and all is still there."""
    async with Connection(peer.url()) as connection:
        address = await peer.queue(connection)
        async with connection.sender(address) as sender:
            await sender.send_many([Message(number) for number in range(250)])
        if peer.newest:
            with pytest.raises(Unsupported, match="does not browse"):
                async with connection.browser(address):
                    pytest.fail("it has entered")
            peer.lacks("`Unsupported`")
        for _ in range(0 if peer.newest else 2):
            with anyio.fail_after(60):
                async with connection.browser(address) as browser:
                    assert [delivery.message.body async for delivery in browser] == list(range(250))
        if peer.name == "rabbitmq" and not peer.newest:
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
