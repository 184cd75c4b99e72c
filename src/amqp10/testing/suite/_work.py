"""Transactions, and what AMQP 1.0 has no word for."""

from __future__ import annotations

import pytest

from ...engine import DeclareQueue, DeleteQueue, PurgeQueue
from ...errors import LinkDetached, SessionEnded
from ...messaging import Message
from ._contract import Contract


class Work(Contract):
    """See the module."""

    async def test_transactions(self) -> None:
        """What is sent and accepted in a transaction happens when it is committed, and not at all when it is not."""
        async with (
            self.connected() as connection,
            connection.sender(self.address("in")) as sender,
            connection.receiver(self.address("in"), credit=10) as receiver,
            connection.receiver(self.address("out"), credit=10) as results,
            connection.sender(self.address("out")) as forward,
        ):
            if not self.has("transactions"):
                async with self.refused(connection):
                    await connection.transaction().__aenter__()
                return
            for number in range(2):
                await sender.send(Message(number))
            first, second = await receiver.receive(), await receiver.receive()
            async with connection.transaction() as transaction:
                first.accept(transaction=transaction)
                await forward.send(Message("done"), transaction=transaction)
            assert transaction.state == "committed"
            done = await results.receive()
            assert done.message.body == "done"
            done.accept()
            with pytest.raises(KeyError):
                async with connection.transaction() as transaction:
                    second.accept(transaction=transaction)
                    await forward.send(Message("not done"), transaction=transaction)
                    raise KeyError
            assert transaction.state == "rolled-back"
            again = await receiver.receive()
            assert again.message.body == 1
            again.accept()
            await forward.send(Message("next"))
            following = await results.receive()
            assert following.message.body == "next"
            following.accept()

    async def test_requests(self) -> None:
        """A queue is declared, emptied and deleted."""
        name = self.address("declared")
        async with self.connected() as connection, connection.session() as session:
            async with connection.receiver(self.address("warm")):
                pass
            if not self.has("requests"):
                async with self.refused(connection):
                    await session._request(DeclareQueue(name))
                return
            facts = await session._request(DeclareQueue(name, durable=True))
            assert facts.name == name
            async with connection.sender(name) as sender:
                for number in range(3):
                    await sender.send(Message(number))
            assert (await session._request(DeclareQueue(name, durable=True))).messages == 3
            assert await session._request(PurgeQueue(name)) == 3
            async with connection.sender(name) as sender:
                await sender.send(Message("last"))
            assert await session._request(DeleteQueue(name)) == 1

    async def test_deleted(self) -> None:
        """Who receives from a queue that is deleted is told so."""
        if not self.has("requests"):
            return  # see `test_requests`
        name = self.address("declared")
        async with self.connected() as connection, connection.session() as session:
            await session._request(DeclareQueue(name, durable=True))
            async with connection.receiver(name) as receiver:
                await session._request(DeleteQueue(name))
                with pytest.raises((LinkDetached, SessionEnded)) as caught:  # in 0-10 an error is the session's
                    await receiver.receive()
                assert caught.value.condition in ("amqp:resource-deleted", None)
