"""Receiving what waits, until nothing does: the end of a queue is what a drain says, never a guess (§2.6.7)."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import anyio

from ...client import Delivery, Receiver
from ...errors import ConnectionLost

CREDIT = 10_000
"""Deliveries that may be on their way or wait here."""

FIRST_CREDIT = 10
"""Deliveries to ask for first where their size counts, which is not known yet."""

MAX_BATCH = 5000
"""Deliveries that are handed on at once."""

IDLE_SECONDS = 0.1
"""Seconds without a delivery after which the peer is asked whether there is one."""


async def receive_available(
    receiver: Receiver, limit: int, silence: float, max_bytes: int | None = None, *, grant_credit: bool = False
) -> AsyncGenerator[list[Delivery]]:
    """The deliveries of all that waits, in order, some at a time; no more than `limit`, and roughly than `max_bytes`.

    A receiver with manual credit is given just what is wanted, so that nothing has to be given back.

    Raises:
        ConnectionLost: the peer did not answer for `silence` seconds.
    """
    seen = size = 0
    while seen < limit:
        if grant_credit:
            # Also what a drain took back, while messages came after all.
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
    """How many messages to ask for, so that they have as many max_bytes, by the mean of those seen."""
    if max_bytes is None:
        return CREDIT
    if size >= max_bytes:
        return 0
    return min(CREDIT, max(1, (max_bytes - size) * seen // size)) if size else FIRST_CREDIT


async def drain_or_fail(receiver: Receiver, silence: float) -> None:
    """Until the peer has used the credit or given it back."""
    with anyio.move_on_after(silence) as scope:
        await receiver.drain()
    if scope.cancelled_caught:
        raise ConnectionLost(f"{receiver.address}: no answer to a drain for {silence:g} s")
