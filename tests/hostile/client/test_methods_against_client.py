"""A client whose server of AMQP 0-9-1 or its kin breaks each rule in turn: one clear error, the right code, in time."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any

import anyio
import pytest

from amqp10 import (
    AmqpError,
    AuthenticationFailed,
    Connection,
    ConnectionClosed,
    ConnectionLost,
    LinkDetached,
    Reconnect,
    RemoteProtocolError,
    RequestRefused,
    TransactionInDoubt,
    amqp091,
)
from amqp10.broker.internals import memory_streams
from amqp10.dialects.v0_9.codes import condition_of
from amqp10.dialects.v0_9.wire.method_table import Method
from amqp10.dialects.v0_9.wire.methods import (
    BasicAck,
    BasicConsume,
    BasicDeliver,
    BasicNack,
    BasicPublish,
    BasicReject,
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    ChannelOpenOk,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionSecure,
    ConnectionSecureOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
    QueueDeclare,
    QueueDeclareOk,
    TxCommit,
    TxCommitOk,
    TxSelect,
    TxSelectOk,
)
from amqp10.dialects.v0_9.wire.variant import V0_9, V0_9_1, V0_9_DRAFT, Variant
from amqp10.sasl import Plain, ScramSha256

from ...kit.dialects.v0_9.method_peer import MethodPeer
from ...kit.hostile.method_acts import AT_CLIENT, Act, coded, header, nested, raw

pytestmark = [pytest.mark.anyio, pytest.mark.in_memory]

VARIANTS = [V0_9_1, *(pytest.param(each, marks=pytest.mark.slow) for each in (V0_9, V0_9_DRAFT))]
MAX_MESSAGE = 20_000
Serve = Callable[[MethodPeer], Coroutine[Any, Any, None]]


@asynccontextmanager
async def against(
    variant: Variant, serve: Serve, close_timeout: float = 0.2, **settings: Any
) -> AsyncIterator[Connection]:
    """A connection to a server that does as it likes."""
    here, there = memory_streams()
    async with MethodPeer.over(there, variant) as peer:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(serve, peer)
            with anyio.fail_after(60):
                yield Connection.over(here, secure=True, dialect=variant.name, close_timeout=close_timeout, **settings)


async def links(connection: Connection) -> None:
    """A link of each kind, for as long as there is something to receive."""
    async with connection, connection.sender("q"):
        async with connection.receiver("q", credit=10, max_message_size=MAX_MESSAGE) as receiver:
            while True:
                (await receiver.receive()).accept()


async def set_up(peer: MethodPeer) -> None:
    await peer.accept_connection()
    await peer.accept_sender()
    await peer.accept_receiver()


@pytest.mark.parametrize("variant", VARIANTS, ids=["0-9-1", "0-9", "0-9-draft"])
@pytest.mark.parametrize("act", AT_CLIENT, ids=lambda act: act.name)
async def test_act(act: Act, variant: Variant) -> None:
    """The server is told the code, whoever waits gets an error that says the same, and closing is bounded."""
    code = act.code_in(variant)

    async def serve(peer: MethodPeer) -> None:
        await set_up(peer)
        await peer.send_bytes(act.octets(variant))
        if not code:
            await peer.expect_end()
        elif act.level == "channel":
            closed = await peer.expect(ChannelClose)
            assert (closed.reply_code, peer.channel) == (code, 1)
            await peer.send(1, ChannelCloseOk())
            await peer.send(0, ConnectionClose(320, "enough"))
        else:
            over = await peer.expect(ConnectionClose)
            assert over.reply_code == code, over
            assert over.reply_text
            await peer.expect_end()

    async with against(variant, serve, close_timeout=20 if act.level == "channel" else 0.2) as connection:
        with pytest.raises(AmqpError) as caught:
            await links(connection)
    if act.level == "channel":
        assert isinstance(caught.value, ConnectionClosed)
    else:
        assert type(caught.value) is RemoteProtocolError
        assert not code or caught.value.condition == condition_of(code)


@pytest.mark.parametrize("variant", VARIANTS, ids=["0-9-1", "0-9", "0-9-draft"])
@pytest.mark.parametrize("size", [MAX_MESSAGE + 1, 1 << 62])
async def test_a_message_that_is_too_large(variant: Variant, size: int) -> None:
    """It is refused by what its header says, and with it its channel only."""

    async def serve(peer: MethodPeer) -> None:
        await set_up(peer)
        await peer.send(2, BasicDeliver("r", 1, False, "", "q"))
        await peer.send_bytes(header(size, channel=2)(variant) + raw(3, 2, b"x" * 4000)(variant))
        closed = await peer.expect(ChannelClose)
        assert (closed.reply_code, peer.channel) == (311, 2)
        with suppress(anyio.BrokenResourceError):
            await peer.send(2, ChannelCloseOk())
            await peer.expect(ChannelClose)
            await peer.send(1, ChannelCloseOk())
            await peer.expect(ConnectionClose)
            await peer.send(0, ConnectionCloseOk())

    async with against(variant, serve) as connection:
        with pytest.raises(LinkDetached) as caught:
            await links(connection)
    assert caught.value.condition == "amqp:link:message-size-exceeded"


async def test_before_the_login() -> None:
    """The user gets a class of `amqp10.errors`, not the dialect's own."""

    async def serve(peer: MethodPeer) -> None:
        await peer.expect_header()
        await peer.send(0, ConnectionTune(0, 131_072, 0))
        await peer.expect_end()

    async with against(V0_9_1, serve) as connection:
        with pytest.raises(RemoteProtocolError, match=r"connection\.tune") as caught:
            await links(connection)
    assert type(caught.value) is RemoteProtocolError


