"""Sending in parts: order of sections, turns, backpressure, and the ways in which a stream ends."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import anyio
import pytest

from amqp10.engine import DeliveriesReceived, LinkAttached, LinkTerms, ReceiverLink, SessionTerms
from amqp10.errors import (
    ConnectionLost,
    EncodeError,
    LinkDetached,
    LocalProtocolError,
    MessageModified,
    MessageRejected,
    Unsupported,
)
from amqp10.messaging import ACCEPTED, Data, Error, Message, Modified, Received, Rejected, data_head
from amqp10.net._pump import HIGH_WATER
from amqp10.profiles import Profile

pytestmark = pytest.mark.anyio

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
        with pytest.raises(LocalProtocolError, match="2 bytes of a body that was said to have 4"):
            async with sender.stream(size=4) as body:
                await body.send(b"ab")
                with pytest.raises(LocalProtocolError, match="5 bytes of a body that was said to have 4"):
                    await body.send(b"cde")
        await sender.send("next")
        assert peer.bodies() == ["next"]


async def test_misuse(serve: Serve) -> None:
    """What cannot be is refused before anything is sent."""
    async with serve() as (peer, connection), connection, connection.sender("q") as sender:
        with pytest.raises(ValueError, match="no body yet"):
            sender.stream(Message("text"))
        with pytest.raises(ValueError, match="less than no bytes"):
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
        monkeypatch.setattr(type(connection), "capabilities", frozenset())
        with pytest.raises(Unsupported, match="streaming"):
            sender.stream()
        with pytest.raises(Unsupported, match="streaming"):
            async with connection.receiver("q", stream=True):
                pass


async def test_an_exception_aborts(serve: Serve) -> None:
    """The receiver forgets the delivery; the sender goes on, and leaves at once."""
    async with serve() as (peer, connection), connection:
        async with connection.sender("q") as sender:
            with pytest.raises(RuntimeError, match="changed my mind"):
                async with sender.stream(Message(subject="never")) as body:
                    await body.send(b"x" * 1000)
                    raise RuntimeError("changed my mind")
            with pytest.raises(LocalProtocolError, match="aborted"):
                await body.send(b"more")
            await anyio.wait_all_tasks_blocked()
            link = peer.links["q"]
            assert (link.credit, sender.credit) == (99, 99)
            await sender.send("next")
            with pytest.raises(RuntimeError):
                async with sender.stream():
                    raise RuntimeError
        assert peer.bodies() == ["next"]


@pytest.mark.parametrize("before", [0, 2])
async def test_a_peer_that_knows_no_aborts(serve: Serve, before: int) -> None:
    """The sender goes on with another link, once the outcomes on the old one are known; who waited is not forgotten."""
    async with serve(profile=FORGETFUL) as (peer, connection), connection:
        peer.outcome = None
        async with connection.sender("q", name="mine") as sender, anyio.create_task_group() as tasks:
            deliveries = [await sender.submit(number) for number in range(before)]
            old = peer.links["q"]
            with pytest.raises(RuntimeError):
                async with sender.stream() as body:
                    await body.send(b"never")
                    tasks.start_soon(sender.send, "waiting")
                    await anyio.wait_all_tasks_blocked()
                    raise RuntimeError
            await anyio.wait_all_tasks_blocked()
            assert old.attached is bool(before)
            assert len(peer.received) == before + (not before)
            for delivery in list(old.unsettled.values()):
                old.settle(delivery, ACCEPTED)
                peer.pump.wake()
                await anyio.wait_all_tasks_blocked()
            assert [await delivery.outcome() for delivery in deliveries] == [ACCEPTED] * before
            assert not old.attached
            new = peer.links["q"]
            assert (new.name, sender.name) == ("mine+", "mine+")
            assert peer.bodies() == [*range(before), "waiting"]
            new.settle(next(iter(new.unsettled.values())), ACCEPTED)
            peer.outcome = ACCEPTED
            peer.pump.wake()
            await sender.send("after")
            assert sender.credit == new.credit
        assert not new.attached


async def test_outcomes_that_come_at_once_before_the_link_is_left(serve: Serve) -> None:
    """Each is told to who waits for it, though the first one that is told is where the link is left."""
    async with serve(profile=FORGETFUL) as (peer, connection), connection, connection.sender("q") as sender:
        peer.outcome = None
        old = peer.links["q"]
        got: dict[int, Any] = {}

        async def wait(number: int, delivery: Any) -> None:
            got[number] = await delivery.outcome()

        with anyio.fail_after(5):
            async with anyio.create_task_group() as tasks:
                for number in range(3):
                    tasks.start_soon(wait, number, await sender.submit(number))
                with pytest.raises(RuntimeError):
                    async with sender.stream() as body:
                        await body.send(b"never")
                        raise RuntimeError
                await anyio.wait_all_tasks_blocked()
                for delivery, outcome in zip(list(old.unsettled.values()), OUTCOMES, strict=True):
                    old.settle(delivery, outcome)
                peer.pump.wake()
        assert got == dict(enumerate(OUTCOMES))
        await anyio.wait_all_tasks_blocked()
        assert not old.attached


async def test_a_peer_that_knows_no_aborts_and_takes_no_other_link(serve: Serve) -> None:
    """What it says of the new link is the end of the sender."""
    async with serve(profile=FORGETFUL) as (peer, connection), connection:
        sender = connection.sender("q")
        await sender.__aenter__()
        peer.refusal = Error("amqp:not-allowed", "no more")
        with pytest.raises(RuntimeError):
            async with sender.stream() as body:
                await body.send(b"never")
                raise RuntimeError
        with pytest.raises(LinkDetached, match="no more"):
            await sender.send("after")
        await sender.__aexit__(None, None, None)
        async with connection.session() as session:
            peer.refusal = None
            async with session.sender("q") as sender:
                session._in_engine.remote = replace(session._in_engine.remote, handle_max=0)
                with pytest.raises(RuntimeError):
                    async with sender.stream() as body:
                        await body.send(b"never")
                        raise RuntimeError
                with pytest.raises(LocalProtocolError, match="links on a session"):
                    await sender.send("after")


async def test_leaving_after_an_abort_that_the_peer_does_not_know(serve: Serve) -> None:
    """The outcomes are waited for, then the link ends; no other one is begun."""
    async with serve(profile=FORGETFUL) as (peer, connection), connection, anyio.create_task_group() as tasks:
        peer.outcome = None
        async with connection.sender("q") as sender:
            delivery = await sender.submit("before")
            with pytest.raises(RuntimeError):
                async with sender.stream() as body:
                    await body.send(b"never")
                    raise RuntimeError
            link = peer.links["q"]

            async def settle() -> None:
                await anyio.wait_all_tasks_blocked()
                link.settle(next(iter(link.unsettled.values())), ACCEPTED)
                peer.pump.wake()

            tasks.start_soon(settle)
        assert await delivery.outcome() == ACCEPTED
        assert peer.links["q"] is link


async def test_a_footer_that_cannot_be_encoded_aborts(serve: Serve) -> None:
    """The error is raised where the block is left."""
    async with serve() as (peer, connection), connection, connection.sender("q") as sender:
        with pytest.raises(EncodeError, match="footer"):
            async with sender.stream() as body:
                await body.send(b"x")
                body.message.footer["x"] = object()
        await sender.send("next")
        assert peer.bodies() == ["next"]


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


class Reader:
    """Makes the peer's links stream, and reads from them when told to."""

    def __init__(self, peer: Any) -> None:
        self.peer = peer
        self.link: Any = None
        peer.on_event = self.on_event

    def on_event(self, event: Any) -> bool:
        if isinstance(event, LinkAttached) and isinstance(event.link, ReceiverLink):
            self.link = event.link
            self.link.streaming = True
        return isinstance(event, DeliveriesReceived)

    @property
    def delivery(self) -> Any:
        return self.link.incoming[0]

    def read(self) -> bytes:
        """All that is here."""
        parts = []
        while (part := self.link.read(self.delivery)) is not None:
            parts.append(part)
        self.peer.pump.wake()
        return b"".join(parts)

    def settle(self, outcome: Any) -> None:
        self.link.settle(self.delivery, outcome)
        self.peer.pump.wake()


