"""What a message costs in steps of the interpreter: a figure that is the same on every machine, busy or not.

    python benchmarks/budget.py            prints a table beside the recorded budget
    python benchmarks/budget.py --check    fails if a workload costs more than recorded, by more than the margin
    python benchmarks/budget.py --record   writes the budget anew
    python benchmarks/budget.py --otel sampled   with telemetry on

A client and a server engine are joined in memory. Only what the client does is counted: bytecode instructions, and
calls (of Python functions and of built-in ones). In the workloads of `budget_broker.py`, only what the embedded broker
does is counted. Both figures depend on the version of Python: `budget.json` has them by it.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
from anyio.abc import ByteStream
from budget_broker import BROKER_WORKLOADS, measure_broker
from counting import COUNT, Count
from real import as_sent, orders, read_order, read_row, rows
from sniffio import current_async_library

from amqp10 import Accepted, Connection, Delivery, Message, Receiver, Sender
from amqp10.engine import (
    ConnectionEnded,
    ConnectionOpened,
    ConnectionTerms,
    CreditChanged,
    DeliveriesReceived,
    Engine,
    Event,
    LinkAttached,
    QueueFacts,
    ReceiverLink,
    RequestReceived,
    SenderLink,
    SessionBegun,
    dialect,
)
from amqp10.net import _pump
from amqp10.sasl import Authenticator
from amqp10.worker import Worker

BUDGET = Path(__file__).with_name("budget.json")
MARGIN = 1.05
"""How much more than recorded a message may cost: the passes of the event loop do not fall alike in every run."""

BODY = b"x" * 100
FEW = 100
AT_A_TIME = 50
"""Messages that are relayed at the same time."""
LINKS = 50
DELAY = 5
"""Passes of the scheduler that the other end takes to answer, where that matters."""
LARGE = bytes(65_536)
VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"


class Wire(ByteStream):
    """The client's stream; what is at its other end acts at once, and is not counted."""

    def __init__(self, count: Count, spoken: str) -> None:
        self._count = count
        self._server: Engine = dialect(spoken).server(
            ConnectionTerms("server"), Authenticator(None, anonymous=True).for_connection(secure=True)
        )
        self._server.start()
        self._answers = b""
        self._ready = anyio.Event()
        self.sources: list[SenderLink] = []
        self.stock: list[bytes] = []  # what is sent as there is credit, on each link in turn
        self.delay = 0  # passes of the scheduler that the other end takes to answer
        if current_async_library() == "trio":
            # Any task may receive, as from a socket; here nobody else has an answer for it.
            self.stop_receiving = lambda: None
        self._sends_settled = False
        self._over = False

    async def send(self, item: bytes) -> None:
        self._count.pause()
        self._server.receive_data(item)
        self._act()
        self._count.resume()

    def send_at_once(self, buffers: Sequence[bytes | memoryview]) -> Sequence[bytes | memoryview]:
        """Take all of it, as a socket does."""
        self._count.pause()
        self._server.receive_data(b"".join(buffers))
        self._act()
        self._count.resume()
        return ()

    async def receive(self, max_bytes: int = 65536) -> bytes:
        while not self._answers:
            if self._over:
                raise anyio.EndOfStream
            self._ready = anyio.Event()
            await self._ready.wait()
        for _ in range(self.delay):
            await anyio.lowlevel.checkpoint()
        taken, self._answers = self._answers[:max_bytes], self._answers[max_bytes:]
        return taken

    def serve(self, count: int, body: bytes = BODY) -> None:
        """Send messages to the client, as far as there is credit for them."""
        self.serve_these([Message(body).encode()] * count)

    def serve_these(self, payloads: list[bytes]) -> None:
        """Send them to the client, as far as there is credit for them."""
        source = self.sources[-1]
        for payload in payloads[: source.credit]:
            source.send(payload, settled=self._sends_settled)
        self._answer()

    def serve_mixed(self, count: int) -> None:
        """Send so many on each link: five at a time, then the next link's, each of another size than the one before."""
        for first in range(0, count, 5):
            for source in self.sources:
                for number in range(first, first + 5):
                    source.send(Message(bytes(50 + 7 * number % 1000)).encode(), settled=self._sends_settled)
        self._answer()

    def begin(self) -> None:
        """Send of the stock."""
        self._count.pause()
        self.serve_in_turn()
        self._answer()
        self._count.resume()

    def serve_in_turn(self) -> None:
        """Send of the stock what there is credit for, a message on each link in turn."""
        ready = [source for source in self.sources if source.credit > 0]
        while ready and self.stock:
            for source in ready:
                if self.stock:
                    source.send(self.stock.pop(), settled=self._sends_settled)
            ready = [source for source in ready if source.credit > 0]

    def _act(self) -> None:
        while events := self._server.events():
            for event in events:
                self._act_on(event)
        if self.stock:
            self.serve_in_turn()
        self._answer()

    def _act_on(self, event: Event) -> None:
        if isinstance(event, ConnectionOpened):
            self._server.open()
        elif isinstance(event, SessionBegun):
            event.session.begin()
        elif isinstance(event, RequestReceived):  # of 0-9-1: is there such a queue?
            event.request.session.answer(event.request, QueueFacts("q", 0, 0))
        elif isinstance(event, ConnectionEnded):
            self._over = True
            self._ready.set()
        elif isinstance(event, LinkAttached) and event.link.remote is not None:
            event.link.attach(event.link.remote)
            if isinstance(event.link, ReceiverLink):
                event.link.flow(2 * COUNT)
            elif isinstance(event.link, SenderLink):
                self.sources.append(event.link)
                self._sends_settled = event.link.settled_by_sender
        elif isinstance(event, CreditChanged) and event.link.drain:
            event.link.drained()
        elif isinstance(event, DeliveriesReceived):
            link = event.link
            while link.incoming:
                link.settle(link.incoming.popleft(), Accepted())
            if link.attached:
                link.flow(2 * COUNT)

    def _answer(self) -> None:
        data = self._server.data_to_send()
        if data:
            self._answers += data
            self._ready.set()

    async def send_eof(self) -> None:
        pass

    async def aclose(self) -> None:
        self._server.receive_eof()


