"""Transactions in AMQP 0-10 whose connection is lost, at brokers that keep what their sessions leave."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import pytest

from amqp10 import AmqpError, Connection, Message, Reconnect, RequestRefused, TransactionInDoubt
from amqp10.amqp010 import XAStatus, Xid
from amqp10.dialects.v0_10.client import transactions
from amqp10.testing import FaultProxy

from .brokers import Server

pytestmark = [pytest.mark.anyio, pytest.mark.interop, pytest.mark.timeout(600), pytest.mark.capability("AMQP 0-10")]

on_trio = pytest.mark.parametrize("anyio_backend", ["trio"])


@pytest.fixture(params=["broker_j", "embedded"])
def server(request: pytest.FixtureRequest) -> Server:
    """Both brokers that speak 0-10, in turn."""
    found: Server = request.getfixturevalue(request.param)
    return found


@asynccontextmanager
async def connected(url: str, reconnect: Reconnect | None = None) -> AsyncIterator[Connection]:
    async with Connection(url, dialect="0-10", reconnect=reconnect) as connection:
        yield connection


async def bodies(url: str, address: str) -> list[object]:
    """What anybody can have."""
    async with connected(url) as connection, connection.receiver(address, credit=0) as receiver:
        receiver.add_credit(100)
        await receiver.drain()
        return [(await receiver.receive()).message.body for _ in range(receiver.buffered)]


@on_trio
async def test_joined(server: Server, address: str) -> None:
    """Two sessions work in one branch; it is committed when both have ended their work, and has both's."""
    xid = Xid(1, secrets.token_bytes(8), b"b")
    async with connected(server.url()) as connection:
        async with connection.native.xa() as one, connection.native.xa() as two:
            await one.start(xid)
            await two.start(xid, join=True)
            for xa in (one, two):
                async with xa.session.sender(address) as sender:
                    await sender.send("x")
            await one.end(xid)
            async with connection.native.xa() as third:
                with pytest.raises(RequestRefused, match="amqp:illegal-state"):
                    await third.commit(xid, one_phase=True)
            await two.end(xid)
            assert await bodies(server.url(), address) == []
            assert await two.commit(xid, one_phase=True) is XAStatus.OK
    assert await bodies(server.url(), address) == ["x", "x"]


@on_trio
async def test_joined_and_left(server: Server, address: str) -> None:
    """A session that ends without ending its work leaves what cannot be committed; Broker-J, as ever, keeps it."""
    xid = Xid(1, secrets.token_bytes(8), b"b")
    async with connected(server.url()) as connection, connection.native.xa() as one:
        await one.start(xid)
        async with connection.native.xa() as two:
            await two.start(xid, join=True)
            async with two.session.sender(address) as sender:
                await sender.send("x")
        await one.end(xid)
        kept = "Broker-J" in connection.remote_properties["product"]
        assert (await one.prepare(xid) is XAStatus.OK) is kept
        if kept:
            await one.rollback(xid)
    assert await bodies(server.url(), address) == []


@on_trio
async def test_joined_on_another_connection(server: Server, address: str) -> None:
    """Broker-J lets it, the embedded broker refuses, and the branch goes on."""
    xid = Xid(1, secrets.token_bytes(8), b"b")
    async with connected(server.url()) as here, connected(server.url()) as there:
        async with here.native.xa() as one, there.native.xa() as two:
            await one.start(xid)
            if "Broker-J" in there.remote_properties["product"]:
                await two.start(xid, join=True)
                await two.end(xid)
            else:
                with pytest.raises(RequestRefused, match=r"amqp:not-allowed.*started on this connection"):
                    await two.start(xid, join=True)
            async with one.session.sender(address) as sender:
                await sender.send("x")
            await one.end(xid)
            assert await one.commit(xid, one_phase=True) is XAStatus.OK
    assert await bodies(server.url(), address) == ["x"]


@on_trio
@pytest.mark.parametrize("side", ["up", "down"])
async def test_cut_in_a_commit(server: Server, address: str, side: str) -> None:
    """Wherever the line is cut: what became of it is known, and the message is where that says, for all to have."""
    target = f"{address}-target"
    said: set[str] = set()
    quick = Reconnect(initial_delay=0.01, max_delay=0.05)
    async with connected(server.url()) as there:
        await there.native.declare_queue(target, durable=True)
        for cut in range(0, 700, 28):
            with anyio.fail_after(60):
                async with there.sender(address) as sender:
                    await sender.send(Message("a message", durable=True))
                async with FaultProxy(server.url()) as proxy, connected(proxy.url, quick) as connection:
                    async with connection.receiver(address) as receiver, connection.sender(target) as sender:
                        delivery = await receiver.receive()
                        async with connection.transaction():
                            pass  # so that its coordinator is there
                        proxy.cut_after(cut, side)  # type: ignore[arg-type]
                        try:
                            async with connection.transaction() as transaction:
                                await sender.send(Message("a message", durable=True), transaction=transaction)
                                delivery.accept(transaction=transaction)
                            state = "committed"
                        except TransactionInDoubt:
                            raise
                        except AmqpError:  # rolled back; or its work could not be done, for the links were lost
                            state = "rolled-back"
                said.add(state)
                left, moved = await bodies(server.url(), address), await bodies(server.url(), target)
                assert (left, moved) == ((["a message"], []) if state == "rolled-back" else ([], ["a message"])), cut
                for each in (address, target):
                    await there.native.purge_queue(each)
        await there.native.delete_queue(target)
    assert "committed" in said


@on_trio
async def test_who_does_not_come_back(broker_j: Server, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that is gone for good leaves its branch to the broker's clock."""
    monkeypatch.setattr(transactions, "TIMEOUT", 1)
    async with connected(broker_j.url()) as there, there.sender(address) as filling:
        await filling.send("a message")
        async with FaultProxy(broker_j.url()) as proxy:
            async with connected(proxy.url) as connection, connection.receiver(address) as receiver:
                delivery = await receiver.receive()
                with pytest.raises(TransactionInDoubt):
                    async with connection.transaction() as transaction:
                        delivery.accept(transaction=transaction)
                        proxy.cut_after(0, "down")
        with anyio.fail_after(60):
            async with there.receiver(address) as receiver:
                assert (await receiver.receive()).message.body == "a message"
