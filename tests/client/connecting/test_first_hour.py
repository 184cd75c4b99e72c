"""What a program is told that connects in a wrong way, loses its connection, or closes it in a wrong place."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal

import anyio
import pytest
from anyio.abc import ByteStream, SocketAttribute

from amqp10 import Connection, ConnectionDetails, Delivery, LocalProtocolError, Message, Reconnect
from amqp10.broker import Broker
from amqp10.client import ConnectionGivenUp, ConnectionInterrupted
from amqp10.errors import AmqpError, AuthenticationFailed, ConnectionLost, EncodeError
from amqp10.messaging import ACCEPTED
from amqp10.net import TLS
from amqp10.sasl import Plain
from amqp10.testing import CertificateAuthority, FaultProxy

from ...kit.client.hosts import connecting, hosting
from ...kit.waiting import until

pytestmark = pytest.mark.anyio

DIALECTS = ("1.0", "0-10", "0-9-1", "0-9", "0-9-draft", "fast")


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> CertificateAuthority:
    """The authority that both sides trust."""
    return CertificateAuthority(tmp_path_factory.mktemp("authority"))


@asynccontextmanager
async def server(serve: Callable[[ByteStream], object]) -> AsyncIterator[int]:
    """A TCP server that does what it is told; its port."""
    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, serve)
        yield listener.extra(SocketAttribute.local_port)
        tasks.cancel_scope.cancel()


async def silent(stream: ByteStream) -> None:
    """Take everything, say nothing."""
    async with stream:
        async for _ in stream:
            pass


async def http(stream: ByteStream) -> None:
    """Answer as a web server does that is asked for nonsense."""
    async with stream:
        await stream.receive()
        await stream.send(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")


async def refused(url: str, **settings: object) -> AmqpError:
    """Why a connection was not made."""
    with anyio.fail_after(60), pytest.raises(AmqpError) as caught:
        async with Connection(url, **settings):  # type: ignore[arg-type,type-var]
            raise AssertionError("it was made")
    return caught.value


# Certificates


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_client_certificates(
    dialect: str, authority: CertificateAuthority, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """One that is missing or of another authority: the error says so. TLS 1.3 tells after the handshake."""
    files = authority.server()
    other = CertificateAuthority(tmp_path_factory.mktemp("other")).client("ann")
    tls = TLS(certificate=files.certificate, key=files.key, ca=authority.ca)
    async with Broker(tls=tls) as broker:
        missing = await refused(broker.url, tls=TLS(ca=authority.ca), dialect=dialect)
        assert isinstance(missing, ConnectionLost)
        assert "the peer wants a client certificate: TLS(certificate=..., key=...)" in str(missing)
        assert not getattr(missing, "__notes__", None)  # it speaks TLS
        foreign = await refused(
            broker.url, tls=TLS(ca=authority.ca, certificate=other.certificate, key=other.key), dialect=dialect
        )
        assert "does not accept the client certificate" in str(foreign)


async def test_expired_certificate(tmp_path: Path) -> None:
    """It is told apart."""
    for name in ("now", "late"):
        (tmp_path / name).mkdir()
    authority = CertificateAuthority(tmp_path / "now")
    files = authority.server()
    expired = CertificateAuthority(tmp_path / "late", lifetime=timedelta(seconds=-5))
    late = expired.client("ann")
    both = tmp_path / "both.pem"
    both.write_bytes(authority.ca.read_bytes() + expired.ca.read_bytes())
    async with Broker(tls=TLS(certificate=files.certificate, key=files.key, ca=both)) as broker:
        error = await refused(broker.url, tls=TLS(ca=authority.ca, certificate=late.certificate, key=late.key))
    assert "does not accept the client certificate: it has expired" in str(error)


# Another protocol there


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_tls_to_a_plain_port(dialect: str) -> None:
    """The error says that there is no TLS, and how such a URL begins."""
    async with Broker() as broker:
        error = await refused(broker.url.replace("amqp://", "amqps://"), dialect=dialect)
    assert "does not speak TLS: the URL of a port without it begins with amqp://" in str(error)


async def test_tls_settings_to_a_plain_port() -> None:
    """The URL is right, and the settings are not."""
    async with Broker() as broker:
        error = await refused(broker.url, tls=TLS())
    assert "does not speak TLS: leave out tls=" in str(error)
    async with server(silent) as port:
        error = await refused(f"amqp://127.0.0.1:{port}", tls=TLS(), connect_timeout=0.1)
    assert "did not open in 0.1 s: if that port speaks no TLS, leave out tls=" in str(error)


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_plain_to_a_tls_port(dialect: str, authority: CertificateAuthority) -> None:
    """The error says that there is TLS."""
    files = authority.server()
    async with Broker(tls=TLS(certificate=files.certificate, key=files.key)) as broker:
        error = await refused(broker.url.replace("amqps://", "amqp://"), dialect=dialect)
    assert "amqps://" in "".join([str(error), *getattr(error, "__notes__", [])])


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_http_server(dialect: str) -> None:
    """The error says what it is, at once."""
    async with server(http) as port:
        error = await refused(f"amqp://127.0.0.1:{port}", dialect=dialect)
    assert "an HTTP server" in str(error)


# Time


@pytest.mark.parametrize(("scheme", "other"), [("amqp", "amqps"), ("amqps", "amqp")])
async def test_silent_server(scheme: str, other: str) -> None:
    """Connecting has an end without any setting, TLS included; the error says what else the port may speak."""
    async with server(silent) as port:
        error = await refused(f"{scheme}://127.0.0.1:{port}", connect_timeout=0.1)
    assert isinstance(error, ConnectionLost)
    assert re.search(rf"did not open in 0\.1 s: .* begins with {other}://", str(error))
    assert str(error).endswith("; connect_timeout=... bounds the wait")
    assert ("else it may speak no AMQP at all" in str(error)) is (scheme == "amqp")


async def test_usual_limit() -> None:
    """It is 20 s, and has to be some time."""
    assert Connection("amqp://localhost")._core.supervisor._attempt_timeout == 20.0
    with pytest.raises(ValueError, match="connect_timeout must be more than 0 seconds, or None for no limit, not 0"):
        Connection("amqp://localhost", connect_timeout=0)


# Losses


@pytest.mark.parametrize("on_stale", ["raise", "ignore"])
async def test_stale_under_with(caplog: pytest.LogCaptureFixture, on_stale: Literal["raise", "ignore"]) -> None:
    """A worker with a task a message goes on after a loss: what it held comes again, and the log says so."""
    done = 0
    go_on = anyio.Event()

    async def work(delivery: Delivery) -> None:
        nonlocal done
        with delivery as message:
            await go_on.wait()
            assert message.body == "order"
        done += 1

    # Without `resume_timeout=0` links are resumed with all that they hold, as few brokers do.
    settings = Reconnect(initial_delay=0.01, resume_timeout=0, on_stale=on_stale)
    async with (
        Broker() as broker,
        FaultProxy(broker.url) as proxy,
        Connection(proxy.url, reconnect=settings) as connection,
    ):
        async with connection.sender("q") as sender, connection.receiver("q") as receiver:
            with anyio.fail_after(60):
                async with anyio.create_task_group() as tasks:
                    await sender.send("order")
                    tasks.start_soon(work, await receiver.receive())
                    await anyio.wait_all_tasks_blocked()
                    proxy.cut()
                    again = await receiver.receive()
                    assert again.message.delivery_count == 1
                    go_on.set()
                    await until(lambda: done == 1)
                    tasks.start_soon(work, again)
        assert done == 2
    assert broker.queue("q").depth == 0
    stale = [record for record in caplog.records if "is stale" in record.getMessage()]
    assert len(stale) == (on_stale == "raise")
    assert all(record.levelno == logging.WARNING and "'q'" in record.getMessage() for record in stale)


async def test_losses_are_warnings(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """Python's usual level shows them; a connection that is left in order says nothing at that level."""
    async with hosting(monkeypatch) as hosts:
        async with connecting() as connection:
            events = connection.events()
            await hosts.cut()
            await until(lambda: connection.open)
        told = [type(event) async for event in events]
    assert ConnectionInterrupted in told
    assert ConnectionGivenUp not in told
    levels = {vars(record)["amqp_event"]: record.levelname for record in caplog.records}
    assert levels["connection_lost"] == "WARNING"


