"""Send messages through a network that breaks again and again, and account for each: `make soak`.

    sender ──┐                    ┌── the embedded broker, or --url
             ├──> FaultProxy ─────┤
  receiver ──┘                    └── broken --cuts times: cut after N bytes, reset, stalled, half-closed, split

Two modes: at least once, in which nothing may be lost; exactly once (receiver-settle-mode "second" on both links), in
which nothing may come twice either, if the broker resumes links as the embedded one does. It prints what was sent,
received, doubled and lost, and fails if a mode did not hold its promise. What is left in the queue when all has come
is taken, too, and counted, until nothing more comes.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import anyio

from amqp10 import Connection, Delivery, Message, Reconnect, StaleDelivery
from amqp10.broker import Broker
from amqp10.engine import dialect_names
from amqp10.testing import FaultProxy
from amqp10.testing._proxy import WAYS

Mode = Literal["at-least-once", "exactly-once"]
MODES: tuple[Mode, ...] = ("at-least-once", "exactly-once")
BODY = b"x" * 200
WINDOW = 500  # deliveries in flight
IDLE = 2.0  # seconds of silence after which a stalled connection is given up
QUIET = 30.0  # seconds without any message after which the rest is lost
SILENCE = 1.0  # seconds without any message after which a queue is taken to be empty, where there is no drain


@dataclass
class Tally:
    """What happened to the messages, by their numbers.

    Attributes:
        accepted: those that `send_many` said were accepted.
        received: how often each was received and accepted.
        rest: those of them that were in the queue still when each had come once.
        stale: deliveries that came again, for the broker had forgotten them.
        breaks: what was done to the connections.
        connections: how many there were.
    """

    total: int
    accepted: int = 0
    received: Counter[int] = field(default_factory=Counter)
    rest: int = 0
    stale: int = 0
    breaks: list[str] = field(default_factory=list)
    connections: int = 0
    seconds: float = 0.0
    all_sent: bool = False

    @property
    def duplicates(self) -> int:
        return self.received.total() - len(self.received)

    @property
    def lost(self) -> int:
        return self.accepted - len(self.received)


class Soak:
    """One run in one mode.

    Args:
        url: of the proxy.
        total: messages.
        cuts: how often to break the connections.
        seed: of what is random.
        dialect: in which both ends speak.
    """

    def __init__(
        self, proxy: FaultProxy, address: str, mode: Mode, total: int, cuts: int, seed: int, dialect: str
    ) -> None:
        self.proxy = proxy
        self.dialect = dialect
        self.address = address
        self.settle: Literal["first", "second"] = "second" if mode == "exactly-once" else "first"
        self.random = random.Random(seed)
        self.tally = Tally(total)
        # Where in the run to break, by messages received.
        self._due = sorted(self.random.randrange(total - 1) for _ in range(cuts))
        self._progress = anyio.Event()
        self._broken = anyio.Event()

    async def run(self) -> Tally:
        began = time.monotonic()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._send)
            tasks.start_soon(self._break)
            await self._receive()
            tasks.cancel_scope.cancel()
        for way in WAYS:
            self.proxy.cut_after(math.inf, way)
        await self._take_the_rest()
        self.tally.connections = self.proxy.accepted
        self.tally.seconds = time.monotonic() - began
        return self.tally

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[Connection]:
        reconnect = Reconnect(initial_delay=0.02, max_delay=1.0, first_attempts=math.inf)
        url, dialect = self.proxy.url, self.dialect
        async with Connection(url, reconnect=reconnect, idle_timeout=IDLE, dialect=dialect) as connection:
            yield connection

    # The two ends

    async def _send(self) -> None:
        async with self._connection() as connection:
            async with connection.sender(self.address, receiver_settle_mode=self.settle) as sender:
                self.tally.accepted = await sender.send_many(self._messages(), window=WINDOW)
            self.tally.all_sent = True
            self._progress.set()

    async def _messages(self) -> AsyncIterator[Message]:
        """In time with the breaks: none of them is left over when all is sent."""
        for number in range(self.tally.total):
            while self._due and (number == self.tally.total - 1 or self._due[0] < number - 2 * WINDOW):
                self._broken = anyio.Event()
                await self._broken.wait()
            yield Message(BODY, durable=True, application_properties={"number": number})

    async def _receive(self) -> None:
        tally = self.tally
        quiet_since = math.inf
        async with (
            self._connection() as connection,
            connection.receiver(self.address, credit=WINDOW, receiver_settle_mode=self.settle) as receiver,
        ):
            while not (tally.all_sent and len(tally.received) >= tally.accepted):
                batch = await receiver.receive_batch(100, max_wait=0.2)
                for delivery in batch:
                    self._take(delivery)
                if batch or not tally.all_sent:
                    quiet_since = anyio.current_time()
                    self._progress.set()
                elif anyio.current_time() > quiet_since + QUIET:
                    return

    async def _take_the_rest(self) -> None:
        """What came twice and nobody has taken: no more is cut now."""
        came = self.tally.received.total()
        async with self._connection() as connection:
            while True:
                async with connection.receiver(self.address, credit=WINDOW) as receiver:
                    if "drain" in connection.capabilities:
                        await receiver.drain()
                        batch = await receiver.receive_batch(WINDOW, max_wait=0)
                    else:
                        batch = await receiver.receive_batch(WINDOW, max_wait=SILENCE)
                    for delivery in batch:
                        self._take(delivery)
                if not batch:
                    break
        self.tally.rest = self.tally.received.total() - came

    def _take(self, delivery: Delivery) -> None:
        properties = delivery.message.application_properties or {}
        try:
            delivery.accept()
        except StaleDelivery:
            self.tally.stale += 1
        else:
            self.tally.received[properties["number"]] += 1

    # What comes between

    async def _break(self) -> None:
        faults = (self._cut_after, self._reset_after, self._cut_now, self._stall, self._half_close, self._split)
        while self._due:
            while len(self.tally.received) < self._due[0]:
                self._progress = anyio.Event()
                await self._progress.wait()
            fault = self.random.choice(faults)
            self.tally.breaks.append(fault.__name__.strip("_"))
            await fault()
            del self._due[0]
            self._broken.set()

    def _way(self) -> Literal["up", "down"]:
        return self.random.choice(("up", "down"))

    async def _cut_after(self, *, reset: bool = False) -> None:
        self.proxy.cut_after(self.random.randrange(100_000), self._way(), reset=reset)
        with anyio.move_on_after(1):
            await self.proxy.until_cut()

    async def _reset_after(self) -> None:
        await self._cut_after(reset=True)

    async def _cut_now(self) -> None:
        self.proxy.cut(reset=self.random.random() < 0.5)

    async def _stall(self) -> None:
        """Until the ends give up, or for a moment that ends in a cut."""
        self.proxy.stall(*self.random.choice(((), ("up",), ("down",))))
        if self.random.random() < 0.2:
            await anyio.sleep(IDLE * 1.5)
        else:
            await anyio.sleep(self.random.random() / 4)
            self.proxy.cut()
        self.proxy.resume()

    async def _half_close(self) -> None:
        await self.proxy.half_close(self._way())

    async def _split(self) -> None:
        """Every byte for itself, until one of them is the last."""
        self.proxy.piece = 1
        self.proxy.cut_after(self.random.randrange(20_000), self._way())
        with anyio.move_on_after(1):
            await self.proxy.until_cut()
        self.proxy.piece = None


def report(mode: Mode, tally: Tally) -> str:
    """The outcome, on some lines."""
    kinds = ", ".join(f"{tally.breaks.count(kind)} {kind.replace('_', ' ')}" for kind in sorted(set(tally.breaks)))
    came = len(tally.received)
    return "\n".join((
        f"{mode}: sent {tally.accepted:,}, received {came:,}, duplicates {tally.duplicates:,}, lost {tally.lost:,}",
        f"  {len(tally.breaks)} breaks ({kinds}), {tally.connections} connections",
        f"  {tally.stale:,} stale deliveries, {tally.rest:,} left in the queue at the end and taken",
        f"  {tally.seconds:.1f} s, {tally.accepted / tally.seconds:,.0f} messages/s",
    ))  # fmt: skip


async def soak(
    mode: Mode, total: int, cuts: int, seed: int, url: str | None, address: str, store: bool, dialect: str
) -> Tally:
    """Run it against the broker at a URL, or the embedded one."""
    if url is not None:
        async with FaultProxy(url) as proxy:
            return await Soak(proxy, address, mode, total, cuts, seed, dialect).run()
    with tempfile.TemporaryDirectory(prefix="amqp10-soak-") as folder:
        async with Broker(store=Path(folder, "store") if store else None) as broker, FaultProxy(broker.url) as proxy:
            tally = await Soak(proxy, address, mode, total, cuts, seed, dialect).run()
            if broker.queue(address).depth:
                raise AssertionError(f"{broker.queue(address).depth} messages are left in the queue")
            return tally


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--messages", type=int, default=200_000, metavar="N")
    parser.add_argument("--cuts", type=int, default=100, metavar="N", help="how often the connections are broken")
    parser.add_argument("--mode", choices=(*MODES, "both"), default="both")
    parser.add_argument(
        "--url", help="a broker of your own, amqp://user:password@host:port; the embedded one if not given"
    )
    parser.add_argument("--address", help="the queue, empty and made already where the broker makes none; else made up")
    parser.add_argument("--no-store", action="store_true", help="the embedded broker keeps all in memory")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--backend", choices=("trio", "asyncio"), default="trio")
    parser.add_argument("--dialect", choices=dialect_names(), default="1.0")
    options = parser.parse_args()
    failed = False
    if options.dialect != "1.0":
        options.mode = "at-least-once"  # links are resumed in 1.0 only
    for mode in MODES if options.mode == "both" else (options.mode,):
        address = options.address or f"soak-{uuid.uuid4().hex[:8]}"
        arguments = (mode, options.messages, options.cuts, options.seed, options.url, address, not options.no_store)
        tally = anyio.run(soak, *arguments, options.dialect, backend=options.backend)
        print(report(mode, tally), flush=True)
        failed |= tally.lost != 0 or tally.accepted != tally.total
        once = mode == "exactly-once" or options.dialect == "0-10"  # whose sessions are resumed, with all in them
        failed |= once and options.url is None and tally.duplicates != 0
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