Workload = Callable[[Connection, Wire, Count], Awaitable[None]]


async def _send(sender: Sender, count: Count) -> None:
    await sender.send_many([Message(BODY)] * 10)
    count.start()
    await sender.send_many(Message(BODY) for _ in range(COUNT))
    count.stop()


async def send(connection: Connection, wire: Wire, count: Count) -> None:
    async with connection.sender("q") as sender:
        await _send(sender, count)


async def send_settled(connection: Connection, wire: Wire, count: Count) -> None:
    async with connection.sender("q", settle_mode="settled") as sender:
        await _send(sender, count)


async def submit(connection: Connection, wire: Wire, count: Count) -> None:
    async with connection.sender("q") as sender:
        await sender.send(Message(BODY))
        count.start()
        deliveries = [await sender.submit(Message(BODY)) for _ in range(COUNT)]
        for delivery in deliveries:
            await delivery.outcome()
        count.stop()


async def send_each(connection: Connection, wire: Wire, count: Count) -> None:
    """One after the other: what it costs to wait for each outcome, passes of the scheduler among it."""
    await _send_each(connection, count, BODY)


async def send_large(connection: Connection, wire: Wire, count: Count) -> None:
    count.messages = FEW
    await _send_each(connection, count, LARGE)


async def _send_each(connection: Connection, count: Count, body: bytes) -> None:
    async with connection.sender("q") as sender:
        await sender.send(Message(body))
        count.start()
        for _ in range(count.messages):
            await sender.send(Message(body))
        count.stop()


async def _receive(receiver: Receiver, wire: Wire, count: Count, body: bytes = BODY) -> None:
    wire.serve(count.messages, body)
    await _take(receiver, count, body)


