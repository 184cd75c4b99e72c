"""Thousands of whole conversations of hostile servers with clients, bridges and Spark: one clear error each.

Nothing that an honest end holds is lost, what the client believes was said, and no secret is in any text.
"""

from __future__ import annotations

import random
from collections import Counter

import anyio
import pytest

import amqp10
from amqp10 import Connection, DecodeError, Message
from amqp10.broker import Broker
from amqp10.engine import dialect_names

from ...kit.counts import CONVERSATIONS
from ...kit.hostile.servers import (
    PASSWORD,
    USER,
    HostileStream,
    Records,
    accepted,
    check_error,
    converse,
    quietly,
    recording,
)

COUNT = CONVERSATIONS * 3 // 10
"""Of clients, in all tests here together; of bridges there is one for each five."""
pytestmark = [
    pytest.mark.anyio,
    pytest.mark.in_memory,
    pytest.mark.slow,
    pytest.mark.timeout(600 + COUNT),
    pytest.mark.capability("hostile peers"),
]

AT_ONCE = 4
TOTAL = 20
"""Messages that a bridge is to move."""


@pytest.fixture(autouse=True)
def _bounds() -> None:
    """In place of the folder's bounds, which are for one act."""


def broker() -> Broker:
    return Broker(users={USER: PASSWORD}, close_timeout=0.3)


async def test_clients(anyio_backend_name: str) -> None:
    """See `converse`; a good part of them got through, and a good part was told of an error."""
    told: Counter[bool] = Counter()
    believed = 0
    numbers = iter(range(max(60, COUNT // 2)))

    async def some() -> None:
        nonlocal believed
        for number in numbers:
            name = dialect_names()[number % len(dialect_names())]
            sent, error = await converse(served, name, f"{anyio_backend_name} {number}", records)
            believed += sent
            told[error is not None] += 1

    async with recording() as records, broker() as served, anyio.create_task_group() as tasks:
        for _ in range(AT_ONCE):
            tasks.start_soon(some)
    assert min(told.values()) > sum(told.values()) // 10
    assert believed > sum(told.values()) // 6


async def bridge(name: str, seed: str, records: Records, *, hostile: str) -> None:
    """Move messages between two brokers, of which one is hostile: the "source", or the "target"."""
    dice = random.Random(seed)
    where = f"bridge {seed!r} with a hostile {hostile} in {name}"
    bodies = [f"sent-{number}-" for number in range(TOTAL)]
    url = f"amqp://{USER}:{PASSWORD}@localhost"
    async with broker() as here, broker() as there:
        async with here.connect(url) as connection, connection.sender("a") as sender:
            await sender.send_many([Message(body.encode(), durable=True) for body in bodies])
        stream = HostileStream((there if hostile == "target" else here).open_stream(), name, dice)
        bad = Connection.over(stream, url, secure=True, dialect=name, idle_timeout=0.8, close_timeout=0.2)
        good = (here if hostile == "target" else there).connect(url)
        moving: amqp10.Bridge | None = None

        async def move() -> None:
            nonlocal moving
            source, target = (good, bad) if hostile == "target" else (bad, good)
            async with good, bad:
                moving = amqp10.bridge((source, "a"), (target, "b"), until_empty=True, close_timeout=0.3, window=7)
                with anyio.move_on_after(0.5):
                    await moving

        with anyio.fail_after(60):
            error = await quietly(move())
        check_error(error, where)
        assert not any(PASSWORD in text for text in (*stream.lines, *records.texts)), where
        assert not records.faults, f"{where}: {records.faults[0]}"
        arrived = await waiting(there, url, "b")
        if hostile == "source":
            # Some are no longer there: the source gave them a moment to expire at.
            assert moving is None or len(arrived) + there.queue("b").expired >= moving.report.moved, where
            return
        left = await waiting(here, url, "a")
        lost = set(bodies) - set(arrived) - set(left) - accepted(name, stream.lines)
        assert not lost, "\n".join((f"{where}: {sorted(lost)} are lost", *stream.lines))


async def waiting(served: Broker, url: str, address: str) -> list[str]:
    """The bodies of what waits in a queue."""
    found = []
    async with served.connect(url) as connection, connection.browser(address) as browser:
        async for delivery in browser:
            try:
                found.append(bytes(delivery.message.body).decode(errors="replace"))
            except (DecodeError, TypeError, ValueError):
                found.append("changed on its way")
    return found


@pytest.mark.parametrize("hostile", ["source", "target"])
async def test_bridges(anyio_backend_name: str, hostile: str) -> None:
    """What the honest source holds is at the target, or still at the source, or was said to be accepted."""
    numbers = iter(range(max(6, COUNT // 20)))

    async def some() -> None:
        for number in numbers:
            name = dialect_names()[number % len(dialect_names())]
            await bridge(name, f"{anyio_backend_name} {number}", records, hostile=hostile)

    async with recording() as records, anyio.create_task_group() as tasks:
        for _ in range(AT_ONCE):
            tasks.start_soon(some)
