"""Connections that the client knows to be lost and the broker does not, to which what was on its way comes late.

So it is when a machine on the way goes down, and the client has connected by another before the broker's idle timeout.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import anyio
import pytest
from anyio.abc import ByteStream, SocketAttribute, TaskGroup, TaskStatus

from amqp10 import Connection, Reconnect
from amqp10.broker import Broker
from amqp10.net import parse_url

from ..kit.counts import SEEDS

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

QUICK = Reconnect(initial_delay=0.001, max_delay=0.02, first_attempts=100)
GONE = (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError)
MESSAGES = 400
SENDERS = 2
LOSSES = 20


class Relay:
    """Passes bytes on, until it is lost: then neither side hears of the other, and what it holds is late."""

    def __init__(self, client: ByteStream, server: ByteStream) -> None:
        self._client, self._server = client, server
        self._held: list[bytes] = []
        self._writing = anyio.Lock()  # to the server
        self.lost = False

    async def run(self) -> None:
        async with self._client, self._server, anyio.create_task_group() as tasks:
            tasks.start_soon(self._up)
            tasks.start_soon(self._down)

    async def _up(self) -> None:
        try:
            async for data in self._client:
                if self.lost:
                    self._held.append(data)
                else:
                    async with self._writing:
                        await self._server.send(data)
        except GONE:
            pass
        if not self.lost:
            await self._server.aclose()

    async def _down(self) -> None:
        try:
            async for data in self._server:
                if not self.lost:
                    await self._client.send(data)
        except GONE:
            pass
        await self._client.aclose()

    async def lose(self, chance: random.Random) -> None:
        """The client is told soon, the server late, when it has had what the client wrote."""
        self.lost = True
        await anyio.sleep(chance.random() / 100)
        await self._client.aclose()
        await anyio.sleep(chance.random() / 5)
        try:
            async with self._writing:  # when what was under way is through
                for data in self._held:
                    await self._server.send(data)
            await anyio.sleep(chance.random() / 5)
        except GONE:
            pass
        await self._server.aclose()


class Relays:
    """A port that leads to the broker."""

    def __init__(self, url: str) -> None:
        self._port = parse_url(url).port
        self.all: list[Relay] = []

    async def serve(self, *, task_status: TaskStatus[str]) -> None:
        async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener:
            task_status.started(f"amqp://127.0.0.1:{listener.extra(SocketAttribute.local_port)}")
            await listener.serve(self._pass)

    async def _pass(self, client: ByteStream) -> None:
        relay = Relay(client, await anyio.connect_tcp("127.0.0.1", self._port))
        self.all.append(relay)
        await relay.run()

    async def lose_one(self, tasks: TaskGroup, chance: random.Random) -> None:
        here = [relay for relay in self.all if not relay.lost]
        if here:
            tasks.start_soon(chance.choice(here).lose, chance)


@pytest.mark.parametrize("mode", ["first", "second"])
@pytest.mark.parametrize("seed", SEEDS)
async def test_what_comes_late(seed: int, mode: Any) -> None:
    """Nothing is lost, and in mode "second" nothing comes twice; nothing stays locked with what was lost."""
    chance = random.Random(seed)
    done: Counter[Any] = Counter()
    async with Broker() as broker, anyio.create_task_group() as tasks:
        relays = Relays(broker.url)
        url = await tasks.start(relays.serve)

        async def send(name: int) -> None:
            async with Connection(url, container_id=f"sender-{name}", reconnect=QUICK) as connection:
                async with connection.sender("q", name="out", receiver_settle_mode=mode) as sender:
                    for number in range(MESSAGES):
                        await sender.send((name * MESSAGES) + number)

        async def receive() -> None:
            async with Connection(url, container_id="receiver", reconnect=QUICK, close_timeout=1) as connection:
                async with connection.receiver("q", name="in", credit=10, receiver_settle_mode=mode) as receiver:
                    async for delivery in receiver:
                        delivery.accept()
                        done[delivery.message.body] += 1

        with anyio.fail_after(60):
            async with anyio.create_task_group() as receiving:
                receiving.start_soon(receive)
                async with anyio.create_task_group() as sending:
                    for name in range(SENDERS):
                        sending.start_soon(send, name)
                    for _ in range(LOSSES):
                        await anyio.sleep(chance.random() / 20)
                        await relays.lose_one(tasks, chance)
                while broker.queue("q").depth:  # noqa: ASYNC110 - of what is waited for there is no event
                    await anyio.sleep(0.01)
                receiving.cancel_scope.cancel()
        tasks.cancel_scope.cancel()
    assert done.keys() == set(range(MESSAGES * SENDERS))
    if mode == "second":
        assert set(done.values()) == {1}