@asynccontextmanager
async def reading(serve: Serve, window: int = 4, **settings: Any) -> Any:
    """A sender on a session whose peer reads when told to."""
    async with serve(session=SessionTerms(incoming_window=window), **settings) as (peer, connection):
        reader = Reader(peer)
        async with connection, connection.sender("q") as sender:
            yield reader, sender


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
                assert not sender._on._in_engine.held
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
        engine, session = sender.connection._engine, sender._on._in_engine
        most = got = 0

        async def send() -> None:
            async with sender.stream(size=64 << 20) as body:
                for _ in range(64):
                    await body.send(chunk)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(send)
            while got < 64 << 20:
                await anyio.wait_all_tasks_blocked()
                here = engine.output_size + sum(len(part.payload) for part in session.held)
                there = sum(map(len, reader.delivery.stream.parts))
                most = max(most, here + there)
                got += len(reader.read())
            await anyio.wait_all_tasks_blocked()
            reader.settle(ACCEPTED)
        assert most <= 32 * 131_072 + HIGH_WATER


async def test_send_waits_for_the_output(serve: Serve) -> None:
    """A window that never closes is no reason to pile up what the transport does not take."""
    async with serve(session=SessionTerms(incoming_window=0x7FFF_FFFF)) as (peer, connection):
        assert connection._lifeline.given is not None
        stream: Any = connection._lifeline.given[0]
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
                most = connection._engine.output_size
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


# Ends that come early


async def test_the_abort_is_told_at_once(serve: Serve) -> None:
    """The receiver need not wait for what this side does next."""
    async with reading(serve) as (reader, sender):
        with pytest.raises(RuntimeError):
            async with sender.stream() as body:
                await body.send(b"x")
                raise RuntimeError
        await anyio.wait_all_tasks_blocked()
        assert reader.delivery.stream.aborted


