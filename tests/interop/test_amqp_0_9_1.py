"""Our client in AMQP 0-9-1 and 0-9 against RabbitMQ and Qpid Broker-J, and both of them and the draft at our own."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

import anyio
import pytest

from amqp10 import (
    AuthenticationFailed,
    Connection,
    ConnectionClosed,
    LinkDetached,
    Message,
    MessageRejected,
    MessageReleased,
    Plain,
    Reconnect,
    RequestRefused,
    ScramSha256,
    StaleDelivery,
)
from amqp10.dialects.v0_9.client.amqplain import Amqplain
from amqp10.testing import FaultProxy

from ._cases import BODIES, KEPT, PRIMITIVES, body_of, everything, same
from ._matrix import fresh_name

pytestmark = [pytest.mark.anyio, pytest.mark.interop, pytest.mark.capability("AMQP 0-9-1")]

on_trio = pytest.mark.parametrize("anyio_backend", ["trio"])


@dataclass(frozen=True)
class Peer:
    """A broker, and the dialect to speak with it."""

    name: str
    dialect: str
    server: Any

    @asynccontextmanager
    async def connected(self, url: str | None = None, **settings: Any) -> AsyncIterator[Connection]:
        url = url if url is not None else self.server.url()
        async with Connection(url, dialect=self.dialect, **settings) as connection:
            yield connection

    @asynccontextmanager
    async def queue(self, connection: Connection, **options: Any) -> AsyncIterator[str]:
        """A queue for one test."""
        name = fresh_name()
        await connection.native.declare_queue(name, **options)
        try:
            yield name
        finally:
            with anyio.CancelScope(shield=True), suppress(Exception):
                await connection.native.delete_queue(name)


PEERS = [
    ("rabbitmq", "0-9-1"),
    ("broker_j", "0-9-1"),
    ("broker_j", "0-9"),
    ("embedded", "0-9-1"),
    ("embedded", "0-9"),
    ("embedded", "0-9-draft"),
]


@pytest.fixture(params=PEERS, ids=["-".join(each) for each in PEERS])
def peer(request: pytest.FixtureRequest) -> Peer:
    """Each broker in each of the dialects that it has."""
    name, dialect = request.param
    return Peer(name, dialect, request.getfixturevalue(name))


@pytest.fixture
def rabbit(rabbitmq: Any) -> Peer:
    """RabbitMQ alone, for what only it has."""
    return Peer("rabbitmq", "0-9-1", rabbitmq)


async def test_send_and_receive(peer: Peer) -> None:
    """Published, confirmed, delivered, acked, gone."""
    async with peer.connected() as connection, peer.queue(connection) as queue:
        async with connection.receiver(queue) as receiver, connection.sender(queue) as sender:
            await sender.send(Message("hello", subject="greeting", application_properties={"n": 1}))
            with await receiver.receive() as message:
                assert (message.body, message.subject, message.to) == ("hello", "greeting", f"/queues/{queue}")
        assert await connection.native.get(queue) is None


async def test_v2_addresses_are_names(peer: Peer) -> None:
    """`/queues/NAME` is NAME, percent-encoded; so a program changes its dialect and not its addresses."""
    async with peer.connected() as connection, peer.queue(connection) as queue:
        async with connection.sender(f"/queues/{queue}") as sender, connection.receiver(queue) as receiver:
            await sender.send(b"m")
            (await receiver.receive()).accept()
        async with connection.sender(None) as anonymous:
            await anonymous.send(Message(b"x", to=f"/queues/{queue}"))
        message = await connection.native.get(queue)
        assert message is not None
        assert message.body == b"x"


@on_trio
async def test_many(peer: Peer) -> None:
    """5,000 messages in flight at once, in order, none twice, and nothing left without an ack."""
    async with peer.connected() as connection, peer.queue(connection) as queue:
        async with connection.receiver(queue, credit=300) as receiver, connection.sender(queue) as sender:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(sender.send_many, [Message(b"%d" % n) for n in range(5000)])
                for n in range(5000):
                    with await receiver.receive() as message:
                        assert message.body == b"%d" % n
        assert await connection.native.get(queue) is None


@on_trio
async def test_messages(peer: Peer) -> None:
    """Bodies of all kinds, all fields, every primitive type as an application property: all come back whole."""
    fields = {**KEPT, "application_properties": PRIMITIVES, "user_id": b"user", "durable": True}
    sent = [*map(Message, BODIES.values()), everything(application_properties=PRIMITIVES, user_id=b"user")]
    async with peer.connected() as connection, peer.queue(connection) as queue:
        async with connection.receiver(queue) as receiver, connection.sender(queue) as sender:
            await sender.send_many(sent)
            got = []
            for _ in sent:
                with await receiver.receive() as message:
                    message.check()
                    got.append(message)
    for kind, message in zip(BODIES, got[:-1], strict=True):
        assert same(message.body, BODIES[kind]), kind
    for name, value in fields.items():
        ours = getattr(got[-1], name)
        if isinstance(value, dict):
            assert ours.keys() == value.keys(), name
            assert all(same(ours[key], each) for key, each in value.items()), name
        else:
            assert same(ours, value) or ours == value, name


@pytest.mark.parametrize("size", [1, 131_064, 131_065, 1 << 20])
@on_trio
async def test_size(peer: Peer, size: int) -> None:
    """In as many body frames as it takes; whole frames and one byte more among them."""
    body = body_of(size)
    async with peer.connected() as connection, peer.queue(connection) as queue:
        async with connection.receiver(queue) as receiver, connection.sender(queue) as sender:
            await sender.send(body)
            with await receiver.receive() as message:
                assert message.body == body


async def test_exchanges(peer: Peer) -> None:
    """Declared, bound, published to by address or subject; what no queue wants comes back as released."""
    exchange = f"x-{secrets.token_hex(4)}"
    async with peer.connected() as connection, peer.queue(connection) as queue:
        native = connection.native
        await native.declare_exchange(exchange, "topic")
        assert await native.exchange_exists(exchange)
        await native.bind(queue, exchange, "a.#")
        async with connection.sender(f"/exchanges/{exchange}/a.b") as sender:
            await sender.send(b"1")
        async with connection.sender(f"/exchanges/{exchange}") as sender:
            await sender.send(Message(b"2", subject="a.c.d"))
            with pytest.raises(MessageReleased):
                await sender.send(Message(b"3", subject="z"))
            await sender.send(Message(b"4", subject="a"))
        found = [await native.get(queue) for _ in range(4)]
        assert [message.body if message else None for message in found] == [b"1", b"2", b"4", None]
        assert found[0].to == f"/exchanges/{exchange}/a.b"
        assert found[1].subject == "a.c.d"
        await native.unbind(queue, exchange, "a.#")
        await native.delete_exchange(exchange)
        assert not await native.exchange_exists(exchange)


async def test_returned_among_others(peer: Peer) -> None:
    """Which of many publishes came back is found out by route, properties and body."""
    async with peer.connected() as connection, peer.queue(connection) as queue:
        async with connection.sender(None) as sender:
            there = f"/queues/{queue}"
            addresses = [there if n % 3 else "/exchanges/amq.direct/nobody" for n in range(30)]
            sent = [await sender.submit(Message(b"%d" % n, to=to)) for n, to in enumerate(addresses)]
            outcomes = [type(await delivery.outcome()).__name__ for delivery in sent]
        assert outcomes == ["Accepted" if to == there else "Returned" for to in addresses]


async def test_outcomes(peer: Peer) -> None:
    """Given back it comes again, with the mark of a second time; rejected it does not."""
    async with peer.connected() as connection, peer.queue(connection) as queue:
        async with connection.receiver(queue) as receiver, connection.sender(queue) as sender:
            await sender.send_many([b"1", b"2", b"3"])
            deliveries = [await receiver.receive() for _ in range(3)]
            assert deliveries[0].message.delivery_count == 0
            deliveries[1].release()
            deliveries[2].reject()
            deliveries[0].accept()
            again = await receiver.receive()
            assert again.message.body == b"2"
            assert again.message.delivery_count > 0
            again.modify(delivery_failed=True, undeliverable_here=True)
        if peer.name == "broker_j":  # basic.reject without requeue: it requeues, as it does for every client
            assert await connection.native.purge_queue(queue) == 2
        assert await connection.native.get(queue) is None


async def test_exact_credit(peer: Peer) -> None:
    """With manual credit the server keeps what was not asked for, and an ack does not ask."""
    async with peer.connected() as connection, peer.queue(connection) as queue:
        async with connection.sender(queue) as sender:
            await sender.send_many([b"1", b"2", b"3", b"4"])
        async with connection.receiver(queue, credit=0) as receiver:
            receiver.add_credit(1)
            delivery = await receiver.receive()
            delivery.accept()
            rest = [await connection.native.get(queue) for _ in range(2)]
            assert [message.body if message else None for message in rest] == [b"2", b"3"]
            receiver.add_credit(5)
            await receiver.drain()
            assert (receiver.buffered, receiver.credit) == (1, 0)
            (await receiver.receive()).accept()
            receiver.add_credit(5)
            await receiver.drain()
            assert receiver.buffered == 0


async def test_more_unsettled_than_credit(peer: Peer) -> None:
    """Pitfall 4: who settles late gets on all the same."""
    async with peer.connected() as connection, peer.queue(connection) as queue:
        async with connection.sender(queue) as sender:
            await sender.send_many([b"%d" % n for n in range(100)])
        with anyio.fail_after(60):
            async with connection.receiver(queue, credit=10) as receiver:
                deliveries = [await receiver.receive() for _ in range(100)]
                for delivery in reversed(deliveries):
                    delivery.accept()
        assert [delivery.message.body for delivery in deliveries] == [b"%d" % n for n in range(100)]
        assert await connection.native.get(queue) is None


async def test_closing_gives_back(peer: Peer) -> None:
    """Pitfall 8: what was prefetched and not taken is there for the next receiver."""
    async with peer.connected() as connection, peer.queue(connection) as queue:
        async with connection.sender(queue) as sender:
            await sender.send_many([b"1", b"2", b"3"])
        async with connection.receiver(queue) as receiver:
            (await receiver.receive()).accept()
        async with connection.receiver(queue) as receiver:
            assert [(await receiver.receive()).message.body for _ in range(2)] == [b"2", b"3"]


async def test_dynamic_nodes(peer: Peer) -> None:
    """A queue of the server's choice, for this connection."""
    async with peer.connected() as connection:
        async with connection.receiver(dynamic=True) as receiver:
            assert receiver.address is not None
            async with connection.sender(receiver.address) as sender:
                await sender.send(b"m")
            (await receiver.receive()).accept()