BOMBS = {
    "a table of 4 GiB": b"\xff\xff\xff\xff",
    "an array of 4 GiB": b"\0\0\0\x07\1aA\xff\xff\xff\xff",
    "nested 1,000 deep": len(nested(1000)).to_bytes(4, "big") + nested(1000),
    "nothing": b"",
}


@pytest.mark.parametrize("name", BOMBS)
async def test_properties_that_are_none(name: str) -> None:
    """Of the server, before anything was said to it: nothing is said by then, but to whoever waits."""

    async def serve(peer: MethodPeer) -> None:
        await peer.expect_header()
        await peer.send_bytes(coded(ConnectionStart, b"\0\x09" + BOMBS[name], 0)(V0_9_1))
        await peer.expect_end()

    async with against(V0_9_1, serve) as connection:
        with pytest.raises(RemoteProtocolError) as caught:
            await links(connection)
    assert caught.value.condition == "amqp:decode-error"


@pytest.mark.parametrize("mechanism", [Plain("u", "p"), ScramSha256("u", "p")], ids=["PLAIN", "SCRAM"])
async def test_a_login_without_end(mechanism: Plain | ScramSha256) -> None:
    """A server that never stops challenging is given up, whatever the mechanism."""

    async def serve(peer: MethodPeer) -> None:
        await peer.expect_header()
        await peer.send(0, ConnectionStart(mechanisms=mechanism.name.encode()))
        await peer.expect(ConnectionStartOk)
        with suppress(anyio.EndOfStream, anyio.BrokenResourceError, AssertionError):
            for _ in range(1000):
                await peer.send(0, ConnectionSecure(b"again"))
                await peer.expect(ConnectionSecureOk)
            pytest.fail("it went on for a thousand times")

    async with against(V0_9_1, serve, sasl=mechanism) as connection:
        with pytest.raises((RemoteProtocolError, AuthenticationFailed)):
            await links(connection)


@pytest.mark.parametrize("tune", [ConnectionTune(1, 100, 0), ConnectionTune(0, 4095, 0)])
async def test_frames_too_small(tune: ConnectionTune) -> None:
    """No frame may be smaller than 4,096 octets (§1.4.2.5 of 0-9-1): such a server is told so."""

    async def serve(peer: MethodPeer) -> None:
        await peer.expect_header()
        await peer.send(0, ConnectionStart(mechanisms=b"ANONYMOUS"))
        await peer.expect(ConnectionStartOk)
        await peer.send(0, tune)
        assert (await peer.expect(ConnectionClose)).reply_code == 501

    async with against(V0_9_1, serve) as connection:
        with pytest.raises(RemoteProtocolError):
            await links(connection)