async def test_an_error_that_is_raised_is_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    """Without `reconnect` whoever uses the connection gets the error: it is not written to standard error, too."""
    caplog.set_level("INFO", "amqp10.connection")
    with pytest.raises(AuthenticationFailed):
        async with Broker(users={"user": "secret"}) as broker, Connection(broker.url, sasl=Plain("user", "wrong")):
            pass
    (record,) = [record for record in caplog.records if record.name == "amqp10.connection"]
    assert (record.levelname, vars(record)["amqp_event"]) == ("INFO", "login_refused")


# Closing


async def test_closed_by_another_task() -> None:
    """The error says whose it is to close a connection, and the connection is gone."""
    async with Broker() as broker:
        caught: list[Exception] = []

        async def close(connection: Connection) -> None:
            try:
                await connection.__aexit__(None, None, None)
            except LocalProtocolError as error:
                caught.append(error)

        async with Connection(broker.url) as connection:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(close, connection)
            assert "a connection must be closed by the task that opened it" in str(caught[0])
            assert not connection.open
            await until(lambda: broker.connections == 0)


# Names


async def test_reprs() -> None:
    """They say what and where, in each state, and no secret."""
    async with Broker(users={"ann": "secret"}) as broker:
        url = broker.url.replace("amqp://", "amqp://ann:secret@")
        connection = Connection(url)
        assert re.fullmatch(r"<Connection to amqp://127\.0\.0\.1:\d+: not open yet>", repr(connection))
        async with connection:
            assert repr(connection).endswith(": open>")
            async with connection.sender("orders") as sender, connection.receiver("orders", name="me") as receiver:
                assert re.fullmatch(r"<Sender 'orders' \(link '.+'\) on amqp://127.*: open>", repr(sender))
                assert repr(receiver).startswith("<Receiver 'orders' (link 'me')")
                session = connection.session()
                assert repr(session).endswith(": not open yet>")
            assert repr(sender).endswith(": closed>")
        assert repr(connection).endswith(": closed>")
        assert "secret" not in repr((connection, sender, receiver, session))


