"""Messages that come to many queues each are copied in several passes, so that others have their turn between."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from random import Random

import anyio
import anyio.lowlevel
import pytest
from anyio.abc import ByteStream

from amqp10.broker import Broker, BrokerLimits
from amqp10.dialects.v0_9.channel import BASIC
from amqp10.dialects.v0_9.wire.methods import (
    BasicPublish,
    QueueBind,
    QueueDeclare,
    QueuePurge,
    QueueUnbind,
    TxCommit,
    TxRollback,
    TxSelect,
)
from amqp10.dialects.v0_9.wire.properties import BasicProperties
from amqp10.dialects.v0_9.wire.variant import V0_9_1
from amqp10.engine import ConnectionTerms, Engine, LinkTerms, SessionTerms, dialect
from amqp10.messaging import Message, Source, Target

from ...kit.broker.client_0_9_1 import Client091, said
from ...kit.broker.wire import Wire, bodies, queue_of
from ...kit.inside.broker import VirtualHostCore, peer_connection

QUEUES, MESSAGES = 50, 20


@pytest.fixture(autouse=True)
def _few(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pass is full with three messages."""
    monkeypatch.setattr(peer_connection, "_COPIES_AT_ONCE", 3 * QUEUES)


def _fanned(vhost: VirtualHostCore) -> None:
    """Bind queues to an exchange."""
    for number in range(QUEUES):
        queue = vhost.declare(f"q{number}", "queue")
        vhost.topology.bind(vhost.topology.exchanges["amq.fanout"], queue, "")


def _passes(wire: Wire, name: str) -> list[int]:
    """Work off what the client sent; return how many messages came to a queue in each pass."""
    queue, counts, data = queue_of(wire.vhost, name), [], wire.client.data_to_send()
    while data or wire.server.behind:
        before = queue.enqueued
        wire.server.receive_data(data)
        wire.settle_down()
        counts.append(queue.enqueued - before)
        data = b""
    return counts


@pytest.mark.parametrize("name", ["1.0", "0-10", "0-9-1"])
def test_exchange(name: str) -> None:
    """Three in each pass: all of 100 messages for 5000 queues took 1.6 s in one."""
    wire = Wire(VirtualHostCore(clock=lambda: 0.0), name)
    _fanned(wire.vhost)
    wire.server.portion = 2000
    link = wire.send_to("/exchanges/amq.fanout")
    for number in range(MESSAGES):
        link.send(Message(number).encode(), settled=link.settled_by_sender)
    counts = _passes(wire, "q7")
    assert max(counts) == 3
    assert sum(counts) == MESSAGES
    wire.turn()
    assert not link.count_unsettled().total
    for queue in ("q0", f"q{QUEUES - 1}"):
        assert bodies(wire.receive_from(queue, credit=100)) == list(range(MESSAGES))


def test_topic() -> None:
    """The same for the subscribers of a topic."""
    wire = Wire(VirtualHostCore(clock=lambda: 0.0))
    wire.vhost.declare("t", "topic")
    receivers = [wire.receive_from("t", credit=100, name=f"r{number}") for number in range(QUEUES)]
    wire.server.portion = 2000
    link = wire.send_to("t")
    for number in range(MESSAGES):
        link.send(Message(number).encode())
    wire.server.receive_data(wire.client.data_to_send())
    wire.settle_down()
    topic = wire.vhost.nodes["t"]
    assert topic.enqueued == 3
    while wire.server.behind:
        before = topic.enqueued
        wire.server.receive_data(b"")
        wire.settle_down()
        assert topic.enqueued - before <= 3
    wire.turn()
    assert {len(each.incoming) for each in receivers} == {MESSAGES}
    assert bodies(receivers[0]) == list(range(MESSAGES))
    assert not link.count_unsettled().total


def _method(random: Random) -> bytes:
    """Something that a client may say."""
    kind, queue = random.randrange(12), f"q{random.randrange(3)}"
    if kind < 6:
        exchange, key = ("amq.fanout", "") if kind < 4 else ("", queue)
        properties = BasicProperties(message_id="id").encode(V0_9_1.tables)
        content = V0_9_1.framing.message(1, BASIC, properties, b"x", 4096)
        return said(BasicPublish(exchange=exchange, routing_key=key)) + content
    if kind < 8:
        return said(random.choice([QueuePurge(queue=queue), QueueDeclare(queue=queue)]))
    if kind < 10:
        return said(random.choice([QueueBind, QueueUnbind])(queue=queue, exchange="amq.fanout"))
    return said(random.choice([TxCommit(), TxRollback()]))


