"""What a message costs the embedded broker in steps of the interpreter: workloads of `budget.py`.

A client engine talks to a `Broker` in the same process, through a stream in memory; what the client does is not
counted. The messages are the orders of `real.py`. Where there is a store, they are durable, and it commits within the
loop and not in a thread, so that a commit has the same messages in every run.
"""

from __future__ import annotations

import tempfile
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import anyio
import anyio.lowlevel
import anyio.to_thread
from counting import COUNT, Count
from real import as_sent, orders

from amqp10 import Accepted, Selector
from amqp10.broker import Broker
from amqp10.engine import (
    ConnectionTerms,
    DeliveriesReceived,
    LinkEnded,
    LinkTerms,
    ReceiverLink,
    SenderLink,
    SessionTerms,
    dialect,
)
from amqp10.messaging import (
    AmqpValue,
    Coordinator,
    Declare,
    Declared,
    DeliveryState,
    Discharge,
    Message,
    Source,
    Target,
    TransactionalState,
)

FEW = 100
"""Messages of 0-9-1: the broker translates each field of each message, twice."""
SMALL = 256
"""Messages whose delivery-ids fit into one octet."""
CHUNK = 65_536
"""Octets that the client writes at a time."""


class Peer:
    """A client with a sender and a receiver at one queue, which accepts what it receives."""

    def __init__(self, broker: Broker, count: Count, spoken: str) -> None:
        self._count = count
        self._stream = broker.open_stream()
        self._engine = dialect(spoken).client(ConnectionTerms("client"), None, True)
        self._engine.start()
        self._engine.open()
        self._taken = 0
        self._ended = False
        self.small_ids = False  # whether delivery-ids below 256 are written in one octet
        self.sender: SenderLink
        self.receiver: ReceiverLink

    async def attach(self, source: Source) -> None:
        """Attach both links."""
        await self._exchange(lambda: self._engine.opened)
        session = self._engine.begin(SessionTerms(incoming_window=10 * COUNT))
        self._session = session
        self.sender = session.attach_sender(LinkTerms("to", source=Source(), target=Target("q")))
        self.receiver = session.attach_receiver(LinkTerms("from", source=source, target=Target()))
        await self._exchange(lambda: self.sender.credit >= self._count.messages and self.receiver.attached)

    def send(self, payloads: list[bytes], state: DeliveryState | None = None) -> None:
        """Have messages to write."""
        for payload in payloads:
            self.sender.send(payload, state=state)

    async def declare(self) -> bytes:
        """Declare a transaction, and return its id."""
        self._coordinator = self._session.attach_sender(LinkTerms("work", source=Source(), target=Coordinator()))
        await self._exchange(lambda: self._coordinator.credit > 0)
        delivery = self._coordinator.send(Message(AmqpValue(Declare())).encode())
        await self._exchange(lambda: delivery.remote_state is not None)
        assert isinstance(delivery.remote_state, Declared)
        return delivery.remote_state.txn_id

    async def commit(self, txn_id: bytes) -> None:
        """Commit a transaction."""
        delivery = self._coordinator.send(Message(AmqpValue(Discharge(txn_id))).encode())
        await self._exchange(lambda: delivery.remote_state is not None)
        assert isinstance(delivery.remote_state, Accepted)

    async def fill(self) -> None:
        """Write the messages, and wait for their outcomes."""
        await self._exchange(lambda: not self.sender.count_unsettled().total)

    async def drain(self) -> None:
        """Take all messages, and wait until the broker has read the outcomes."""
        self.receiver.flow(self._count.messages)
        await self._exchange(lambda: self._taken == self._count.messages)
        self.receiver.detach()
        await self._exchange(lambda: self._ended)

    async def _exchange(self, over: Callable[[], bool]) -> None:
        """Write and read until something has happened."""
        self._count.pause()
        while not over():
            data = self._engine.data_to_send()
            if self.small_ids:
                data = with_small_ids(data)
            self._count.resume()
            for first in range(0, len(data), CHUNK):
                await self._stream.send(data[first : first + CHUNK])
            received = await self._stream.receive()
            self._count.pause()
            self._engine.receive_data(received)
            for event in self._engine.events():
                if isinstance(event, DeliveriesReceived):
                    self._accept(event.link)
                self._ended |= isinstance(event, LinkEnded)
        self._count.resume()

    def _accept(self, link: ReceiverLink) -> None:
        while link.incoming:
            link.settle(link.incoming.popleft(), Accepted())
            self._taken += 1


def with_small_ids(data: bytes) -> bytes:
    """Write the delivery-ids below 256 of transfers in one octet, as nearly all other clients do."""
    out = bytearray()
    while data:
        size = int.from_bytes(data[:4], "big")
        frame, data = data[:size], data[size:]
        before, id_and_rest = frame[4:15], frame[15:]  # the handle is 0, which has no octet
        if frame[8:12] == b"\x00\x53\x14\xc0" and id_and_rest[:4] == b"\x70\0\0\0":
            fields = before[8] - 3
            frame = (size - 3).to_bytes(4, "big") + before[:8] + bytes((fields,)) + before[9:]
            frame += b"\x52" + id_and_rest[4:]
        out += frame
    return bytes(out)


Workload = Callable[[Peer, Count, list[bytes]], Awaitable[None]]


async def broker_through(peer: Peer, count: Count, payloads: list[bytes]) -> None:
    """A receiver waits for what is sent."""
    peer.receiver.flow(count.messages)
    peer.send(payloads)
    count.start()
    await peer.fill()
    await peer.drain()
    count.stop()


