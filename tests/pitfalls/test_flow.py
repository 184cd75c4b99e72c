"""Faults that AMQP clients share: windows, credit, drain. The names of the tests begin with the number of the fault."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import anyio
import pytest

from amqp10.broker import Broker
from amqp10.client import Connection
from amqp10.messaging import ACCEPTED, Message
from amqp10.testing import Disposition, EnginePair, Flow, Transfer

from ..kit.client.memory_peer import MemoryPeer

pytestmark = pytest.mark.anyio


@pytest.mark.in_memory
async def test_01_one_counter_for_transfers_and_deliveries(memory_peer: MemoryPeer) -> None:
    """A message of many frames takes its places in the window and one delivery-id, then the next message the next."""
    async with anyio.create_task_group() as tasks:

        async def serve() -> None:
            await memory_peer.accept_connection(max_frame_size=512)
            await memory_peer.accept_session(incoming_window=3)
            link = await memory_peer.accept_link()
            await memory_peer.grant(10, handle=link.handle, incoming_window=3)
            frames = [await memory_peer.expect(Transfer) for _ in range(3)]
            assert [frame.delivery_id for frame in frames] == [0, None, None]
            await memory_peer.send(Flow(next_incoming_id=3, incoming_window=3, next_outgoing_id=0, outgoing_window=9))
            assert not (await memory_peer.expect(Transfer, delivery_id=None)).more
            await memory_peer.expect(Transfer, delivery_id=1)
            await memory_peer.send(Disposition(role=True, first=0, last=1, settled=True, state=ACCEPTED))
            await memory_peer.accept_close()

        tasks.start_soon(serve)
        async with Connection(memory_peer.url) as connection, connection.sender("q") as sender:
            await sender.send_many([bytes(1500), b"next"])


@pytest.mark.parametrize("first_id", [2**32 - 4, 2**31 - 2])
@pytest.mark.in_memory
async def test_02_ids_start_just_below_the_wrap(memory_peer: MemoryPeer, first_id: int) -> None:
    """A peer whose transfer-ids and delivery-ids wrap is read and answered."""
    settled = anyio.Event()
    async with anyio.create_task_group() as tasks:

        async def serve() -> None:
            await memory_peer.accept_connection()
            await memory_peer.accept_session(next_outgoing_id=first_id)
            link = await memory_peer.accept_link(initial_delivery_count=first_id)
            await memory_peer.expect(Flow, handle=link.handle, delivery_count=lambda count: count in (None, first_id))
            for number in range(8):
                await memory_peer.send(
                    Transfer(handle=link.handle, delivery_id=(first_id + number) % 2**32, delivery_tag=bytes([number])),
                    Message(number).encode(),
                )
            seen = 0
            while seen < 8:
                told = await memory_peer.expect_any(Disposition, skip=Flow)
                assert (told.settled, told.state) == (True, ACCEPTED)
                assert told.first == (first_id + seen) % 2**32
                seen += ((told.last if told.last is not None else told.first) - told.first) % 2**32 + 1
            settled.set()
            await memory_peer.accept_close()

        tasks.start_soon(serve)
        async with Connection(memory_peer.url) as connection, connection.receiver("q", credit=100) as receiver:
            batch = await receiver.receive_batch(8, max_wait=5)
            while len(batch) < 8:
                batch += await receiver.receive_batch(8 - len(batch), max_wait=5)
            assert [delivery.message.body for delivery in batch] == list(range(8))
            for delivery in batch:
                delivery.accept()
            await settled.wait()


async def test_03_nobody_refreshes_the_session_window(amqp_broker: Broker) -> None:
    """More messages than the session window go through a link whose credit was granted once and for all."""
    async with Connection(amqp_broker.url, incoming_window=8) as connection:
        async with connection.sender("q") as sender:
            await sender.send_many(range(100))
        async with connection.receiver("q", credit=0) as receiver:
            receiver.add_credit(100)
            for number in range(100):
                assert (await receiver.receive()).message.body == number


async def test_04_one_unsettled_message_stalls_the_others(amqp_broker: Broker) -> None:
    """A receiver that settles nothing shares session and window with one that takes all."""
    async with Connection(amqp_broker.url, incoming_window=8) as connection:
        async with connection.sender("stuck") as stuck, connection.sender("busy") as busy:
            await stuck.send_many(range(20))
            await busy.send_many(range(200))
        async with connection.receiver("stuck", credit=20) as holder, connection.receiver("busy", credit=5) as taker:
            held = await holder.receive_batch(20, max_wait=1)
            for number in range(200):
                with await taker.receive() as message:
                    assert message.body == number
            assert len(held) == holder.unsettled == 20


@pytest.mark.in_memory
async def test_05_credit_is_granted_anew_with_each_settlement(memory_peer: MemoryPeer) -> None:
    """However the client tops up, no more than its credit is ever outstanding beyond what it has taken."""
    async with anyio.create_task_group() as tasks:

        async def serve() -> None:
            await memory_peer.accept_connection()
            await memory_peer.accept_session()
            link = await memory_peer.accept_link(initial_delivery_count=0)
            limit = (await memory_peer.expect(Flow, link_credit=10)).link_credit or 0
            sent = 0
            while sent < 50:
                while sent < limit:
                    frame = Transfer(handle=link.handle, delivery_id=sent, delivery_tag=b"%d" % sent)
                    await memory_peer.send(frame, Message(sent).encode())
                    sent += 1
                while limit == sent:
                    flow = await memory_peer.expect_any(Flow, skip=Disposition)
                    if flow.handle is not None:
                        limit = (flow.delivery_count or 0) + (flow.link_credit or 0)
                assert limit <= sent + 10
            await memory_peer.accept_close()

        tasks.start_soon(serve)
        async with Connection(memory_peer.url) as connection, connection.receiver("q", credit=10) as receiver:
            for _ in range(50):
                (await receiver.receive()).accept()


async def test_06_no_credit_after_the_link_is_attached_again(amqp_broker: Broker) -> None:
    """Each new link of the same address and name gets and gives credit of its own."""
    async with Connection(amqp_broker.url) as connection:
        for number in range(5):
            async with connection.sender("q", name="out") as sender:
                await sender.send(number)
            async with connection.receiver("q", name="in", credit=1) as receiver:
                delivery = await receiver.receive()
                assert delivery.message.body == number
                delivery.accept()


async def test_07_drain_returns_and_leaves_the_link_usable(amqp_broker: Broker) -> None:
    """On an empty queue, and again with messages."""
    async with Connection(amqp_broker.url) as connection:
        async with connection.receiver("q", credit=0) as receiver, connection.sender("q") as sender:
            for number in range(3):
                receiver.add_credit(5)
                await receiver.drain()
                assert await receiver.receive_batch(10, max_wait=0) == []
                await sender.send(number)
                receiver.add_credit(1)
                delivery = await receiver.receive()
                assert delivery.message.body == number
                delivery.accept()


@pytest.mark.in_memory
async def test_22_a_disposition_for_each_message(memory_peer: MemoryPeer) -> None:
    """A batch that is accepted at once is told at once, as one range."""
    told = anyio.Event()
    async with anyio.create_task_group() as tasks:

        async def serve() -> None:
            await memory_peer.accept_connection()
            await memory_peer.accept_session()
            link = await memory_peer.accept_link(initial_delivery_count=0)
            await memory_peer.expect(Flow)
            for number in range(20):
                frame = Transfer(handle=link.handle, delivery_id=number, delivery_tag=b"%d" % number)
                await memory_peer.send(frame, Message(number).encode())
            disposition = await memory_peer.expect_any(Disposition, skip=Flow)
            assert (disposition.first, disposition.last, disposition.settled, disposition.state) == (
                0,
                19,
                True,
                ACCEPTED,
            )
            told.set()
            await memory_peer.accept_close()

        tasks.start_soon(serve)
        async with Connection(memory_peer.url) as connection, connection.receiver("q", credit=20) as receiver:
            batch = await receiver.receive_batch(20, max_wait=5)
            assert len(batch) == 20
            for delivery in batch:
                delivery.accept()
            await told.wait()


async def test_24_large_messages(amqp_broker: Broker) -> None:
    """Ten times the window in frames, both ways, whole."""
    body = bytes(range(256)) * 4000
    async with Connection(amqp_broker.url, max_frame_size=4096, incoming_window=16) as connection:
        async with connection.sender("q") as sender, connection.receiver("q") as receiver:
            await sender.send(body)
            delivery = await receiver.receive()
            assert delivery.message.body == body
            delivery.accept()


def test_23_memory_grows_with_links_that_are_gone() -> None:
    """A link that both sides have closed is not kept by the engine, nor are its deliveries."""
    pair = EnginePair()
    pair.open()
    gone: list[weakref.ref[Any]] = []
    for number in range(20):
        sender, receiver = pair.attach(f"q{number}", credit=1)
        sent = sender.send(b"x")
        pair.run()
        receiver.settle(receiver.incoming.popleft(), ACCEPTED)
        sender.detach()
        pair.run()
        gone += [weakref.ref(sender), weakref.ref(receiver)]
        pair.client_events.clear()
        pair.server_events.clear()
    del sender, receiver, sent
    gc.collect()
    assert [ref() for ref in gone] == [None] * 40


def test_23_memory_grows_with_sessions_that_are_gone() -> None:
    """The same for sessions."""
    pair = EnginePair()
    pair.open()
    gone: list[weakref.ref[Any]] = []
    for _ in range(10):
        mine, theirs = pair.begin()
        mine.end()
        pair.run()
        gone += [weakref.ref(mine), weakref.ref(theirs)]
        pair.client_events.clear()
        pair.server_events.clear()
    del mine, theirs
    gc.collect()
    assert [ref() for ref in gone] == [None] * 20
