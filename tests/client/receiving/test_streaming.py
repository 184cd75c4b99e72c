"""Receiving in parts: head first, then the body; the window, sessions, settling before the end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio
import pytest

from amqp10.errors import DecodeError, EncodeError, LinkDetached, LocalProtocolError
from amqp10.messaging import (
    Accepted,
    AmqpSequence,
    Data,
    Error,
    Message,
    Modified,
    Rejected,
    Released,
    TransactionalState,
    data_head,
)
from amqp10.profiles import Profile

from ...kit.client.streams import Streams, read, waiting

pytestmark = [pytest.mark.anyio, pytest.mark.in_memory]

Serve = Callable[..., Any]
QUICK = Profile("quick", "Takes outcomes at any time", early_outcomes=True)


async def test_head_body_footer(serve: Serve) -> None:
    """A delivery is handed out with its head; the body comes as it is sent, piece by piece, the footer at its end."""
    async with serve() as (peer, connection), connection, anyio.create_task_group() as tasks:
        async with connection.receiver("q", stream=True) as receiver:
            await anyio.wait_all_tasks_blocked()
            streams = Streams(peer)
            message = Message(subject="s", footer={"x-sum": 42})
            head = message.encode_head()
            received = await waiting(receiver.receive, tasks)
            sent = streams.begin(head[:3])
            await anyio.wait_all_tasks_blocked()
            assert received == []
            streams.more(sent, head[3:] + data_head(6))
            await anyio.wait_all_tasks_blocked()
            (delivery,) = received
            assert delivery.message == Message(subject="s")
            body = delivery.iter_body()
            for part in (b"abc", b"def", data_head(3) + b"ghi"):
                ended = await waiting(body.__anext__, tasks)
                streams.more(sent, part)
                await anyio.wait_all_tasks_blocked()
                assert ended == [part[-3:]]
            assert delivery.message.footer == {}
            ended = await waiting(body.__anext__, tasks)
            streams.more(sent, last=message.encode_footer())
            await anyio.wait_all_tasks_blocked()
            assert isinstance(ended[0], StopAsyncIteration)
            assert delivery.message.footer == {"x-sum": 42}
            assert await read(delivery) == b""
            delivery.accept()
            await anyio.wait_all_tasks_blocked()
            assert sent.remote_state == Accepted()


@pytest.mark.parametrize("body", [b"", b"one", Data(b"one", b"", b"two"), None])
async def test_small_messages(serve: Serve, body: Any) -> None:
    """A message of one frame is received in the same way."""
    async with serve() as (peer, connection), connection, connection.receiver("q", stream=True) as receiver:
        await anyio.wait_all_tasks_blocked()
        payload = Message(body, subject="s").encode() if body is not None else Message(subject="s").encode_head()
        peer.send("q", payload)
        with await receiver.receive() as message:
            pass
        assert message == Message(subject="s")
        await anyio.wait_all_tasks_blocked()
        peer.send("q", payload)
        delivery = await receiver.receive()
        assert await read(delivery) == bytes(body or b"")
        assert "so far" not in repr(delivery)


@pytest.mark.parametrize("body", ["text", {"k": 1}, AmqpSequence([1])])
async def test_a_body_that_is_not_data(serve: Serve, body: Any) -> None:
    """It is in the message, once it is whole; reading it in pieces says so."""
    async with serve() as (peer, connection), connection, anyio.create_task_group() as tasks:
        async with connection.receiver("q", stream=True) as receiver:
            await anyio.wait_all_tasks_blocked()
            payload = Message(body, subject="s").encode()
            streams = Streams(peer)
            sent = streams.begin(payload[:-2])
            received = await waiting(receiver.receive, tasks)
            streams.more(sent, last=payload[-2:])
            await anyio.wait_all_tasks_blocked()
            assert received[0].message == Message(body, subject="s")
            with pytest.raises(LocalProtocolError, match="read it from the message"):
                received[0].iter_body()
            received[0].accept()


async def test_the_same_of_a_whole_delivery(serve: Serve) -> None:
    """`body` reads deliveries of any receiver."""
    async with serve() as (peer, connection), connection, connection.receiver("q") as receiver:
        await anyio.wait_all_tasks_blocked()
        peer.send("q", b"\x00\x53\x75\xa0\x03one", Data(b"one", b"", b"two"), "text", Message().encode_head() or b"")
        assert [piece async for piece in (await receiver.receive()).iter_body()] == [b"one"]
        assert [piece async for piece in (await receiver.receive()).iter_body()] == [b"one", b"two"]
        with pytest.raises(LocalProtocolError, match="a str, not data"):
            (await receiver.receive()).iter_body()
        with pytest.raises(DecodeError):
            (await receiver.receive()).iter_body()


async def test_credit_of_one(serve: Serve) -> None:
    """One delivery comes at a time; the next may begin when that was taken."""
    async with serve() as (peer, connection), connection, connection.receiver("q", stream=True) as receiver:
        await anyio.wait_all_tasks_blocked()
        streams = Streams(peer)
        for n in range(5):
            assert streams.link.credit == receiver.credit == 1
            sent = streams.begin(data_head(2))
            delivery = await receiver.receive()
            await anyio.wait_all_tasks_blocked()
            streams.more(sent, last=b"%02d" % n)
            assert await read(delivery) == b"%02d" % n


async def test_batches(serve: Serve) -> None:
    """`receive_batch` and manual credit are as of any receiver."""
    async with serve() as (peer, connection), connection:
        async with connection.receiver("q", stream=True, credit=0) as receiver:
            receiver.add_credit(3)
            await anyio.wait_all_tasks_blocked()
            streams = Streams(peer)
            for n in range(2):
                streams.send(Message(b"%d" % n))
            streams.begin(b"\x00")
            await anyio.wait_all_tasks_blocked()
            batch = await receiver.receive_batch(3, max_wait=0.01)
            assert [await read(delivery) for delivery in batch] == [b"0", b"1"]


# The window


async def test_an_unread_body_stops_the_peer(serve: Serve) -> None:
    """No more is taken than the window of the receiver's own session; other links go on."""
    async with serve(max_frame_size=1024) as (peer, connection), connection:
        async with connection.receiver("q", stream=True) as receiver, connection.receiver("other") as other:
            await anyio.wait_all_tasks_blocked()
            streams = Streams(peer)
            size = 1_000_000
            sent = streams.link.send(data_head(size) + bytes(size))
            peer.pump.wake()
            delivery = await receiver.receive()
            await anyio.wait_all_tasks_blocked()
            assert len(delivery.stream.parts) == 63  # and the one that was looked into for the head
            assert delivery.stream.size < 65_536
            peer.send("other", *range(90))
            for n in range(90):
                assert (await other.receive()).message.body == n
            most = got = 0
            async for piece in delivery.iter_body():
                got += len(piece)
                most = max(most, sum(map(len, delivery.stream.parts)))
            assert got == size
            assert most < 65_536
            delivery.accept()
            await anyio.wait_all_tasks_blocked()
            assert sent.remote_settled