async def test_errors_of_one_link(peer: Peer) -> None:
    """They end that link, with the reply code, and nothing else."""
    async with peer.connected() as connection, peer.queue(connection) as queue:
        with pytest.raises(LinkDetached) as detached:
            async with connection.sender("/exchanges/there-is-none/k"):
                pass
        assert (detached.value.condition, detached.value.info["reply-code"]) == ("amqp:not-found", 404)
        with pytest.raises(RequestRefused) as refused:
            await connection.native.bind(queue, "there-is-none")
        assert (refused.value.condition, refused.value.info["reply-code"]) == ("amqp:not-found", 404)
        async with connection.sender(queue) as sender:
            await sender.send(b"m")


async def test_wrong_password(peer: Peer) -> None:
    """Each broker has its own code for it; the error is the same."""
    with pytest.raises(AuthenticationFailed):
        async with peer.connected(sasl=Plain("user", "wrong")):
            pass


async def test_scram(peer: Peer) -> None:
    """By connection.secure, with the server's proof checked, where there is SCRAM."""
    if peer.name == "rabbitmq":
        with pytest.raises(AuthenticationFailed, match="PLAIN"):
            async with peer.connected(sasl=ScramSha256("user", "secret")):
                pass
        return
    async with peer.connected(sasl=ScramSha256("user", "secret")) as connection:
        assert connection.mechanism == "SCRAM-SHA-256"


