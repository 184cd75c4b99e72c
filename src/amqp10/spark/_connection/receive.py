"""Receiving what waits, until nothing does: the end of a queue is what a drain says, never a guess (§2.6.7)."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import aclosing

import anyio
import pyarrow as pa

from ...client import Delivery, Receiver
from ...errors import ConnectionLost, DecodeError
from .._options import Options
from .._rows.decode import Columns
from .address_checks import ensure_browsable, ensure_queue
from .connect import connection, source

CREDIT = 10_000
"""Deliveries that may be on their way or wait here."""

FIRST_CREDIT = 10
"""Deliveries to ask for first where their size counts, which is not known yet."""

MAX_BATCH = 5000
"""Deliveries that are handed on at once."""

IDLE_SECONDS = 0.1
"""Seconds without a delivery after which the peer is asked whether there is one."""


async def receive_available(
    receiver: Receiver, limit: int, silence: float, octets: int | None = None
) -> AsyncGenerator[list[Delivery]]:
    """The deliveries of all that waits, in order, some at a time; no more than `limit`, and roughly than `octets`.

    A receiver with manual credit is given just what is wanted, so that nothing has to be given back.

    Raises:
        ConnectionLost: the peer did not answer for `silence` seconds.
    """
    manual = receiver._automatic == 0
    seen = size = 0
    while seen < limit:
        if manual:
            # Also what a drain took back, while messages came after all.
            more = min(limit - seen, _credit_for(octets, seen, size)) - receiver.buffered - receiver.credit
            if more > 0:
                receiver.add_credit(more)
        if octets is not None and size >= octets and not receiver.buffered:
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
        if octets is not None:
            size += sum(len(delivery.payload) for delivery in batch)
        yield batch


def _credit_for(octets: int | None, seen: int, size: int) -> int:
    """How many messages to ask for, so that they have as many octets, by the mean of those seen."""
    if octets is None:
        return CREDIT
    if size >= octets:
        return 0
    return min(CREDIT, max(1, (octets - size) * seen // size)) if size else FIRST_CREDIT


async def drain_or_fail(receiver: Receiver, silence: float) -> None:
    """Until the peer has used the credit or given it back."""
    with anyio.move_on_after(silence) as scope:
        await receiver.drain()
    if scope.cancelled_caught:
        raise ConnectionLost(f"{receiver.address}: no answer to a drain for {silence:g} s")


def append_deliveries(columns: Columns, deliveries: Iterable[Delivery], address: str) -> None:
    """Decode deliveries into columns.

    Raises:
        DecodeError: one of them cannot be, and no column wants to know why; it is named.
    """
    delivery = None
    try:
        for delivery in deliveries:
            if delivery.message_format:
                flaw = DecodeError(f"message-format {delivery.message_format} is not AMQP's own")
                columns.add(delivery.payload, flaw=flaw)
            else:
                columns.add(delivery.payload)
    except DecodeError as error:
        assert delivery is not None
        raise undecodable_message(delivery, address, error) from error


def undecodable_message(delivery: Delivery, address: str, error: DecodeError) -> DecodeError:
    """The error that says which message it is, and what can be done."""
    return DecodeError(
        f"amqp: a message of {address!r} (delivery-tag {delivery.tag.hex()}, {len(delivery.payload)} octets) cannot be "
        f"decoded: {error}. With a column `_decode_error` STRING in the schema such messages are kept as they are"
    )


async def browse(options: Options, columns: Columns, emit: Callable[[pa.RecordBatch], Awaitable[None]]) -> None:
    """Look at what waits in the queue, and leave it there."""
    address = options.require_address()
    async with connection(options, comes_back=True) as opened:  # before the first message, that is
        await ensure_queue(opened, options)
        await ensure_browsable(opened, source(opened, options))
        async with (
            opened.browser(source(opened, options), credit=CREDIT) as browser,
            aclosing(receive_available(browser, options.max_messages, options.receive_timeout)) as batches,
        ):
            async for deliveries in batches:
                append_deliveries(columns, deliveries, address)
                await emit(columns.take())