async def test_one_channel() -> None:
    """What the server does not have room for is refused here, and before anything is written."""

    async def serve(peer: MethodPeer) -> None:
        await peer.expect_header()
        await peer.send(0, ConnectionStart(mechanisms=b"ANONYMOUS"))
        await peer.expect(ConnectionStartOk)

        await peer.send(0, ConnectionTune(1, 4096, 0))
        assert (await peer.expect(ConnectionTuneOk)).channel_max == 1
        await peer.expect(ConnectionOpen)
        await peer.send(0, ConnectionOpenOk())
        await peer.accept_sender()
        await peer.expect(ChannelClose)
        await peer.send(1, ChannelCloseOk())
        await peer.expect(ConnectionClose)
        await peer.send(0, ConnectionCloseOk())

    async with against(V0_9_1, serve, close_timeout=20) as connection:
        with pytest.raises(AmqpError, match="1 channel"):
            await links(connection)


async def test_a_server_that_answers_nothing() -> None:
    """Neither the end of a link nor that of the connection: leaving is bounded by `close_timeout`."""

    async def serve(peer: MethodPeer) -> None:
        await set_up(peer)
        await peer.expect(ChannelClose)
        await peer.expect(ChannelClose)
        with suppress(anyio.EndOfStream, anyio.BrokenResourceError):
            await peer.expect(ConnectionClose)
            await peer.expect_end()

    async with against(V0_9_1, serve) as connection:
        began = anyio.current_time()
        with suppress(AmqpError):
            async with connection, connection.sender("q"), connection.receiver("q", credit=10):
                began = anyio.current_time()
        assert anyio.current_time() - began < 4


async def test_a_frame_that_never_ends() -> None:
    """Single octets of a frame are no sign of life: the server is given up when its time is over."""

    async def serve(peer: MethodPeer) -> None:
        await set_up(peer)
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            for octet in raw(1, 0, b"x" * 4000)(V0_9_1):
                await peer.send_bytes(bytes([octet]))
                await anyio.sleep(0.02)
            pytest.fail("it was listened to")

    async with against(V0_9_1, serve, idle_timeout=0.6) as connection:
        with pytest.raises(ConnectionLost, match="silent"):
            await links(connection)


async def test_confirms_and_deliveries_twice() -> None:
    """A confirm that came already changes nothing; one delivery more than asked for is no loss."""

    async def serve(peer: MethodPeer) -> None:
        await peer.accept_connection()
        channel = await peer.accept_sender()
        await peer.expect(BasicPublish)
        await peer.send(channel, *[BasicAck(1)] * 5, BasicAck(0, True), BasicAck(1, True))
        await peer.expect(BasicPublish)
        await peer.send(channel, BasicAck(2))
        await peer.expect(ChannelClose)
        await peer.send(channel, ChannelCloseOk())
        await peer.expect(ConnectionClose)
        await peer.send(0, ConnectionCloseOk())

    async with against(V0_9_1, serve, close_timeout=20) as connection:
        async with connection, connection.sender("q") as sender:
            await sender.send(b"1")
            await sender.send(b"2")


@pytest.mark.parametrize("variant", VARIANTS, ids=["0-9-1", "0-9", "0-9-draft"])
@pytest.mark.parametrize("confirm", [BasicAck(0), BasicNack(0)], ids=lambda confirm: confirm.name)
async def test_a_confirm_of_no_publish(confirm: Method, variant: Variant) -> None:
    """Publishes count from 1, and only with `multiple` is 0 all of them: else whoever waits would wait for ever."""

    async def serve(peer: MethodPeer) -> None:
        await peer.accept_connection()
        channel = await peer.accept_sender()
        await peer.expect(BasicPublish)
        await peer.send(channel, confirm)
        assert (await peer.expect(ChannelClose)).reply_code == 406
        await peer.send(channel, ChannelCloseOk())
        await peer.expect(ConnectionClose)
        await peer.send(0, ConnectionCloseOk())

    async with against(variant, serve, close_timeout=20) as connection:
        with pytest.raises(RemoteProtocolError, match="a confirm of publish 0") as caught:
            await sending(connection)
    assert caught.value.condition == "amqp:precondition-failed"


@pytest.mark.parametrize("variant", VARIANTS, ids=["0-9-1", "0-9", "0-9-draft"])
@pytest.mark.parametrize("code", [0, 200, 320, 506, 541])
async def test_a_close_during_the_login(code: int, variant: Variant) -> None:
    """A server that goes down, or is too busy, has not refused the login: with `reconnect` the client tries again."""

    async def serve(peer: MethodPeer) -> None:
        await peer.expect_header()
        await peer.send(0, ConnectionStart(mechanisms=b"ANONYMOUS"))
        await peer.expect(ConnectionStartOk)
        await peer.send(0, ConnectionClose(code, "bye"))
        await peer.expect(ConnectionCloseOk)

    async with against(variant, serve) as connection:
        with pytest.raises(ConnectionClosed) as caught:
            await links(connection)
    assert caught.value.condition == (None if code in (0, 200) else condition_of(code))


