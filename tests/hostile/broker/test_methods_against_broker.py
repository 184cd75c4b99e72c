"""A broker whose client of AMQP 0-9-1 or its kin breaks each rule in turn: the right reply code, and nothing else."""

from __future__ import annotations

from collections.abc import AsyncIterator

import anyio
import pytest

from amqp10.broker import Broker
from amqp10.dialects.v0_9.wire.methods import (
    BasicConsumeOk,
    BasicPublish,
    ChannelClose,
    ChannelCloseOk,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionSecure,
    ConnectionSecureOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    TxSelectOk,
)
from amqp10.dialects.v0_9.wire.variant import V0_9, V0_9_1, V0_9_DRAFT, Variant

from ...kit.dialects.v0_9.method_peer import MethodPeer
from ...kit.hostile.bystander import still_serves
from ...kit.hostile.method_acts import AT_BROKER, Act, header, raw

pytestmark = [pytest.mark.anyio, pytest.mark.in_memory]

VARIANTS = [V0_9_1, *(pytest.param(each, marks=pytest.mark.slow) for each in (V0_9, V0_9_DRAFT))]


@pytest.fixture
async def broker(anyio_backend: str) -> AsyncIterator[Broker]:
    users = {"u": "p"}
    async with Broker(close_timeout=0.2, users=users, anonymous=True, queues=["q"], max_message_size=20_000) as broker:
        yield broker


@pytest.mark.parametrize("variant", VARIANTS, ids=["0-9-1", "0-9", "0-9-draft"])
@pytest.mark.parametrize("act", AT_BROKER, ids=lambda act: act.name)
async def test_act(broker: Broker, act: Act, variant: Variant) -> None:
    """The fault is answered at its level with its code, and costs nobody else anything."""
    async with MethodPeer.over(broker.open_stream(), variant) as peer:
        await peer.open_connection()
        await peer.open_channel(1)
        await peer.send_bytes(act.octets(variant))
        code = act.code_in(variant)
        if not code:
            await peer.expect_end()
        elif act.level == "channel":
            closed = await peer.expect(ChannelClose, skip=(TxSelectOk,))
            assert (closed.reply_code, peer.channel) == (code, 1)
            await peer.send(1, ChannelCloseOk())
            await peer.open_channel(1)
        else:
            over = await peer.expect(ConnectionClose, skip=(BasicConsumeOk,))
            assert over.reply_code == code, over
            assert over.reply_text
            await peer.expect_end()
        await still_serves(broker, "0-9-1")


@pytest.mark.parametrize("variant", VARIANTS, ids=["0-9-1", "0-9", "0-9-draft"])
async def test_a_body_without_end(broker: Broker, variant: Variant) -> None:
    """It is refused by what its header says, before a body frame is taken: 311 at most ends its channel."""

    async with MethodPeer.over(broker.open_stream(), variant) as peer:
        await peer.open_connection()
        await peer.open_channel(1)
        await peer.send(1, BasicPublish(routing_key="q"))
        await peer.send_bytes(header(1 << 62)(variant))
        closed = await peer.expect(ChannelClose)
        assert closed.reply_code == 311
        await peer.send_bytes(raw(3, 1, b"x" * 4000)(variant) * 100)  # on its way already, and dropped
        await peer.send(1, ChannelCloseOk())
        await peer.open_channel(1)
        await still_serves(broker, "0-9-1")


async def test_a_login_without_end(broker: Broker) -> None:
    """Challenges end after some rounds, whatever the client answers."""
    async with MethodPeer.over(broker.open_stream()) as peer:
        await peer.send_bytes(V0_9_1.header)
        await peer.expect(ConnectionStart)
        told = {"capabilities": {"authentication_failure_close": True}}
        await peer.send(0, ConnectionStartOk(told, "SCRAM-SHA-256", b"rubbish", "en_US"))
        refused = await peer.expect(ConnectionClose, skip=(ConnectionSecure,))
        assert refused.reply_code in (403, 530)
        await peer.expect_end()


@pytest.mark.parametrize("stage", ["header", "start-ok", "tune-ok"])
async def test_never_to_the_end_of_the_handshake(anyio_backend: str, stage: str) -> None:
    """Who falls silent within it, or writes octet by octet, is given up when its time is over."""
    async with Broker(handshake_timeout=1.5) as broker, MethodPeer.over(broker.open_stream()) as peer:
        if stage != "header":
            await peer.send_bytes(V0_9_1.header)
            await peer.expect(ConnectionStart)
        if stage == "tune-ok":
            await peer.send(0, ConnectionStartOk({}, "ANONYMOUS", b"", "en_US"))
            await peer.expect(ConnectionTune)
        dribble = V0_9_1.header if stage == "header" else peer.method(0, ConnectionSecureOk(b"x" * 1000))
        with anyio.fail_after(60), pytest.raises((anyio.BrokenResourceError, anyio.ClosedResourceError)):
            for octet in dribble * 100:
                await peer.send_bytes(bytes([octet]))
                await anyio.sleep(0.02)


async def test_a_frame_that_never_ends(anyio_backend: str) -> None:
    """Single octets of a frame are no sign of life: the client is given up when its time is over."""
    async with Broker(idle_timeout=0.4, close_timeout=0.2) as broker, MethodPeer.over(broker.open_stream()) as peer:
        await peer.open_connection(heartbeat=1)
        with anyio.fail_after(60), pytest.raises((anyio.BrokenResourceError, anyio.ClosedResourceError)):
            for octet in raw(1, 0, b"x" * 4000)(V0_9_1):
                await peer.send_bytes(bytes([octet]))
                await anyio.sleep(0.02)
        await still_serves(broker, "0-9-1")


async def test_a_close_that_is_never_answered(broker: Broker) -> None:
    """What the broker closes is over after a while, whether the client answers or not."""
    async with MethodPeer.over(broker.open_stream()) as peer:
        await peer.open_connection()
        await peer.send_bytes(raw(8, 1, b"")(V0_9_1))
        await peer.expect(ConnectionClose)
        await peer.expect_end()


async def test_after_the_close(broker: Broker) -> None:
    """Whatever a client says behind its close is not looked at."""
    async with MethodPeer.over(broker.open_stream()) as peer:
        await peer.open_connection()
        await peer.send_bytes(peer.method(0, ConnectionClose(200)) + b"rubbish" * 100)
        await peer.expect(ConnectionCloseOk)
        await peer.expect_end()
