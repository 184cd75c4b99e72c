"""What the broker refuses beyond its limits, and that those within them are served all the while."""

from __future__ import annotations

import itertools
import logging
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from datetime import timedelta
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest
from anyio.abc import ByteStream
from anyio.streams.text import TextReceiveStream

from amqp10 import Connection
from amqp10.broker import Broker, BrokerLimits
from amqp10.broker._handshakes import most_sockets
from amqp10.broker._subscriptions import Lifetime
from amqp10.broker._suspended import KeptLink, KeptLinks, LinkKey
from amqp10.engine import dialect_names
from amqp10.errors import (
    AmqpError,
    ConnectionClosed,
    ConnectionLost,
    LinkDetached,
    LocalProtocolError,
    MessageRejected,
    SessionEnded,
)
from amqp10.messaging import Message
from amqp10.net import TLS
from amqp10.rabbitmq import management
from amqp10.testing import CertificateAuthority, Close, ScriptedPeer

from ._raw import dial, read_all, receiver_of

pytestmark = pytest.mark.anyio

NAMES = sorted(dialect_names())
REFUSED = {
    name: "amqp:precondition-failed" if name.startswith("0-9") else "amqp:resource-limit-exceeded" for name in NAMES
}
numbers = itertools.count(1)


def condition_of(error: BaseException) -> str:
    """The condition of what a peer said; the older dialects' reply code 406 is precondition-failed."""
    assert isinstance(error, LinkDetached | SessionEnded), error  # the connection goes on
    return str(error.condition)


@asynccontextmanager
async def victim(
    broker: Broker, name: str = "1.0", url: str | None = None
) -> AsyncIterator[Callable[[], Awaitable[None]]]:
    """A client within all limits; what is yielded sends a message and receives it."""
    queue = f"victim-{next(numbers)}"
    async with (
        Connection(url or broker.url, dialect=name, container_id="victim") as connection,
        connection.sender(queue) as sender,
        connection.receiver(queue) as receiver,
    ):

        async def serve() -> None:
            with anyio.fail_after(10):
                await sender.send("served")
                with await receiver.receive() as message:
                    assert message.body == "served"

        yield serve


async def until(so: Callable[[], bool]) -> None:
    """Wait until something is so."""
    with anyio.fail_after(20):
        while not so():
            await anyio.lowlevel.checkpoint()


class TestValues:
    @pytest.mark.parametrize("name", ["handshakes", "links", "nodes", "memory", "name"])
    def test_nothing_is_no_limit(self, name: str) -> None:
        """A limit that lets nothing through is refused, and named."""
        with pytest.raises(ValueError, match=name):
            BrokerLimits(**{name: 0})

    def test_sessions_are_what_a_channel_number_can_say(self) -> None:
        with pytest.raises(ValueError, match="65535"):
            BrokerLimits(sessions=70_000)