@pytest.mark.parametrize("variant", VARIANTS, ids=["0-9-1", "0-9", "0-9-draft"])
@pytest.mark.parametrize("answers", [(TxCommitOk(),), (TxSelectOk(), TxSelectOk(), TxCommitOk())], ids=["none", "two"])
async def test_a_commit_without_its_select(answers: tuple[Method, ...], variant: Variant) -> None:
    """A server that does not answer tx.select once has not said that it commits a transaction."""

    async def serve(peer: MethodPeer) -> None:
        await peer.accept_connection()
        await peer.accept_sender()
        await peer.expect(ChannelOpen)
        await peer.send(2, ChannelOpenOk())
        await peer.expect(TxSelect)
        await peer.expect(BasicPublish)
        await peer.expect(TxCommit)
        await peer.send(2, *answers)
        assert (await peer.expect(ConnectionClose)).reply_code == 503
        await peer.expect_end()

    async with against(variant, serve) as connection:
        with pytest.raises(TransactionInDoubt):
            async with connection, connection.sender("q") as sender, connection.transaction() as transaction:
                await sender.send(b"m", transaction=transaction)


@pytest.mark.parametrize("waiting", ["attaching", "declaring"])
async def test_a_refusal_that_repeats_the_password(waiting: str) -> None:
    """Neither what ends a link nor what refuses a request shows it."""
    program, *_ = WAITING[waiting]

    async def serve(peer: MethodPeer) -> None:
        await peer.accept_connection()
        await peer.expect(ChannelOpen)
        await peer.send(1, ChannelClose(404, "hunter2 may not"))
        await peer.expect(ChannelCloseOk, (QueueDeclare,))
        await peer.expect(ConnectionClose)
        await peer.send(0, ConnectionCloseOk())

    async with against(V0_9_1, serve, close_timeout=20, sasl=Plain("user", "hunter2")) as connection:
        with pytest.raises((LinkDetached, RequestRefused)) as caught:
            await program(connection)
    assert caught.value.description == "<secret> may not"
    assert "hunter2" not in repr(caught.value)


async def test_after_our_close() -> None:
    """What a server goes on saying on a channel that is being closed is dropped, content and all."""

    async def serve(peer: MethodPeer) -> None:
        await peer.accept_connection()
        channel, tag = await peer.accept_receiver()
        await peer.expect(ChannelClose, skip=(BasicReject,))
        for number in range(1, 100):
            deliver = peer.method(channel, BasicDeliver(tag, number, False, "", "q"))
            await peer.send_bytes(deliver + peer.content(channel, b"x" * 100))
        await peer.send(channel, ChannelClose(320, "too"), ChannelCloseOk())
        await peer.expect(ChannelCloseOk)
        await peer.expect(ConnectionClose)
        await peer.send(0, ConnectionCloseOk())

    async with against(V0_9_1, serve, close_timeout=20) as connection:
        async with connection, connection.receiver("q", credit=10):
            pass


async def sending(connection: Connection) -> None:
    """Wait for an outcome."""
    async with connection, connection.sender("q") as sender:
        await sender.send(b"m")


async def receiving(connection: Connection) -> None:
    """Wait for a message."""
    async with connection, connection.receiver("q", credit=10) as receiver:
        await receiver.receive()


async def declaring(connection: Connection) -> None:
    """Wait for the answer to a request."""
    async with connection:
        await amqp091.native(connection).declare_queue("q")


WAITING: dict[str, tuple[Any, Callable[[MethodPeer], Coroutine[Any, Any, Any]], type[Method], type[AmqpError]]] = {
    "sending": (sending, MethodPeer.accept_sender, BasicPublish, LinkDetached),
    "receiving": (receiving, MethodPeer.accept_receiver, BasicConsume, LinkDetached),
    "attaching": (receiving, MethodPeer.accept_connection, ChannelOpen, LinkDetached),
    "declaring": (declaring, MethodPeer.accept_connection, QueueDeclare, RequestRefused),
}


