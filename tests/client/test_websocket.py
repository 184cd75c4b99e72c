"""What holds over TCP holds over a WebSocket: cancelling at every checkpoint, closing in bounded time, uneasy peers.

The tests are those of the other files, with another `serve` under them; and some of what only a WebSocket can do.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import anyio
import pytest
from anyio.abc import ByteStream
from wsproto.connection import Connection as Wire
from wsproto.connection import ConnectionType
from wsproto.events import CloseConnection, Ping

from amqp10.broker import Broker
from amqp10.broker.internals import memory_streams
from amqp10.client import Connection
from amqp10.errors import ConnectionLost
from amqp10.net import TLS
from amqp10.testing import CertificateAuthority, ScriptedPeer

from ..kit.client.cancelling import CancelAt, at_each_checkpoint
from ..kit.client.peer import Serve, serving
from ..kit.inside.net import WebSocketStream
from ..kit.inside.net import pump as pump_module
from ..kit.net.connect_proxy import connect_proxy
from . import test_cancellation
from . import test_connection as connecting
from .receiving import test_cancelling_receivers

pytestmark = pytest.mark.anyio


def websockets() -> tuple[ByteStream, ByteStream]:
    here, there = memory_streams()
    client, server = Wire(ConnectionType.CLIENT), Wire(ConnectionType.SERVER)
    return WebSocketStream(here, client), WebSocketStream(there, server)


@pytest.fixture
def serve() -> Serve:
    """As everywhere, over a WebSocket."""
    return partial(serving, streams=websockets)


test_a_whole_life = test_cancellation.test_a_whole_life
test_sessions = test_cancellation.test_sessions
test_attaching_a_receiver = test_cancellation.test_attaching_a_receiver
test_leaving_a_sender = test_cancellation.test_leaving_a_sender
test_leaving_a_receiver = test_cancellation.test_leaving_a_receiver
test_send = test_cancellation.test_send
test_receive = test_cancelling_receivers.test_receive
test_drain = test_cancelling_receivers.test_drain
test_opens_and_closes = connecting.test_opens_and_closes
test_the_peer_closes = connecting.test_the_peer_closes
test_the_peer_closes_at_once = connecting.test_the_peer_closes_at_once
test_the_transport_ends_while_opening = connecting.test_the_transport_ends_while_opening
test_opening_is_cancelled = connecting.test_opening_is_cancelled
test_a_fault_of_our_own_is_not_hidden = connecting.test_a_fault_of_our_own_is_not_hidden


@pytest.mark.parametrize("way", ["websocket", "secure websocket through a proxy", "upgrade"])
async def test_connecting(way: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Cancelled at each step of the way, TCP, CONNECT, TLS, HTTP, SASL: nothing is left open, at either end."""
    authority = CertificateAuthority(tmp_path_factory.mktemp("authority"))
    files = authority.server()
    tls = None if way == "websocket" else TLS(certificate=files.certificate, key=files.key)
    mine = TLS(ca=authority.ca).client_context()
    with connect_proxy() as proxy:
        async with Broker(tls=tls, websocket=True) as broker:

            async def trial(cancel: CancelAt) -> None:
                if way == "websocket":
                    connection = Connection(broker.websocket_url)
                elif way == "upgrade":
                    connection = Connection(broker.url.replace("amqps", "amqp"), tls=mine, tls_upgrade=True)
                else:
                    connection = Connection(broker.websocket_url, tls=mine, proxy=proxy.url)

                async def life() -> None:
                    async with connection, connection.sender("q") as sender:
                        await sender.send("x")

                tasks = len(anyio.get_running_tasks())
                await cancel.run(life)
                with anyio.fail_after(60):
                    while broker.connections or len(anyio.get_running_tasks()) > tasks:  # noqa: ASYNC110 - there is no event to wait for
                        await anyio.sleep(0.001)

            await anyio.wait_all_tasks_blocked()
            await at_each_checkpoint(trial, 7)


async def test_closing_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A peer that has fallen silent, at AMQP and below it, holds the exit up no longer than both may take."""
    monkeypatch.setattr(pump_module, "LAST_WORDS", 0.1)
    async with ScriptedPeer() as peer, anyio.create_task_group() as tasks:
        here, there = websockets()
        tasks.start_soon(_relay, there, peer.connect())
        tasks.start_soon(peer.accept_connection)
        async with Connection.over(here, close_timeout=0.1):
            left = anyio.current_time()
        assert 0.09 <= anyio.current_time() - left < 4
        tasks.cancel_scope.cancel()


async def test_a_silent_websocket(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """AMQP was closed in order, and the WebSocket's closing is not answered: that is waited for LAST_WORDS at most."""
    monkeypatch.setattr(pump_module, "LAST_WORDS", 0.1)
    async with serve() as (peer, connection):
        monkeypatch.setattr(WebSocketStream, "aclose", _never(WebSocketStream.aclose))
        async with connection, connection.sender("q") as sender:
            await sender.send("x")
        assert peer.over


def _never(real: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A closing that does not end by itself."""

    async def aclose(self: Any) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            await real(self)

    return aclose


async def _relay(one: ByteStream, other: ByteStream) -> None:
    """Bytes both ways; the closing of one side is not told to the other."""

    async def copy(source: ByteStream, target: ByteStream) -> None:
        try:
            while True:
                await target.send(await source.receive())
        except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
            await anyio.sleep_forever()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(copy, one, other)
        tasks.start_soon(copy, other, one)


async def test_pings_are_answered(serve: Serve) -> None:
    """At once, by an idle connection, without a word of AMQP."""
    async with serve() as (peer, connection), connection:
        await anyio.wait_all_tasks_blocked()
        wire: Any = peer.stream._stream
        sent: list[bytes] = []
        wire._connection.receive_data = _note(wire._connection.receive_data, sent)
        await wire._stream.send(wire._connection.send(Ping(b"there?")))
        await anyio.wait_all_tasks_blocked()
        assert sent == [b"\x8a\x86"]
        async with connection.sender("q") as sender:
            await sender.send("still works")


def _note(real: Callable[[bytes], None], sent: list[bytes]) -> Callable[[bytes], None]:
    """The first two bytes of what comes in: opcode and length."""

    def receive_data(data: bytes) -> None:
        if len(sent) < 1:
            sent.append(data[:2])
        real(data)

    return receive_data


async def test_why_the_websocket_closed(serve: Serve) -> None:
    """A close code with a reason is the cause of the lost connection, and said in its error, in the peer's words."""
    async with serve() as (peer, connection):
        async with connection:
            wire: Any = peer.stream._stream
            await wire._stream.send(wire._connection.send(CloseConnection(1008, "token expired")))
            with pytest.raises(ConnectionLost) as caught:
                async with connection.sender("q") as sender:
                    await sender.send("x")
        assert "code 1008: token expired" in str(caught.value.__cause__)
        assert str(caught.value).endswith(": the peer closed the WebSocket with code 1008: token expired")


async def test_a_trace_sees_amqp(caplog: pytest.LogCaptureFixture) -> None:
    """Frames are traced as over TCP; the WebSocket's own are not AMQP's."""
    with caplog.at_level(10, "amqp10.frames"):
        async with Broker(websocket=True) as broker, Connection(broker.websocket_url):
            pass
    assert " > [0] Open(" in caplog.text
    assert " < [0] Close()" in caplog.text
