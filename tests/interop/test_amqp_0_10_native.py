"""`amqp10.amqp010` on Broker-J and the embedded broker: queues, exchanges, bindings, acquiring, branches."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import pytest

from amqp10 import (
    Anonymous,
    Connection,
    LocalProtocolError,
    Message,
    RequestRefused,
    SessionEnded,
    Source,
    Unsupported,
)
from amqp10.amqp010 import Native, XAStatus, Xid
from amqp10.dialects.v0_10 import Invoke
from amqp10.dialects.v0_10.wire.commands import QueueDeclare
from amqp10.engine import QueueFacts

from .brokers import Server

pytestmark = [pytest.mark.anyio, pytest.mark.interop]


@pytest.fixture(params=["broker_j", "embedded"])
def server(request: pytest.FixtureRequest) -> Server:
    """Both brokers that speak 0-10, in turn."""
    found: Server = request.getfixturevalue(request.param)
    return found


@asynccontextmanager
async def connected(server: Server) -> AsyncIterator[tuple[Connection, Native]]:
    """A connection that speaks 0-10, and its own words."""
    with anyio.fail_after(60):
        async with Connection(server.url(), dialect="0-10") as connection:
            yield connection, connection.native


def fresh(kind: str) -> str:
    return f"{kind}-{secrets.token_hex(4)}"


async def test_queues(server: Server) -> None:
    """Declared, found, counted, emptied, deleted; what is refused says why and in numbers, and nothing else ends."""
    name = fresh("declared")
    async with connected(server) as (connection, native):
        facts = await native.declare_queue(name, durable=True)
        assert facts == await native.queue(name) == await native.declare_queue(name, passive=True)
        assert (facts.name, facts.messages, facts.durable, facts.exclusive) == (name, 0, True, False)
        async with connection.sender(name) as sender:
            await sender.send_many([Message("m", durable=True)] * 3)
        found = await native.queue(name)
        assert found is not None
        assert found.messages == 3
        with pytest.raises(RequestRefused, match="precondition-failed") as caught:
            await native.delete_queue(name, if_empty=True)
        assert caught.value.info["reply-code"] == 406
        assert await native.purge_queue(name) == 3
        with pytest.raises(RequestRefused, match="precondition-failed"):
            await native.declare_queue(name, durable=False)
        async with connection.receiver(name):
            with pytest.raises(RequestRefused, match="in use"):
                await native.delete_queue(name, if_unused=True)
        assert await native.delete_queue(name) == 0
        if connection.profile.name == "embedded":  # the other makes a queue as soon as one looks for it
            for request in (native.delete_queue, native.purge_queue):
                with pytest.raises(RequestRefused, match="not-found"):
                    await request(name)
        made_up = await native.declare_queue(exclusive=True, auto_delete=True)
        assert made_up.name
        assert made_up.exclusive
        async with connection.receiver(made_up.name) as receiver, connection.sender(made_up.name) as sender:
            await sender.send("x")
            (await receiver.receive()).accept()


async def test_alternate_exchange(server: Server) -> None:
    """What is rejected goes to the queue's alternate exchange."""
    name, dead = fresh("living"), fresh("dead")
    async with connected(server) as (connection, native):
        await native.declare_queue(dead, durable=True)
        await native.bind(dead, "amq.fanout")
        if connection.profile.name == "embedded":
            facts = await native.declare_queue(name, alternate="amq.fanout")
            assert facts.arguments == {"x-dead-letter-exchange": "amq.fanout"}
        else:  # who looks first whether it is there has it made
            async with connection.session() as session:
                await session._core.request(Invoke(QueueDeclare(name, "amq.fanout")))
        async with connection.sender(name) as sender, connection.receiver(name) as receiver:
            await sender.send("dies")
            (await receiver.receive()).reject("amqp:decode-error", "why")
        async with connection.receiver(dead) as receiver:
            with await receiver.receive() as message:
                assert message.body == "dies"
        for each in (name, dead):
            await native.delete_queue(each)


async def test_queues_of_a_session(server: Server) -> None:
    """Exclusive and auto-deleted: it outlives its subscriptions, and ends with its session; the connection goes on."""
    name = fresh("mine")
    declare = Invoke(QueueDeclare(name, exclusive=True, auto_delete=True))
    async with connected(server) as (connection, native):
        async with connection.session() as session:
            await session._core.request(declare)
            async with session.receiver(name), session.sender(name) as sender:
                await sender.send("m")
            async with session.receiver(name) as receiver:
                with await receiver.receive() as message:
                    assert message.body == "m"
            facts = await native.queue(name)
            assert facts is not None
            assert (facts.exclusive, facts.auto_delete) == (True, True)
        facts = await native.queue(name)
        assert facts is None or not facts.exclusive  # Broker-J makes another as soon as one looks for it


