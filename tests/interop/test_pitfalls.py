"""The known faults of AMQP clients, by number, on the real brokers: each where it can be provoked there."""

from __future__ import annotations

import anyio
import pytest

from amqp10 import (
    AuthenticationFailed,
    Connection,
    Int,
    LinkDetached,
    Message,
    MessageReleased,
    SessionEnded,
    Symbol,
    UInt,
)

from ._matrix import Peer

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.interop,
    pytest.mark.timeout(600),
    # What the brokers do says nothing about our event loop, which the same tests on the embedded broker cover.
    pytest.mark.parametrize("anyio_backend", ["trio"]),
]


async def receive_all(connection: Connection, address: str, count: int) -> list[Message]:
    """That many messages, accepted."""
    async with connection.receiver(address) as receiver:
        messages: list[Message] = []
        while len(messages) < count:
            for delivery in await receiver.receive_batch(count - len(messages)):
                messages.append(delivery.message)
                delivery.accept()
        return messages


@pytest.mark.matrix("messages of many frames")
async def test_01_transfer_ids_are_not_delivery_ids(peer: Peer) -> None:
    """Pitfalls 1 and 24: messages of 74 frames go both ways, through small frames and a window of 64 transfers."""
    async with Connection(peer.url(), max_frame_size=4096, incoming_window=64) as connection:
        address = await peer.queue(connection)
        bodies = [bytes([number]) * 300_000 for number in range(8)]
        async with connection.sender(address) as sender:
            await sender.send_many(bodies)
        assert [message.body for message in await receive_all(connection, address, 8)] == bodies


@pytest.mark.timeout(900)
@pytest.mark.matrix("more messages than 2^16 on one session")
async def test_03_the_window_is_refreshed(peer: Peer) -> None:
    """Pitfalls 2 and 3: 70,000 messages each way on one session; RabbitMQ's transfer-ids wrap among the first.

    Broker-J grants each sender one credit at a time: ten of them take fewer writes and reads than one.
    """
    async with Connection(peer.url()) as connection:
        address = await peer.queue(connection)
        async with connection.receiver(address) as receiver, anyio.create_task_group() as tasks:

            async def send() -> None:
                async with connection.sender(address, settle_mode="settled") as sender:
                    for _ in range(7):
                        await sender.send_many(b"x" for _ in range(1000))

            for _ in range(10):
                tasks.start_soon(send)
            taken = 0
            while taken < 70_000:
                for delivery in await receiver.receive_batch(1000):
                    delivery.accept()
                    taken += 1
            assert (taken, receiver.buffered) == (70_000, 0)


@pytest.mark.matrix("unsettled messages do not stall others")
async def test_04_one_unsettled_message_stalls_nobody(peer: Peer) -> None:
    """Pitfall 4: the first of 5,000 is held to the end, in a window of 32; the others come, and another link's."""
    async with Connection(peer.url(), incoming_window=32) as connection:
        address, other = await peer.queue(connection), await peer.queue(connection)
        async with connection.sender(address) as sender, connection.sender(other) as another:
            await sender.send_many(range(5000))
            await another.send("from the other link")
        async with connection.receiver(address) as receiver, connection.receiver(other) as second:
            held = await receiver.receive()
            for number in range(1, 5000):
                delivery = await receiver.receive()
                assert delivery.message.body == number
                delivery.accept()
            (await second.receive()).accept()
            assert held.message.body == 0
            held.accept()


@pytest.mark.matrix("credit is obeyed to the message")
async def test_05_credit_is_what_was_granted(peer: Peer) -> None:
    """Pitfalls 5 and 7: three credits bring three messages; drained, the link takes new credit and goes on."""
    async with Connection(peer.url()) as connection:
        address = await peer.queue(connection)
        async with connection.sender(address) as sender:
            await sender.send_many(range(10))
        async with connection.receiver(address, credit=0) as receiver:
            for first in (0, 3, 6):
                receiver.add_credit(3)
                batch = [await receiver.receive() for _ in range(3)]
                assert [delivery.message.body for delivery in batch] == list(range(first, first + 3))
                for delivery in batch:
                    delivery.accept()
                assert await receiver.receive_batch(1, max_wait=0.2) == []
            receiver.add_credit(5)
            await receiver.drain()
            assert receiver.credit == 0
            (await receiver.receive()).accept()
            receiver.add_credit(1)
            await receiver.drain()
            assert await receiver.receive_batch(1, max_wait=0.1) == []
        async with connection.sender(address) as sender, connection.receiver(address) as receiver:
            await sender.send("after the drain")
            (await receiver.receive()).accept()


@pytest.mark.matrix("prefetched messages are released on close")
async def test_08_prefetched_messages_are_given_back(peer: Peer) -> None:
    """Pitfalls 6 and 8: of 50 prefetched one is taken; closing gives the others back at once, to that name again."""
    async with Connection(peer.url()) as connection:
        address = await peer.queue(connection)
        async with connection.sender(address) as sender:
            await sender.send_many(range(50))
        async with connection.receiver(address, credit=50, name="again") as receiver:
            (await receiver.receive()).accept()
        async with connection.receiver(address, credit=50, name="again") as receiver:
            with anyio.fail_after(60):
                rest = [await receiver.receive() for _ in range(49)]
            assert sorted(delivery.message.body for delivery in rest) == list(range(1, 50))
            for delivery in rest:
                delivery.accept()


