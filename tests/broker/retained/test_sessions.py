"""Sessions of AMQP 0-10 that outlive their connections, at client and broker: nothing lost, nothing done twice."""

from __future__ import annotations

import gc
from typing import Any

import anyio
import pytest

from amqp10 import Connection, ConnectionLost, ConnectionRestored, Message, Reconnect
from amqp10.broker import Broker
from amqp10.dialects.v0_10.wire.commands import (
    DeliveryProperties,
    ExecutionException,
    ExecutionResult,
    MessageAccept,
    MessageFlow,
    MessageSubscribe,
    MessageTransfer,
    QueueDeclare,
    QueueQuery,
    TxCommit,
    TxRollback,
    TxSelect,
)
from amqp10.dialects.v0_10.wire.controls import (
    ConnectionClose,
    SessionAttach,
    SessionAttached,
    SessionCommandPoint,
    SessionDetach,
    SessionDetached,
    SessionExpected,
    SessionFlush,
    SessionRequestTimeout,
)
from amqp10.testing import FaultProxy

from ...kit.broker.served import Served
from ...kit.broker.wire import queue_of
from ...kit.clock import Clock
from ...kit.dialects.v0_10.raw_peer import Raw
from ...kit.inside.broker import PeerConnection, QueueDeclaration, VirtualHostCore

pytestmark = pytest.mark.anyio

AT_ONCE = Reconnect(initial_delay=0.005, max_delay=0.05)


