"""Sending in parts: order of sections, turns, backpressure."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from typing import Any

import anyio
import pytest

from amqp10.engine import SessionTerms
from amqp10.errors import (
    EncodeError,
    LocalProtocolError,
    MessageModified,
    MessageRejected,
    Unsupported,
)
from amqp10.messaging import ACCEPTED, Data, Error, Message, Modified, Rejected, data_head
from amqp10.profiles import Profile

from ...kit.client.streams import reading
from ...kit.inside.net import HIGH_WATER

pytestmark = [pytest.mark.anyio, pytest.mark.in_memory]

Serve = Callable[..., Any]
FORGETFUL = Profile("forgetful", "Knows no aborts", aborts=False)
OUTCOMES = [ACCEPTED, Rejected(), ACCEPTED]
HEAD = {"content_type": "video/mp4", "subject": "s", "application_properties": {"n": 1}}


async def test_head_body_footer(serve: Serve) -> None:
    """The sections before the body, a data section a chunk, and the footer as it is at the end make one message."""
    async with serve() as (peer, connection), connection, connection.sender("q") as sender:
        async with sender.stream(Message(**HEAD)) as body:  # type: ignore[arg-type]
            await body.send(b"one")
            await body.send(b"")
            await body.send(b"two" * 1000)
            body.message.footer["x-size"] = body.sent
        (payload,) = peer.received
        message = Message.decode(payload)
        assert message.body == Data(b"one", b"two" * 1000)
        assert message == Message(message.body, footer={"x-size": 3003}, **HEAD)  # type: ignore[arg-type]
        assert sender.unsettled == 0


@pytest.mark.parametrize("chunk", [b"abcd", bytearray(b"abcd"), memoryview(b"abcd"), memoryview(array("H", [1, 2]))])
async def test_any_bytes(serve: Serve, chunk: Any) -> None:
    """Anything with bytes in it, taken as it is at the call."""
    async with serve() as (peer, connection), connection, connection.sender("q") as sender:
        async with sender.stream() as body:
            expected = bytes(chunk)
            await body.send(chunk)
            if isinstance(chunk, bytearray):
                chunk[:] = b"----"
            assert body.sent == 4
        assert peer.bodies() == [expected]


async def test_a_size_makes_one_section(serve: Serve) -> None:
    """A body of known size is one data section, in whatever chunks it comes."""
    async with serve() as (peer, connection), connection, connection.sender("q") as sender:
        async with sender.stream(size=300_000) as body:
            await body.send(b"x" * 299_999)
            await body.send(b"y")
        assert peer.bodies() == [b"x" * 299_999 + b"y"]


@pytest.mark.parametrize("size", [None, 0])
async def test_an_empty_body(serve: Serve, size: int | None) -> None:
    """A message that has nothing to say is one all the same."""
    async with serve() as (peer, connection), connection, connection.sender("q") as sender:
        async with sender.stream(size=size):
            pass
        assert peer.bodies() == [b""]


async def test_a_size_that_is_not_kept(serve: Serve) -> None:
    """More is refused, and nothing of it sent; less aborts the delivery."""
    async with serve() as (peer, connection), connection, connection.sender("q") as sender:
        with pytest.raises(LocalProtocolError, match="the body must have 4 bytes as announced, not 2"):
            async with sender.stream(size=4) as body:
                await body.send(b"ab")
                with pytest.raises(LocalProtocolError, match="the body must have 4 bytes as announced, not 5"):
                    await body.send(b"cde")
        await sender.send("next")
        assert peer.bodies() == ["next"]


async def test_misuse(serve: Serve) -> None:
    """An impossible argument is refused before anything is sent."""
    async with serve() as (peer, connection), connection, connection.sender("q") as sender:
        with pytest.raises(ValueError, match="must have no body"):
            sender.stream(Message("text"))
        with pytest.raises(ValueError, match="size must not be negative"):
            sender.stream(size=-1)
        with pytest.raises(EncodeError, match="subject"):
            async with sender.stream(Message(subject=1)):  # type: ignore[arg-type]
                pass
        stream = sender.stream()
        with pytest.raises(LocalProtocolError, match="not open yet"):
            await stream.send(b"x")
        async with stream:
            with pytest.raises(LocalProtocolError, match="once"):
                await stream.__aenter__()
        with pytest.raises(LocalProtocolError, match="has ended"):
            await stream.send(b"x")
        assert peer.bodies() == [b""]


async def test_a_dialect_without_streaming(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """It says so before anything is written."""
    async with serve() as (_, connection), connection, connection.sender("q") as sender:
        monkeypatch.setattr(type(connection._core), "capabilities", frozenset())
        with pytest.raises(Unsupported, match="streaming"):
            sender.stream()
        with pytest.raises(Unsupported, match="streaming"):
            async with connection.receiver("q", stream=True):
                pass


async def test_outcome(serve: Serve) -> None:
    """Leaving the block waits for the outcome and raises unless it is Accepted."""
    async with serve() as (peer, connection), connection, connection.sender("q") as sender:
        peer.outcome = Rejected(Error("amqp:precondition-failed", "no videos"))
        with pytest.raises(MessageRejected, match="no videos"):
            async with sender.stream() as body:
                await body.send(b"x")
        peer.outcome = Modified(delivery_failed=True)
        with pytest.raises(MessageModified):
            await sender.send_stream(None, b"x")
        assert peer.bodies() == [b"x", b"x"]


async def test_settled(serve: Serve) -> None:
    """Sent settled, there is no outcome to wait for."""
    async with serve() as (peer, connection), connection:
        async with connection.sender("q", settle_mode="mixed") as sender:
            async with sender.stream(settled=True) as body:
                await body.send(b"x")
        async with connection.sender("q", settle_mode="settled") as sender:
            async with sender.stream() as body:
                await body.send(b"y")
        assert peer.bodies() == [b"x", b"y"]
        assert [link.unsettled for link in peer.links.values()] == [{}]


# Turns


async def test_others_wait_their_turn(serve: Serve) -> None:
    """Messages and streams of the same sender go one after the other; other senders do not wait."""
    async with serve() as (peer, connection), connection:
        async with connection.sender("q") as sender, connection.sender("other") as other:

            async def stream(name: bytes) -> None:
                async with sender.stream() as body:
                    await body.send(name)

            async with anyio.create_task_group() as tasks:
                async with sender.stream() as body:
                    await body.send(b"1")
                    for call in (lambda: sender.send("2"), lambda: stream(b"3"), lambda: sender.send("4")):
                        tasks.start_soon(call)
                        await anyio.wait_all_tasks_blocked()
                    tasks.start_soon(stream, b"5")
                    await anyio.wait_all_tasks_blocked()
                    await other.send("in between")
                    await body.send(b"1")
                    assert peer.bodies() == ["in between"]
            first, *rest = peer.bodies()[1:]
            assert first == Data(b"1", b"1")
            assert len(rest) == 4
            assert all(body in rest for body in ("2", b"3", "4", b"5"))


async def test_who_waits_goes_on_after_an_abort(serve: Serve) -> None:
    """A stream that fails lets the next one go."""
    async with serve() as (peer, connection), connection, connection.sender("q") as sender:
        async with anyio.create_task_group() as tasks:
            with pytest.raises(RuntimeError):
                async with sender.stream():
                    tasks.start_soon(sender.send, "next")
                    await anyio.wait_all_tasks_blocked()
                    raise RuntimeError
        assert peer.bodies() == ["next"]


async def test_credit(serve: Serve) -> None:
    """A stream waits for credit as any message does, and takes one."""
    async with serve() as (peer, connection):
        peer.credit = 0
        async with connection, connection.sender("q") as sender, anyio.create_task_group() as tasks:
            sent = []

            async def stream() -> None:
                async with sender.stream() as body:
                    await body.send(b"x")
                    sent.append(sender.credit)

            tasks.start_soon(stream)
            await anyio.wait_all_tasks_blocked()
            assert sent == []
            peer.links["q"].flow(2)
            peer.pump.wake()
            await anyio.wait_all_tasks_blocked()
            assert sent == [1]


async def test_a_drain_is_answered_after_the_stream(serve: Serve) -> None:
    """The credit that is left is given back when the delivery is whole."""
    async with serve() as (peer, connection), connection, connection.sender("q") as sender:
        async with sender.stream() as body:
            await body.send(b"x")
            await anyio.wait_all_tasks_blocked()
            peer.credit = 0
            peer.links["q"].flow(10, drain=True)
            peer.pump.wake()
            await anyio.wait_all_tasks_blocked()
            assert sender.credit == 10
            await body.send(b"y")
        assert sender.credit == 0
        await anyio.wait_all_tasks_blocked()
        assert peer.links["q"].credit == 0
        assert peer.bodies() == [Data(b"x", b"y")]


# Backpressure


async def test_send_waits_for_the_window(serve: Serve) -> None:
    """A chunk larger than what the peer takes now waits, frame by frame; nothing is held back in the engine."""
    async with reading(serve) as (reader, sender):
        chunk = bytes(range(256)) * 4096
        done = []

        async def send() -> None:
            async with sender.stream() as body:
                await body.send(chunk)
                done.append("chunk")
            done.append("outcome")

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(send)
            got = b""
            while len(got) < len(chunk) + 12:
                await anyio.wait_all_tasks_blocked()
                assert len(reader.delivery.stream.parts) <= 4
                assert not sender._core.session.in_engine.pending_parts
                got += reader.read()
            assert got == b"\x00\x53\x70\x45" + data_head(len(chunk)) + chunk
            await anyio.wait_all_tasks_blocked()
            assert done == ["chunk"]
            assert reader.delivery.stream.whole
            reader.settle(ACCEPTED)
        assert done == ["chunk", "outcome"]


async def test_memory_is_bounded(serve: Serve) -> None:
    """64 MiB to a peer that reads slowly: what is anywhere between is bounded by its window and the output."""
    chunk = bytes(1 << 20)
    async with reading(serve, window=32) as (reader, sender):
        engine, session = sender.connection._core._engine, sender._core.session.in_engine
        most = got = 0

        async def send() -> None:
            async with sender.stream(size=64 << 20) as body:
                for _ in range(64):
                    await body.send(chunk)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(send)
            while got < 64 << 20:
                await anyio.wait_all_tasks_blocked()
                here = engine.output_size + sum(len(part.payload) for part in session.pending_parts)
                there = sum(map(len, reader.delivery.stream.parts))
                most = max(most, here + there)
                got += len(reader.read())
            await anyio.wait_all_tasks_blocked()
            reader.settle(ACCEPTED)
        assert most <= 32 * 131_072 + HIGH_WATER


async def test_send_waits_for_the_output(serve: Serve) -> None:
    """A window that never closes is no reason to pile up what the transport does not take."""
    async with serve(session=SessionTerms(incoming_window=0x7FFF_FFFF)) as (peer, connection):
        assert connection._core.supervisor.given is not None
        stream: Any = connection._core.supervisor.given[0]
        gate, pushed = anyio.Event(), stream.send
        gate.set()

        async def push(item: bytes) -> None:
            await gate.wait()
            await pushed(item)

        stream.send = push
        async with connection, connection.sender("q") as sender:
            most = 0

            async def watch() -> None:
                nonlocal most
                await anyio.wait_all_tasks_blocked()
                most = connection._core._engine.output_size
                gate.set()

            gate = anyio.Event()
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(watch)
                await sender.send_stream(None, bytes(8 << 20))
            assert HIGH_WATER // 2 < most < HIGH_WATER + 131_072
            assert len(peer.received[0]) > 8 << 20


async def test_others_get_to_run(serve: Serve) -> None:
    """Sending small chunks, none of which has to wait, yields from time to time."""
    async with serve(session=SessionTerms(incoming_window=100_000)) as (_, connection):
        async with connection, connection.sender("q") as sender, anyio.create_task_group() as tasks:
            ran = 0

            async def count() -> None:
                nonlocal ran
                while True:
                    ran += 1
                    await anyio.lowlevel.checkpoint()

            tasks.start_soon(count)
            async with sender.stream() as body:
                for _ in range(600):
                    await body.send(bytes(1000))
                assert ran >= 5
            tasks.cancel_scope.cancel()