async def test_memory_is_bounded(serve: Serve) -> None:
    """64 MiB that are read slowly: what is anywhere on this side is bounded by the window."""
    size = 64 << 20
    async with serve() as (peer, connection), connection:
        async with connection.session(incoming_window=8) as session:
            async with session.receiver("q", stream=True) as receiver:
                await anyio.wait_all_tasks_blocked()
                streams = Streams(peer)
                sent = streams.begin(data_head(size))
                left = 64

                def go_on(event: Any) -> bool:
                    nonlocal left
                    while left and streams.link.session.sendable:
                        left -= 1
                        streams.more(sent, bytes(1 << 20))
                        if not left:
                            streams.more(sent, last=b"")
                    return False

                peer.on_event = go_on
                delivery = await receiver.receive()
                pieces = most = got = 0
                async for piece in delivery.iter_body():
                    pieces += 1
                    if pieces % 50 == 0:
                        await anyio.wait_all_tasks_blocked()
                    got += len(piece)
                    most = max(most, len(piece) + sum(map(len, delivery.stream.parts)))
                assert got == size
                assert pieces > 500
                assert most <= 8 * 131_072
                delivery.accept()


async def test_a_session_of_its_own(serve: Serve) -> None:
    """It begins and ends with the receiver, unless the receiver was made on one."""
    async with serve() as (peer, connection), connection:
        async with connection.receiver("q"):
            async with connection.receiver("q1", stream=True, name="one"):
                assert [session.remote.incoming_window for session in peer.sessions] == [2048, 64]
            assert [session.begun for session in peer.sessions] == [True, False]
            async with connection.session() as session, session.receiver("q2", stream=True):
                assert len(peer.sessions) == 3
        receiver = connection.receiver("q", stream=True)
        await receiver.close()  # never entered: nothing to do
        assert len(peer.sessions) == 3
        async with connection.receiver("q3", stream=True) as receiver:
            with pytest.raises(LocalProtocolError, match="once"):
                await receiver.__aenter__()
            await receiver.close()
            assert not peer.sessions[3].begun


