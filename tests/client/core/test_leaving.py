"""Leaving: what was prefetched goes back, outcomes are waited for, and all of it takes one `close_timeout`."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack, nullcontext
from typing import Any

import anyio
import pytest
from anyio.abc import ByteStream

from amqp10.broker.internals import MemoryStream, memory_streams
from amqp10.engine import ConnectionTerms, CreditChanged, Event, OutcomesReceived, SessionTerms
from amqp10.errors import ConnectionClosed
from amqp10.messaging import ACCEPTED, Accepted, Released

pytestmark = [pytest.mark.anyio, pytest.mark.in_memory, pytest.mark.capability("orderly leaving")]

Serve = Callable[..., Any]

LIMIT = 2.0  # seconds, of close_timeout
SLACK = 1.9  # seconds, for a machine that is busy; a second deadline after the first would take longer


class Slow(MemoryStream):
    """An end whose every write takes a while."""

    delay = 0.0

    async def send(self, item: bytes) -> None:
        await anyio.sleep(self.delay)
        await super().send(item)


def slow_streams() -> tuple[ByteStream, Slow]:
    here, there = memory_streams()
    assert isinstance(there, MemoryStream)
    return here, Slow(there._incoming, there._outgoing)


class Watch:
    """How long the block took to be left."""

    def leaving(self) -> None:
        self._began = anyio.current_time()

    def check(self, most: float = LIMIT, least: float = 0.0) -> None:
        took = anyio.current_time() - self._began
        assert least <= took < most + SLACK


def ignoring_drains(peer: Any) -> None:
    """A peer that overlooks it when it is asked to use up the credit."""
    peer.on_event = lambda event: isinstance(event, CreditChanged) and event.link.drain


# One deadline


async def test_nested_blocks_of_a_silent_peer(serve: Serve) -> None:
    """Two receivers, a sender in flight, its session and the connection: one deadline for all, and all are told."""
    watch = Watch()
    async with serve(close_timeout=LIMIT) as (peer, connection):
        peer.outcome = None
        with pytest.raises(TimeoutError, match="1 delivery"):
            async with connection, connection.session() as session, session.receiver("a"), session.receiver("b"):
                async with session.sender("q") as sender:
                    await sender.submit("x")
                    await anyio.wait_all_tasks_blocked()
                    peer.stream.shut = True
                    watch.leaving()
        watch.check(least=LIMIT / 2)
        await anyio.wait_all_tasks_blocked()
        assert [event.link.is_sender for event in peer.ended] == [False, True, True]
        assert peer.over


async def test_nested_blocks_of_a_slow_peer(serve: Serve) -> None:
    """A peer that takes a while for each answer is waited for, as long as the deadline allows."""
    watch = Watch()
    async with serve(close_timeout=15.0, streams=slow_streams) as (peer, connection):
        async with connection, connection.session() as session, session.receiver("a"):
            await anyio.wait_all_tasks_blocked()
            peer.send("a", "released")
            async with session.sender("q") as sender:
                delivery = await sender.submit("x")
                peer.stream._stream.delay = 0.05
                watch.leaving()
        watch.check(15.0, least=0.2)
        assert await delivery.outcome() == Accepted()
        assert [delivery.remote_state for delivery in peer.outcomes] == [Released()]
        assert peer.over
        assert isinstance(peer.error, ConnectionClosed)


async def test_nested_blocks_of_a_peer_that_ignores_drains(serve: Serve) -> None:
    """Each receiver asks for a drain, and all together wait for no longer than one deadline."""
    watch = Watch()
    async with serve(close_timeout=LIMIT) as (peer, connection):
        ignoring_drains(peer)
        async with connection, AsyncExitStack() as stack:
            for name in "abcdef":
                await stack.enter_async_context(connection.receiver(name))
            peer.send("c", 1, 2, 3)
            await anyio.wait_all_tasks_blocked()
            watch.leaving()
        watch.check()
        assert len(peer.ended) == 6
        assert [delivery.remote_state for delivery in peer.outcomes] == [Released()] * 3
        assert isinstance(peer.error, ConnectionClosed)


async def test_tasks_and_their_connection(serve: Serve) -> None:
    """Links left by other tasks, and then the connection by its own: one deadline."""
    watch = Watch()
    async with serve(close_timeout=LIMIT) as (peer, connection):
        async with connection:
            async with anyio.create_task_group() as tasks:

                async def consume(name: str) -> None:
                    async with connection.receiver(name) as receiver:
                        await receiver.receive()

                for name in "abc":
                    tasks.start_soon(consume, name)
                await anyio.wait_all_tasks_blocked()
                peer.stream.shut = True
                watch.leaving()
                tasks.cancel_scope.cancel()
        watch.check()


async def test_exits_that_have_nothing_to_do_with_each_other(serve: Serve) -> None:
    """One link after the other, each opened when the one before was left: each has a deadline of its own."""
    async with serve(close_timeout=1.0, streams=slow_streams) as (peer, connection):
        async with connection:
            await connection.sender("q").__aenter__()
            peer.stream._stream.delay = 0.06
            began = anyio.current_time()
            for number in range(10):
                async with connection.sender("q") as sender:
                    delivery = await sender.submit(number)
                assert delivery.remote_state == ACCEPTED
            assert anyio.current_time() - began > 1.0
            peer.stream._stream.delay = 0


async def test_two_connections_one_after_the_other(serve: Serve) -> None:
    """The time that a silent peer takes from its connection is not taken from another connection that is left next."""
    async with (
        serve(close_timeout=0.2) as (silent, first),
        serve(close_timeout=5.0, streams=slow_streams) as (
            slow,
            second,
        ),
    ):
        async with second, second.sender("q") as sender:
            async with first:
                slow.stream._stream.delay = 0.4
                delivery = await sender.submit("x")
                silent.stream.shut = True
        assert delivery.remote_state == ACCEPTED
        slow.stream._stream.delay = 0


async def test_a_peer_that_reads_nothing(serve: Serve) -> None:
    """Nothing can be written to it, not even our close: the transport is cut at the deadline."""
    here, there = memory_streams()
    watch = Watch()
    async with serve(close_timeout=LIMIT) as (_, connection):
        assert connection._core.supervisor.given is not None
        real, facts = connection._core.supervisor.given
        connection._core.supervisor.given = here, facts
        async with anyio.create_task_group() as tasks:

            async def relay(source: ByteStream, sink: ByteStream) -> None:
                while True:
                    await sink.send(await source.receive())

            async def relay_up(scope: anyio.CancelScope) -> None:
                with scope:
                    await relay(there, real)

            up = anyio.CancelScope()
            tasks.start_soon(relay_up, up)
            tasks.start_soon(relay, real, there)
            with pytest.raises(TimeoutError):
                async with connection, connection.receiver("r"), connection.sender("q") as sender:
                    up.cancel()
                    for _ in range(3):
                        await sender.submit(b"x" * 200_000)
                    watch.leaving()
            watch.check(least=LIMIT / 2)
            tasks.cancel_scope.cancel()


async def test_a_window_that_stays_shut(serve: Serve) -> None:
    """A message that the peer's window holds back does not hold the exit up, and is not lost without a word."""
    watch = Watch()
    window = SessionTerms(incoming_window=1)
    async with serve(close_timeout=LIMIT, session=window, terms=ConnectionTerms("p", max_frame_size=512)) as (
        peer,
        connection,
    ):
        with pytest.raises(TimeoutError, match="1 delivery"):
            async with connection, connection.receiver("r"), connection.sender("q") as sender:
                peer.stream.shut = True  # no flow opens the window again
                await sender.submit(b"x" * 10_000)
                with pytest.raises(TimeoutError), anyio.fail_after(0.01):
                    await sender.send("waits for the window")
                watch.leaving()
        watch.check(least=LIMIT / 2)
        assert peer.received == []


