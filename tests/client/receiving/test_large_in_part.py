"""Messages in parts that are larger than what a receiver puts together: bounded by default, in every dialect."""

from __future__ import annotations

import anyio
import pytest

from amqp10 import AmqpError, Connection, Message
from amqp10.broker import Broker

from ...kit.inside.engines import message_limit, message_limits, partial_limit

pytestmark = [pytest.mark.anyio, pytest.mark.in_memory]

DIALECTS = ("1.0", "0-9-1", "0-9", "0-10", "fast")
LIMIT, SIZE = 100_000, 400_000  # of several frames in each dialect


@pytest.fixture(autouse=True)
def limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(message_limits, "MAX_MESSAGE", LIMIT)


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_default(dialect: str) -> None:
    """A message that is too large ends its link with a word on what to do, and stays at the broker."""
    async with Broker() as broker, Connection(broker.url, dialect=dialect) as connection:
        with anyio.fail_after(60):
            async with connection.sender("q") as sender, connection.sender("r") as other:
                await sender.send(Message(bytes(SIZE)))
                await other.send(Message("small"))
            async with connection.session() as session, session.receiver("q") as receiver:
                with pytest.raises(AmqpError, match="give the receiver a larger max_message_size") as caught:
                    await receiver.receive()
            assert getattr(caught.value, "condition", None) == "amqp:link:message-size-exceeded"
            async with connection.receiver("r") as receiver:
                (await receiver.receive()).accept()
            assert broker.queue("q").depth == 1


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_larger_if_asked_for(dialect: str) -> None:
    """With a max_message_size of one's own, as large as that."""
    async with Broker() as broker, Connection(broker.url, dialect=dialect) as connection:
        with anyio.fail_after(60):
            async with connection.sender("q") as sender:
                await sender.send(Message(bytes(SIZE)))
            async with connection.receiver("q", max_message_size=2 * SIZE) as receiver:
                with await receiver.receive() as message:
                    assert len(message.body) == SIZE


@pytest.mark.parametrize("dialect", ["1.0", "fast"])
async def test_streams(dialect: str) -> None:
    """A message that is read while it arrives may have any size."""
    async with Broker() as broker, Connection(broker.url, dialect=dialect) as connection:
        with anyio.fail_after(60):
            async with connection.sender("q") as sender:
                await sender.send(Message(bytes(SIZE)))
            async with connection.receiver("q", stream=True) as receiver:
                delivery = await receiver.receive()
                assert sum([len(part) async for part in delivery.iter_body()]) == SIZE
                delivery.accept()


def test_most() -> None:
    assert (message_limit(None), message_limit(7)) == (LIMIT, 7)
    assert partial_limit(None) == message_limits.MAX_PARTIAL
    assert partial_limit(message_limits.MAX_PARTIAL) == 2 * message_limits.MAX_PARTIAL
    assert partial_limit(None, message_limits.MAX_PARTIAL) == 2 * message_limits.MAX_PARTIAL
