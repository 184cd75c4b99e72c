"""What an address is, and what waits there: asked, never tried, for trying takes a message.

RabbitMQ ignores a place in a stream when it is asked of a queue, and gives what waits; without a place a stream gives
only what is yet to come. Either would go unnoticed. And its quorum queues count each delivery, given back or not, and
drop a message that was delivered 20 times.
"""

from __future__ import annotations

import logging
from urllib.parse import unquote

from ...client import Connection
from ...errors import FilterNotApplied, LinkDetached, ManagementError, SessionEnded, Unsupported
from ...messaging import Source, StreamOffset
from ...rabbitmq import QueueInfo, management
from .._options import Options
from .connect import connection, source

_log = logging.getLogger("amqp10.spark")
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
    told = await _queue_info(opened, place)
    return None if told is None else told.type == "stream"


async def count_ready(opened: Connection, place: Source) -> int | None:
    """The messages that wait in a queue, without a look at one; None where nobody can say.

    Raises:
        ConnectionClosed, ConnectionLost: the connection is over.
    """
    # Broker-J counts those, too, that somebody holds.
    if opened.profile.name == "rabbitmq" and opened.dialect.startswith("0-9"):
        facts = await opened.native.queue(_name(place))
        return None if facts is None else facts.messages
    told = await _queue_info(opened, place)
    return None if told is None else told.messages


async def ensure_browsable(opened: Connection, place: Source) -> None:
    """See that looking at a queue leaves it as it is, where the broker says that it does.

    Raises:
        ValueError: it is a queue that counts each look, and drops what was looked at too often.
    """
    told = await _queue_info(opened, place)
    if told is not None and told.type == "quorum":
        raise ValueError(
            f"amqp: {told.name!r} is a quorum queue: RabbitMQ counts each look at a message as a delivery, and "
            "drops it after 20: ack=wal takes what waits"
        )


async def _queue_info(opened: Connection, place: Source) -> QueueInfo | None:
    """What RabbitMQ's management node knows of a queue; None where there is none to ask."""
    if opened.profile.name != "rabbitmq" or opened.dialect != "1.0" or not str(place.address).startswith(_QUEUES):
        return None
    try:
        async with management(opened) as manager:
            return await manager.queue(_name(place))
    except (Unsupported, ManagementError, SessionEnded, LinkDetached):
        return None  # older than 4, or we may not ask


def _name(place: Source) -> str:
    address = str(place.address)
    return unquote(address.removeprefix(_QUEUES)) if address.startswith(_QUEUES) else address


async def ensure_queue(opened: Connection, options: Options) -> None:
    """See that the address is no stream, before it is read as a queue; and that a queue knows filters, if it is to.

    Warns of a queue that drops what was delivered too often.

    Raises:
        ValueError: it is one, or does not.
    """
    place = source(opened, options)
    if await is_stream(opened, place):
        raise ValueError(f"amqp: {options.address!r} is a stream, no queue: mode=stream reads it")
    told = await _queue_info(opened, place)
    if told is None:
        return
    limit = told.arguments.get("x-delivery-limit", 20)
    if told.type == "quorum" and limit != -1:
        _log.warning(
            "%r is a quorum queue: unless a policy says otherwise RabbitMQ drops a message, or dead-letters it, that "
            "was delivered %s times and not accepted, and an attempt that fails has had all its messages delivered: "
            "with the argument x-delivery-limit -1 they stay",
            told.name,
            limit,
        )
    if told.type in ("classic", "quorum") and options.filtered:
        raise ValueError(
            f"amqp: option {options.filtering}: {told.name!r} is a {told.type} queue, of which RabbitMQ gives all "
            "messages, whatever filter there is"
        )


async def connect_and_ensure_queue(options: Options) -> None:
    """The same, over a connection for just that."""
    async with connection(options) as opened:
        await ensure_queue(opened, options)


def not_a_log(name: str) -> ValueError:
    """The error that says that this has no offsets."""
    return ValueError(
        f"amqp: {name!r} is a queue, no stream: it has no offsets to begin or end at, and mode=queue reads it"
    )
