"""How the driver finds out that something waits in a queue, without taking it."""

from __future__ import annotations

import anyio

from ...client import Connection, Receiver
from ...errors import Unsupported
from .._connection.address_checks import count_ready
from .._connection.connect import link_properties, source
from .._connection.receive import drain_or_fail
from .._options import Options

WAIT_SECONDS = 0.5
"""Seconds that a look waits for a message, so that an idle query does not ask all the time."""


async def has_messages(opened: Connection, options: Options, now: bool) -> bool:
    """Whether there is a message in the queue.

    Args:
        now: the peer is to say it at once; otherwise a moment is waited for one to come.

    Raises:
        AmqpError: the peer does not let us look.
    """
    queue = source(opened, options)
    count = await count_ready(opened, queue)
    if count is not None:
        if not count and not now:
            await anyio.sleep(WAIT_SECONDS)
            count = await count_ready(opened, queue)
        return bool(count)
    try:
        async with opened.browser(queue, credit=1) as browser:
            return await _first(browser, options, now)
    except Unsupported:
        pass  # it does not browse: one is taken, and given back on leaving
    async with opened.receiver(queue, credit=1, properties=link_properties(options)) as receiver:
        return await _first(receiver, options, now)


async def _first(receiver: Receiver, options: Options, now: bool) -> bool:
    if now:
        await drain_or_fail(receiver, options.receive_timeout)
        return receiver.buffered > 0
    seen = await receiver.receive_batch(1, max_wait=WAIT_SECONDS)
    for delivery in seen:
        delivery.release()
    return bool(seen)
