from __future__ import annotations

import subprocess
import sys
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from trio.testing import MockClock

from amqp10.broker import Broker
from amqp10.client import Connection
from amqp10.errors import ConnectionClosed, LocalProtocolError, StoreError
from amqp10.messaging import Message

from ..kit.broker.raw_clients import broker_consumers, read_all, read_all_until, receiver_of

pytestmark = pytest.mark.anyio


HEADER = b"AMQP\x00\x01\x00\x00"


class TestLeaving:
    async def test_clients_are_told(self) -> None:
        """Leaving closes the connections in order, with the reason."""
        told: list[str | None] = []
        attached = anyio.Event()

        async def wait_for_news(url: str) -> None:
            async with Connection(url) as connection, connection.receiver("q") as receiver:
                attached.set()
                try:
                    await receiver.receive()
                except ConnectionClosed as closed:
                    told.append(closed.condition)

        async with anyio.create_task_group() as tasks:
            async with Broker() as broker:
                tasks.start_soon(wait_for_news, broker.url)
                await attached.wait()
        assert told == ["amqp:connection:forced"]

    async def test_exception_leaves_as_itself(self) -> None:
        """What is raised inside comes out as it is, in no group."""
        with pytest.raises(ZeroDivisionError):
            async with Broker() as broker, Connection(broker.url):
                _ = 1 / 0

    async def test_cancelled(self) -> None:
        """A cancelled block ends the broker and the cancellation goes on to its scope."""
        with anyio.CancelScope() as scope:
            async with Broker() as broker, Connection(broker.url):
                scope.cancel()
                await anyio.sleep_forever()
        assert scope.cancelled_caught

    async def test_cancelled_closes_in_order(self) -> None:
        """Cancelling the block still tells the peers why they lose the broker."""
        told: list[str | None] = []
        attached = anyio.Event()

        async def wait_for_news(broker: Broker) -> None:
            async with broker.connect() as connection, connection.receiver("q") as receiver:
                attached.set()
                with pytest.raises(ConnectionClosed) as closed:
                    await receiver.receive()
                told.append(closed.value.condition)

        async with anyio.create_task_group() as tasks:
            with anyio.CancelScope() as scope:
                async with Broker(host=None) as broker:
                    tasks.start_soon(wait_for_news, broker)
                    await attached.wait()
                    scope.cancel()
                    await anyio.sleep_forever()
        assert told == ["amqp:connection:forced"]

    async def test_port_in_use(self) -> None:
        """A port that is taken is an error of the system, as itself."""
        async with Broker() as broker:
            port = int(broker.url.rsplit(":", 1)[1])
            with pytest.raises(OSError, match="in use"):
                async with Broker(port=port):
                    pass

    async def test_once(self) -> None:
        """A broker is opened once."""
        broker = Broker()
        async with broker:
            pass
        with pytest.raises(RuntimeError):
            async with broker:
                pass


class TestTime:
    """All in memory and on trio's mock clock, which jumps when nothing else is left to do."""

    @pytest.fixture
    def anyio_backend(self) -> tuple[str, dict[str, Any]]:
        return "trio", {"clock": MockClock(autojump_threshold=0)}

    async def test_messages_expire_with_nobody_there(self) -> None:
        """Messages die on time with no consumer, each in its turn."""
        async with Broker(host=None) as broker, broker.connect() as connection:
            async with connection.sender("q") as sender:
                for seconds in (30, 10, 1000):
                    await sender.send(Message("x", ttl=timedelta(seconds=seconds)))
                await sender.send("y")
            await anyio.sleep(11)
            assert (broker.queue("q").depth, broker.queue("q").expired) == (3, 1)
            await anyio.sleep(20)
            assert (broker.queue("q").depth, broker.queue("q").expired) == (2, 2)

    @pytest.mark.parametrize("start", [b"", b"AMQP", HEADER, b"AMQP\x03\x01\x00\x00"])
    async def test_silent_peer_is_dropped(self, start: bytes) -> None:
        """A peer that never completes its handshake is hung up on at the deadline."""
        async with Broker(host=None, handshake_timeout=10) as broker, broker.open_stream() as stream:
            began = anyio.current_time()
            if start:
                await stream.send(start)
            await read_all(stream)
            assert anyio.current_time() - began == pytest.approx(10, abs=0.1)

    async def test_deadline_ends_with_the_handshake(self) -> None:
        """Who has opened in time stays for as long as it likes."""
        async with Broker(host=None, handshake_timeout=10) as broker, broker.connect() as connection:
            await anyio.sleep(3600)
            async with connection.sender("q") as sender:
                await sender.send("x")
            assert broker.queue("q").depth == 1

    @pytest.mark.spec("2.4.5", "a peer that is silent beyond the idle timeout is given up")
    async def test_idle_peer_is_dropped(self) -> None:
        """Silence ends a connection, and what it held comes back."""
        async with (
            Broker(host=None, idle_timeout=30) as broker,
            broker.connect() as connection,
            connection.sender("q") as sender,
            broker.open_stream() as stream,
        ):
            await sender.send("x")
            await stream.send(receiver_of("q", 1))
            await read_all_until(stream, lambda: broker.queue("q").unsettled == 1)
            await read_all(stream)
            assert (broker.queue("q").unsettled, broker.queue("q").depth) == (0, 1)
            assert broker.connections == 1

    async def test_leaving_is_bounded(self) -> None:
        """A peer that does not answer the close does not keep the broker."""
        async with AsyncExitStack() as stack:
            broker = await stack.enter_async_context(Broker(host=None, close_timeout=2, idle_timeout=None))
            stream = broker.open_stream()
            await stream.send(receiver_of("q", 1))
            await read_all_until(stream, lambda: broker_consumers(broker, "q") == 1)
            left = anyio.current_time()
            await stack.aclose()
            assert 1.9 <= anyio.current_time() - left <= 2.5
        await stream.aclose()


@pytest.mark.slow
def test_dialects_are_loaded_before_anybody_comes() -> None:
    """Not in the time that the first peer has for its handshake."""
    program = (
        "import sys; from amqp10.broker import Broker; Broker();"
        "loaded = {name.split('.')[2] for name in sys.modules if name.startswith('amqp10.dialects.')} - {'_kit'};"
        "print(*sorted(loaded))"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["fast", "v0_10", "v0_9", "v1_0"]


async def test_closed_by_another_task(tmp_path: Path) -> None:
    """The error says whose it is to close a broker; its connections are cut, and its store can be opened again."""
    caught: list[Exception] = []
    path = tmp_path / "store"

    async def close(broker: Broker) -> None:
        try:
            await broker.__aexit__(None, None, None)
        except LocalProtocolError as error:
            caught.append(error)

    async with Broker(store=path) as broker:
        async with Connection(broker.url) as connection, connection.sender("q") as sender:
            await sender.send(Message("x", durable=True))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(close, broker)
        assert "a broker must be closed by the task that opened it" in str(caught[0])
        with pytest.raises(RuntimeError, match="inside `async with`"):
            broker.connect()
        with anyio.fail_after(60):
            while True:
                try:
                    async with Broker(store=path) as other:
                        assert other.queue("q").depth == 1
                    break
                except StoreError:
                    await anyio.sleep(0.01)
