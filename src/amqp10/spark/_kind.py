"""What an address is where there are queues and streams: asked, never tried, for trying takes a message.

RabbitMQ ignores a place in a stream when it is asked of a queue, and gives what waits; without a place a stream gives
only what is yet to come. Either would go unnoticed.
"""

from __future__ import annotations

from urllib.parse import unquote

from ..client import Connection
from ..errors import FilterNotApplied, LinkDetached, ManagementError, SessionEnded, Unsupported
from ..messaging import Source, StreamOffset
from ..rabbitmq import management
from ._connect import connection, source
from ._options import Options

_QUEUES = "/queues/"


async def is_stream(opened: Connection, place: Source) -> bool | None:
    """Whether this is a stream; None where the broker does not say, or there is nothing yet.

    Raises:
        ConnectionClosed, ConnectionLost: the connection is over.
    """
    if opened.profile.name == "embedded" and opened.dialect == "1.0":
        try:
            async with opened.receiver(Source(place.address, filters=[StreamOffset("first")]), credit=0):
                return True
        except FilterNotApplied:
            return False
        except LinkDetached:
            return None
    address = str(place.address)
    if opened.profile.name != "rabbitmq" or not address.startswith(_QUEUES):
        return None
    try:
        async with management(opened) as manager:
            return (await manager.queue(unquote(address.removeprefix(_QUEUES)))).type == "stream"
    except (Unsupported, ManagementError, SessionEnded, LinkDetached):
        return None  # older than 4, or we may not ask


async def no_stream(opened: Connection, options: Options) -> None:
    """See that the address is no stream, before it is read as a queue.

    Raises:
        ValueError: it is one.
    """
    if await is_stream(opened, source(opened, options)):
        raise ValueError(f"amqp: {options.address!r} is a stream, no queue: mode=stream reads it")


async def check_no_stream(options: Options) -> None:
    """The same, over a connection for just that."""
    async with connection(options) as opened:
        await no_stream(opened, options)


def a_queue(name: str) -> ValueError:
    """The error that says that this has no offsets."""
    return ValueError(
        f"amqp: {name!r} is a queue, no stream: it has no offsets to begin or end at, and mode=queue reads it"
    )
