"""How the driver finds out whether a queue has messages, without taking one."""

from __future__ import annotations

import anyio

from ...client import Connection, Receiver
from ...errors import Unsupported
from .._connection.address_checks import count_ready
from .._connection.connect import link_properties, source
from .._connection.receive import drain_or_fail
from .._options import Options
from .attaching import links

WAIT_SECONDS = 0.5
"""Seconds to wait for a message, so that an idle query does not ask all the time."""


async def has_messages(opened: Connection, options: Options, now: bool) -> bool:
    """Return whether there is a message in the queue.

    Args:
        now: answer immediately instead of waiting up to `WAIT_SECONDS` for a message.

    Raises:
        AmqpError: the peer does not permit it.
    """
    if options.sessions:
        async with links(opened, options) as found:
            return await found.attach() is not None  # which is given back at once
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
        pass  # the peer cannot browse: receive one message, and release it
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