@pytest.mark.slow
async def test_exactly_once() -> None:
    """Through thirty breaks: each message is received once, in order, none is redelivered, and the queue is empty."""
    count, breaks = 1000, 30
    async with Broker() as broker, FaultProxy(broker.url) as proxy:
        with anyio.fail_after(60):
            async with Connection(proxy.url, dialect="0-10", reconnect=AT_ONCE) as connection:
                async with connection.receiver("orders", credit=50) as receiver, connection.sender("orders") as sender:
                    async with anyio.create_task_group() as tasks:
                        tasks.start_soon(sender.send_many, [Message(n) for n in range(count)])
                        for n in range(count):
                            if n % (count // breaks) == 7:
                                proxy.cut()
                            delivery = await receiver.receive()
                            assert delivery.message.body == n
                            assert delivery.message.delivery_count == 0
                            delivery.accept()
            assert broker.queue("orders").depth == 0


@pytest.mark.in_memory
async def test_what_many_losses_leave() -> None:
    """However often the connection of two sessions breaks, the broker keeps nothing of connections that are over."""
    async with Broker() as broker, FaultProxy(broker.url) as proxy:
        with anyio.fail_after(60):
            async with (
                Connection(proxy.url, dialect="0-10", reconnect=AT_ONCE) as connection,
                connection.session() as other,
            ):
                async with connection.sender("q") as sender, other.sender("r") as another:
                    for _ in range(30):  # twice as much for each was once 2**30
                        proxy.cut()
                        await sender.send("q")
                        await another.send("r")
                    assert broker.queue("q").depth == broker.queue("r").depth == 30
                    gc.collect()
                    peers = [each for each in gc.get_objects() if isinstance(each, PeerConnection)]
                    assert 1 <= sum(each.vhost is broker._hosts.usual for each in peers) <= 3


async def test_what_is_held_stays() -> None:
    """A delivery that was received before the break is accepted after it; nobody else had the message."""
    async with Broker() as broker, FaultProxy(broker.url) as proxy:
        with anyio.fail_after(60):
            async with Connection(proxy.url, dialect="0-10", reconnect=AT_ONCE) as connection:
                async with connection.receiver("q") as receiver, connection.sender("q") as sender:
                    await sender.send("held")
                    delivery = await receiver.receive()
                    proxy.cut()
                    await sender.send("after the break")
                    delivery.accept()
                    (await receiver.receive()).accept()
            assert broker.queue("q").depth == 0


async def test_exclusive_queue() -> None:
    """A queue that is the session's alone lives on with it, as does a dynamic one."""
    async with Broker() as broker, FaultProxy(broker.url) as proxy:
        with anyio.fail_after(60):
            async with Connection(proxy.url, dialect="0-10", reconnect=AT_ONCE) as connection:
                async with connection.receiver(dynamic=True) as receiver, connection.sender(None) as sender:
                    address = receiver.address
                    for n in range(5):
                        await sender.send(Message(n, to=address))
                        proxy.cut()
                        with await receiver.receive() as message:
                            assert message.body == n
                    assert receiver.address == address
                async with connection.receiver(dynamic=True) as another:
                    assert another.address != address


async def test_transaction() -> None:
    """A transaction that is open when the connection breaks is committed on the next one, once."""
    async with Broker() as broker, FaultProxy(broker.url) as proxy:
        with anyio.fail_after(60):
            async with Connection(proxy.url, dialect="0-10", reconnect=AT_ONCE) as connection:
                async with connection.receiver("q") as receiver, connection.sender("q") as sender:
                    await sender.send("first")
                    delivery = await receiver.receive()
                    async with connection.transaction() as transaction:
                        await sender.send("second", transaction=transaction)
                        proxy.cut()
                        delivery.accept(transaction=transaction)
                    with await receiver.receive() as message:
                        assert message.body == "second"
            assert broker.queue("q").depth == 0


async def test_transactions_on_one_connection_after_the_other() -> None:
    """Links and the coordinator attached on different ones: each transaction is open to all of them."""
    async with Broker() as broker, FaultProxy(broker.url) as proxy:
        with anyio.fail_after(60):
            async with Connection(proxy.url, dialect="0-10", reconnect=AT_ONCE) as connection:
                events = connection.events()
                async with connection.receiver("q") as receiver, connection.sender("q") as sender:
                    await sender.send(0)
                    for number in range(1, 5):
                        proxy.cut()
                        while type(await anext(events)) is not ConnectionRestored:
                            pass
                        delivery = await receiver.receive()
                        async with connection.transaction() as transaction:
                            await sender.send(number, transaction=transaction)
                            delivery.accept(transaction=transaction)
                    with await receiver.receive() as message:
                        assert message.body == 4
            assert broker.queue("q").depth == 0


@pytest.mark.slow
async def test_time_is_up() -> None:
    """A client that does not come back: after the time that was agreed its messages are another's."""
    settings = Reconnect(initial_delay=0.01, resume_timeout=1, max_time=0.5)
    async with Broker() as broker, FaultProxy(broker.url) as proxy, Connection(broker.url) as other:
        with anyio.fail_after(60):
            async with other.sender("q") as sender:
                await sender.send("m")
            with pytest.raises(ConnectionLost):
                async with Connection(proxy.url, dialect="0-10", reconnect=settings) as connection:
                    async with connection.receiver("q") as receiver:
                        await receiver.receive()
                        proxy.stall("up", "down")
                        proxy.cut()
                        await receiver.receive()
            async with other.receiver("q") as receiver:
                with await receiver.receive() as message:
                    assert message.body == "m"


@pytest.mark.in_memory
async def test_forgotten() -> None:
    """A broker that does not have the session any more: it is begun again, and what was not confirmed is sent again."""
    async with Broker() as broker, FaultProxy(broker.url) as proxy:
        with anyio.fail_after(60):
            async with Connection(proxy.url, dialect="0-10", reconnect=AT_ONCE) as connection:
                async with connection.sender("q") as sender, connection.receiver("q", credit=1) as receiver:
                    await sender.send("before")
                    with await receiver.receive() as message:
                        assert message.body == "before"
                    broker._hosts.usual.sessions._by_key.clear()
                    proxy.cut()
                    await sender.send("after")
                    with await receiver.receive() as message:
                        assert message.body == "after"


class Program(Raw):
    """A connection to a broker, with a session of the name b"name" if it was let in."""

    def __init__(self, vhost: VirtualHostCore, *, force: bool = False, timeout: int = 0) -> None:
        self._served = Served("0-10", vhost)
        super().__init__(self._served.engine)
        self._served.settle_down()
        self.open_as_client(session=False)
        self._served.settle_down()
        self.answers = self.say(SessionAttach(b"name", force))
        self.say(SessionRequestTimeout(timeout))
        self.say(SessionCommandPoint(0, 0))

    def put(self, data: bytes) -> list[Any]:
        self.engine.receive_data(data)
        if self.engine.opened:
            self._served.settle_down()
        return self.listen()

    def lose(self) -> None:
        """Its transport ends."""
        self.engine.receive_eof()
        self._served.settle_down()

    def lives(self) -> bool:
        """Its session is at work."""
        return any(isinstance(each, ExecutionResult) for each in self.do(QueueQuery("q")))


@pytest.mark.parametrize("timeout", [0, 60])
def test_a_name_in_use(timeout: int, vhost: VirtualHostCore) -> None:
    """A session that is at work is not taken from its program, but by force (0-10 §9, session.attach).

    Its program is told, and keeps the connection.
    """
    first = Program(vhost, timeout=timeout)
    second = Program(vhost)
    assert second.answers == [SessionDetached(b"name", 1)]
    assert first.lives()
    third = Program(vhost, force=True)
    assert third.answers[0] == SessionAttached(b"name")
    assert first.listen() == [SessionDetached(b"name", 1)]
    assert not first.lives()
    assert first.engine.opened
    assert (Program(vhost).answers, third.lives()) == ([SessionDetached(b"name", 1)], timeout == 0)
    third.say(SessionDetach(b"name"))
    assert Program(vhost).answers[0] == SessionAttached(b"name")


@pytest.mark.parametrize("timeout", [0, 60])
def test_force_on_the_same_connection(timeout: int, vhost: VirtualHostCore) -> None:
    """The session goes on on the other channel if it can be resumed, else another begins; the connection lives."""
    program = Program(vhost, timeout=timeout)
    program.do(QueueDeclare("mine", auto_delete=True))
    program.do(MessageSubscribe("mine", "d", accept_mode=1))
    answers = program.say(SessionAttach(b"name", force=True), 2)
    assert answers[:2] == [SessionDetached(b"name", 1), SessionAttached(b"name")]
    program.say(SessionCommandPoint(0 if timeout == 0 else 2, 0), 2)
    if timeout:
        program.say(SessionExpected(((0, 0),)), 2)
    assert ("mine" in vhost.nodes) is (timeout > 0)
    assert any(isinstance(each, ExecutionResult) for each in program.do(QueueQuery("mine"), channel=2))
    assert program.do(QueueQuery("mine")) == [SessionDetached(b"", 3)]
    assert program.engine.opened
    assert not program.say(SessionDetach(b"name"), 2)[1:]
    assert Program(vhost).answers[0] == SessionAttached(b"name")


@pytest.mark.parametrize("timeout", [0, 60])
def test_force_takes_one_session(timeout: int, vhost: VirtualHostCore) -> None:
    """Other sessions of the connection go on; what is the session's goes with it, or ends if it is not resumed."""
    first = Program(vhost, timeout=timeout)
    first.say(SessionAttach(b"other"), 2)
    first.say(SessionCommandPoint(0, 0), 2)
    for channel, queue in ((1, "mine"), (2, "others")):
        first.do(QueueDeclare(queue, exclusive=True, auto_delete=True), channel=channel)
        first.do(MessageSubscribe(queue, "d"), channel=channel)
        first.do(MessageFlow("d", 0, 10), channel=channel)
        first.do(MessageFlow("d", 1, 0xFFFF_FFFF), channel=channel)
    third = Program(vhost, force=True)
    first.put(b"")
    third.say(SessionCommandPoint(4 if timeout else 0, 0))
    third.say(SessionExpected(((0, 0),)))
    assert ("mine" in vhost.nodes) is (timeout > 0)

    def transfers(program: Program, queue: str, channel: int) -> int:
        said = program.do(
            MessageTransfer("", 0, 0), DeliveryProperties(routing_key=queue).encode_struct32(), b"m", channel=channel
        )
        return sum(isinstance(each, MessageTransfer) for each in said)

    assert transfers(first, "others", 2) == 1
    assert transfers(third, "mine", 1) == (timeout > 0)
    third.say(SessionAttach(b"another"), 3)
    third.say(SessionCommandPoint(0, 0), 3)
    refused = third.do(QueueDeclare("others", exclusive=True, auto_delete=True), channel=3)
    assert [each.error_code for each in refused if isinstance(each, ExecutionException)] == [405]
    first.lose()
    assert "others" not in vhost.nodes
    assert ("mine" in vhost.nodes) is (timeout > 0)


@pytest.mark.parametrize("end", [TxCommit(), TxRollback()])
def test_force_takes_the_transactions_of_the_session(end: Any, vhost: VirtualHostCore) -> None:
    """What was done in them before counts, on the other connection."""
    queue = vhost.declare_queue("q", QueueDeclaration())
    first = Program(vhost, timeout=60)
    first.do(TxSelect())
    first.do(MessageTransfer("", 0, 0), DeliveryProperties(routing_key="q").encode_struct32(), b"m")
    third = Program(vhost, force=True)
    third.say(SessionCommandPoint(2, 0))
    third.say(SessionExpected(((0, 0),)))
    assert queue.depth == 0
    third.do(end)
    assert queue.depth == isinstance(end, TxCommit)
    first.lose()
    assert third.lives()


def test_a_name_is_free_after_a_loss(vhost: VirtualHostCore) -> None:
    """What ends with its connection leaves nothing behind."""
    first = Program(vhost)
    first.lose()
    assert Program(vhost).lives()


@pytest.mark.parametrize("elsewhere", [False, True])
def test_detached_and_resumed(elsewhere: bool, vhost: VirtualHostCore) -> None:
    """A session with a timeout outlives session.detach, with its queue, its subscription and what it holds."""
    first = Program(vhost, timeout=60)
    first.do(QueueDeclare("mine", exclusive=True, auto_delete=True))
    first.do(MessageSubscribe("mine", "d"))
    first.do(MessageFlow("d", 0, 10))
    first.do(MessageFlow("d", 1, 0xFFFF_FFFF))
    routed = DeliveryProperties(routing_key="mine").encode_struct32()
    assert any(isinstance(each, MessageTransfer) for each in first.do(MessageTransfer("", 0, 0), routed, b"m"))
    assert first.say(SessionDetach(b"name")) == [SessionDetached(b"name", 0)]
    assert first.do(QueueQuery("mine")) == [SessionDetached(b"", 3)]
    if elsewhere:
        second = Program(vhost)
        said = second.answers
    else:
        second, said = first, first.say(SessionAttach(b"name"))
    assert said == [SessionAttached(b"name"), SessionFlush(expected=True)]
    second.say(SessionCommandPoint(5, 0))
    second.say(SessionExpected(((0, 0),)))
    second.do(MessageAccept(((0, 0),)))
    assert queue_of(vhost, "mine").depth == 0
    assert second.lives()


@pytest.mark.parametrize("closes", [False, True])
def test_detached_and_not_resumed(closes: bool, vhost: VirtualHostCore, clock: Clock) -> None:
    """When its time is up, what it has is given up, and other sessions of its connection go on."""
    first = Program(vhost, timeout=60)
    first.do(QueueDeclare("mine", exclusive=True, auto_delete=True))
    first.do(MessageSubscribe("mine", "d"))
    first.say(SessionDetach(b"name"))
    if closes:
        first.say(ConnectionClose(200), 0)
    assert vhost.sessions.expire(clock()) == clock() + 60
    assert "mine" in vhost.nodes
    clock.now += 60
    assert vhost.sessions.expire(clock()) is None
    assert "mine" not in vhost.nodes
    if closes:
        first = Program(vhost)
    else:
        assert first.say(SessionAttach(b"name")) == [SessionAttached(b"name")]
        first.say(SessionCommandPoint(0, 0))
    assert first.lives()
