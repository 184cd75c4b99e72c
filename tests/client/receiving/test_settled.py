"""Waiting for a delivery to be settled, where the wait began before the outcome was given."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from anyio.abc import TaskGroup

from amqp10 import (
    Connection,
    ConnectionLost,
    LinkDetached,
    Message,
    Reconnect,
    StaleDelivery,
    TransactionRolledBack,
    Unsupported,
)
from amqp10.broker import Broker
from amqp10.client import Delivery
from amqp10.client.internals import receiver_delivery
from amqp10.dialects.v1_0.wire.frames import encode_frame
from amqp10.dialects.v1_0.wire.performatives import Transfer
from amqp10.engine import dialect_names
from amqp10.errors import AmqpError
from amqp10.messaging import Error
from amqp10.testing import FaultProxy

from ...kit.client.streams import Streams

pytestmark = pytest.mark.anyio

PAYLOAD = Message(bytes(200)).encode()
Serve = Callable[..., Any]
QUICK = Reconnect(initial_delay=0.01)
OUTCOMES: dict[str, Callable[[Delivery], None]] = {
    "accepted": lambda delivery: delivery.accept(),
    "rejected": lambda delivery: delivery.reject("x:bad"),
    "released": lambda delivery: delivery.release(),
    "modified": lambda delivery: delivery.modify(delivery_failed=True),
}


class Waits:
    """Tasks that wait for deliveries, two for each.

    Attributes:
        told: what they came to: the type of an error, or None.
    """

    def __init__(self, tasks: TaskGroup) -> None:
        self._tasks = tasks
        self.told: list[Any] = []

    async def begin(self, *deliveries: Delivery) -> None:
        for delivery in (*deliveries, *deliveries):
            self._tasks.start_soon(self._wait, delivery)
        await anyio.wait_all_tasks_blocked()
        assert not self.told

    async def _wait(self, delivery: Delivery) -> None:
        try:
            await delivery.wait_settled()
        except (AmqpError, anyio.ClosedResourceError) as error:
            self.told.append(type(error))
        else:
            assert delivery.local_settled
            self.told.append(None)


@asynccontextmanager
async def waiting(*deliveries: Delivery) -> AsyncIterator[Waits]:
    """Waits for these that have begun; at the end they are over, which is to come soon."""
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            waits = Waits(tasks)
            await waits.begin(*deliveries)
            yield waits


async def one(peer: Any, receiver: Any) -> Any:
    await anyio.wait_all_tasks_blocked()
    peer.send("q", "x")
    return await receiver.receive()


@pytest.mark.parametrize("outcome", OUTCOMES)
@pytest.mark.parametrize("mode", ["first", "second"])
@pytest.mark.parametrize("name", dialect_names())
async def test_outcomes(name: str, mode: Any, outcome: str) -> None:
    """Each outcome ends the wait in each mode and dialect, also that of a delivery which joins the one before it."""
    async with Broker() as broker, Connection(broker.url, dialect=name) as connection:
        async with connection.sender("q") as sender:
            for number in range(3):
                await sender.send(Message(str(number)))
        try:
            async with connection.receiver("q", receiver_settle_mode=mode) as receiver:
                deliveries = [await receiver.receive() for _ in range(3)]
                if outcome != "accepted" and outcome not in connection.capabilities:
                    with pytest.raises(Unsupported):
                        OUTCOMES[outcome](deliveries[0])
                    return
                async with waiting(*deliveries) as waits:
                    for delivery in deliveries:
                        OUTCOMES[outcome](delivery)
                assert waits.told == [None] * 6
        except Unsupported:
            assert mode == "second"


async def test_in_a_block(serve: Serve) -> None:
    """The end of `with` is an outcome as well."""
    async with serve() as (peer, connection), connection, connection.receiver("q") as receiver:
        delivery = await one(peer, receiver)
        async with waiting(delivery) as waits:
            with delivery:
                pass
        assert waits.told == [None] * 2


@pytest.mark.parametrize("mode", ["first", "second"])
@pytest.mark.parametrize("how", ["commit", "rollback"])
async def test_in_a_transaction(mode: Any, how: str) -> None:
    """The wait ends with the transaction; in mode "second" a rollback leaves the delivery to be settled again."""
    async with Broker() as broker, broker.connect() as connection:
        async with connection.sender("q") as sender:
            await sender.send("x")
        async with connection.receiver("q", receiver_settle_mode=mode) as receiver:
            delivery = await receiver.receive()
            async with waiting(delivery) as waits:
                async with connection.transaction() as transaction:
                    delivery.accept(transaction=transaction)
                    if how == "rollback":
                        await transaction.rollback()
                if how == "rollback" and mode == "second":
                    await anyio.wait_all_tasks_blocked()
                    assert not waits.told
                    delivery.accept()
            assert waits.told == [None] * 2


async def test_of_a_mode_of_its_own(serve: Serve) -> None:
    """A delivery that says "first" on a link in mode "second" is settled with its outcome (§2.7.5)."""
    async with serve() as (peer, connection), connection:
        async with connection.receiver("q", receiver_settle_mode="second") as receiver:
            await anyio.wait_all_tasks_blocked()
            link = peer.links["q"]
            transfer = Transfer(link.handle, 0, b"tag", 0, rcv_settle_mode=0)
            peer.engine.write(encode_frame(link.session.channel, transfer, PAYLOAD))
            peer.pump.wake()
            delivery = await receiver.receive()
            async with waiting(delivery) as waits:
                delivery.accept()
            assert waits.told == [None] * 2


async def test_streamed(serve: Serve) -> None:
    """An outcome that is told when all of the delivery is here ends the wait then."""
    async with serve() as (peer, connection), connection, connection.receiver("q", stream=True) as receiver:
        await anyio.wait_all_tasks_blocked()
        streams = Streams(peer)
        sent = streams.begin(PAYLOAD[:100])
        delivery = await receiver.receive()
        async with waiting(delivery) as waits:
            delivery.accept()
            await anyio.wait_all_tasks_blocked()
            assert not waits.told
            streams.more(sent, last=PAYLOAD[100:])
        assert waits.told == [None] * 2


@pytest.mark.parametrize("how", ["receiver", "connection", "detached", "lost"])
@pytest.mark.parametrize("given", [False, True])
@pytest.mark.parametrize("mode", ["first", "second"])
async def test_the_end(serve: Serve, mode: Any, given: bool, how: str) -> None:
    """A wait that goes on while the link ends is told why; with an outcome in mode "first" it was over before."""
    async with serve(close_timeout=0.1) as (peer, connection), waiting() as waits, AsyncExitStack() as links:
        async with connection:
            receiver = await links.enter_async_context(connection.receiver("q", receiver_settle_mode=mode))
            await anyio.wait_all_tasks_blocked()
            peer.links["q"].auto_settle = False
            delivery = await one(peer, receiver)
            await waits.begin(delivery)
            if given:
                delivery.accept()
            if how == "receiver":
                await receiver.close()
            elif how == "detached":
                peer.links["q"].detach(error=Error("amqp:resource-deleted", "gone"))
                peer.pump.wake()
            elif how == "lost":
                await peer.stream.aclose()
            if how != "connection":
                await anyio.wait_all_tasks_blocked()
                assert len(waits.told) == 2
    expected: Any = {"detached": LinkDetached, "lost": ConnectionLost}.get(how, anyio.ClosedResourceError)
    assert waits.told == [None if given and mode == "first" else expected] * 2


@pytest.mark.parametrize("given", ["before", "while lost", "while attaching"])
@pytest.mark.parametrize("mode", ["first", "second"])
async def test_resumed(mode: Any, given: str) -> None:
    """An outcome that is told when the link is there again, and has resumed the delivery, ends the wait then."""
    async with Broker() as broker, FaultProxy(broker.url) as proxy:
        async with broker.connect() as connection, connection.sender("q") as sender:
            await sender.send("x")
        async with Connection(proxy.url, reconnect=QUICK) as connection:
            async with connection.receiver("q", receiver_settle_mode=mode) as receiver:
                delivery = await receiver.receive()
                link = receiver_delivery(delivery).link
                async with waiting(delivery) as waits:
                    if given == "before":
                        proxy.stall("up")
                        delivery.accept()
                        await anyio.wait_all_tasks_blocked()
                    proxy.cut()
                    proxy.resume()
                    while receiver.open or (given == "while attaching" and receiver_delivery(delivery).link is link):
                        await anyio.lowlevel.checkpoint()
                    if given == "while attaching":
                        assert receiver_delivery(delivery).delivery_id is None
                        delivery.accept()
                        assert not delivery.local_settled
                    elif given == "while lost":
                        delivery.accept()
                assert waits.told == [None] * 2


@pytest.mark.parametrize("name", dialect_names())
async def test_not_resumed(name: str) -> None:
    """A wait that goes on when the link is lost, and is there again without the delivery, is told so."""
    async with Broker() as broker, FaultProxy(broker.url) as proxy:
        async with broker.connect() as connection, connection.sender("q") as sender:
            await sender.send("x")
        async with Connection(proxy.url, dialect=name, reconnect=QUICK) as connection:
            async with connection.receiver("q") as receiver:
                delivery = await receiver.receive()
                async with waiting(delivery) as waits:
                    proxy.cut()
                    again = delivery if name in ("1.0", "0-10") else await receiver.receive()
                    while receiver_delivery(delivery).delivery_id is None:
                        await anyio.lowlevel.checkpoint()
                    again.accept()
                assert waits.told == [None if again is delivery else StaleDelivery] * 2


async def test_lost_in_a_transaction() -> None:
    """In mode "second" a delivery that a transaction covers is lost with its link, and who waits for it is told so."""
    async with Broker() as broker, FaultProxy(broker.url) as proxy:
        async with broker.connect() as connection, connection.sender("q") as sender:
            await sender.send("x")
        async with Connection(proxy.url, reconnect=QUICK) as connection:
            async with connection.receiver("q", receiver_settle_mode="second") as receiver:
                delivery = await receiver.receive()
                async with waiting(delivery) as waits:
                    with pytest.raises(TransactionRolledBack):
                        async with connection.transaction() as transaction:
                            delivery.accept(transaction=transaction)
                            proxy.cut()
                            while receiver.open:
                                await anyio.lowlevel.checkpoint()
                assert waits.told == [StaleDelivery] * 2
                with pytest.raises(StaleDelivery):
                    delivery.accept()
                again = await receiver.receive()
                again.accept()
                await again.wait_settled()


@pytest.mark.parametrize("how", ["receiver", "connection"])
@pytest.mark.parametrize("mode", ["first", "second"])
async def test_closed_while_lost(mode: Any, how: str) -> None:
    """A wait that goes on when the connection is lost and then closed here does not go on for ever."""
    async with Broker() as broker, FaultProxy(broker.url) as proxy:
        async with broker.connect() as connection, connection.sender("q") as sender:
            await sender.send("x")
        async with waiting() as waits, AsyncExitStack() as links:
            async with Connection(proxy.url, reconnect=Reconnect(initial_delay=20), close_timeout=0.1) as connection:
                receiver = await links.enter_async_context(connection.receiver("q", receiver_settle_mode=mode))
                delivery = await receiver.receive()
                await waits.begin(delivery)
                proxy.cut()
                while receiver.open:
                    await anyio.lowlevel.checkpoint()
                delivery.accept()
                if how == "receiver":
                    await receiver.close()
                    await anyio.wait_all_tasks_blocked()
                    assert waits.told
        assert waits.told == [anyio.ClosedResourceError] * 2
