"""Replies that come too late: the temporary queue of the requester is gone, and nothing is made in its place."""

from __future__ import annotations

import pytest

from amqp10 import Connection, LinkDetached, Message, MessageNotAccepted
from amqp10.broker import Broker
from amqp10.engine import dialect_names

pytestmark = [pytest.mark.anyio, pytest.mark.capability("embedded broker")]

NAMES = sorted(dialect_names())
PAIRS = [("1.0", name) for name in NAMES] + [(name, "1.0") for name in NAMES if name != "1.0"]


@pytest.mark.parametrize(("asking", "answering"), PAIRS)
async def test_late(asking: str, answering: str) -> None:
    """A reply to a queue that is gone is refused, by a sender to it and an anonymous one, and no queue is made."""
    async with Broker(queues=["service"]) as broker, Connection(broker.url, dialect=answering) as connection:
        requesting = Connection(broker.url, dialect=asking)
        async with (
            requesting,
            requesting.receiver(None, dynamic=True) as replies,
            requesting.sender("service") as sender,
        ):
            await sender.send(Message("?", reply_to=replies.address))
        async with connection.receiver("service") as receiver:
            request = await receiver.receive()
            request.accept()
            address = request.message.reply_to
        assert address is not None
        with pytest.raises((LinkDetached, MessageNotAccepted)):
            async with connection.sender(address) as sender:
                await sender.send("too late")
        if "anonymous-terminus" in connection.capabilities:
            with pytest.raises((LinkDetached, MessageNotAccepted)):
                async with connection.sender(None) as sender:
                    await sender.send(Message("too late", to=address))
        assert [queue.name for queue in broker.queues] == ["service"]
