from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from anyio.abc import ByteStream, Listener, TaskGroup

from amqp10.broker import Broker
from amqp10.client import Connection
from amqp10.client.internals import receiver_delivery
from amqp10.engine import dialects
from amqp10.messaging import Message
from amqp10.net import listen_tcp

from ...kit.broker.raw_clients import broker_consumers, dial, raw_receiver, read_all, receiver_of
from ...kit.inside.broker import connections, listeners
from ...kit.inside.net import listening
from ...kit.parents import engine_of

pytestmark = pytest.mark.anyio


HEADER = b"AMQP\x00\x01\x00\x00"


class TestBadPeers:
    @pytest.mark.parametrize(
        ("garbage", "answer"),
        [
            (b"GET / HTTP/1.1\r\n\r\n", b"AMQP"),
            (b"AMQP\x00\x00\x09\x02", b"AMQP\x00\x00\x09\x01"),
            (b"AMQP\x00\x02\x00\x00", b"AMQP\x03\x01\x00\x00"),
            (HEADER + b"\x00\x00\x00\x04\x02\x00\x00\x00", HEADER),
            (HEADER + b"\xff\xff\xff\xff\x02\x00\x00\x00", HEADER),
        ],
    )
    async def test_garbage(self, garbage: bytes, answer: bytes) -> None:
        """What is no AMQP gets the header that would be, and the end of the connection."""
        async with Broker() as broker, await dial(broker) as stream:
            await stream.send(garbage)
            assert (await read_all(stream)).startswith(answer)

    @pytest.mark.slow
    @pytest.mark.timeout(900)
    async def test_garbage_on_a_thousand_connections(self, caplog: pytest.LogCaptureFixture) -> None:
        """However many peers send rubbish in all dialects, the next client is served, and nothing of them is left."""
        dice = random.Random(7)
        starts = [b"", *(header for one in dialects() for header in one.headers)]
        async with Broker(handshake_timeout=5.0) as broker:
            limit = anyio.Semaphore(50)

            async def pester(number: int) -> None:
                async with limit:
                    start = starts[number % len(starts)]
                    try:
                        async with await dial(broker) as stream:
                            await stream.send(start + dice.randbytes(dice.randrange(1, 2000)))
                            if number % 2:
                                await stream.send_eof()
                                await read_all(stream)
                    except (OSError, anyio.BrokenResourceError):
                        pass

            async with anyio.create_task_group() as tasks:
                for number in range(1000):
                    tasks.start_soon(pester, number)
            async with Connection(broker.url) as connection, connection.sender("q") as sender:
                await sender.send("served")
            assert broker.queue("q").depth == 1
        assert not [record for record in caplog.records if record.levelname == "ERROR"]

    async def test_asks_and_does_not_read(
        self, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        """A peer that makes the broker answer for ever without reading the answers is cut off."""
        monkeypatch.setattr(connections, "MAX_OUTPUT", 100_000)
        async with Broker(host=None, max_message_size=1000) as broker:
            async with broker.open_stream() as stream:
                link = raw_receiver("q")
                await stream.send(engine_of(link).data_to_send())
                link.flow(1, echo=True)
                question = engine_of(link).data_to_send()
                with pytest.raises(anyio.BrokenResourceError):
                    while True:
                        await stream.send(question * 1000)
            assert "does not read" in caplog.text
            async with broker.connect():
                assert broker.connections == 1

    async def test_accepting_fails(self, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
        """Out of file descriptors, say: the broker says so and goes on."""
        failures = 2

        class Failing(Listener[ByteStream]):
            def __init__(self, listener: Listener[ByteStream]) -> None:
                self.listener = listener

            async def serve(self, handler: Callable[[ByteStream], Any], task_group: TaskGroup | None = None) -> None:
                nonlocal failures
                if failures:
                    failures -= 1
                    raise OSError(24, "too many open files")
                await self.listener.serve(handler, task_group)

            async def aclose(self) -> None:
                await self.listener.aclose()

        async def listen(host: str, port: int, *, secure: bool) -> tuple[Listener[ByteStream], str]:
            listener, url = await listen_tcp(host, port, secure=secure)
            return Failing(listener), url

        monkeypatch.setattr(listeners, "listen_tcp", listen)
        monkeypatch.setattr(listening, "ACCEPT_PAUSE", 0)
        async with Broker() as broker, Connection(broker.url):
            assert broker.connections == 1
        assert caplog.text.count("too many open files") == 1  # and not again while it goes on failing

    async def test_slow_reader_stalls_nobody(self) -> None:
        """A receiver with endless credit that reads nothing gets a bounded part; others get the rest."""
        async with (
            Broker() as broker,
            Connection(broker.url) as connection,
            connection.sender("q") as sender,
            await dial(broker) as stream,
        ):
            await stream.send(receiver_of("q", 1_000_000))
            while broker_consumers(broker, "q") < 1:
                await anyio.lowlevel.checkpoint()
            count = 400
            for _ in range(count):
                await sender.submit(Message(bytes(100_000)))
            async with connection.receiver("q") as receiver:
                delivery = await receiver.receive()
                delivery.accept()
            held = broker.queue("q").unsettled
            assert held < count // 2


async def test_a_consumer_that_leaves_in_the_middle_of_a_message() -> None:
    """What was half sent is in the queue again, whether the consumer's window was open or not."""
    async with Broker(anonymous=True) as broker, Connection(broker.url) as connection:
        async with connection.sender("q") as sender:
            await sender.send(bytes(20 << 20))
        for _ in range(2):
            async with connection.receiver("q", stream=True) as receiver:
                delivery = await receiver.receive()
                assert not receiver_delivery(delivery).stream.whole
            assert broker.queue("q").unsettled == 0
        async with connection.receiver("q") as receiver:
            with await receiver.receive() as message:
                assert message.delivery_count == 2
