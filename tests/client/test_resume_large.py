"""Large messages through connections that are cut in the middle of them: they go on where they were cut off."""

from __future__ import annotations

import random

import anyio
import pytest

from amqp10 import Connection, Message, Reconnect
from amqp10.broker import Broker
from amqp10.testing import FaultProxy

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]

TOTAL = 24
SIZES = (100, 20_000, 300_000, 700_000)
CUTS = 10


def body(number: int) -> bytes:
    """What the message of that number carries; no part of it is like another."""
    return random.Random(number).randbytes(SIZES[number % len(SIZES)])


@pytest.mark.spec("2.6.13", "a large message cut off in the middle goes on from there, on both sides of a broker")
async def test_large_messages() -> None:
    """Each comes whole and once."""
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
            receiving.receiver("q", receiver_settle_mode="second", credit=4) as receiver,
        ):
            while len(received) < TOTAL:
                delivery = await receiver.receive()
                number = (delivery.message.application_properties or {})["number"]
                assert bytes(delivery.message.body) == body(number)
                delivery.accept()
                received.append(number)
        tasks.cancel_scope.cancel()
    assert sorted(received) == list(range(TOTAL))
    assert proxy.cuts >= 5