@pytest.mark.matrix("cancelled receive loses nothing")
async def test_09_a_timeout_swallows_no_message(peer: Peer) -> None:
    """Pitfalls 9, 13 and 14: 200 receives with impatient deadlines; each message comes once."""
    async with Connection(peer.url()) as connection:
        address = await peer.queue(connection)
        async with connection.sender(address) as sender, connection.receiver(address, credit=5) as receiver:
            seen: list[object] = []

            async def send() -> None:
                for number in range(200):
                    await sender.send(number)

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(send)
                with anyio.fail_after(60):
                    while len(seen) < 200:
                        with anyio.move_on_after(0.001):
                            delivery = await receiver.receive()
                            seen.append(delivery.message.body)
                            delivery.accept()
            assert seen == list(range(200))


@pytest.mark.matrix("unroutable messages are not taken for sent")
async def test_11_nowhere_to_go(peer: Peer) -> None:
    """Pitfall 11: what cannot be routed is an exception, never silence, where the broker says so."""
    async with Connection(peer.url()) as connection:
        if peer.name != "rabbitmq":
            async with connection.sender(await peer.queue(connection)) as sender:
                await sender.send("a queue is made for it")
            peer.note("makes the queue")
            return
        async with connection.sender("/exchanges/amq.direct/no-such-key") as sender:
            with pytest.raises(MessageReleased) as caught:
                await sender.send("nobody wants it")
        assert "no queue" in str(caught.value)
        peer.note("released")


@pytest.mark.matrix("closing with messages in both directions")
async def test_12_closing_is_bounded(peer: Peer) -> None:
    """Pitfalls 10 and 12: with 500 prefetched and 500 sent that nobody waited for, everything closes in time."""
    with anyio.fail_after(60):
        async with Connection(peer.url()) as connection:
            address, other = await peer.queue(connection), await peer.queue(connection)
            async with connection.sender(address) as sender:
                await sender.send_many(range(500))
            async with connection.receiver(address, credit=500) as receiver, connection.sender(other) as sender:
                delivery = await receiver.receive()
                for number in range(500):
                    await sender.submit(number)
    with pytest.raises(anyio.ClosedResourceError):
        delivery.accept()


@pytest.mark.matrix("idle for longer than the idle timeouts")
async def test_15_heartbeats(peer: Peer) -> None:
    """Pitfalls 15 and 16: with 4 s of patience here, both sides keep a connection alive that nobody uses."""
    async with Connection(peer.url(), idle_timeout=4.0) as connection:
        address = await peer.queue(connection)
        await anyio.sleep(5)
        async with connection.sender(address) as sender:
            await sender.send("still here")
        assert connection.open


@pytest.mark.matrix("an unknown or forbidden node is refused with the reason")
async def test_25_refusal(peer: Peer) -> None:
    """Pitfall 25: the peer's reason for refusing a link is what the user sees."""
    async with Connection(peer.url()) as connection:
        if peer.name == "rabbitmq":
            with pytest.raises((LinkDetached, SessionEnded)) as caught:
                async with connection.receiver("/queues/no-such-queue"):
                    pass
            assert caught.value.condition == "amqp:not-found"
        elif peer.name == "artemis":
            with pytest.raises(LinkDetached) as caught:
                async with connection.receiver("forbidden.queue"):
                    pass
            assert caught.value.condition == "amqp:unauthorized-access"
        else:
            peer.note("makes every node on first use")
            async with connection.receiver(await peer.queue(connection)):
                pass


@pytest.mark.matrix("types survive")
async def test_26_types(peer: Peer) -> None:
    """Pitfall 26: numbers, symbols and bytes as keys come out as they went in."""
    body = {b"bytes": 1, UInt(2): Int(3), Symbol("symbol"): "string", "list": [Int(1), 1, UInt(1), True, 1.5]}
    async with Connection(peer.url()) as connection:
        address = await peer.queue(connection)
        async with connection.sender(address) as sender:
            await sender.send(Message(body))
        ((message,),) = [await receive_all(connection, address, 1)]
    assert message.body == body
    assert [type(key) for key in message.body] == [type(key) for key in body]
    assert [type(value) for value in message.body["list"]] == [Int, int, UInt, bool, float]


@pytest.mark.matrix("a wrong password is refused")
async def test_28_authentication(peer: Peer) -> None:
    """Pitfalls 28 and 31: credentials never fall back to ANONYMOUS, and the refusal does not show them."""
    with pytest.raises(AuthenticationFailed) as caught:
        async with Connection(peer.url(password="hunter2")):
            pass
    assert "hunter2" not in str(caught.value)
