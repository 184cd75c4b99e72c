"""Storms of cancellations over ten links of one connection: what they leave behind is what was there before."""

from __future__ import annotations

import gc
import math
import random
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from amqp10.broker import Broker
from amqp10.client import Connection, Delivery, Receiver, Reconnect, Sender
from amqp10.errors import ConnectionLost, DeliveryUncertain, LinkDetached, SessionEnded, StaleDelivery
from amqp10.messaging import Data, Message
from amqp10.testing import FaultProxy

from ..kit.counts import SEEDS

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.capability("cancellation")]

PAIRS = 5
TASKS = 1000
CREDIT = 20

# Of memory that each storm leaked there would be some blocks for each message; trio keeps old deadlines for a while.
MAX_BLOCKS = 5 * TASKS


@dataclass
class Account:
    """What became of the messages, by their bodies.

    Attributes:
        tried: handed to a call that sends; it may have been cancelled.
        sure: that call has returned.
        got: received and accepted.
    """

    tried: set[int] = field(default_factory=set)
    sure: set[int] = field(default_factory=set)
    got: Counter[int] = field(default_factory=Counter)

    def next(self) -> int:
        number = len(self.tried)
        self.tried.add(number)
        return number


class Storm:
    """Tasks over the links, each cancelled at a random moment, again and again.

    Attributes:
        lost: what acts may raise, for connections break meanwhile.
    """

    lost: tuple[type[Exception], ...] = ()

    def __init__(self, connection: Connection, senders: list[Sender], receivers: list[Receiver], seed: int) -> None:
        self.connection = connection
        self.senders = senders
        self.receivers = {receiver: anyio.Lock() for receiver in receivers}
        self.random = random.Random(seed)
        self.account = Account()
        self.round = 0
        self.due: dict[int, list[anyio.CancelScope]] = {}
        self.cut = 0
        self.failed = 0  # acts that ended with what a broken connection raises

    async def rage(self) -> None:
        async with anyio.create_task_group() as clock:
            clock.start_soon(self._keep_time)
            async with anyio.create_task_group() as tasks:
                for _ in range(TASKS):
                    tasks.start_soon(self._task)
            clock.cancel_scope.cancel()

    async def _keep_time(self) -> None:
        """Time is rounds of the event loop, whatever else the machine does: in each, cancel whose time it is."""
        while True:
            for scope in self.due.pop(self.round, ()):
                scope.cancel()
            self.round += 1
            await anyio.lowlevel.checkpoint()

    async def _task(self) -> None:
        acts: list[Callable[[], Awaitable[None]]] = [
            *[self._send, self._submit, self._send_many, self._stream] * 2,
            *[self._receive, self._receive_batch] * 3,
            self._drain,
            self._attach_sender,
            self._attach_receiver,
        ]
        for _ in range(self.random.randint(1, 3)):
            due = self.round + int(10 ** self.random.uniform(0, 3.5))
            with anyio.CancelScope() as scope:
                self.due.setdefault(due, []).append(scope)
                try:
                    await self.random.choice(acts)()
                except self.lost:
                    self.failed += 1
            self.cut += scope.cancelled_caught

    # Sending

    def _sender(self) -> Sender:
        return self.random.choice(self.senders)

    async def _send(self) -> None:
        body = self.account.next()
        await self._sender().send(body)
        self.account.sure.add(body)

    async def _submit(self) -> None:
        body = self.account.next()
        delivery = await self._sender().submit(body)
        self.account.sure.add(body)
        await delivery.outcome()

    async def _send_many(self) -> None:
        bodies = [self.account.next() for _ in range(self.random.randint(1, 60))]
        assert await self._sender().send_many(bodies, window=10) == len(bodies)
        self.account.sure.update(bodies)

    async def _stream(self) -> None:
        number = self.account.next()
        async with self._sender().stream(Message(subject="streamed")) as body:
            for digit in str(number):
                await body.send(digit.encode())
                await anyio.lowlevel.checkpoint()
        self.account.sure.add(number)

    # Receiving

    async def _receive(self) -> None:
        receiver = self.random.choice(list(self.receivers))
        async with self.receivers[receiver]:
            delivery = await receiver.receive()
        await self._settle(delivery)

    async def _receive_batch(self) -> None:
        receiver = self.random.choice(list(self.receivers))
        async with self.receivers[receiver]:
            batch = await receiver.receive_batch(self.random.randint(1, 30), max_wait=0)
        for delivery in batch:
            delivery.accept()
            self.count(delivery)

    async def _settle(self, delivery: Delivery) -> None:
        fate = self.random.random()
        if fate < 0.2:
            delivery.release()
        elif fate < 0.3:
            delivery.modify(delivery_failed=True)
        else:
            with delivery:
                await anyio.lowlevel.checkpoint()  # cancelled here, it is released
            self.count(delivery)

    def count(self, delivery: Delivery) -> None:
        body: Any = delivery.message.body
        number = body if isinstance(body, int) else int(b"".join(body) if isinstance(body, Data) else body)
        self.account.got[number] += 1

    async def _drain(self) -> None:
        receiver = self.random.choice(list(self.receivers))
        async with self.receivers[receiver]:
            await receiver.drain()

    # Links

    async def _attach_sender(self) -> None:
        async with self.connection.sender(self._sender().address) as sender:
            await anyio.lowlevel.checkpoint()
            body = self.account.next()
            await sender.send(body)
            self.account.sure.add(body)

    async def _attach_receiver(self) -> None:
        address = self._sender().address
        async with self.connection.session() as session, session.receiver(address, credit=3) as receiver:
            delivery = await receiver.receive()
            delivery.accept()
            self.count(delivery)

    async def take_the_rest(self, broker: Broker) -> None:
        for receiver in self.receivers:
            assert receiver.address is not None
            while broker.queue(receiver.address).depth:
                for delivery in await receiver.receive_batch(100, max_wait=0.01):
                    delivery.accept()
                    self.count(delivery)