async def test_transactions(peer: Peer) -> None:
    """Work happens as a whole or not at all; messages and acks together."""
    async with peer.connected() as connection, peer.queue(connection) as queue:
        async with connection.sender(queue) as sender, connection.receiver(queue) as receiver:
            with suppress(KeyError):
                async with connection.transaction() as transaction:
                    await sender.send(b"never", transaction=transaction)
                    raise KeyError
            async with connection.transaction() as transaction:
                await sender.send(b"1", transaction=transaction)
                await sender.send(b"2", transaction=transaction)
            first, second = await receiver.receive(), await receiver.receive()
            assert (first.message.body, second.message.body) == (b"1", b"2")
            async with connection.transaction() as transaction:
                first.accept(transaction=transaction)
                await sender.send(b"3", transaction=transaction)
            with suppress(KeyError):
                async with connection.transaction() as transaction:
                    second.accept(transaction=transaction)
                    raise KeyError
            rest = [await receiver.receive() for _ in range(2)]  # a rollback gives back
            assert sorted(delivery.message.body for delivery in rest) == [b"2", b"3"]
            for delivery in rest:
                delivery.accept()
        assert await connection.native.get(queue) is None


async def test_a_transaction_of_two_receivers(peer: Peer) -> None:
    """Acks belong to their channels, so that is refused before anything is written."""
    async with peer.connected() as connection, peer.queue(connection) as one, peer.queue(connection) as two:
        async with connection.sender(None) as sender:
            for name in (one, two):
                await sender.send(Message(b"m", to=f"/queues/{name}"))
        async with connection.receiver(one) as first, connection.receiver(two) as second:
            with pytest.raises(Exception, match="only one receiver"):
                async with connection.transaction() as transaction:
                    (await first.receive()).accept(transaction=transaction)
                    (await second.receive()).accept(transaction=transaction)


