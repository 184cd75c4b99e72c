"""Without `reconnect` a lost connection is told to everybody who waits for anything of it, at once."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import anyio
import pytest

from amqp10 import Connection, ConnectionLost, Data, Message, TransactionInDoubt, TransactionRolledBack

from ...kit.client.coordinating import declaring
from ...kit.client.hosts import Hosts, connecting, hosting
from ...kit.client.peer import Peer
from ...kit.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.in_memory]

Call = Callable[[], Awaitable[Any]]


class Waiters:
    """Each method has a call ready that waits until the peer says more, which it does not do from then on."""

    def __init__(self, hosts: Hosts, connection: Connection) -> None:
        self.hosts = hosts
        self.peer: Peer = hosts.peer
        self.connection = connection

    def silent(self) -> None:
        self.peer.answers = False

    # Opening

    @asynccontextmanager
    async def attach_a_sender(self) -> AsyncIterator[Call]:
        self.silent()
        yield self.connection.sender("q").__aenter__

    @asynccontextmanager
    async def attach_a_receiver(self) -> AsyncIterator[Call]:
        self.silent()
        yield self.connection.receiver("q").__aenter__

    @asynccontextmanager
    async def begin(self) -> AsyncIterator[Call]:
        self.silent()
        yield self.connection.session().__aenter__

    @asynccontextmanager
    async def unsubscribe(self) -> AsyncIterator[Call]:
        self.silent()
        yield lambda: self.connection.unsubscribe("s")

    # Sending

    @asynccontextmanager
    async def send_without_credit(self) -> AsyncIterator[Call]:
        self.peer.credit = 0
        async with self.connection.sender("q") as sender:
            yield lambda: sender.send("x")

    @asynccontextmanager
    async def send_beyond_the_window(self) -> AsyncIterator[Call]:
        async with self.connection.sender("q") as sender:
            self.peer.stream.shut = True
            await sender.submit(b"x" * 600_000)
            yield lambda: sender.send("x")

    @asynccontextmanager
    async def send_in_flight(self) -> AsyncIterator[Call]:
        async with self.connection.sender("q") as sender:
            yield lambda: sender.send("x")

    @asynccontextmanager
    async def outcome(self) -> AsyncIterator[Call]:
        async with self.connection.sender("q") as sender:
            yield (await sender.submit("x")).outcome

    @asynccontextmanager
    async def send_many(self) -> AsyncIterator[Call]:
        async with self.connection.sender("q") as sender:
            yield lambda: sender.send_many(range(10), window=5)

    @asynccontextmanager
    async def stream_without_credit(self) -> AsyncIterator[Call]:
        self.peer.credit = 0
        async with self.connection.sender("q") as sender:
            yield sender.stream().__aenter__

    @asynccontextmanager
    async def end_of_a_stream(self) -> AsyncIterator[Call]:
        async with self.connection.sender("q") as sender:
            stream = sender.stream()
            body = await stream.__aenter__()
            await body.send(b"x")
            yield lambda: stream.__aexit__(None, None, None)

    # Receiving

    @asynccontextmanager
    async def receive(self) -> AsyncIterator[Call]:
        async with self.connection.receiver("q") as receiver:
            yield receiver.receive

    @asynccontextmanager
    async def receive_batch(self) -> AsyncIterator[Call]:
        async with self.connection.receiver("q") as receiver:
            yield lambda: receiver.receive_batch(5)

    @asynccontextmanager
    async def receive_batch_in_time(self) -> AsyncIterator[Call]:
        async with self.connection.receiver("q") as receiver:
            yield lambda: receiver.receive_batch(5, max_wait=3600)

    @asynccontextmanager
    async def iterate(self) -> AsyncIterator[Call]:
        async with self.connection.receiver("q") as receiver:
            yield aiter(receiver).__anext__

    @asynccontextmanager
    async def browse(self) -> AsyncIterator[Call]:
        async with self.connection.browser("q") as browser:
            self.silent()
            yield aiter(browser).__anext__

    @asynccontextmanager
    async def drain(self) -> AsyncIterator[Call]:
        async with self.connection.receiver("q") as receiver:
            self.silent()
            yield receiver.drain

    @asynccontextmanager
    async def settled(self) -> AsyncIterator[Call]:
        async with self.connection.receiver("q", receiver_settle_mode="second") as receiver:
            await self.hosts.credit("q")
            self.peer.links["q"].auto_settle = False
            self.peer.send("q", "x")
            delivery = await receiver.receive()
            delivery.accept()
            yield delivery.wait_settled

    @asynccontextmanager
    async def body(self) -> AsyncIterator[Call]:
        async with self.connection.receiver("q", stream=True) as receiver:
            await self.hosts.credit("q")
            self.peer.links["q"].send(Message(Data(b"x" * 100)).encode()[:50], more=True)
            self.peer.pump.wake()
            parts = aiter((await receiver.receive()).iter_body())
            await anext(parts)
            yield parts.__anext__

    # Requests

    @asynccontextmanager
    async def request(self) -> AsyncIterator[Call]:
        async with self.connection.requester("service") as requester:
            yield lambda: requester.request("x")

    @asynccontextmanager
    async def next_request(self) -> AsyncIterator[Call]:
        async with self.connection.responder("service") as responder:
            yield aiter(responder).__anext__

    # Transactions

    @asynccontextmanager
    async def declare(self) -> AsyncIterator[Call]:
        async with self.connection.sender("q"):
            self.silent()
            yield self.connection.transaction().__aenter__


WAITERS = [name for name in vars(Waiters) if not name.startswith("_") and name != "silent"]


@pytest.mark.parametrize("name", WAITERS)
async def test_whoever_waits(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """It raises `ConnectionLost`, and so does the next call; nothing is tried again."""
    async with hosting(monkeypatch) as hosts:
        hosts.prepare = lambda peer: setattr(peer, "outcome", None)
        hosts.session_terms = replace(hosts.session_terms, incoming_window=2)
        async with connecting(reconnect=None) as connection:
            raised: list[Exception] = []

            async def wait(call: Call) -> None:
                try:
                    await call()
                except Exception as error:
                    raised.append(error)

            async with getattr(Waiters(hosts, connection), name)() as call, anyio.create_task_group() as tasks:
                tasks.start_soon(wait, call)
                await anyio.wait_all_tasks_blocked()
                assert raised == []
                await hosts.cut()
                await until(lambda: raised)
                with pytest.raises(ConnectionLost):
                    await connection.session().__aenter__()
            assert [type(error) for error in raised] == [ConnectionLost]
        assert hosts.asked == ["a"]


@pytest.mark.parametrize("commits", [False, True])
async def test_a_transaction(monkeypatch: pytest.MonkeyPatch, commits: bool) -> None:
    """Before it was to be committed nothing of it has happened; after that, nobody knows. The loss is the cause."""
    async with hosting(monkeypatch) as hosts:
        hosts.prepare = declaring
        async with (
            connecting(reconnect=None) as connection,
            connection.sender("q") as sender,
            anyio.create_task_group() as tasks,
        ):

            async def cut() -> None:
                await anyio.wait_all_tasks_blocked()
                await hosts.cut()

            error = TransactionInDoubt if commits else TransactionRolledBack
            with anyio.fail_after(60), pytest.raises(error) as caught:
                async with connection.transaction() as transaction:
                    await sender.send("x", transaction=transaction)
                    hosts.peer.stream.shut = True
                    tasks.start_soon(cut)
                    if not commits:
                        await until(lambda: not connection.open)
            assert isinstance(caught.value.__cause__, ConnectionLost)
