"""What is left in a queue when everything should be out of it."""

from __future__ import annotations

from typing import Any

from amqp10 import Connection

AT_ONCE = 1000


async def take_the_rest(url: str, address: str) -> list[Any]:
    """Take and accept what is there, until a drain brings nothing more; its bodies."""
    bodies: list[Any] = []
    async with Connection(url) as connection:
        while True:
            async with connection.receiver(address, credit=AT_ONCE) as receiver:
                await receiver.drain()
                here = await receiver.receive_batch(AT_ONCE, max_wait=0)
                for delivery in here:
                    delivery.accept()
            if not here:
                return bodies
            bodies += [delivery.message.body for delivery in here]
