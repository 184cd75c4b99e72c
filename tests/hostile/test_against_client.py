"""A client whose server breaks each rule in turn: one clear error, the right words on the wire, in bounded time."""

from __future__ import annotations

import anyio
import pytest

from amqp10 import (
    AmqpError,
    Connection,
    ConnectionClosed,
    ConnectionLost,
    RemoteProtocolError,
)
from amqp10.testing import (
    Close,
    Detach,
    Disposition,
    End,
    Flow,
    SaslChallenge,
    SaslMechanisms,
    SaslResponse,
    ScriptedPeer,
)

from ._acts import ACTS, CHANNEL_MAX, CREDIT, HANDLE_MAX, MAX_FRAME, WINDOW, Act, judge, transfer

pytestmark = pytest.mark.anyio


async def set_up(peer: ScriptedPeer) -> None:
    """The connection, the session and the two links of the acts."""
    await peer.accept_connection()
    await peer.accept_session()
    await peer.accept_link()
    await peer.expect(Flow)
    await peer.accept_link(handle=1)


@pytest.mark.parametrize("act", ACTS, ids=lambda act: act.name)
async def test_act(amqp_peer: ScriptedPeer, act: Act) -> None:
    """The fault is answered at its level with its condition; whoever waits gets an error, and closing is bounded."""
    async with anyio.create_task_group() as tasks:

        async def serve() -> None:
            await set_up(amqp_peer)
            await amqp_peer.send_bytes(act.data)
            answer = await amqp_peer.expect_any(act.answer, skip=(Flow, Disposition))
            assert judge(act)(answer.error.condition if answer.error else None), answer
            await amqp_peer.drop()

        tasks.start_soon(serve)
        connection = Connection(
            amqp_peer.url, max_frame_size=MAX_FRAME, channel_max=CHANNEL_MAX, incoming_window=WINDOW, close_timeout=0.2
        )
        with anyio.fail_after(5), pytest.raises(AmqpError) as caught:
            async with connection, connection.session(incoming_window=WINDOW, handle_max=HANDLE_MAX) as session:
                async with session.receiver("q", credit=0) as receiver:
                    receiver.add_credit(CREDIT)
                    async with session.sender("q"):
                        while True:
                            await receiver.receive()
    if isinstance(caught.value, RemoteProtocolError):
        assert act.condition in (None, caught.value.condition)


async def test_endless_sasl(amqp_peer: ScriptedPeer) -> None:
    """A server that never stops challenging is given up."""
    async with anyio.create_task_group() as tasks:

        async def serve() -> None:
            await amqp_peer.expect_header()
            await amqp_peer.send_bytes(b"AMQP\x03\x01\x00\x00")
            await amqp_peer.send(SaslMechanisms(sasl_server_mechanisms=("SCRAM-SHA-256",)))
            with anyio.CancelScope():
                for _ in range(1000):
                    await amqp_peer.send(SaslChallenge(challenge=b"r=x,s=eA==,i=4096"))
                    await amqp_peer.expect_any(SaslResponse)

        async def ignore_mismatch() -> None:
            with pytest.raises(AssertionError):
                await serve()

        tasks.start_soon(ignore_mismatch)
        with anyio.fail_after(5), pytest.raises(AmqpError):
            async with Connection(f"amqp://user:password@127.0.0.1:{amqp_peer.port}"):
                pass


async def test_silence_from_the_start(amqp_peer: ScriptedPeer) -> None:
    """A server that accepts and says nothing is lost after the idle timeout, not waited for."""
    with anyio.fail_after(5), pytest.raises(ConnectionLost):
        async with Connection(amqp_peer.url, idle_timeout=0.2, close_timeout=0.1):
            pass


async def test_a_byte_at_a_time(amqp_peer: ScriptedPeer) -> None:
    """A server that sends byte by byte is understood."""
    amqp_peer.chunk(1)
    async with anyio.create_task_group() as tasks:

        async def serve() -> None:
            await set_up(amqp_peer)
            await amqp_peer.send_bytes(b"".join(map(transfer, range(CREDIT))))
            await amqp_peer.expect_any(Detach, skip=(Flow, Disposition))
            await amqp_peer.drop()

        tasks.start_soon(serve)
        async with Connection(amqp_peer.url, close_timeout=0.2) as connection:
            async with connection.receiver("q", credit=CREDIT) as receiver, connection.sender("q"):
                for number in range(CREDIT):
                    assert (await receiver.receive()).tag == b"%d" % number


@pytest.mark.parametrize("never", [Detach, End, Close])
async def test_answers_that_never_come(amqp_peer: ScriptedPeer, never: type[Detach | End | Close]) -> None:
    """A detach, end or close that is never answered holds nobody up for longer than the close timeout."""
    async with anyio.create_task_group() as tasks:

        async def serve() -> None:
            await amqp_peer.accept_connection()
            await amqp_peer.accept_session()
            await amqp_peer.accept_link(credit=1)
            while True:
                got = await amqp_peer.expect_any(Detach, End, Close)
                if type(got) is never:
                    await anyio.sleep_forever()
                await amqp_peer.reply(Detach(handle=0, closed=True) if isinstance(got, Detach) else type(got)())

        tasks.start_soon(serve)
        started = anyio.current_time()
        async with Connection(amqp_peer.url, close_timeout=0.2) as connection:
            async with connection.session() as session, session.sender("q"):
                pass
        assert anyio.current_time() - started < 3
        tasks.cancel_scope.cancel()


async def test_a_close_in_the_middle(amqp_peer: ScriptedPeer) -> None:
    """A close without an error while everything works is told to who waits, as what it is."""
    async with anyio.create_task_group() as tasks:

        async def serve() -> None:
            await set_up(amqp_peer)
            await amqp_peer.send(Close())
            await amqp_peer.expect_any(Close, skip=Flow)

        tasks.start_soon(serve)
        with pytest.raises(ConnectionClosed):
            async with Connection(amqp_peer.url, close_timeout=0.2) as connection:
                async with connection.receiver("q") as receiver, connection.sender("q"):
                    await receiver.receive()
