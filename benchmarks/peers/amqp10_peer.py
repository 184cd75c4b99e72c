"""This project's client, as its documentation says to use it: `send_many`, and `async for` with `accept`.

Variants, several joined by commas: `submit` sends one by one and keeps the deliveries; `batch` receives with
`receive_batch`; `asyncio` runs on asyncio in place of trio.
"""

from __future__ import annotations

from collections import deque
from typing import Literal

import anyio
from clock import Clock

from amqp10 import TLS, Accepted, Connection, Message, Receiver, Sender, SentDelivery

IN_FLIGHT = 1000
clock = Clock("amqp10")
settle_mode: Literal["settled", "unsettled"] = "settled" if clock.settled else "unsettled"


async def send_many(sender: Sender) -> None:
    """Warm up, then send what counts."""
    body = clock.body
    for count in filter(None, (clock.warmup, clock.count)):
        await sender.send_many(Message(body) for _ in range(count))
        clock.tick(count)


async def submit(sender: Sender) -> None:
    """One by one, looking at each outcome in turn."""
    body = clock.body
    flying: deque[SentDelivery] = deque()
    for _ in range(clock.total):
        flying.append(await sender.submit(Message(body)))
        if len(flying) >= IN_FLIGHT:
            assert type(await flying.popleft().outcome()) is Accepted
            clock.tick()
    for delivery in flying:
        assert type(await delivery.outcome()) is Accepted
        clock.tick()


async def receive(receiver: Receiver) -> None:
    """One by one."""
    size, settled, tick = clock.size, clock.settled, clock.tick
    async for delivery in receiver:
        assert len(delivery.message.body) == size
        if not settled:
            delivery.accept()
        if tick():
            break


async def receive_batch(receiver: Receiver) -> None:
    """Many at a time."""
    done = False
    while not done:
        batch = await receiver.receive_batch(IN_FLIGHT)
        for delivery in batch:
            assert len(delivery.message.body) == clock.size
            if not clock.settled:
                delivery.accept()
        done = clock.tick(len(batch))


async def main() -> None:
    """Connect, do it, report."""
    async with Connection(clock.url, tls=TLS(ca=clock.ca) if clock.ca else None) as connection:
        if clock.mode == "send":
            async with connection.sender(clock.address, settle_mode=settle_mode) as sender:
                clock.begin()
                await (submit if "submit" in clock.variant else send_many)(sender)
                if not clock.settled:
                    clock.report()
            if clock.settled:  # all of it is with the counterpart once the link is closed
                clock.report()
        else:
            async with connection.receiver(clock.address, settle_mode=settle_mode, credit=IN_FLIGHT) as receiver:
                clock.begin()
                await (receive_batch if "batch" in clock.variant else receive)(receiver)
                clock.report()


anyio.run(main, backend="asyncio" if "asyncio" in clock.variant else "trio")