# Links that are left open


async def test_a_connection_with_links_on_it(serve: Serve) -> None:
    """Leaving it releases what its receivers prefetched, waits for its senders' outcomes, and wakes who waits."""
    async with serve(close_timeout=2.0) as (peer, connection):
        peer.outcome = None

        def accept_when_drained(event: Event) -> bool:
            if isinstance(event, CreditChanged) and event.link.drain:
                link = peer.links["q"]
                for each in list(link.unsettled.values()):
                    link.settle(each, ACCEPTED)
            return False

        peer.on_event = accept_when_drained
        async with anyio.create_task_group() as tasks:
            async with connection:
                receiver = await connection.receiver("r", credit=10).__aenter__()
                session = await connection.session().__aenter__()
                sender = await session.sender("q").__aenter__()
                idle = await session.receiver("idle").__aenter__()

                async def wait() -> None:
                    with pytest.raises(anyio.ClosedResourceError):
                        await idle.receive()

                tasks.start_soon(wait)
                delivery = await sender.submit("x")
                await anyio.wait_all_tasks_blocked()
                peer.send("r", 1, 2, 3)
                (await receiver.receive()).accept()
        assert await delivery.outcome() == Accepted()
        await anyio.wait_all_tasks_blocked()
        assert [each.remote_state for each in peer.outcomes] == [Accepted(), Released(), Released()]
        assert len(peer.ended) == 3
        assert isinstance(peer.error, ConnectionClosed)
        with pytest.raises(anyio.ClosedResourceError):
            await receiver.receive()
        await sender.__aexit__(None, None, None)


async def test_a_session_with_links_on_it(serve: Serve) -> None:
    """Leaving it does so for its own links, and for no others."""
    async with serve(close_timeout=2.0) as (peer, connection), connection, connection.receiver("mine") as mine:
        async with connection.session() as session:
            receiver = await session.receiver("r").__aenter__()
            sender = await session.sender("q").__aenter__()
            delivery = await sender.submit("x")
            await anyio.wait_all_tasks_blocked()
            peer.send("r", 1, 2)
            await receiver.receive()
            peer.send("mine", 3)
        assert await delivery.outcome() == Accepted()
        assert [each.remote_state for each in peer.outcomes] == [Released()]
        assert len(peer.ended) == 2
        assert (await mine.receive()).message.body == 3