async def test_refused(serve: Serve) -> None:
    """A refusal is raised, and the session is not left behind."""
    async with serve() as (peer, connection), connection:
        peer.refusal = Error("amqp:not-found", "no such queue")
        with pytest.raises(LinkDetached, match="no such queue"):
            async with connection.receiver("q", stream=True):
                pass
        await anyio.wait_all_tasks_blocked()
        assert [session.begun for session in peer.sessions] == [False]


# Settling


@pytest.mark.parametrize("how", ["accept", "reject", "release", "modify"])
async def test_settled_before_the_end(serve: Serve, how: str) -> None:
    """The outcome goes out at once, the rest is discarded as it comes, and the next delivery is whole."""
    outcomes = {"accept": Accepted, "reject": Rejected, "release": Released, "modify": Modified}
    async with (
        serve(profile=QUICK) as (peer, connection),
        connection,
        connection.receiver("q", stream=True) as receiver,
    ):
        await anyio.wait_all_tasks_blocked()
        streams = Streams(peer)
        sent = streams.begin(data_head(1_000_000), *[bytes(1000)] * 80)
        delivery = await receiver.receive()
        body = delivery.iter_body()
        await body.__anext__()
        getattr(delivery, how)()
        with pytest.raises(LocalProtocolError, match="discarded"):
            await body.__anext__()
        await anyio.wait_all_tasks_blocked()
        assert isinstance(sent.remote_state, outcomes[how])
        assert streams.link.session.sendable
        streams.more(sent, *[bytes(1000)] * 800, last=bytes(120_000))
        streams.send(Message(b"next"))
        assert await read(await receiver.receive()) == b"next"


@pytest.mark.parametrize("end", ["whole", "aborted", "left"])
async def test_a_peer_that_takes_no_early_outcome(serve: Serve, end: str) -> None:
    """It is told when the delivery is whole, or when the link ends; for the application all is the same."""
    async with serve() as (peer, connection), connection:
        async with connection.receiver("q", stream=True) as receiver:
            await anyio.wait_all_tasks_blocked()
            streams = Streams(peer)
            sent = streams.begin(data_head(1_000_000), bytes(1000))
            delivery = await receiver.receive()
            with pytest.raises(EncodeError):  # at once, not where it would be told
                delivery.modify(message_annotations={"k": object()})
            delivery.reject("amqp:not-allowed")
            delivery.accept()  # the first one counts
            with pytest.raises(LocalProtocolError, match="discarded"):
                await read(delivery)
            await anyio.wait_all_tasks_blocked()
            assert sent.remote_state is None
            if end == "whole":
                streams.more(sent, *[bytes(1000)] * 100, last=bytes(899_000))
            elif end == "aborted":
                streams.link.abort(sent)
                peer.pump.wake()
            if end != "left":
                await anyio.wait_all_tasks_blocked()
                streams.send(Message(b"next"))
                assert await read(await receiver.receive()) == b"next"
        assert sent.remote_state == (Rejected(Error("amqp:not-allowed")) if end != "aborted" else None)
        async with connection.receiver("r", stream=True) as receiver:
            await anyio.wait_all_tasks_blocked()
            Streams(peer, "r").begin(data_head(10))
            delivery = await receiver.receive()
        with pytest.raises(anyio.ClosedResourceError):
            delivery.accept()


