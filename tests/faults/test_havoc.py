"""Random calls on many links while network and peer break them: nothing lost, nobody hangs, nothing is left over."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from amqp10 import (
    AmqpError,
    Connection,
    Data,
    Delivery,
    Error,
    Message,
    MessageNotAccepted,
    Receiver,
    Reconnect,
    Sender,
    StaleDelivery,
    Symbol,
    Transaction,
    TransactionInDoubt,
    TransactionRolledBack,
)
from amqp10.broker import Broker
from amqp10.messaging import Coordinator
from amqp10.profiles import profile
from amqp10.testing import FaultProxy

from ..kit.counts import SEEDS

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.timeout(200)]

QUEUES = ("a", "b", "c")
CREDIT = 10
ACTS = 25  # of each task that sends
BREAKS = 12
PATIENCE = 60.0  # seconds that a call may take, for machines that do much else; mostly it takes milliseconds
RECONNECT = Reconnect(initial_delay=0.001, max_delay=0.02, resume_timeout=5)


def forced() -> Error:
    return Error(Symbol("amqp:link:detach-forced"), "for a test")


class Havoc:
    """One run.

    Attributes:
        sure: bodies whose sending has succeeded.
        never: bodies that were rolled back.
        tried: all of them.
        done: how often each was accepted, and the acceptance not refused.
        halves: bodies that are there together, or not at all.
    """

    def __init__(self, seed: int, mode: Any, resumes: bool) -> None:
        self.random = random.Random(seed)
        self.mode = mode
        self.profile = replace(profile("embedded"), resumes=resumes)
        self.sure: set[int] = set()
        self.never: set[int] = set()
        self.tried: set[int] = set()
        self.done: Counter[int] = Counter()
        self.halves: list[tuple[int, int]] = []
        self.over = False
        self.stale = 0
        self.raised: Counter[str] = Counter()

    def body(self) -> int:
        number = len(self.tried)
        self.tried.add(number)
        return number

    async def run(self) -> None:
        async with AsyncExitStack() as stack:
            self.broker = await stack.enter_async_context(Broker(credit=20))
            self.proxy = await stack.enter_async_context(FaultProxy(self.broker.url))
            self.steady = await stack.enter_async_context(self.broker.connect(close_timeout=2.0))
            self.connection = await stack.enter_async_context(
                Connection(
                    self.proxy.url,
                    reconnect=RECONNECT,
                    container_id="havoc",
                    profile=self.profile,
                    close_timeout=2.0,
                )
            )
            await stack.enter_async_context(self.steady.receiver("service.unused"))
            sessions = [self.connection, await stack.enter_async_context(self.connection.session())]
            self.senders: list[Sender] = []
            self.receivers: list[Receiver] = []
            for number, queue in enumerate(QUEUES):
                place: Any = sessions[number % 2]
                self.senders.append(
                    await stack.enter_async_context(place.sender(queue, receiver_settle_mode=self.mode))
                )
                self.receivers.append(
                    await stack.enter_async_context(
                        place.receiver(queue, credit=CREDIT if number else 0, receiver_settle_mode=self.mode)
                    )
                )
            self.receivers[0].add_credit(CREDIT)
            tasks_before = len(self.connection._core._scopes)
            await self.rage()
            await self.calm_down()
            assert len(self.connection._core._scopes) == tasks_before
        assert not self.connection._core._scopes

    async def rage(self) -> None:
        async with anyio.create_task_group() as background:
            for receiver in self.receivers:
                background.start_soon(self.receive, receiver)
            background.start_soon(self.serve)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self.break_things)
                for sender in self.senders * 2:
                    tasks.start_soon(self.act, sender)
                for _ in range(2):
                    tasks.start_soon(self.come_and_go)
            self.proxy.cut_after(math.inf, "up")
            self.proxy.cut_after(math.inf, "down")
            self.proxy.resume()
            self.proxy.refusing = False
            # all that was sent is taken, what is sent again with it
            await self.until(lambda: all(sender.open and not sender.unsettled for sender in self.senders))
            await self.until(lambda: all(not self.broker.queue(queue).depth for queue in QUEUES))
            await self.until(lambda: self.sure <= self.done.keys())
            self.over = True
            await self.until(lambda: not any(receiver.unsettled for receiver in self.receivers))
            background.cancel_scope.cancel()

    async def until(self, condition: Callable[[], Any]) -> None:
        with anyio.fail_after(PATIENCE):
            while not condition():  # noqa: ASYNC110 - of what is waited for there is no event
                await anyio.sleep(0.005)

    # Breaking

    async def break_things(self) -> None:
        for _ in range(BREAKS):
            await anyio.sleep(self.random.uniform(0.0, 0.06))
            await self.random.choice(
                [
                    self._cut,
                    self._cut,
                    self._cut_in_the_middle,
                    self._cut_in_the_middle,
                    self._stall,
                    self._away,
                    self._detach,
                    self._detach,
                    self._end,
                ]
            )()

    async def _cut(self) -> None:
        self.proxy.cut(reset=self.random.random() < 0.5)

    async def _cut_in_the_middle(self) -> None:
        self.proxy.cut_after(self.random.randrange(3000), self.random.choice(("up", "down")))

    async def _stall(self) -> None:
        self.proxy.stall(*self.random.choice([("up",), ("down",), ()]))  # type: ignore[arg-type]
        await anyio.sleep(0.02)
        if self.random.random() < 0.5:
            self.proxy.cut()
        self.proxy.resume()

    async def _away(self) -> None:
        self.proxy.refusing = True
        self.proxy.cut()
        await anyio.sleep(0.03)
        self.proxy.refusing = False

    def _connections(self) -> list[Any]:
        return [
            connection
            for connection in self.broker._manager._opened
            if connection._engine.remote is not None and connection._engine.remote.container_id == "havoc"
        ]

    async def _detach(self) -> None:
        for connection in self._connections():
            links = [
                link
                for session in connection._engine.connection._by_local_channel.values()
                for link in session._by_handle.values()
                if link.attached
            ]
            if links:
                self.random.choice(links).detach(closed=False, error=forced())
                connection._pump.wake()

    async def _end(self) -> None:
        for connection in self._connections():
            sessions = list(connection._engine.connection._by_local_channel.values())
            if sessions:
                self.random.choice(sessions).end(Error(Symbol("amqp:internal-error"), "for a test"))
                connection._pump.wake()

    # Sending

    async def act(self, sender: Sender) -> None:
        acts: list[Callable[[Sender], Awaitable[None]]] = [
            self._send,
            self._send,
            self._submit,
            self._send_many,
            self._transaction,
            self._large,
            self._stream,
        ]
        for _ in range(ACTS):
            act = self.random.choice(acts)
            with anyio.fail_after(PATIENCE), anyio.move_on_after(self.random.choice([math.inf, math.inf, 0.001, 0.01])):
                await act(sender)
            await anyio.sleep(self.random.choice([0, 0.003]))

    async def _send(self, sender: Sender) -> None:
        body = self.body()
        await sender.send(body)
        self.sure.add(body)

    async def _large(self, sender: Sender) -> None:
        body = self.body()
        await sender.send(Message(b"x" * 200_000, subject=str(body)))
        self.sure.add(body)

    async def _submit(self, sender: Sender) -> None:
        body = self.body()
        delivery = await sender.submit(body)
        self.sure.add(body)
        await anyio.sleep(self.random.uniform(0, 0.02))
        await delivery.outcome()

    async def _send_many(self, sender: Sender) -> None:
        bodies = [self.body() for _ in range(self.random.randint(1, 40))]
        await sender.send_many(bodies, window=self.random.choice([1, 10]))
        self.sure.update(bodies)

    async def _stream(self, sender: Sender) -> None:
        body = self.body()
        try:
            async with sender.stream(Message(subject=str(body))) as stream:
                await stream.send(b"y" * 1000)
                await anyio.lowlevel.checkpoint()
                await stream.send(b"y" * 1000)
        except AmqpError as error:
            self.raised[type(error).__name__] += 1
            return
        self.sure.add(body)

    async def _transaction(self, sender: Sender) -> None:
        both = self.body(), self.body()
        try:
            async with Transaction(sender._core.connection, sender._core.on_session) as transaction:
                for body in both:
                    await sender.submit(body, transaction=transaction)
                if self.random.random() < 0.2:
                    raise ZeroDivisionError
        except TransactionInDoubt:
            self.halves.append(both)
        except (ZeroDivisionError, TransactionRolledBack):
            self.never.update(both)
        except anyio.get_cancelled_exc_class():
            self.halves.append(both)
            raise
        except AmqpError as error:  # it was not declared
            self.raised[type(error).__name__] += 1
            self.never.update(both)
        else:
            self.sure.update(both)

    # Receiving

    async def receive(self, receiver: Receiver) -> None:
        while True:
            if receiver._core.credit.automatic and self.random.random() < 0.05:
                with anyio.move_on_after(self.random.choice([0.001, 1])):
                    await receiver.drain()
            with anyio.move_on_after(self.random.choice([0.005, 0.05, 1])) as scope:
                if self.random.random() < 0.5:
                    batch = [await receiver.receive()]
                else:
                    batch = await receiver.receive_batch(self.random.randint(1, CREDIT), max_wait=0.01)
            if scope.cancelled_caught:
                continue
            if not receiver._core.credit.automatic:
                receiver.add_credit(len(batch))
            if self.random.random() < 0.3:
                await anyio.sleep(self.random.uniform(0, 0.02))
            for delivery in batch:
                await self.settle(receiver, delivery)

    async def settle(self, receiver: Receiver, delivery: Delivery) -> None:
        number = number_of(delivery)
        try:
            if self.random.random() < 0.1:
                delivery.release()
                return
            delivery.accept()
        except StaleDelivery:
            self.stale += 1
            return
        self.done[number] += 1
        if self.mode == "second" and self.random.random() < 0.3:
            with anyio.move_on_after(self.random.choice([0.001, 5])):
                try:
                    await delivery.wait_settled()
                except StaleDelivery:
                    self.stale += 1

    # Links that come and go

    async def serve(self) -> None:
        async with self.steady.responder("service") as responder:
            async for request in responder:
                try:
                    await request.reply(request.message.body)
                except MessageNotAccepted:
                    request.delivery.accept()  # the requester is gone

    async def come_and_go(self) -> None:
        acts = [self._request, self._session, self._subscribe, self._browse, self._ask]
        for _ in range(ACTS // 2):
            act = self.random.choice(acts)
            with anyio.fail_after(PATIENCE), anyio.move_on_after(self.random.choice([math.inf, 0.001, 0.01, 0.05])):
                try:
                    await act()
                except AmqpError as error:
                    self.raised[type(error).__name__] += 1
            await anyio.sleep(self.random.choice([0, 0.01]))

    async def _ask(self) -> None:
        async with self.connection.requester("service", reply_to=f"replies.{self.body()}") as requester:
            assert (await requester.request("x")).body == "x"
            assert requester.pending == 0

    async def _request(self) -> None:
        async with self.connection.requester("service") as requester, anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(requester.request, "x")

    async def _session(self) -> None:
        async with self.connection.session() as session, session.sender("spare") as sender:
            await sender.send("x")
            async with session.receiver("spare", credit=3) as receiver:
                (await receiver.receive()).release()

    async def _subscribe(self) -> None:
        async with self.connection.subscription("topic", f"s{self.random.randrange(3)}", shared=True) as subscription:
            async with self.connection.sender("topic") as sender:
                await sender.send("x")
            (await subscription.receive()).accept()

    async def _browse(self) -> None:
        async with self.connection.browser("a") as browser:
            async for _ in browser:
                pass

    # Afterwards

    async def calm_down(self) -> None:
        await self.until(lambda: all(link.open for link in [*self.senders, *self.receivers]))
        await self.until(lambda: not self.connection._core._scopes)
        await anyio.wait_all_tasks_blocked()
        await self.until(lambda: not any(sender.unsettled for sender in self.senders))
        for sender in self.senders:
            assert not sender._core.pending
            # A stream is not sent again; one that nobody waits for any more would be told when the sender is left.
            assert all(delivery.streamed for delivery in sender._core.unreported)
            sender._core.unreported.clear()
            assert not sender._core.waiters
            assert not sender._core.queue.waiting
            assert sender.credit > 0
        for receiver in self.receivers:
            assert not receiver._core.pending
            assert not receiver._core.undelivered
            assert not receiver.unsettled
            assert receiver._core.consumer.waiter is None
            spare = receiver._core.consumer.taken if receiver._core.credit.automatic else 0
            assert receiver.credit + receiver.buffered + spare == CREDIT
        (connection,) = self._connections()
        there = {
            link.name: link
            for session in connection._engine.connection._by_local_channel.values()
            for link in session._by_handle.values()
        }
        links: list[Any] = [*self.senders, *self.receivers]
        # The peer may have to read yet what was granted to a link that was attached again last.
        await self.until(lambda: all(link.credit == there[link.name].credit for link in links))
        others = set(self.connection._core.links) - {link._core for link in links}
        assert all(isinstance(core.terms.target, Coordinator) for core in others)
        assert self.sure <= self.done.keys()
        assert not self.never & self.done.keys()
        for one, other in self.halves:
            assert bool(self.done[one]) == bool(self.done[other])
        if self.mode == "second" and self.profile.resumes:
            assert {body for body, count in self.done.items() if count > 1} == set()
        for sender, receiver in zip(self.senders, self.receivers, strict=True):
            await sender.send(self.body())
            (await receiver.receive()).accept()


def number_of(delivery: Delivery) -> int:
    message = delivery.message
    if isinstance(message.body, int):
        return message.body
    assert isinstance(message.body, bytes | Data)
    return int(message.subject or "")


@pytest.mark.parametrize("resumes", [True, False])
@pytest.mark.parametrize("mode", ["first", "second"])
@pytest.mark.parametrize("seed", SEEDS)
async def test_havoc(seed: int, mode: str, resumes: bool) -> None:
    """Whatever is called and broken, in whatever order."""
    havoc = Havoc(seed, mode, resumes)
    with anyio.fail_after(3 * PATIENCE):
        await havoc.run()
