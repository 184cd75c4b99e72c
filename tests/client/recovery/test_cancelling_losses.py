"""Calls that a loss of the connection catches, cancelled at each of their checkpoints: before, in it, and after."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest

from amqp10 import AmqpError, Connection, Delivery, Message, Receiver, Sender
from amqp10.messaging import ACCEPTED

from ...kit.client.cancelling import CancelAt, at_each_checkpoint
from ...kit.client.hosts import Hosts, connecting, hosting
from ...kit.client.peer import Peer
from ...kit.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.in_memory]

CREDIT = 10


class Links:
    """The objects that a call needs."""

    def __init__(self, connection: Connection, sender: Sender, receiver: Receiver, delivery: Delivery) -> None:
        self.connection = connection
        self.sender = sender
        self.receiver = receiver
        self.delivery = delivery

    async def send(self) -> None:
        await self.sender.send("mine")

    async def outcome(self) -> None:
        await (await self.sender.submit("mine")).outcome()

    async def send_many(self) -> None:
        await self.sender.send_many(["mine"] * 5, window=2)

    async def stream(self) -> None:
        async with self.sender.stream(Message(subject="streamed")) as body:
            await body.send(b"some")
            await anyio.sleep(0.01)
            await body.send(b"more")

    async def receive(self) -> None:
        self.receiver_has(await self.receiver.receive())

    async def receive_batch(self) -> None:
        for delivery in await self.receiver.receive_batch(5, max_wait=0.05):
            self.receiver_has(delivery)

    def receiver_has(self, delivery: Delivery) -> None:
        delivery.release()

    async def drain(self) -> None:
        await self.receiver.drain()

    async def settled(self) -> None:
        self.delivery.accept()
        await self.delivery.wait_settled()

    async def request(self) -> None:
        async with self.connection.requester("service") as requester:
            with anyio.move_on_after(0.05):
                await requester.request("mine")

    async def attach(self) -> None:
        async with self.connection.sender("other") as sender:
            await sender.send("mine")

    async def session(self) -> None:
        async with self.connection.session() as session, session.receiver("another"):
            await anyio.sleep(0.01)

    async def events(self) -> None:
        async for _ in self.connection.events():
            return


@pytest.mark.parametrize(
    "name",
    [
        *["send", "outcome", "send_many", "stream", "receive", "receive_batch", "drain", "settled"],
        *["request", "attach", "session", "events"],
    ],
)
async def test_through_a_loss(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Wherever it is cut, the connection comes back whole: credit is right, no waiter is left, messages go through."""

    async def trial(cancel: CancelAt) -> None:
        async with hosting(monkeypatch) as hosts:
            hosts.prepare = quiet(hosts)
            async with (
                connecting() as connection,
                connection.sender("q") as sender,
                connection.receiver("r", credit=CREDIT, receiver_settle_mode="second") as receiver,
            ):
                await hosts.credit("r")
                hosts.peer.links["r"].auto_settle = False
                hosts.peer.send("r", "old")
                links = Links(connection, sender, receiver, await receiver.receive())
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(told, cancel, getattr(links, name))
                    await anyio.wait_all_tasks_blocked()
                    await hosts.cut()
                    await hosts.link("q", of=1)
                    await hosts.credit("r")
                    hosts.peer.send("r", "new")
                await check(hosts, connection, sender, receiver, took=name.startswith("receive"))

    await at_each_checkpoint(trial, least=1)


def quiet(hosts: Hosts) -> Callable[[Peer], None]:
    """The first peer grants credit and gives no outcomes, the others do."""

    def prepare(peer: Peer) -> None:
        peer.outcome = ACCEPTED if hosts.peers else None

    return prepare


async def told(cancel: CancelAt, call: Callable[[], Awaitable[Any]]) -> None:
    try:
        await cancel.run(call)
    except AmqpError:
        cancel.finished = True  # a loss is an answer, too


async def check(hosts: Hosts, connection: Connection, sender: Sender, receiver: Receiver, took: bool) -> None:
    await until(lambda: sender.open and receiver.open)
    await sender.send("fresh")
    assert hosts.peer.bodies()[-1] == "fresh"
    await until(lambda: not sender.unsettled)
    for lists in (
        sender._core.pending,
        sender._core.waiters,
        sender._core.queue.waiting,
        receiver._core.pending,
        receiver._core.undelivered,
    ):
        assert not lists
    sender._core.unreported.clear()  # a stream that nobody waits for
    if receiver.credit == 0 and not receiver.buffered:
        with anyio.move_on_after(0.01):
            await receiver.receive()  # whoever waits wants more
    await anyio.wait_all_tasks_blocked()
    assert receiver.credit + receiver._core.consumer.taken + receiver.buffered >= CREDIT
    assert receiver.credit <= CREDIT
    await hosts.credit("r")
    assert hosts.peer.links["r"].credit == receiver.credit
    hosts.peer.send("r", "fresh")
    bodies: list[Any] = []
    while bodies[-1:] != ["fresh"]:
        delivery = await receiver.receive()
        bodies.append(delivery.message.body)
        delivery.accept()
    assert bodies == ["new", "fresh"] or (took and bodies == ["fresh"])
    assert set(connection._core.links) == {sender._core, receiver._core}