# Settings of another type, and half a login


@pytest.mark.parametrize(
    ("url", "settings", "words"),
    [
        (None, {}, "url must be a str .*, not a NoneType; if an environment variable has it, look whether that is set"),
        ([None], {}, "url must be a str or a sequence of str .*, not a list; amqp://USER:PASSWORD@HOST is one"),
        (b"amqp://localhost", {}, "url must be a str .*, not a bytes"),
        (5672, {}, "url must be a str .*, not an int"),
        ("amqp://localhost", {"tls": True}, "tls must be a TLS or an SSLContext or None, not a bool; .* amqps://"),
        ("amqp://localhost", {"sasl": ("ann", "secret")}, r"sasl must be a Mechanism .*, not a tuple; amqp10\.Plain"),
        ("amqp://localhost", {"sasl": "PLAIN"}, "sasl must be a Mechanism"),
        ("amqp://localhost", {"reconnect": True}, r"reconnect must be a Reconnect or None, not True"),
    ],
)
def test_settings_of_another_type(url: Any, settings: Any, words: str) -> None:
    """They are refused at once, by the name of the argument, and no secret is repeated."""
    with pytest.raises(TypeError, match=words) as caught:
        Connection(url, **settings)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("said", [lambda: None, lambda: ConnectionDetails("amqp://localhost", tls=True)])  # type: ignore[arg-type]
