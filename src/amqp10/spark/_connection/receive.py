"""Receives all messages that are in a queue now. A drain tells where the queue ends, never a time-out (§2.6.7)."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import anyio

from ...client import Delivery, Receiver
from ...errors import ConnectionLost

CREDIT = 10_000
"""Deliveries that may be in flight or buffered here."""

FIRST_CREDIT = 10
"""Deliveries to ask for first when a number of octets limits the batch: their size is not known yet."""

MAX_BATCH = 5000
"""Deliveries in one batch, at most."""

IDLE_SECONDS = 0.1
"""Seconds without a delivery after which a drain asks the peer whether there is one."""


async def receive_available(
    receiver: Receiver, limit: int, silence: float, max_bytes: int | None = None, *, grant_credit: bool = False
) -> AsyncGenerator[list[Delivery]]:
    """Yield the deliveries that are available now, in order and in batches.

    Args:
        limit: the most deliveries to receive.
        silence: seconds that the peer may take to answer a drain.
        max_bytes: stop after roughly this many octets of payload.
        grant_credit: the receiver has manual credit; grant exactly what is wanted, so that nothing is given back.

    Raises:
        ConnectionLost: the peer did not answer for `silence` seconds.
    """
    seen = size = 0
    while seen < limit:
        if grant_credit:
            # This replaces credit that a drain took back although messages came after all.
            more = min(limit - seen, _credit_for(max_bytes, seen, size)) - receiver.buffered - receiver.credit
            if more > 0:
                receiver.add_credit(more)
        if max_bytes is not None and size >= max_bytes and not receiver.buffered:
            await drain_or_fail(receiver, silence)
            if not receiver.buffered:
                return
        batch = await receiver.receive_batch(min(MAX_BATCH, limit - seen), max_wait=IDLE_SECONDS)
        if not batch:
            await drain_or_fail(receiver, silence)
            if not receiver.buffered:
                return
            continue
        seen += len(batch)
        if max_bytes is not None:
            size += sum(len(delivery.payload) for delivery in batch)
        yield batch


def _credit_for(max_bytes: int | None, seen: int, size: int) -> int:
    """Return the credit to ask for so that the payloads reach `max_bytes`, estimated by the mean size so far."""
    if max_bytes is None:
        return CREDIT
    if size >= max_bytes:
        return 0
    return min(CREDIT, max(1, (max_bytes - size) * seen // size)) if size else FIRST_CREDIT


async def drain_or_fail(receiver: Receiver, silence: float) -> None:
    """Drain the receiver, and wait until the peer has used the credit or returned it.

    Raises:
        ConnectionLost: the peer did not answer for `silence` seconds.
    """
    with anyio.move_on_after(silence) as scope:
        await receiver.drain()
    if scope.cancelled_caught:
        raise ConnectionLost(f"{receiver.address}: no answer to a drain for {silence:g} s")