@dataclass
class Census:
    """What there is, here and at the broker, when nothing happens."""

    tasks: int
    sessions: tuple[int, int]
    handles: tuple[int, int]
    unsettled: tuple[int, int]
    waiting: int


def take_census(connection: Connection, broker: Broker, senders: list[Sender]) -> Census:
    (server,) = broker._manager._opened
    engines: Any = connection._core._engine, server._engine
    ends = [engine.connection for engine in engines]
    links = [[link for each in end._by_local_channel.values() for link in each._by_handle.values()] for end in ends]
    here, there = links
    return Census(
        tasks=len(anyio.get_running_tasks()),
        sessions=(len(ends[0]._by_local_channel), len(ends[1]._by_local_channel)),
        handles=(len(here), len(there)),
        unsettled=(sum(len(link.unsettled) for link in here), sum(len(link.unsettled) for link in there)),
        waiting=sum(len(sender._core.queue.waiting) + len(sender._core.waiters) for sender in senders),
    )


def check_credit(broker: Broker, senders: list[Sender], receivers: list[Receiver]) -> None:
    """Both ends count alike, and receivers have granted what they always grant."""
    (server,) = broker._manager._opened
    engine: Any = server._engine
    there = {
        link.name: link for each in engine.connection._by_local_channel.values() for link in each._by_handle.values()
    }
    ours: list[Any] = [*senders, *receivers]
    for link in ours:
        assert link.credit == there[link.name].credit
    for sender in senders:
        assert sender.credit > 0
    for receiver in receivers:
        assert receiver.credit + receiver.buffered + receiver._core.consumer.taken == CREDIT


def ours_in_memory() -> int:
    """How many objects of this package there are."""
    return sum(str(type(each).__module__).startswith("amqp10.") for each in gc.get_objects())


@asynccontextmanager
async def links(connection: Connection) -> AsyncIterator[tuple[list[Sender], list[Receiver]]]:
    """Five senders and five receivers, on two sessions."""
    async with connection.session() as session:
        senders = [await (connection, session)[n % 2].sender(f"q{n}").__aenter__() for n in range(PAIRS)]
        receivers = [
            await (connection, session)[n % 2].receiver(f"q{n}", credit=CREDIT).__aenter__() for n in range(PAIRS)
        ]
        yield senders, receivers


