"""Who sends or takes flat out, and never has to wait, lets others run: counted in messages, not in time."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from amqp10 import Receiver
from amqp10.client.internals import MESSAGE_COST

from ..kit.inside.client import YIELD_AFTER_BYTES
from ..kit.inside.client import YIELD_AFTER_MESSAGES as RECEIVED
from ..kit.inside.client import consumer as consumer_module

pytestmark = [pytest.mark.anyio, pytest.mark.in_memory]

Serve = Callable[..., Any]

COUNT = 1000
SENT = YIELD_AFTER_BYTES // MESSAGE_COST  # messages, of the smallest, that are sent before others run
TURN = 0.0005  # seconds that deliveries are taken before others run, as `receive` says


class Runs:
    """How many messages went between two turns of another task: the longest run of them.

    In a pass of trio's scheduler tasks run in any order: the last in one pass may be the first in the next, which
    makes two bursts a run.
    """

    def __init__(self) -> None:
        self.longest = self.messages = 0
        self._run = 0

    def message(self) -> None:
        self.messages += 1
        self._run += 1
        self.longest = max(self.longest, self._run)

    async def turns(self) -> None:
        while True:
            self._run = 0
            await anyio.lowlevel.checkpoint()

    def check(self, burst: int) -> None:
        assert self.messages == COUNT
        assert self.longest <= 2 * burst


@asynccontextmanager
async def beside() -> AsyncIterator[Runs]:
    """Another task, which does nothing but take its turns."""
    runs = Runs()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(runs.turns)
        yield runs
        tasks.cancel_scope.cancel()


@asynccontextmanager
async def flooded(serve: Serve) -> AsyncIterator[tuple[Receiver, Runs]]:
    """A receiver for which all is there already, and how long others wait beside what is done with it."""
    async with serve() as (peer, connection), connection, connection.receiver("q", credit=COUNT) as receiver:
        await anyio.wait_all_tasks_blocked()
        peer.send("q", *range(COUNT))
        await anyio.wait_all_tasks_blocked()
        async with beside() as runs:
            yield receiver, runs


@pytest.mark.parametrize("settle_mode", ["unsettled", "settled"])
async def test_send_many(serve: Serve, settle_mode: str) -> None:
    """With all the credit, and a window that never closes, nothing else makes it wait."""
    async with serve() as (peer, connection), connection:
        peer.credit = 2 * COUNT
        async with connection.sender("q", settle_mode=settle_mode) as sender, beside() as runs:

            def messages() -> Any:
                for number in range(COUNT):
                    runs.message()
                    yield number

            assert await sender.send_many(messages(), window=2 * COUNT) == COUNT
    runs.check(SENT + 1)


async def test_submit(serve: Serve) -> None:
    """The same of one call for each message."""
    async with serve() as (peer, connection), connection:
        peer.credit = 2 * COUNT
        async with connection.sender("q") as sender, beside() as runs:
            for number in range(COUNT):
                await sender.submit(number)
                runs.message()
    runs.check(SENT + 1)


async def test_stream(serve: Serve) -> None:
    """The same of one body in many chunks."""
    async with serve() as (_, connection), connection, connection.sender("q") as sender:
        async with sender.stream() as body, beside() as runs:
            for _ in range(COUNT):
                await body.send(b"x")
                runs.message()
    runs.check(SENT + 1)


async def test_room_in_the_output_is_had_in_turn(serve: Serve) -> None:
    """Senders that fill it together are never further apart than what one sends in a run."""
    sent = [0] * 10
    size = YIELD_AFTER_BYTES // 4
    lead = 0
    async with serve() as (_, connection), connection:

        async def flood(number: int) -> None:
            nonlocal lead
            async with connection.sender(str(number)) as sender:
                for _ in range(40):
                    await sender.submit(bytes(size))
                    sent[number] += 1
                    lead = max(lead, sent[number] - min(sent))

        async with anyio.create_task_group() as tasks:
            for number in range(len(sent)):
                tasks.start_soon(flood, number)
    assert sent == [40] * 10
    assert lead <= 2 * YIELD_AFTER_BYTES // size


@pytest.mark.usefixtures("short_turns")
async def test_async_for(serve: Serve) -> None:
    """Of what is there already, so many are taken in a run."""
    async with flooded(serve) as (receiver, runs):
        async for _ in receiver:
            runs.message()
            if runs.messages == COUNT:
                break
    runs.check(RECEIVED)


async def test_a_turn_is_a_time(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """A task that takes deliveries quickly takes more of them at a time, as many as its time limit allows."""
    now, quick = 0.0, 4 * RECEIVED
    monkeypatch.setattr(consumer_module, "monotonic", lambda: now)
    async with flooded(serve) as (receiver, runs):
        while runs.messages < COUNT:
            await receiver.receive()
            runs.message()
            now += TURN / quick
    runs.check(quick + RECEIVED)
    assert runs.longest > 2 * RECEIVED


@pytest.mark.parametrize("size", [1, 5])
async def test_a_turn_ends_by_cancellation(serve: Serve, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """However long a turn is, who is cancelled in it is given no more than one run, and what stays is not lost."""
    monkeypatch.setattr(consumer_module, "monotonic", lambda: 0.0)  # no turn ever ends by its time
    async with flooded(serve) as (receiver, runs):
        await receiver.receive()
        with anyio.CancelScope() as scope:
            scope.cancel()
            while True:
                for _ in await receiver.receive_batch(size) if size > 1 else [await receiver.receive()]:
                    runs.message()
        assert 0 < runs.messages <= RECEIVED
        assert (await receiver.receive()).message.body == runs.messages + 1


@pytest.mark.usefixtures("short_turns")
@pytest.mark.parametrize("max_wait", [None, 60.0])
async def test_receive_batch(serve: Serve, max_wait: float | None) -> None:
    """The same of batches, smaller than a run."""
    async with flooded(serve) as (receiver, runs):
        while runs.messages < COUNT:
            for _ in await receiver.receive_batch(5, max_wait=max_wait):
                runs.message()
    runs.check(RECEIVED + 5)