class TestHandshakes:
    @pytest.mark.parametrize("name", NAMES)
    async def test_strangers_keep_nobody_out(self, name: str, caplog: pytest.LogCaptureFixture) -> None:
        """Silent connections in all places: clients come in at once, the oldest strangers are cut off."""
        async with Broker(limits=BrokerLimits(handshakes=5), handshake_timeout=60) as broker, AsyncExitStack() as stack:
            async with victim(broker, name) as serve:
                strangers = [await stack.enter_async_context(await dial(broker)) for _ in range(20)]
                for _ in range(3):
                    await serve()
                    async with victim(broker, name) as late:
                        await late()
                with anyio.fail_after(5):
                    assert await read_all(strangers[0]) == b""
                await serve()
        said = [record for record in caplog.records if "have not opened yet" in record.getMessage()]
        assert [record.levelno for record in said] == [logging.WARNING]

    async def test_by_address(self) -> None:
        """One address has fewer places than all have: those of others are not touched."""
        limits = BrokerLimits(handshakes=100, handshakes_by_address=3)
        async with Broker("localhost", limits=limits, handshake_timeout=60) as broker, AsyncExitStack() as stack:
            port = int(broker.url.rpartition(":")[2])
            first = await stack.enter_async_context(await anyio.connect_tcp("127.0.0.1", port))
            await first.send(b"AMQP\x03")
            others = [
                await stack.enter_async_context(await anyio.connect_tcp("127.0.0.1", port, local_host="127.0.0.2"))
                for _ in range(5)
            ]
            with anyio.fail_after(5):
                assert await read_all(others[0]) == b""
            await first.send(b"\x01\x00\x00")
            with anyio.fail_after(5):
                assert (await first.receive())[:5] == b"AMQP\x03"

    @pytest.mark.parametrize("kind", ["tls", "websocket", "unix"])
    async def test_every_way_in(self, kind: str, tmp_path: Path) -> None:
        """Handshakes of TLS and WebSockets count from the moment of accepting, as do Unix sockets."""
        authority = CertificateAuthority(tmp_path)
        files = authority.server()
        tls = TLS(certificate=files.certificate, key=files.key) if kind == "tls" else None
        path = tmp_path / "socket"
        broker = Broker(
            limits=BrokerLimits(handshakes=3),
            handshake_timeout=60,
            tls=tls,
            websocket=kind == "websocket",
            path=path if kind == "unix" else None,
        )
        async with broker, AsyncExitStack() as stack:
            streams = []
            for _ in range(6):
                stream: ByteStream
                if kind == "unix":
                    stream = await anyio.connect_unix(path)
                else:
                    stream = await anyio.connect_tcp("127.0.0.1", int(broker.urls[0].rpartition(":")[2]))
                streams.append(await stack.enter_async_context(stream))
                if kind == "websocket":
                    await stream.send(b"GET / HTTP/1.1\r\n")
            for stream in streams[:3]:
                with anyio.fail_after(5):
                    assert await read_all(stream) == b""
            trusting = TLS(ca=authority.ca) if kind == "tls" else None
            async with Connection(broker.urls[-1] if kind == "unix" else broker.url, tls=trusting):
                assert broker.connections == 1

    async def test_no_descriptors_left(self, anyio_backend_name: str) -> None:
        """A broker that has run out of file descriptors says so once, serves on, and takes others again."""
        command = [sys.executable, "-c", FEW_DESCRIPTORS, anyio_backend_name]
        async with await anyio.open_process(command, stderr=subprocess.STDOUT) as process:
            assert process.stdout is not None
            said = TextReceiveStream(process.stdout)
            url = (await said.receive()).strip()
            host, port = url.removeprefix("amqp://").split(":")
            async with Connection(url) as connection, AsyncExitStack() as strangers:
                for _ in range(60):
                    stranger = await strangers.enter_async_context(await anyio.connect_tcp(host, int(port)))
                    await stranger.send(receiver_of("q", 0))  # one that opens, and so is not cut off
                log = ""
                while "accepting" not in log:
                    log += await said.receive()
                async with connection.sender("q") as sender:
                    await sender.send("served")
            with anyio.fail_after(10):
                async with Connection(url):
                    pass
            process.terminate()
            log += "".join([text async for text in said])
        assert log.count("accepting a connection failed") == log.count("Too many open files") == 1, log


FEW_DESCRIPTORS = """
import logging, resource, sys, anyio
from amqp10.broker import Broker
logging.basicConfig()
async def main():
    async with Broker() as broker:
        resource.setrlimit(resource.RLIMIT_NOFILE, (50, 50))
        print(broker.url, flush=True)
        await anyio.sleep_forever()
anyio.run(main, backend=sys.argv[1])
"""


TOO_MANY = {  # as each dialect says that there is no room for a connection
    "1.0": "amqp:resource-limit-exceeded",
    "0-9-1": "amqp:resource-limit-exceeded",
    "0-9": "amqp:resource-limit-exceeded",
    "0-9-draft": "amqp:resource-limit-exceeded",
    "0-10": "amqp:connection:forced",
    "fast": "amqp:resource-limit-exceeded",
}


