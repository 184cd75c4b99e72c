"""Finds out what an address is, and how many messages it has, without taking a message.

RabbitMQ ignores a stream offset on a queue, and delivers from the front; without an offset a stream delivers only new
messages. Either mistake would go unnoticed. Its quorum queues count every delivery, released or not, and drop a message
after 20 of them.
"""

from __future__ import annotations

import logging
from urllib.parse import unquote

from ...client import Connection
from ...engine import LINK_PAIR
from ...errors import FilterNotApplied, LinkDetached, ManagementError, SessionEnded
from ...messaging import Source, StreamOffset
from ...rabbitmq import QueueInfo, management
from .._options import Options
from .connect import connection, source

_log = logging.getLogger("amqp10.spark")
_QUEUES = "/queues/"


async def is_stream(opened: Connection, place: Source) -> bool | None:
    """Return whether the source is a stream; None if the broker does not say, or the address does not exist yet.

    Raises:
        ConnectionClosed, ConnectionLost: the connection is over.
    """
    if opened.profile.name == "embedded" and {"filters", "stream-filters"} <= opened.capabilities:
        try:
            async with opened.receiver(Source(place.address, filters=[StreamOffset("first")]), credit=0):
                return True
        except FilterNotApplied:
            return False
        except LinkDetached:
            return None
    facts = await _queue_info(opened, place)
    return None if facts is None else facts.type == "stream"


async def count_ready(opened: Connection, place: Source) -> int | None:
    """Return how many messages are ready in a queue, without receiving one; None if the broker does not say.

    Raises:
        ConnectionClosed, ConnectionLost: the connection is over.
    """
    # Broker-J counts those, too, that somebody holds.
    if opened.profile.name == "rabbitmq" and "requests" in opened.capabilities:
        facts = await opened.native.queue(_name(place))
        return None if facts is None else facts.messages
    info = await _queue_info(opened, place)
    return None if info is None else info.messages


async def ensure_browsable(opened: Connection, place: Source) -> None:
    """Check that browsing does not change the queue, as far as the broker tells.

    Raises:
        ValueError: it is a quorum queue: it counts each look, and drops messages that were looked at too often.
    """
    facts = await _queue_info(opened, place)
    if facts is not None and facts.type == "quorum":
        raise ValueError(
            f"amqp: {facts.name!r} is a quorum queue: RabbitMQ counts each look at a message as a delivery, and "
            "drops the message after 20: read it with ack=wal"
        )


async def _queue_info(opened: Connection, place: Source) -> QueueInfo | None:
    """Ask RabbitMQ's management node for facts about a queue; None if there is no such node or it refuses."""
    offered = LINK_PAIR in opened.offered_capabilities  # RabbitMQ before 4 does not offer it
    if opened.profile.name != "rabbitmq" or not offered or not str(place.address).startswith(_QUEUES):
        return None
    try:
        async with management(opened) as manager:
            return await manager.queue(_name(place))
    except (ManagementError, SessionEnded, LinkDetached):
        return None  # this user has no permission


def _name(place: Source) -> str:
    address = str(place.address)
    return unquote(address.removeprefix(_QUEUES)) if address.startswith(_QUEUES) else address


async def ensure_queue(opened: Connection, options: Options) -> None:
    """Check, before reading the address as a queue, that it is not a stream and applies the filters that are asked for.

    Logs a warning for a queue that drops messages after a number of deliveries.

    Raises:
        ValueError: the address is a stream, or the queue ignores filters.
    """
    place = source(opened, options)
    if await is_stream(opened, place):
        raise ValueError(f"amqp: {options.address!r} is a stream, not a queue: mode=stream reads it")
    facts = await _queue_info(opened, place)
    if facts is None:
        return
    limit = facts.arguments.get("x-delivery-limit", 20)
    if facts.type == "quorum" and limit != -1:
        _log.warning(
            "%r is a quorum queue: unless a policy says otherwise, RabbitMQ drops or dead-letters a message that was "
            "delivered %s times and not accepted, and a failed attempt counts as a delivery of all its messages: "
            "with the argument x-delivery-limit -1 they stay",
            facts.name,
            limit,
        )
    if facts.type in ("classic", "quorum") and options.filtered:
        raise ValueError(
            f"amqp: option {options.filtering}: {facts.name!r} is a {facts.type} queue, and RabbitMQ ignores "
            "filters on queues"
        )


async def connect_and_ensure_queue(options: Options) -> None:
    """Open a connection only for `ensure_queue`."""
    async with connection(options) as opened:
        await ensure_queue(opened, options)


def not_a_log(name: str) -> ValueError:
    """Make the error for a queue that was to be read by offsets."""
    return ValueError(f"amqp: {name!r} is a queue, not a stream: it has no offsets, and mode=queue reads it")
