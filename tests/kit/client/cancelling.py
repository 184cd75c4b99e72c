"""Every coroutine of the client, cancelled at every one of its checkpoints: how that is done.

`CancelAt` runs a coroutine and cancels it at the moment it is about to yield to the scheduler for the n-th time, so
n = 0, 1, 2, ... until the coroutine ends before that covers each of its checkpoints, on trio and on asyncio alike.
After each run the world must be whole: no link, task or credit leaked, every message either still with the peer or
settled once, and the connection works.
"""

from __future__ import annotations

import types
from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from amqp10.client import Connection, Delivery, Receiver, Sender
from amqp10.engine import (
    CreditChanged,
    Event,
    LinkAttached,
    LinkEnded,
    OutcomesReceived,
    OutgoingDelivery,
)
from amqp10.messaging import ACCEPTED, Accepted, Message

Serve = Callable[..., Any]
MAX_CHECKPOINTS = 500


class CancelAt:
    """Runs a coroutine, and cancels it at its n-th checkpoint.

    Attributes:
        reached: there was an n-th checkpoint.
        finished: the coroutine returned; `result` is what.
    """

    def __init__(self, n: int) -> None:
        self._n = n
        self._scope = anyio.CancelScope()
        self.reached = False
        self.finished = False
        self.result: Any = None

    async def run(self, call: Callable[[], Awaitable[Any]]) -> None:
        with self._scope:
            self.result = await self._steps(call())
            self.finished = True

    @types.coroutine
    def _steps(self, awaitable: Awaitable[Any]) -> Generator[Any, Any, Any]:
        steps = awaitable.__await__()
        value: Any = None
        error: BaseException | None = None
        count = 0
        while True:
            try:
                trap = steps.send(value) if error is None else steps.throw(error)
            except StopIteration as stop:
                return stop.value
            if count == self._n:
                self.reached = True
                self._scope.cancel()
            count += 1
            try:
                value, error = (yield trap), None
            except BaseException as thrown:
                error = thrown


class Store:
    """A queue at the peer: what it has is ready, out on a link, or done."""

    def __init__(self, peer: Any, bodies: list[Any]) -> None:
        self.peer = peer
        self.ready = list(bodies)
        self.out: dict[OutgoingDelivery, Any] = {}
        self.done: list[Any] = []
        self.attached = 0
        self.ended = 0
        self.links: list[Any] = []

    def on_event(self, event: Event) -> bool:
        if isinstance(event, LinkAttached):
            self.attached += 1
        elif isinstance(event, LinkEnded):
            self.ended += 1
            ended: Any = event.link
            lost = [delivery for delivery in self.out if delivery.link is ended]
            self.ready[:0] = [self.out.pop(delivery) for delivery in lost]
        elif isinstance(event, OutcomesReceived):
            back: list[Any] = []
            for delivery in event.deliveries:
                if delivery in self.out:
                    body = self.out.pop(delivery)
                    (self.done if type(delivery.remote_state) is Accepted else back).append(body)
            self.ready[:0] = back
        elif isinstance(event, CreditChanged):
            self.links.append(event.link)
            self.supply(event.link)
            if event.link.drain:
                event.link.drained()
        return False

    def supply(self, link: Any) -> None:
        while self.ready and link.credit > 0 and link.attached:
            body = self.ready.pop(0)
            self.out[link.send(Message(body).encode())] = body

    def put(self, *bodies: Any) -> None:
        self.ready.extend(bodies)
        self.supply(self.links[-1])
        self.peer.pump.wake()


class World:
    """A peer with a queue, a connection, and one sender and one receiver that are attached already."""

    def __init__(self, peer: Any, connection: Connection, store: Store, sender: Sender, receiver: Receiver) -> None:
        self.peer = peer
        self.connection = connection
        self.store = store
        self.sender = sender
        self.receiver = receiver
        self.got: list[Delivery] = []

    async def check(self) -> None:
        """Nothing leaked, and everything works."""
        await anyio.wait_all_tasks_blocked()
        assert not self.peer.over, self.peer.error
        assert self.store.attached - self.store.ended == 2, "a link leaked"
        self.peer.credit = 100
        self.peer.outcome = ACCEPTED
        before = len(self.peer.received)
        if self.sender.open:
            link = self.peer.links["out"]
            for delivery in list(link.unsettled.values()):
                link.settle(delivery, ACCEPTED)
            link.flow(100)
            self.peer.pump.wake()
            await self.sender.send("still works")
            assert len(self.peer.received) == before + 1
            await anyio.wait_all_tasks_blocked()
            assert self.sender.credit == link.credit, "credit leaked"
            assert self.sender.unsettled == 0, "a delivery leaked"
        async with self.connection.sender("other") as other:
            await other.send("works too")
        async with self.connection.session() as session, session.receiver("third", credit=0):
            pass

    async def check_store(self, *bodies: Any) -> None:
        """Each of the messages comes, or came, once, in order."""
        got = [delivery.message.body for delivery in self.got]
        for delivery in self.got:
            delivery.accept()
        if self.receiver.credit == 0 and self.receiver.buffered < len(bodies) - len(got):
            self.receiver.add_credit(len(bodies))
        while len(got) < len(bodies):
            delivery = await self.receiver.receive()
            got.append(delivery.message.body)
            delivery.accept()
        await anyio.wait_all_tasks_blocked()
        assert got == list(bodies)
        assert sorted(self.store.done) == sorted(bodies)
        assert self.store.ready == []
        assert self.store.out == {}


@asynccontextmanager
async def world(serve: Serve, bodies: list[Any], *, mode: str = "first", **settings: Any) -> AsyncIterator[World]:
    async with serve(**settings) as (peer, connection):
        store = Store(peer, bodies)
        peer.on_event = store.on_event
        async with connection:
            tasks = len(anyio.get_running_tasks())
            async with (
                connection.sender("out") as sender,
                connection.receiver("in", credit=0, receiver_settle_mode=mode) as receiver,
            ):
                await anyio.wait_all_tasks_blocked()
                yield World(peer, connection, store, sender, receiver)
                await anyio.wait_all_tasks_blocked()
                assert len(anyio.get_running_tasks()) == tasks, "a task leaked"
        await anyio.wait_all_tasks_blocked()
        assert peer.over
        assert store.attached == store.ended


async def at_each_checkpoint(trial: Callable[[CancelAt], Awaitable[None]], least: int) -> None:
    """Run trials until one ends uncancelled; there must have been `least` checkpoints at least."""
    for n in range(MAX_CHECKPOINTS):
        cancel = CancelAt(n)
        await trial(cancel)
        if not cancel.reached:
            assert cancel.finished
            assert n >= least
            return
    pytest.fail(f"more than {MAX_CHECKPOINTS} checkpoints")


@asynccontextmanager
async def when_blocked(*acts: Callable[[], object]) -> AsyncIterator[None]:
    """Do these one after the other, each when every task waits for something, while the block runs."""

    async def background() -> None:
        for act in acts:
            await anyio.wait_all_tasks_blocked()
            act()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(background)
        yield
        tasks.cancel_scope.cancel()
