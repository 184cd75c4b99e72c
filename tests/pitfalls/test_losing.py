"""Faults that AMQP clients share: lost messages, hanging ends, silence, secrets, by the number of the fault."""

from __future__ import annotations

import anyio
import pytest

from amqp10.broker import Broker
from amqp10.client import Connection
from amqp10.errors import AmqpError, AuthenticationFailed, ConnectionLost, LinkDetached, MessageReleased
from amqp10.messaging import ACCEPTED, RELEASED, Error, Message
from amqp10.sasl import Plain, ScramSha256
from amqp10.testing import (
    Close,
    Detach,
    Disposition,
    End,
    Flow,
    Transfer,
)
from amqp10.types import Int, Symbol, UInt

from ..kit.client.memory_peer import MemoryPeer

pytestmark = pytest.mark.anyio


async def test_08_prefetched_messages_stay_locked(amqp_broker: Broker) -> None:
    """What a receiver had prefetched and nobody took is back for the next one at once, none of it counted as failed."""
    async with Connection(amqp_broker.url) as connection:
        async with connection.sender("q") as sender:
            await sender.send_many(range(50))
        async with connection.receiver("q", credit=50) as receiver:
            (await receiver.receive()).accept()
        async with connection.receiver("q", credit=50) as receiver:
            for number in range(1, 50):
                delivery = await receiver.receive()
                assert delivery.message.body == number
                assert not delivery.message.delivery_count
                delivery.accept()
    assert amqp_broker.queue("q").depth == 0


async def test_09_a_timeout_swallows_a_delivery(amqp_broker: Broker) -> None:
    """However often receiving is given up, every message is handed out."""
    async with Connection(amqp_broker.url) as connection:
        async with connection.receiver("q", credit=5) as receiver, connection.sender("q") as sender:
            taken: list[object] = []

            async def take() -> None:
                while len(taken) < 30:
                    with anyio.move_on_after(0.0005):
                        delivery = await receiver.receive()
                        taken.append(delivery.message.body)
                        delivery.accept()

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(take)
                for number in range(30):
                    await sender.send(number)
            assert taken == list(range(30))


async def test_10_settling_on_a_closed_link_hangs(amqp_broker: Broker) -> None:
    """It fails at once."""
    async with Connection(amqp_broker.url) as connection:
        async with connection.sender("q") as sender:
            await sender.send("x")
        async with connection.receiver("q") as receiver:
            delivery = await receiver.receive()
        with pytest.raises((AmqpError, anyio.ClosedResourceError)):
            delivery.accept()


@pytest.mark.in_memory
async def test_11_released_is_taken_for_sent(memory_peer: MemoryPeer) -> None:
    """An unroutable message, which RabbitMQ releases, is an error of `send` that says so, an outcome of `submit`."""
    async with anyio.create_task_group() as tasks:

        async def serve() -> None:
            await memory_peer.accept_connection()
            await memory_peer.accept_session()
            await memory_peer.accept_link(credit=5)
            for number in range(2):
                await memory_peer.expect(Transfer)
                await memory_peer.send(Disposition(role=True, first=number, settled=True, state=RELEASED))
            await memory_peer.accept_close()

        tasks.start_soon(serve)
        async with Connection(memory_peer.url, profile="rabbitmq") as connection, connection.sender("q") as sender:
            with pytest.raises(MessageReleased) as caught:
                await sender.send("x")
            assert "no queue" in str(caught.value)
            assert await (await sender.submit("x")).outcome() == RELEASED


@pytest.mark.in_memory
async def test_12_closing_hangs_on_a_silent_peer(memory_peer: MemoryPeer) -> None:
    """A peer that answers nothing holds nobody up for longer than the close timeout allows."""
    async with anyio.create_task_group() as tasks:

        async def serve() -> None:
            await memory_peer.accept_connection()
            await memory_peer.accept_session()
            await memory_peer.accept_link(credit=5)
            await memory_peer.accept_link()

        tasks.start_soon(serve)
        async with Connection(memory_peer.url, close_timeout=0.1) as connection:
            async with connection.sender("q"), connection.receiver("q"):
                began = anyio.current_time()
        assert anyio.current_time() - began < 1


