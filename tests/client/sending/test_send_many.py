"""`send_many`: a bounded number in flight, every outcome accounted for."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from amqp10.errors import LinkDetached, MessageRejected
from amqp10.messaging import ACCEPTED, Error, Message, Rejected

pytestmark = [pytest.mark.anyio, pytest.mark.in_memory, pytest.mark.capability("many in flight")]

Serve = Callable[..., Any]


async def test_send_many_counts(serve: Serve) -> None:
    """Any iterable or async iterable; the count of what was accepted comes back."""

    async def numbers() -> AsyncIterator[int]:
        for n in range(7):
            await anyio.lowlevel.checkpoint()
            yield n

    async with serve() as (peer, connection), connection, connection.sender("q") as sender:
        assert await sender.send_many(Message(n) for n in range(300)) == 300
        assert await sender.send_many(numbers()) == 7
        assert await sender.send_many([]) == 0
        assert peer.bodies() == [*range(300), *range(7)]


@pytest.mark.parametrize(
    "one", ["hello", b"hello", bytearray(b"x"), {"a": 1}, Message("x")], ids=lambda one: type(one).__name__
)
async def test_one_message_is_not_many(serve: Serve, one: Any) -> None:
    """It would be sent letter by letter, or key by key: nothing is sent."""
    async with serve() as (peer, connection), connection, connection.sender("q") as sender:
        with pytest.raises(TypeError, match=r"messages must be .*send\(\)"):
            await sender.send_many(one)
        assert peer.bodies() == []


async def test_send_many_bounds_what_is_in_flight(serve: Serve) -> None:
    """Never more than `window` deliveries without an outcome."""
    async with serve() as (peer, connection), connection, connection.sender("q") as sender:
        peer.outcome = None
        async with anyio.create_task_group() as tasks:

            async def many() -> None:
                assert await sender.send_many(range(20), window=4) == 20

            tasks.start_soon(many)
            link = peer.links["q"]
            while len(peer.received) < 20 or link.unsettled:
                await anyio.wait_all_tasks_blocked()
                assert 0 < len(link.unsettled) <= 4
                for delivery in list(link.unsettled.values()):
                    link.settle(delivery, ACCEPTED)
                peer.pump.wake()


async def test_send_many_stops_at_the_first_failure(serve: Serve) -> None:
    """Nothing further is taken, what was taken has its outcome, and the iterator can go on."""
    async with serve() as (peer, connection), connection, connection.sender("q") as sender:
        peer.outcome = None
        numbers = iter(range(100))
        caught: list[MessageRejected] = []

        async def many() -> None:
            try:
                await sender.send_many(numbers, window=10)
            except MessageRejected as error:
                caught.append(error)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(many)
            await anyio.wait_all_tasks_blocked()
            link = peer.links["q"]
            deliveries = list(link.unsettled.values())
            link.settle(deliveries[3], Rejected(Error("x:bad", "third")))
            peer.pump.wake()
            await anyio.wait_all_tasks_blocked()
            assert caught == []  # the other nine have no outcome yet
            for delivery in deliveries:
                link.settle(delivery, ACCEPTED)
            peer.pump.wake()
        assert caught[0].condition == "x:bad"
        assert caught[0].__notes__ == ["send_many: 10 messages sent, 9 accepted, 1 not accepted, 0 without an outcome"]
        peer.outcome = ACCEPTED
        assert next(numbers) == 10
        assert await sender.send_many(numbers) >= 88


@pytest.mark.parametrize("window", [1, 2, 10])
async def test_send_many_sends_what_it_has_taken(serve: Serve, window: int) -> None:
    """A message that an async iterable yields after one before it has failed goes out, and has its outcome."""
    going_on = anyio.Event()

    async def numbers() -> AsyncIterator[int]:
        yield 0
        await going_on.wait()
        yield 1

    async with serve() as (peer, connection), connection, connection.sender("q") as sender:
        peer.outcome = Rejected(Error("x:bad", "each"))
        given = numbers()
        async with anyio.create_task_group() as tasks:

            async def many() -> None:
                with pytest.raises(MessageRejected) as caught:
                    await sender.send_many(given, window=window)
                sent = len(peer.received)
                messages = "message" if sent == 1 else "messages"
                assert caught.value.__notes__ == [
                    f"send_many: {sent} {messages} sent, 0 accepted, {sent} not accepted, 0 without an outcome"
                ]

            tasks.start_soon(many)
            await anyio.wait_all_tasks_blocked()
            going_on.set()
        # A window of one waits for each outcome before it takes the next; then this one was not taken.
        assert peer.bodies() == ([0] if window == 1 else [0, 1])
        assert [n async for n in given] == ([1] if window == 1 else [])


async def test_send_many_passes_errors_of_the_iterable_on(serve: Serve) -> None:
    """The outcomes of earlier messages are awaited first."""

    def numbers() -> Iterator[int]:
        yield 1
        yield 2
        raise KeyError("three")

    async with serve() as (peer, connection), connection, connection.sender("q") as sender:
        with pytest.raises(KeyError) as caught:
            await sender.send_many(numbers())
        assert caught.value.__notes__ == [
            "send_many: 2 messages sent, 2 accepted, 0 not accepted, 0 without an outcome"
        ]
        assert peer.bodies() == [1, 2]


@pytest.mark.parametrize("window", [2, 10])
async def test_send_many_accounts_once_for_a_link_that_ends(serve: Serve, window: int) -> None:
    """Whether it waits for room or for the last outcomes, in the middle or at the end."""
    async with serve() as (peer, connection), connection:
        peer.outcome = None
        sender = connection.sender("q")
        await sender.__aenter__()
        async with anyio.create_task_group() as tasks:

            async def many() -> None:
                with pytest.raises(LinkDetached) as caught:
                    await sender.send_many(range(5), window=window)
                (note,) = caught.value.__notes__
                sent = min(5, window)
                assert note == f"send_many: {sent} messages sent, 0 accepted, 0 not accepted, {sent} without an outcome"

            tasks.start_soon(many)
            await anyio.wait_all_tasks_blocked()
            peer.links["q"].detach(error=Error("amqp:resource-deleted", "gone"))
            peer.pump.wake()
