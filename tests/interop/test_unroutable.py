"""Messages that no queue takes, in AMQP 0-9-1 and 0-9: whoever sent one hears of it, with the broker's reply code."""

from __future__ import annotations

from typing import Literal

import pytest

from amqp10 import Message, MessageRejected, MessageReleased, TransactionRolledBack
from amqp10.messaging import Returned

from .test_amqp_0_9_1 import PEERS, Peer

pytestmark = [pytest.mark.anyio, pytest.mark.interop]

NOWHERE = "/exchanges/amq.direct/nobody"


@pytest.fixture(params=PEERS, ids=["-".join(each) for each in PEERS])
def peer(request: pytest.FixtureRequest) -> Peer:
    """Each broker in each of the dialects that it has."""
    name, dialect = request.param
    return Peer(name, dialect, request.getfixturevalue(name))


async def test_the_reply_code(peer: Peer) -> None:
    """The exception says it, and so does the outcome of one that was submitted."""
    async with peer.connected() as connection, connection.sender(NOWHERE) as sender:
        with pytest.raises(MessageReleased) as released:
            await sender.send(b"m")
        assert (released.value.condition, released.value.info["reply-code"]) == ("amqp:no-route", 312)
        assert released.value.description
        outcome = await (await sender.submit(b"m")).outcome()
        assert isinstance(outcome, Returned)
        assert outcome.error is not None
        assert outcome.error.condition == "amqp:no-route"


@pytest.mark.parametrize("mode", ["mixed", "settled"])
@pytest.mark.parametrize("acks", [False, True])
async def test_in_a_transaction(peer: Peer, mode: Literal["mixed", "settled"], acks: bool) -> None:
    """The commit raises it, also of what was sent settled; all else in the transaction has happened, acks too."""
    async with peer.connected() as connection, peer.queue(connection) as queue:
        async with (
            connection.sender(queue) as sender,
            connection.sender(NOWHERE, settle_mode=mode) as nowhere,
            connection.receiver(queue) as receiver,
        ):
            await sender.send(b"before")
            delivery = await receiver.receive()
            with pytest.raises(MessageReleased) as released:
                async with connection.transaction() as transaction:
                    await sender.send(b"kept", transaction=transaction)
                    sent = [await nowhere.submit(b"%d" % n, transaction=transaction) for n in range(2)]
                    if acks:
                        delivery.accept(transaction=transaction)
            if not acks:
                delivery.accept()
            assert transaction.state == "committed"
            info = released.value.info
            assert (info["reply-code"], info["exchange"], info["routing-key"]) == (312, "amq.direct", "nobody")
            assert "2 messages" in str(released.value)
            assert [type(await each.outcome()) for each in sent] == [Returned, Returned]
            with await receiver.receive() as message:
                assert message.body == b"kept"
            async with connection.transaction() as transaction:
                await sender.send(b"next", transaction=transaction)
            with await receiver.receive() as message:
                assert message.body == b"next"
        assert await connection.native.get(queue) is None


async def test_in_a_transaction_that_is_rolled_back(peer: Peer) -> None:
    """There nothing happens, and nothing is said."""
    async with peer.connected() as connection, connection.sender(NOWHERE) as sender:
        async with connection.transaction() as transaction:
            await sender.send(b"m", transaction=transaction)
            await transaction.rollback()
        async with connection.transaction() as transaction:
            pass
        assert transaction.state == "committed"


@pytest.mark.parametrize("name", ["rabbitmq", "embedded"])
async def test_refused_by_a_full_queue(name: str, request: pytest.FixtureRequest) -> None:
    """Rejected, with the code of a nack; in a transaction nothing of it happens."""
    peer = Peer(name, "0-9-1", request.getfixturevalue(name))
    full = {"x-max-length": 1, "x-overflow": "reject-publish"}
    async with peer.connected() as connection, peer.queue(connection, arguments=full) as queue:
        async with peer.queue(connection) as other, connection.sender(None) as sender:
            await sender.send(Message(b"1", to=f"/queues/{queue}"))
            with pytest.raises(MessageRejected) as rejected:
                for _ in range(3):  # RabbitMQ takes one more than it says
                    await sender.send(Message(b"2", to=f"/queues/{queue}"))
            assert rejected.value.info["reply-code"] == 541
            with pytest.raises(TransactionRolledBack):
                async with connection.transaction() as transaction:
                    await sender.send(Message(b"3", to=f"/queues/{queue}"), transaction=transaction)
            assert await connection.native.get(other) is None
