"""Tests of the outcomes other than accepted."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from ...client import Connection, Delivery, Receiver
from ...messaging import Message
from ._contract import Contract


class Outcomes(Contract):
    """Released, rejected, modified, and receiver-settle-mode "second"."""

    @asynccontextmanager
    async def _delivered(self) -> AsyncIterator[tuple[Connection, Receiver, Delivery]]:
        """Yield a connection, a receiver on it, and a delivery of that, which waits for its outcome."""
        async with self.connected() as connection, connection.sender(self.q) as sender:
            await sender.send(Message("it"))
            async with connection.receiver(self.q, credit=1) as receiver:
                delivery = await receiver.receive()
                yield connection, receiver, delivery
                if not delivery.local_settled:
                    delivery.accept()

    async def test_released(self) -> None:
        """Check that a released message comes again; unless `counts_releases`, its delivery-count stays 0."""
        async with self._delivered() as (connection, receiver, delivery):
            if not self.has("released"):
                async with self.refused(connection):
                    delivery.release()
                return
            delivery.release()
            async with connection.receiver(self.q) as another:
                again = await (receiver if another.buffered == 0 else another).receive()
                assert again.message.body == "it"
                assert again.message.delivery_count == int(self.counts_releases)
                again.accept()

    async def test_rejected(self) -> None:
        """Check that a rejected message does not come again, and is in `dead_letters` if the server has such a node."""
        async with self._delivered() as (connection, receiver, delivery):
            if not self.has("rejected"):
                async with self.refused(connection):
                    delivery.reject("amqp:not-allowed", "no")
                assert not delivery.local_settled
                return
            delivery.reject("amqp:not-allowed", "no")
            async with connection.sender(self.q) as sender:
                await sender.send(Message("next"))
            following = await receiver.receive()
            assert following.message.body == "next"
            following.accept()
            if self.dead_letters is not None:
                async with connection.receiver(self.dead_letters) as dead_letters:
                    dead = await dead_letters.receive()
                    assert dead.message.body == "it"
                    dead.accept()

    async def test_modified(self) -> None:
        """Check that a message given back as failed comes again, with a delivery-count of at least 1."""
        async with self._delivered() as (connection, receiver, delivery):
            if not self.has("modified"):
                async with self.refused(connection):
                    delivery.modify(delivery_failed=True)
                assert not delivery.local_settled
                return
            delivery.modify(delivery_failed=True)
            again = await receiver.receive()
            assert again.message.body == "it"
            assert again.message.delivery_count >= 1
            again.accept()

    async def test_settle_second(self) -> None:
        """Check that in receiver-settle-mode "second" a delivery is settled after the sender knows its outcome."""
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
                await delivery.wait_settled()
                assert delivery.local_settled

    async def test_detach_releases(self) -> None:
        """Check that an unsettled message comes again after its link is detached, or else after the connection ends."""
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
