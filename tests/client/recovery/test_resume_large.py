"""Large messages through connections that are cut in the middle of them: they go on where they were cut off."""

from __future__ import annotations

import random

import anyio
import pytest

from amqp10 import Connection, ConnectionLost, Message, Reconnect
from amqp10.broker import Broker
from amqp10.testing import FaultProxy

pytestmark = [pytest.mark.anyio]

TOTAL = 24
SIZES = (100, 20_000, 300_000, 700_000)
CUTS = 10


def body(number: int) -> bytes:
    """Return the body of the message of that number. No part of the body is like another."""
    return random.Random(number).randbytes(SIZES[number % len(SIZES)])


@pytest.mark.spec("2.6.13", "a large message cut off in the middle goes on from there, on both sides of a broker")
@pytest.mark.parametrize("stream", [False, True])
async def test_large_messages(stream: bool) -> None:
    """Whole and once, whether they are read when they are there or while they come in."""
    chance = random.Random(7)
    received: list[int] = []
    async with Broker() as broker, FaultProxy(broker.url) as proxy, anyio.create_task_group() as tasks:

        def connection() -> Connection:
            return Connection(proxy.url, reconnect=Reconnect(initial_delay=0.01, max_delay=0.1), max_frame_size=4096)

        async def cut() -> None:
            ways = sorted(proxy.passed)
            for _ in range(CUTS):
                proxy.cut_after(chance.randrange(1000, 600_000), chance.choice(ways))
                await proxy.until_cut()

        async def send(sender_number: int) -> None:
            async with connection() as sending, sending.sender("q", receiver_settle_mode="second") as sender:
                for number in range(sender_number, TOTAL, 2):
                    await sender.send(Message(body(number), application_properties={"number": number}))

        tasks.start_soon(cut)
        tasks.start_soon(send, 0)
        tasks.start_soon(send, 1)
        async with (
            connection() as receiving,
            receiving.receiver("q", receiver_settle_mode="second", credit=4, stream=stream) as receiver,
        ):
            while len(received) < TOTAL:
                delivery = await receiver.receive()
                number = (delivery.message.application_properties or {})["number"]
                if stream:
                    content = b"".join([part async for part in delivery.iter_body()])
                else:
                    content = bytes(delivery.message.body)
                assert content == body(number)
                delivery.accept()
                received.append(number)
        tasks.cancel_scope.cancel()
    assert sorted(received) == list(range(TOTAL))
    assert proxy.cuts >= 3


async def test_a_stream_that_is_not_resumed() -> None:
    """Where the peer keeps nothing its reader is told of the loss, and the message comes again from its beginning."""
    async with Broker() as broker, FaultProxy(broker.url) as proxy:
        async with broker.connect() as connection, connection.sender("q") as sender:
            await sender.send(body(3))
        reconnect = Reconnect(initial_delay=0.01, resume_timeout=0)
        async with (
            Connection(proxy.url, reconnect=reconnect, max_frame_size=4096) as connection,
            connection.receiver("q", stream=True) as receiver,
        ):
            proxy.cut_after(100_000, "down")
            delivery = await receiver.receive()
            with pytest.raises(ConnectionLost):
                async for _ in delivery.iter_body():
                    pass
            again = await receiver.receive()
            assert b"".join([part async for part in again.iter_body()]) == body(3)
            assert again.message.delivery_count == 1
            again.accept()


async def test_an_outcome_given_in_the_middle() -> None:
    """A delivery that is accepted before its end, on a connection that is lost, is not sent to its end any more."""
    async with Broker() as broker, FaultProxy(broker.url) as proxy:
        async with broker.connect() as connection, connection.sender("q") as sender:
            await sender.send(body(3))
            await sender.send(b"next")
        async with (
            Connection(proxy.url, reconnect=Reconnect(initial_delay=0.01), max_frame_size=4096) as connection,
            connection.receiver("q", receiver_settle_mode="second", stream=True) as receiver,
        ):
            proxy.cut_after(100_000, "down")
            delivery = await receiver.receive()
            await proxy.until_cut()
            delivery.accept()
            following = await receiver.receive()
            assert b"".join([part async for part in following.iter_body()]) == b"next"
            following.accept()
        assert broker.queue("q").depth == 0