@pytest.mark.parametrize("variant", VARIANTS, ids=["0-9-1", "0-9", "0-9-draft"])
@pytest.mark.parametrize("code", [0, 200])
@pytest.mark.parametrize("waiting", WAITING)
async def test_a_close_without_an_error(waiting: str, code: int, variant: Variant) -> None:
    """A server closes a channel with the code of success: whoever waits is told that the server did it, and why not."""
    program, accept, until, error = WAITING[waiting]

    async def serve(peer: MethodPeer) -> None:
        await peer.accept_connection()
        if accept is not MethodPeer.accept_connection:
            await accept(peer)
        if until is not BasicConsume:  # `accept_receiver` has taken that
            await peer.expect(until, (ChannelOpen,))
        await peer.send(1, ChannelClose(code, "bye"))
        await peer.expect(ChannelCloseOk, (QueueDeclare,))
        await peer.expect(ConnectionClose)
        await peer.send(0, ConnectionCloseOk())

    async with against(variant, serve, close_timeout=20) as connection:
        with pytest.raises(error) as caught:
            await program(connection)
    assert isinstance(caught.value, LinkDetached | RequestRefused)
    assert caught.value.condition is None


async def test_links_come_back_after_a_close_without_an_error() -> None:
    """As they do in AMQP 1.0 after a detach without an error, with `reconnect`."""

    async def serve(peer: MethodPeer) -> None:
        await peer.accept_connection()
        await peer.accept_sender()
        await peer.expect(BasicPublish)
        await peer.send(1, ChannelClose(200, "bye"))
        await peer.expect(ChannelCloseOk)
        await peer.accept_sender()
        await peer.expect(BasicPublish)
        await peer.send(peer.channel, BasicAck(1))
        await peer.expect(ChannelClose)
        await peer.send(peer.channel, ChannelCloseOk())
        await peer.expect(ConnectionClose)
        await peer.send(0, ConnectionCloseOk())

    async with MethodPeer() as peer, anyio.create_task_group() as tasks:
        tasks.start_soon(serve, peer)
        with anyio.fail_after(60):
            await sending(Connection(peer.url, dialect="0-9-1", reconnect=Reconnect()))


async def test_requests_after_a_close_without_an_error() -> None:
    """The next request opens another channel."""

    async def serve(peer: MethodPeer) -> None:
        await peer.accept_connection()
        await peer.expect(ChannelOpen)
        await peer.send(1, ChannelClose(200, "bye"))
        await peer.expect(ChannelCloseOk, (QueueDeclare,))
        await peer.expect(ChannelOpen)
        await peer.send(peer.channel, ChannelOpenOk())
        await peer.expect(QueueDeclare)
        await peer.send(peer.channel, QueueDeclareOk("q"))
        await peer.expect(ChannelClose)
        await peer.send(peer.channel, ChannelCloseOk())
        await peer.expect(ConnectionClose)
        await peer.send(0, ConnectionCloseOk())

    async with against(V0_9_1, serve, close_timeout=20) as connection, connection:
        native = amqp091.native(connection)
        with pytest.raises(RequestRefused):
            await native.declare_queue("q")
        assert (await native.declare_queue("q")).name == "q"


async def test_deliveries_without_end() -> None:
    """A server that goes by no prefetch is told so when the receiver keeps far more than it has asked for."""
    count = 0

    async def serve(peer: MethodPeer) -> None:
        nonlocal count
        await peer.accept_connection()
        await peer.accept_receiver()
        heard = anyio.Event()

        async def deliver() -> None:
            nonlocal count
            while not heard.is_set() and count < 100_000:
                count += 1
                await peer.send_bytes(peer.method(1, BasicDeliver("r", count, False, "", "q")) + peer.content(1, b"m"))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(deliver)
            assert (await peer.expect(ChannelClose)).reply_code == 506
            heard.set()
        await peer.send(1, ChannelCloseOk())
        await peer.expect(ConnectionClose)
        await peer.send(0, ConnectionCloseOk())

    async with against(V0_9_1, serve, close_timeout=20) as connection:
        with pytest.raises(RemoteProtocolError, match="beyond the credit"):
            async with connection, connection.receiver("q", credit=10) as receiver:
                await anyio.sleep(1)
                while True:
                    await receiver.receive()
    assert count < 3000
