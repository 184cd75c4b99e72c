"""Settle modes, outcomes and what the brokers make of them."""

from __future__ import annotations

from datetime import timedelta

import anyio
import pytest

from amqp10 import Connection, ConnectionLost, LocalProtocolError, Message
from amqp10.client.internals import receiver_delivery

from ._matrix import Peer

pytestmark = [pytest.mark.anyio, pytest.mark.interop, pytest.mark.timeout(600), pytest.mark.capability("outcomes")]


@pytest.mark.matrix("sent settled, received settled")
async def test_settled(peer: Peer) -> None:
    """At most once: no outcome at either end; closing the connection does not lose what was handed over."""
    async with Connection(peer.url()) as connection:
        address = await peer.queue(connection)
        async with connection.sender(address, settle_mode="settled") as sender:
            await sender.send_many(range(100))
        async with connection.receiver(address, settle_mode="settled") as receiver:
            got = [await receiver.receive() for _ in range(100)]
        assert [delivery.message.body for delivery in got] == list(range(100))
        assert all(delivery.local_settled for delivery in got)


@pytest.mark.matrix("settle mode mixed")
async def test_mixed(peer: Peer) -> None:
    """Each message says for itself."""
    async with Connection(peer.url()) as connection:
        address = await peer.queue(connection)
        if peer.name == "broker_j":
            with pytest.raises(ConnectionLost):
                async with connection.sender(address, settle_mode="mixed") as sender:
                    await sender.submit("settled", settled=True)
                    await sender.send("unsettled")  # in one write with the other; alone it would be taken
            peer.lacks("`ConnectionLost`: it hangs up on an unsettled message right behind a settled one")
            return
        async with connection.sender(address, settle_mode="mixed") as sender, connection.receiver(address) as receiver:
            await sender.send("settled", settled=True)
            await sender.send("unsettled")
            for body in ("settled", "unsettled"):
                with await receiver.receive() as message:
                    assert message.body == body


@pytest.mark.matrix("receiver settles second")
async def test_second(peer: Peer) -> None:
    """Exactly once: the receiver's outcome is final when the sender has settled, too."""
    async with Connection(peer.url()) as connection:
        address = await peer.queue(connection)
        async with connection.sender(address) as sender:
            await sender.send("once")
        if peer.name == "rabbitmq":
            with pytest.raises(peer.refused, match="not-implemented"):
                async with connection.receiver(address, receiver_settle_mode="second"):
                    pass
            peer.lacks(f"`{peer.refused.__name__}: amqp:not-implemented`")
            return
        async with connection.receiver(address, receiver_settle_mode="second") as receiver:
            if receiver.receiver_settle_mode == "first":
                peer.lacks("grants first instead; `receiver.receiver_settle_mode` says so")
                return
            delivery = await receiver.receive()
            delivery.accept()
            await delivery.wait_settled()
            assert receiver_delivery(delivery).remote_settled


@pytest.mark.matrix("released: comes again as it was")
async def test_released(peer: Peer) -> None:
    """It comes again, and no failure is counted."""
    async with Connection(peer.url()) as connection:
        address = await peer.queue(connection)
        async with connection.sender(address) as sender, connection.receiver(address) as receiver:
            await sender.send("again")
            (await receiver.receive()).release()
            with await receiver.receive() as message:
                assert message.body == "again"
                if message.delivery_count:
                    peer.note(f"with delivery-count {message.delivery_count}")


@pytest.mark.matrix("modified: a failed delivery is counted")
async def test_modified(peer: Peer) -> None:
    """It comes again with its delivery-count one higher."""
    async with Connection(peer.url()) as connection:
        address = await peer.queue(connection)
        async with connection.sender(address) as sender, connection.receiver(address) as receiver:
            await sender.send("again")
            (await receiver.receive()).modify(delivery_failed=True)
            with await receiver.receive() as message:
                assert message.body == "again"
                if peer.name == "rabbitmq" and not message.delivery_count:
                    peer.lacks("a classic queue of 4.0 does not count")
                else:
                    assert message.delivery_count == 1


@pytest.mark.matrix("rejected: does not come again")
async def test_rejected(peer: Peer) -> None:
    """It is gone from the queue, to a dead-letter queue where the broker has one."""
    async with Connection(peer.url()) as connection:
        address = await peer.queue(connection)
        async with connection.sender(address) as sender, connection.receiver(address) as receiver:
            await sender.send("bad")
            (await receiver.receive()).reject("test:bad", "nobody wants this")
            if peer.name == "broker_j":
                with await receiver.receive() as message:
                    assert (message.body, message.delivery_count) == ("bad", 1)
                peer.lacks("comes again, counted as a failed delivery")
                return
            await sender.send("next")
            with await receiver.receive() as message:
                assert message.body == "next"


@pytest.mark.matrix("time to live")
async def test_ttl(peer: Peer) -> None:
    """A message whose time is over is not delivered; one that has time is."""
    async with Connection(peer.url()) as connection:
        address = await peer.queue(connection)
        async with connection.sender(address) as sender:
            await sender.send(Message("short", ttl=timedelta(milliseconds=1)))
            await sender.send(Message("long", ttl=timedelta(hours=1)))
        await anyio.sleep(0.1)  # what is short is over
        async with connection.receiver(address) as receiver:
            with await receiver.receive() as message:
                assert message.body == "long"


@pytest.mark.matrix("a message larger than the peer takes")
async def test_too_large(peer: Peer) -> None:
    """The limit that the peer names is checked before anything is sent."""
    async with Connection(peer.url()) as connection:
        address = await peer.queue(connection)
        async with connection.sender(address) as sender:
            limit = sender.remote.max_message_size
            if limit is None or limit > 1 << 30:
                peer.note("names no limit")
                return
            peer.note(f"limit {limit >> 20} MiB")
            with pytest.raises(LocalProtocolError, match="max-message-size"):
                await sender.send(bytes(limit + 1))
            await sender.send("fits")


@pytest.mark.matrix("competing receivers share a queue")
async def test_competing(peer: Peer) -> None:
    """Two receivers get each message once between them."""
    async with Connection(peer.url()) as connection:
        address = await peer.queue(connection)
        async with connection.receiver(address, credit=5) as one, connection.receiver(address, credit=5) as two:
            async with connection.sender(address) as sender:
                await sender.send_many(range(20))
            bodies: list[int] = []
            while len(bodies) < 20:
                for receiver in (one, two):
                    for delivery in await receiver.receive_batch(5, max_wait=0.1):
                        bodies.append(delivery.message.body)
                        delivery.accept()
            assert sorted(bodies) == list(range(20))
