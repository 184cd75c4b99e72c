"""Streams that end early: aborted here, cut off by the peer, lost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import anyio
import pytest

from amqp10.engine import LinkAttached, LinkTerms, SessionTerms
from amqp10.errors import (
    ConnectionLost,
    EncodeError,
    LinkDetached,
    LocalProtocolError,
    MessageRejected,
)
from amqp10.messaging import ACCEPTED, Error, Message, Received, Rejected
from amqp10.profiles import Profile

from ...kit.client.streams import Reader, reading

pytestmark = [pytest.mark.anyio, pytest.mark.in_memory]

Serve = Callable[..., Any]
FORGETFUL = Profile("forgetful", "Knows no aborts", aborts=False)
OUTCOMES = [ACCEPTED, Rejected(), ACCEPTED]
HEAD = {"content_type": "video/mp4", "subject": "s", "application_properties": {"n": 1}}


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

        with anyio.fail_after(60):
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
    """The peer's error on the new link ends the sender."""
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
                session._core.in_engine.remote = replace(session._core.in_engine.remote, handle_max=0)
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
            return next(iter(sender._core.link.unsettled.values()))

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
    """A task that waits in `send` gets the peer's reason, and so does the end of the block."""
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
            with pytest.raises(LocalProtocolError, match=r"at least 134 bytes, more than .* of 100$"):
                async with sender.stream() as body:
                    await body.send(bytes(60))
                    await body.send(bytes(60))
            await sender.send(b"small")
        assert peer.bodies() == [b"small"]
