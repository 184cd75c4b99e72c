"""Tests of transactions, and of requests that AMQP 1.0 lacks."""

from __future__ import annotations

import pytest

from ...engine import DeclareQueue, DeleteQueue, PurgeQueue
from ...errors import LinkDetached, SessionEnded
from ...messaging import Message
from ._contract import Contract


class Work(Contract):
    """Transactions and requests."""

    async def test_transactions(self) -> None:
        """Check that sending and accepting in a transaction take effect at its commit, and not after a rollback."""
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
        """Check that a queue can be declared, emptied and deleted."""
        name = self.address("declared")
        async with self.connected() as connection, connection.session() as session:
            async with connection.receiver(self.address("warm")):
                pass
            if not self.has("requests"):
                async with self.refused(connection):
                    await self.ask(session, DeclareQueue(name))
                return
            facts = await self.ask(session, DeclareQueue(name, durable=True))
            assert facts.name == name
            async with connection.sender(name) as sender:
                for number in range(3):
                    await sender.send(Message(number))
            assert (await self.ask(session, DeclareQueue(name, durable=True))).messages == 3
            assert await self.ask(session, PurgeQueue(name)) == 3
            async with connection.sender(name) as sender:
                await sender.send(Message("last"))
            assert await self.ask(session, DeleteQueue(name)) == 1

    async def test_deleted(self) -> None:
        """Check that deleting a queue ends its receivers with an error."""
        if not self.has("requests"):
            return  # see `test_requests`
        name = self.address("declared")
        async with self.connected() as connection, connection.session() as session:
            await self.ask(session, DeclareQueue(name, durable=True))
            async with connection.receiver(name) as receiver:
                await self.ask(session, DeleteQueue(name))
                with pytest.raises((LinkDetached, SessionEnded)) as caught:  # in 0-10 an error ends the session
                    await receiver.receive()
                assert caught.value.condition in ("amqp:resource-deleted", None)