@pytest.mark.in_memory
async def test_12_closing_detach_answered_with_closed_false(memory_peer: MemoryPeer) -> None:
    """RabbitMQ's old answer to a closing detach ends the link, within no timeout at all."""
    async with anyio.create_task_group() as tasks:

        async def serve() -> None:
            await memory_peer.accept_connection()
            await memory_peer.accept_session()
            link = await memory_peer.accept_link(credit=5)
            await memory_peer.expect(Detach, closed=True)
            await memory_peer.send(Detach(handle=link.handle, closed=False))
            await memory_peer.expect(End)
            await memory_peer.send(End())
            await memory_peer.expect(Close)
            await memory_peer.send(Close())

        tasks.start_soon(serve)
        with anyio.fail_after(60):
            async with Connection(memory_peer.url, close_timeout=60) as connection, connection.sender("q"):
                pass


@pytest.mark.in_memory
async def test_16_heartbeats_need_user_calls(memory_peer: MemoryPeer) -> None:
    """A client that does nothing at all keeps its connection alive, on time for the peer's 3 s."""
    async with anyio.create_task_group() as tasks:
        done = anyio.Event()

        async def serve() -> None:
            await memory_peer.accept_connection(idle_time_out=3000)
            for _ in range(2):
                began = anyio.current_time()
                await memory_peer.expect_empty()
                assert anyio.current_time() - began < 3
            done.set()
            await memory_peer.accept_close()

        tasks.start_soon(serve)
        async with Connection(memory_peer.url):
            await done.wait()


@pytest.mark.in_memory
async def test_17_an_idle_link_that_is_detached_takes_others_with_it(memory_peer: MemoryPeer) -> None:
    """The link that the peer detaches says why; its neighbor on the same session goes on."""
    attached, detached = anyio.Event(), anyio.Event()
    async with anyio.create_task_group() as tasks:

        async def serve() -> None:
            await memory_peer.accept_connection()
            await memory_peer.accept_session()
            await memory_peer.accept_link(credit=5)
            idle = await memory_peer.accept_link(credit=5)
            await attached.wait()  # read together with the attach, the detach would be a refusal
            error = Error("amqp:link:detach-forced", "idle for 10 minutes")
            await memory_peer.send(Detach(handle=idle.handle, closed=True, error=error))
            await memory_peer.expect(Detach, closed=True)
            detached.set()
            await memory_peer.expect(Transfer)
            await memory_peer.send(Disposition(role=True, first=0, settled=True, state=ACCEPTED))
            await memory_peer.accept_close()

        tasks.start_soon(serve)
        async with Connection(memory_peer.url) as connection, connection.sender("busy") as busy:
            async with connection.sender("idle") as idle:
                attached.set()
                await detached.wait()
                with pytest.raises(LinkDetached, match="idle for 10 minutes"):
                    await idle.send("x")
            await busy.send("y")


@pytest.mark.in_memory
async def test_18_the_connection_dies_in_silence(memory_peer: MemoryPeer) -> None:
    """Pulled from under a client that sends, one that waits for an outcome and one that receives, all are told why."""
    causes: list[object] = []
    async with anyio.create_task_group() as tasks:

        async def serve() -> None:
            await memory_peer.accept_connection()
            await memory_peer.accept_session()
            await memory_peer.accept_link(credit=1)
            await memory_peer.accept_link()
            await memory_peer.expect_any(Transfer, skip=Flow)
            await memory_peer.drop()

        tasks.start_soon(serve)
        async with Connection(memory_peer.url) as connection:
            sender = await connection.sender("q").__aenter__()
            receiver = await connection.receiver("q").__aenter__()

            async def wait(call: object) -> None:
                with pytest.raises(ConnectionLost) as failure:
                    await call()  # type: ignore[operator]
                causes.append(type(failure.value))

            async with anyio.create_task_group() as waiters:
                waiters.start_soon(wait, receiver.receive)
                waiters.start_soon(wait, lambda: sender.send("gets the credit"))
                waiters.start_soon(wait, lambda: sender.send("waits for credit"))
            await wait(receiver.receive)
    assert causes == [ConnectionLost] * 4


@pytest.mark.in_memory
async def test_18_a_peer_that_falls_silent_is_lost(memory_peer: MemoryPeer) -> None:
    """Nothing for the idle timeout is the end, told to who waits."""
    async with anyio.create_task_group() as tasks:

        async def serve() -> None:
            await memory_peer.accept_connection()
            await memory_peer.accept_session()
            await memory_peer.accept_link()

        tasks.start_soon(serve)
        connection = Connection(memory_peer.url, idle_timeout=0.2, close_timeout=0.1)
        async with connection, connection.receiver("q") as receiver:
            with pytest.raises(ConnectionLost, match="silent"):
                await receiver.receive()


