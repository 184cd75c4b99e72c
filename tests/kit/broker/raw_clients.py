"""Bytes of a peer by hand, for what no client would do."""

from __future__ import annotations

from collections.abc import Callable

import anyio
import anyio.lowlevel
from anyio.abc import ByteStream

from amqp10.broker import Broker
from amqp10.engine import ConnectionTerms, LinkTerms, ReceiverLink, dialect
from amqp10.messaging import Source, Target

from ..parents import engine_of


async def dial(broker: Broker) -> ByteStream:
    """A plain TCP connection to the broker."""
    host, port = broker.url.removeprefix("amqp://").split(":")
    return await anyio.connect_tcp(host, int(port))


async def read_all(stream: ByteStream) -> bytes:
    """Everything until the broker hangs up."""
    data = b""
    try:
        while True:
            data += await stream.receive()
    except (anyio.EndOfStream, anyio.BrokenResourceError):
        return data


def raw_receiver(address: str, hostname: str | None = None) -> ReceiverLink:
    """A link of an engine that nobody drives but the test; its first words wait in the engine's output."""
    engine = dialect("1.0").client(ConnectionTerms("raw", hostname=hostname, idle_timeout=None), None, True)
    engine.start()
    engine.open()
    return engine.begin().attach_receiver(LinkTerms("raw", source=Source(address), target=Target()))


def receiver_of(address: str, credit: int, hostname: str | None = None) -> bytes:
    """All that a client says who receives from there, in one breath: header, open, begin, attach, flow."""
    link = raw_receiver(address, hostname)
    link.flow(credit)
    return engine_of(link).data_to_send()


async def read_all_until(stream: ByteStream, done: Callable[[], bool]) -> None:
    """Read, and throw away, until something is so."""
    while not done():
        await stream.receive()


def broker_consumers(broker: Broker, name: str) -> int:
    """Consumers of a queue, 0 while there is no such queue."""
    try:
        return broker.queue(name).consumers
    except KeyError:
        return 0