async def _take(receiver: Receiver, count: Count, body: bytes) -> None:
    count.start()
    taken = 0
    async for delivery in receiver:
        if len(delivery.message.body) == len(body):
            delivery.accept()
        taken += 1
        if taken == count.messages:
            break
    count.stop()


async def receive(connection: Connection, wire: Wire, count: Count) -> None:
    async with connection.receiver("q", credit=2 * COUNT) as receiver:
        await anyio.wait_all_tasks_blocked()
        await _receive(receiver, wire, count)


async def receive_settled(connection: Connection, wire: Wire, count: Count) -> None:
    async with connection.receiver("q", credit=2 * COUNT, settle_mode="settled") as receiver:
        await anyio.wait_all_tasks_blocked()
        await _receive(receiver, wire, count)


async def receive_batch(connection: Connection, wire: Wire, count: Count) -> None:
    async with connection.receiver("q", credit=2 * COUNT) as receiver:
        await anyio.wait_all_tasks_blocked()
        wire.serve(COUNT)
        count.start()
        taken = 0
        while taken < COUNT:
            for delivery in await receiver.receive_batch(500):
                if len(delivery.message.body) == len(BODY):
                    delivery.accept()
                taken += 1
        count.stop()


async def receive_large(connection: Connection, wire: Wire, count: Count) -> None:
    count.messages = FEW
    async with connection.receiver("q", credit=2 * FEW) as receiver:
        await anyio.wait_all_tasks_blocked()
        await _receive(receiver, wire, count, LARGE)


