"""Bodies that are read while the connection is lost and comes back."""

from __future__ import annotations

import random
from typing import Any

import pytest

from amqp10 import Connection, ConnectionLost, Data, Message, StaleDelivery
from amqp10.broker import Broker
from amqp10.testing import FaultProxy

from ...kit.client.hosts import connecting
from ...kit.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.in_memory]

BODY = random.Random(5).randbytes(2_000_000)
SECTIONS = [BODY[at : at + 70_000] for at in range(0, len(BODY), 70_000)]


@pytest.mark.parametrize("body", [BODY, Data(*SECTIONS)], ids=["one section", "many sections"])
@pytest.mark.parametrize("mode", ["first", "second"])
async def test_a_body_goes_on_where_it_was(body: Any, mode: Any) -> None:
    """Where the peer resumes links the reader does not notice a loss: the rest comes from the octet on (§2.6.13)."""
    async with Broker() as broker, FaultProxy(broker.url) as proxy:
        async with broker.connect() as local, local.sender("videos") as sender:
            await sender.send(Message(body, subject="film"))
        async with connecting(proxy.url, max_frame_size=4096) as connection:
            async with connection.receiver("videos", stream=True, receiver_settle_mode=mode) as receiver:
                delivery = await receiver.receive()
                got, passed, cuts = bytearray(), proxy.passed["down"], 0
                async for piece in delivery.iter_body():
                    got += piece
                    if len(got) > (cuts + 1) * 400_000:
                        cuts += 1
                        proxy.cut()
                assert got == BODY
                assert cuts >= 4
                assert proxy.passed["down"] - passed < 2 * len(BODY)  # not each time from the beginning
                delivery.accept()
                await delivery.wait_settled()
        assert broker.queue("videos").depth == 0


async def test_a_head_that_comes_in_two_connections() -> None:
    """A delivery that nobody has seen, for its head was not whole, is handed out once, when it is."""
    async with Broker() as broker, FaultProxy(broker.url) as proxy:
        async with broker.connect() as local, local.sender("q") as sender:
            await sender.send(Message("body", subject="s" * 20_000))
        async with connecting(proxy.url, max_frame_size=512) as connection:
            proxy.cut_after(8000, "down")
            async with connection.receiver("q", stream=True) as receiver:
                delivery = await receiver.receive()
                assert proxy.cuts == 1
                assert delivery.message.subject == "s" * 20_000
                assert delivery.message.body == "body"
                delivery.accept()
        assert broker.queue("q").depth == 0


async def test_an_outcome_while_it_is_away() -> None:
    """An outcome for a body that is given up is told by the attach, and the rest does not come."""
    async with Broker() as broker, FaultProxy(broker.url) as proxy:
        async with broker.connect() as local, local.sender("q") as sender:
            await sender.send_many([BODY, "next"])
        async with connecting(proxy.url, max_frame_size=4096) as connection:
            async with connection.receiver("q", stream=True) as receiver:
                delivery = await receiver.receive()
                proxy.stall()
                proxy.cut()
                await until(lambda: not receiver.open)
                delivery.reject("test:enough")
                proxy.resume()
                assert (await receiver.receive()).message.body == "next"
        assert broker.queue("q").rejected == 1


async def test_a_peer_that_does_not_resume() -> None:
    """The reader is told, and the message comes again from its beginning."""
    async with Broker() as broker, FaultProxy(broker.url) as proxy:
        async with broker.connect() as local, local.sender("q") as sender:
            await sender.send(BODY)
        async with connecting(proxy.url, max_frame_size=4096, profile="artemis") as connection:
            async with connection.receiver("q", stream=True) as receiver:
                delivery = await receiver.receive()
                with pytest.raises(ConnectionLost):
                    async for _ in delivery.iter_body():
                        proxy.cut()
                with pytest.raises(StaleDelivery):
                    delivery.accept()
                again = await receiver.receive()
                assert b"".join([piece async for piece in again.iter_body()]) == BODY
                again.accept()
        assert broker.queue("q").depth == 0


async def test_leaving_in_the_middle() -> None:
    """A receiver that is left while a body is half here and the connection away leaves nothing behind."""
    async with Broker() as broker, FaultProxy(broker.url) as proxy:
        async with broker.connect() as local, local.sender("q") as sender:
            await sender.send(BODY)
        async with connecting(proxy.url, max_frame_size=4096) as connection:
            async with connection.receiver("q", stream=True) as receiver:
                await receiver.receive()
                proxy.stall()
                proxy.cut()
                await until(lambda: not receiver.open)
            proxy.resume()
        async with Connection(broker.url) as connection:
            assert connection.open
