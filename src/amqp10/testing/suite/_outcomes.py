"""What a receiver can say of a message besides accepting it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from ...client import Connection, Delivery
from ...messaging import Message
from ._contract import Contract


class Outcomes(Contract):
    """Released, rejected, modified, and receiver-settle-mode "second"."""

    @asynccontextmanager
    async def _delivered(self) -> AsyncIterator[tuple[Connection, Delivery]]:
        """A message that waits for its outcome."""
        async with self.connected() as connection, connection.sender(self.q) as sender:
            await sender.send(Message("it"))
            async with connection.receiver(self.q, credit=1) as receiver:
                delivery = await receiver.receive()
                yield connection, delivery
                if not delivery.local_settled:
                    delivery.accept()

    async def test_released(self) -> None:
        """A message that is released comes again, and counts no failed attempt, if the dialect can say so."""
        async with self._delivered() as (connection, delivery):
            if not self.has("released"):
                async with self.refused(connection):
                    delivery.release()
                return
            delivery.release()
            async with connection.receiver(self.q) as receiver:
                again = await (delivery.link.context if receiver.buffered == 0 else receiver).receive()
                assert again.message.body == "it"
                assert again.message.delivery_count == int(self.counts_releases)
                again.accept()

    async def test_rejected(self) -> None:
        """A message that is rejected does not come again; it is where the server puts such."""
        async with self._delivered() as (connection, delivery):
            if not self.has("rejected"):
                async with self.refused(connection):
                    delivery.reject("amqp:not-allowed", "no")
                assert not delivery.local_settled
                return
            delivery.reject("amqp:not-allowed", "no")
            async with connection.sender(self.q) as sender:
                await sender.send(Message("next"))
            following = await delivery.link.context.receive()
            assert following.message.body == "next"
            following.accept()
            if self.dead_letters is not None:
                async with connection.receiver(self.dead_letters) as receiver:
                    dead = await receiver.receive()
                    assert dead.message.body == "it"
                    dead.accept()

    async def test_modified(self) -> None:
        """A message that is given back as failed comes again, and is known to have been tried."""
        async with self._delivered() as (connection, delivery):
            if not self.has("modified"):
                async with self.refused(connection):
                    delivery.modify(delivery_failed=True)
                assert not delivery.local_settled
                return
            delivery.modify(delivery_failed=True)
            again = await delivery.link.context.receive()
            assert again.message.body == "it"
            assert again.message.delivery_count >= 1
            again.accept()

    async def test_settle_second(self) -> None:
        """In receiver-settle-mode "second" a delivery is settled when the sender has heard of its outcome."""
        async with self.connected() as connection, connection.sender(self.q) as sender:
            await sender.send(Message("it"))
            receiver = connection.receiver(self.q, receiver_settle_mode="second")
            if not self.has("settle-second"):
                async with self.refused(connection):
                    await receiver.__aenter__()
                return
            async with receiver:
                delivery = await receiver.receive()
                delivery.accept()
                assert not delivery.local_settled
                await delivery.settled()
                assert delivery.local_settled

    async def test_detach_releases(self) -> None:
        """What a link leaves is in its queue at once, the session going on; or else when the connection is over."""
        async with self.server() as url:
            async with self.connected(url) as connection, connection.sender(self.q) as sender:
                await sender.send(Message("it"))
                async with connection.receiver(self.q) as receiver:
                    await receiver.receive()
                if self.has("detach-releases"):
                    await self._comes_again(connection)
                    return
            async with self.connected(url) as connection:
                await self._comes_again(connection)

    async def _comes_again(self, connection: Connection) -> None:
        async with connection.receiver(self.q) as receiver:
            again = await receiver.receive()
            assert again.message.body == "it"
            again.accept()
