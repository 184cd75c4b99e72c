"""What tests of streams stand on: a peer that sends in parts, and one that reads them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio

from amqp10.client import Delivery
from amqp10.engine import DeliveriesReceived, LinkAttached, ReceiverLink, SessionTerms
from amqp10.messaging import Message

Serve = Callable[..., Any]


class Streams:
    """Sends messages to the client's receiver, in parts."""

    def __init__(self, peer: Any, address: str = "q") -> None:
        self.peer = peer
        self.link = peer.links[address]

    def begin(self, *parts: bytes, settled: bool = False) -> Any:
        """The first parts of a delivery, each a transfer."""
        first, *others = parts
        delivery = self.link.send(first, more=True, settled=settled)
        self.more(delivery, *others)
        return delivery

    def more(self, delivery: Any, *parts: bytes, last: bytes | None = None) -> None:
        for part in parts:
            self.link.send_more(delivery, part, more=True)
        if last is not None:
            self.link.send_more(delivery, last)
        self.peer.pump.wake()

    def send(self, message: Message) -> Any:
        delivery = self.link.send(message.encode())
        self.peer.pump.wake()
        return delivery


async def read(delivery: Delivery) -> bytes:
    return b"".join([piece async for piece in delivery.iter_body()])


async def waiting(call: Callable[[], Any], tasks: Any) -> list[Any]:
    """A list that will have what the call returns or raises, once it does; it does not yet."""
    ended: list[Any] = []

    async def run() -> None:
        try:
            ended.append(await call())
        except Exception as error:
            ended.append(error)

    tasks.start_soon(run)
    await anyio.wait_all_tasks_blocked()
    assert ended == []
    return ended


class Reader:
    """Makes the peer's links stream, and reads from them when told to."""

    def __init__(self, peer: Any) -> None:
        self.peer = peer
        self.link: Any = None
        peer.on_event = self.on_event

    def on_event(self, event: Any) -> bool:
        if isinstance(event, LinkAttached) and isinstance(event.link, ReceiverLink):
            self.link = event.link
            self.link.streaming = True
        return isinstance(event, DeliveriesReceived)

    @property
    def delivery(self) -> Any:
        return self.link.incoming[0]

    def read(self) -> bytes:
        """All that is here."""
        parts = []
        while (part := self.link.read(self.delivery)) is not None:
            parts.append(part)
        self.peer.pump.wake()
        return b"".join(parts)

    def settle(self, outcome: Any) -> None:
        self.link.settle(self.delivery, outcome)
        self.peer.pump.wake()


@asynccontextmanager
async def reading(serve: Serve, window: int = 4, **settings: Any) -> Any:
    """A sender on a session whose peer reads when told to."""
    async with serve(session=SessionTerms(incoming_window=window), **settings) as (peer, connection):
        reader = Reader(peer)
        async with connection, connection.sender("q") as sender:
            yield reader, sender
