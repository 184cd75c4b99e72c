"""Queues of a broker, and what a worker's tests put into them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from amqp10 import Connection, Message
from amqp10.broker import Broker
from amqp10.worker import Worker

from ..waiting import until


@dataclass
class Queues:
    """What the tests put into a broker, and find there."""

    broker: Broker
    connection: Connection

    async def put(self, address: str, bodies: Iterable[object]) -> None:
        async with self.connection.sender(address) as sender:
            await sender.send_many(bodies)

    async def take(self, address: str) -> list[Message]:
        """Whatever waits there."""
        found = []
        async with self.connection.receiver(address) as receiver:
            for _ in range(self.broker.queue(address).depth):
                delivery = await receiver.receive()
                delivery.accept()
                found.append(delivery.message)
        return found

    def depth(self, address: str) -> int:
        return self.broker.queue(address).depth


DECLARED = {
    "later": {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "orders"},
    "small": {"x-max-length": 1, "x-overflow": "reject-publish"},
}


async def until_done(worker: Worker, count: int) -> None:
    """Wait until so many messages have an outcome."""
    await until(lambda: worker.handled + worker.dead_lettered >= count)
