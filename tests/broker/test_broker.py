from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from amqp10.broker import Broker
from amqp10.client import Connection
from amqp10.errors import AuthenticationFailed, ConnectionClosed, ConnectionLost, LinkDetached, MessageRejected
from amqp10.messaging import Message, Source
from amqp10.testing import Close, ScriptedPeer

from ..kit.broker.raw_clients import broker_consumers, dial

pytestmark = [pytest.mark.anyio, pytest.mark.capability("embedded broker")]


HEADER = b"AMQP\x00\x01\x00\x00"


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

    async def test_a_name_that_nothing_has(self) -> None:
        """The error for a missing queue, topic or exchange names those that are there."""
        async with Broker(queues=[f"q{number:02}" for number in range(12)]) as broker:
            with pytest.raises(KeyError, match=r"there is no queue 'q99'; there are 'q00', .*'q09', \.\.\."):
                broker.queue("q99")
            with pytest.raises(KeyError, match="there is no topic 'news': the virtual host has no topics yet"):
                broker.topic("news")
            with pytest.raises(KeyError, match=r"there is no exchange 'amq.tpic'; there are 'amq\.\w+', "):
                broker.exchange("amq.tpic")

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

    @pytest.mark.in_memory
    async def test_a_refused_peer_takes_no_room(self) -> None:
        """One that was told so and stays is not counted, does not keep others out, and is cut off in time."""
        async with Broker(max_connections=1, handshake_timeout=1.5) as broker:
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


@pytest.mark.parametrize(
    "limit", ["credit", "max_message_size", "max_queue_messages", "max_queue_bytes", "max_delivery_count"]
)
def test_limits_that_let_nothing_through(limit: str) -> None:
    """They are refused at once, not met later as a client that hangs."""
    with pytest.raises(ValueError, match="must be 1 or more"):
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