async def test_recover(peer: Peer) -> None:
    """What is out comes again, and the deliveries before are stale."""
    async with peer.connected() as connection, peer.queue(connection) as queue:
        async with connection.sender(queue) as sender, connection.receiver(queue) as receiver:
            await sender.send(b"m")
            delivery = await receiver.receive()
            await connection.native.recover(receiver)
            again = await receiver.receive()
            assert again.message.delivery_count > 0
            with pytest.raises(StaleDelivery):
                delivery.accept()
            again.accept()


async def test_recover_beside_a_reader(peer: Peer) -> None:
    """What is accepted before the answer is not said: the channel lives on, and all that comes again can be settled."""
    async with peer.connected() as connection, peer.queue(connection) as queue:
        async with connection.sender(queue) as sender, connection.receiver(queue) as receiver:
            await sender.send_many(f"{number}" for number in range(5))
            early = await receiver.receive()

            async def read() -> None:
                for _ in range(4):
                    (await receiver.receive()).accept()

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(connection.native.recover, receiver)
                tasks.start_soon(read)
            with pytest.raises(StaleDelivery):
                early.accept()
            await sender.send("last")
            with anyio.fail_after(60):
                while (delivery := await receiver.receive()).message.body != "last":
                    delivery.accept()
            delivery.accept()


@on_trio
async def test_reconnecting(peer: Peer) -> None:
    """Nothing is lost through connections that break while messages go both ways."""
    count, bodies = 600, set()
    settings = {"reconnect": Reconnect(initial_delay=0.02, max_delay=0.2)}
    async with peer.connected() as other, peer.queue(other) as queue:
        async with FaultProxy(peer.server.url()) as proxy, peer.connected(proxy.url, **settings) as connection:

            async def receive() -> None:
                async with connection.receiver(queue) as receiver:
                    async for delivery in receiver:
                        bodies.add(delivery.message.body)
                        with suppress(StaleDelivery):
                            delivery.accept()
                        if len(bodies) == count:
                            return

            with anyio.fail_after(60):
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(receive)
                    async with connection.sender(queue) as sender:
                        for first in range(0, count, 100):
                            proxy.cut_after(1500 + first, "up" if first % 200 else "down")
                            await sender.send_many(b"%d" % n for n in range(first, first + 100))
            assert proxy.cuts >= 3


# What only RabbitMQ has


async def test_a_full_queue(rabbit: Peer) -> None:
    """A nack, for the server could not take care of it."""
    options = {"x-max-length": 1, "x-overflow": "reject-publish"}
    async with rabbit.connected() as connection, rabbit.queue(connection, arguments=options) as queue:
        async with connection.sender(queue) as sender:
            await sender.send(b"1")
            with pytest.raises(MessageRejected) as rejected:
                for _ in range(5):
                    await sender.send(b"2")
            assert rejected.value.condition == "amqp:internal-error"


async def test_dead_letters(rabbit: Peer) -> None:
    """Rejected messages go where the queue sends them, with RabbitMQ's history as an annotation."""
    async with rabbit.connected() as connection, rabbit.queue(connection) as dead:
        options = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead}
        async with rabbit.queue(connection, arguments=options) as queue:
            async with connection.sender(queue) as sender, connection.receiver(queue) as receiver:
                await sender.send(b"m")
                (await receiver.receive()).reject()
            async with connection.receiver(dead) as receiver:
                with await receiver.receive() as message:
                    assert message.message_annotations["x-death"][0]["reason"] == "rejected"