async def broker_fill(peer: Peer, count: Count, payloads: list[bytes]) -> None:
    """Nobody receives."""
    peer.send(payloads)
    count.start()
    await peer.fill()
    count.stop()


async def broker_fill_small_ids(peer: Peer, count: Count, payloads: list[bytes]) -> None:
    """The first messages of a session."""
    peer.small_ids = True
    await broker_fill(peer, count, payloads)


async def broker_drain(peer: Peer, count: Count, payloads: list[bytes]) -> None:
    """The messages are there before a receiver asks for them."""
    peer.send(payloads)
    await peer.fill()
    count.start()
    await peer.drain()
    count.stop()


async def broker_fill_stored(peer: Peer, count: Count, payloads: list[bytes]) -> None:
    await broker_fill(peer, count, payloads)


async def broker_drain_stored(peer: Peer, count: Count, payloads: list[bytes]) -> None:
    await broker_drain(peer, count, payloads)


async def broker_fill_ttl(peer: Peer, count: Count, payloads: list[bytes]) -> None:
    await broker_fill(peer, count, payloads)


async def broker_drain_ttl(peer: Peer, count: Count, payloads: list[bytes]) -> None:
    """Each message is sent with what is left of its ttl."""
    await broker_drain(peer, count, payloads)


async def broker_fill_expiry(peer: Peer, count: Count, payloads: list[bytes]) -> None:
    """The expiry is behind eight other properties."""
    await broker_fill(peer, count, payloads)


async def broker_fill_expiry_grouped(peer: Peer, count: Count, payloads: list[bytes]) -> None:
    """The expiry is behind eight other properties, and before a group."""
    await broker_fill(peer, count, payloads)


async def broker_fill_annotated(peer: Peer, count: Count, payloads: list[bytes]) -> None:
    """With delivery annotations, which the broker drops, and with all thirteen properties counted, as pyamqp has."""
    await broker_fill(peer, count, payloads)


async def broker_fill_transaction(peer: Peer, count: Count, payloads: list[bytes]) -> None:
    """All messages are sent in one transaction, which is committed."""
    txn_id = await peer.declare()
    peer.send(payloads, TransactionalState(txn_id))
    count.start()
    await peer.fill()
    await peer.commit(txn_id)
    count.stop()


async def broker_drain_selector(peer: Peer, count: Count, payloads: list[bytes]) -> None:
    """A selector looks at two application properties and a field of the properties; all messages pass."""
    await broker_drain(peer, count, payloads)


async def broker_browse(peer: Peer, count: Count, payloads: list[bytes]) -> None:
    """The messages stay in the queue."""
    await broker_drain(peer, count, payloads)


async def broker_through_0_9_1(peer: Peer, count: Count, payloads: list[bytes]) -> None:
    await broker_through(peer, count, payloads)


BROKER_WORKLOADS: tuple[Workload, ...] = (
    *(broker_through, broker_fill, broker_drain, broker_fill_stored, broker_drain_stored),
    *(broker_fill_ttl, broker_drain_ttl, broker_fill_expiry, broker_fill_expiry_grouped),
    *(broker_fill_annotated, broker_browse, broker_fill_small_ids),
    *(broker_fill_transaction, broker_drain_selector, broker_through_0_9_1),
)

FIELDS: dict[Workload, dict[str, Any]] = {
    broker_fill_stored: {"durable": True},
    broker_drain_stored: {"durable": True},
    broker_fill_ttl: {"ttl": timedelta(hours=1)},
    broker_drain_ttl: {"ttl": timedelta(hours=1)},
    broker_fill_expiry: {"absolute_expiry_time": datetime(2100, 1, 1, tzinfo=UTC)},
    broker_fill_expiry_grouped: {"absolute_expiry_time": datetime(2100, 1, 1, tzinfo=UTC), "group_id": "g"},
    broker_fill_annotated: {"delivery_annotations": {"x-opt-lock-token": UUID(int=1)}, "reply_to_group_id": "g"},
}
"""What the messages of a workload have in addition."""

SOURCES: dict[Workload, Source] = {
    broker_browse: Source("q", distribution_mode="copy"),
    broker_drain_selector: Source(
        "q", filter={"s": Selector("region <> 'nowhere' AND attempt < 10 AND amqp.subject LIKE 'order.%'")}
    ),
}
"""What the receiver of a workload asks for, if it is more than the queue."""


def measure_broker(workload: Workload, backend: str) -> Count:
    """Return the steps of one run."""
    count = Count()
    further = FIELDS.get(workload, {})
    stored = further.get("durable", False)
    spoken = "1.0"
    if workload is broker_through_0_9_1:
        spoken, count.messages = "0-9-1", FEW
    if workload is broker_fill_small_ids:
        count.messages = SMALL
    payloads = [as_sent(each | further) for each in orders(count.messages)]
    vars(anyio.to_thread)["run_sync"] = _at_once

    async def run(store: Path | None) -> None:
        async with Broker(None, store=store, queues=["q"]) as broker:
            peer = Peer(broker, count, spoken)
            await peer.attach(SOURCES.get(workload, Source("q")))
            await workload(peer, count, payloads)

    with tempfile.TemporaryDirectory() as folder:
        anyio.run(run, Path(folder, "store") if stored else None, backend=backend)
    return count


async def _at_once(call: Callable[..., Any], *arguments: Any, **_: Any) -> Any:
    """Call a function where else a thread would."""
    await anyio.lowlevel.checkpoint()
    return call(*arguments)