async def test_exchanges(server: Server) -> None:
    """A topic exchange: bound, routed by, looked at, unbound, deleted."""
    exchange, one, two = fresh("exchange"), fresh("one"), fresh("two")
    async with connected(server) as (connection, native):
        await native.declare_exchange(exchange, "topic")
        facts = await native.exchange(exchange)
        assert facts is not None
        assert facts.type == "topic"
        with pytest.raises(RequestRefused, match="precondition-failed"):
            await native.declare_exchange(exchange, "fanout")
        for queue, key in ((one, "*.error"), (two, "#")):
            await native.declare_queue(queue, durable=True)
            await native.bind(queue, exchange, key)
        async with connection.sender(f"/exchanges/{exchange}") as sender:
            await sender.send(Message("disk full", subject="db.error"))
            await sender.send(Message("well", subject="db.info"))
        counts = [await native.queue(each) for each in (one, two)]
        assert [facts.messages for facts in counts if isinstance(facts, QueueFacts)] == [1, 2]
        async with connection.receiver(one) as receiver:
            with await receiver.receive() as message:
                assert (message.subject, message.to) == ("db.error", f"/exchanges/{exchange}/db.error")
        found = await native.binding(exchange, one, "*.error")
        assert (found.exchange, found.queue, found.bound, found.key) == (True, True, True, True)
        assert not (await native.binding(exchange, one, "other")).key
        assert not (await native.binding(fresh("no"), one)).exchange
        await native.unbind(one, exchange, "*.error")
        with pytest.raises(RequestRefused, match="not-found"):
            await native.unbind(one, exchange, "*.error")
        with pytest.raises(RequestRefused, match="not-found"):
            await native.bind(one, fresh("no"))
        await native.delete_exchange(exchange)
        assert await native.exchange(exchange) is None
        with pytest.raises(RequestRefused, match="not-found"):
            await native.declare_exchange(exchange, passive=True)
        with pytest.raises(RequestRefused, match="not-found"):
            await native.delete_exchange(exchange)
        for queue in (one, two):
            await native.delete_queue(queue)


async def test_a_session_of_its_own(server: Server) -> None:
    """What the server refuses in the end takes the session of the requests along, and no other."""
    async with connected(server) as (connection, native):
        async with connection.receiver(dynamic=True) as receiver, connection.sender(receiver.address) as sender:
            with pytest.raises((RequestRefused, SessionEnded)):
                await native.declare_exchange(fresh("exchange"), "no-such-type")
            assert await native.exchange("amq.direct") is not None
            await sender.send("still here")
            (await receiver.receive()).accept()


async def test_acquire(server: Server, address: str) -> None:
    """What a browser was shown can be taken: accepted, it is gone; what nobody took stays, and what it gave back."""
    async with connected(server) as (connection, native):
        async with connection.sender(address) as sender:
            await sender.send_many(range(3))
        async with connection.receiver(Source(address, distribution_mode="copy")) as receiver:
            shown = [await receiver.receive() for _ in range(3)]
            acquired = await native.acquire(shown[1:3])
            assert acquired == shown[1:3]
            async with connection.receiver(address) as other:
                taken = await other.receive()
                assert taken.message.body == 0
                assert await native.acquire(shown) == []  # each is held by somebody
                taken.release()
            acquired[0].accept()
            acquired[1].release()
            assert await native.acquire([]) == []
        async with connection.browser(address) as browser:
            with pytest.raises(LocalProtocolError, match="browser"):
                await native.acquire([await browser.receive()])
        async with connection.receiver(address) as receiver:
            assert [(await receiver.receive()).message.body for _ in range(2)] == [0, 2]
            assert receiver.buffered == 0


async def test_acquired_and_left(server: Server, address: str) -> None:
    """Who takes what it was shown and goes without a word has it given back."""
    async with connected(server) as (connection, native):
        async with connection.sender(address) as sender:
            await sender.send_many(range(2))
        async with connection.receiver(Source(address, distribution_mode="copy")) as receiver:
            shown = [await receiver.receive() for _ in range(2)]
            assert await native.acquire(shown) == shown
            shown[1].accept()
        async with connection.receiver(address) as receiver:
            with await receiver.receive() as message:
                assert message.body == 0


async def test_branches(server: Server) -> None:
    """Two phases, one phase, rollback, suspended: work counts when its branch is committed."""
    async with connected(server) as (connection, native), connection.receiver(dynamic=True) as receiver:
        address = receiver.address
        async with native.xa() as xa:
            for end in ("two", "one", "none"):
                xid = Xid(1, secrets.token_bytes(8), b"b")
                assert await xa.start(xid) is XAStatus.OK
                async with xa.session.sender(address) as sender:
                    await sender.send(f"{end} phases")
                    assert await xa.end(xid, suspend=True) is XAStatus.OK
                    assert await xa.start(xid, resume=True) is XAStatus.OK
                assert await xa.end(xid) is XAStatus.OK
                if end == "two":
                    assert await xa.prepare(xid) is XAStatus.OK
                    assert xid in await xa.recover()
                    assert await xa.commit(xid) is XAStatus.OK
                elif end == "one":
                    assert await xa.commit(xid, one_phase=True) is XAStatus.OK
                else:
                    assert await xa.rollback(xid) is XAStatus.OK
        assert [(await receiver.receive()).message.body for _ in range(2)] == ["two phases", "one phases"]
        assert receiver.buffered == 0