@pytest.mark.in_memory
async def test_20_sending_hangs_until_the_peer_is_back(memory_peer: MemoryPeer) -> None:
    """Every send that waits as the connection dies raises at once, and so does every later one; nothing is queued."""
    async with anyio.create_task_group() as tasks:

        async def serve() -> None:
            await memory_peer.accept_connection()
            await memory_peer.accept_session()
            await memory_peer.accept_link(credit=1)
            await memory_peer.expect(Transfer)
            await memory_peer.drop()

        async def send(number: int) -> None:
            with pytest.raises(ConnectionLost):
                await sender.send(number)
            raised.append(number)

        tasks.start_soon(serve)
        raised: list[int] = []
        async with Connection(memory_peer.url, close_timeout=0.1) as connection, connection.sender("q") as sender:
            with anyio.fail_after(60):
                async with anyio.create_task_group() as senders:
                    for number in range(20):
                        senders.start_soon(send, number)
                await send(20)
                with pytest.raises(ConnectionLost):
                    async with connection.sender("another"):
                        pass
            assert sorted(raised) == list(range(21))
            assert sender.unsettled <= 1


@pytest.mark.in_memory
async def test_25_a_null_terminus_is_taken_for_a_link(memory_peer: MemoryPeer) -> None:
    """The reason is in the detach that follows, and is what entering the link raises."""
    async with anyio.create_task_group() as tasks:

        async def serve() -> None:
            await memory_peer.accept_connection()
            await memory_peer.accept_session()
            link = await memory_peer.accept_link(target=None)
            error = Error("amqp:not-found", "no such queue")
            await memory_peer.send(Detach(handle=link.handle, closed=True, error=error))
            await memory_peer.expect(Detach, closed=True)
            await memory_peer.accept_close()

        tasks.start_soon(serve)
        async with Connection(memory_peer.url) as connection:
            with pytest.raises(LinkDetached) as failure:
                async with connection.sender("nowhere"):
                    pass
            assert (failure.value.condition, failure.value.description) == ("amqp:not-found", "no such queue")


async def test_26_types_get_lost(amqp_broker: Broker) -> None:
    """Numbers, symbols and bytes as keys come out of a broker as they went in."""
    body = {b"bytes": 1, UInt(2): Int(3), Symbol("symbol"): "string", "list": [Int(1), 1, UInt(1), True, 1.5]}
    properties = {"int": Int(1), "long": 1, "uint": UInt(1), "double": 1.0}
    async with Connection(amqp_broker.url) as connection:
        async with connection.sender("q") as sender, connection.receiver("q") as receiver:
            await sender.send(Message(body, application_properties=properties))
            delivery = await receiver.receive()
            got = delivery.message
            delivery.accept()
    assert got.body == body
    assert [type(key) for key in got.body] == [type(key) for key in body]
    assert [type(value) for value in got.body["list"]] == [Int, int, UInt, bool, float]
    back = got.application_properties or {}
    assert {name: type(value) for name, value in back.items()} == {
        name: type(value) for name, value in properties.items()
    }


@pytest.mark.parametrize(
    ("offered", "chosen"),
    [(("PLAIN", "SCRAM-SHA-256"), "SCRAM-SHA-256"), (("PLAIN", "ANONYMOUS"), "PLAIN"), (("X", "PLAIN"), "PLAIN")],
)
@pytest.mark.in_memory
async def test_28_the_mechanism_is_not_one_that_was_offered(
    memory_peer: MemoryPeer, offered: tuple[str, ...], chosen: str
) -> None:
    """The client picks the strongest that is offered and fits its credentials; never ANONYMOUS when it has some."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(lambda: memory_peer.accept_connection(mechanisms=offered, outcome=1))
        with pytest.raises(AuthenticationFailed):
            async with Connection(f"amqp://user:password@127.0.0.1:{memory_peer.port}"):
                pass
    assert f"SaslInit(mechanism=Symbol('{chosen}')" in memory_peer.trace()


@pytest.mark.in_memory
async def test_31_secrets_in_texts(memory_peer: MemoryPeer) -> None:
    """Neither the objects that hold a password nor the errors that it leads to show it."""
    url = f"amqp://user:hunter2@127.0.0.1:{memory_peer.port}"
    shown = [repr(Connection(url)), repr(Plain("user", "hunter2")), repr(ScramSha256("user", "hunter2"))]
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(lambda: memory_peer.accept_connection(mechanisms=("PLAIN",), outcome=1))
        with pytest.raises(AmqpError) as failure:
            async with Connection(url):
                pass
        shown += [repr(failure.value), str(failure.value), repr(failure.value.args)]
    assert not [text for text in shown if "hunter2" in text]
