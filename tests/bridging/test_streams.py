"""Messages that are passed on part by part."""

from __future__ import annotations

import random
import tracemalloc
from typing import Any, Literal

import anyio
import anyio.lowlevel
import pytest

import amqp10
from amqp10 import Connection, Message, MessageRejected, Reconnect, Unsupported
from amqp10.broker import Broker
from amqp10.testing import FaultProxy

from ..kit.broker.two_brokers import bodies, fill, messages, numbers, picky, two_brokers
from ..kit.client.peer import serving
from ..kit.waiting import until

pytestmark = [pytest.mark.anyio]

QUICK = Reconnect(initial_delay=0.01, max_delay=0.05)


def large(number: int, size: int = 1_000_000) -> Message:
    return Message(random.Random(number).randbytes(size), subject=f"{number}", durable=True)


async def test_all_of_it_arrives() -> None:
    """Large ones and small ones, of every kind of body, in order, octet by octet."""
    some: list[Any] = [
        large(0),
        Message("small"),
        large(1),
        Message({"a": [1]}, to="x"),
        Message(b""),
        large(2, 70_000),
    ]
    async with two_brokers() as (old, new):
        await fill(old, "a", some)
        report = await amqp10.bridge((old.url, "a"), (new.url, "b"), stream=True, until_empty=True)
        came = await messages(new, "b")
        assert await bodies(old, "a") == []
    assert [message.encode() for message in came] == [message.encode() for message in some]
    assert (report.moved, report.clean) == (len(some), True)
    assert report.size == sum(len(message.encode()) for message in some)


async def test_through_broken_connections() -> None:
    """A message that was cut off comes again from the source, as often as it takes; nothing is lost."""
    chance = random.Random(1)
    async with two_brokers() as (old, new), FaultProxy(old.url) as before, FaultProxy(new.url) as behind:
        await fill(old, "a", [large(number, 300_000) for number in range(20)])
        # Where the bodies are.
        ways: list[tuple[FaultProxy, Literal["up", "down"]]] = [(before, "down"), (behind, "up")]

        async def cut_bodies() -> None:
            for _ in range(8):
                proxy, way = chance.choice(ways)
                proxy.cut_after(chance.randrange(300_000), way)
                await proxy.until_cut()

        async with (
            Connection(before.url, reconnect=QUICK) as source,
            Connection(behind.url, reconnect=QUICK) as target,
            amqp10.bridge((source, "a"), (target, "b"), stream=True, until_empty=True) as bridge,
        ):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(cut_bodies)
                report = await bridge.done()
                tasks.cancel_scope.cancel()
        assert before.cuts + behind.cuts > 1
        came = await messages(new, "b")
        assert await bodies(old, "a") == []
    assert {message.subject for message in came} == {f"{number}" for number in range(20)}
    assert all(message.body == large(int(str(message.subject)), 300_000).body for message in came)
    assert len(came) - 20 <= report.duplicates


async def test_memory_is_bounded() -> None:
    """Of a message of 40 MB no more is held than the window of the session, here in the same process."""
    async with serving() as (origin, source), serving() as (peer, target), source, target:
        peer.outcome = amqp10.Accepted()
        size = 0

        def take(event: Any) -> bool:
            nonlocal size
            if type(event).__name__ == "LinkAttached" and not event.link.is_sender:
                peer.attach(event.link)
                event.link.streaming = True
                event.link.flow(10)
                return True
            if type(event).__name__ in ("DeliveriesReceived", "PartsReceived"):
                link = event.link if hasattr(event, "link") else event.delivery.link
                for delivery in list(link.unsettled.values()):
                    while (part := link.read(delivery)) is not None:
                        size += len(part)
                    if delivery.stream.whole:
                        link.settle(delivery, amqp10.Accepted())
                return True
            return False

        peer.on_event = take
        async with amqp10.bridge((source, "a"), (target, "b"), stream=True, count=1) as bridge:
            await until(lambda: "a" in origin.links and origin.links["a"].credit)
            link, part = origin.links["a"], b"x" * 100_000
            tracemalloc.start()
            delivery = link.send(b"\0\x53\x75\xb0" + (40_000_000).to_bytes(4, "big"), more=True)
            for number in range(400):
                while not link.session.sendable:  # noqa: ASYNC110 - of the window there is no event here
                    await anyio.sleep(0.001)
                link.send_more(delivery, part, more=number < 399)
                origin.pump.wake()
                await anyio.lowlevel.checkpoint()
            await bridge.done()
            _, most = tracemalloc.get_traced_memory()
            tracemalloc.stop()
        assert size == 40_000_008
        assert bridge.report.moved == 1
        assert most < 25_000_000  # both peers and both ends of the bridge


async def test_one_that_is_refused() -> None:
    """It stays at the source; with "leave" the others go on."""
    async with Broker() as old, serving() as (peer, target), target, Connection(old.url) as source:
        accepted = picky(peer)
        await fill(old, "a", [0, 1, 2, 3])
        with pytest.raises(MessageRejected):
            await amqp10.bridge((source, "a"), (target, "b"), stream=True, until_empty=True)
        assert numbers(accepted["b"]) == [0]
        assert await bodies(old, "a") == [1, 2, 3]


async def test_larger_than_the_target_takes() -> None:
    """It is refused as soon as that is seen."""
    async with Broker() as old, Broker(max_message_size=100_000) as new:
        await fill(old, "a", [b"small", large(1), b"small, too"])
        report = await amqp10.bridge((old.url, "a"), (new.url, "b"), stream=True, until_empty=True, on_refused="reject")
        assert await bodies(new, "b") == [b"small", b"small, too"]
        assert (report.moved, report.refused) == (2, 1)


async def test_cancelled_in_the_middle() -> None:
    """What was half sent is aborted, and at the source still."""
    async with two_brokers() as (old, new), FaultProxy(new.url) as behind:
        await fill(old, "a", [large(1, 20_000_000)])
        async with Connection(old.url) as source, Connection(behind.url, close_timeout=0.5) as target:
            with anyio.move_on_after(60) as scope:
                async with amqp10.bridge((source, "a"), (target, "b"), stream=True, close_timeout=0.5):
                    await until(lambda: behind.passed["up"] > 100_000)
                    behind.stall("up")
                    scope.cancel()
                    await anyio.lowlevel.checkpoint()
            behind.resume()
        assert await bodies(new, "b") == []
        assert len(await bodies(old, "a")) == 1


async def test_what_cannot_be_streamed() -> None:
    """A dialect without, and settings that need the message more than once."""
    for settings in ({"copy": True}, {"exactly_once": True}, {"refused_to": "c"}):
        with pytest.raises(ValueError, match="streamed"):
            amqp10.bridge(("amqp://one", "a"), ("amqp://two", "b"), stream=True, **settings)
    async with two_brokers() as (old, new):
        async with Connection(old.url, dialect="0-9-1") as source, Connection(new.url) as target:
            with pytest.raises(Unsupported, match="part by part"):
                await amqp10.bridge((source, "a"), (target, "b"), stream=True)
