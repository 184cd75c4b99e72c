"""Messages that no queue takes: in every dialect whoever sent one hears of it, inside a transaction too."""

from __future__ import annotations

import copy
from typing import Literal

import pytest

from amqp10 import AmqpSequence, Connection, Data, Message, MessageReleased, Released, TransactionRolledBack
from amqp10.broker import Broker
from amqp10.engine import dialect_names
from amqp10.messaging import RELEASED, Error, Returned

pytestmark = pytest.mark.anyio

NOWHERE = "/exchanges/amq.direct/nobody"
CODES = {"1.0": None, "0-10": 1}
"""What the broker says beside "released": 312 in the others, 1 in 0-10, nothing in 1.0."""


@pytest.mark.parametrize("name", dialect_names())
async def test_the_reply_code(name: str) -> None:
    """The exception carries what the broker said, as far as its dialect has words for that."""
    async with Broker() as broker, Connection(broker.url, dialect=name) as connection:
        async with connection.sender(NOWHERE) as sender:
            with pytest.raises(MessageReleased) as released:
                await sender.send(b"m")
    code = CODES.get(name, 312)
    assert released.value.info.get("reply-code") == code
    assert released.value.condition == ("amqp:no-route" if code is not None else None)


@pytest.mark.parametrize("mode", ["mixed", "settled"])
@pytest.mark.parametrize("name", [name for name in dialect_names() if name != "fast"])
async def test_in_a_transaction(name: str, mode: Literal["mixed", "settled"]) -> None:
    """No transaction is committed without its messages in silence, however they were sent."""
    async with Broker() as broker, Connection(broker.url, dialect=name) as connection:
        async with connection.sender("q") as sender, connection.sender(NOWHERE, settle_mode=mode) as nowhere:
            with pytest.raises((MessageReleased, TransactionRolledBack)) as failed:
                async with connection.transaction() as transaction:
                    await sender.send(b"beside it", transaction=transaction)
                    delivery = await nowhere.submit(b"m", transaction=transaction)
            if name.startswith("0-9"):
                assert type(failed.value) is MessageReleased
                assert failed.value.info["reply-code"] == 312
                assert transaction.state == "committed"
                assert isinstance(await delivery.outcome(), Returned)
            else:
                assert type(failed.value) is TransactionRolledBack
                assert transaction.state == "rolled-back"
            assert broker.queue("q").depth == (transaction.state == "committed")


ODD = {
    "footer": Message(b"b", footer={"x-f": 1}),
    "parts": Message(Data(b"a", b"c")),
    "value": Message("text", footer={"x-f": 1}),
    "sequence": Message(AmqpSequence([1], [2])),
    "empty": Message(b""),
    "large": Message(b"x" * 1_000_000, footer={"x-f": 1}),
}


@pytest.mark.parametrize("message", ODD.values(), ids=ODD)
@pytest.mark.parametrize("name", dialect_names())
async def test_whatever_it_is(name: str, message: Message) -> None:
    """Also of a message whose body is not just the end of it, with others that look like it on their way."""
    async with Broker() as broker, Connection(broker.url, dialect=name) as connection:
        async with connection.sender("q"), connection.sender(None) as sender:
            addresses = ["/queues/q", NOWHERE] * 3
            sent = []
            for to in addresses:
                one = copy.copy(message)
                one.to = to
                sent.append(await sender.submit(one))
            outcomes = [isinstance(await delivery.outcome(), Released) for delivery in sent]
            assert outcomes == [to == NOWHERE for to in addresses]
            assert broker.queue("q").depth == 3


def test_returned_is_released() -> None:
    """It is to be taken for what it is in 1.0, by whatever it is asked."""
    returned = Returned(Error("amqp:no-route", "NO_ROUTE", {}))
    assert isinstance(returned, Released)
    assert returned == RELEASED == returned
    assert returned.encode() == RELEASED.encode()
    assert RELEASED.error is None
    assert "NO_ROUTE" in repr(returned)
