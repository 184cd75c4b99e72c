"""What is declared on a connection comes back with it; what can not come back is not waited for."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace

import anyio
import pytest

from amqp10 import (
    Connection,
    ConnectionInterrupted,
    ConnectionRestored,
    DeclarationRefused,
    LinkDetached,
    LinkInterrupted,
    Message,
    MessageReleased,
    RequestRefused,
)
from amqp10.broker import Broker
from amqp10.net import StreamFacts

from ...kit.client.declaring import ALONE, SENT, connected, cut, gone_with_its_last_consumer, the_same_queue_again
from ...kit.client.peer import Valve
from ...kit.inside.client import supervisor

pytestmark = pytest.mark.anyio

DIALECTS = ["0-9-1", "0-9", "0-9-draft", "0-10"]


@pytest.fixture(params=DIALECTS)
def dialect(request: pytest.FixtureRequest) -> str:
    """Each dialect that declares, in turn."""
    name: str = request.param
    return name


@asynccontextmanager
async def strict() -> AsyncIterator[Broker]:
    """A broker that makes no queue for who looks for it."""
    async with Broker(auto_create=False) as broker:
        yield broker


async def test_the_same_queue_again(dialect: str) -> None:
    """An exclusive queue of the server's choice, its exchange and its binding are there again: its receiver goes on."""
    async with strict() as broker:
        assert await the_same_queue_again(broker.url, dialect) == SENT


async def test_a_session_that_is_resumed() -> None:
    """Where the session itself goes on, nothing was lost."""
    async with strict() as broker:
        assert await the_same_queue_again(broker.url, "0-10", replace(ALONE, resume_timeout=30)) == SENT


async def test_gone_with_its_last_consumer(dialect: str) -> None:
    """A deleted queue is forgotten, and so is one that ends with its last consumer."""
    async with strict() as broker:
        there = await gone_with_its_last_consumer(broker.url, dialect)
    assert there == {"deleted": False, "left": False, "in use": True}


async def test_what_was_unbound(dialect: str) -> None:
    """A binding that was undone is not made again, and an exchange that went with its last binding neither."""
    async with strict() as broker, connected(broker.url, dialect) as (proxy, connection):
        native = connection.native
        await native.declare_exchange("e", "direct", auto_delete=True)
        await native.declare_queue("q")
        await native.bind("q", "amq.direct", "kept")
        await native.bind("q", "amq.direct", "undone")
        await native.bind("q", "e", "k")
        await native.unbind("q", "e", "k")
        await native.unbind("q", "amq.direct", "undone")
        async with Connection(broker.url, dialect=dialect) as other:
            await other.native.unbind("q", "amq.direct", "kept")
        await cut(proxy, connection)
        async with connection.sender("/exchanges/amq.direct/kept") as sender:
            await sender.send("routed again")
        async with connection.receiver("q") as receiver:
            assert (await receiver.receive()).message.body == "routed again"
        made = connection._core.recovery
        assert made is not None
        assert [key[:2] for key in made.topology._made] == [("queue", "q"), ("binding", "amq.direct")]


async def test_a_long_chain_that_goes() -> None:
    """A chain of auto-delete exchanges is forgotten with the queue at its end, however long it is."""
    async with strict() as broker, connected(broker.url, "0-9-1") as (_, connection):
        native = connection.native
        await native.declare_queue("q")
        for number in range(500):
            await native.declare_exchange(f"e{number}", "fanout", auto_delete=True)
            if number:
                await native.bind_exchange(f"e{number}", f"e{number - 1}")
        await native.bind("q", "e499")
        await native.delete_queue("q")
        made = connection._core.recovery
        assert made is not None
        assert not made.topology._made


async def test_what_is_refused_is_not_waited_for(dialect: str) -> None:
    """A queue that is another one now is not declared again, and used; when it is gone, nobody waits for it."""
    async with strict() as broker, connected(broker.url, dialect) as (proxy, connection):
        await connection.native.declare_queue("q", auto_delete=True)
        events = connection.events()
        with pytest.raises(LinkDetached, match="not-found") as caught:
            async with Connection(broker.url, dialect=dialect) as other, connection.receiver("q") as receiver:
                while (facts := await connection.native.queue("q")) is None or facts.consumers == 0:  # noqa: ASYNC110
                    await anyio.sleep(0.01)
                proxy.refusing = True
                proxy.cut()
                while await other.native.queue("q") is not None:  # noqa: ASYNC110
                    await anyio.sleep(0.01)
                await other.native.declare_queue("q", durable=True)
                proxy.refusing = False
                async with other.sender("q") as sender:
                    await sender.send("of the other queue")
                (await receiver.receive()).accept()
                await other.native.delete_queue("q")
                await receiver.receive()
        assert any("could not be declared again" in note for note in caught.value.__notes__)
        connection._core.observers.end()
        refused = [event async for event in events if isinstance(event, DeclarationRefused)]
        assert [(event.what, type(event.cause)) for event in refused] == [("queue q", RequestRefused)]


