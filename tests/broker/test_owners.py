"""Nodes that belong to a connection: others send to them, and neither receive from them nor delete them."""

from __future__ import annotations

import anyio
import pytest

from amqp10 import AmqpError, Connection, LinkDetached, ManagementError, Message
from amqp10.broker import Broker
from amqp10.broker._errors import Refused
from amqp10.broker._virtual_host_core import VirtualHostCore
from amqp10.engine import dialect_names
from amqp10.rabbitmq import management

from ..kit.inside.broker import check_owner

pytestmark = pytest.mark.anyio

NAMES = sorted(dialect_names())
DIRECT = "amq.rabbitmq.reply-to"
PAIRS: list[tuple[str, str, str | None]] = [
    *((each, "0-9-1", None) for each in NAMES),
    *(("1.0", each, None) for each in NAMES),
]
PAIRS += [("0-9-1", each, DIRECT) for each in NAMES]


@pytest.mark.parametrize(("dialect", "other", "address"), PAIRS)
async def test_replies(dialect: str, other: str, address: str | None) -> None:
    """Whatever another connection speaks, it may send to a reply address and not receive from it."""
    async with (
        Broker() as broker,
        Connection(broker.url, dialect=dialect) as connection,
        connection.receiver(address, dynamic=address is None) as replies,
        Connection(broker.url, dialect=other) as thief,
    ):
        there = replies.address
        assert there is not None
        with anyio.fail_after(60):
            with pytest.raises(AmqpError, match="another connection") as refused:
                async with thief.receiver(there) as receiver:
                    await receiver.receive()
            if other == "1.0" and isinstance(refused.value, LinkDetached):
                assert refused.value.condition == "amqp:resource-locked"
        async with Connection(broker.url, dialect=other) as honest, honest.sender(None) as sender:
            await sender.send(Message("reply", to=there))
        with anyio.fail_after(60):
            assert (await replies.receive()).message.body == "reply"


async def test_management() -> None:
    """What belongs to another connection is not deleted, purged or bound by management."""
    async with (
        Broker() as broker,
        Connection(broker.url) as connection,
        connection.receiver(dynamic=True) as replies,
        Connection(broker.url) as thief,
        management(thief) as manager,
    ):
        name = str(replies.address)
        for asked in (manager.delete_queue(name), manager.purge_queue(name), manager.bind("amq.topic", queue=name)):
            with pytest.raises(ManagementError, match="another connection"):
                await asked
        assert broker.queue(name).depth == 0


def test_topics(vhost: VirtualHostCore) -> None:
    """A dynamic topic has subscribers of its own connection only."""
    node = vhost.temporary(("topic",), owner := object())
    check_owner(node, owner)
    with pytest.raises(Refused):
        check_owner(node, object())
