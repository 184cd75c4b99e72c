"""A client that does nothing wrong, beside one that does."""

from __future__ import annotations

import anyio

from amqp10.broker import Broker


async def still_serves(broker: Broker, dialect: str = "1.0") -> None:
    """Send and receive a message over another connection."""
    with anyio.fail_after(60):
        async with broker.connect(dialect=dialect) as connection, connection.sender("other") as sender:
            await sender.send(b"fine")
            async with connection.receiver("other") as receiver:
                with await receiver.receive() as message:
                    assert message.body == b"fine"
