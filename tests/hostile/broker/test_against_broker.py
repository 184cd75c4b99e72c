"""A broker whose client breaks each rule in turn: the right words on the wire, and everyone else is served on."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import anyio
import pytest

from amqp10.broker import Broker
from amqp10.engine import SessionTerms, dialects
from amqp10.messaging import Accepted, Declared, Modified, Received, Source, Target, TransactionalState
from amqp10.testing import (
    Attach,
    Close,
    Detach,
    Disposition,
    Flow,
    Open,
    SaslChallenge,
    SaslInit,
    SaslMechanisms,
    SaslOutcome,
    SaslResponse,
    ScriptedPeer,
    Transfer,
)

from ...kit.hostile.acts import ACTS, CREDIT, HARMLESS, MAX_MESSAGE, Act, frame, raw, transfer
from ...kit.hostile.bystander import still_serves
from ...kit.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.in_memory]

# The broker's own limits are larger than those that these acts are made for.
OTHER_LIMITS = {"handle above the limit", "channel above the limit", "frame too large"}


@pytest.fixture
async def broker(anyio_backend: str) -> AsyncIterator[Broker]:
    async with Broker(
        credit=CREDIT,
        close_timeout=0.2,
        users={"u": "p"},
        anonymous=True,
        max_message_size=MAX_MESSAGE,
    ) as broker:
        yield broker


@pytest.fixture
async def hasty(anyio_backend: str) -> AsyncIterator[Broker]:
    """One that waits for no open for long."""
    dialects()  # loaded with the first connection, else, in the time that the handshake may take
    async with Broker(handshake_timeout=1.5, close_timeout=0.2) as broker:
        yield broker


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
        answer = await peer.expect_any(act.answer, skip=(Flow, Disposition, *act.first))
        assert answer.error is not None
        assert answer.error.condition == act.condition
        await still_serves(broker)


async def set_up(peer: ScriptedPeer) -> None:
    """The connection, the session and the two links of the acts."""
    await peer.open_connection()
    await peer.begin_session()
    await peer.attach_link("up", role=False, target=Target("q"))
    await peer.expect(Flow, link_credit=CREDIT)
    await peer.attach_link("down", role=True, handle=1, source=Source("q"))


@pytest.mark.parametrize("name", HARMLESS)
async def test_what_changes_nothing(broker: Broker, name: str) -> None:
    """It is taken in at little cost, and the connection goes on."""
    async with ScriptedPeer.over(broker.open_stream()) as peer:
        await set_up(peer)
        await peer.send_bytes(HARMLESS[name])
        await peer.send(Detach(handle=0, closed=True))
        await peer.expect_any(Detach, skip=(Flow, Disposition))
        await still_serves(broker)


async def test_more_than_the_window(broker: Broker) -> None:
    """A peer that does not wait for the window is told of new room all the same, for nothing is held; it costs nothing.

    There is none beyond it for a broker that takes each frame in when it comes: the message's size is what ends it.
    """
    window = SessionTerms().incoming_window
    async with ScriptedPeer.over(broker.open_stream()) as peer:
        await set_up(peer)
        await peer.send_bytes(transfer(0, more=True) + frame(Transfer(handle=0, more=True)) * 5 * window)
        await peer.send_bytes(frame(Transfer(handle=0), b""))
        told = [await peer.expect(Flow) for _ in range(10)]
        assert {flow.incoming_window for flow in told} == {window}
        assert [flow.next_incoming_id for flow in told] == [(n + 1) * window // 2 for n in range(10)]
        await until(lambda: broker.queue("q").depth == 1)
        await peer.send_bytes(transfer(1, more=True) + frame(Transfer(handle=0, more=True), b"x" * 5) * 2 * window)
        detach = await peer.expect_any(Detach, skip=(Flow, Disposition))
        assert detach.error is not None
        assert detach.error.condition == "amqp:link:message-size-exceeded"
        await still_serves(broker)


async def test_a_frame_that_never_ends(anyio_backend: str) -> None:
    """Single bytes of a frame are no sign of life: the peer is given up when its time is over."""
    async with Broker(idle_timeout=0.4, close_timeout=0.2) as broker:
        async with ScriptedPeer.over(broker.open_stream()) as peer:
            await peer.open_connection()
            with pytest.raises((anyio.BrokenResourceError, anyio.ClosedResourceError)), anyio.fail_after(60):
                for byte in raw(b"x" * 4000):
                    await peer.send_bytes(bytes([byte]))
                    await anyio.sleep(0.02)
        await still_serves(broker)


async def test_an_impatient_peer(broker: Broker) -> None:
    """One that wants a heartbeat each half millisecond is refused, for it would get a storm of them (§2.4.5)."""
    async with ScriptedPeer.over(broker.open_stream()) as peer:
        await peer.open_connection(idle_time_out=1)
        close = await peer.expect(Close)
        assert close.error is not None
        assert close.error.condition == "amqp:not-allowed"
        assert "an idle-time-out of 1 ms, and 250 ms is the least" in str(close.error.description)
    async with ScriptedPeer.over(broker.open_stream()) as peer:
        await peer.open_connection(idle_time_out=250)
        began = anyio.current_time()
        for _ in range(2):
            await peer.expect_empty()
        assert anyio.current_time() - began > 0.1


async def test_maps_as_large_as_a_frame(anyio_backend: str) -> None:
    """Properties with thousands of keys are taken, and forgotten with the connection."""
    many = {f"k{n}": n for n in range(7_000)}
    fewer = {f"k{n}": n for n in range(900)}  # before the open a frame is 16 KiB at most
    async with Broker(close_timeout=0.2) as broker:
        async with ScriptedPeer.over(broker.open_stream()) as peer:
            await peer.open_connection(properties=fewer)
            await peer.begin_session(properties=many)
            attached = await peer.attach_link("up", role=False, target=Target("q"), properties=many)
            assert isinstance(attached.target, Target)  # a refusal has none (§2.6.3)
            assert broker.queue("q").producers == 1
        await until(lambda: not broker.queue("q").producers)
        await still_serves(broker)


async def test_a_client_that_says_nothing(hasty: Broker) -> None:
    """It is cut off when its time to open is over."""
    stream = hasty.open_stream()
    with anyio.fail_after(60), pytest.raises((anyio.EndOfStream, anyio.BrokenResourceError)):
        while True:
            await stream.receive()
    await stream.aclose()
    await until(lambda: not hasty._manager._opened)


async def test_slow_loris(hasty: Broker) -> None:
    """A byte now and then does not lengthen the time that there is to open."""
    began = anyio.current_time()
    stream = hasty.open_stream()
    with anyio.fail_after(60), pytest.raises((anyio.EndOfStream, anyio.BrokenResourceError)):
        for byte in b"AMQP\x00\x01\x00\x00" + frame(Open("x" * 1000)):
            await stream.send(bytes([byte]))
            with anyio.move_on_after(0.05):
                await stream.receive()
    assert 1.5 <= anyio.current_time() - began < 3
    await stream.aclose()
    await until(lambda: not hasty._manager._opened)


async def test_endless_sasl(broker: Broker) -> None:
    """A client that never comes to an end with its responses is refused or cut off."""
    async with ScriptedPeer.over(broker.open_stream()) as peer:
        await peer.send_bytes(b"AMQP\x03\x01\x00\x00")
        await peer.expect_header()
        await peer.expect(SaslMechanisms)
        await peer.send(SaslInit(mechanism="SCRAM-SHA-256", initial_response=b"n,,n=u,r=x"))
        await peer.expect(SaslChallenge)
        with suppress(anyio.BrokenResourceError), anyio.fail_after(60):
            for _ in range(1000):
                await peer.send(SaslResponse(response=b"c=biws,r=x,p=eA=="))
        assert (await peer.expect(SaslOutcome)).code == 1
        await peer.expect_end()
    await still_serves(broker)


async def test_a_client_that_reads_nothing(broker: Broker) -> None:
    """Messages wait in their queue while a consumer does not read; it cannot make the broker buffer them."""
    async with broker.connect() as connection, connection.sender("q") as sender:
        await sender.send_many([b"x" * 10_000] * 5)
        async with ScriptedPeer.over(broker.open_stream()) as peer:
            await peer.open_connection()
            await peer.begin_session()
            await peer.attach_link("down", role=True, source=Source("q"))
            await peer.grant(1_000_000)
            for _ in range(20):
                await sender.send_many([b"x" * 10_000] * 20)
            assert broker.queue("q").depth == 405
        async with connection.receiver("q") as receiver:
            (await receiver.receive()).accept()


async def test_close_that_is_never_answered(anyio_backend: str) -> None:
    """Leaving the broker takes its close timeout, not longer, though a client answers nothing."""
    async with Broker(close_timeout=0.2) as broker:
        peer = ScriptedPeer.over(broker.open_stream())
        await peer.open_connection()
        started = anyio.current_time()
    assert anyio.current_time() - started < 4
    async with peer:
        pass


# Resuming (§2.6.13)

ODD_MAP = {
    b"never sent": None,
    b"accepted": Accepted(),
    b"beyond": Received(7, 1 << 60),
    b"modified": Modified(delivery_failed=True),
    b"in a transaction": TransactionalState(b"none", Accepted()),
    b"declared": Declared(b"no transaction"),
    b"": None,
    b"x" * 32: Received(0, 0),
}


def lasting(terminus: type[Source] | type[Target]) -> Any:
    """A terminus whose link may be resumed."""
    return terminus("q", expiry_policy="connection-close", timeout=10)


@pytest.mark.parametrize("role", [False, True], ids=["sender", "receiver"])
@pytest.mark.parametrize("incomplete", [False, True], ids=["complete", "incomplete"])
async def test_maps_of_what_never_was(broker: Broker, role: bool, incomplete: bool) -> None:
    """A peer resumes deliveries that nobody knows, in states that they cannot have: it is told so, and goes on."""
    async with ScriptedPeer.over(broker.open_stream()) as peer:
        await peer.open_connection()
        await peer.begin_session()
        answer = await peer.attach_link(
            "odd",
            role=role,
            source=lasting(Source),
            target=lasting(Target),
            unsettled=ODD_MAP,
            incomplete_unsettled=incomplete,
        )
        assert not answer.unsettled
        if not role:
            data = b"".join(transfer(n, delivery_tag=tag, resume=True) for n, tag in enumerate(ODD_MAP))
            await peer.send_bytes(data)
        await peer.send(Detach(handle=0, closed=True))
        await peer.expect_any(Detach, skip=(Flow, Disposition))
        assert broker.queue("q").depth == 0
    await still_serves(broker)


async def test_a_map_that_never_ends(broker: Broker) -> None:
    """One says again and again that its map is not complete: each attach has its answer, and none leaves a trace."""
    async with ScriptedPeer.over(broker.open_stream()) as peer:
        await peer.open_connection()
        await peer.begin_session()
        for n in range(200):
            tags = {b"%d-%d" % (n, k): None for k in range(100)}
            await peer.attach_link(
                "endless",
                role=False,
                source=lasting(Source),
                target=lasting(Target),
                unsettled=tags,
                incomplete_unsettled=True,
            )
            await peer.send_bytes(frame(Detach(handle=0, closed=False)))
            await peer.expect_any(Detach, skip=(Flow, Disposition))
        await peer.attach_link("endless", role=False, source=lasting(Source), target=lasting(Target))
        await peer.expect(Flow, link_credit=CREDIT)
    await still_serves(broker)


async def test_links_that_wait_to_be_resumed(anyio_backend: str) -> None:
    """What one peer leaves behind by the hundred ends with its time."""
    async with Broker(close_timeout=0.2, max_subscription_timeout=2) as broker:
        for n in range(2):
            async with ScriptedPeer.over(broker.open_stream()) as peer:
                await peer.open_connection(container_id="leaver")
                await peer.begin_session()
                for k in range(100):
                    await peer.send(
                        Attach(
                            name=f"{n}-{k}",
                            handle=k,
                            role=False,
                            source=lasting(Source),
                            target=lasting(Target),
                            unsettled={b"1": None},
                            initial_delivery_count=0,
                        )
                    )
                for _ in range(100):
                    await peer.expect_any(Attach, skip=Flow)
        assert len(broker._hosts.usual.links._all) >= 100
        with anyio.fail_after(60):
            while broker._hosts.usual.links._all:  # noqa: ASYNC110 - there is no event to wait for
                await anyio.sleep(0.01)
