"""Tests of special links: drains, anonymous terminus, dynamic nodes, filters, browsing, durable subscriptions."""

from __future__ import annotations

import pytest

from ...client import Connection
from ...errors import FilterNotApplied, LinkDetached
from ...messaging import Message, Selector, Source, StreamOffset
from ._contract import Contract


class Links(Contract):
    """Tests of special links."""

    async def test_drain(self) -> None:
        """Check that a drain ends when all waiting messages have arrived, and leaves no credit."""
        async with self.connected() as connection, connection.sender(self.q) as sender:
            for number in range(3):
                await sender.send(Message(number))
            async with connection.receiver(self.q, credit=0) as receiver:
                receiver.add_credit(10)
                if not self.has("drain"):
                    async with self.refused(connection):
                        await receiver.drain()
                    return
                await receiver.drain()
                assert (receiver.buffered, receiver.credit) == (3, 0)
                await sender.send(Message("later"))
                for number in range(3):
                    delivery = await receiver.receive()
                    assert delivery.message.body == number
                    delivery.accept()
                assert receiver.buffered == 0
                receiver.add_credit(1)
                delivery = await receiver.receive()
                assert delivery.message.body == "later"
                delivery.accept()

    async def test_anonymous_terminus(self) -> None:
        """Check that a sender without an address sends each message to the address in its `to`."""
        async with self.connected() as connection:
            addresses = [self.address("one"), self.address("two")]
            for address in addresses:  # for dialects in which a queue must exist before sending to it
                async with connection.receiver(address):
                    pass
            anonymous = connection.sender(None)
            if not self.has("anonymous-terminus"):
                async with self.refused(connection):
                    await anonymous.__aenter__()
                return
            async with anonymous:
                for address in addresses:
                    await anonymous.send(Message(address, to=address))
            for address in addresses:
                async with connection.receiver(address) as receiver:
                    delivery = await receiver.receive()
                    assert (delivery.message.body, receiver.buffered) == (address, 0)
                    delivery.accept()

    async def test_dynamic(self) -> None:
        """Check that the server makes a node for a link, names it, and stores messages sent to that name in it."""
        async with self.connected() as connection:
            async with connection.receiver(self.address("warm")):
                pass
            receiver = connection.receiver(dynamic=True)
            if not self.has("dynamic"):
                async with self.refused(connection):
                    await receiver.__aenter__()
                return
            async with receiver:
                assert receiver.address
                async with connection.sender(receiver.address) as sender:
                    await sender.send(Message("found"))
                delivery = await receiver.receive()
                assert delivery.message.body == "found"
                delivery.accept()

    async def test_filters(self) -> None:
        """Check that only messages that pass the filter arrive, and the others stay for other receivers."""
        async with self.connected() as connection, connection.sender(self.q) as sender:
            for number in range(6):
                await sender.send(Message(number, application_properties={"n": number}))
            receiver = connection.receiver(Source(self.q, filters=[Selector("n >= 4")]))
            async with connection.receiver(self.address("warm")):
                pass
            if not self.has("filters"):
                async with self.refused(connection):
                    await receiver.__aenter__()
                return
            async with receiver:
                for number in (4, 5):
                    delivery = await receiver.receive()
                    assert delivery.message.body == number
                    delivery.accept()
            async with connection.receiver(self.q) as rest:
                assert (await rest.receive()).message.body == 0

    async def test_stream_filters(self) -> None:
        """Check that a stream offset on a queue that is not a stream raises, and is not silently ignored."""
        async with self.connected() as connection:
            async with connection.receiver(self.q):
                pass
            receiver = connection.receiver(Source(self.q, filters=[StreamOffset("first")]))
            if not self.has("stream-filters"):
                async with self.refused(connection):
                    await receiver.__aenter__()
                return
            with pytest.raises((FilterNotApplied, LinkDetached)):
                async with receiver:
                    await receiver.receive()

    async def test_browse(self) -> None:
        """Check that a browser shows all waiting messages, ends after them, and leaves them in the queue."""
        async with self.connected() as connection, connection.sender(self.q) as sender:
            for number in range(30):
                await sender.send(Message(number))
            async with connection.receiver(self.address("warm")):
                pass
            browser = connection.browser(self.q, credit=7)
            if not self.has("browse"):
                async with self.refused(connection):
                    await browser.__aenter__()
                return
            async with browser:
                assert [delivery.message.body async for delivery in browser] == list(range(30))
            async with connection.receiver(self.q) as receiver:
                for number in range(30):
                    delivery = await receiver.receive()
                    assert delivery.message.body == number
                    delivery.accept()

    async def test_durable_subscriptions(self) -> None:
        """Check that a durable subscription keeps messages until the next connection of its container."""
        async with self.server() as url:
            async with self.connected(url, container_id="me") as connection:
                async with connection.receiver(self.address("warm")):
                    pass
                subscription = connection.subscription(self.address("topic.t"), "mine")
                if not self.has("durable-subscriptions"):
                    async with self.refused(connection):
                        await subscription.__aenter__()
                    return
                async with subscription:
                    pass
                async with connection.sender(self.address("topic.t")) as sender:
                    await sender.send(Message("meanwhile"))
            async with self.connected(url, container_id="me") as connection:
                async with connection.subscription(self.address("topic.t"), "mine") as subscription:
                    delivery = await subscription.receive()
                    assert delivery.message.body == "meanwhile"
                    delivery.accept()
                await connection.unsubscribe("mine")
                await self._is_over(connection)

    async def _is_over(self, connection: Connection) -> None:
        with pytest.raises(LinkDetached) as caught:
            await connection.unsubscribe("mine")
        assert caught.value.condition == "amqp:not-found"
