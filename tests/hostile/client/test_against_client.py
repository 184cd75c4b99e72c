"""A client whose server breaks each rule in turn: one clear error, the right words on the wire, in bounded time."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import anyio
import pytest

from amqp10 import (
    AmqpError,
    AuthenticationFailed,
    Connection,
    ConnectionClosed,
    ConnectionLost,
    DecodeError,
    LinkDetached,
    Reconnect,
    RemoteProtocolError,
    SessionEnded,
)
from amqp10.client.internals import STREAM_WINDOW, receiver_delivery
from amqp10.messaging import Error
from amqp10.sasl import Anonymous, Plain, ScramSha256, XOAuth2
from amqp10.testing import (
    Attach,
    Close,
    Detach,
    Disposition,
    End,
    Flow,
    SaslChallenge,
    SaslInit,
    SaslMechanisms,
    SaslResponse,
    ScriptedPeer,
    Transfer,
)

from ...kit.client.memory_peer import MemoryPeer
from ...kit.hostile.acts import (
    ACTS,
    ARRAY_BOMB,
    CHANNEL_MAX,
    CREDIT,
    HANDLE_MAX,
    HARMLESS,
    MAX_FRAME,
    MAX_MESSAGE,
    NOTHING,
    WINDOW,
    Act,
    frame,
    more,
    nested,
    raw,
    transfer,
    u32,
)

pytestmark = [pytest.mark.anyio, pytest.mark.in_memory]


async def set_up(peer: ScriptedPeer) -> None:
    """The connection, the session and the two links of the acts."""
    await peer.accept_connection()
    await peer.accept_session()
    await peer.accept_link()
    await peer.expect(Flow)
    await peer.accept_link(handle=1)


@pytest.mark.parametrize("act", ACTS, ids=lambda act: act.name)
async def test_act(memory_peer: MemoryPeer, act: Act) -> None:
    """The fault is answered at its level with its condition, and told with it there; closing is bounded.

    Who waits gets the same, or hears of what ended in order before.
    """
    entered = anyio.Event()
    async with anyio.create_task_group() as tasks:

        async def serve() -> None:
            await set_up(memory_peer)
            await entered.wait()
            await memory_peer.send_bytes(act.data)
            answer = await memory_peer.expect_any(act.answer, skip=(Flow, Disposition, *act.first))
            assert answer.error is not None
            assert answer.error.condition == act.condition
            await memory_peer.drop()

        tasks.start_soon(serve)
        connection = Connection(
            memory_peer.url,
            max_frame_size=MAX_FRAME,
            channel_max=CHANNEL_MAX,
            incoming_window=WINDOW,
            close_timeout=0.2,
        )
        with anyio.fail_after(60):
            async with connection, connection.session(incoming_window=WINDOW, handle_max=HANDLE_MAX) as session:
                async with session.receiver("q", credit=0, max_message_size=MAX_MESSAGE) as receiver:
                    receiver.add_credit(CREDIT)
                    async with session.sender("q"):
                        entered.set()
                        with pytest.raises(AmqpError) as waiting:
                            while True:
                                await receiver.receive()
                        levels: dict[type, Any] = {Detach: receiver, End: session, Close: connection}
                        level = levels[act.answer]
                        await level._core.until(lambda: level._core.over)
                        with pytest.raises(RemoteProtocolError) as caught:
                            raise level._core.gone()
    assert caught.value.condition == act.condition
    told = {Detach: LinkDetached, End: SessionEnded}[act.first[0]] if act.first else RemoteProtocolError
    assert type(waiting.value) is told
    assert waiting.value.condition == (None if act.first else act.condition)


@pytest.mark.parametrize("name", HARMLESS)
async def test_what_changes_nothing(memory_peer: MemoryPeer, name: str) -> None:
    """It is taken in at little cost, and the connection goes on."""
    async with anyio.create_task_group() as tasks:

        async def serve() -> None:
            await set_up(memory_peer)
            await memory_peer.send_bytes(HARMLESS[name])
            await memory_peer.send_bytes(transfer(HARMLESS[name].count(TRANSFER)))
            await memory_peer.expect_any(Detach, skip=(Flow, Disposition))
            await memory_peer.drop()

        tasks.start_soon(serve)
        with anyio.fail_after(60):
            async with Connection(memory_peer.url, max_frame_size=MAX_FRAME, close_timeout=0.2) as connection:
                async with connection.receiver("q", credit=CREDIT) as receiver, connection.sender("q"):
                    while receiver_delivery(await receiver.receive()).delivery_id != HARMLESS[name].count(TRANSFER):
                        pass


@pytest.mark.parametrize("mechanism", ["ANONYMOUS", "PLAIN", "SCRAM-SHA-256", "XOAUTH2"])
async def test_endless_sasl(memory_peer: MemoryPeer, mechanism: str) -> None:
    """A server that never stops challenging is given up, whatever the mechanism."""
    mechanisms = {
        "ANONYMOUS": Anonymous(),
        "PLAIN": Plain("user", "password"),
        "SCRAM-SHA-256": ScramSha256("user", "password"),
        "XOAUTH2": XOAuth2("user", "token"),
    }
    async with anyio.create_task_group() as tasks:

        async def serve() -> None:
            await memory_peer.expect_header()
            await memory_peer.send_bytes(b"AMQP\x03\x01\x00\x00")
            await memory_peer.send(SaslMechanisms(sasl_server_mechanisms=(mechanism,)))
            for _ in range(1000):
                await memory_peer.send(SaslChallenge(challenge=b"r=x,s=eA==,i=4096"))
                await memory_peer.expect_any(SaslResponse, skip=SaslInit)

        async def until_it_is_left() -> None:
            with pytest.raises(AssertionError):
                await serve()

        tasks.start_soon(until_it_is_left)
        with anyio.fail_after(60), pytest.raises(AmqpError):
            async with Connection(memory_peer.url, sasl=mechanisms[mechanism]):
                pass


async def test_costly_passwords(memory_peer: MemoryPeer) -> None:
    """A server cannot make the client compute for minutes: a SCRAM iteration count of 2^31 is refused."""
    async with anyio.create_task_group() as tasks:

        async def serve() -> None:
            await memory_peer.expect_header()
            await memory_peer.send_bytes(b"AMQP\x03\x01\x00\x00")
            await memory_peer.send(SaslMechanisms(sasl_server_mechanisms=("SCRAM-SHA-256",)))
            init = await memory_peer.expect(SaslInit)
            nonce = bytes(init.initial_response or b"").rpartition(b"r=")[2]
            await memory_peer.send(SaslChallenge(challenge=b"r=" + nonce + b"more,s=eA==,i=2147483647"))

        tasks.start_soon(serve)
        with anyio.fail_after(60), pytest.raises(AuthenticationFailed, match="iteration"):
            async with Connection(f"amqp://user:password@127.0.0.1:{memory_peer.port}"):
                pass


async def test_a_frame_that_never_ends(memory_peer: MemoryPeer) -> None:
    """Single bytes of a frame are no sign of life: the server is given up when its time is over."""
    async with anyio.create_task_group() as tasks:

        async def serve() -> None:
            await set_up(memory_peer)
            with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                for byte in raw(b"x" * 4000):
                    await memory_peer.send_bytes(bytes([byte]))
                    await anyio.sleep(0.02)

        tasks.start_soon(serve)
        with anyio.fail_after(60), pytest.raises(ConnectionLost, match="silent"):
            async with Connection(memory_peer.url, idle_timeout=0.4, close_timeout=0.1) as connection:
                async with connection.receiver("q", credit=CREDIT) as receiver, connection.sender("q"):
                    await receiver.receive()
        tasks.cancel_scope.cancel()


async def test_an_impatient_peer(memory_peer: MemoryPeer) -> None:
    """One that wants a heartbeat each half millisecond gets no storm of them."""
    async with anyio.create_task_group() as tasks:

        async def serve() -> None:
            await memory_peer.accept_connection(idle_time_out=1)
            began = anyio.current_time()
            for _ in range(10):
                await memory_peer.expect_empty()
            assert anyio.current_time() - began > 0.04
            await memory_peer.drop()
            tasks.cancel_scope.cancel()

        tasks.start_soon(serve)
        async with Connection(memory_peer.url, close_timeout=0.1):
            await anyio.sleep_forever()


async def test_a_window_that_is_overrun(memory_peer: MemoryPeer) -> None:
    """What is not read fills the window, and a frame beyond it ends the session."""
    async with anyio.create_task_group() as tasks:

        async def serve() -> None:
            await memory_peer.accept_receiver()
            endless = Transfer(handle=0, delivery_id=0, delivery_tag=b"0", more=True)
            head = b"\x00\x53\x75\xb0" + u32(1 << 30)  # of a body of a gigabyte
            await memory_peer.send_bytes(frame(endless, head) + more() * 2 * STREAM_WINDOW)
            end = await memory_peer.expect_any(End, skip=(Flow, Disposition))
            assert end.error is not None
            assert end.error.condition == "amqp:session:window-violation"
            await memory_peer.drop()

        tasks.start_soon(serve)
        with anyio.fail_after(60), pytest.raises(RemoteProtocolError) as caught:
            async with Connection(memory_peer.url, close_timeout=0.2) as connection:
                async with connection.receiver("q", stream=True) as receiver:
                    delivery = await receiver.receive()
                    await receiver._core.until(lambda: receiver._core.over)
                    async for _ in delivery.iter_body():
                        pass
        assert caught.value.condition == "amqp:session:window-violation"


TRANSFER = b"\x00\x53\x14"

BOMBS = {
    "array of 2^31 nulls": b"\x00\x53\x77\xf0" + ARRAY_BOMB,
    "list of 2^32": b"\x00\x53\x77\xd0" + u32(8) + u32(0xFFFFFFFF) + b"\x40" * 4,
    "map of 2^31": b"\x00\x53\x74\xd1" + u32(8) + u32(1 << 31) + b"\x40" * 4,
    "lists in lists": b"\x00\x53\x77" + nested(2000),
    "arrays in arrays": b"\x00\x53\x77" + b"\xf0\x00\xff\xff\xff\x7f\xff\xff\xff" * 500,
    "descriptors of descriptors": b"\x00\x53\x77" + b"\x00" * 4000,
}


async def test_messages_that_are_bombs(memory_peer: MemoryPeer) -> None:
    """Each is a `DecodeError` for who looks at it, in no time, and the next message is not concerned."""
    async with anyio.create_task_group() as tasks:

        async def serve() -> None:
            await set_up(memory_peer)
            for number, payload in enumerate(BOMBS.values()):
                transfer = Transfer(handle=0, delivery_id=number, delivery_tag=b"%d" % number)
                await memory_peer.send(transfer, payload)
            await memory_peer.send(Transfer(handle=0, delivery_id=len(BOMBS), delivery_tag=b"fine"), NOTHING)
            await memory_peer.expect_any(Detach, skip=(Flow, Disposition))
            await memory_peer.drop()

        tasks.start_soon(serve)
        with anyio.fail_after(60):
            async with Connection(memory_peer.url, close_timeout=0.2) as connection:
                async with connection.receiver("q", credit=CREDIT) as receiver, connection.sender("q"):
                    for _ in BOMBS:
                        with pytest.raises(DecodeError), await receiver.receive():
                            pytest.fail("it has a body")
                    assert (await receiver.receive()).message.body is None


async def test_a_streamed_message_of_zeros(memory_peer: MemoryPeer) -> None:
    """To a streaming receiver it is a `DecodeError`: it once ended the client by RecursionError."""
    async with anyio.create_task_group() as tasks:

        async def serve() -> None:
            await memory_peer.accept_connection()
            await memory_peer.accept_session()
            await memory_peer.accept_link(handle=0)
            await memory_peer.expect(Flow)
            await memory_peer.send(Transfer(handle=0, delivery_id=0, delivery_tag=b"0", more=True), bytes(5000))
            await memory_peer.send(Transfer(handle=0), bytes(5000))
            await memory_peer.send(Transfer(handle=0, delivery_id=1, delivery_tag=b"fine"), NOTHING)
            await memory_peer.expect_any(Detach, skip=(Flow, Disposition))
            await memory_peer.drop()

        tasks.start_soon(serve)
        with anyio.fail_after(60):
            async with Connection(memory_peer.url, close_timeout=0.2) as connection:
                async with connection.receiver("q", stream=True) as receiver:
                    with pytest.raises(DecodeError):
                        _ = (await receiver.receive()).message
                    assert (await receiver.receive()).tag == b"fine"


async def test_silence_from_the_start(memory_peer: MemoryPeer) -> None:
    """A server that accepts and says nothing is lost after the idle timeout, not waited for."""
    with anyio.fail_after(60), pytest.raises(ConnectionLost):
        async with Connection(memory_peer.url, idle_timeout=0.2, close_timeout=0.1):
            pass


async def test_a_byte_at_a_time(memory_peer: MemoryPeer) -> None:
    """A server that sends byte by byte is understood."""
    memory_peer.chunk(1)
    async with anyio.create_task_group() as tasks:

        async def serve() -> None:
            await set_up(memory_peer)
            await memory_peer.send_bytes(b"".join(map(transfer, range(CREDIT))))
            await memory_peer.expect_any(Detach, skip=(Flow, Disposition))
            await memory_peer.drop()

        tasks.start_soon(serve)
        async with Connection(memory_peer.url, close_timeout=0.2) as connection:
            async with connection.receiver("q", credit=CREDIT) as receiver, connection.sender("q"):
                for number in range(CREDIT):
                    assert (await receiver.receive()).tag == b"%d" % number


ENDINGS = {
    "detach": frame(Detach(handle=0, closed=True, error=Error("amqp:resource-deleted", "gone"))),
    "end": frame(End(error=Error("amqp:internal-error", "gone"))),
    "close": frame(Close(error=Error("amqp:connection:forced", "gone"))),
    "fault": transfer(7, handle=7),
    "garbage": bytes(8),
}


@pytest.mark.parametrize("reconnect", [False, True], ids=["once", "reconnect"])
@pytest.mark.parametrize("kind", ["sender", "receiver"])
@pytest.mark.parametrize("ending", ENDINGS)
async def test_an_attach_and_an_end_at_once(memory_peer: MemoryPeer, ending: str, kind: str, reconnect: bool) -> None:
    """A server that takes a link and ends it in the same breath: the reason is told, and no fault of ours hides it."""
    async with anyio.create_task_group() as tasks:

        async def end_it_at_once() -> None:
            await memory_peer.accept_connection()
            await memory_peer.accept_session()
            asked = await memory_peer.expect(Attach)
            answer = Attach(
                name=asked.name,
                handle=0,
                role=not asked.role,
                source=asked.source,
                target=asked.target,
                initial_delivery_count=0 if asked.role else None,
            )
            await memory_peer.send_bytes(frame(answer) + ENDINGS[ending])
            await memory_peer.expect_any(Detach, End, Close, skip=Flow)

        async def serve() -> None:
            while True:
                with suppress(AssertionError, anyio.BrokenResourceError, anyio.ClosedResourceError):
                    await end_it_at_once()
                await memory_peer.drop()
                await memory_peer.accept()

        async def use() -> None:
            async with Connection(memory_peer.url, close_timeout=0.2, reconnect=settings) as connection:
                if kind == "sender":
                    async with connection.sender("q") as sender:
                        await sender.send("x")
                else:
                    async with connection.receiver("q", credit=CREDIT) as receiver:
                        await receiver.receive()

        tasks.start_soon(serve)
        settings = Reconnect(initial_delay=0.001, max_delay=0.01) if reconnect else None
        caught: AmqpError | None = None
        try:
            with anyio.move_on_after(0.05 if reconnect else 20):
                await use()
        except AmqpError as error:
            caught = error
        tasks.cancel_scope.cancel()
    assert reconnect or caught is not None
    assert "own task failed" not in str(caught)


@pytest.mark.parametrize("never", [Detach, End, Close])
async def test_answers_that_never_come(memory_peer: MemoryPeer, never: type[Detach | End | Close]) -> None:
    """A detach, end or close that is never answered holds nobody up for longer than the close timeout."""
    async with anyio.create_task_group() as tasks:

        async def serve() -> None:
            await memory_peer.accept_connection()
            await memory_peer.accept_session()
            await memory_peer.accept_link(credit=1)
            while True:
                got = await memory_peer.expect_any(Detach, End, Close)
                if type(got) is never:
                    await anyio.sleep_forever()
                await memory_peer.reply(Detach(handle=0, closed=True) if isinstance(got, Detach) else type(got)())

        tasks.start_soon(serve)
        started = anyio.current_time()
        async with Connection(memory_peer.url, close_timeout=0.2) as connection:
            async with connection.session() as session, session.sender("q"):
                pass
        assert anyio.current_time() - started < 4
        tasks.cancel_scope.cancel()


async def test_a_close_in_the_middle(memory_peer: MemoryPeer) -> None:
    """A close without an error while everything works is told to who waits, as what it is."""
    async with anyio.create_task_group() as tasks:

        async def serve() -> None:
            await set_up(memory_peer)
            await memory_peer.send(Close())
            await memory_peer.expect_any(Close, skip=Flow)

        tasks.start_soon(serve)
        with pytest.raises(ConnectionClosed):
            async with Connection(memory_peer.url, close_timeout=0.2) as connection:
                async with connection.receiver("q") as receiver, connection.sender("q"):
                    await receiver.receive()