async def test_left_to_who_declares(dialect: str) -> None:
    """With `declare_again=False` nothing is: a link waits until its queue is there, whoever makes it."""
    settings = replace(ALONE, declare_again=False)
    async with strict() as broker, connected(broker.url, dialect, settings) as (proxy, connection):
        await connection.native.declare_queue("q", exclusive=True, auto_delete=True)
        async with connection.receiver("q") as receiver:
            await cut(proxy, connection)
            assert await connection.native.queue("q") is None
            await connection.native.declare_queue("q", exclusive=True, auto_delete=True)
            async with connection.sender("q") as sender:
                await sender.send("x")
            (await receiver.receive()).accept()


async def test_a_link_that_comes_meanwhile(dialect: str) -> None:
    """A link that is asked for while the connection is away finds the queue that was declared before."""
    async with strict() as broker, connected(broker.url, dialect) as (proxy, connection):
        for number in range(50):
            await connection.native.declare_queue(f"q{number}", exclusive=True)
        for _ in range(3):
            proxy.cut()
            while connection.open:
                await anyio.lowlevel.checkpoint()
            async with connection.sender("q49") as sender:
                await sender.send("x")
            async with connection.receiver("q49") as receiver:
                with await receiver.receive() as message:
                    assert message.body == "x"


@pytest.mark.in_memory
class TestSilence:
    """All in memory, and on a clock that jumps when nothing else is left to do."""

    async def test_a_server_that_does_not_answer(self, dialect: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """A repeated declaration without an answer ends with the connection, and the next connection continues."""
        streams: list[Valve] = []
        async with Broker(host=None, auto_create=False) as broker:

            async def connect(*_: object) -> tuple[Valve, StreamFacts]:
                streams.append(Valve(broker.open_stream()))
                return streams[-1], StreamFacts(secure=True)

            monkeypatch.setattr(supervisor, "connect", connect)
            async with Connection("amqp://a", dialect=dialect, reconnect=ALONE) as connection:
                await connection.native.declare_queue("q", exclusive=True, auto_delete=True)
                async with connection.receiver("q") as receiver:
                    events = connection.events()
                    await anyio.aclose_forcefully(streams[0])
                    async for event in events:
                        if isinstance(event, ConnectionRestored):
                            break
                    streams[1].shut = True
                    async for event in events:
                        if isinstance(event, ConnectionInterrupted):
                            break
                    async with connection.sender("q") as sender:
                        await sender.send("x")
                    with await receiver.receive() as message:
                        assert message.body == "x"
            assert len(streams) == 3


async def test_a_queue_that_is_locked_for_a_while(dialect: str) -> None:
    """As long as the server keeps an exclusive queue for the connection that was lost, it is asked again."""
    async with strict() as broker, connected(broker.url, dialect) as (proxy, connection):
        await connection.native.declare_queue("q", exclusive=True, auto_delete=True)
        async with Connection(broker.url, dialect=dialect) as other, connection.receiver("q") as receiver:
            events = connection.events()
            proxy.refusing = True
            proxy.cut()
            locked = True
            while locked:
                with suppress(RequestRefused):
                    await other.native.declare_queue("q", exclusive=True, auto_delete=True)
                    locked = False
            proxy.refusing = False
            async for event in events:
                if isinstance(event, LinkInterrupted):
                    assert isinstance(event.cause, LinkDetached)
                    assert event.cause.condition == "amqp:resource-locked"
                    break
            await other.native.delete_queue("q")
            async with connection.sender(None) as sender:
                while True:
                    try:
                        await sender.send(Message("mine again", to="/queues/q"))
                        break
                    except MessageReleased:
                        await anyio.sleep(0.01)
            (await receiver.receive()).accept()