async def test_many_links_left_to_a_peer_that_ignores_drains(serve: Serve) -> None:
    """All are left at the same time."""
    watch = Watch()
    async with serve(close_timeout=LIMIT) as (peer, connection):
        ignoring_drains(peer)
        async with connection:
            for number in range(20):
                await connection.receiver(f"r{number}").__aenter__()
                await anyio.wait_all_tasks_blocked()
                peer.send(f"r{number}", "released")
            await anyio.wait_all_tasks_blocked()
            watch.leaving()
        watch.check()
        assert [each.remote_state for each in peer.outcomes] == [Released()] * 20
        assert isinstance(peer.error, ConnectionClosed)


async def test_a_link_left_by_two_tasks(serve: Serve) -> None:
    """The second one waits with the first, and both find the outcome."""
    async with serve(close_timeout=2.0) as (peer, connection), connection:
        peer.outcome = None
        sender = await connection.sender("q").__aenter__()
        delivery = await sender.submit("x")
        left = []
        async with anyio.create_task_group() as tasks:

            async def leave() -> None:
                await sender.__aexit__(None, None, None)
                left.append(delivery.remote_state)

            tasks.start_soon(leave)
            tasks.start_soon(leave)
            await anyio.wait_all_tasks_blocked()
            assert left == []
            link = peer.links["q"]
            link.settle(next(iter(link.unsettled.values())), ACCEPTED)
            peer.pump.wake()
        assert left == [ACCEPTED, ACCEPTED]


# Why the block is left


@pytest.mark.parametrize("why", ["exception", "cancelled", "end"])
async def test_the_reason_changes_nothing(serve: Serve, why: str) -> None:
    """An exception of the block comes out as it is, a cancellation too, and all is finished before."""
    async with serve(close_timeout=15.0, streams=slow_streams) as (peer, connection):
        failure = pytest.raises(LookupError, match="mine") if why == "exception" else nullcontext()
        with anyio.CancelScope() as scope, failure:
            async with connection, connection.receiver("r") as receiver, connection.sender("q") as sender:
                await anyio.wait_all_tasks_blocked()
                peer.send("r", 1, 2, 3)
                (await receiver.receive()).accept()
                delivery = await sender.submit("x")
                peer.stream._stream.delay = 0.02
                if why == "exception":
                    raise LookupError("mine")
                if why == "cancelled":
                    scope.cancel()
                    await anyio.sleep_forever()
        assert scope.cancelled_caught == (why == "cancelled")
        assert delivery.remote_state == ACCEPTED
        await anyio.wait_all_tasks_blocked()
        assert [each.remote_state for each in peer.outcomes] == [Accepted(), Released(), Released()]
        assert isinstance(peer.error, ConnectionClosed)


# Settling twice (§2.6.12)


async def test_mode_second_waits_for_the_sender_to_settle(serve: Serve) -> None:
    """An accepted delivery is not left half settled as long as the sender continues."""
    async with serve(close_timeout=2.0) as (peer, connection), connection:
        held: list[Any] = []

        def hold(event: Event) -> bool:
            if isinstance(event, OutcomesReceived):
                held.extend(event.deliveries)
            return isinstance(event, OutcomesReceived)

        peer.on_event = hold
        async with anyio.create_task_group() as tasks:
            receiver = await connection.receiver("r", receiver_settle_mode="second").__aenter__()
            await anyio.wait_all_tasks_blocked()
            peer.links["r"].auto_settle = False
            peer.send("r", 1)
            delivery = await receiver.receive()
            delivery.accept()
            tasks.start_soon(receiver.close)
            await anyio.wait_all_tasks_blocked()
            assert len(peer.ended) == 0
            assert not delivery.local_settled
            for each in held:
                each.link.settle(each)
            peer.pump.wake()
        assert delivery.local_settled
        assert len(peer.ended) == 1
        assert receiver.unsettled == 0


async def test_mode_second_with_a_sender_that_never_settles(serve: Serve) -> None:
    """It is waited for until the deadline, and what it was not told is its to deliver again."""
    watch = Watch()
    async with serve(close_timeout=LIMIT) as (peer, connection), connection:
        async with connection.receiver("r", receiver_settle_mode="second") as receiver:
            await anyio.wait_all_tasks_blocked()
            peer.links["r"].auto_settle = False
            peer.send("r", 1, 2)
            delivery = await receiver.receive()
            delivery.accept()
            watch.leaving()
        watch.check(least=LIMIT / 2)
        assert not delivery.local_settled
        assert [each.remote_state for each in peer.outcomes] == [Accepted(), Released()]