async def receive_mixed(connection: Connection, wire: Wire, count: Count) -> None:
    """On two links by turns, each message of another size."""
    async with connection.receiver("q", credit=2 * COUNT) as one, connection.receiver("r", credit=2 * COUNT) as other:
        await anyio.wait_all_tasks_blocked()
        wire.serve_mixed(COUNT // 2)
        count.start()
        for receiver in (one, other):
            for _ in range(COUNT // 2):
                delivery = await receiver.receive()
                if delivery.message.body:
                    delivery.accept()
        count.stop()


def derived(message: Message) -> Message:
    """Look at three fields, and make the message that is sent on, as `peers/amqp10_real.py` does."""
    region = message.application_properties["region"]
    return Message(
        message.body,
        subject=f"relayed.{message.subject}",
        correlation_id=message.message_id,
        application_properties={"region": region},
    )


async def relay_worker(connection: Connection, wire: Wire, count: Count) -> None:
    """Handlers that send on what comes, 50 at a time."""
    wire.delay = DELAY
    done = anyio.Event()
    handled = 0

    async def handle(message: Message) -> None:
        nonlocal handled
        await sender.send(derived(message))
        handled += 1
        if handled == COUNT:
            done.set()

    async with (
        connection.sender("r") as sender,
        Worker(connection, "q", handle, concurrency=AT_A_TIME, prefetch=COUNT),
    ):
        await anyio.wait_all_tasks_blocked()
        wire.serve_these([as_sent(each) for each in orders(COUNT)])
        count.start()
        await done.wait()
        count.stop()


async def relay_task(connection: Connection, wire: Wire, count: Count) -> None:
    """A task for each message, 50 at a time."""
    wire.delay = DELAY
    limit = anyio.Semaphore(AT_A_TIME)

    async def handle(delivery: Delivery) -> None:
        await sender.send(derived(delivery.message))
        delivery.accept()
        limit.release()

    async with connection.sender("r") as sender, connection.receiver("q", credit=2 * COUNT) as receiver:
        await anyio.wait_all_tasks_blocked()
        wire.serve_these([as_sent(each) for each in orders(COUNT)])
        count.start()
        async with anyio.create_task_group() as tasks:
            for _ in range(COUNT):
                delivery = await receiver.receive()
                await limit.acquire()
                tasks.start_soon(handle, delivery)
        count.stop()


async def receive_links(connection: Connection, wire: Wire, count: Count) -> None:
    """A task for each of 50 links, credit 10 each, which are sent to by turns."""
    taken = 0

    async def consume(receiver: Receiver) -> None:
        nonlocal taken
        async for delivery in receiver:
            if len(delivery.message.body) == len(BODY):
                delivery.accept()
            taken += 1
            if taken == COUNT:
                count.stop()
                tasks.cancel_scope.cancel()

    async with AsyncExitStack() as links:
        receivers = [await links.enter_async_context(connection.receiver("q", credit=10)) for _ in range(LINKS)]
        await anyio.wait_all_tasks_blocked()
        wire.stock = [Message(BODY).encode()] * COUNT
        wire.sources = wire.sources[-LINKS:]
        async with anyio.create_task_group() as tasks:
            for receiver in receivers:
                tasks.start_soon(consume, receiver)
            await anyio.wait_all_tasks_blocked()
            count.start()
            wire.begin()


def typical() -> Message:
    """One with properties and five application properties, such as codec.py has."""
    properties = {"kind": "invoice", "tenant": 4711, "retries": 0, "ratio": 0.25, "urgent": True}
    return Message(
        BODY,
        message_id="0f8fad5b-d9cb-469f",
        subject="orders.created",
        correlation_id="request-1234",
        content_type="application/json",
        application_properties=properties,
    )


async def encode(connection: Connection, wire: Wire, count: Count) -> None:
    count.start()
    for _ in range(COUNT):
        typical().encode()
    count.stop()


async def decode(connection: Connection, wire: Wire, count: Count) -> None:
    payload = typical().encode()
    count.start()
    for _ in range(COUNT):
        message = Message.decode(payload)
        assert message.message_id
        assert message.application_properties["tenant"] == 4711
        assert message.body
    count.stop()


async def encode_orders(connection: Connection, wire: Wire, count: Count) -> None:
    """Messages as applications send them, each different: `real.py` says which."""
    _each(as_sent, orders(COUNT), count)


async def decode_orders(connection: Connection, wire: Wire, count: Count) -> None:
    _each(read_order, [as_sent(each) for each in orders(COUNT)], count)


async def encode_rows(connection: Connection, wire: Wire, count: Count) -> None:
    _each(as_sent, rows(COUNT), count)


async def decode_rows(connection: Connection, wire: Wire, count: Count) -> None:
    _each(read_row, [as_sent(each) for each in rows(COUNT)], count)


async def encode_nested(connection: Connection, wire: Wire, count: Count) -> None:
    """Rows that contain five maps."""
    lines = [[{"sku": f"s{number}", "quantity": number, "price": 2.5}] * 5 for number in range(COUNT)]
    nested = [{"body": {**row["body"], "lines": each}} for row, each in zip(rows(COUNT), lines, strict=True)]
    _each(as_sent, nested, count)


async def encode_numbered(connection: Connection, wire: Wire, count: Count) -> None:
    """Rows whose fields have numbers for names, in an `OrderedDict`."""
    _each(as_sent, [{"body": OrderedDict(enumerate(row["body"].values()))} for row in rows(COUNT)], count)


async def decode_wide(connection: Connection, wire: Wire, count: Count) -> None:
    """Rows of more fields than may have keys of the same hash."""
    more = {f"more {number}": number for number in range(51)}
    _each(read_row, [as_sent({"body": {**row["body"], **more}}) for row in rows(COUNT)], count)


def _each(operation: Callable[[Any], Any], things: list[Any], count: Count) -> None:
    count.start()
    for each in things:
        operation(each)
    count.stop()


async def publish_0_9_1(connection: Connection, wire: Wire, count: Count) -> None:
    """With confirms."""
    await send(connection, wire, count)


async def consume_0_9_1(connection: Connection, wire: Wire, count: Count) -> None:
    """With acks."""
    await receive(connection, wire, count)


async def consume_0_9_1_own(connection: Connection, wire: Wire, count: Count) -> None:
    """With acks, and a message-id of its own in each; all are of one size."""
    async with connection.receiver("q", credit=2 * COUNT) as receiver:
        await anyio.wait_all_tasks_blocked()
        wire.serve_these([Message(BODY, message_id=f"{number:08}").encode() for number in range(COUNT)])
        await _take(receiver, count, BODY)


CLIENT_WORKLOADS: tuple[Workload, ...] = (
    *(send, send_settled, send_each, send_large, submit),
    *(receive, receive_settled, receive_batch, receive_large, receive_mixed),
    *(relay_worker, relay_task, receive_links),
    *(encode, decode, encode_orders, decode_orders, encode_rows, decode_rows),
    *(encode_nested, encode_numbered, decode_wide),
    *(publish_0_9_1, consume_0_9_1, consume_0_9_1_own),
)


def measure_client(workload: Workload, backend: str) -> Count:
    """Return the steps of one run."""
    count = Count()

    async def run() -> None:
        spoken = "0-9-1" if workload in (publish_0_9_1, consume_0_9_1, consume_0_9_1_own) else "1.0"
        wire = Wire(count, spoken)
        settings: Any = {"sasl": False} if spoken == "1.0" else {}
        async with Connection.over(
            wire, secure=True, dialect=spoken, incoming_window=10 * COUNT, **settings
        ) as connection:
            await workload(connection, wire, count)

    anyio.run(run, backend=backend)
    return count


WORKLOADS: dict[str, Callable[[str], Count]] = {
    **{each.__name__: partial(measure_client, each) for each in CLIENT_WORKLOADS},
    **{each.__name__: partial(measure_broker, each) for each in BROKER_WORKLOADS},
}
"""What runs one on a backend, by its name."""


def measure(name: str, backend: str) -> dict[str, float]:
    """Steps a message, in one run of a workload."""
    vars(_pump)["GATHERING"] = math.inf  # no clock is looked at
    count = WORKLOADS[name](backend)
    return {
        "instructions": round(count.instructions / count.messages, 1),
        "calls": round(count.calls / count.messages, 1),
    }


def instrumented(*, sampled: bool) -> None:
    """Turn telemetry on, which exports nothing."""
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON

    from amqp10.otel import instrument

    spans = TracerProvider(sampler=ALWAYS_ON if sampled else ALWAYS_OFF)
    instrument(tracer_provider=spans, meter_provider=MeterProvider([InMemoryMetricReader()]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--record", action="store_true", help="write budget.json, for this version of Python")
    parser.add_argument("--check", action="store_true", help="fail if a workload costs more than recorded there")
    parser.add_argument("--only", metavar="WORKLOAD", choices=list(WORKLOADS))
    parser.add_argument("--otel", choices=["unsampled", "sampled"], help="with telemetry, whose spans are kept or not")
    arguments = parser.parse_args()
    if arguments.otel is not None:
        instrumented(sampled=arguments.otel == "sampled")
    recorded = json.loads(BUDGET.read_text()) if BUDGET.exists() else {}
    now: dict[str, dict[str, float]] = {}
    dearer: list[str] = []
    if arguments.check and VERSION not in recorded:
        sys.exit(f"nothing is recorded for Python {VERSION}")
    print("| workload | instructions | recorded | calls | recorded |\n|---|--:|--:|--:|--:|")
    for workload in (each for each in WORKLOADS if arguments.only in (None, each)):
        for backend in ("trio", "asyncio"):
            name = f"{workload} {backend}"
            cost = now[name] = measure(workload, backend)
            before = recorded.get(VERSION, {}).get(name, {})
            figures = (cost["instructions"], before.get("instructions", "-"), cost["calls"], before.get("calls", "-"))
            dearer += [f"{name}: {step}" for step in before if cost[step] > MARGIN * before[step]]
            print(f"| {name} | " + " | ".join(str(each) for each in figures) + " |")
    if arguments.record:
        recorded[VERSION] = recorded.get(VERSION, {}) | now
        BUDGET.write_text(json.dumps(recorded, indent=2, sort_keys=True) + "\n")
    if arguments.check and dearer:
        sys.exit(f"dearer than recorded: {', '.join(dearer)}; make it cheaper, or record it and say in the commit why")


if __name__ == "__main__":
    main()