async def test_rejected_in_the_middle(serve: Serve) -> None:
    """The receiver has read enough: the next `send` raises, also one that waits for the window; the rest is aborted."""
    async with reading(serve) as (reader, sender):

        async def reject() -> None:
            await anyio.wait_all_tasks_blocked()
            assert len(reader.delivery.stream.parts) == 4
            reader.settle(Rejected(Error("amqp:not-allowed", "too long")))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(reject)
            with pytest.raises(MessageRejected, match="too long"):
                async with sender.stream() as body:
                    await body.send(bytes(2_000_000))
        await anyio.wait_all_tasks_blocked()
        reader.link.discard(reader.delivery)
        reader.peer.pump.wake()
        await anyio.wait_all_tasks_blocked()
        assert reader.delivery.stream.aborted
        assert sender.unsettled == 0


async def test_accepted_in_the_middle(serve: Serve) -> None:
    """A receiver that accepts before the end hears the rest all the same: what is said is meant."""
    async with reading(serve) as (reader, sender):
        async with sender.stream() as body:
            await body.send(b"one")
            await anyio.wait_all_tasks_blocked()
            reader.settle(ACCEPTED)
            await anyio.wait_all_tasks_blocked()
            await body.send(b"two")
        await anyio.wait_all_tasks_blocked()
        assert reader.delivery.stream.whole


async def test_a_state_that_is_no_outcome(serve: Serve) -> None:
    """`Received` says how far the receiver has come, no more: it ends neither the writing nor the wait at the end."""
    states: list[Any] = []
    async with reading(serve) as (reader, sender), anyio.create_task_group() as tasks:

        async def stream() -> None:
            async with sender.stream() as body:
                await body.send(bytes(131_072 * 5))
                assert body.sent == 131_072 * 5
            states.append("accepted")

        def outgoing() -> Any:
            return next(iter(sender._link.unsettled.values()))

        tasks.start_soon(stream)
        await anyio.wait_all_tasks_blocked()
        for section in (0, 1):  # while it waits for the window, and while it waits for the outcome
            assert reader.delivery.stream.whole is bool(section)
            reader.link.settle(reader.delivery, Received(section, 10), settled=False)
            reader.peer.pump.wake()
            await anyio.wait_all_tasks_blocked()
            states.append(outgoing().remote_state)
            size = len(reader.read())
            await anyio.wait_all_tasks_blocked()
            size += len(reader.read())
            await anyio.wait_all_tasks_blocked()
        reader.settle(ACCEPTED)
    assert states == [Received(0, 10), Received(1, 10), "accepted"]


async def test_the_peer_detaches(serve: Serve) -> None:
    """Whoever waits in `send` gets the peer's reason, and so does the end of the block."""
    async with serve(session=SessionTerms(incoming_window=4)) as (peer, connection), connection:
        reader = Reader(peer)
        sender = connection.sender("q")
        await sender.__aenter__()

        async def detach() -> None:
            await anyio.wait_all_tasks_blocked()
            reader.link.detach(error=Error("amqp:resource-deleted", "gone"))
            peer.pump.wake()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(detach)
            with pytest.raises(LinkDetached, match="gone"):
                async with sender.stream() as body:
                    await body.send(bytes(2_000_000))
        await sender.__aexit__(None, None, None)  # it was said


async def test_the_connection_is_lost(serve: Serve) -> None:
    """The cause comes to whoever streams."""
    async with serve(session=SessionTerms(incoming_window=4)) as (peer, connection), connection:
        Reader(peer)
        with pytest.raises(ConnectionLost):
            async with connection.sender("q") as sender, anyio.create_task_group() as tasks:

                async def lose() -> None:
                    await anyio.wait_all_tasks_blocked()
                    await peer.stream.aclose()

                tasks.start_soon(lose)
                try:
                    async with sender.stream() as body:
                        await body.send(bytes(2_000_000))
                except ConnectionLost as error:
                    caught = error
            raise caught


async def test_the_sender_is_closed_meanwhile(serve: Serve) -> None:
    """The delivery is aborted, and closing does not wait for what will never be whole."""
    async with serve(close_timeout=600) as (peer, connection), connection:
        async with connection.sender("q") as sender, anyio.create_task_group() as tasks:
            with pytest.raises(anyio.ClosedResourceError):
                async with sender.stream() as body:
                    await body.send(b"x")
                    tasks.start_soon(sender.close)
                    await anyio.wait_all_tasks_blocked()
                    await body.send(b"y")
        assert peer.bodies() == []


async def test_a_message_too_large_for_the_peer(serve: Serve) -> None:
    """The whole counts; what would go beyond is refused, and the delivery aborted at the end of the block."""
    async with serve() as (peer, connection), connection:

        def limit(event: Any) -> bool:
            if isinstance(event, LinkAttached):
                link: Any = event.link
                link.attach(LinkTerms(link.name, target=link.remote.target, max_message_size=100))
                link.flow(10)
                return True
            return False

        peer.on_event = limit
        async with connection.sender("q") as sender:
            with pytest.raises(LocalProtocolError, match="the peer takes 100"):
                async with sender.stream() as body:
                    await body.send(bytes(60))
                    await body.send(bytes(60))
            await sender.send(b"small")
        assert peer.bodies() == [b"small"]