async def test_settled_by_the_sender(serve: Serve) -> None:
    """A message that was sent settled can be read to its end, or given up by any outcome."""
    async with serve() as (peer, connection), connection:
        async with connection.receiver("q", stream=True, settle_mode="settled") as receiver:
            await anyio.wait_all_tasks_blocked()
            streams = Streams(peer)
            sent = streams.begin(data_head(6) + b"abc", settled=True)
            delivery = await receiver.receive()
            streams.more(sent, last=b"def")
            assert await read(delivery) == b"abcdef"
            sent = streams.begin(data_head(6) + b"abc", settled=True)
            delivery = await receiver.receive()
            delivery.release()
            with pytest.raises(LocalProtocolError, match="discarded"):
                await read(delivery)


async def test_settling_wakes_the_reader(serve: Serve) -> None:
    """A task that waits for more learns that there will be none."""
    async with serve() as (peer, connection), connection, anyio.create_task_group() as tasks:
        async with connection.receiver("q", stream=True) as receiver:
            await anyio.wait_all_tasks_blocked()
            Streams(peer).begin(data_head(100))
            delivery = await receiver.receive()
            ended = await waiting(lambda: read(delivery), tasks)
            with pytest.raises(anyio.BusyResourceError):
                await read(delivery)
            delivery.release()
            await anyio.wait_all_tasks_blocked()
            assert "discarded" in str(ended[0])


async def test_in_a_with_block(serve: Serve) -> None:
    """Accepted at the end, modified by an exception, as any delivery."""
    async with (
        serve(profile=QUICK) as (peer, connection),
        connection,
        connection.receiver("q", stream=True) as receiver,
    ):
        await anyio.wait_all_tasks_blocked()
        streams = Streams(peer)
        one = streams.send(Message(b"one"))
        delivery = await receiver.receive()
        with delivery:
            assert await read(delivery) == b"one"
        await anyio.wait_all_tasks_blocked()
        two = streams.begin(data_head(10))
        delivery = await receiver.receive()
        with pytest.raises(RuntimeError), delivery:
            raise RuntimeError
        await anyio.wait_all_tasks_blocked()
        assert one.remote_state == Accepted()
        assert two.remote_state == Modified(delivery_failed=True)


async def test_others_get_to_run(serve: Serve) -> None:
    """Reading what is here already, many small sections, yields from time to time."""
    async with serve() as (peer, connection), connection, anyio.create_task_group() as tasks:
        async with connection.receiver("q", stream=True) as receiver:
            await anyio.wait_all_tasks_blocked()
            peer.send("q", Data(*[b"x"] * 1000))
            delivery = await receiver.receive()
            ran = 0

            async def count() -> None:
                nonlocal ran
                while True:
                    ran += 1
                    await anyio.lowlevel.checkpoint()

            tasks.start_soon(count)
            assert len([piece async for piece in delivery.iter_body()]) == 1000
            assert ran >= 1000 // 64 - 1
            tasks.cancel_scope.cancel()


async def test_an_outcome_in_a_transaction(serve: Serve) -> None:
    """It cannot wait for the end of the delivery, for the transaction may be over by then: it is refused before."""
    async with serve() as (peer, connection), connection, connection.receiver("q", stream=True) as receiver:
        await anyio.wait_all_tasks_blocked()
        streams = Streams(peer)
        sent = streams.begin(data_head(3))
        delivery = await receiver.receive()
        state = TransactionalState(b"t", Accepted())
        with pytest.raises(LocalProtocolError, match="read it first"):
            delivery._settle(state)
        streams.more(sent, last=b"abc")
        assert await read(delivery) == b"abc"
        delivery._settle(state)
        await anyio.wait_all_tasks_blocked()
        assert sent.remote_state == state
