"""Every coroutine of the client, cancelled at every one of its checkpoints.

`CancelAt` runs a coroutine and cancels it at the moment it is about to yield to the scheduler for the n-th time, so
n = 0, 1, 2, ... until the coroutine ends before that covers each of its checkpoints, on trio and on asyncio alike.
After each run the world must be whole: no link, task or credit leaked, every message either still with the peer or
settled once, and the connection works.

One file, though it is a long one: the harness and its uses explain each other.
"""

from __future__ import annotations

import types
from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from contextlib import aclosing, asynccontextmanager
from typing import Any

import anyio
import anyio.lowlevel
import pytest

import amqp10.client._connection
from amqp10.client import Connection, Delivery, Receiver, Sender, receive, send
from amqp10.engine import (
    CreditChanged,
    Event,
    LinkAttached,
    LinkEnded,
    OutcomesReceived,
    OutgoingDelivery,
    SessionTerms,
)
from amqp10.errors import FilterNotApplied
from amqp10.messaging import ACCEPTED, Accepted, Message, Selector, Source

pytestmark = pytest.mark.anyio

Serve = Callable[..., Any]
MOST_CHECKPOINTS = 500


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
            lost = [delivery for delivery in self.out if delivery.link is event.link]
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
    for n in range(MOST_CHECKPOINTS):
        cancel = CancelAt(n)
        await trial(cancel)
        if not cancel.reached:
            assert cancel.finished
            assert n >= least
            return
    pytest.fail(f"more than {MOST_CHECKPOINTS} checkpoints")


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


# Connections


async def test_a_whole_life(serve: Serve) -> None:
    """Pitfall 14: open, attach, send, receive, close: wherever it is cut, both sides end in order, nothing is lost."""

    async def trial(cancel: CancelAt) -> None:
        async with serve() as (peer, connection):
            store = Store(peer, ["a", "b"])
            peer.on_event = store.on_event
            accepted = []

            async def life() -> None:
                async with connection:
                    async with connection.sender("q") as sender:
                        await sender.send("x")
                    async with connection.receiver("in") as receiver:
                        delivery = await receiver.receive()
                        delivery.accept()
                        accepted.append(delivery.message.body)

            tasks = len(anyio.get_running_tasks())
            await cancel.run(life)
            await anyio.wait_all_tasks_blocked()
            assert len(anyio.get_running_tasks()) <= tasks  # the peer's may have ended too
            assert peer.over
            assert store.attached == store.ended
            assert store.out == {}
            assert store.done == accepted
            assert sorted(store.ready + store.done) == ["a", "b"]
            assert peer.bodies() in ([], ["x"])

    await at_each_checkpoint(trial, 6)