class TestConnections:
    @pytest.mark.parametrize("name", NAMES)
    async def test_too_many(self, name: str) -> None:
        """Each dialect says that there is no room; who is in is served, and there is room when somebody leaves."""
        async with Broker(max_connections=2) as broker, victim(broker, name) as serve:
            async with Connection(broker.url, dialect=name):
                with pytest.raises(ConnectionClosed, match="takes no more connections") as refused:
                    async with Connection(broker.url, dialect=name):
                        pass
                assert refused.value.condition == TOO_MANY[name]
                await serve()
            await until(lambda: broker.connections == 1)
            async with Connection(broker.url, dialect=name):
                await serve()

    async def test_descriptors(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Without a number, a tenth of the file descriptors is left; connections in memory have none."""
        resource = pytest.importorskip("resource", reason="Windows has no such limit")
        monkeypatch.setattr(resource, "getrlimit", lambda what: (3, 1000))
        broker = Broker()
        monkeypatch.undo()
        async with broker, victim(broker) as serve, AsyncExitStack() as stack:
            for _ in range(5):
                await stack.enter_async_context(broker.connect())
            async with Connection(broker.url):
                with pytest.raises(ConnectionClosed, match="takes no more connections"):
                    async with Connection(broker.url):
                        pass
                async with broker.connect():
                    await serve()
            await until(lambda: broker.connections == 6)
            async with Connection(broker.url):
                await serve()

    def test_any_number(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Where the system has no limit there is none; and one connection is let in by any limit."""
        resource = pytest.importorskip("resource", reason="Windows has no such limit")
        monkeypatch.setattr(resource, "getrlimit", lambda what: (resource.RLIM_INFINITY,) * 2)
        assert most_sockets() is None
        monkeypatch.setattr(resource, "getrlimit", lambda what: (1, 1))
        assert most_sockets() == 1
        monkeypatch.setattr(resource, "getrlimit", lambda what: (1024, 1024))
        assert most_sockets() == 921


class TestOpening:
    @pytest.mark.spec("2.4.5", "a peer whose idle-time-out cannot be supported is told so, by a close with an error")
    async def test_idle_timeout_too_short(self) -> None:
        """Who wants a heartbeat each millisecond is told no, and makes no work."""
        async with Broker() as broker, victim(broker) as serve:
            async with ScriptedPeer.over(await dial(broker)) as peer:
                await peer.open_connection(idle_time_out=1)
                close = await peer.expect(Close)
                assert close.error is not None
                assert close.error.condition == "amqp:not-allowed"
                assert "idle-time-out of 1 ms" in str(close.error.description)
                assert broker.connections == 1
            await serve()

    async def test_container_id_too_long(self) -> None:
        """The broker keeps the container's name with all that outlives the connection, so it has a length."""
        async with Broker(limits=BrokerLimits(name=100)) as broker, victim(broker) as serve:
            with pytest.raises(ConnectionClosed, match="container id has 100 octets") as refused:
                async with Connection(broker.url, container_id="ö" * 51):
                    pass
            assert refused.value.condition == "amqp:invalid-field"
            async with Connection(broker.url, container_id="ö" * 50):
                await serve()

    @pytest.mark.parametrize("name", NAMES)
    async def test_sessions(self, name: str) -> None:
        """The broker says how many sessions it takes of one connection, and clients keep to it."""
        async with (
            Broker(limits=BrokerLimits(sessions=3)) as broker,
            victim(broker) as serve,
            Connection(broker.url, dialect=name) as connection,
            AsyncExitStack() as stack,
        ):
            with pytest.raises((LocalProtocolError, SessionEnded, ConnectionLost, ConnectionClosed)):
                for _ in range(6):
                    session = await stack.enter_async_context(connection.session())
                    await stack.enter_async_context(session.receiver("q"))
            await serve()


class TestCounts:
    """What one connection, or all, make too many of."""

    @pytest.mark.parametrize("name", NAMES)
    async def test_links(self, name: str) -> None:
        """One link too many is refused, in each dialect's way; the connections of others have theirs."""
        limits = BrokerLimits(links=8)
        async with Broker(limits=limits) as broker, victim(broker) as serve:
            async with Connection(broker.url, dialect=name) as connection, AsyncExitStack() as stack:
                with pytest.raises(AmqpError) as refused:
                    for _ in range(9):
                        receiver = await stack.enter_async_context(connection.receiver("q"))
                        with anyio.move_on_after(0.1 if name.startswith("0-9") else 0):
                            await receiver.receive()  # older dialects say with it that they want something
                assert "links of one connection: 8 at most" in str(refused.value)
                assert condition_of(refused.value) == REFUSED[name]
                await serve()
                async with victim(broker, name) as other:
                    await other()

    @pytest.mark.parametrize("name", NAMES)
    async def test_nodes_of_a_connection(self, name: str) -> None:
        """Queues made on demand are counted for who made them; those that are there stay in use."""
        limits = BrokerLimits(nodes_by_connection=4)
        async with Broker(limits=limits, queues=["there"]) as broker, victim(broker, name) as serve:
            async with Connection(broker.url, dialect=name) as connection, AsyncExitStack() as stack:
                with pytest.raises(AmqpError) as refused:
                    for number in range(5):
                        await stack.enter_async_context(connection.receiver(f"q{number}"))
                assert "of one connection: 4 at most" in str(refused.value)
                assert condition_of(refused.value) == REFUSED[name]
                assert {queue.name for queue in broker.queues} >= {"q0", "q3", "there"}
                assert "q4" not in {queue.name for queue in broker.queues}
            async with Connection(broker.url, dialect=name) as again, again.receiver("there"), again.receiver("mine"):
                await serve()

    async def test_nodes_of_the_broker(self) -> None:
        """A stranger who fills the broker with queues that nobody uses takes none from others; theirs stay."""
        limits = BrokerLimits(nodes=20)
        async with Broker(limits=limits, queues=["declared"]) as broker, victim(broker) as serve:
            for come in range(3):
                async with Connection(broker.url) as stranger:
                    for number in range(16):
                        async with stranger.receiver(f"{come} {number}"):
                            pass
                await anyio.lowlevel.checkpoint()
            async with Connection(broker.url) as client, client.sender("new") as sender:
                await sender.send("here")
            assert {queue.name for queue in broker.queues} >= {"declared", "new"}
            assert len(broker.queues) <= 20
            await serve()

    async def test_nodes_in_use(self) -> None:
        """Where all are in use one more is refused, on demand, declared, dynamic, by a subscription and by `to`."""
        async with (
            Broker(limits=BrokerLimits(nodes=3), queues=["a", "b"], topics=["topic.t"]) as broker,
            Connection(broker.url) as connection,
        ):
            for address in ("c", "topic.u", "topic.t", None):
                with pytest.raises(LinkDetached, match="3 at most") as refused:
                    async with connection.receiver(address, dynamic=address is None):
                        pass
                assert refused.value.condition == "amqp:resource-limit-exceeded"
            async with connection.sender(None) as sender:
                with pytest.raises(MessageRejected, match="3 at most"):
                    await sender.send(Message("x", to="c"))
                await sender.send(Message("x", to="a"))
            assert broker.queue("a").depth == 1

    async def test_arguments_of_all(self) -> None:
        """What queues, exchanges and bindings were given is bounded together; what is gone makes room."""
        limits = BrokerLimits(all_arguments=1000)
        async with (
            Broker(limits=limits, queues=["q"]) as broker,
            Connection(broker.url) as connection,
            management(connection) as manager,
        ):
            large = {"x-note": "x" * 400}
            for _ in range(3):
                await manager.declare_queue("r", arguments=large)
                await manager.declare_exchange("e", arguments=large)
                with pytest.raises(AmqpError, match="1000 at most"):
                    await manager.bind("amq.headers", queue="q", key="k", arguments=large)
                await manager.bind("amq.topic", queue="q", key="k")
                await manager.declare_queue("r", arguments=large)
                await manager.delete_exchange("e")
                await manager.bind("amq.headers", queue="q", key="k", arguments=large)
                await manager.unbind("amq.headers", queue="q", key="k", arguments=large)
                await manager.bind("amq.headers", queue="r", key="k", arguments=large)
                await manager.delete_queue("r")

    async def test_exchanges_and_bindings(self) -> None:
        """By management, where names and keys have no length of their own, and the same in 0-9-1."""
        limits = BrokerLimits(exchanges=9, bindings=6, bindings_by_queue=3, arguments=200)
        async with (
            Broker(limits=limits, queues=["q", "r", "s"]) as broker,
            Connection(broker.url) as connection,
            management(connection) as manager,
        ):
            refusals = []

            async def refused(work: Awaitable[object]) -> None:
                with pytest.raises(AmqpError) as error:
                    await work
                refusals.append(str(error.value))

            await refused(manager.bind("amq.topic", queue="q", key="." * 200_000))
            await refused(manager.bind("amq.topic", queue="q", key="k", arguments={"x": "y" * 300}))
            await refused(manager.declare_exchange("e" * 256))
            await refused(manager.declare_queue("q" * 256))
            for name in ("e1", "e2", "e3"):
                await manager.declare_exchange(name)
            await refused(manager.declare_exchange("e4"))
            await manager.declare_exchange("e3")
            for queue in ("q", "r"):
                for key in "abc":
                    await manager.bind("amq.topic", queue=queue, key=key)
                await refused(manager.bind("amq.topic", queue=queue, key="d"))
            await refused(manager.bind("amq.topic", queue="s", key="d"))
            await manager.bind("amq.topic", queue="q", key="a")
            await manager.unbind("amq.topic", queue="q", key="a")
            await manager.bind("amq.topic", queue="s", key="d")
            async with connection.sender("/exchanges/amq.topic/d") as sender:
                await sender.send("x")
            assert broker.queue("s").depth == 1
        wanted = ["255 octets", "200 octets", "255 octets", "255 octets", "exchanges: 9", "bindings to 'q': 3"]
        wanted += ["bindings to 'r': 3", "bindings: 6"]
        assert all(want in said for want, said in zip(wanted, refusals, strict=True)), refusals

    async def test_names(self) -> None:
        """An address and a link's name have a length; what is longer is refused by its link."""
        async with Broker(limits=BrokerLimits(name=100)) as broker, victim(broker) as serve:
            async with Connection(broker.url, container_id="c") as connection:
                for address, link in (("a" * 101, "name"), ("a", "n" * 101)):
                    with pytest.raises(LinkDetached, match="100 octets at most") as refused:
                        async with connection.receiver(address, name=link):
                            pass
                    assert refused.value.condition == "amqp:invalid-field"
                async with connection.receiver("a" * 100, name="n" * 100):
                    await serve()


def test_kept_links_of_one_user() -> None:
    """The one that has waited longest ends where there are too many, and no other user's."""
    ended: list[str] = []
    links = KeptLinks(lambda: 0.0, lambda deadline: None, 3)

    def suspend(user: str, name: str) -> None:
        link = KeptLink(LinkKey((user, "c"), name, "out"), None, Lifetime("never"))
        links.begin(link, None)
        links.suspend(link, [], lambda deliveries: ended.append(name), None, None)

    suspend("victim", "v")
    for number in range(5):
        suspend("stranger", str(number))
    assert ended == ["0", "1"]
    key = LinkKey(("stranger", "c"), "2", "out")
    before, link = links.claim(key), KeptLink(key, None, Lifetime("never"))
    links.begin(link, before)
    assert ended == ["0", "1", "2"]
    links.suspend(link, [], lambda deliveries: ended.append("again"), None, None)
    suspend("stranger", "5")
    assert ended == ["0", "1", "2", "3"]


USERS = {"bad": "b", "good": "g"}


def as_user(broker: Broker, user: str) -> str:
    return broker.url.replace("://", f"://{user}:{USERS[user]}@")


def rounds(broker: Broker, name: str = "1.0") -> AbstractAsyncContextManager[Callable[[], Awaitable[None]]]:
    """A victim who is the user "good"."""
    return victim(broker, name, as_user(broker, "good"))


class TestUsers:
    """What one user has, by whatever connections, keeps no other user from anything."""

    @pytest.mark.parametrize("name", NAMES)
    async def test_connections(self, name: str) -> None:
        """One user has nine tenths of all by default; who goes leaves room."""
        async with Broker(users=USERS, max_connections=4, limits=BrokerLimits(connections_by_user=2)) as broker:
            async with Connection(as_user(broker, "bad"), dialect=name), rounds(broker, name) as serve:
                async with Connection(as_user(broker, "bad"), dialect=name):
                    with pytest.raises(ConnectionClosed, match="of user 'bad': 2 at most") as refused:
                        async with Connection(as_user(broker, "bad"), dialect=name):
                            pass
                    assert refused.value.condition == TOO_MANY[name]
                    await serve()
                await until(lambda: broker.connections == 2)
                async with Connection(as_user(broker, "bad"), dialect=name):
                    await serve()

    async def test_share_of_connections(self) -> None:
        """Without a number, a tenth of all is left to others."""
        async with Broker(users=USERS, max_connections=10) as broker, AsyncExitStack() as stack:
            for _ in range(9):
                await stack.enter_async_context(Connection(as_user(broker, "bad")))
            with pytest.raises(ConnectionClosed, match="of user 'bad': 9 at most"):
                async with Connection(as_user(broker, "bad")):
                    pass
            async with rounds(broker) as serve:
                await serve()

    @pytest.mark.parametrize("name", NAMES)
    async def test_nodes(self, name: str) -> None:
        """Those of all connections of a user count, and are counted as long as they are there."""
        limits = BrokerLimits(nodes=8)
        async with Broker(users=USERS, limits=limits) as broker, AsyncExitStack() as stack:
            for number in range(2):
                connection = await stack.enter_async_context(Connection(as_user(broker, "bad"), dialect=name))
                for each in "ab":
                    sender = await stack.enter_async_context(connection.sender(f"{number}{each}"))
                    await sender.send("kept")
            async with Connection(as_user(broker, "bad"), dialect=name) as connection:
                with pytest.raises(AmqpError, match="of user 'bad': 4 at most") as refused:
                    async with connection.receiver("more"):
                        pass
                assert condition_of(refused.value) == REFUSED[name]
            async with rounds(broker, name) as serve:
                await serve()

    async def test_nodes_that_nobody_uses(self) -> None:
        """A user's queues on demand that are not used make room for more of this user's."""
        async with Broker(users=USERS, limits=BrokerLimits(nodes_by_user=3)) as broker:
            for number in range(10):
                async with (
                    Connection(as_user(broker, "bad")) as connection,
                    connection.receiver(f"q{number}"),
                ):
                    assert len(broker.queues) <= 3

    async def test_exchanges_and_bindings(self) -> None:
        """What is deleted, unbound or ended with its exchange or queue counts no more."""
        limits = BrokerLimits(exchanges_by_user=2, bindings_by_user=3)
        async with (
            Broker(users=USERS, limits=limits, queues=["q", "r"]) as broker,
            Connection(as_user(broker, "bad")) as connection,
            management(connection) as bad,
            Connection(as_user(broker, "good")) as other,
            management(other) as good,
        ):
            for name in ("e", "f"):
                await bad.declare_exchange(name)
            with pytest.raises(AmqpError, match="exchanges of user 'bad': 2 at most"):
                await bad.declare_exchange("g")
            for key in "abc":
                await bad.bind("e", queue="q", key=key)
            with pytest.raises(AmqpError, match="bindings of user 'bad': 3 at most"):
                await bad.bind("amq.direct", queue="r", key="d")
            await bad.bind("e", queue="q", key="a")  # it is there
            await good.declare_exchange("good")
            await good.bind("good", queue="r", key="k")
            await bad.delete_exchange("e")
            await bad.declare_exchange("g")
            for key in "ab":
                await bad.bind("g", queue="q", key=key)
            await bad.bind("f", queue="r", key="c")
            with pytest.raises(AmqpError, match="bindings of user 'bad': 3 at most"):
                await bad.bind("f", queue="r", key="d")
            await bad.delete_queue("q")
            await bad.bind("f", queue="r", key="d")
            await bad.unbind("f", queue="r", key="d")
            await bad.bind("f", queue="r", key="e")

    @pytest.mark.parametrize("name", NAMES)
    async def test_memory(self, name: str, caplog: pytest.LogCaptureFixture) -> None:
        """Who fills queues that nobody reads is stopped, and told why; others send on, until it is read."""
        limits = BrokerLimits(memory=1_000_000)
        async with Broker(users=USERS, limits=limits, queues=["q"], credit=10) as broker, rounds(broker, name) as serve:
            async with (
                Connection(as_user(broker, "bad"), dialect=name) as connection,
                connection.sender("q") as sender,
                Connection(as_user(broker, "good")) as other,
                anyio.create_task_group() as tasks,
            ):
                sent = 0

                async def send() -> None:
                    nonlocal sent
                    for _ in range(30):
                        await sender.send(bytes(50_000))
                        sent += 1

                tasks.start_soon(send)
                await until(lambda: "senders of user 'bad' are stopped" in caplog.text)
                await anyio.wait_all_tasks_blocked()
                assert sent < 30
                assert broker.blocked is None
                assert sum(queue.bytes for queue in broker.queues) <= 625_000
                for _ in range(5):
                    await serve()
                async with other.receiver("q", credit=1) as receiver:
                    with anyio.fail_after(20):
                        for _ in range(30):
                            (await receiver.receive()).accept()
            assert sent == 30
            await until(lambda: "senders of user 'bad' go on" in caplog.text)

    async def test_memory_beyond_credit(self) -> None:
        """What still comes by credit given before is refused beyond a quarter more; others' messages are taken."""
        limits = BrokerLimits(memory_by_user=1_000_000)
        async with Broker(users=USERS, limits=limits, queues=["q"], credit=100) as broker, rounds(broker) as serve:
            async with Connection(as_user(broker, "bad")) as connection, connection.sender("q") as sender:
                refused = []

                async def send() -> None:
                    try:
                        await sender.send(bytes(100_000))
                    except MessageRejected as error:
                        refused.append(str(error))

                async with anyio.create_task_group() as tasks:
                    for _ in range(60):
                        tasks.start_soon(send)
                    await until(lambda: bool(refused))
                    await serve()
                    tasks.cancel_scope.cancel()
            assert all("messages of user 'bad' take 1000000 octets" in each for each in refused)
            assert broker.queue("q").bytes <= 1_250_000 + 600_000  # what one read brought

    @pytest.mark.parametrize("way", ["delete", "purge", "subscription", "expiry", "stream", "transaction", "reject"])
    async def test_all_that_is_freed_counts(self, way: str, caplog: pytest.LogCaptureFixture) -> None:
        """However a user's messages go, the user may send again."""
        arguments = {"x-queue-type": "stream", "x-max-length-bytes": 1000} if way == "stream" else {}
        broker = Broker(
            users=USERS, limits=BrokerLimits(memory_by_user=50_000), queues={"q": arguments}, topics=["topic.t"]
        )
        caplog.set_level(logging.WARNING)
        async with broker, Connection(as_user(broker, "bad")) as connection, AsyncExitStack() as stack:
            sender = await stack.enter_async_context(connection.sender("topic.t" if way == "subscription" else "q"))
            ttl = timedelta(seconds=0.2) if way == "expiry" else None
            if way == "subscription":
                subscriber = connection.receiver("topic.t", credit=0)
                await subscriber.__aenter__()
            if way == "transaction":
                async with connection.transaction() as transaction:
                    await sender.send(Message(bytes(60_000)), transaction=transaction)
                    await until(lambda: "are stopped" in caplog.text)
                    await transaction.rollback()
            else:
                await sender.send(Message(bytes(60_000), ttl=ttl))
                await until(lambda: "are stopped" in caplog.text)
            if way == "subscription":
                await subscriber.__aexit__(None, None, None)
            if way == "stream":
                async with Connection(as_user(broker, "good")) as other, other.sender("q") as another:
                    await another.send("the last one stays")
            if way in ("delete", "purge", "reject"):
                async with management(connection) as manager:
                    if way == "reject":
                        async with connection.receiver("q") as receiver:
                            (await receiver.receive()).reject()
                        await manager.purge_queue("dead-letter")
                    await (manager.delete_queue if way == "delete" else manager.purge_queue)("q")
            await until(lambda: "go on" in caplog.text)

    async def test_virtual_hosts(self) -> None:
        """Each has limits of its own, from the first octets of a connection on."""
        limits = BrokerLimits(nodes_by_user=1)
        async with Broker(users=USERS, limits=limits, virtual_hosts=["/", "other"]) as broker:
            for host in ("/", "other"):
                async with Connection(as_user(broker, "bad"), hostname=f"vhost:{host}") as connection:
                    async with connection.receiver("a"):
                        with pytest.raises(LinkDetached, match="1 at most"):
                            async with connection.receiver("b"):
                                pass


class TestMemory:
    """All messages in memory together: senders wait, receivers go on."""

    @pytest.mark.parametrize("name", NAMES)
    async def test_senders_wait_until_there_is_room(self, name: str) -> None:
        """Each dialect's senders are stopped at the watermark by its own means, and go on when a fifth is free."""
        limits = BrokerLimits(memory=1_000_000)
        async with Broker(limits=limits, queues=["q"], credit=10) as broker, Connection(broker.url) as other:
            async with (
                Connection(broker.url, dialect=name) as connection,
                connection.sender("q") as sender,
                other.receiver("q", credit=1) as receiver,
                anyio.create_task_group() as tasks,
            ):
                sent = 0

                async def send() -> None:
                    nonlocal sent
                    for _ in range(40):
                        await sender.send(bytes(50_000))
                        sent += 1

                tasks.start_soon(send)
                await until(lambda: broker.blocked is not None)
                await anyio.wait_all_tasks_blocked()
                assert "memory" in str(broker.blocked)
                assert sum(queue.bytes for queue in broker.queues) <= 1_250_000
                assert sent < 40
                with anyio.fail_after(20):
                    for _ in range(40):
                        with await receiver.receive() as message:
                            assert len(bytes(message.body)) == 50_000
                assert broker.blocked is None
            assert sent == 40

    async def test_who_ignores_it_is_refused(self) -> None:
        """What still comes by credit given before is taken as far as a quarter more; then it is rejected."""
        limits = BrokerLimits(memory=1_000_000)
        async with Broker(limits=limits, queues=["q", "r"], credit=100) as broker:
            async with Connection(broker.url) as connection, connection.sender("q") as sender:
                outcomes = []

                async def send() -> None:
                    try:
                        await sender.send(bytes(100_000))
                    except MessageRejected as error:
                        outcomes.append(error.condition)

                async with anyio.create_task_group() as tasks:
                    for _ in range(60):
                        tasks.start_soon(send)
                    await until(lambda: bool(outcomes))
                    assert set(outcomes) == {"amqp:resource-limit-exceeded"}
                    held = sum(queue.bytes for queue in broker.queues)
                    tasks.cancel_scope.cancel()
            assert 1_000_000 < held <= 1_250_000 + 600_000  # what one read brought

    async def test_user_and_memory_do_not_undo_each_other(self) -> None:
        """Senders go on when neither the user nor the memory says that they must wait."""
        async with Broker(limits=BrokerLimits(memory=100_000), queues=["q"]) as broker:
            async with Connection(broker.url) as connection:
                async with connection.sender("q") as sender:
                    await sender.send(bytes(120_000))
                await until(lambda: broker.blocked is not None)
                broker.block("maintenance")
                broker.unblock()
                assert "memory" in str(broker.blocked)
                broker.block("maintenance")
                async with connection.receiver("q") as receiver:
                    (await receiver.receive()).accept()
                await until(lambda: not broker.queue("q").depth and broker.blocked == "maintenance")
                broker.unblock()
                assert broker.blocked is None
                async with connection.sender("q") as sender:
                    await sender.send("again")

    @pytest.mark.parametrize("way", ["delete", "purge", "subscription", "expiry", "stream", "transaction"])
    async def test_all_that_is_freed_counts(self, way: str) -> None:
        """However messages go, the memory is seen to be free again."""
        arguments = {"x-queue-type": "stream", "x-max-length-bytes": 1000} if way == "stream" else {}
        queues = {"q": arguments}
        limits = BrokerLimits(memory=50_000)
        async with Broker(limits=limits, queues=queues, topics=["topic.t"]) as broker:
            async with Connection(broker.url) as connection, AsyncExitStack() as stack:
                sender = await stack.enter_async_context(connection.sender("topic.t" if way == "subscription" else "q"))
                ttl = timedelta(seconds=0.2) if way == "expiry" else None
                if way == "subscription":
                    subscriber = connection.receiver("topic.t", credit=0)
                    await subscriber.__aenter__()
                if way == "transaction":
                    async with connection.transaction() as transaction:
                        await sender.send(Message(bytes(60_000)), transaction=transaction)
                        await until(lambda: broker.blocked is not None)
                        await transaction.rollback()
                else:
                    await sender.send(Message(bytes(60_000), ttl=ttl))
                    if way == "stream":
                        await until(lambda: broker.blocked is not None)
                if way == "subscription":
                    await subscriber.__aexit__(None, None, None)
                if way in ("delete", "purge"):
                    async with management(connection) as manager:
                        await (manager.delete_queue if way == "delete" else manager.purge_queue)("q")
                if way == "stream":
                    return  # the last message of a stream stays
                await until(lambda: broker.blocked is None)