async def test_quorum_queues_count(rabbit: Peer) -> None:
    """Their header x-delivery-count is the delivery count."""
    options = {"x-queue-type": "quorum"}
    async with rabbit.connected() as connection, rabbit.queue(connection, durable=True, arguments=options) as queue:
        async with connection.sender(queue) as sender, connection.receiver(queue) as receiver:
            await sender.send(b"m")
            for count in range(3):
                delivery = await receiver.receive()
                assert delivery.message.delivery_count == count
                delivery.modify(delivery_failed=True)


async def test_a_queue_that_goes(rabbit: Peer) -> None:
    """The server cancels the consumer, and the receiver hears why."""
    async with rabbit.connected() as connection, rabbit.queue(connection) as queue:
        async with connection.receiver(queue) as receiver, connection.sender(queue) as sender:
            await sender.send(b"m")
            (await receiver.receive()).accept()
            await connection.native.delete_queue(queue)
            with pytest.raises(LinkDetached) as detached:
                await receiver.receive()
            assert detached.value.condition == "amqp:resource-deleted"


async def test_the_rest_of_its_words(rabbit: Peer) -> None:
    """Bindings between exchanges, prefetch, and a new secret."""
    one, two = (f"x-{secrets.token_hex(4)}" for _ in range(2))
    async with rabbit.connected() as connection, rabbit.queue(connection) as queue:
        native = connection.native
        await native.declare_exchange(one, "fanout", alternate="amq.fanout")
        await native.declare_exchange(two, "direct", auto_delete=True)
        await native.bind_exchange(two, one)
        await native.bind(queue, two, "k")
        async with connection.sender(f"/exchanges/{one}/k") as sender, connection.receiver(queue, credit=1) as receiver:
            await native.qos(receiver, 5)
            await sender.send(b"m")
            (await receiver.receive()).accept()
        await native.unbind_exchange(two, one)
        await native.delete_exchange(one)
        await native.update_secret("secret", "a test")
        with pytest.raises(ValueError, match="65535"):
            await native.qos(receiver, 0)


async def test_virtual_hosts(rabbit: Peer) -> None:
    """Which one is said as RabbitMQ has it in AMQP 1.0, or by the path of the URL, as in RabbitMQ's own URIs."""
    for url, name in ((rabbit.server.url(), "vhost:nowhere"), (f"{rabbit.server.url()}/nowhere", None)):
        with pytest.raises(ConnectionClosed, match="amqp:not-allowed"):
            async with rabbit.connected(url, hostname=name):
                pass
    async with rabbit.connected(f"{rabbit.server.url()}/%2F") as connection, rabbit.queue(connection) as queue:
        assert await connection.native.queue(queue) is not None


async def test_amqplain(rabbit: Peer, monkeypatch: pytest.MonkeyPatch) -> None:
    """The login of servers that offer nothing else: RabbitMQ takes it, too, and refuses a wrong password."""
    monkeypatch.setattr(Amqplain, "strength", 100)
    async with rabbit.connected() as connection:
        assert connection.mechanism == "AMQPLAIN"
    with pytest.raises(AuthenticationFailed):
        async with rabbit.connected(sasl=Plain("guest", "wrong")):
            pass


async def test_priorities(rabbit: Peer) -> None:
    """The consumer of higher priority gets what there is."""
    async with rabbit.connected() as connection, rabbit.queue(connection) as queue:
        async with connection.receiver(queue, priority=1) as low, connection.receiver(queue, priority=9) as high:
            async with connection.sender(queue) as sender:
                await sender.send_many([b"1", b"2"])
            for _ in range(2):
                (await high.receive()).accept()
            assert low.buffered == 0


async def test_a_sender_that_is_left_before_the_commit(rabbit: Peer) -> None:
    """Its channel stays for the commit: what was sent is there."""
    async with rabbit.connected() as connection, rabbit.queue(connection) as queue:
        async with connection.transaction() as transaction:
            async with connection.sender(queue) as sender:
                await sender.send(b"m", transaction=transaction)
            assert await connection.native.get(queue) is None
        got = await connection.native.get(queue)
        assert got is not None
        assert got.body == b"m"


@on_trio
async def test_the_host_is_no_virtual_host(peer: Peer) -> None:
    """A hostname that is but the machine's own opens, as it does in 1.0, and leads to the usual virtual host."""
    async with peer.connected() as one, peer.queue(one) as queue, peer.connected(hostname="localhost") as other:
        assert await other.native.purge_queue(queue) == 0