async def test_prepared_branches_outlive_their_connection(server: Server, address: str) -> None:
    """Recovered, committed and rolled back on another connection: what was sent, and what was received and accepted."""
    committed, undone = (Xid(7, secrets.token_bytes(8), name) for name in (b"committed", b"undone"))
    async with connected(server) as (connection, native):
        async with connection.sender(address) as sender:
            await sender.send_many(["first", "second"])
        async with native.xa() as xa, xa.session.receiver(address, credit=2) as receiver:
            for xid in (committed, undone):
                await xa.start(xid)
                async with xa.session.sender(address) as sender:
                    await sender.send(f"sent, {xid.branch_id.decode()}")
                (await receiver.receive()).accept()
                await xa.end(xid)
                assert await xa.prepare(xid) is XAStatus.OK
    async with connected(server) as (connection, native):
        async with connection.receiver(address) as receiver:
            async with native.xa() as xa:
                in_doubt = await xa.recover()
                assert committed in in_doubt
                assert undone in in_doubt
                assert receiver.buffered == 0
                assert await xa.commit(committed) is XAStatus.OK
                assert await xa.rollback(undone) is XAStatus.OK
                assert not {each.branch_id for each in await xa.recover()} & {b"committed", b"undone"}
            got = {(await receiver.receive()).message.body for _ in range(2)}
            assert got == {"second", "sent, committed"}
            with anyio.move_on_after(0.2):
                raise AssertionError(await receiver.receive())


async def test_timeout_of_a_branch(server: Server, address: str) -> None:
    """A branch that is not over in time is rolled back: others get what it had, and its commit says why not."""
    xid = Xid(7, secrets.token_bytes(8), b"")
    async with connected(server) as (connection, native):
        async with connection.sender(address) as sender:
            await sender.send("had")
        async with native.xa() as xa:
            async with xa.session.receiver(address, credit=1) as receiver:
                await xa.start(xid)
                await xa.set_timeout(xid, 30)
                assert await xa.timeout(xid) == 30
                await xa.set_timeout(xid, 1)
                (await receiver.receive()).accept()
                assert await xa.end(xid) is XAStatus.OK
            async with connection.receiver(address) as other:
                assert (await other.receive()).message.body == "had"
            assert await xa.commit(xid, one_phase=True) is XAStatus.TIMED_OUT
            with pytest.raises((SessionEnded, RequestRefused)):
                await xa.set_timeout(xid, 1)


async def test_prepared_twice(embedded: Server) -> None:
    """A branch that is prepared cannot be started once more, by another connection either; other users know nothing."""
    xid = Xid(7, secrets.token_bytes(8), b"")
    async with connected(embedded) as (_, native), native.xa() as one:
        await one.start(xid)
        await one.end(xid)
        assert await one.prepare(xid) is XAStatus.OK
        async with connected(embedded) as (_, other), other.xa() as two:
            with pytest.raises(RequestRefused, match="the branch exists already"):
                await two.start(xid)
        async with Connection(embedded.url(), dialect="0-10", sasl=Anonymous()) as stranger:
            async with stranger.native.xa() as xa:
                assert await xa.recover() == []
        assert await one.rollback(xid) is XAStatus.OK
        with pytest.raises(RequestRefused) as caught:
            await one.commit(xid)
        assert caught.value.info["reply-code"] == 404


async def test_wrong_order(server: Server) -> None:
    """A verb out of order ends the session of the branches, with the reply code, and nothing else."""
    async with connected(server) as (connection, native):
        async with native.xa() as xa:
            with pytest.raises((SessionEnded, RequestRefused)) as caught:
                await xa.commit(Xid(1, b"nowhere", b""), one_phase=True)
            assert caught.value.info["reply-code"] in (404, 409)
        async with native.xa() as xa:
            xid = Xid(1, secrets.token_bytes(8), b"")
            await xa.start(xid)
            with pytest.raises((SessionEnded, RequestRefused)):
                await xa.start(xid)
        assert await native.queue(fresh("no")) is None or connection.open


async def test_unsupported(server: Server) -> None:
    """What 0-10 has no words for is refused before anything is written."""
    async with connected(server) as (connection, _):
        async with connection.sender(None) as sender:
            with pytest.raises(Unsupported):
                sender.stream()