async def test_details_of_another_type(said: Any) -> None:
    """The same where a callable says them."""
    with anyio.fail_after(60), pytest.raises(TypeError, match=r"no URL given|tls must be a TLS"):
        async with Connection(said):
            raise AssertionError("it was made")


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_no_password(dialect: str) -> None:
    """A URL with a user and without a password raises an error that says so."""
    async with Broker(users={"ann": "secret"}) as broker:
        error = await refused(broker.url.replace("amqp://", "amqp://ann@"), dialect=dialect)
    assert isinstance(error, AuthenticationFailed)
    assert "the URL names a user and no password" in "".join(error.__notes__)


# Calls that are not meant so


async def test_a_list_of_messages() -> None:
    """The error names what sends several."""
    async with Broker() as broker, broker.connect() as connection, connection.sender("q") as sender:
        with pytest.raises(EncodeError, match="use send_many for several messages"):
            await sender.send([Message("a"), Message("b")])
        with pytest.raises(EncodeError, match=r"a set has no AMQP type: make it a list$"):
            await sender.send([{1}])


async def test_two_tasks_receive() -> None:
    """The second is told in a whole sentence."""
    async with Broker() as broker, broker.connect() as connection, connection.receiver("q") as receiver:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(receiver.receive)
            await anyio.wait_all_tasks_blocked()
            with pytest.raises(
                anyio.BusyResourceError, match=r"^another task is already receiving from this receiver$"
            ):
                await receiver.receive()
            tasks.cancel_scope.cancel()


async def test_another_event_loop(serve: Callable[..., Any]) -> None:
    """Nothing would wake who waits in an event loop that is not the connection's: that is said, and nothing is sent."""
    async with (
        serve() as (peer, connection),
        connection,
        connection.sender("q") as sender,
        connection.receiver("r") as receiver,
    ):
        peer.outcome = None
        delivery = await sender.submit("first")
        await until(lambda: peer.received)
        calls: list[Callable[[], Awaitable[object]]] = [
            lambda: sender.send("other"),
            lambda: sender.send_encoded(Message("other").encode()),
            lambda: sender.send_many(["other"]),
            delivery.outcome,
            receiver.receive,
            connection.sender("s").__aenter__,
            connection.session().__aenter__,
        ]
        said: list[str] = []

        async def use() -> None:
            for call in calls:
                with pytest.raises(LocalProtocolError) as caught:
                    await call()
                said.append(str(caught.value))

        # As where a test's fixture and its body, or two threads of a program, have event loops of their own.
        await anyio.to_thread.run_sync(asyncio.run, use())
        assert len(said) == len(calls)
        assert all("was opened in another event loop" in each for each in said)
        assert peer.bodies() == ["first"]
        link = peer.links["q"]
        link.settle(next(iter(link.unsettled.values())), ACCEPTED)
        peer.pump.wake()
        assert await delivery.outcome() == ACCEPTED


async def test_no_user() -> None:
    """The error says what is missing, not only what is offered."""
    async with Broker(users={"ann": "secret"}) as broker:
        said = str(await refused(broker.url))
        assert said.endswith("no user is given, by the URL (amqp://USER:PASSWORD@...) or by sasl=")


async def test_no_user_but_a_certificate(authority: CertificateAuthority) -> None:
    """A server that takes certificates for a login offers EXTERNAL: the error names that, too."""
    server, client = authority.server("localhost", "127.0.0.1"), authority.client("ann")
    taken = TLS(certificate=server.certificate, key=server.key, ca=authority.ca)
    shown = TLS(ca=authority.ca, certificate=client.certificate, key=client.key)
    async with Broker(tls=taken, users={"ann": "secret"}) as broker:
        assert str(await refused(broker.url, tls=shown)).endswith("sasl=External() logs in by the certificate of tls=")
