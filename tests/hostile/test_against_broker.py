"""A broker whose client breaks each rule in turn: the right words on the wire, and everyone else is served on."""

from __future__ import annotations

from collections.abc import AsyncIterator

import anyio
import pytest

from amqp10.broker import Broker
from amqp10.messaging import Source, Target
from amqp10.testing import Close, Disposition, Flow, SaslInit, SaslResponse, ScriptedPeer

from ._acts import ACTS, CREDIT, Act, judge

pytestmark = pytest.mark.anyio

# The broker's own limits are larger than those that these acts are made for.
OTHER_LIMITS = {"handle above the limit", "channel above the limit", "frame too large"}


@pytest.fixture
async def broker(anyio_backend: str) -> AsyncIterator[Broker]:
    async with Broker(
        credit=CREDIT, handshake_timeout=0.3, close_timeout=0.2, users={"u": "p"}, anonymous=True
    ) as broker:
        yield broker


async def still_serves(broker: Broker) -> None:
    """Another client sends and receives."""
    with anyio.fail_after(5):
        async with broker.connect() as connection, connection.sender("other") as sender:
            await sender.send("fine")
            async with connection.receiver("other") as receiver:
                (await receiver.receive()).accept()


@pytest.mark.parametrize("act", [act for act in ACTS if act.name not in OTHER_LIMITS], ids=lambda act: act.name)
async def test_act(broker: Broker, act: Act) -> None:
    """The fault is answered at its level with its condition, and costs nobody else anything."""
    async with ScriptedPeer.over(broker.open_stream()) as peer:
        await peer.open_connection()
        await peer.begin_session()
        await peer.attach_link("up", role=False, target=Target("q"))
        await peer.expect(Flow, link_credit=CREDIT)
        await peer.attach_link("down", role=True, handle=1, source=Source("q"))
        await peer.send_bytes(act.data)
        answer = await peer.expect_any(act.answer, skip=(Flow, Disposition))
        assert judge(act)(answer.error.condition if answer.error else None), answer
        await still_serves(broker)


async def test_a_client_that_says_nothing(broker: Broker) -> None:
    """It is cut off when its time to open is over."""
    stream = broker.open_stream()
    with anyio.fail_after(5), pytest.raises((anyio.EndOfStream, anyio.BrokenResourceError)):
        while True:
            await stream.receive()
    await stream.aclose()
    await still_serves(broker)


async def test_slow_loris(broker: Broker) -> None:
    """A byte now and then does not lengthen the time that there is to open."""
    stream = broker.open_stream()
    with anyio.fail_after(5), pytest.raises((anyio.EndOfStream, anyio.BrokenResourceError)):
        for byte in b"AMQP\x00\x01\x00\x00" + bytes(1000):
            await stream.send(bytes([byte]))
            with anyio.move_on_after(0.05):
                await stream.receive()
    await stream.aclose()
    await still_serves(broker)


async def test_endless_sasl(broker: Broker) -> None:
    """A client that never comes to an end with its responses is refused or cut off."""
    async with ScriptedPeer.over(broker.open_stream(), patience=2) as peer:
        await peer.send_bytes(b"AMQP\x03\x01\x00\x00")
        await peer.expect_header()
        await peer.send(SaslInit(mechanism="SCRAM-SHA-256", initial_response=b"n,,n=u,r=x"))
        with pytest.raises((AssertionError, anyio.BrokenResourceError)), anyio.fail_after(5):
            for _ in range(1000):
                await peer.send(SaslResponse(response=b"c=biws,r=x,p=eA=="))
            await peer.expect(Close)
    await still_serves(broker)


async def test_a_client_that_reads_nothing(broker: Broker) -> None:
    """Messages wait in their queue while a consumer does not read; it cannot make the broker buffer them."""
    async with broker.connect() as connection, connection.sender("q") as sender:
        await sender.send_many([b"x" * 100_000] * 5)
        async with ScriptedPeer.over(broker.open_stream()) as peer:
            await peer.open_connection()
            await peer.begin_session()
            await peer.attach_link("down", role=True, source=Source("q"))
            await peer.grant(1_000_000)
            for _ in range(20):
                await sender.send_many([b"x" * 100_000] * 20)
            assert broker.queue("q").depth == 405
        async with connection.receiver("q") as receiver:
            (await receiver.receive()).accept()


async def test_close_that_is_never_answered(anyio_backend: str) -> None:
    """Leaving the broker takes its close timeout, not longer, though a client answers nothing."""
    async with Broker(close_timeout=0.2) as broker:
        peer = ScriptedPeer.over(broker.open_stream())
        await peer.open_connection()
        started = anyio.current_time()
    assert anyio.current_time() - started < 2
    async with peer:
        pass
