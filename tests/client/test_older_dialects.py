"""What the client relies on, in every dialect: nothing that is unsettled is forgotten."""

from __future__ import annotations

import anyio
import pytest

from amqp10 import Connection, Message
from amqp10.broker import Broker
from amqp10.engine import dialect_names

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("name", dialect_names())
async def test_tags_of_earlier_attachments(name: str) -> None:
    """What is sent again keeps its tag, and what is sent after it gets none of those: each has its outcome."""
    async with Broker() as broker, Connection(broker.url, dialect=name) as connection:
        async with connection.sender("orders") as sender:
            link = sender._link
            assert link is not None
            payload = Message("again").encode()
            # Deliveries of an earlier attachment whose first ones are settled; the dialects count from 0 or from 1.
            old = [link.delivery_type(link, number.to_bytes(8, "big"), payload, False) for number in range(4, 10)]
            for delivery in old:
                link.resend(delivery)
            new = [link.send(payload) for _ in range(12)]
            assert list(link.unsettled.values()) == [*old, *new]
            assert [link.unsettled[delivery.tag] for delivery in (*old, *new)] == [*old, *new]
            connection._wake()
            with anyio.fail_after(10):
                await sender._until(lambda: not link.unsettled)
            assert all(delivery.remote_settled for delivery in (*old, *new))
