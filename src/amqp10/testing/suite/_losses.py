"""Tests of lost connections: reported, or restored with all work in progress."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

import anyio
import pytest

from ...client import Reconnect
from ...errors import ConnectionLost, StaleDelivery
from ...messaging import Message
from .._proxy import FaultProxy
from ._contract import Contract

QUICK_RECONNECT: Final = Reconnect(initial_delay=0.01, max_delay=0.05)


class Losses(Contract):
    """Tests of lost connections."""

    async def test_lost(self) -> None:
        """Check that without `reconnect` a waiting call raises `ConnectionLost` when the connection is lost."""
        async with self.server() as url, FaultProxy(url) as proxy:
            with pytest.raises(ConnectionLost):
                async with self.connected(proxy.url) as connection, connection.receiver(self.q) as receiver:
                    proxy.cut(reset=True)
                    await receiver.receive()

    async def test_held_by_the_lost(self) -> None:
        """Check that a message that was unsettled on a lost connection comes to a receiver on another one."""
        async with self.server() as url, FaultProxy(url) as proxy:
            async with self.connected(url) as connection, connection.sender(self.q) as sender:
                await sender.send(Message("it"))
                with pytest.raises(ConnectionLost):
                    async with self.connected(proxy.url) as lost, lost.receiver(self.q) as receiver:
                        assert (await receiver.receive()).message.body == "it"
                        proxy.cut(reset=True)
                        await receiver.receive()
                async with connection.receiver(self.q) as receiver:
                    delivery = await receiver.receive()
                    assert delivery.message.body == "it"
                    delivery.accept()

    async def test_restored(self) -> None:
        """Check that with `reconnect` links are restored, all messages arrive, and unsettled messages come again."""
        async with self.server() as url, FaultProxy(url) as proxy:
            async with self.connected(proxy.url, reconnect=QUICK_RECONNECT) as connection:
                async with (
                    connection.sender(self.q) as sender,
                    connection.receiver(self.q, credit=10) as receiver,
                ):
                    seen: set[object] = set()
                    async with anyio.create_task_group() as tasks:

                        async def send() -> None:
                            for number in range(90):
                                if number % 30 == 15:
                                    proxy.cut(reset=True)
                                await sender.send(Message(number))

                        tasks.start_soon(send)
                        while len(seen) < 90:
                            delivery = await receiver.receive()
                            seen.add(delivery.message.body)
                            with suppress(StaleDelivery):
                                delivery.accept()
                    assert seen == set(range(90))
                    assert proxy.cuts >= 3

    async def test_resume(self) -> None:
        """Check that a delivery can be settled after a loss in a dialect that resumes, and comes again in any other."""
        async with self.server() as url, FaultProxy(url) as proxy:
            async with self.connected(proxy.url, reconnect=QUICK_RECONNECT, container_id="me") as connection:
                async with (
                    connection.sender(self.q) as sender,
                    connection.receiver(self.q, credit=1) as receiver,
                ):
                    await sender.send(Message("it"))
                    delivery = await receiver.receive()
                    proxy.cut(reset=True)
                    await sender.send(Message("next"))  # once the link is restored
                    left = {"it", "next"}
                    if self.has("resume") or self.has("session-resume"):
                        delivery.accept()
                        left.discard("it")
                    while left:
                        again = await receiver.receive()
                        left.remove(again.message.body)
                        again.accept()
