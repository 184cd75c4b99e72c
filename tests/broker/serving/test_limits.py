"""What the broker refuses beyond its limits, and that those within them are served all the while."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Awaitable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from anyio.abc import ByteStream
from anyio.streams.text import TextReceiveStream

from amqp10 import Connection
from amqp10.broker import Broker, BrokerLimits
from amqp10.broker._serving.handshakes import most_sockets
from amqp10.engine import (
    ConnectionTerms,
    Event,
    LinkEnded,
    LinkTerms,
    SessionTerms,
    SessionUnmapped,
    dialect,
)
from amqp10.errors import (
    AmqpError,
    ConnectionClosed,
    ConnectionLost,
    LinkDetached,
    LocalProtocolError,
    MessageRejected,
    SessionEnded,
)
from amqp10.messaging import Message, Selector, Source, Target
from amqp10.net import TLS
from amqp10.rabbitmq import management
from amqp10.testing import CertificateAuthority, Close, ScriptedPeer
from amqp10.types import Symbol

from ...kit.broker.raw_clients import dial, read_all, receiver_of
from ...kit.broker.served import Served
from ...kit.broker.victims import NAMES, REFUSED, TOO_MANY, condition_of, victim
from ...kit.inside.broker import Limits as NodeLimits
from ...kit.inside.broker import VirtualHostCore, VirtualHostSettings
from ...kit.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.capability("hostile peers")]
no_resource = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no limit of file descriptors")


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
                with anyio.fail_after(60):
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
            with anyio.fail_after(60):
                assert await read_all(others[0]) == b""
            await first.send(b"\x01\x00\x00")
            with anyio.fail_after(60):
                assert (await first.receive())[:5] == b"AMQP\x03"

    @pytest.mark.parametrize("by_address", [3, 4, 8])
    async def test_said_once(self, by_address: int, caplog: pytest.LogCaptureFixture) -> None:
        """The log has one line of a crowd of strangers, not one of each, wherever the limit of an address is."""
        limits = BrokerLimits(handshakes=8, handshakes_by_address=by_address)
        async with Broker(limits=limits, handshake_timeout=60) as broker, AsyncExitStack() as stack:
            strangers = [await stack.enter_async_context(await dial(broker)) for _ in range(20)]
            with anyio.fail_after(60):
                for stranger in strangers[: 20 - by_address]:
                    assert await read_all(stranger) == b""
        assert len([record for record in caplog.records if "have not opened yet" in record.getMessage()]) == 1

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
                with anyio.fail_after(60):
                    assert await read_all(stream) == b""
            trusting = TLS(ca=authority.ca) if kind == "tls" else None
            async with Connection(broker.urls[-1] if kind == "unix" else broker.url, tls=trusting):
                assert broker.connections == 1

    @pytest.mark.slow
    async def test_no_descriptors_left(self, anyio_backend_name: str) -> None:
        """A broker that has run out of file descriptors says so, not at each try, serves on, and takes others again."""
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
            with anyio.fail_after(60):
                async with Connection(url):
                    pass
            process.terminate()
            log += "".join([text async for text in said])
        # It tries ten times a second; as soon as it has taken one it has to say so anew.
        assert log.count("accepting a connection failed") == log.count("Too many open files") in (1, 2, 3), log


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

    @no_resource
    async def test_descriptors(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Without a number, a tenth of the file descriptors is left; connections in memory have none."""
        import resource

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

    @no_resource
    def test_any_number(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Where the system has no limit there is none; and one connection is let in by any limit."""
        import resource

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
            with pytest.raises(ConnectionClosed, match="container id must have at most 100 octets") as refused:
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

    @pytest.mark.in_memory
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
                assert "links of one connection: the limit is 8" in str(refused.value)
                assert condition_of(refused.value) == REFUSED[name]
                await serve()
                async with victim(broker, name) as other:
                    await other()

    async def test_what_links_say(self) -> None:
        """All that the links of a connection say of themselves is bounded together; what ended is free."""
        large = Source("q", filters=[Selector("a = '" + "x" * 400 + "'")])
        async with Broker(limits=BrokerLimits(link_octets=1600)) as broker, victim(broker) as serve:
            async with Connection(broker.url) as connection:
                for _ in range(3):
                    async with connection.receiver(large), connection.receiver(large):
                        for _ in range(3):
                            with pytest.raises(LinkDetached, match="say of themselves: the limit is 1600") as refused:
                                async with connection.receiver(large):
                                    pass
                            assert refused.value.condition == "amqp:resource-limit-exceeded"
                        for _ in range(9):
                            with pytest.raises(LinkDetached, match="there is no exchange"):
                                async with connection.sender("/exchanges/nowhere/" + "k" * 200):
                                    pass
                        async with connection.receiver("q"), Connection(broker.url) as other, other.receiver(large):
                            await serve()

    @pytest.mark.parametrize("by_user", [False, True])
    def test_what_sessions_and_maps_say(self, by_user: bool) -> None:
        """They count with the links; a session that says too much is ended, and what ended is free."""
        limits = BrokerLimits(link_octets=1600, link_octets_by_user=1000 if by_user else None)
        vhost = VirtualHostCore(VirtualHostSettings(limits=NodeLimits(), peers=limits), clock=lambda: 0.0)
        served, client = Served("1.0", vhost), dialect("1.0").client(ConnectionTerms("c"), None, True)
        if by_user:
            served.engine.identity = "ann"

        def settle() -> list[Event]:
            events: list[Event] = []
            while data := client.data_to_send():
                client.receive_data(served.take(data))
                events += client.events()
            return events

        def refused(said: list[Event], kind: type[Any]) -> list[str]:
            return [str(each.error) for each in said if isinstance(each, kind) and each.error is not None]

        client.start()
        client.open()
        settle()
        wordy = SessionTerms(properties={Symbol("p"): "x" * (500 if by_user else 900)})
        for _ in range(3):
            first, second = client.begin(wordy), client.begin(wordy)
            (why,) = refused(settle(), SessionUnmapped)
            assert why.startswith("amqp:resource-limit-exceeded: octets of what ")
            assert ("of user 'ann'" in why) is by_user
            map_of_many = dict.fromkeys(bytes([n]) * 8 for n in range(80))
            first.attach_sender(LinkTerms("s", Source(), Target("q"), unsettled=map_of_many))
            assert len(refused(settle(), LinkEnded)) == 1
            first.end()
            assert not second.begun
            settle()
        if by_user:
            account = vhost.admission.account_of("ann")
            assert account is not None
            assert account.declared == 0
        client.begin(wordy)
        client.close()
        settle()
        assert vhost.admission.account_of("ann") is None or vhost.admission.account_of("ann").declared == 0  # type: ignore[union-attr]

    @pytest.mark.parametrize("name", NAMES)
    async def test_nodes_of_a_connection(self, name: str) -> None:
        """Queues made on demand are counted for who made them; those that are there stay in use."""
        limits = BrokerLimits(nodes_by_connection=4)
        async with Broker(limits=limits, queues=["there"]) as broker, victim(broker, name) as serve:
            async with Connection(broker.url, dialect=name) as connection, AsyncExitStack() as stack:
                with pytest.raises(AmqpError) as refused:
                    for number in range(5):
                        await stack.enter_async_context(connection.receiver(f"q{number}"))
                assert "of one connection: the limit is 4" in str(refused.value)
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
                with pytest.raises(LinkDetached, match="the limit is 3") as refused:
                    async with connection.receiver(address, dynamic=address is None):
                        pass
                assert refused.value.condition == "amqp:resource-limit-exceeded"
            async with connection.sender(None) as sender:
                with pytest.raises(MessageRejected, match="the limit is 3"):
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
                with pytest.raises(AmqpError, match="the limit is 1000"):
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
        wanted = [
            "255 octets",
            "200 octets",
            "255 octets",
            "255 octets",
            "exchanges: the limit is 9",
            "bindings to 'q': the limit is 3",
        ]
        wanted += ["bindings to 'r': the limit is 3", "bindings: the limit is 6"]
        assert all(want in said for want, said in zip(wanted, refusals, strict=True)), refusals

    async def test_names(self) -> None:
        """An address and a link's name have a length; what is longer is refused by its link."""
        async with Broker(limits=BrokerLimits(name=100)) as broker, victim(broker) as serve:
            async with Connection(broker.url, container_id="c") as connection:
                for address, link in (("a" * 101, "name"), ("a", "n" * 101)):
                    with pytest.raises(LinkDetached, match="at most 100 octets") as refused:
                        async with connection.receiver(address, name=link):
                            pass
                    assert refused.value.condition == "amqp:invalid-field"
                async with connection.receiver("a" * 100, name="n" * 100):
                    await serve()
