from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from anyio.abc import ByteStream, Listener, TaskGroup
from trio.testing import MockClock

from amqp10.broker import Broker
from amqp10.client import Connection
from amqp10.engine import ConnectionTerms, LinkTerms, ReceiverLink, dialect, dialects
from amqp10.errors import AuthenticationFailed, ConnectionClosed, ConnectionLost, LinkDetached, MessageRejected
from amqp10.messaging import Message, Source, Target
from amqp10.net import listen_tcp
from amqp10.testing import Close, ScriptedPeer

pytestmark = pytest.mark.anyio

HEADER = b"AMQP\x00\x01\x00\x00"


async def dial(broker: Broker) -> ByteStream:
    """A plain TCP connection to the broker."""
    host, port = broker.url.removeprefix("amqp://").split(":")
    return await anyio.connect_tcp(host, int(port))


async def read_all(stream: ByteStream) -> bytes:
    """Everything until the broker hangs up."""
    data = b""
    try:
        while True:
            data += await stream.receive()
    except (anyio.EndOfStream, anyio.BrokenResourceError):
        return data


class TestServing:
    async def test_send_and_receive(self) -> None:
        """The broker's first purpose, over TCP."""
        async with Broker() as broker, Connection(broker.url) as connection:
            async with connection.sender("orders") as sender:
                for number in range(10):
                    await sender.send(Message(number))
            assert broker.queue("orders").depth == 10
            async with connection.receiver("orders") as receiver:
                for number in range(10):
                    delivery = await receiver.receive()
                    assert delivery.message.body == number
                    delivery.accept()
            assert broker.url.startswith("amqp://127.0.0.1:")

    async def test_in_memory(self) -> None:
        """Without a port: `connect` gives a client over streams in memory."""
        async with Broker(host=None) as broker:
            assert broker.urls == ()
            async with broker.connect() as connection, broker.connect(container_id="other") as other:
                async with connection.sender("q") as sender, other.receiver("q") as receiver:
                    await sender.send(b"x" * 1_000_000)
                    delivery = await receiver.receive()
                    assert len(delivery.message.body) == 1_000_000
                    delivery.accept()
                assert broker.connections == 2
            with pytest.raises(LookupError):
                _ = broker.url

    async def test_unix_socket(self, tmp_path: Path) -> None:
        """On a Unix socket."""
        path = tmp_path / "broker"
        async with Broker(host=None, path=path) as broker, Connection(broker.url) as connection:
            async with connection.sender("q") as sender:
                await sender.send("x")
            assert broker.queue("q").depth == 1
        assert not path.exists()

    async def test_the_url_of_a_socket_is_whole(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A relative path, with characters that no URL may have, leads there too."""
        monkeypatch.chdir(tmp_path)
        async with Broker(host=None, path="a b#50%?.sock") as broker, Connection(broker.url):
            assert broker.connections == 1
        assert not await anyio.Path("a b#50%?.sock").exists()

    async def test_two_doors(self, tmp_path: Path) -> None:
        """TCP and a Unix socket at once lead to the same queues."""
        async with Broker(path=tmp_path / "broker") as broker:
            assert len(broker.urls) == 2
            for url in broker.urls:
                async with Connection(url) as connection, connection.sender("q") as sender:
                    await sender.send("x")
            assert broker.queue("q").depth == 2

    @pytest.mark.parametrize("size", [1, 300_000, 10 << 20])
    async def test_sizes(self, size: int) -> None:
        """Messages of one byte to ten mebibytes, through sockets."""
        body = bytes(size)
        async with Broker() as broker, Connection(broker.url) as connection:
            async with connection.sender("q") as sender, connection.receiver("q") as receiver:
                await sender.send(body)
                delivery = await receiver.receive()
                assert delivery.message.body == body
                delivery.accept()

    async def test_competing_consumers_on_connections(self) -> None:
        """Consumers of different connections share a queue fairly; nothing is lost or doubled."""
        async with Broker() as broker:
            got: list[list[Any]] = [[], []]

            async def consume(into: list[Any]) -> None:
                async with Connection(broker.url) as connection, connection.receiver("q", credit=5) as receiver:
                    while len(into) < 50:
                        delivery = await receiver.receive()
                        into.append(delivery.message.body)
                        delivery.accept()

            async with anyio.create_task_group() as tasks:
                for into in got:
                    tasks.start_soon(consume, into)
                async with Connection(broker.url) as connection, connection.sender("q") as sender:
                    while broker_consumers(broker, "q") < 2:
                        await anyio.lowlevel.checkpoint()
                    for number in range(100):
                        await sender.send(Message(number))
            assert sorted(got[0] + got[1]) == list(range(100))
            assert broker.queue("q").depth == 0

    async def test_topic_over_connections(self) -> None:
        """Each subscriber gets each message."""
        async with Broker(topics=["news"]) as broker, broker.connect() as one, broker.connect() as two:
            async with one.receiver("news") as first, two.receiver("news") as second, one.sender("news") as sender:
                await sender.send("x")
                assert (await first.receive()).message.body == "x"
                assert (await second.receive()).message.body == "x"
                assert len(broker.topic("news").subscriptions) == 2
            assert broker.topic("news").enqueued == 1

    async def test_dynamic_ends_with_connection(self) -> None:
        """A dynamic node is gone when its connection is."""
        async with Broker() as broker:
            async with Connection(broker.url) as connection, connection.receiver(dynamic=True) as receiver:
                address = receiver.address
                assert address is not None
                assert broker.queue(address).temporary
            with pytest.raises(KeyError):
                broker.queue(address)

    async def test_rejected_and_dead_letters(self) -> None:
        """A rejected message is found under the dead-letter address."""
        async with (
            Broker(dead_letter="graveyard") as broker,
            broker.connect() as connection,
            connection.sender("q") as sender,
            connection.receiver("q") as receiver,
        ):
            await sender.send("x")
            (await receiver.receive()).reject("my:reason", "because")
            async with connection.receiver("graveyard") as graves:
                dead = await graves.receive()
                assert dead.message.message_annotations["x-opt-dead-letter-condition"] == "my:reason"

    async def test_browse(self) -> None:
        """Browsing leaves the queue as it is."""
        async with Broker() as broker, broker.connect() as connection:
            async with connection.sender("q") as sender:
                await sender.send("x")
            async with connection.receiver(Source("q", distribution_mode="copy")) as receiver:
                assert (await receiver.receive()).message.body == "x"
            assert broker.queue("q").depth == 1

    async def test_full_queue_waits(self) -> None:
        """A sender to a full queue waits for room, and goes on when there is some."""
        async with (
            Broker(max_queue_messages=5) as broker,
            broker.connect() as connection,
            connection.sender("q") as sender,
        ):
            sent = 0

            async def send() -> None:
                nonlocal sent
                for number in range(12):
                    await sender.send(Message(number))
                    sent += 1

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(send)
                while sent < 5:
                    await anyio.lowlevel.checkpoint()
                assert broker.queue("q").depth == 5
                async with connection.receiver("q") as receiver:
                    for number in range(12):
                        delivery = await receiver.receive()
                        assert delivery.message.body == number
                        delivery.accept()

    async def test_unroutable(self) -> None:
        """An anonymous sender is told of what has no way."""
        async with Broker(auto_create=False) as broker, broker.connect() as connection:
            async with connection.sender(None) as sender:
                with pytest.raises(MessageRejected) as rejected:
                    await sender.send(Message("x", to="nowhere"))
                assert rejected.value.condition == "amqp:not-found"
            with pytest.raises(LinkDetached) as refused:
                async with connection.receiver("nowhere"):
                    pass
            assert refused.value.condition == "amqp:not-found"


class TestAccess:
    async def test_users(self) -> None:
        """With users, the right password opens and nothing else does."""
        async with Broker(users={"ann": "secret"}) as broker:
            url = broker.url.replace("amqp://", "amqp://ann:secret@")
            async with Connection(url):
                assert broker.connections == 1
            for wrong in (url.replace("secret", "wrong"), broker.url):
                with pytest.raises(AuthenticationFailed):
                    async with Connection(wrong):
                        pass

    async def test_refuses_to_be_open_to_all(self) -> None:
        """Beyond loopback somebody has to say who may come in."""
        with pytest.raises(ValueError, match="users"):
            Broker(host="0.0.0.0")
        Broker(host="0.0.0.0", users={"a": "b"})
        Broker(host="0.0.0.0", anonymous=True)
        Broker(host="::1")

    async def test_bare_header_needs_anonymous(self) -> None:
        """Without SASL nobody comes in who could not by ANONYMOUS."""
        async with Broker(users={"ann": "secret"}) as broker:
            with pytest.raises((ConnectionLost, ConnectionClosed, Exception)):
                async with Connection(broker.url, sasl=False):
                    pass
        async with Broker() as broker, Connection(broker.url, sasl=False):
            assert broker.connections == 1

    async def test_max_connections(self) -> None:
        """One too many is told so; when one leaves there is room."""
        async with Broker(max_connections=1) as broker:
            async with Connection(broker.url):
                with pytest.raises(ConnectionClosed) as refused:
                    async with Connection(broker.url):
                        pass
                assert refused.value.condition == "amqp:resource-limit-exceeded"
            while broker.connections:
                await anyio.lowlevel.checkpoint()
            async with Connection(broker.url):
                pass

    async def test_a_refused_peer_takes_no_room(self) -> None:
        """One that was told so and stays is not counted, does not keep others out, and is cut off in time."""
        async with Broker(max_connections=1, handshake_timeout=0.5) as broker:
            async with ScriptedPeer.over(await dial(broker)) as peer:
                async with Connection(broker.url):
                    await peer.open_connection()
                    close = await peer.expect(Close)
                    assert close.error is not None
                    assert close.error.condition == "amqp:resource-limit-exceeded"
                    assert broker.connections == 1
                while broker.connections:
                    await anyio.lowlevel.checkpoint()
                async with Connection(broker.url):
                    await peer.expect_end()


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
    @pytest.mark.timeout(120)
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
        monkeypatch.setattr("amqp10.broker._serving.MOST_OUTPUT", 100_000)
        async with Broker(host=None, max_message_size=1000) as broker:
            async with broker.open_stream() as stream:
                link = raw_receiver("q")
                await stream.send(link.session.engine.data_to_send())
                link.flow(1, echo=True)
                question = link.session.engine.data_to_send()
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

        monkeypatch.setattr("amqp10.broker._broker.listen_tcp", listen)
        monkeypatch.setattr("amqp10.broker._broker.ACCEPT_PAUSE", 0)
        async with Broker() as broker, Connection(broker.url):
            assert broker.connections == 1
        assert caplog.text.count("too many open files") == 2

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


@pytest.mark.parametrize(
    "limit", ["credit", "max_message_size", "max_queue_messages", "max_queue_bytes", "max_delivery_count"]
)
def test_limits_that_let_nothing_through(limit: str) -> None:
    """They are refused at once, not met later as a client that hangs."""
    with pytest.raises(ValueError, match="1 at least"):
        Broker(**{limit: 0})  # type: ignore[arg-type]


@pytest.mark.parametrize("anyio_backend", ["trio"])
def test_made_outside_of_any_loop(anyio_backend: str) -> None:
    """A broker is made where there is no event loop yet, and opened where there is one."""
    broker = Broker(queues=["q"])

    async def use() -> int:
        async with broker:
            return broker.queue("q").depth

    assert anyio.run(use, backend=anyio_backend) == 0
    with pytest.raises(ValueError, match="topic"):
        Broker(queues=["q"], topics=["q"])


def raw_receiver(address: str) -> ReceiverLink:
    """A link of an engine that nobody drives but the test; its first words wait in the engine's output."""
    engine = dialect("1.0").client(ConnectionTerms("raw", idle_timeout=None), None, True)
    engine.start()
    engine.open()
    return engine.begin().attach_receiver(LinkTerms("raw", source=Source(address), target=Target()))


def receiver_of(address: str, credit: int) -> bytes:
    """All that a client says who receives from there, in one breath: header, open, begin, attach, flow."""
    link = raw_receiver(address)
    link.flow(credit)
    return link.session.engine.data_to_send()


async def read_all_until(stream: ByteStream, done: Callable[[], bool]) -> None:
    """Read, and throw away, until something is so."""
    while not done():
        await stream.receive()


def broker_consumers(broker: Broker, name: str) -> int:
    """Consumers of a queue, 0 while there is no such queue."""
    try:
        return broker.queue(name).consumers
    except KeyError:
        return 0


async def test_a_consumer_that_leaves_in_the_middle_of_a_message() -> None:
    """What was half sent is in the queue again, whether the consumer's window was open or not."""
    async with Broker(anonymous=True) as broker, Connection(broker.url) as connection:
        async with connection.sender("q") as sender:
            await sender.send(bytes(20 << 20))
        for _ in range(2):
            async with connection.receiver("q", stream=True) as receiver:
                delivery = await receiver.receive()
                assert not delivery.stream.whole
            assert broker.queue("q").unsettled == 0
        async with connection.receiver("q") as receiver:
            with await receiver.receive() as message:
                assert message.delivery_count == 2