@pytest.mark.parametrize("seed", range(20))
def test_in_one_go(seed: int) -> None:
    """What follows such messages waits for them: the result is that of each method by itself."""
    random = Random(seed)
    start = [said(TxSelect())] if seed % 2 else []
    methods = [each for each in (_method(random) for _ in range(80)) if seed % 2 or b"\x00\x5a\x00" not in each[7:10]]
    results = []
    for parts in ([*start, *methods], [b"".join([*start, *methods])]):
        vhost = VirtualHostCore(clock=lambda: 0.0)
        _fanned(vhost)
        client = Client091(vhost)
        client.engine.portion = 2000
        for part in parts:
            client.put(part)
            while client.engine.behind:
                client.put(b"")
        queues = [queue_of(vhost, f"q{number}") for number in range(5)]
        results.append(([(each.depth, each.enqueued, each.reserved) for each in queues], client.heard))
    assert results[0] == results[1]


async def _exchange(stream: ByteStream, client: Engine, over: Callable[[], bool]) -> None:
    while not over():
        await stream.send(client.data_to_send())
        client.receive_data(await stream.receive())


@pytest.mark.anyio
@pytest.mark.in_memory
@pytest.mark.parametrize("name", ["1.0", "0-9-1"])
async def test_closed_right_behind(name: str) -> None:
    """Messages before the close of a connection come to their queues, although it is over by then."""
    client = dialect(name).client(ConnectionTerms("client"), None, True)
    names = [f"q{number}" for number in range(QUEUES)]
    async with Broker(queues=names, bindings=[("amq.fanout", "", each) for each in names]) as broker:
        async with broker.open_stream() as stream:
            client.start()
            client.open()
            await _exchange(stream, client, lambda: client.opened)
            link = client.begin(SessionTerms()).attach_sender(
                LinkTerms("link", source=Source(), target=Target("/exchanges/amq.fanout"))
            )
            await _exchange(stream, client, lambda: link.attached and link.credit >= MESSAGES)
            link.send(Message("first").encode(), settled=link.settled_by_sender)
            await _exchange(stream, client, lambda: not link.count_unsettled().total)
            for number in range(MESSAGES):
                link.send(Message(number).encode(), settled=link.settled_by_sender)
            client.close()
            await stream.send(client.data_to_send())
            with contextlib.suppress(anyio.EndOfStream):
                while True:
                    await stream.receive()
        for _ in range(500):
            await anyio.lowlevel.checkpoint()
        assert {broker.queue(each).depth for each in names} == {1 + MESSAGES}


@pytest.mark.anyio
@pytest.mark.in_memory
@pytest.mark.parametrize("name", ["1.0", "0-9-1", "0-10"])
async def test_little_credit(name: str) -> None:
    """They go on also if the client says nothing more, and credit lets the messages come."""
    client = dialect(name).client(ConnectionTerms("client"), None, True)
    names = [f"q{number}" for number in range(QUEUES)]
    bindings = [("amq.fanout", "", each) for each in names]
    async with Broker(queues=names, bindings=bindings, credit=7) as broker, broker.open_stream() as stream:
        client.start()
        client.open()
        with anyio.fail_after(60):
            await _exchange(stream, client, lambda: client.opened)
            link = client.begin(SessionTerms()).attach_sender(
                LinkTerms("link", source=Source(), target=Target("/exchanges/amq.fanout"))
            )
            await _exchange(stream, client, lambda: link.attached and link.credit > 0)
            for number in range(MESSAGES):
                await _exchange(stream, client, lambda: link.credit > 0)
                link.send(Message(number).encode(), settled=link.settled_by_sender)
            await _exchange(stream, client, lambda: not link.count_unsettled().total)
        for _ in range(500):
            await anyio.lowlevel.checkpoint()
        assert {broker.queue(each).depth for each in names} == {MESSAGES}


@pytest.mark.anyio
@pytest.mark.in_memory
async def test_room_comes_later() -> None:
    """The same if the broker had no memory, and gets it while this connection says nothing."""
    client = dialect("0-9-1").client(ConnectionTerms("client"), None, True)
    names = [f"q{number}" for number in range(QUEUES)]
    bindings = [("amq.fanout", "", each) for each in names]
    async with (
        Broker(queues=[*names, "large"], bindings=bindings, limits=BrokerLimits(memory=1_000_000)) as broker,
        broker.open_stream() as stream,
        broker.connect() as other,
        other.sender("large") as sender,
        other.receiver("large") as receiver,
    ):
        client.start()
        client.open()
        await _exchange(stream, client, lambda: client.opened)
        link = client.begin(SessionTerms()).attach_sender(
            LinkTerms("link", source=Source(), target=Target("/exchanges/amq.fanout"))
        )
        await _exchange(stream, client, lambda: link.attached and link.credit > 0)
        link.send(Message("first").encode())
        await _exchange(stream, client, lambda: not link.count_unsettled().total)
        await sender.send(Message(b"x" * 1_000_000))
        assert broker.blocked
        for number in range(MESSAGES):
            link.send(Message(number).encode())
        await stream.send(client.data_to_send())
        for _ in range(300):
            await anyio.lowlevel.checkpoint()
        assert broker.queue("q7").enqueued == 1
        delivery = await receiver.receive()
        delivery.accept()
        for _ in range(500):
            await anyio.lowlevel.checkpoint()
        assert {broker.queue(each).enqueued for each in names} == {1 + MESSAGES}