async def test_the_helper_send(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """`amqp10.send`: the peer has the messages or not, and the connection is gone."""

    async def trial(cancel: CancelAt) -> None:
        async with serve() as (peer, connection):

            async def connect(*args: Any) -> Any:
                await anyio.lowlevel.checkpoint()
                return connection._lifeline.given

            monkeypatch.setattr(amqp10.client._lifeline, "connect", connect)
            await cancel.run(lambda: send("amqp://localhost", "q", "a", "b", close_timeout=1))
            await anyio.wait_all_tasks_blocked()
            assert peer.bodies() in ([], ["a", "b"])
            assert peer.over or peer.engine.remote is None

    await at_each_checkpoint(trial, 5)


async def test_the_helper_receive(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """`amqp10.receive`: all messages come back to the caller, accepted, or all stay with the peer."""

    async def trial(cancel: CancelAt) -> None:
        async with serve() as (peer, connection):

            async def connect(*args: Any) -> Any:
                await anyio.lowlevel.checkpoint()
                return connection._lifeline.given

            store = Store(peer, ["a", "b", "c"])
            peer.on_event = store.on_event
            monkeypatch.setattr(amqp10.client._lifeline, "connect", connect)
            await cancel.run(lambda: receive("amqp://localhost", "in", count=2, close_timeout=1))
            await anyio.wait_all_tasks_blocked()
            assert peer.over or peer.engine.remote is None
            assert store.out == {}
            if cancel.finished:
                assert [message.body for message in cancel.result] == store.done == ["a", "b"]
            else:
                assert store.ready == ["a", "b", "c"]

    await at_each_checkpoint(trial, 5)


# Sessions and links


async def test_sessions(serve: Serve) -> None:
    """A session that was cut while it began or ended is gone at the peer too."""

    async def trial(cancel: CancelAt) -> None:
        async with world(serve, []) as w:

            async def op() -> None:
                async with w.connection.session() as session, session.sender("s") as sender:
                    await sender.send("x")

            await cancel.run(op)
            await w.check()
            assert [session.begun for session in w.peer.sessions[1:]] == [False] * (len(w.peer.sessions) - 1)

    await at_each_checkpoint(trial, 3)


async def test_a_filter_that_is_not_applied(serve: Serve) -> None:
    """The link that was attached in vain is gone at the peer too, wherever it is cut, and its name is free."""

    async def trial(cancel: CancelAt) -> None:
        async with world(serve, []) as w:
            w.peer.filters = False
            source = Source("f", filters=[Selector("a = 1")])

            async def op() -> None:
                with pytest.raises(FilterNotApplied):
                    async with w.connection.receiver(source, name="f"):
                        pytest.fail("it has entered")

            await cancel.run(op)
            await anyio.wait_all_tasks_blocked()
            async with w.connection.receiver(source, name="f", require_filters=False):
                pass
            await w.check()

    await at_each_checkpoint(trial, 2)


async def test_attaching_a_sender(serve: Serve) -> None:
    """A link that was cut while it attached or detached is gone at the peer too, and its name is free."""

    async def trial(cancel: CancelAt) -> None:
        async with world(serve, []) as w:

            async def op() -> None:
                async with w.connection.sender("s", name="mine"):
                    pass

            await cancel.run(op)
            await w.check()
            async with w.connection.sender("s", name="mine") as sender:
                await sender.send("x")

    await at_each_checkpoint(trial, 2)


async def test_attaching_a_receiver(serve: Serve) -> None:
    """What was prefetched for a receiver that was cut is with the peer again."""

    async def trial(cancel: CancelAt) -> None:
        async with world(serve, ["a", "b", "c"]) as w:

            async def op() -> None:
                async with w.connection.receiver("r", name="mine", credit=2):
                    await anyio.lowlevel.checkpoint()

            await cancel.run(op)
            await w.check()
            assert w.store.ready == ["a", "b", "c"]
            assert w.store.out == {}

    await at_each_checkpoint(trial, 3)


async def test_attaching_to_a_silent_peer(serve: Serve) -> None:
    """A cancelled attach is cleaned up when the answer comes, however late."""
    async with world(serve, ["a"]) as w:
        w.peer.answers = False
        for call in (w.connection.sender("s"), w.connection.receiver("r")):
            with anyio.move_on_after(0.01):
                await call.__aenter__()
        w.peer.answer()
        await w.check()
        assert w.store.ready == ["a"]


async def test_leaving_a_sender(serve: Serve) -> None:
    """Leaving is shielded: outcomes that are out are waited for, and the link is detached."""

    async def trial(cancel: CancelAt) -> None:
        async with world(serve, []) as w:
            w.peer.outcome = None
            sender = w.connection.sender("s")
            await sender.__aenter__()
            delivery = await sender.submit("x")

            def settle() -> None:
                link = w.peer.links["s"]
                for one in list(link.unsettled.values()):
                    link.settle(one, ACCEPTED)
                w.peer.pump.wake()

            async with when_blocked(settle):
                await cancel.run(lambda: sender.__aexit__(None, None, None))
            assert cancel.finished
            assert await delivery.outcome() == Accepted()
            await w.check()

    await at_each_checkpoint(trial, 2)


async def test_leaving_a_receiver(serve: Serve) -> None:
    """Leaving is shielded: the credit is drained, the rest released, the link detached."""

    async def trial(cancel: CancelAt) -> None:
        async with world(serve, ["a", "b", "c"]) as w:
            receiver = w.connection.receiver("r", credit=10)
            await receiver.__aenter__()
            (await receiver.receive()).accept()
            await cancel.run(lambda: receiver.__aexit__(None, None, None))
            assert cancel.finished
            await w.check()
            assert w.store.ready == ["b", "c"]
            assert w.store.done == ["a"]

    await at_each_checkpoint(trial, 2)


# Sending


async def test_send(serve: Serve) -> None:
    """The message is sent once or not at all."""

    async def trial(cancel: CancelAt) -> None:
        async with world(serve, []) as w:
            await cancel.run(lambda: w.sender.send("x"))
            await anyio.wait_all_tasks_blocked()
            assert w.peer.bodies() == ["x"]  # there was credit, so it was handed over before the first checkpoint
            await w.check()

    await at_each_checkpoint(trial, 1)


async def test_send_without_credit(serve: Serve) -> None:
    """Cancelled while it waits for credit, nothing was sent and the credit is there for the next."""

    async def trial(cancel: CancelAt) -> None:
        async with world(serve, []) as w:
            link = w.peer.links["out"]
            w.peer.credit = 0
            link.flow(0)
            w.peer.pump.wake()
            await anyio.wait_all_tasks_blocked()

            def grant() -> None:
                link.flow(1)
                w.peer.pump.wake()

            async with when_blocked(grant):
                await cancel.run(lambda: w.sender.send("x"))
                await anyio.wait_all_tasks_blocked()
            await anyio.wait_all_tasks_blocked()
            sent = w.peer.bodies()
            assert sent == ["x"] if cancel.finished else sent in ([], ["x"])
            assert w.sender.credit == link.credit
            await w.check()

    await at_each_checkpoint(trial, 2)


async def test_waiting_in_line_for_credit(serve: Serve) -> None:
    """Who gives up in the line passes the credit on to those behind."""

    async def trial(cancel: CancelAt) -> None:
        async with world(serve, []) as w:
            link = w.peer.links["out"]
            w.peer.credit = 0
            link.flow(0)
            w.peer.pump.wake()
            await anyio.wait_all_tasks_blocked()

            def grant() -> None:
                link.flow(2)
                w.peer.pump.wake()

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(w.sender.send, "first")
                await anyio.wait_all_tasks_blocked()

                async def third() -> None:
                    await anyio.wait_all_tasks_blocked()
                    tasks.start_soon(w.sender.send, "third")
                    await anyio.wait_all_tasks_blocked()
                    grant()
                    await anyio.wait_all_tasks_blocked()
                    grant()

                tasks.start_soon(third)
                await cancel.run(lambda: w.sender.send("second"))
            bodies = w.peer.bodies()
            assert sorted(set(bodies) - {"second"}) == ["first", "third"]
            assert len(bodies) == len(set(bodies))
            await w.check()

    await at_each_checkpoint(trial, 2)


async def test_submit_many(serve: Serve) -> None:
    """A loop of submits, cancelled where it lets others run: what was submitted is sent once, what was not is not."""

    async def trial(cancel: CancelAt) -> None:
        async with world(serve, []) as w:
            link = w.peer.links["out"]
            link.flow(1000)
            w.peer.pump.wake()
            await anyio.wait_all_tasks_blocked()
            submitted = []

            async def op() -> None:
                for n in range(200):
                    await w.sender.submit(n)
                    submitted.append(n)

            await cancel.run(op)
            await anyio.wait_all_tasks_blocked()
            assert w.peer.bodies() == submitted
            await w.check()

    await at_each_checkpoint(trial, 2)


@pytest.mark.parametrize("kind", ["iterable", "async iterable"])
async def test_send_many(serve: Serve, kind: str) -> None:
    """What was sent is sent, in order, and gets its outcome; no more is taken."""

    async def trial(cancel: CancelAt) -> None:
        async with world(serve, []) as w:
            taken = []

            def bodies() -> Any:
                for n in range(10):
                    taken.append(n)
                    yield n

            async def async_bodies() -> Any:
                for n in bodies():
                    await anyio.lowlevel.checkpoint()
                    yield n

            async def op() -> None:
                if kind == "iterable":
                    await w.sender.send_many(bodies(), window=3)
                else:
                    async with aclosing(async_bodies()) as generator:
                        await w.sender.send_many(generator, window=3)

            await cancel.run(op)
            await anyio.wait_all_tasks_blocked()
            sent = w.peer.bodies()
            assert sent in (taken, taken[:-1])  # the last one may have waited for the window
            assert w.sender.unsettled == 0
            await w.check()

    await at_each_checkpoint(trial, 3)


async def test_the_window(serve: Serve) -> None:
    """A large message that waits for the session's window is whole or not there."""

    async def trial(cancel: CancelAt) -> None:
        async with world(serve, [], session=SessionTerms(incoming_window=4)) as w:
            body = bytes(1_000_000)

            async def op() -> None:
                await w.sender.submit(body)
                await w.sender.submit(b"after")

            await cancel.run(op)
            await anyio.wait_all_tasks_blocked()
            assert w.peer.bodies() in ([], [body], [body, b"after"])
            await w.check()

    await at_each_checkpoint(trial, 1)


async def test_outcome(serve: Serve) -> None:
    """The outcome is not lost with a waiter that was cancelled."""

    async def trial(cancel: CancelAt) -> None:
        async with world(serve, []) as w:
            w.peer.outcome = None
            delivery = await w.sender.submit("x")
            await anyio.wait_all_tasks_blocked()

            def settle() -> None:
                link = w.peer.links["out"]
                for one in list(link.unsettled.values()):
                    link.settle(one, ACCEPTED)
                w.peer.pump.wake()

            async with when_blocked(settle):
                await cancel.run(delivery.outcome)
                await anyio.wait_all_tasks_blocked()
            settle()
            assert await delivery.outcome() == Accepted()
            await w.check()

    await at_each_checkpoint(trial, 1)


# Receiving


@pytest.mark.parametrize("max_wait", [None, 3600])
@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize("there", [0, 1, 3, 5])
async def test_receive_batch(serve: Serve, size: int, max_wait: float | None, there: int) -> None:
    """No delivery is lost, doubled or out of order, whatever was here and whatever came."""
    bodies = list(range(6))

    async def trial(cancel: CancelAt) -> None:
        async with world(serve, bodies[:there]) as w:
            w.receiver.add_credit(6)
            await anyio.wait_all_tasks_blocked()

            async def op() -> None:
                w.got += await w.receiver.receive_batch(size, max_wait=max_wait)

            async with when_blocked(*(lambda n=n: w.store.put(n) for n in bodies[there:])):
                await cancel.run(op)
                await anyio.wait_all_tasks_blocked()
            assert bool(w.got) is cancel.finished
            w.store.put(*bodies[there + len(w.store.out) + len(w.store.done) - there :])
            await w.check_store(*bodies)
            await w.check()

    await at_each_checkpoint(trial, 0)


@pytest.mark.parametrize("there", [0, 200])
async def test_receive(serve: Serve, there: int) -> None:
    """A cancelled receive takes no delivery with it."""
    bodies = list(range(200))

    async def trial(cancel: CancelAt) -> None:
        async with world(serve, bodies[:there]) as w:
            w.receiver.add_credit(200)
            await anyio.wait_all_tasks_blocked()

            async def op() -> None:
                while len(w.got) < 150:
                    w.got.append(await w.receiver.receive())

            async with when_blocked(lambda: w.store.put(*bodies[there:]) if not there else None):
                await cancel.run(op)
                await anyio.wait_all_tasks_blocked()
            if len(w.store.out) < 200:
                w.store.put(*bodies[len(w.store.out) :])
            await w.check_store(*bodies)
            await w.check()

    await at_each_checkpoint(trial, 2)


async def test_drain(serve: Serve) -> None:
    """Cancelled, the credit is the peer's again or was used; the link is usable."""

    async def trial(cancel: CancelAt) -> None:
        async with world(serve, ["a", "b"]) as w:
            w.receiver.add_credit(10)
            await anyio.wait_all_tasks_blocked()
            await cancel.run(w.receiver.drain)
            await anyio.wait_all_tasks_blocked()
            link = w.peer.links["in"]
            assert w.receiver.credit == link.credit
            assert not link.drain
            if cancel.finished:
                assert w.receiver.credit == 0
                w.receiver.add_credit(10)
            await anyio.wait_all_tasks_blocked()
            w.store.put("c")
            await w.check_store("a", "b", "c")
            await w.check()

    await at_each_checkpoint(trial, 2)


async def test_settled(serve: Serve) -> None:
    """Only the waiting ends; the outcome stands, and the settlement comes."""

    async def trial(cancel: CancelAt) -> None:
        async with world(serve, ["a"], mode="second") as w:
            w.receiver.add_credit(1)
            delivery = await w.receiver.receive()
            delivery.accept()
            await cancel.run(delivery.settled)
            await anyio.wait_all_tasks_blocked()
            await delivery.settled()
            assert w.store.done == ["a"]
            await w.check()

    await at_each_checkpoint(trial, 1)