@pytest.mark.parametrize("seed", SEEDS)
async def test_storm(anyio_backend: str, seed: int) -> None:
    """A thousand tasks, three times: all is as before, memory too, and no message is lost or doubled."""
    async with Broker(credit=100) as broker, broker.connect() as connection, links(connection) as (senders, receivers):
        await anyio.wait_all_tasks_blocked()
        before = take_census(connection, broker, senders)
        memory = []
        for turn in range(3):
            storm = Storm(connection, senders, receivers, seed * 100 + turn)
            await storm.rage()
            await storm.take_the_rest(broker)
            await anyio.wait_all_tasks_blocked()
            account = storm.account
            assert storm.cut > TASKS / 2
            assert len(account.sure) > TASKS / 2
            assert account.sure <= account.got.keys() <= account.tried
            assert set(account.got.values()) <= {1}
            assert take_census(connection, broker, senders) == before
            check_credit(broker, senders, receivers)
            del storm, account
            gc.collect()
            memory.append((ours_in_memory(), sys.getallocatedblocks()))
        assert memory[2][0] <= memory[0][0] + TASKS / 10
        assert memory[2][1] <= memory[0][1] + MAX_BLOCKS
        for sender, receiver in zip(senders, receivers, strict=True):
            await sender.send("fresh")
            with await receiver.receive() as message:
                assert message.body == "fresh"


class Tempest(Storm):
    """A storm during which connections break, and come back by themselves."""

    lost = (ConnectionLost, SessionEnded, LinkDetached, StaleDelivery, DeliveryUncertain)

    def __init__(self, proxy: FaultProxy, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.proxy = proxy

    async def _keep_time(self) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(super()._keep_time)
            for _ in range(5):
                self.proxy.cut_after(self.random.randrange(20_000), self.random.choice(("up", "down")))
                await self.proxy.until_cut()


@pytest.mark.parametrize("seed", SEEDS)
async def test_tempest(anyio_backend: str, seed: int) -> None:
    """Cancelled and broken at once: no message is lost, and afterwards all is as it was."""
    reconnect = Reconnect(initial_delay=0.001, max_delay=0.02, resume_timeout=2)
    async with (
        Broker(credit=100) as broker,
        FaultProxy(broker.url) as proxy,
        Connection(proxy.url, reconnect=reconnect) as connection,
        links(connection) as (senders, receivers),
    ):
        await calm(broker, senders, receivers)
        before = take_census(connection, broker, senders)
        storm = Tempest(proxy, connection, senders, receivers, seed)
        await storm.rage()
        proxy.cut_after(math.inf, "up")
        proxy.cut_after(math.inf, "down")
        await calm(broker, senders, receivers)
        await storm.take_the_rest(broker)
        await calm(broker, senders, receivers)
        account = storm.account
        assert account.sure <= account.got.keys() <= account.tried
        assert proxy.cuts >= 3
        assert take_census(connection, broker, senders) == before
        check_credit(broker, senders, receivers)
        for sender, receiver in zip(senders, receivers, strict=True):
            await sender.send("fresh")
            with await receiver.receive() as message:
                assert message.body == "fresh"


async def calm(broker: Broker, senders: list[Sender], receivers: list[Receiver]) -> None:
    """Until the connection stands, and nothing is on its way any more."""
    ours = (*senders, *receivers)
    with anyio.fail_after(60):
        while True:
            await anyio.sleep(0.01)
            standing = len(broker._manager._opened) == 1 and all(
                link.open and not link._core.interrupted for link in ours
            )
            watched = any(link.connection._core._scopes for link in ours)
            if standing and not watched and not any(sender.unsettled for sender in senders):
                break
        for _ in range(100):  # rounds of the event loop, in which what was written last gets where it was to go
            await anyio.lowlevel.checkpoint()
